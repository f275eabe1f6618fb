//! `DATA-DIR/setpoint.pid`: the process that serves a data directory.
//!
//! A server is running if the file is locked: the kernel releases the lock when the process exits, however it exits. The pid in
//! the file is only for people: after a crash it may belong to another process.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use env::Env;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, OFlags, fcntl_lock};
use rustix::process::{
    Flock, FlockOffsetType, FlockType, Pid, PidfdFlags, Signal, fcntl_getlk, pidfd_open, pidfd_send_signal,
};

pub const NAME: &str = "setpoint.pid";

/// The locked pid file; removed on drop.
pub struct PidFile {
    path: PathBuf,
    /// Holds the lock. Nothing else in this process may open the file: closing any descriptor of it releases a POSIX lock.
    _file: File,
}

impl PidFile {
    /// `None` if another server holds it: whether two may share a data directory is decided by the store.
    pub fn acquire(data_dir: &Path) -> Result<Option<PidFile>> {
        let path = data_dir.join(NAME);
        let why = || format!("cannot write {}; choose another directory with --data-dir", path.display());
        loop {
            let mut file = open(&path, true).with_context(why)?;
            match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => return Ok(None),
                Err(error) => return Err(error).with_context(why),
            }
            // Between open and lock, its owner may have exited and removed the file.
            let on_disk = std::fs::metadata(&path).ok().map(|file| (file.dev(), file.ino()));
            let ours = file.metadata().with_context(why)?;
            if on_disk != Some((ours.dev(), ours.ino())) {
                continue;
            }
            file.set_len(0).with_context(why)?;
            writeln!(file, "{}", std::process::id()).with_context(why)?;
            return Ok(Some(PidFile { path, _file: file }));
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // A leftover file is harmless: it is not locked.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The running server of a data directory.
pub struct Running {
    pub pid: Pid,
    /// A pidfd: unlike the pid, it is never reused.
    process: OwnedFd,
}

impl Running {
    pub fn find(data_dir: &Path) -> Result<Option<Running>> {
        let path = data_dir.join(NAME);
        let file = match open(&path, false) {
            Ok(file) => file,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let Some(pid) =
            holder(&file).with_context(|| format!("cannot query the lock of {}", path.display()))?
        else {
            return Ok(None);
        };
        let process = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => process,
            Err(rustix::io::Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error).context(format!("cannot find process {}", pid.as_raw_nonzero())),
        };
        // It still holds the lock, so the pid was not reused in between.
        Ok((holder(&file)? == Some(pid)).then_some(Running { pid, process }))
    }

    pub fn terminate(&self) -> Result<()> {
        match pidfd_send_signal(&self.process, Signal::TERM) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(rustix::io::Errno::PERM) => {
                anyhow::bail!(
                    "pid {} belongs to another user; stop it as that user or as root",
                    self.pid.as_raw_nonzero()
                )
            }
            Err(error) => Err(error).context(format!("cannot stop pid {}", self.pid.as_raw_nonzero())),
        }
    }

    pub fn exits_within(&self, limit: Duration) -> Result<bool> {
        is_readable_within(&self.process, limit).context("cannot wait for the server to exit")
    }
}

/// Whether the descriptor becomes readable within the limit (a pidfd does when the process exits).
pub fn is_readable_within(file: impl std::os::fd::AsFd, limit: Duration) -> rustix::io::Result<bool> {
    let env = Env::machine();
    let deadline = env.monotonic() + limit;
    loop {
        let left = deadline.saturating_duration_since(env.monotonic());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

fn open(path: &Path, create: bool) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(create).create(create).truncate(false).mode(0o644);
    options.custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path)
}

/// The process that holds the lock of the file.
fn holder(file: &File) -> rustix::io::Result<Option<Pid>> {
    let wanted = Flock {
        start: 0,
        length: 0,
        pid: None,
        // A read lock, so that a file of another user, opened read-only, can be queried too.
        typ: FlockType::ReadLock,
        offset_type: FlockOffsetType::Set,
    };
    Ok(fcntl_getlk(file, &wanted)?.and_then(|lock| lock.pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unlocked_file_is_no_running_server() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Running::find(folder.path()).unwrap().is_none());
        std::fs::write(folder.path().join(NAME), std::process::id().to_string()).unwrap();
        assert!(Running::find(folder.path()).unwrap().is_none());
    }

    #[test]
    fn the_file_is_removed_on_drop() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        std::fs::write(&path, "4194304999\n").unwrap();
        let ours = PidFile::acquire(folder.path()).unwrap().expect("not locked");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        drop(ours);
        assert!(!path.exists());
    }
}
