//! `--store`: memory, disk or etcd.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use env::Env;
use store::{DiskEngine, DiskOptions, Engine, MemoryEngine};
use table::Table;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreChoice {
    Memory,
    Disk,
    Etcd(Vec<String>),
}

impl StoreChoice {
    pub fn parse(text: &str) -> Result<StoreChoice> {
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
                Ok(StoreChoice::Etcd(urls))
            }
        }
    }

    /// Opens the store and loads it into the table.
    pub async fn open(&self, data_dir: &Path, env: &Env, table: &Arc<Table>) -> Result<Arc<dyn Engine>> {
        match self {
            StoreChoice::Memory => Ok(MemoryEngine::open(table.clone())),
            StoreChoice::Disk => {
                let dir = data_dir.join("store");
                Ok(DiskEngine::open(&dir, table.clone(), DiskOptions::default())?)
            }
            StoreChoice::Etcd(urls) => {
                let engine =
                    store_etcd::EtcdEngine::connect(urls.clone(), "/registry/".into(), env.clone(), table.clone())
                        .await
                        .with_context(|| {
                            format!(
                                "cannot use etcd at {}; start it there, or name another address with --store etcd:URL",
                                urls.join(",")
                            )
                        })?;
                Ok(engine)
            }
        }
    }

    /// Whether a store that cannot commit any more stays so: a failed disk does, an etcd may come back.
    pub fn fails_for_good(&self) -> bool {
        !matches!(self, StoreChoice::Etcd(_))
    }

    pub fn describe(&self, data_dir: &Path) -> String {
        match self {
            StoreChoice::Memory => "in memory; gone when the server stops".into(),
            StoreChoice::Disk => format!("on disk in {}", data_dir.join("store").display()),
            StoreChoice::Etcd(urls) => format!("in etcd at {}", urls.join(",")),
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

    #[test]
    fn stores_are_named_clearly() {
        assert_eq!(StoreChoice::parse("disk").unwrap(), StoreChoice::Disk);
        let etcd = StoreChoice::parse("etcd:http://a:1,http://b:2").unwrap();
        assert_eq!(etcd, StoreChoice::Etcd(vec!["http://a:1".into(), "http://b:2".into()]));
        for wrong in ["", "disc", "etcd:", "etcd"] {
            assert!(
                StoreChoice::parse(wrong).unwrap_err().to_string().contains("use memory, disk"),
                "{wrong}"
            );
        }
    }
}
