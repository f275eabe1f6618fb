//! Writes what a container says.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tokio::sync::watch;

use crate::{Stream, Timestamp, rotate};

/// Longer lines are written in parts, as containerd does.
const MAX_LINE: usize = 16 << 10;

pub struct Writer {
    path: PathBuf,
    file: File,
    size: u64,
    /// By stream: what came since its last newline.
    begun: [Vec<u8>; 2],
    /// Lines of one call, written at once.
    lines: Vec<u8>,
    /// Counts writes and rotations, for readers in this process.
    changes: watch::Sender<u64>,
}

impl Writer {
    /// Opens a log, or goes on with it.
    pub fn open(path: &Path) -> io::Result<Writer> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let file = open(path)?;
        let size = file.metadata()?.len();
        let (changes, _) = watch::channel(0);
        Ok(Writer {
            path: path.to_owned(),
            file,
            size,
            begun: Default::default(),
            lines: Vec::new(),
            changes,
        })
    }

    /// Takes output as it comes. A line is written when it is complete or too long.
    pub fn write(&mut self, stream: Stream, now_nanos: i128, data: &[u8]) -> io::Result<()> {
        let time = Timestamp::utc(now_nanos).format();
        let begun = &mut self.begun[stream as usize];
        for part in data.split_inclusive(|byte| *byte == b'\n') {
            let mut part = part;
            while begun.len() + part.strip_suffix(b"\n").unwrap_or(part).len() > MAX_LINE {
                let (fits, rest) = part.split_at(MAX_LINE - begun.len());
                begun.extend_from_slice(fits);
                part = rest;
                line(&mut self.lines, &time, stream, b"P", begun);
            }
            match part.strip_suffix(b"\n") {
                Some(end) => {
                    begun.extend_from_slice(end);
                    line(&mut self.lines, &time, stream, b"F", begun);
                }
                None => begun.extend_from_slice(part),
            }
        }
        self.flush()
    }

    /// The stream ended: what it began stays without a newline.
    pub fn end(&mut self, stream: Stream, now_nanos: i128) -> io::Result<()> {
        let begun = &mut self.begun[stream as usize];
        if !begun.is_empty() {
            line(&mut self.lines, &Timestamp::utc(now_nanos).format(), stream, b"P", begun);
        }
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let written = self.file.write_all(&self.lines);
        self.size += self.lines.len() as u64;
        // Also after an error: a disk that is full must not fill the memory.
        self.lines.clear();
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
        written
    }

    /// Of the file written now.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Readers in this process wait for this instead of asking the kernel.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Goes on in a new file. Twice in a second it does nothing: the name of the old one would be taken.
    /// [`crate::make_room`] belongs before it, on a thread that may take its time.
    pub fn rotate(&mut self, now_nanos: i128) -> io::Result<()> {
        let Writer { path, file, size, changes, .. } = self;
        rotate::rotate_latest(path, Timestamp::utc(now_nanos), || {
            *file = open(path)?;
            *size = file.metadata()?.len();
            changes.send_modify(|count| *count = count.wrapping_add(1));
            Ok(())
        })
    }

    /// For those who rotate from outside, as kubelet does: goes on at the path, whatever is there.
    pub fn reopen(&mut self) -> io::Result<()> {
        self.file = open(&self.path)?;
        self.size = self.file.metadata()?.len();
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new().append(true).create(true).mode(0o640).open(path)
}

fn line(lines: &mut Vec<u8>, time: &str, stream: Stream, tag: &[u8], text: &mut Vec<u8>) {
    for part in [time.as_bytes(), b" ", stream.name().as_bytes(), b" ", tag, b" ", text, b"\n"] {
        lines.extend_from_slice(part);
    }
    text.clear();
}

#[cfg(test)]
mod tests;
