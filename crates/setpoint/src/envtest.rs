//! `setpoint envtest install DIR`: a folder that controller-runtime's envtest takes for its binaries (docs/envtest.md).

use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::{etcd, kube_apiserver};

const KUBECTL: &str = "kubectl";
/// How a program begins.
const ELF: &[u8] = b"\x7fELF";
/// Read at once, to find out what a file is.
const CHUNK: usize = 1 << 20;

pub fn command() -> Command {
    Command::new("envtest")
        .about("Run the tests of operators that use controller-runtime's envtest")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("install")
                .about("Make a folder for KUBEBUILDER_ASSETS: kube-apiserver and etcd are this program")
                .long_about(
                    "Make a folder for KUBEBUILDER_ASSETS, with kube-apiserver and etcd as links to this program, and kubectl as a \
                     link to the one in PATH. Tests that use controller-runtime's envtest, such as those of kubebuilder's projects, \
                     run with it unchanged:\n\n    KUBEBUILDER_ASSETS=$(setpoint envtest install ~/.cache/setpoint-envtest) go test ./...",
                )
                .arg(Arg::new("dir").value_name("DIR").required(true).value_parser(value_parser!(PathBuf)).help("The folder; made if it does not exist"))
                .arg(Arg::new("copy").long("copy").action(ArgAction::SetTrue).help("Copy this program instead of linking to it, so that the folder can be moved")),
        )
}

pub fn run(matches: &ArgMatches) -> Result<()> {
    let Some(("install", matches)) = matches.subcommand() else {
        bail!("use `setpoint envtest install DIR`")
    };
    let dir = matches.get_one::<PathBuf>("dir").cloned().unwrap_or_default();
    let dir = install(&dir, matches.get_flag("copy"))?;
    let own = dir.join(KUBECTL);
    match in_path(KUBECTL, &std::env::var_os("PATH").unwrap_or_default(), &dir) {
        Some(kubectl) => put(&kubectl, &own, false)?,
        // By an earlier run.
        None if own.is_file() => {}
        None => {
            eprintln!("setpoint: no kubectl in PATH: tests that call kubectl need one in {}", dir.display())
        }
    }
    println!("{}", dir.display());
    Ok(())
}

/// The folder's absolute path.
fn install(dir: &Path, copy: bool) -> Result<PathBuf> {
    let program = std::env::current_exe().context("cannot find this program")?;
    std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let dir = std::fs::canonicalize(dir).with_context(|| format!("cannot find {}", dir.display()))?;
    for name in [kube_apiserver::NAME, etcd::NAME] {
        put(&program, &dir.join(name), copy)?;
    }
    Ok(dir)
}

/// Links or copies. A link, or what an earlier run copied, is replaced; the binaries of somebody else are not.
fn put(program: &Path, at: &Path, copy: bool) -> Result<()> {
    match std::fs::symlink_metadata(at) {
        Ok(found) if found.is_symlink() || found.is_file() && is_ours(at).unwrap_or(false) => {
            std::fs::remove_file(at).with_context(|| format!("cannot replace {}", at.display()))?;
        }
        // A kubectl that is there is as good.
        Ok(_) if at.file_name().is_some_and(|name| name == KUBECTL) => return Ok(()),
        Ok(_) => bail!("{} exists and is another program; choose another folder, or delete it", at.display()),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", at.display())),
    }
    let failed = || format!("cannot write {}", at.display());
    if !copy {
        return symlink(program, at).with_context(failed);
    }
    std::fs::copy(program, at).with_context(failed)?;
    std::fs::set_permissions(at, std::fs::Permissions::from_mode(0o755)).with_context(failed)
}

/// Whether a file is a copy of a version of this program: then its help is in it. Nobody else's program is ever run to find out.
fn is_ours(path: &Path) -> std::io::Result<bool> {
    let mut file = File::open(path)?;
    let (mut read, mut overlap) = (vec![0; CHUNK + kube_apiserver::TITLE.len()], 0);
    let title = memchr::memmem::Finder::new(kube_apiserver::TITLE);
    let mut is_first = true;
    loop {
        let count = file.read(&mut read[overlap..])?;
        let filled = overlap + count;
        if count == 0 || is_first && !read[..filled].starts_with(ELF) {
            return Ok(false);
        }
        if title.find(&read[..filled]).is_some() {
            return Ok(true);
        }
        // It may begin in this part and end in the next.
        overlap = filled.min(kube_apiserver::TITLE.len());
        read.copy_within(filled - overlap..filled, 0);
        is_first = false;
    }
}

/// The program of that name in `path`, but not the one in `except`, which is to become a link to it.
fn in_path(name: &str, path: &OsStr, except: &Path) -> Option<PathBuf> {
    let folders = std::env::split_paths(path)
        .filter(|folder| std::fs::canonicalize(folder).is_ok_and(|folder| folder != except));
    let found = folders.map(|folder| folder.join(name)).find(|file| file.is_file())?;
    std::path::absolute(found).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_replaced_and_other_programs_are_not() {
        let home = tempfile::tempdir().unwrap();
        let dir = install(&home.path().join("bin"), false).unwrap();
        let again = install(&dir, false).unwrap();
        assert_eq!(dir, again);
        assert_eq!(std::fs::read_link(dir.join("etcd")).unwrap(), std::env::current_exe().unwrap());
        std::fs::remove_file(dir.join("etcd")).unwrap();
        std::fs::write(dir.join("etcd"), "#!/bin/sh\n").unwrap();
        let refused = install(&dir, false).unwrap_err().to_string();
        assert!(refused.contains("is another program"), "{refused}");
        assert_eq!(std::fs::read(dir.join("etcd")).unwrap(), b"#!/bin/sh\n");
    }
    #[test]
    fn a_kubectl_is_never_a_link_to_itself() {
        let home = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let folder = home.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join(KUBECTL), "").unwrap();
            folder
        };
        let (own, other) = (folder("own"), folder("other"));
        symlink(&own, home.path().join("link")).unwrap();
        let path = std::env::join_paths([&home.path().join("link"), &own, &other]).unwrap();
        let except = std::fs::canonicalize(&own).unwrap();
        assert_eq!(in_path(KUBECTL, &path, &except), Some(other.join(KUBECTL)));
        assert_eq!(in_path(KUBECTL, own.as_os_str(), &except), None);
    }

    #[test]
    fn a_copy_is_known_without_being_run() {
        let home = tempfile::tempdir().unwrap();
        let dir = install(&home.path().join("bin"), true).unwrap();
        install(&dir, true).unwrap();
        assert!(is_ours(&dir.join("etcd")).unwrap());
        let ran = home.path().join("ran");
        let script = format!("#!/bin/sh\ntouch {}\necho '{}'\n", ran.display(), kube_apiserver::TITLE);
        std::fs::remove_file(dir.join("etcd")).unwrap();
        std::fs::write(dir.join("etcd"), script).unwrap();
        std::fs::set_permissions(dir.join("etcd"), std::fs::Permissions::from_mode(0o755)).unwrap();
        let refused = install(&dir, true).unwrap_err().to_string();
        assert!(refused.contains("is another program"), "{refused}");
        assert!(!ran.exists());
    }
}
