//! `setpoint backup`, `setpoint restore` and `setpoint repair`.
//!
//! ```text
//!  DATA-DIR/store + DATA-DIR/pki ── backup ──> FILE ── restore ──> RESTORING ─ pki ─ store ─ (RESTORING is deleted)
//! ```

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgMatches, Command, value_parser};
use store::{Backup, BackupFile};

use crate::cli;

/// Marker file: the data directory is being restored and incomplete.
pub const RESTORING: &str = "RESTORING";
/// Larger files in `pki` are not keys or certificates and are skipped.
const MAX_FILE: u64 = 1 << 20;

pub fn commands(data_dir: impl Fn() -> Arg) -> [Command; 3] {
    let file = |help: &'static str| {
        Arg::new("file").value_name("FILE").required(true).value_parser(value_parser!(PathBuf)).help(help)
    };
    [
        Command::new("backup")
            .about("Back up a data directory (objects, keys and certificates) to a single file")
            .long_about(
                "Back up a data directory (objects, keys and certificates) to a single file. The server may be running.\n\n\
                 The backup contains every write acknowledged before the command started. It contains secrets and private keys, so only \
                 its owner can read it; keep it on another disk. For a cluster on etcd, use `etcdctl snapshot save` and \
                 keep a copy of DATA-DIR/pki.",
            )
            .arg(data_dir())
            .arg(file("Backup file to write; an existing file is replaced once the new one is complete")),
        Command::new("restore")
            .about("Restore a data directory from a backup file")
            .long_about(
                "Restore a data directory from a backup file. The directory must be empty or not exist.\n\n\
                 The restored cluster continues at a resourceVersion beyond any the lost cluster could have issued, so clients holding \
                 newer objects get 410 Gone (and list again) or 409 Conflict, and never mistake old state for new. A damaged backup \
                 is rejected as a whole.",
            )
            .arg(file("Backup file written by `setpoint backup`"))
            .arg(data_dir()),
        Command::new("repair")
            .about("Truncate a damaged log and advance the revision")
            .long_about(
                "Truncate the log of a data directory at the first damaged record: everything after it is lost. If you have a recent \
                 backup, restore that instead.\n\nThe revision is advanced beyond anything that may have been lost, as after \
                 `setpoint restore`. Also run it after reverting the disk or the virtual machine to a snapshot, which cannot be \
                 detected from the directory.",
            )
            .arg(data_dir()),
    ]
}

pub fn backup(matches: &ArgMatches) -> Result<()> {
    let (dir, file) = (cli::data_dir_of(matches), file_of(matches));
    let store = dir.join("store");
    check_restored(&dir)?;
    if !store.is_dir() {
        bail!(
            "{} holds no objects: choose another directory with --data-dir; for a cluster on etcd use `etcdctl snapshot save`",
            dir.display()
        );
    }
    let (revision, entries) = store::read_unlocked(&store)?;
    let backup = Backup { revision, entries, files: keys(&dir)? };
    let bytes = backup.write(&file)?;
    println!(
        "Saved {} objects and {} keys and certificates at revision {} in {} ({bytes} bytes).",
        backup.entries.len(),
        backup.files.len(),
        backup.revision,
        file.display()
    );
    Ok(())
}

pub fn restore(matches: &ArgMatches) -> Result<()> {
    let (dir, file) = (cli::data_dir_of(matches), file_of(matches));
    // Read and verified completely before anything is written.
    let backup = read(&file)?;
    prepare(&dir)?;
    let marker = dir.join(RESTORING);
    let failed = |path: &Path| format!("cannot write {}", path.display());
    env::file::replace(&marker, b"", 0o600).with_context(|| failed(&marker))?;
    let pki = dir.join("pki");
    DirBuilder::new().mode(0o700).create(&pki).with_context(|| failed(&pki))?;
    for file in &backup.files {
        let path = dir.join(&file.name);
        env::file::create(&path, &file.content, file.mode).with_context(|| failed(&path))?;
    }
    sync(&pki).and_then(|()| sync(&dir)).with_context(|| failed(&pki))?;
    let revision = backup.restore(&dir.join("store"))?;
    std::fs::remove_file(&marker)
        .and_then(|()| sync(&dir))
        .with_context(|| format!("cannot delete {}", marker.display()))?;
    println!(
        "Restored {} objects of revision {} into {}; the cluster continues at revision {revision}.",
        backup.entries.len(),
        backup.revision,
        dir.display()
    );
    println!("Next: setpoint up --data-dir {}", dir.display());
    Ok(())
}

pub fn repair(matches: &ArgMatches) -> Result<()> {
    let dir = cli::data_dir_of(matches);
    check_restored(&dir)?;
    let store::Repaired { kept, revision, damaged } = store::repair(&dir.join("store"))?;
    println!("Kept everything up to revision {kept}; the cluster continues at revision {revision}.");
    if let Some(damaged) = damaged {
        println!("The damaged file was renamed to {}; it can be deleted.", damaged.display());
    }
    Ok(())
}

/// `Err` if a restore into the directory was interrupted.
pub fn check_restored(dir: &Path) -> Result<()> {
    if dir.join(RESTORING).exists() {
        bail!(
            "a restore into {} was interrupted: run the same `setpoint restore` again, or `setpoint reset` to discard it",
            dir.display()
        );
    }
    Ok(())
}

fn file_of(matches: &ArgMatches) -> PathBuf {
    matches.get_one::<PathBuf>("file").cloned().unwrap_or_default()
}

/// Verified, and without files that would be written outside of `pki`.
fn read(file: &Path) -> Result<Backup> {
    if !file.is_file() {
        bail!("backup file not found: {}", file.display());
    }
    let backup = Backup::read(file)?;
    for BackupFile { name, .. } in &backup.files {
        let parts: Vec<Component<'_>> = Path::new(name).components().collect();
        if !matches!(parts[..], [Component::Normal(dir), Component::Normal(_)] if dir == "pki") {
            bail!("{} contains the unexpected file {name:?}: nothing was restored", file.display());
        }
    }
    Ok(backup)
}

/// Everything in `pki`, in name order.
fn keys(dir: &Path) -> Result<Vec<BackupFile>> {
    let pki = dir.join("pki");
    let cannot = || format!("cannot read {}", pki.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&pki).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        let Some(name) = path.file_name().and_then(|n| n.to_str()) else { continue };
        // The temporary file of a certificate being renewed; it may be gone by now.
        if name.ends_with(".tmp") {
            continue;
        }
        let metadata = std::fs::metadata(&path).with_context(cannot)?;
        if !metadata.is_file() || metadata.len() > MAX_FILE {
            continue;
        }
        let content = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        files.push(BackupFile { name: format!("pki/{name}"), mode: metadata.mode() & 0o777, content });
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}

/// Makes the directory ready for a restore: it must be empty, except for an interrupted restore, which is deleted.
fn prepare(dir: &Path) -> Result<()> {
    let interrupted = dir.join(RESTORING).exists();
    if interrupted {
        crate::store_choice::check_unused(dir)?;
        for name in ["store", "pki"] {
            env::file::unless_missing(std::fs::remove_dir_all(dir.join(name)))
                .with_context(|| format!("cannot delete {}", dir.join(name).display()))?;
        }
    } else if !dir.exists() {
        let created =
            DirBuilder::new().recursive(true).mode(0o700).create(dir).and_then(|()| sync_parent(dir));
        created.with_context(|| {
            format!("cannot create {}; choose another directory with --data-dir", dir.display())
        })?;
    }
    let cannot = || format!("cannot read {}; choose another directory with --data-dir", dir.display());
    for entry in std::fs::read_dir(dir).with_context(cannot)? {
        let name = entry.with_context(cannot)?.file_name();
        if name != RESTORING && name != "lost+found" {
            bail!(
                "{} is not empty (found {}): choose another directory with --data-dir, or clear it with `setpoint reset`",
                dir.display(),
                name.to_string_lossy()
            );
        }
    }
    Ok(())
}

fn sync_parent(dir: &Path) -> io::Result<()> {
    std::path::absolute(dir)?.parent().map_or(Ok(()), sync)
}

fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
