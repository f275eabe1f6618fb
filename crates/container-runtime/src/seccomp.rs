//! System call filters: from profiles to programs of the kernel's.
//!
//! ```text
//! RuntimeDefault ── standard ─┐
//! Localhost ── profile (JSON) ┴─ Profile: names, conditions, actions ── compile ── classic BPF
//! ```

mod compile;
mod profile;
mod standard;
mod syscalls;

use std::collections::BTreeMap;
use std::sync::Arc;

use cri::{Error, ProfileType};
use parking_lot::Mutex;

use crate::error::{Context, unknown};

/// Programs that are kept: containers with the same capabilities share one.
const MOST_KEPT: usize = 64;
/// Profiles have a few tens of kilobytes.
const MOST_BYTES: u64 = 4 << 20;

/// The programs of containers, compiled once.
#[derive(Default)]
pub struct Filters {
    /// By capabilities; held for a few instructions.
    standard: Mutex<BTreeMap<Vec<String>, Arc<Vec<u8>>>>,
}

impl Filters {
    /// The program for a container, as the kernel takes it; empty: unconfined.
    pub fn of(&self, config: &cri::ContainerConfig, capabilities: &[String]) -> Result<Vec<u8>, Error> {
        let linux = config.linux.clone().unwrap_or_default();
        let context = linux.security_context.unwrap_or_default();
        let Some(asked) = context.seccomp.filter(|_| !context.privileged) else { return Ok(Vec::new()) };
        match asked.profile_type() {
            ProfileType::Unconfined => Ok(Vec::new()),
            ProfileType::RuntimeDefault => self.standard(capabilities),
            ProfileType::Localhost => {
                let path = asked.localhost_ref;
                let path = path.strip_prefix("localhost/").unwrap_or(&path);
                let failed = || format!("failed to load seccomp profile {path:?}");
                let size = std::fs::metadata(path).context(failed)?.len();
                if size > MOST_BYTES {
                    return Err(unknown(format!("{}: it is too large", failed())));
                }
                let profile = profile::read(&std::fs::read(path).context(failed)?).context(failed)?;
                compile::compile(&profile).context(failed)
            }
        }
    }

    fn standard(&self, capabilities: &[String]) -> Result<Vec<u8>, Error> {
        let mut key = capabilities.to_vec();
        key.sort();
        if let Some(program) = self.standard.lock().get(&key) {
            return Ok(program.to_vec());
        }
        let program = compile::compile(&standard::profile(&key))
            .context(|| "failed to generate seccomp spec opts".to_owned())?;
        let mut kept = self.standard.lock();
        if kept.len() >= MOST_KEPT {
            kept.pop_first();
        }
        kept.insert(key, Arc::new(program.clone()));
        Ok(program)
    }
}
