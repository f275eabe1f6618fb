//! What a container may do: capabilities, paths it does not see or change, profiles.

use std::path::PathBuf;

use cri::{Error, LinuxContainerSecurityContext};

use crate::error::unknown;

/// What every container has, as containerd and Docker give it.
const DEFAULT: [&str; 14] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FSETID",
    "CAP_FOWNER",
    "CAP_MKNOD",
    "CAP_NET_RAW",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETFCAP",
    "CAP_SETPCAP",
    "CAP_NET_BIND_SERVICE",
    "CAP_SYS_CHROOT",
    "CAP_KILL",
    "CAP_AUDIT_WRITE",
];

/// All the kernel knows, in its order.
const ALL: [&str; 41] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_DAC_READ_SEARCH",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETPCAP",
    "CAP_LINUX_IMMUTABLE",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_BROADCAST",
    "CAP_NET_ADMIN",
    "CAP_NET_RAW",
    "CAP_IPC_LOCK",
    "CAP_IPC_OWNER",
    "CAP_SYS_MODULE",
    "CAP_SYS_RAWIO",
    "CAP_SYS_CHROOT",
    "CAP_SYS_PTRACE",
    "CAP_SYS_PACCT",
    "CAP_SYS_ADMIN",
    "CAP_SYS_BOOT",
    "CAP_SYS_NICE",
    "CAP_SYS_RESOURCE",
    "CAP_SYS_TIME",
    "CAP_SYS_TTY_CONFIG",
    "CAP_MKNOD",
    "CAP_LEASE",
    "CAP_AUDIT_WRITE",
    "CAP_AUDIT_CONTROL",
    "CAP_SETFCAP",
    "CAP_MAC_OVERRIDE",
    "CAP_MAC_ADMIN",
    "CAP_SYSLOG",
    "CAP_WAKE_ALARM",
    "CAP_BLOCK_SUSPEND",
    "CAP_AUDIT_READ",
    "CAP_PERFMON",
    "CAP_BPF",
    "CAP_CHECKPOINT_RESTORE",
];

pub fn capabilities(context: &LinuxContainerSecurityContext) -> Result<Vec<String>, Error> {
    if context.privileged {
        return Ok(ALL.map(str::to_owned).to_vec());
    }
    let asked = context.capabilities.clone().unwrap_or_default();
    let is_all = |name: &String| name.eq_ignore_ascii_case("ALL");
    let mut all: Vec<&str> = DEFAULT.to_vec();
    if asked.add_capabilities.iter().any(is_all) {
        all = ALL.to_vec();
    }
    if asked.drop_capabilities.iter().any(is_all) {
        all.clear();
    }
    for name in asked.add_capabilities.iter().filter(|name| !is_all(name)) {
        let name = known(name)?;
        if !all.contains(&name) {
            all.push(name);
        }
    }
    for name in asked.drop_capabilities.iter().filter(|name| !is_all(name)) {
        let name = known(name)?;
        all.retain(|one| *one != name);
    }
    Ok(all.into_iter().map(str::to_owned).collect())
}

pub fn ambient(context: &LinuxContainerSecurityContext) -> Result<Vec<String>, Error> {
    let asked = context.capabilities.clone().unwrap_or_default().add_ambient_capabilities;
    asked.iter().map(|name| known(name).map(str::to_owned)).collect()
}

fn known(name: &str) -> Result<&'static str, Error> {
    let upper = name.to_ascii_uppercase();
    let short = upper.strip_prefix("CAP_").unwrap_or(&upper);
    let found = ALL.into_iter().find(|known| known.strip_prefix("CAP_") == Some(short));
    found.ok_or_else(|| unknown(format!("unknown capability \"CAP_{short}\"")))
}

/// Those that CRI names and no others: kubelet names the usual ones, and none for `procMount: Unmasked`. A privileged container has none.
pub fn masked_and_readonly_paths(context: &LinuxContainerSecurityContext) -> (Vec<PathBuf>, Vec<PathBuf>) {
    if context.privileged {
        return (Vec::new(), Vec::new());
    }
    let paths = |named: &[String]| named.iter().map(PathBuf::from).collect();
    (paths(&context.masked_paths), paths(&context.readonly_paths))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(add: &[&str], drop: &[&str]) -> Result<Vec<String>, Error> {
        let names = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
        capabilities(&LinuxContainerSecurityContext {
            capabilities: Some(cri::Capability {
                add_capabilities: names(add),
                drop_capabilities: names(drop),
                add_ambient_capabilities: Vec::new(),
            }),
            ..Default::default()
        })
    }

    #[test]
    fn capabilities_are_added_then_dropped() {
        assert_eq!(with(&[], &[]).unwrap(), DEFAULT);
        assert_eq!(with(&["NET_ADMIN"], &["ALL"]).unwrap(), ["CAP_NET_ADMIN"]);
        assert_eq!(with(&["cap_net_admin"], &["ALL", "NET_ADMIN"]).unwrap(), [] as [&str; 0]);
        assert_eq!(with(&["ALL"], &["MKNOD"]).unwrap().len(), ALL.len() - 1);
        assert_eq!(with(&["FLY"], &[]).unwrap_err().message, "unknown capability \"CAP_FLY\"");
    }

    #[test]
    fn paths_are_masked_as_named_and_never_for_privileged_containers() {
        let mut context = LinuxContainerSecurityContext::default();
        assert_eq!(masked_and_readonly_paths(&context), (vec![], vec![]));
        context.masked_paths = vec!["/proc/keys".to_owned()];
        context.readonly_paths = vec!["/proc/sys".to_owned()];
        let named = (vec![PathBuf::from("/proc/keys")], vec![PathBuf::from("/proc/sys")]);
        assert_eq!(masked_and_readonly_paths(&context), named);
        context.privileged = true;
        assert_eq!(masked_and_readonly_paths(&context), (vec![], vec![]));
    }
}
