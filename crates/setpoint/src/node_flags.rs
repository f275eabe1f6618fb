//! What `setpoint up` and `setpoint node` say about a node in the same words: flags, their checks, the node's directory.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::{Arg, ArgAction, ArgMatches};
use kubelet::config::{Config, ConfigError, DropIn};
use kubelet::shutdown::Periods;
use node::machine::DEFAULT_LABELS;

/// How the node registers.
pub fn flags() -> [Arg; 3] {
    let text = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    [
        text(
            "node-ip",
            "IP[,IP]",
            "Address of the node, or one of each family [default: the source address of the default route]",
        )
        .default_value("")
        .hide_default_value(true),
        text("node-labels", "LABELS", "Labels to register the node with: key=value,...")
            .value_delimiter(',')
            .action(ArgAction::Append),
        text("register-with-taints", "TAINTS", "Taints to register the node with: key=value:effect,...")
            .value_delimiter(',')
            .action(ArgAction::Append),
    ]
}

/// All values of a flag that may be repeated.
pub fn texts(matches: &ArgMatches, name: &str) -> Vec<String> {
    let given = matches.get_many::<String>(name).into_iter().flatten();
    given.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).collect()
}

/// What of these the configuration holds, beside what its file says.
pub fn apply(matches: &ArgMatches, config: &mut Config) -> Result<()> {
    for label in texts(matches, "node-labels") {
        config.node_labels.push(label_of(&label)?);
    }
    for taint in texts(matches, "register-with-taints") {
        if kubelet::machine::taint::parse(&taint).is_none() {
            bail!(
                "--register-with-taints {taint} is not a taint: use key=value:NoSchedule, PreferNoSchedule or NoExecute"
            );
        }
        config.register_with_taints.push(taint);
    }
    Ok(())
}

fn label_of(text: &str) -> Result<(String, String)> {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    let valid = object::validate_text::qualified_name(key).is_empty()
        && object::validate_text::label_value(value).is_empty();
    if !valid {
        bail!("--node-labels {text} is not a label: use key=value");
    }
    let namespace = key.split_once('/').map_or("", |(namespace, _)| namespace);
    let below = |domain: &str| namespace == domain || namespace.ends_with(&format!(".{domain}"));
    let own = below("kubelet.kubernetes.io") || below("node.kubernetes.io") || DEFAULT_LABELS.contains(&key);
    if (below("kubernetes.io") || below("k8s.io")) && !own {
        bail!(
            "unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: [{key}]; --node-labels in the 'kubernetes.io' \
             namespace must begin with an allowed prefix (kubelet.kubernetes.io, node.kubernetes.io) or be in the specifically allowed \
             set ({})",
            DEFAULT_LABELS.join(", ")
        );
    }
    Ok((key.to_owned(), value.to_owned()))
}

/// `KubeletConfiguration`s, as the flags name them: a file, and a directory of drop-ins that are merged into it.
pub fn configured(config: Config, matches: &ArgMatches, flag: &str, dir_flag: &str) -> Result<Config> {
    let file = matches.get_one::<PathBuf>(flag);
    let directory = matches.get_one::<PathBuf>(dir_flag);
    if file.is_none() && directory.is_none() {
        return Ok(config.without_file());
    }
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let read = |flag: &str, file: &Path| {
        std::fs::read(file).with_context(|| format!("--{flag}: cannot read {}", file.display()))
    };
    let mut drop_ins = Vec::new();
    if let Some(directory) = directory {
        let mut paths = Vec::new();
        find_drop_ins(&absolute(directory), &mut paths)
            .with_context(|| format!("--{dir_flag}: cannot read {}", directory.display()))?;
        for path in paths {
            drop_ins.push(DropIn { bytes: read(dir_flag, &path)?, path });
        }
    }
    let base = file.map(|file| Ok::<_, anyhow::Error>((read(flag, file)?, absolute(file)))).transpose()?;
    let base = base.as_ref().map(|(bytes, path)| (&**bytes, path.parent().unwrap_or(Path::new("/"))));
    config.with_files(base, &drop_ins).map_err(|error| match (&error, file) {
        (ConfigError::DropIn { .. }, _) => anyhow!("--{dir_flag} {error}"),
        (_, Some(file)) if directory.is_none() => anyhow!("--{flag} {}: {error}", file.display()),
        (_, Some(_)) => anyhow!("--{flag} and --{dir_flag}: {error}"),
        (_, None) => anyhow!("--{dir_flag}: {error}"),
    })
}

/// Files called `*.conf`, in the order of their names; those of a directory where its name comes.
fn find_drop_ins(directory: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut entries = std::fs::read_dir(directory)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        if entry.file_type()?.is_dir() {
            find_drop_ins(&entry.path(), found)?;
        } else if entry.file_name().as_encoded_bytes().ends_with(b".conf") {
            found.push(entry.path());
        }
    }
    Ok(())
}

/// `--name`, or whatever the flag is called.
pub fn check_name(flag: &str, name: &str) -> Result<()> {
    if object::validate_text::dns1123_subdomain(name).is_empty() {
        return Ok(());
    }
    Err(anyhow!("--{flag} {name} is not a name for a node: use lower-case letters, digits, '-' and '.'"))
}

/// `--bridge`: also the name of an nftables table and of a cgroup, and the beginning of the names of pods' interfaces.
pub fn bridge(matches: &ArgMatches) -> Result<String> {
    let bridge = matches.get_one::<String>("bridge").cloned().unwrap_or_default();
    if bridge.is_empty() || bridge.len() > 11 || !bridge.bytes().all(|b| b.is_ascii_alphanumeric()) {
        bail!("--bridge {bridge} is not a name for a bridge: use up to 11 letters and digits");
    }
    Ok(bridge)
}

/// The path without links, as the kernel's table of mounts has it: what is mounted below a node's directory is found by it. Also of one
/// that is not there yet.
pub fn canonical(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut missing: Vec<OsString> = Vec::new();
    let mut existing = absolute.as_path();
    loop {
        if let Ok(found) = existing.canonicalize() {
            return missing.iter().rev().fold(found, |path, name| path.join(name));
        }
        let (Some(parent), Some(name)) = (existing.parent(), existing.file_name()) else { return absolute };
        missing.push(name.to_owned());
        existing = parent;
    }
}

/// There is nobody else to ask: a file of configuration that is set for it does nothing by itself.
pub fn warn_about_shutdown(config: &Config) {
    if ends_pods(config) {
        tracing::warn!(
            "shutdownGracePeriod or shutdownGracePeriodByPodPriority is set: pods end in the order of their priority when this process \
             gets SIGPWR, and only then; have the machine send it before it goes down, see docs/nodes.md"
        );
    }
}

/// Of both ways to say how long pods have when the machine goes down.
fn ends_pods(config: &Config) -> bool {
    !Periods::of(config).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shutdown_that_is_to_end_pods_is_warned_about_however_it_is_configured() {
        let ends_pods = |fields: &str| {
            let text =
                format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{fields}\n");
            let config = Config::new("n", std::path::PathBuf::from("/nowhere"));
            ends_pods(&config.with_file(text.as_bytes()).unwrap())
        };
        assert!(!ends_pods(""));
        assert!(ends_pods("shutdownGracePeriod: 30s"));
        assert!(ends_pods(
            "shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 30}]"
        ));
    }

    #[test]
    fn drop_ins_are_read_in_the_order_of_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, fields: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
            std::fs::write(&path, format!("{head}{fields}\n")).unwrap();
            path.display().to_string()
        };
        let base = write("kubelet.yaml", "maxPods: 1\npodsPerCore: 1\nport: 1001");
        write("d/10-a.conf", "maxPods: 2\npodsPerCore: 2\nport: 1002");
        write("d/20/b.conf", "maxPods: 3\npodsPerCore: 3");
        write("d/30.conf", "maxPods: 4");
        std::fs::write(folder.path().join("d/40.yaml"), "not read").unwrap();
        let directory = folder.path().join("d").display().to_string();
        let configured = |flags: &[&str]| {
            let args = ["setpoint", "node"].iter().chain(flags);
            let matches = crate::cli::command().try_get_matches_from(args).unwrap();
            let config = Config::new("n", "/nowhere".into());
            configured(config, matches.subcommand().unwrap().1, "config", "config-dir")
        };
        let of = |config: Config| (config.max_pods, config.pods_per_core, config.port);
        assert_eq!(of(configured(&["--config", &base]).unwrap()), (1, 1, 1001));
        let both = ["--config", &base, "--config-dir", &directory];
        assert_eq!(of(configured(&both).unwrap()), (4, 3, 1002));
        assert_eq!(of(configured(&["--config-dir", &directory]).unwrap()), (4, 3, 1002));
        assert!(!configured(&[]).unwrap().fail_swap_on, "nobody said anything");
        let refused = |flags: &[&str]| format!("{:#}", configured(flags).unwrap_err());
        let wrong = write("d/50.conf", "maxPodz: 5");
        assert!(refused(&both).contains(&format!("--config-dir {wrong}: strict decoding error")));
        assert!(refused(&["--config-dir", "/no/such"]).contains("--config-dir: cannot read /no/such"));
    }

    #[test]
    fn a_directory_behind_links_is_found_as_the_kernel_knows_it() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap().join("real place");
        std::fs::create_dir(&real).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert_eq!(canonical(&link.join("node")), real.join("node"));
        assert_eq!(canonical(&link.join("not/yet/there")), real.join("not/yet/there"));
        std::fs::create_dir(real.join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", real.join("node")).unwrap();
        assert_eq!(canonical(&link.join("node")), real.join("elsewhere"));
        assert_eq!(canonical(Path::new("/nowhere/at/all")), Path::new("/nowhere/at/all"));
    }
}
