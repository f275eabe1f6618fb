//! What `setpoint up` and `setpoint node` say about a node in the same words: flags, their checks, the node's directory.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Arg, ArgAction, ArgMatches};
use kubelet::config::Config;
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

/// A `KubeletConfiguration`, as the flag names it.
pub fn with_file(config: Config, flag: &str, file: &Path) -> Result<Config> {
    let bytes = std::fs::read(file).with_context(|| format!("--{flag}: cannot read {}", file.display()))?;
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let directory = absolute.parent().unwrap_or(Path::new("/"));
    config.with_file_in(&bytes, directory).map_err(|error| anyhow!("--{flag} {}: {error}", file.display()))
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
    if config.shutdown_grace_period > Duration::ZERO {
        tracing::warn!(
            "shutdownGracePeriod is set: pods end in the order of their priority when this process gets SIGPWR, and only then; have the \
             machine send it before it goes down, see docs/nodes.md"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
