//! Logs in CRI's format: `TIME STREAM TAG TEXT`, where the tag `F` ends a line and `P` says that it goes on.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Longer lines are cut into parts.
const MOST_LINE: usize = 16 << 10;

/// One container's log, of both streams.
pub struct LogWriter {
    path: PathBuf,
    file: File,
    /// What of a line came so far, for output and error.
    pending: [Vec<u8>; 2],
    buffer: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Stdout = 0,
    Stderr = 1,
}

impl Stream {
    fn name(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        }
    }
}

impl LogWriter {
    pub fn open(path: &Path) -> io::Result<LogWriter> {
        let pending = [Vec::new(), Vec::new()];
        Ok(LogWriter { path: path.to_owned(), file: open(path)?, pending, buffer: Vec::new() })
    }

    /// After the file was moved away.
    pub fn reopen(&mut self) -> io::Result<()> {
        self.file = open(&self.path)?;
        Ok(())
    }

    /// Writes what came of a stream now; `time` is Unix nanoseconds.
    pub fn write(&mut self, stream: Stream, mut bytes: &[u8], time: u64) -> io::Result<()> {
        self.buffer.clear();
        while !bytes.is_empty() {
            let pending = &mut self.pending[stream as usize];
            let room = MOST_LINE - pending.len();
            let end = bytes.iter().take(room).position(|byte| *byte == b'\n');
            let (line, rest, tag) = match end {
                Some(at) => (&bytes[..at], &bytes[at + 1..], "F"),
                None if bytes.len() >= room => (&bytes[..room], &bytes[room..], "P"),
                None => {
                    pending.extend_from_slice(bytes);
                    break;
                }
            };
            put(&mut self.buffer, stream, tag, pending, line, time);
            pending.clear();
            bytes = rest;
        }
        self.file.write_all(&self.buffer)
    }

    /// A last line that was not ended.
    pub fn finish(&mut self, time: u64) -> io::Result<()> {
        self.buffer.clear();
        for stream in [Stream::Stdout, Stream::Stderr] {
            let pending = std::mem::take(&mut self.pending[stream as usize]);
            if !pending.is_empty() {
                put(&mut self.buffer, stream, "P", &pending, b"", time);
            }
        }
        self.file.write_all(&self.buffer)
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::options().create(true).append(true).open(path)
}

fn put(to: &mut Vec<u8>, stream: Stream, tag: &str, begun: &[u8], line: &[u8], time: u64) {
    write_time(to, time);
    to.push(b' ');
    to.extend_from_slice(stream.name().as_bytes());
    to.push(b' ');
    to.extend_from_slice(tag.as_bytes());
    to.push(b' ');
    to.extend_from_slice(begun);
    to.extend_from_slice(line);
    to.push(b'\n');
}

/// RFC 3339 in UTC, with nine digits of a second.
fn write_time(to: &mut Vec<u8>, nanos: u64) {
    let (seconds, nanos) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days since 0000-03-01, in eras of 400 years: leap days come last in a year that begins in March.
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let _ = write!(to, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}Z");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_kept_whole_across_reads() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.log");
        let mut log = LogWriter::open(&path).unwrap();
        let time = 1_700_000_000_000_000_123;
        log.write(Stream::Stdout, b"one\ntw", time).unwrap();
        log.write(Stream::Stderr, b"bad\n", time).unwrap();
        log.write(Stream::Stdout, b"o\n\nlast", time).unwrap();
        log.finish(time).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let prefix = "2023-11-14T22:13:20.000000123Z ";
        let lines: Vec<&str> = text.lines().map(|line| line.strip_prefix(prefix).unwrap()).collect();
        assert_eq!(lines, ["stdout F one", "stderr F bad", "stdout F two", "stdout F ", "stdout P last"]);
    }

    #[test]
    fn long_lines_are_cut() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.log");
        let mut log = LogWriter::open(&path).unwrap();
        let mut line = vec![b'x'; 2 * MOST_LINE + 5];
        line.push(b'\n');
        log.write(Stream::Stdout, &line, 0).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lengths: Vec<(&str, usize)> = text.lines().map(|line| (&line[38..39], line.len() - 40)).collect();
        assert_eq!(lengths, [("P", MOST_LINE), ("P", MOST_LINE), ("F", 5)]);
    }
}
