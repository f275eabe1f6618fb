//! Devices: those of every container, those that are asked for, or all of the machine.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use container::config::Device;
use cri::Error;

use crate::error::{Context, unknown};

/// Names below `/dev` that are the container's own, or no devices.
const OWN: [&str; 9] = ["pts", "shm", "fd", "mqueue", ".lxc", ".lxd-mounts", ".udev", "console", "ptmx"];
const MOST: usize = 10_000;

pub struct Devices {
    pub nodes: Vec<Device>,
    extra_rules: Vec<String>,
}

impl Devices {
    /// In the lines of cgroups of version 1.
    pub fn rules(&self) -> Vec<String> {
        let default = container::cgroup::devices::DEFAULT.into_iter().map(str::to_owned);
        default.chain(self.extra_rules.iter().cloned()).collect()
    }
}

pub fn of(config: &cri::ContainerConfig, privileged: bool) -> Result<Devices, Error> {
    let mut all = Devices { nodes: defaults(), extra_rules: Vec::new() };
    if privileged {
        for (path, device) in found(Path::new("/dev"))? {
            all.replace(Device { path, ..device });
        }
    }
    for asked in &config.devices {
        let host = Path::new(&asked.host_path);
        let devices = found(host)?;
        if devices.is_empty() {
            return Err(unknown(format!("{:?} is not a device", asked.host_path)));
        }
        for (path, device) in devices {
            let below = path.strip_prefix(host).unwrap_or(Path::new(""));
            let target = Path::new(&asked.container_path).join(below);
            let path =
                if below.as_os_str().is_empty() { PathBuf::from(&asked.container_path) } else { target };
            let kind = if device.block { 'b' } else { 'c' };
            let access = if asked.permissions.is_empty() { "rwm" } else { &asked.permissions };
            all.extra_rules.push(format!("{kind} {}:{} {access}", device.major, device.minor));
            all.replace(Device { path, ..device });
        }
    }
    Ok(all)
}

impl Devices {
    fn replace(&mut self, device: Device) {
        self.nodes.retain(|one| one.path != device.path);
        self.nodes.push(device);
    }
}

fn defaults() -> Vec<Device> {
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)]
        .map(|(name, major, minor)| Device {
            path: Path::new("/dev").join(name),
            block: false,
            major,
            minor,
            mode: 0o666,
        })
        .to_vec()
}

/// The device of this path, or all in the directories below it; links are not followed.
fn found(path: &Path) -> Result<Vec<(PathBuf, Device)>, Error> {
    let mut all = Vec::new();
    let mut open = vec![path.to_owned()];
    while let Some(path) = open.pop() {
        let failed = || format!("failed to look at device {:?}", path.display().to_string());
        let metadata = if all.is_empty() && open.is_empty() {
            std::fs::metadata(&path)
        } else {
            std::fs::symlink_metadata(&path)
        };
        let metadata = metadata.context(failed)?;
        if metadata.is_dir() {
            for entry in std::fs::read_dir(&path).context(failed)? {
                let entry = entry.context(failed)?;
                if !OWN.iter().any(|own| entry.file_name() == *own) {
                    open.push(entry.path());
                }
            }
        }
        let (kind, number) = (metadata.file_type(), metadata.rdev());
        if kind.is_char_device() || kind.is_block_device() {
            let device = Device {
                path: path.clone(),
                block: kind.is_block_device(),
                major: rustix::fs::major(number),
                minor: rustix::fs::minor(number),
                mode: metadata.mode() & 0o777,
            };
            all.push((path, device));
        }
        if all.len() + open.len() > MOST {
            return Err(unknown("too many devices"));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_given_under_another_name() {
        let asked = |host: &str, permissions: &str| cri::ContainerConfig {
            devices: vec![cri::Device {
                container_path: "/dev/own".to_owned(),
                host_path: host.to_owned(),
                permissions: permissions.to_owned(),
            }],
            ..Default::default()
        };
        let devices = of(&asked("/dev/zero", "r"), false).unwrap();
        let own = devices.nodes.iter().find(|one| one.path == Path::new("/dev/own")).unwrap();
        assert_eq!((own.block, own.major, own.minor), (false, 1, 5));
        assert_eq!(devices.rules().last().unwrap(), "c 1:5 r");
        assert!(of(&asked("/etc/passwd", ""), false).is_err());
        assert!(of(&asked("/no/such", ""), false).is_err());
        let all = of(&cri::ContainerConfig::default(), true).unwrap();
        assert!(all.nodes.iter().any(|one| one.path == Path::new("/dev/null")));
    }
}
