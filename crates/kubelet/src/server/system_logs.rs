//! `/logs/`: the machine's log files, as a file server shows a directory.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rustix::fs::{Mode, OFlags, ResolveFlags};

use super::answer::{self, Answer};
use crate::blocking::block;

/// Of a file, on its way.
const PIECE: usize = 64 << 10;
/// Of a file, to tell what it is.
const SNIFFED: usize = 512;
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'/')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

enum Found {
    /// Asked for without the slash at the end.
    Moved(String),
    Directory(String),
    File {
        file: File,
        bytes: u64,
        kind: &'static str,
        begin: Vec<u8>,
    },
}

/// `path`: what stands behind `/logs/`, decoded.
pub async fn serve(directory: &Path, path: &str) -> Answer {
    let (directory, path) = (directory.to_owned(), path.to_owned());
    let found = block(move || find(&directory, &path)).await.and_then(|found| found);
    match found {
        Ok(Found::Moved(to)) => answer::redirect(&to),
        Ok(Found::Directory(page)) => answer::html(page),
        Ok(Found::File { file, bytes, kind, begin }) => stream(file, bytes, kind, begin),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            answer::error(StatusCode::FORBIDDEN, "403 Forbidden")
        }
        Err(_) => answer::not_found(),
    }
}

fn find(directory: &Path, path: &str) -> io::Result<Found> {
    let file = open(directory, path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        if !path.is_empty() && !path.ends_with('/') {
            let name = path.rsplit('/').next().unwrap_or(path);
            return Ok(Found::Moved(format!("{}/", utf8_percent_encode(name, UNRESERVED))));
        }
        return Ok(Found::Directory(list(&file)?));
    }
    if !metadata.is_file() || path.ends_with('/') {
        return Err(ErrorKind::NotFound.into());
    }
    let mut begin = Vec::with_capacity(SNIFFED);
    (&file).take(SNIFFED as u64).read_to_end(&mut begin)?;
    Ok(Found::File { kind: kind(&begin), bytes: metadata.len(), file, begin })
}

/// Differs from kubelet: a link that leads out of the directory leads nowhere. A pod that may write there would read every file of
/// the machine otherwise.
fn open(directory: &Path, path: &str) -> io::Result<File> {
    let root = directory.canonicalize()?;
    let relative: PathBuf = path.split('/').filter(|part| !matches!(*part, "" | "." | "..")).collect();
    let real = root.join(relative).canonicalize()?;
    let below = real.strip_prefix(&root).map_err(|_| ErrorKind::NotFound)?;
    let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    let top = rustix::fs::open(&root, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    // Who swaps a part of the path now gets nothing. What is no file must not be waited for.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    Ok(rustix::fs::openat2(&top, below, flags, Mode::empty(), resolve)?.into())
}

fn list(directory: &File) -> io::Result<String> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory.as_fd())? {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        if matches!(name, "." | "..") {
            continue;
        }
        let is_directory = match entry.file_type() {
            rustix::fs::FileType::Directory => true,
            rustix::fs::FileType::Symlink => {
                let to = rustix::fs::statat(directory, name, rustix::fs::AtFlags::empty());
                to.is_ok_and(|to| rustix::fs::FileType::from_raw_mode(to.st_mode).is_dir())
            }
            _ => false,
        };
        names.push(if is_directory { format!("{name}/") } else { name.to_owned() });
    }
    names.sort();
    let mut page =
        String::from("<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n");
    for name in names {
        let text = name
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
            .replace('"', "&#34;")
            .replace('\'', "&#39;");
        // A colon in the first part would begin a URL of another scheme.
        let dots = if name.contains(':') { "./" } else { "" };
        let _ = writeln!(page, "<a href=\"{dots}{}\">{text}</a>", utf8_percent_encode(&name, UNRESERVED));
    }
    page += "</pre>\n";
    Ok(page)
}

fn kind(begin: &[u8]) -> &'static str {
    let is_binary = |byte: &u8| matches!(byte, 0..=8 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f);
    match begin {
        [0x1f, 0x8b, 8, ..] => "application/x-gzip",
        _ if begin.iter().any(is_binary) => "application/octet-stream",
        _ => "text/plain; charset=utf-8",
    }
}

/// As long as it was when it was opened: a log grows.
fn stream(file: File, bytes: u64, kind: &'static str, begin: Vec<u8>) -> Answer {
    let left = bytes.saturating_sub(begin.len() as u64);
    let mut answer = answer::stream(move |pieces| {
        Box::pin(async move {
            if !begin.is_empty() && pieces.send(begin.into()).await.is_err() {
                return;
            }
            let mut rest = file.take(left);
            loop {
                let read = block(move || {
                    let mut piece = Vec::with_capacity(PIECE);
                    let read = rest.by_ref().take(PIECE as u64).read_to_end(&mut piece);
                    read.map(|_| (rest, piece))
                });
                match read.await.and_then(|read| read) {
                    Ok((_, piece)) if piece.is_empty() => return,
                    Ok((again, piece)) => {
                        rest = again;
                        if pieces.send(Bytes::from(piece)).await.is_err() {
                            return;
                        }
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a log file of the machine cannot be read");
                        return;
                    }
                }
            }
        })
    });
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(directory: &Path, path: &str) -> Result<String, String> {
        match find(directory, path) {
            Ok(Found::Directory(page)) => Ok(page),
            Ok(Found::Moved(to)) => Err(to),
            Ok(Found::File { kind, bytes, .. }) => Ok(format!("{kind} {bytes}")),
            Err(error) => Err(error.kind().to_string()),
        }
    }

    #[test]
    fn a_directory_is_listed_and_nothing_outside_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let logs = folder.path().join("log");
        std::fs::create_dir_all(logs.join("pods/a b")).unwrap();
        std::fs::write(logs.join("messages"), "one\n").unwrap();
        std::fs::write(logs.join("old.gz"), [0x1f, 0x8b, 8, 0]).unwrap();
        std::fs::write(folder.path().join("secret"), "s").unwrap();
        std::os::unix::fs::symlink(folder.path().join("secret"), logs.join("out")).unwrap();
        std::os::unix::fs::symlink(logs.join("pods"), logs.join("in")).unwrap();
        std::os::unix::fs::symlink("/", logs.join("root")).unwrap();
        let listed = page(&logs, "").unwrap();
        let hrefs: Vec<&str> = listed.lines().filter(|line| line.starts_with("<a ")).collect();
        assert_eq!(
            hrefs,
            [
                "<a href=\"in/\">in/</a>",
                "<a href=\"messages\">messages</a>",
                "<a href=\"old.gz\">old.gz</a>",
                "<a href=\"out\">out</a>",
                "<a href=\"pods/\">pods/</a>",
                "<a href=\"root/\">root/</a>",
            ]
        );
        assert_eq!(page(&logs, "messages").unwrap(), "text/plain; charset=utf-8 4");
        assert_eq!(page(&logs, "old.gz").unwrap(), "application/x-gzip 4");
        assert_eq!(page(&logs, "in").unwrap_err(), "in/");
        assert!(page(&logs, "in/").unwrap().contains("<a href=\"a%20b/\">a b/</a>"));
        for path in ["out", "root/etc/passwd", "../secret", "pods/../../secret", "none", "messages/"] {
            assert_eq!(page(&logs, path).unwrap_err(), "entity not found", "{path}");
        }
    }
}
