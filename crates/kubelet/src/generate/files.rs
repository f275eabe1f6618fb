//! The small files of a pod that are not volumes: its hosts file, and where containers leave their last words.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use object::Value;
use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};

use crate::config::Config;
use crate::directories;
use crate::generate::hosts::{Hostname, host_network_hosts, managed_hosts};
use crate::generate::labels::log_directory;
use crate::generate::read::{flag, pod_directory, text};
use crate::pod_logs::PodLogs;

const NODE_HOSTS: &str = "/etc/hosts";
const MAX_VOLUME_FILE: u64 = 1 << 20;

/// Where a pod's hosts file is.
pub fn etc_hosts_path(config: &Config, uid: &str) -> PathBuf {
    pod_directory(config, uid).join("etc-hosts")
}

/// Writes it anew: addresses may have changed since the last container began. A pod that has none yet gets no file.
pub fn write_etc_hosts(config: &Config, pod: &Value, pod_ips: &[String]) -> io::Result<()> {
    let host_network = flag(pod, &["spec", "hostNetwork"]).unwrap_or(false);
    if pod_ips.is_empty() && !host_network {
        return Ok(());
    }
    let content = if host_network {
        host_network_hosts(pod, &fs::read(NODE_HOSTS)?)
    } else {
        let hostname = Hostname::of(pod, config).map_err(io::Error::other)?;
        managed_hosts(pod, &hostname, pod_ips).into_bytes()
    };
    let path = etc_hosts_path(config, text(pod, &["metadata", "uid"]));
    if let Some(directory) = path.parent() {
        directories::make(directory)?;
    }
    // In place: containers that run have this very file mounted.
    fs::write(&path, content)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644))
}

/// An empty file for one run of a container, which anyone in it may write; `None` if it has none. `id` tells runs apart.
pub fn create_termination_log(
    config: &Config,
    pod: &Value,
    container: &Value,
    id: u32,
) -> io::Result<Option<PathBuf>> {
    if text(container, &["terminationMessagePath"]).is_empty() {
        return Ok(None);
    }
    let directory = container_directory(config, text(pod, &["metadata", "uid"]), text(container, &["name"]));
    directories::make(&directory)?;
    let path = directory.join(format!("{id:08x}"));
    fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o666).open(&path)?;
    // Whatever the umask is.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666))?;
    Ok(Some(path))
}

/// Where what belongs to the runs of a container is.
pub fn container_directory(config: &Config, uid: &str, container: &str) -> PathBuf {
    pod_directory(config, uid).join("containers").join(container)
}

/// One for each pod and one for each of its containers, before the runtime writes there.
pub fn make_log_directory(config: &Config, pod: &Value, container: &str) -> io::Result<()> {
    PodLogs::of(config).make(&log_directory(Path::new(""), pod), container)
}

/// A file of a volume, at most a mebibyte of text; links in it lead nowhere but into the volume.
pub fn read_volume_file(volume: &Path, path: &str) -> Result<String, String> {
    let read = || -> io::Result<String> {
        let root = open(volume, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        // Not to wait for whoever may write to a pipe.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let path = path.trim_start_matches('/');
        let file = fs::File::from(openat2(&root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let mut content = String::new();
        file.take(MAX_VOLUME_FILE + 1).read_to_string(&mut content)?;
        if content.len() as u64 > MAX_VOLUME_FILE {
            return Err(io::Error::other("too large"));
        }
        Ok(content)
    };
    read()
        .map_err(|error| format!("failed to open environment variable file {}: {error}", object::quote(path)))
}

/// How often a container was started, by the logs it left: for one whose runs the runtime has forgotten, as over a reboot.
pub fn restart_count_of_logs(config: &Config, pod: &Value, container: &str) -> u32 {
    let directory = log_directory(&config.pod_logs_directory, pod).join(container);
    let names = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let count = |name: std::ffi::OsString| {
        let (number, _) = name.to_str()?.split_once(".log")?;
        number.parse::<u32>().ok()?.checked_add(1)
    };
    names.filter_map(count).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::testing::{pod, value};

    #[test]
    fn the_hosts_file_is_written_once_there_is_an_address() {
        let directory = tempfile::tempdir().unwrap();
        let config = Config::new("n", directory.path().to_owned());
        let web = pod("{}");
        write_etc_hosts(&config, &web, &[]).unwrap();
        assert!(!etc_hosts_path(&config, "1234").exists());
        write_etc_hosts(&config, &web, &["10.1.0.5".to_owned()]).unwrap();
        let written = fs::read_to_string(directory.path().join("pods/1234/etc-hosts")).unwrap();
        assert!(written.ends_with("\n10.1.0.5\tweb\n"), "{written}");
        let mode = fs::metadata(etc_hosts_path(&config, "1234")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
        write_etc_hosts(&config, &pod(r#"{"hostNetwork":true}"#), &[]).unwrap();
        let written = fs::read_to_string(etc_hosts_path(&config, "1234")).unwrap();
        assert!(written.starts_with("# Kubernetes-managed hosts file (host network).\n"), "{written}");
    }

    #[test]
    fn files_of_volumes_are_read_within_them() {
        let directory = tempfile::tempdir().unwrap();
        let volume = directory.path().join("volume");
        fs::create_dir_all(volume.join("etc")).unwrap();
        fs::write(directory.path().join("secret"), "no").unwrap();
        fs::write(volume.join("env"), "A='1'").unwrap();
        fs::write(volume.join("etc/passwd"), "inside").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", volume.join("absolute")).unwrap();
        std::os::unix::fs::symlink("../secret", volume.join("out")).unwrap();
        assert_eq!(read_volume_file(&volume, "env").as_deref(), Ok("A='1'"));
        assert_eq!(read_volume_file(&volume, "/env").as_deref(), Ok("A='1'"));
        assert_eq!(read_volume_file(&volume, "absolute").as_deref(), Ok("inside"));
        for outside in ["out", "../secret", "etc", "gone"] {
            assert!(read_volume_file(&volume, outside).is_err(), "{outside}");
        }
        fs::write(volume.join("large"), vec![b'x'; (1 << 20) + 1]).unwrap();
        assert!(read_volume_file(&volume, "large").is_err());
    }

    #[test]
    fn logs_tell_how_often_a_container_ran() {
        let directory = tempfile::tempdir().unwrap();
        let config = Config::new("n", directory.path().to_owned());
        let web = pod("{}");
        assert_eq!(restart_count_of_logs(&config, &web, "c"), 0);
        make_log_directory(&config, &web, "c").unwrap();
        let logs = directory.path().join("logs/shop_web_1234/c");
        for name in ["0.log", "3.log.20260101-000000.gz", "x.log", "99999999999.log"] {
            fs::write(logs.join(name), "").unwrap();
        }
        assert_eq!(restart_count_of_logs(&config, &web, "c"), 4);
    }

    #[test]
    fn a_container_with_a_message_path_has_a_file_for_each_run() {
        let directory = tempfile::tempdir().unwrap();
        let config = Config::new("n", directory.path().to_owned());
        let container = value(r#"{"name":"c","terminationMessagePath":"/dev/termination-log"}"#);
        let path = create_termination_log(&config, &pod("{}"), &container, 0xab).unwrap().unwrap();
        assert_eq!(path, directory.path().join("pods/1234/containers/c/000000ab"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
        let silent = value(r#"{"name":"c"}"#);
        assert_eq!(create_termination_log(&config, &pod("{}"), &silent, 1).unwrap(), None);
    }
}
