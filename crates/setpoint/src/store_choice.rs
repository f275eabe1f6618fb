//! `--store`: memory, disk or etcd.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use env::Env;
use store::{DiskEngine, DiskOptions, Engine, MemoryEngine, State};
use store_etcd::{ConnectError, TlsFiles};
use table::Table;

/// In the data directory: how far etcd was.
pub const ETCD_MARK: &str = "etcd-revision";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreChoice {
    Memory,
    Disk,
    Etcd { urls: Vec<String>, tls: Option<TlsFiles> },
}

/// The flags that name files for TLS to etcd, with upstream's names.
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
                    "--etcd-cafile, --etcd-certfile and --etcd-keyfile are for --store etcd:https://HOST:PORT; leave them out"
                );
            }
            return Ok(choice);
        };
        let client = match (files.certificate, files.key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => bail!("--etcd-certfile and --etcd-keyfile belong together: give both, or neither"),
        };
        let tls = match files.ca {
            Some(ca) => Some(TlsFiles { ca, client }),
            None if client.is_some() || urls.iter().any(|u| u.starts_with("https://")) => {
                bail!("etcd over TLS needs --etcd-cafile FILE: the authority that signed etcd's certificate")
            }
            None => None,
        };
        if tls.is_some() && !urls.iter().all(|u| u.starts_with("https://")) {
            bail!(
                "with --etcd-cafile every address of etcd must begin with https://; --store says etcd:{}",
                urls.join(",")
            );
        }
        Ok(StoreChoice::Etcd { urls, tls })
    }

    /// Other servers may stand on the same objects.
    pub fn is_shared(&self) -> bool {
        matches!(self, StoreChoice::Etcd { .. })
    }

    fn parse_name(text: &str) -> Result<StoreChoice> {
        match text {
            "memory" => Ok(StoreChoice::Memory),
            "disk" => Ok(StoreChoice::Disk),
            other => {
                let urls: Vec<String> = other
                    .strip_prefix("etcd:")
                    .map(|urls| urls.split(',').filter(|u| !u.is_empty()).map(str::to_owned).collect())
                    .unwrap_or_default();
                if urls.is_empty() {
                    bail!(
                        "--store {other} is not known: use memory, disk, or etcd:URL such as etcd:http://127.0.0.1:2379"
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
            StoreChoice::Disk => {
                let dir = data_dir.join("store");
                let options =
                    DiskOptions { before_waiting: crate::memory::give_back_own, ..DiskOptions::default() };
                let engine = DiskEngine::open(&dir, table.clone(), options)?;
                if let Some(unreadable) = table.unreadable() {
                    engine.close().await;
                    bail!(
                        "cannot use the store in {}: {unreadable}; if a newer version of setpoint wrote it, start that one \
                         again; otherwise restore a backup (setpoint restore), or name another directory with --data-dir",
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
                    high_water_mark: Some(data_dir.join(ETCD_MARK)),
                };
                let hint = match tls {
                    None => "start it there, or name another address with --store etcd:URL",
                    Some(_) => {
                        "start it there, and see that --etcd-cafile holds the authority of its certificate and that it \
                         trusts the one in --etcd-certfile"
                    }
                };
                let engine = store_etcd::EtcdEngine::connect_with(options, env.clone(), table.clone()).await;
                let at = urls.join(",");
                match engine {
                    Ok(engine) => Ok(engine),
                    // The error itself says how to fix it.
                    Err(error @ ConnectError::WentBack(_)) => bail!("cannot use etcd at {at}: {error}"),
                    Err(ConnectError::Unreadable(unreadable)) => bail!(
                        "cannot use etcd at {at}: {unreadable}; name an etcd of its own with --store etcd:URL, or let \
                         kube-apiserver write its objects again with --storage-media-type=application/json, or delete \
                         with etcdctl what nobody needs"
                    ),
                    Err(error) => Err(error).with_context(|| format!("cannot use etcd at {at}; {hint}")),
                }
            }
        }
    }

    pub fn describe(&self, data_dir: &Path) -> String {
        match self {
            StoreChoice::Memory => "in memory; gone when the server stops".into(),
            StoreChoice::Disk => format!("on disk in {}", data_dir.join("store").display()),
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
    fn stores_are_named_clearly() {
        assert_eq!(parse("disk").unwrap(), StoreChoice::Disk);
        let etcd = parse("etcd:http://a:1,http://b:2").unwrap();
        let urls = vec!["http://a:1".into(), "http://b:2".into()];
        assert_eq!(etcd, StoreChoice::Etcd { urls, tls: None });
        for wrong in ["", "disc", "etcd:", "etcd"] {
            assert!(parse(wrong).unwrap_err().to_string().contains("use memory, disk"), "{wrong}");
        }
    }

    #[test]
    fn files_of_tls_come_together_and_only_with_etcd() {
        let files = |ca: bool, certificate: bool, key: bool| EtcdFiles {
            ca: ca.then(|| "ca".into()),
            certificate: certificate.then(|| "crt".into()),
            key: key.then(|| "key".into()),
        };
        let refused = |store: &str, files: EtcdFiles, why: &str| {
            let error = StoreChoice::parse(store, files).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        };
        refused("disk", files(true, false, false), "leave them out");
        refused("etcd:https://a:1", files(false, false, false), "needs --etcd-cafile");
        refused("etcd:https://a:1", files(true, true, false), "belong together");
        refused("etcd:https://a:1,http://b:1", files(true, false, false), "must begin with https://");
        let whole = StoreChoice::parse("etcd:https://a:1", files(true, true, true)).unwrap();
        let tls = Some(TlsFiles { ca: "ca".into(), client: Some(("crt".into(), "key".into())) });
        assert_eq!(whole, StoreChoice::Etcd { urls: vec!["https://a:1".into()], tls });
    }
}
