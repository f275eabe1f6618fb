//! The files of a pod that its containers see where their mounts name no others: hostname, hosts, resolv.conf.

use std::fmt::Write;
use std::io;
use std::path::Path;

use container::disk_usage::{self, Usage};

/// Name and place in a container.
pub const ALL: [(&str, &str); 3] =
    [("hostname", "/etc/hostname"), ("hosts", "/etc/hosts"), ("resolv.conf", "/etc/resolv.conf")];

pub fn write(
    directory: &Path,
    config: &cri::PodSandboxConfig,
    own_network: bool,
    node: &str,
) -> io::Result<()> {
    let hostname = if own_network || !config.hostname.is_empty() { &config.hostname } else { node };
    write_one(directory, "hostname", format!("{hostname}\n").as_bytes())?;
    // The machine's own, if it has any.
    write_one(directory, "hosts", &std::fs::read("/etc/hosts").unwrap_or_default())?;
    let resolv = match &config.dns_config {
        Some(dns) if !(dns.servers.is_empty() && dns.searches.is_empty() && dns.options.is_empty()) => {
            resolv_conf(dns).into_bytes()
        }
        _ => std::fs::read("/etc/resolv.conf").unwrap_or_default(),
    };
    write_one(directory, "resolv.conf", &resolv)
}

/// Containers may write to them as much as they like.
pub fn usage(directory: &Path) -> Usage {
    ALL.iter().map(|(name, _)| disk_usage::of_one(&directory.join(name))).sum()
}

/// For every user of a container, whatever this process makes files for.
fn write_one(directory: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let path = directory.join(name);
    std::fs::write(&path, content)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644))
}

fn resolv_conf(dns: &cri::DNSConfig) -> String {
    let mut text = String::new();
    if !dns.searches.is_empty() {
        let _ = writeln!(text, "search {}", dns.searches.join(" "));
    }
    for server in &dns.servers {
        let _ = writeln!(text, "nameserver {server}");
    }
    if !dns.options.is_empty() {
        let _ = writeln!(text, "options {}", dns.options.join(" "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_containers_write_to_them_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &cri::PodSandboxConfig::default(), true, "node").unwrap();
        assert!(usage(folder.path()).inodes == 3 && usage(folder.path()).bytes < 1 << 20);
        for (name, _) in ALL {
            let before = usage(folder.path()).bytes;
            std::fs::write(folder.path().join(name), vec![1; 1 << 20]).unwrap();
            assert!(usage(folder.path()).bytes > before + (1 << 19), "{name}");
        }
    }

    #[test]
    fn resolv_conf_has_what_is_asked_for() {
        let dns = cri::DNSConfig {
            servers: vec!["10.96.0.10".to_owned(), "fd00::a".to_owned()],
            searches: vec!["default.svc.cluster.local".to_owned(), "svc.cluster.local".to_owned()],
            options: vec!["ndots:5".to_owned()],
        };
        assert_eq!(
            resolv_conf(&dns),
            "search default.svc.cluster.local svc.cluster.local\nnameserver 10.96.0.10\nnameserver fd00::a\noptions ndots:5\n"
        );
    }
}
