//! What a node says when it starts on a disk that is too full for it.

use std::collections::BTreeSet;
use std::path::Path;

use super::signal::{Observations, Signal, observe};
use super::threshold::{Amount, Disks, met, thresholds};
use crate::config::Config;
use crate::server::stats::fs_of;

/// One sentence if a hard threshold is crossed already: the node would evict its pods, and take none, as soon as it looks.
pub fn full_disk(config: &Config) -> Option<String> {
    let directory = config.root_directory.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/"));
    let disk = fs_of(directory, 0).ok()?;
    let mut observations = Observations::new();
    // Images are below the node's own directory.
    for signal in [Signal::NodeFsAvailable, Signal::ImageFsAvailable] {
        observe(&mut observations, signal, disk.available_bytes, disk.capacity_bytes);
    }
    for signal in [Signal::NodeFsInodesFree, Signal::ImageFsInodesFree] {
        observe(&mut observations, signal, disk.inodes_free, disk.inodes);
    }
    sentence(config, &observations, directory)
}

fn sentence(config: &Config, observations: &Observations, directory: &Path) -> Option<String> {
    let all = thresholds(config, Disks::default());
    let hard: BTreeSet<usize> =
        met(&all, observations, false).into_iter().filter(|at| all[*at].is_hard()).collect();
    let crossed = hard.iter().map(|at| &all[*at]);
    // The one that needs most room.
    let worst = crossed.max_by_key(|threshold| {
        observations.get(&threshold.signal).map(|seen| threshold.value.of(seen.capacity).as_i64())
    })?;
    let seen = observations.get(&worst.signal)?;
    let share = 100.0 * seen.available.as_i64() as f64 / (seen.capacity.as_i64() as f64).max(1.0);
    let wanted = match worst.value {
        Amount::Share(share) => format!("{:.0} %", share * 100.0),
        Amount::Quantity(quantity) => quantity.to_string(),
    };
    Some(format!(
        "{} has {share:.1} % free, and {} wants {wanted}: pods will be evicted, and none taken, until there is room, or evictionHard \
         of the node's configuration says otherwise",
        directory.display(),
        worst.signal.name(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_too_full_is_told_with_the_threshold_that_says_so() {
        let config = Config::new("n", "/data".into());
        let said = |free: u64| {
            let mut observations = Observations::new();
            observe(&mut observations, Signal::NodeFsAvailable, Some(free), Some(1000));
            observe(&mut observations, Signal::ImageFsAvailable, Some(free), Some(1000));
            sentence(&config, &observations, Path::new("/data"))
        };
        assert_eq!(said(200), None);
        let told = said(149).expect("a warning");
        assert!(told.starts_with("/data has 14.9 % free, and imagefs.available wants 15 %"), "{told}");
        assert!(said(50).is_some());
        let free = Config {
            eviction_hard: vec![("imagefs.available".to_owned(), "0%".to_owned())],
            ..config.clone()
        };
        assert_eq!(sentence(&free, &Observations::new(), Path::new("/")), None);
    }
}
