//! Reads a log as `kubectl logs` asks for it, by the rules of kubelet's reader.

mod tail;

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bytes::{Buf, Bytes, BytesMut};

use crate::format::{Format, Line};
use crate::rotate;

/// How much is read from the file, or handed out, at once.
const PIECE: usize = 32 << 10;
/// Longer lines are skipped, as those that make no sense are: no container runtime writes one.
const MAX_LINE: usize = 4 << 20;
/// So much is looked through at once, however little of it is shown.
const MOST_INPUT: usize = 1 << 20;

/// What is asked for, in the terms of `PodLogOptions`.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub follow: bool,
    /// From the end of the file written now.
    pub tail_lines: Option<u64>,
    /// Unix nanoseconds: from `sinceTime`, or from now and `sinceSeconds`. Lines before it are left out.
    pub since_nanos: Option<i128>,
    /// Of the output.
    pub limit_bytes: Option<u64>,
    /// Puts each line's time before it.
    pub timestamps: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("failed to try resolving symlinks in path {0:?}: {1}")]
    Symlinks(PathBuf, #[source] io::Error),
    #[error("failed to open log file {0:?}: {1}")]
    Open(PathBuf, #[source] io::Error),
    #[error("failed to tail {0} lines of log file {1:?}: {2}")]
    Tail(u64, PathBuf, #[source] io::Error),
    #[error("failed to read log file {0:?}: {1}")]
    Read(PathBuf, #[source] io::Error),
    #[error("failed to get parse function: unsupported log format: {0:?}")]
    Format(String),
    #[error("unexpected stream type")]
    Stream,
}

/// Where reading stands after a piece of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There may be more at once.
    More,
    /// Followed: there is more when the container writes it.
    End,
    /// There is nothing more.
    Done,
}

pub struct Reader {
    path: PathBuf,
    file: File,
    options: Options,
    /// Read from the file, and not yet a whole line.
    input: BytesMut,
    /// Up to here `input` has no newline.
    searched: usize,
    /// In the midst of a line that is too long.
    skipping: bool,
    format: Option<Format>,
    /// The last line's text was complete, so that the next one gets a time.
    at_line_start: bool,
    remaining_bytes: u64,
    /// With `tail_lines` and without `follow`: what is written meanwhile is not shown.
    remaining_lines: Option<u64>,
    /// The file was seen to have a successor: read once more to its end, it has no more to give.
    superseded: bool,
}

impl Reader {
    pub fn open(path: &Path, options: Options) -> Result<Reader, ReadError> {
        // Runtimes may have the log elsewhere, with a link at the path kubelet knows.
        let path = path.canonicalize().map_err(|error| ReadError::Symlinks(path.to_owned(), error))?;
        let mut file = File::open(&path).map_err(|error| ReadError::Open(path.clone(), error))?;
        if let Some(lines) = options.tail_lines {
            let start = tail::start_of_last_lines(&mut file, lines);
            let sought = start.and_then(|start| file.seek(SeekFrom::Start(start)));
            sought.map_err(|error| ReadError::Tail(lines, path.clone(), error))?;
        }
        Ok(Reader {
            path,
            file,
            input: BytesMut::new(),
            searched: 0,
            skipping: false,
            format: None,
            at_line_start: true,
            remaining_bytes: options.limit_bytes.unwrap_or(u64::MAX),
            remaining_lines: options.tail_lines.filter(|_| !options.follow),
            superseded: false,
            options,
        })
    }

    /// The file written now, which to watch for changes.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends the next output to `output`: some 32 KiB, or what there is in the next MiB of the log.
    pub fn read(&mut self, output: &mut BytesMut) -> Result<Progress, ReadError> {
        let full = output.len() + PIECE;
        let mut looked_through = 0;
        while output.len() < full {
            if self.remaining_lines == Some(0) {
                return Ok(Progress::Done);
            }
            if let Some(line) = self.next_line() {
                if !self.show(&line, output)? {
                    return Ok(Progress::Done);
                }
                continue;
            }
            let filled = self.fill()?;
            looked_through += filled;
            if looked_through >= MOST_INPUT {
                return Ok(Progress::More);
            }
            if filled > 0 {
                continue;
            }
            if self.options.follow {
                if self.advance()? {
                    continue;
                }
                return Ok(Progress::End);
            }
            // A line without an end is shown as far as it goes.
            let rest = self.input.split();
            self.searched = 0;
            if !rest.is_empty() && !self.skipping {
                self.show(&rest, output)?;
            }
            return Ok(Progress::Done);
        }
        Ok(Progress::More)
    }

    /// The next output, on a thread that may wait for the disk.
    #[expect(clippy::disallowed_methods, reason = "logs are files: reading them blocks")]
    pub async fn next(mut self) -> Result<(Reader, Bytes, Progress), ReadError> {
        let path = self.path.clone();
        let read = tokio::task::spawn_blocking(move || {
            let mut output = BytesMut::new();
            let progress = self.read(&mut output)?;
            Ok((self, output.freeze(), progress))
        });
        read.await.unwrap_or_else(|error| Err(ReadError::Read(path, io::Error::other(error))))
    }

    fn fill(&mut self) -> Result<usize, ReadError> {
        let start = self.input.len();
        self.input.resize(start + PIECE, 0);
        let read = self.file.read(&mut self.input[start..]);
        self.input.truncate(start + read.as_ref().map_or(0, |read| *read));
        read.map_err(|error| ReadError::Read(self.path.clone(), error))
    }

    /// The next line with its newline, out of what has been read.
    fn next_line(&mut self) -> Option<BytesMut> {
        loop {
            let Some(at) = memchr::memchr(b'\n', &self.input[self.searched..]) else {
                self.searched = self.input.len();
                if self.searched > MAX_LINE || self.skipping {
                    self.skipping = true;
                    self.input.clear();
                    self.searched = 0;
                }
                return None;
            };
            let end = std::mem::take(&mut self.searched) + at + 1;
            if std::mem::take(&mut self.skipping) {
                self.input.advance(end);
                continue;
            }
            return Some(self.input.split_to(end));
        }
    }

    /// Appends a line's output. False: the limit of bytes is reached.
    fn show(&mut self, line: &[u8], output: &mut BytesMut) -> Result<bool, ReadError> {
        let format = match self.format {
            Some(format) => format,
            None => {
                let unknown = || ReadError::Format(String::from_utf8_lossy(line).into_owned());
                *self.format.insert(Format::of(line).ok_or_else(unknown)?)
            }
        };
        let Some(line) = format.parse(line) else {
            tracing::debug!(path = %self.path.display(), "line of a log cannot be read");
            return Ok(true);
        };
        let goes_on = self.write(&line, output)?;
        if let Some(lines) = &mut self.remaining_lines {
            *lines -= 1;
        }
        self.at_line_start = line.text.last().is_none_or(|byte| *byte == b'\n');
        Ok(goes_on)
    }

    fn write(&mut self, line: &Line<'_>, output: &mut BytesMut) -> Result<bool, ReadError> {
        if self.options.since_nanos.is_some_and(|since| line.time.nanos < since) {
            return Ok(true);
        }
        line.stream.ok_or(ReadError::Stream)?;
        if self.options.timestamps && self.at_line_start {
            self.put(line.time.format().as_bytes(), output);
            self.put(b" ", output);
        }
        self.put(&line.text, output);
        Ok(self.remaining_bytes > 0)
    }

    fn put(&mut self, bytes: &[u8], output: &mut BytesMut) {
        let size = usize::try_from(self.remaining_bytes).unwrap_or(usize::MAX).min(bytes.len());
        output.extend_from_slice(&bytes[..size]);
        self.remaining_bytes -= size as u64;
    }

    /// At the end of the file: goes on in its successor, if it was rotated. False: it was not, or not completely.
    fn advance(&mut self) -> Result<bool, ReadError> {
        let failed = |error| ReadError::Read(self.path.clone(), error);
        if !self.superseded {
            let current = identity(&self.file.metadata().map_err(failed)?);
            self.superseded = match std::fs::metadata(&self.path) {
                Ok(latest) => identity(&latest) != current,
                // Renamed, and not yet opened anew.
                Err(error) if error.kind() == io::ErrorKind::NotFound => false,
                Err(error) => return Err(failed(error)),
            };
            // Its writer may have written to it before it went on: read to the end once more.
            return Ok(self.superseded);
        }
        let next = self.successor().map_err(failed)?;
        match File::open(&next) {
            Ok(file) => {
                self.file = file;
                // Half a line its writer never completed.
                self.input.clear();
                self.searched = 0;
                self.superseded = false;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(ReadError::Open(next, error)),
        }
    }

    /// A reader slower than the rotation finds the next file renamed already.
    fn successor(&self) -> io::Result<PathBuf> {
        let current = identity(&self.file.metadata()?);
        let rotated = rotate::uncompressed(&self.path)?;
        let is_current =
            |file: &PathBuf| std::fs::metadata(file).is_ok_and(|metadata| identity(&metadata) == current);
        // Not among them it was compressed or removed, and so is older than all that are left.
        let next = rotated.iter().position(is_current).map_or(0, |at| at + 1);
        Ok(rotated.into_iter().nth(next).unwrap_or_else(|| self.path.clone()))
    }
}

/// What stays the same when a file is renamed.
fn identity(metadata: &std::fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

#[cfg(test)]
mod tests;
