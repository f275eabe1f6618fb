//! etcd's command line, as far as its stand-in needs it.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

#[derive(Debug, PartialEq, Eq)]
pub struct Settings {
    pub data_dir: PathBuf,
    /// For clients.
    pub listen: Vec<SocketAddr>,
    /// Whether writes reach the disk before they are acknowledged.
    pub sync: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    Run(Settings),
    Help,
    Version,
}

const USED: [(&str, &str); 3] = [
    ("data-dir", "Directory for objects [default: default.etcd]"),
    ("listen-client-urls", "http:// URLs on loopback to answer at [default: http://localhost:2379]"),
    ("unsafe-no-fsync", "Do not wait for the disk: a crash of the machine may lose what was written last"),
];

/// Of a cluster's member and of its tuning: there is one member, and nothing to tune.
const NO_EFFECT: [&str; 34] = [
    "advertise-client-urls",
    "auto-compaction-mode",
    "auto-compaction-retention",
    "election-timeout",
    "experimental-initial-corrupt-check",
    "experimental-watch-progress-notify-interval",
    "feature-gates",
    "force-new-cluster",
    "heartbeat-interval",
    "initial-advertise-peer-urls",
    "initial-cluster",
    "initial-cluster-state",
    "initial-cluster-token",
    "listen-metrics-urls",
    "listen-peer-urls",
    "log-format",
    "log-level",
    "log-outputs",
    "logger",
    "max-concurrent-streams",
    "max-learners",
    "max-request-bytes",
    "max-snapshots",
    "max-txn-ops",
    "max-wals",
    "metrics",
    "name",
    "pre-vote",
    "quota-backend-bytes",
    "snapshot-count",
    "socket-reuse-address",
    "strict-reconfig-check",
    "wal-dir",
    "watch-progress-notify-interval",
];

/// Go's flag package has no separate value for these.
const SWITCHES: [&str; 9] = [
    "unsafe-no-fsync",
    "force-new-cluster",
    "experimental-initial-corrupt-check",
    "pre-vote",
    "socket-reuse-address",
    "strict-reconfig-check",
    "help",
    "h",
    "version",
];

/// What keeps others out of a real etcd: without it this one must not run as if it had it.
const REFUSED: [&str; 14] = [
    "auth-token",
    "auto-tls",
    "cert-file",
    "cipher-suites",
    "client-cert-allowed-hostname",
    "client-cert-auth",
    "client-crl-file",
    "cors",
    "host-whitelist",
    "key-file",
    "peer-auto-tls",
    "peer-cert-file",
    "peer-client-cert-auth",
    "trusted-ca-file",
];

pub fn parse(args: impl Iterator<Item = String>) -> Result<Asked, String> {
    let mut settings = Settings { data_dir: "default.etcd".into(), listen: Vec::new(), sync: true };
    let mut urls = "http://localhost:2379".to_owned();
    let mut args = args.filter(|arg| !arg.is_empty());
    while let Some(arg) = args.next() {
        let Some(flag) = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-')) else {
            return Err(format!("{arg:?} is not a valid flag"));
        };
        let (name, value) = flag.split_once('=').map_or((flag, None), |(n, v)| (n, Some(v.to_owned())));
        let known = USED.iter().any(|(used, _)| *used == name) || NO_EFFECT.contains(&name);
        if REFUSED.contains(&name) {
            return Err(format!(
                "--{name} is not supported: this is a stand-in for tests, without TLS, on loopback only"
            ));
        }
        if !known && !SWITCHES.contains(&name) {
            return Err(format!("flag provided but not defined: -{name}"));
        }
        let value = match value {
            Some(value) => value,
            None if SWITCHES.contains(&name) => "true".to_owned(),
            None => args.next().ok_or_else(|| format!("flag needs an argument: -{name}"))?,
        };
        match name {
            "help" | "h" => return Ok(Asked::Help),
            "version" => return Ok(Asked::Version),
            "data-dir" => settings.data_dir = value.into(),
            "listen-client-urls" => urls = value,
            "unsafe-no-fsync" => {
                settings.sync = !matches!(&*value, "true" | "1" | "t" | "T" | "TRUE" | "True")
            }
            _ => {}
        }
    }
    for url in urls.split(',').map(str::trim).filter(|url| !url.is_empty()) {
        settings.listen.push(address(url)?);
    }
    Ok(Asked::Run(settings))
}

fn address(url: &str) -> Result<SocketAddr, String> {
    let host = url.strip_prefix("http://").filter(|host| !host.contains('/'));
    let host =
        host.ok_or_else(|| format!("--listen-client-urls {url} is not supported: use http://IP:PORT"))?;
    let found = host.to_socket_addrs().ok().and_then(|mut found| found.next());
    let found = found.ok_or_else(|| format!("--listen-client-urls {url} is not an address"))?;
    if !found.ip().is_loopback() {
        return Err(format!(
            "--listen-client-urls {url} is not supported: this is a stand-in for tests, on loopback only"
        ));
    }
    Ok(found)
}

/// Every flag on a line of its own: envtest looks for `--unsafe-no-fsync`.
pub fn help() -> String {
    let mut out = "Setpoint as etcd: a stand-in for tests with controller-runtime's envtest. It is healthy at once and tells the\n\
                   kube-apiserver beside it to store objects in its data directory; it does not speak etcd's protocol.\n\n\
                   Usage:\n  etcd [flags]\n\nFlags:\n"
        .to_owned();
    for (name, help) in USED {
        out.push_str(&format!("  --{name:<45} {help}\n"));
    }
    out.push_str("\nFlags without effect:\n");
    NO_EFFECT.iter().for_each(|name| out.push_str(&format!("  --{name}\n")));
    out.push_str("\nNot supported, for there is no TLS:\n");
    out.push_str(&format!("  {}\n", REFUSED.join(", ")));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(args: &[&str]) -> Result<Asked, String> {
        parse(args.iter().map(|arg| (*arg).to_owned()))
    }

    #[test]
    fn the_flags_of_envtest_are_understood() {
        let args = [
            "--advertise-client-urls=http://127.0.0.1:4001",
            "--data-dir=/tmp/x",
            "--listen-client-urls=http://127.0.0.1:4001",
            "--listen-peer-urls=http://127.0.0.1:4002",
            "--unsafe-no-fsync=true",
        ];
        let listen = vec![([127, 0, 0, 1], 4001).into()];
        let expected = Settings { data_dir: "/tmp/x".into(), listen, sync: false };
        assert_eq!(asked(&args).unwrap(), Asked::Run(expected));
        assert!(help().lines().any(|line| line.trim_start().starts_with("--unsafe-no-fsync ")));
    }

    #[test]
    fn tls_other_addresses_and_unknown_flags_are_refused() {
        for (args, why) in [
            (&["--cert-file=x"][..], "--cert-file is not supported"),
            (&["--client-cert-auth"], "--client-cert-auth is not supported"),
            (&["--listen-client-urls=http://0.0.0.0:1"], "on loopback only"),
            (&["--listen-client-urls=https://127.0.0.1:1"], "use http://IP:PORT"),
            (&["--no-such-flag"], "flag provided but not defined: -no-such-flag"),
        ] {
            assert!(asked(args).unwrap_err().contains(why), "{args:?}");
        }
    }
}
