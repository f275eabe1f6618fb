//! `setpoint image`: the images of the node of a data directory, whether it is running or not.
//!
//! ```text
//!  FILE ── import ─┐
//!  REGISTRY ─ pull ─┴─> DATA-DIR/node/images ── list, rm, prune
//! ```

mod list;

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use env::Env;
use image::{
    Credential, Digest, Image, ImportOptions, Keyring, Limits, Platform, Progress, PullOptions, Puller,
    Reference, Store, StoreError,
};

use crate::{cli, local_node, node};

/// Where containerd and its friends look for the settings of registries.
const REGISTRY_SETTINGS: &str = "/etc/containerd/certs.d";
/// A login for a registry is a few lines.
const MAX_LOGINS: u64 = 1 << 20;
/// The shortest part of an image's id that is taken for one.
const SHORTEST_ID: usize = 6;

pub fn command(data_dir: impl Fn() -> Arg) -> Command {
    Command::new("image")
        .about("Import, pull, list and remove the images of this machine's node")
        .long_about(
            "Import, pull, list and remove the images of this machine's node, in DATA-DIR/node/images. The node may be running, and \
             uses what it finds there (a machine that joined with `setpoint node` has its node in /var/lib/setpoint-node): a pod whose image was imported and whose imagePullPolicy is not Always needs no registry.",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("import")
                .about("Import images from an archive: the output of `docker save`, or an OCI layout in a tar")
                .long_about(
                    "Import all images of an archive that run on this machine: what `docker save` and `podman save` write, or the tar of \
                     an OCI layout. Every pod of the node may use them. Needs root.",
                )
                .arg(
                    Arg::new("file")
                        .value_name("FILE")
                        .required(true)
                        .value_parser(value_parser!(PathBuf))
                        .help("Archive, plain or compressed with gzip or zstd"),
                )
                .arg(
                    Arg::new("name")
                        .long("name")
                        .value_name("IMAGE")
                        .help("Name of images that have none in the archive, such as example.com/app:1"),
                )
                .arg(data_dir()),
        )
        .subcommand(
            Command::new("pull")
                .about("Pull an image from its registry")
                .long_about(
                    "Pull an image from its registry. Every pod of the node may use it, also if it took a login to get it. The environment \
                     variables HTTP_PROXY, HTTPS_PROXY and NO_PROXY are honoured. Needs root.",
                )
                .arg(image_name("Image to pull: NAME[:TAG] or NAME@DIGEST"))
                .arg(
                    Arg::new("auth-file")
                        .long("auth-file")
                        .value_name("FILE")
                        .value_parser(value_parser!(PathBuf))
                        .help("Logins for registries, in the format of ~/.docker/config.json"),
                )
                .arg(
                    Arg::new("registry-settings")
                        .long("registry-settings")
                        .value_name("DIR")
                        .value_parser(value_parser!(PathBuf))
                        .default_value(REGISTRY_SETTINGS)
                        .help("Mirrors, authorities and the like, as HOST/hosts.toml in containerd's format"),
                )
                .arg(data_dir()),
        )
        .subcommand(
            Command::new("list")
                .visible_alias("ls")
                .about("List the images")
                .arg(
                    Arg::new("quiet")
                        .long("quiet")
                        .short('q')
                        .action(ArgAction::SetTrue)
                        .help("Print ids only"),
                )
                .arg(data_dir()),
        )
        .subcommand(
            Command::new("rm")
                .about("Remove images by name or id")
                .long_about(
                    "Remove names of images, and each image with its last name. An image that a container of the node was made from is \
                     not removed.",
                )
                .arg(image_name("Images to remove: NAME[:TAG], NAME@DIGEST, or an id or its beginning").num_args(1..))
                .arg(data_dir()),
        )
        .subcommand(
            Command::new("prune")
                .about("Remove all images that no container was made from")
                .arg(data_dir()),
        )
}

fn image_name(help: &'static str) -> Arg {
    Arg::new("image").value_name("IMAGE").required(true).help(help)
}

pub fn run(matches: &ArgMatches) -> Result<()> {
    match matches.subcommand() {
        Some(("import", matches)) => import(matches),
        Some(("pull", matches)) => pull(matches),
        Some(("list", matches)) => list(matches),
        Some(("rm", matches)) => remove(matches),
        Some(("prune", matches)) => prune(matches),
        _ => unreachable!("clap requires one of the subcommands"),
    }
}

fn node_dir(matches: &ArgMatches) -> PathBuf {
    let default = cli::data_dir_of(matches);
    let given = matches.get_one::<PathBuf>("data-dir").is_some();
    let joined = (!given).then(|| Path::new(node::DATA_DIR));
    choose(&default, joined).join(local_node::FOLDER)
}

/// A machine that has joined a cluster has its node elsewhere.
fn choose<'a>(default: &'a Path, joined: Option<&'a Path>) -> &'a Path {
    let holds_node = |dir: &&Path| dir.join(local_node::FOLDER).is_dir();
    joined.filter(|joined| !holds_node(&default) && holds_node(joined)).unwrap_or(default)
}

fn open(matches: &ArgMatches, env: &Env) -> Result<Store> {
    let path = node_dir(matches).join("images");
    Store::open(&path, env, Limits::default())
        .with_context(|| "cannot use the images; choose another directory with --data-dir")
}

/// Files of images have owners and devices.
fn check_root() -> Result<()> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    bail!("unpacking images needs root; run the command with sudo")
}

fn import(matches: &ArgMatches) -> Result<()> {
    check_root()?;
    let Some(file) = matches.get_one::<PathBuf>("file") else { bail!("name an archive to import") };
    let name = matches.get_one::<String>("name").map(|name| Reference::parse(name)).transpose()?;
    if let Err(error) = std::fs::File::open(file) {
        bail!("cannot read {}: {error}; name an archive, such as `docker save` writes", file.display());
    }
    let store = open(matches, &Env::machine())?;
    let images = image::import(&store, file, &ImportOptions { name, platform: Platform::current() })
        .with_context(|| format!("cannot import {}", file.display()))?;
    for image in images {
        println!(
            "Imported {} ({}, {}).",
            name_of(&image),
            list::short(&image.id),
            list::size(image.disk_bytes)
        );
    }
    Ok(())
}

/// As people call it: by all its names, or by a digest if it has none.
fn name_of(image: &Image) -> String {
    let names: Vec<&str> = image.names.iter().map(String::as_str).collect();
    match (&*names, image.digests.first()) {
        ([], None) => "an image without a name".to_owned(),
        ([], Some(digest)) => digest.clone(),
        (names, _) => names.join(", "),
    }
}

fn pull(matches: &ArgMatches) -> Result<()> {
    check_root()?;
    let reference = Reference::parse(matches.get_one::<String>("image").map_or("", String::as_str))?;
    let credentials = match matches.get_one::<PathBuf>("auth-file") {
        Some(file) => logins(file, &reference)?,
        None => Vec::new(),
    };
    let env = Env::machine();
    let store = open(matches, &env)?;
    let options = PullOptions {
        certs: matches.get_one::<PathBuf>("registry-settings").into_iter().cloned().collect(),
        platform: Platform::current(),
        parallel: 1,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let puller = Puller::new(&store, &env, image::blocking_pool(), options);
    let (image, took) = runtime.block_on(async {
        let mut pull = puller.pull(&reference, credentials.clone());
        // The same pull once more, to look at while the other is waited for.
        let mut watched = puller.pull(&reference, credentials);
        let mut shown = Shown::default();
        loop {
            tokio::select! {
                biased;
                image = pull.wait() => {
                    shown.end();
                    return image.map(|image| (image, pull.took()));
                }
                progress = watched.changed() => shown.show(progress),
            }
        }
    })?;
    // The command is not done before the image survives a power cut.
    store.sync_layers()?;
    println!(
        "Pulled {} ({}, {}) in {:.1} s.",
        reference.pulled(),
        list::short(&image.id),
        list::size(image.disk_bytes),
        took.as_secs_f64()
    );
    Ok(())
}

fn logins(file: &Path, reference: &Reference) -> Result<Vec<Credential>> {
    use std::io::Read;
    let mut text = Vec::new();
    let read = std::fs::File::open(file).and_then(|file| file.take(MAX_LOGINS).read_to_end(&mut text));
    read.with_context(|| format!("cannot read --auth-file {}", file.display()))?;
    let mut keyring = Keyring::default();
    if keyring.add_config_json(&text, None).is_err() {
        bail!("--auth-file {} is not in the format of ~/.docker/config.json", file.display());
    }
    let found = keyring.find(&reference.name());
    if found.is_empty() {
        bail!("--auth-file {} holds no login for {}", file.display(), reference.domain());
    }
    Ok(found)
}

/// Progress for people: one line that changes on a terminal, else a line for each layer.
#[derive(Default)]
struct Shown {
    layers_done: usize,
    length: usize,
}

impl Shown {
    fn show(&mut self, progress: Progress) {
        let Progress { layers, layers_done, bytes, bytes_done } = progress;
        if layers == 0 {
            return;
        }
        let text = format!(
            "{layers_done} of {layers} layers unpacked, {} of {} downloaded",
            list::size(bytes_done),
            list::size(bytes)
        );
        let mut out = std::io::stderr();
        // Who closed it does not want to know.
        if out.is_terminal() {
            let _ = write!(out, "\r{text:<width$}", width = self.length);
            let _ = out.flush();
            self.length = text.len();
        } else if layers_done > self.layers_done {
            let _ = writeln!(out, "{text}");
        }
        self.layers_done = layers_done;
    }

    fn end(&self) {
        if self.length > 0 {
            eprintln!();
        }
    }
}

fn list(matches: &ArgMatches) -> Result<()> {
    let env = Env::machine();
    let images =
        if node_dir(matches).join("images").is_dir() { open(matches, &env)?.list()? } else { Vec::new() };
    let text = if matches.get_flag("quiet") {
        images.iter().map(|image| format!("{}\n", image.id)).collect()
    } else {
        list::table(&images, env.now_seconds())
    };
    print!("{text}");
    Ok(())
}

fn remove(matches: &ArgMatches) -> Result<()> {
    let store = open(matches, &Env::machine())?;
    let mut problems = Vec::new();
    for name in matches.get_many::<String>("image").into_iter().flatten() {
        match remove_one(&store, matches, name) {
            Ok(()) => {}
            Err(StoreError::NotFound(_)) => {
                problems.push(format!("image {name:?} not found; see `setpoint image list`"))
            }
            Err(StoreError::InUse(_)) => {
                problems.push(format!("image {name:?} is used by a container; delete its pod first"));
            }
            Err(error) => problems.push(format!("cannot remove image {name:?}: {error}")),
        }
    }
    if problems.is_empty() { Ok(()) } else { bail!("{}", problems.join("; ")) }
}

fn remove_one(store: &Store, matches: &ArgMatches, name: &str) -> Result<(), StoreError> {
    let images = store.list()?;
    let by_name = Reference::parse(name).ok().map(|name| store.find(&name)).transpose()?.flatten();
    let by_id = || {
        let hex = name.strip_prefix("sha256:").unwrap_or(name);
        let is_id = hex.len() >= SHORTEST_ID && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        let mut found = images.iter().filter(|image| is_id && image.id.hex().starts_with(hex));
        found.next().filter(|_| found.next().is_none()).map(|image| image.id.to_string())
    };
    let name = if by_name.is_some() { Some(name.to_owned()) } else { by_id() };
    let name = name.ok_or_else(|| StoreError::NotFound(String::new()))?;
    let pruned = store.remove(&name, &in_use(&node_dir(matches), &images))?;
    match pruned.images.first() {
        Some(id) => {
            println!("Removed {name} ({}, {} freed).", list::short(id), list::size(pruned.freed_bytes))
        }
        None => println!("Removed the name {name}."),
    }
    Ok(())
}

fn prune(matches: &ArgMatches) -> Result<()> {
    let store = open(matches, &Env::machine())?;
    let used = in_use(&node_dir(matches), &store.list()?);
    let pruned = store.prune(u64::MAX, Duration::ZERO, &used)?;
    println!("Removed {} images ({} freed).", pruned.images.len(), list::size(pruned.freed_bytes));
    Ok(())
}

/// The images that containers of the node were made from: each container's record names its own by id, whatever else is in it.
fn in_use(node: &Path, images: &[Image]) -> BTreeSet<Digest> {
    let mut used = BTreeSet::new();
    let containers = std::fs::read_dir(node.join("containers")).into_iter().flatten().flatten();
    for record in containers.filter_map(|entry| std::fs::read(entry.path().join("record")).ok()) {
        let names = |image: &&Image| {
            let id = image.id.as_str().as_bytes();
            record.windows(id.len()).any(|part| part == id)
        };
        used.extend(images.iter().filter(names).map(|image| image.id.clone()));
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_images_of_a_joined_machine_are_those_of_its_node() {
        let folder = tempfile::tempdir().unwrap();
        let (own, joined) = (folder.path().join("own"), folder.path().join("joined"));
        assert_eq!(choose(&own, Some(&joined)), own, "neither is there: the default");
        std::fs::create_dir_all(joined.join("node")).unwrap();
        assert_eq!(choose(&own, Some(&joined)), joined);
        assert_eq!(choose(&own, None), own, "one that was named is taken");
        std::fs::create_dir_all(own.join("node")).unwrap();
        assert_eq!(choose(&own, Some(&joined)), own);
    }
}
