//! Follows a log for as long as its container runs.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use bytes::Bytes;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

use crate::{Progress, ReadError, Reader};

/// What tells that a log has changed. It must exist before the log is read, or what is written in between is missed.
pub enum Changes {
    /// The kernel, for logs another process writes.
    Inotify(AsyncFd<OwnedFd>),
    /// A [`crate::Writer`] of this process.
    Writer(watch::Receiver<u64>),
}

impl Changes {
    /// Watches the folder of a log, where rotations are seen, too.
    pub fn watch(log: &Path) -> io::Result<Changes> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let flags = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO;
        inotify::add_watch(&inotify, log.parent().unwrap_or(Path::new(".")), flags)?;
        register(inotify).map(Changes::Inotify)
    }

    /// Watches the files of a directory: made, written, replaced, removed; also the directory itself.
    pub fn watch_directory(directory: &Path) -> io::Result<Changes> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let flags = WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF;
        inotify::add_watch(&inotify, directory, flags)?;
        register(inotify).map(Changes::Inotify)
    }

    /// Returns when something changed since it last did.
    pub async fn changed(&mut self) -> io::Result<()> {
        match self {
            Changes::Inotify(inotify) => {
                let mut ready = inotify.readable().await?;
                // Which events came does not matter: the reader looks for itself.
                let mut events = [0; 4096];
                loop {
                    match rustix::io::read(ready.get_inner(), &mut events) {
                        Ok(_) => {}
                        Err(rustix::io::Errno::INTR) => {}
                        Err(rustix::io::Errno::WOULDBLOCK) => break,
                        Err(error) => return Err(error.into()),
                    }
                }
                ready.clear_ready();
                Ok(())
            }
            // A writer that is gone leaves it to `running` to end this.
            Changes::Writer(changes) => match changes.changed().await {
                Ok(()) => Ok(()),
                Err(_) => std::future::pending().await,
            },
        }
    }
}

#[allow(unsafe_code, reason = "tokio cannot know that a descriptor stays what it is; ours is owned")]
fn register(inotify: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is owned, so it stays open, and the same, for as long as it is registered.
    unsafe { AsyncFd::register(inotify) }.map_err(|error| error.into_parts().1)
}

/// Hands out a log until it is read to its end and `running` is false. A `send` that fails, as its reader is gone, ends it, too.
pub async fn follow(
    mut reader: Reader,
    mut changes: Changes,
    mut running: watch::Receiver<bool>,
    mut send: impl AsyncFnMut(Bytes) -> io::Result<()>,
) -> Result<(), ReadError> {
    let path = reader.path().to_owned();
    loop {
        // Asked before reading: what was written until then is in the file.
        let ended = !*running.borrow_and_update();
        let progress = loop {
            let (again, output, progress) = reader.next().await?;
            reader = again;
            if !output.is_empty() && send(output).await.is_err() {
                return Ok(());
            }
            if progress != Progress::More {
                break progress;
            }
        };
        if ended || progress == Progress::Done {
            return Ok(());
        }
        tokio::select! {
            changed = changes.changed() => changed.map_err(|error| ReadError::Read(path.clone(), error))?,
            // Nobody left to say that it runs: it does not.
            changed = running.changed() => if changed.is_err() {
                let (_, stopped) = watch::channel(false);
                running = stopped;
            },
        }
    }
}

#[cfg(test)]
mod tests;
