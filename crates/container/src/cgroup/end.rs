//! The end of a group: its processes, the groups that they made below it, and itself.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use super::{Cgroup, Version};
use crate::sys;

/// What is killed needs a moment to be gone.
const PAUSE: Duration = Duration::from_millis(10);

impl Cgroup {
    /// Who is in it or below.
    pub fn all_processes(&self) -> BTreeSet<i32> {
        let mut all = BTreeSet::new();
        // Of version 1: who may write there may leave one controller's group and stay in another's.
        for (_, directory) in &self.directories {
            for group in with_below(directory) {
                let text = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
                all.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|pid| *pid > 0));
            }
        }
        all
    }

    /// Sends a signal to every process.
    pub fn signal(&self, signal: i32) {
        if signal == Signal::KILL.as_raw() {
            return self.kill();
        }
        for pid in self.all_processes() {
            // Who is gone needs none.
            let _ = sys::kill(pid, signal);
        }
    }

    /// Kills every process that is there now. It takes a moment until they are gone, and one that was just forking may have to be
    /// killed once more: [`Cgroup::end`] does both.
    pub fn kill(&self) {
        if let (Version::V2, Some((_, directory))) = (self.version, self.directories.first())
            && std::fs::write(directory.join("cgroup.kill"), "1").is_ok()
        {
            return;
        }
        if self.all_processes().is_empty() {
            return;
        }
        // Frozen, nobody can fork away from the signal.
        let freezer = self.directory("freezer").map(|directory| directory.join("freezer.state"));
        let freeze = |state: &str| freezer.iter().for_each(|file| drop(std::fs::write(file, state)));
        freeze("FROZEN");
        for pid in self.all_processes() {
            let _ = sys::kill(pid, Signal::KILL.as_raw());
        }
        freeze("THAWED");
    }

    /// Removes it and all below; only when nothing is in them. What is not there is removed already.
    pub fn remove(&self) -> io::Result<()> {
        let own = self.directories.iter().map(|(_, directory)| directory);
        for directory in own.chain(&self.others()) {
            for group in with_below(directory).iter().rev() {
                match std::fs::remove_dir(group) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Kills and removes, in rounds with pauses between them, for so long at most. For who may block.
    pub fn end(&self, most: Duration) -> io::Result<()> {
        let rounds = most.as_millis() / PAUSE.as_millis();
        for _ in 0..rounds {
            self.kill();
            if self.remove().is_ok() {
                return Ok(());
            }
            sys::pause(PAUSE);
        }
        self.kill();
        self.remove()
    }
}

/// A group and those below it, each before those below it.
fn with_below(directory: &Path) -> Vec<PathBuf> {
    let mut all = vec![directory.to_owned()];
    let mut at = 0;
    while let Some(group) = all.get(at) {
        let below = std::fs::read_dir(group).into_iter().flatten().flatten();
        let below: Vec<PathBuf> = below
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .map(|entry| entry.path())
            .collect();
        all.extend(below);
        at += 1;
    }
    all
}
