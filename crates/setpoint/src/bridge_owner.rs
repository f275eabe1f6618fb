//! `/run/setpoint/BRIDGE.lock`: whose a bridge is, and with it the nftables table and the cgroup of that name.
//!
//! While its node runs, the file is locked: the kernel releases the lock when the process ends, however it ends. Pods go on after that,
//! so the data directory that the file names keeps the bridge until it is reset, or has no pods any more.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use kubelet::certificates;
use rustix::fs::{FlockOperation, OFlags, flock};

use crate::local_node::{PodsLeft, pods_left};

/// Emptied when the machine boots: nothing of a bridge is left then.
const FOLDER: &str = "/run/setpoint";
/// A path is shorter.
const MAX_BYTES: u64 = 16 * 1024;

/// Which command a node is part of: its flags, and how it is reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    Up,
    Node,
}

impl Command {
    /// Which of them runs the node of a data directory, from what it keeps there.
    pub fn of(data_dir: &Path) -> Command {
        let joined = certificates::Store::new(data_dir).path(certificates::CLIENT_FILE);
        if joined.exists() { Command::Node } else { Command::Up }
    }

    pub fn port_flag(self) -> &'static str {
        match self {
            Command::Up => "--node-port",
            Command::Node => "--port",
        }
    }

    pub fn start(self) -> &'static str {
        match self {
            Command::Up => "up",
            Command::Node => "node",
        }
    }

    pub fn reset(self) -> &'static str {
        match self {
            Command::Up => "reset",
            Command::Node => "node reset",
        }
    }
}

/// A node, as its lock names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub command: Command,
    /// As given by `--data-dir`.
    pub data_dir: PathBuf,
    /// The node's own in it, by which it is known.
    pub directory: PathBuf,
}

/// The bridge is this process's until all clones are dropped.
#[derive(Clone)]
pub struct BridgeLock {
    _file: Arc<File>,
}

/// To whom a bridge belongs, as far as a reset is concerned.
pub enum Claim {
    /// The one who asks, or nobody: as for [`BridgeLock::acquire`].
    Ours(Reset),
    AnotherNodes(Owner),
}

/// Keeps others from taking the bridge until it is gone.
pub struct Reset {
    file: Option<(PathBuf, File)>,
}

impl BridgeLock {
    /// To be had before anything is touched that is named by the bridge.
    pub fn acquire(bridge: &str, owner: &Owner) -> Result<BridgeLock> {
        BridgeLock::acquire_in(Path::new(FOLDER), bridge, owner)
    }

    fn acquire_in(folder: &Path, bridge: &str, owner: &Owner) -> Result<BridgeLock> {
        let path = path(folder, bridge);
        let why = || format!("cannot lock {}", path.display());
        make_private(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        loop {
            let mut file = open(&path).with_context(why)?;
            let is_locked = !try_lock(&file).with_context(why)?;
            let found = Owner::read(&mut file).with_context(why)?;
            if is_locked {
                bail!("{}", refusal(bridge, found.as_ref().map(|found| (found, None)), owner.command));
            }
            if !is_at(&file, &path).with_context(why)? {
                continue;
            }
            let another = found.filter(|found| found.directory != owner.directory);
            if let Some((found, left)) =
                another.and_then(|found| pods_left(&found.directory).map(|left| (found, left)))
            {
                bail!("{}", refusal(bridge, Some((&found, Some(left))), owner.command));
            }
            owner.write(&mut file).with_context(why)?;
            return Ok(BridgeLock { _file: Arc::new(file) });
        }
    }
}

impl Claim {
    pub fn of(bridge: &str, directory: &Path) -> Result<Claim> {
        Claim::in_folder(Path::new(FOLDER), bridge, directory)
    }

    fn in_folder(folder: &Path, bridge: &str, directory: &Path) -> Result<Claim> {
        let path = path(folder, bridge);
        let why = || format!("cannot lock {}", path.display());
        loop {
            let mut file = match OpenOptions::new().read(true).custom_flags(no_links()).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(Claim::Ours(Reset { file: None }));
                }
                opened => opened.with_context(why)?,
            };
            let is_free = try_lock(&file).with_context(why)?;
            let found = Owner::read(&mut file).with_context(why)?;
            return match found {
                // One that was never running, or has no pods any more, has nothing that a reset could break.
                Some(found)
                    if found.directory != directory
                        && (!is_free || pods_left(&found.directory).is_some()) =>
                {
                    Ok(Claim::AnotherNodes(found))
                }
                _ if !is_free => bail!("the node in {} is running", directory.display()),
                _ if !is_at(&file, &path).with_context(why)? => continue,
                _ => Ok(Claim::Ours(Reset { file: Some((path, file)) })),
            };
        }
    }
}

impl Reset {
    /// Nothing of the bridge is left: the next one who asks may have it.
    pub fn done(self) -> io::Result<()> {
        let Some((path, _locked)) = self.file else { return Ok(()) };
        env::file::unless_missing(std::fs::remove_file(path))
    }
}

impl Owner {
    /// `None`: it was not written to its end, or by another version.
    fn read(file: &mut File) -> io::Result<Option<Owner>> {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0))?;
        file.take(MAX_BYTES).read_to_end(&mut bytes)?;
        let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        let path = |line: &[u8]| PathBuf::from(OsStr::from_bytes(line));
        Ok(match *lines {
            [command, data_dir, directory, b""] => {
                let command = if command == b"node" { Command::Node } else { Command::Up };
                Some(Owner { command, data_dir: path(data_dir), directory: path(directory) })
            }
            _ => None,
        })
    }

    fn write(&self, file: &mut File) -> io::Result<()> {
        let command: &[u8] = match self.command {
            Command::Up => b"up",
            Command::Node => b"node",
        };
        let lines =
            [command, self.data_dir.as_os_str().as_bytes(), self.directory.as_os_str().as_bytes(), b""];
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&lines.join(&b'\n'))
    }
}

/// The owner with what runs of it: without pods it is the node itself.
fn refusal(bridge: &str, owner: Option<(&Owner, Option<PodsLeft>)>, asks: Command) -> String {
    let flags = format!("--bridge, --pod-cidr and {}", asks.port_flag());
    let Some((owner, left)) = owner else {
        return format!(
            "bridge {bridge} belongs to another node of this machine; give this node its own {flags}"
        );
    };
    let (dir, reset) = (owner.data_dir.display(), owner.command.reset());
    let go_on = match left {
        None => {
            return format!(
                "bridge {bridge} belongs to the node of the data directory {dir}, which is running; stop that one, or give this node its own \
                 {flags}"
            );
        }
        Some(PodsLeft::Running(_)) => "go on running",
        Some(PodsLeft::Perhaps) => "may go on running",
    };
    format!(
        "bridge {bridge} belongs to the node of the data directory {dir}, whose pods {go_on}; end them with `setpoint {reset} \
         --data-dir {dir}`, or give this node its own {flags}"
    )
}

fn path(folder: &Path, bridge: &str) -> PathBuf {
    folder.join(format!("{bridge}.lock"))
}

fn no_links() -> i32 {
    OFlags::NOFOLLOW.bits() as i32
}

/// Whoever may open such a file may lock it, and keep the node from starting.
fn open(path: &Path) -> io::Result<File> {
    const MODE: u32 = 0o600;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(MODE).custom_flags(no_links());
    let file = options.open(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(MODE))?;
    Ok(file)
}

fn make_private(folder: &Path) -> io::Result<()> {
    const MODE: u32 = 0o700;
    std::fs::DirBuilder::new().recursive(true).mode(MODE).create(folder)?;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(MODE))
}

/// Not inherited by what this process starts: its descriptors close with that.
fn try_lock(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether it still has its name: a reset may have removed it between opening and locking.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    Ok(std::fs::metadata(path).is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(folder: &Path, name: &str, command: Command) -> Owner {
        let data_dir = folder.join(name);
        std::fs::create_dir_all(data_dir.join("node/sandboxes")).unwrap();
        Owner { command, directory: data_dir.join("node"), data_dir }
    }

    fn run_a_pod(owner: &Owner) -> std::os::unix::net::UnixListener {
        crate::local_node::tests::run_a_pod(&owner.directory)
    }

    fn refused(folder: &Path, owner: &Owner) -> String {
        BridgeLock::acquire_in(folder, "b0", owner).err().expect("refused").to_string()
    }

    fn is_ours(folder: &Path, owner: &Owner) -> bool {
        matches!(Claim::in_folder(folder, "b0", &owner.directory).unwrap(), Claim::Ours(_))
    }

    #[test]
    fn a_bridge_belongs_to_who_took_it_first_and_stays_his_as_long_as_he_has_pods() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        let [one, two] = [("one", Command::Up), ("two", Command::Node)]
            .map(|(name, command)| owner(folder.path(), name, command));
        let held = BridgeLock::acquire_in(&run, "b0", &one).unwrap();
        let told = refused(&run, &two);
        assert!(told.contains(&format!("{}, which is running", one.data_dir.display())), "{told}");
        assert!(told.ends_with("its own --bridge, --pod-cidr and --port"), "{told}");
        assert!(!is_ours(&run, &two));
        assert!(Claim::in_folder(&run, "b0", &one.directory).is_err(), "not while it runs");
        BridgeLock::acquire_in(&run, "b1", &two).unwrap();

        // The process has ended, its pods have not.
        drop(held);
        let _pod = run_a_pod(&one);
        let told = refused(&run, &two);
        let reset = format!("`setpoint reset --data-dir {}`", one.data_dir.display());
        assert!(told.contains("go on running") && told.contains(&reset), "{told}");
        assert!(!is_ours(&run, &two) && is_ours(&run, &one));
        drop(BridgeLock::acquire_in(&run, "b0", &one).unwrap());

        // Without pods it is anybody's.
        std::fs::write(one.directory.join("sandboxes/pod/stopped"), "").unwrap();
        let held = BridgeLock::acquire_in(&run, "b0", &two).unwrap();
        assert!(!is_ours(&run, &one));
        let told = refused(&run, &one);
        assert!(told.ends_with("its own --bridge, --pod-cidr and --node-port"), "{told}");
        drop(held);
    }

    #[test]
    fn a_reset_frees_the_bridge() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| owner(folder.path(), name, Command::Node));
        assert!(is_ours(folder.path(), &one), "nobody's");
        let _pod = run_a_pod(&one);
        drop(BridgeLock::acquire_in(folder.path(), "b0", &one).unwrap());
        let Claim::Ours(reset) = Claim::in_folder(folder.path(), "b0", &one.directory).unwrap() else {
            panic!("not ours")
        };
        let told = refused(folder.path(), &two);
        assert!(told.contains("which is running"), "nobody takes it meanwhile: {told}");
        reset.done().unwrap();
        BridgeLock::acquire_in(folder.path(), "b0", &two).unwrap();
    }

    #[test]
    fn a_start_that_failed_keeps_no_bridge() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| owner(folder.path(), name, Command::Up));
        drop(BridgeLock::acquire_in(folder.path(), "b0", &one).unwrap());
        // It has the bridge, and then cannot listen on its port.
        let failing = BridgeLock::acquire_in(folder.path(), "b0", &two).unwrap();
        assert!(!is_ours(folder.path(), &one));
        drop(failing);
        assert!(is_ours(folder.path(), &one));
    }

    #[test]
    fn what_another_version_wrote_is_nobodys() {
        let folder = tempfile::tempdir().unwrap();
        let one = owner(folder.path(), "one", Command::Up);
        std::fs::write(folder.path().join("b0.lock"), "who knows").unwrap();
        assert!(is_ours(folder.path(), &one));
        BridgeLock::acquire_in(folder.path(), "b0", &one).unwrap();
    }

    #[test]
    fn only_root_may_lock_a_bridge_and_keep_a_node_from_starting() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let one = owner(folder.path(), "one", Command::Up);
        // As an earlier version made them.
        std::fs::create_dir(&run).unwrap();
        std::fs::write(run.join("b0.lock"), "").unwrap();
        std::fs::set_permissions(run.join("b0.lock"), std::fs::Permissions::from_mode(0o644)).unwrap();
        for bridge in ["b0", "b1"] {
            let _held = BridgeLock::acquire_in(&run, bridge, &one).unwrap();
            assert_eq!(mode(&run.join(format!("{bridge}.lock"))), 0o600);
        }
        assert_eq!(mode(&run), 0o700);
    }

    #[test]
    fn pods_that_have_ended_keep_no_bridge_and_those_of_another_runtime_may_run() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| owner(folder.path(), name, Command::Node));
        std::fs::create_dir_all(one.directory.join("sandboxes/ended")).unwrap();
        std::fs::create_dir_all(one.directory.join("pods/uid")).unwrap();
        drop(BridgeLock::acquire_in(folder.path(), "b0", &one).unwrap());
        drop(BridgeLock::acquire_in(folder.path(), "b0", &two).unwrap());

        drop(BridgeLock::acquire_in(folder.path(), "b0", &one).unwrap());
        std::fs::write(one.directory.join("container-runtime-endpoint"), "unix:///run/x.sock").unwrap();
        let told = refused(folder.path(), &two);
        assert!(told.contains("whose pods may go on running"), "{told}");
        std::fs::remove_dir(one.directory.join("pods/uid")).unwrap();
        BridgeLock::acquire_in(folder.path(), "b0", &two).unwrap();
    }
}
