//! Kernel parameters of the pod: only those that are its namespaces' own, never the host's.

use std::path::Path;

use crate::config::PodConfig;
use crate::start::{Context, StartError};

/// Besides `fs.mqueue.*`.
const OF_IPC: [&str; 8] =
    ["msgmax", "msgmnb", "msgmni", "sem", "shm_rmid_forced", "shmall", "shmmax", "shmmni"];

pub fn set(config: &PodConfig) -> Result<(), StartError> {
    for (name, value) in &config.sysctls {
        // The kernel's names have dots or slashes between their words, and no word that is empty or leads up.
        let words: Vec<&str> = name.split(['.', '/']).collect();
        if words.iter().any(|word| word.is_empty()) {
            return Err(StartError(format!("invalid sysctl {name:?}")));
        }
        check(config, name, &words)?;
        let path = Path::new("/proc/sys").join(words.join("/"));
        std::fs::write(&path, value).context(|| format!("failed to set sysctl {name} to {value:?}"))?;
    }
    Ok(())
}

/// In runc's words.
fn check(config: &PodConfig, name: &str, words: &[&str]) -> Result<(), StartError> {
    let (is_own, of_host) = match words {
        ["net", ..] => (config.own_network, "not allowed in host network namespace"),
        ["fs", "mqueue", ..] => (config.own_ipc, "not allowed in the hosts ipc namespace"),
        ["kernel", word] if OF_IPC.contains(word) => {
            (config.own_ipc, "not allowed in the hosts ipc namespace")
        }
        ["kernel", "domainname"] => (config.own_uts, "not allowed in the hosts uts namespace"),
        _ => (false, "is not in a separate kernel namespace"),
    };
    if is_own { Ok(()) } else { Err(StartError(format!("sysctl {name:?} {of_host}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_the_host_are_refused() {
        let own = PodConfig { own_network: true, own_ipc: true, own_uts: true, ..PodConfig::default() };
        for (name, allowed) in [
            ("net.ipv4.ip_forward", true),
            ("net/ipv4/conf/eth0.1/forwarding", true),
            ("kernel.shmmax", true),
            ("kernel.sem", true),
            ("fs.mqueue.msg_max", true),
            ("kernel.domainname", true),
            ("kernel.core_pattern", false),
            ("kernel.shm", false),
            ("vm.swappiness", false),
            ("fs.file-max", false),
            ("net", true),
        ] {
            let words: Vec<&str> = name.split(['.', '/']).collect();
            assert_eq!(check(&own, name, &words).is_ok(), allowed, "{name}");
            let refused = check(&PodConfig::default(), name, &words).unwrap_err();
            assert!(refused.0.starts_with(&format!("sysctl {name:?} ")), "{refused}");
        }
        for name in ["", ".", "net..ipv4", "../x", "net/../kernel/core_pattern"] {
            let config = PodConfig { sysctls: vec![(name.to_owned(), "1".to_owned())], ..own.clone() };
            assert!(set(&config).unwrap_err().0.starts_with("invalid sysctl"), "{name}");
        }
    }
}
