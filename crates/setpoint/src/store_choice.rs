//! `--store`: memory, disk or etcd.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use env::Env;
use store::{DiskEngine, DiskOptions, Engine, MemoryEngine, State};
use store_etcd::{ConnectError, TlsFiles};
use table::Table;

/// File in the data directory: the highest etcd revision seen.
pub const ETCD_REVISION_FILE: &str = "etcd-revision";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreChoice {
    Memory,
    /// `sync`: a write is on disk when it is acknowledged.
    Disk {
        sync: bool,
    },
    Etcd {
        urls: Vec<String>,
        tls: Option<TlsFiles>,
    },
}

/// The `--etcd-*file` flags, named as in kube-apiserver.
#[derive(Default)]
pub struct EtcdFiles {
    pub ca: Option<PathBuf>,
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

impl StoreChoice {
    pub fn parse(text: &str, files: EtcdFiles) -> Result<StoreChoice> {
        let choice = StoreChoice::parse_name(text)?;
        let StoreChoice::Etcd { urls, .. } = choice else {
            if files.ca.or(files.certificate).or(files.key).is_some() {
                bail!(
                    "--etcd-cafile, --etcd-certfile and --etcd-keyfile require --store etcd:https://HOST:PORT"
                );
            }
            return Ok(choice);
        };
        let client = match (files.certificate, files.key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => bail!("--etcd-certfile and --etcd-keyfile must be specified together"),
        };
        let tls = match files.ca {
            Some(ca) => Some(TlsFiles { ca, client }),
            None if client.is_some() || urls.iter().any(|u| u.starts_with("https://")) => {
                bail!("etcd over TLS requires --etcd-cafile FILE: the CA of etcd's serving certificate")
            }
            None => None,
        };
        if tls.is_some() && !urls.iter().all(|u| u.starts_with("https://")) {
            bail!(
                "with --etcd-cafile every etcd URL must start with https://; --store is etcd:{}",
                urls.join(",")
            );
        }
        Ok(StoreChoice::Etcd { urls, tls })
    }

    /// Whether other servers may use the same store.
    pub fn is_shared(&self) -> bool {
        matches!(self, StoreChoice::Etcd { .. })
    }

    fn parse_name(text: &str) -> Result<StoreChoice> {
        match text {
            "memory" => Ok(StoreChoice::Memory),
            "disk" => Ok(StoreChoice::Disk { sync: true }),
            other => {
                let urls: Vec<String> = other
                    .strip_prefix("etcd:")
                    .map(|urls| urls.split(',').filter(|u| !u.is_empty()).map(str::to_owned).collect())
                    .unwrap_or_default();
                if urls.is_empty() {
                    bail!(
                        "unknown --store {other}: use memory, disk, or etcd:URL such as etcd:http://127.0.0.1:2379"
                    );
                }
                Ok(StoreChoice::Etcd { urls, tls: None })
            }
        }
    }

    /// Opens the store and loads it into the table.
    pub async fn open(&self, data_dir: &Path, env: &Env, table: &Arc<Table>) -> Result<Arc<dyn Engine>> {
        match self {
            StoreChoice::Memory => Ok(MemoryEngine::open(table.clone())),
            StoreChoice::Disk { sync } => {
                let dir = data_dir.join("store");
                let options = DiskOptions {
                    before_waiting: crate::memory::collect_own,
                    sync: *sync,
                    ..DiskOptions::default()
                };
                let engine = DiskEngine::open(&dir, table.clone(), options)?;
                if let Some(unreadable) = table.unreadable() {
                    engine.close().await;
                    bail!(
                        "cannot use the store in {}: {unreadable}; if a newer version of setpoint wrote it, start that version \
                         again; otherwise restore a backup (setpoint restore), or choose another directory with --data-dir",
                        dir.display()
                    );
                }
                Ok(engine)
            }
            StoreChoice::Etcd { urls, tls } => {
                let config = tls.as_ref().map(TlsFiles::load).transpose().context(
                    "cannot set up TLS to etcd; check --etcd-cafile, --etcd-certfile and --etcd-keyfile",
                )?;
                let options = store_etcd::Options {
                    endpoints: urls.clone(),
                    prefix: "/registry/".into(),
                    tls: config,
                    high_water_mark: Some(data_dir.join(ETCD_REVISION_FILE)),
                };
                let hint = match tls {
                    None => "check that it is running, or choose another address with --store etcd:URL",
                    Some(_) => {
                        "check that it is running, that --etcd-cafile contains the CA of its certificate and that it \
                         trusts the certificate in --etcd-certfile"
                    }
                };
                let engine = store_etcd::EtcdEngine::connect_with(options, env.clone(), table.clone()).await;
                let at = urls.join(",");
                match engine {
                    Ok(engine) => Ok(engine),
                    // The error itself says how to fix it.
                    Err(error @ ConnectError::WentBack(_)) => bail!("cannot use etcd at {at}: {error}"),
                    Err(ConnectError::Unreadable(unreadable)) => bail!(
                        "cannot use etcd at {at}: {unreadable}; use a separate etcd with --store etcd:URL, or let \
                         kube-apiserver rewrite its objects with --storage-media-type=application/json, or delete \
                         unneeded keys with etcdctl"
                    ),
                    Err(error) => Err(error).with_context(|| format!("cannot use etcd at {at}; {hint}")),
                }
            }
        }
    }

    pub fn describe(&self, data_dir: &Path) -> String {
        match self {
            StoreChoice::Memory => "in memory; lost when the server stops".into(),
            StoreChoice::Disk { .. } => format!("on disk in {}", data_dir.join("store").display()),
            StoreChoice::Etcd { urls, .. } => format!("in etcd at {}", urls.join(",")),
        }
    }
}

/// `Err` while a server runs on the data directory.
pub fn check_unused(data_dir: &Path) -> Result<()> {
    let dir = data_dir.join("store");
    if dir.exists() {
        store::check_unused(&dir).map_err(anyhow::Error::from)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<StoreChoice> {
        StoreChoice::parse(text, EtcdFiles::default())
    }

    #[test]
    fn stores_are_parsed() {
        assert_eq!(parse("disk").unwrap(), StoreChoice::Disk { sync: true });
        let etcd = parse("etcd:http://a:1,http://b:2").unwrap();
        let urls = vec!["http://a:1".into(), "http://b:2".into()];
        assert_eq!(etcd, StoreChoice::Etcd { urls, tls: None });
        for wrong in ["", "disc", "etcd:", "etcd"] {
            assert!(parse(wrong).unwrap_err().to_string().contains("use memory, disk"), "{wrong}");
        }
    }

    #[test]
    fn etcd_tls_files_require_etcd_and_each_other() {
        let files = |ca: bool, certificate: bool, key: bool| EtcdFiles {
            ca: ca.then(|| "ca".into()),
            certificate: certificate.then(|| "crt".into()),
            key: key.then(|| "key".into()),
        };
        let refused = |store: &str, files: EtcdFiles, why: &str| {
            let error = StoreChoice::parse(store, files).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        };
        refused("disk", files(true, false, false), "require --store etcd:https://");
        refused("etcd:https://a:1", files(false, false, false), "requires --etcd-cafile");
        refused("etcd:https://a:1", files(true, true, false), "specified together");
        refused("etcd:https://a:1,http://b:1", files(true, false, false), "must start with https://");
        let whole = StoreChoice::parse("etcd:https://a:1", files(true, true, true)).unwrap();
        let tls = Some(TlsFiles { ca: "ca".into(), client: Some(("crt".into(), "key".into())) });
        assert_eq!(whole, StoreChoice::Etcd { urls: vec!["https://a:1".into()], tls });
    }
}
