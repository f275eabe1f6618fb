//! Where objects are stored: by the stand-in for etcd that `setpoint envtest install` makes, or by a real etcd.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use codec::json;

use crate::etcd;

/// For each step of asking; a stand-in answers at once.
const PATIENCE: Duration = Duration::from_secs(2);
/// An answer is shorter.
const MAX_ANSWER: u64 = 64 << 10;

#[derive(Debug, PartialEq, Eq)]
pub enum Store {
    /// In the stand-in's data directory; `sync`: every write reaches the disk before it is acknowledged.
    StandIn { dir: PathBuf, sync: bool },
    /// Its URLs.
    Etcd(Vec<String>),
}

impl Store {
    /// Asks who is there.
    pub fn find(servers: &[String]) -> Result<Store> {
        let urls: Vec<&str> = servers.iter().flat_map(|list| list.split(',')).map(str::trim).collect();
        let urls: Vec<&str> = urls.into_iter().filter(|url| !url.is_empty()).collect();
        // Upstream's words.
        let first = urls.first().ok_or_else(|| anyhow!("--etcd-servers must be specified"))?;
        if let Some(address) = plain_address(first)
            && let Some(answer) = ask(address)
        {
            return StandIn::parse(&answer)?.open();
        }
        Ok(Store::Etcd(urls.into_iter().map(str::to_owned).collect()))
    }

    /// The value of `setpoint server --store`.
    pub fn flag(&self) -> String {
        match self {
            Store::StandIn { .. } => "disk".to_owned(),
            Store::Etcd(urls) => format!("etcd:{}", urls.join(",")),
        }
    }

    pub fn is_synced(&self) -> bool {
        !matches!(self, Store::StandIn { sync: false, .. })
    }
}

/// The address of a URL without TLS.
fn plain_address(url: &str) -> Option<SocketAddr> {
    let host = url.strip_prefix("http://").unwrap_or(url);
    if host.contains("://") {
        return None;
    }
    host.split('/').next()?.to_socket_addrs().ok()?.next()
}

/// The body of the stand-in's answer; `None`: something else is there, or nothing yet.
fn ask(address: SocketAddr) -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    let request =
        format!("GET {} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n", etcd::STORE_PATH);
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer).ok()?;
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    answer.starts_with(b"HTTP/1.1 200").then(|| answer.split_off(end + 4))
}

struct StandIn {
    dir: PathBuf,
    token: String,
    sync: bool,
}

impl StandIn {
    fn parse(body: &[u8]) -> Result<StandIn> {
        let value = json::parse(body, None).map_err(|error| anyhow!("--etcd-servers: {error}"))?;
        let text = |name: &str| value.get(name).and_then(|v| v.as_str()).unwrap_or_default().to_owned();
        let sync = value.get("sync").and_then(|v| v.as_bool()).unwrap_or(true);
        Ok(StandIn { dir: text("dataDir").into(), token: text("token"), sync })
    }

    /// Only a directory that the one who answered has written to, as the same user: a stranger on the port cannot name another.
    fn open(self) -> Result<Store> {
        let path = self.dir.join(etcd::TOKEN_FILE);
        let why = || format!("--etcd-servers: cannot read {}", path.display());
        let mut file = File::open(&path).with_context(why)?;
        let owner = file.metadata().with_context(why)?.uid();
        if owner != rustix::process::geteuid().as_raw() {
            bail!("--etcd-servers: {} belongs to another user", path.display());
        }
        let mut found = String::new();
        file.read_to_string(&mut found).with_context(why)?;
        if self.token.is_empty() || found != self.token || !is_absolute(&self.dir) {
            bail!("--etcd-servers: who answers there does not own {}", self.dir.display());
        }
        Ok(Store::StandIn { dir: self.dir, sync: self.sync })
    }
}

fn is_absolute(dir: &Path) -> bool {
    dir.is_absolute() && dir.components().all(|part| !matches!(part, std::path::Component::ParentDir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_of_a_directory_can_name_it() {
        let dir = tempfile::tempdir().unwrap();
        let stand_in = |token: &str| {
            let body = format!(r#"{{"dataDir":"{}","token":"{token}","sync":false}}"#, dir.path().display());
            StandIn::parse(body.as_bytes()).unwrap().open()
        };
        assert!(stand_in("t").unwrap_err().to_string().contains("cannot read"));
        std::fs::write(dir.path().join(etcd::TOKEN_FILE), "t").unwrap();
        assert_eq!(stand_in("t").unwrap(), Store::StandIn { dir: dir.path().into(), sync: false });
        for wrong in ["other", ""] {
            assert!(stand_in(wrong).unwrap_err().to_string().contains("does not own"), "{wrong}");
        }
    }

    #[test]
    fn tls_is_a_real_etcds() {
        assert_eq!(plain_address("https://127.0.0.1:1"), None);
        assert_eq!(plain_address("http://127.0.0.1:1/"), Some(([127, 0, 0, 1], 1).into()));
        assert!(Store::find(&[]).unwrap_err().to_string().contains("must be specified"));
    }
}
