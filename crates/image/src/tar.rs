//! Reads tar archives: headers one by one, each entry's content in between.
//!
//! A parser of its own, as every length in an archive is somebody else's word: names, extensions and links have bounds here,
//! and nothing touches a file system. Formats: v7, ustar, GNU (long names, base-256 numbers) and PAX.

use std::collections::BTreeMap;
use std::io::{self, Read};

const BLOCK: usize = 512;
/// Longest extended header, long name or long link that is read: PAX headers carry extended attributes of up to 64 KiB each.
const MAX_EXTENSION: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Link,
    Symlink,
    Char,
    Block,
    Directory,
    Fifo,
    /// A type this reader does not know, or a sparse file.
    Other(u8),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub kind: Kind,
    pub path: Vec<u8>,
    pub link: Vec<u8>,
    pub mode: u32,
    pub uid: u64,
    pub gid: u64,
    pub size: u64,
    pub mtime_seconds: i64,
    pub mtime_nanos: u32,
    pub device: (u32, u32),
    /// Extended attributes by name.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum TarError {
    #[error("the archive ends in the middle")]
    Truncated,
    #[error("a header has a wrong checksum")]
    Checksum,
    #[error("a header holds a wrong {0}")]
    Field(&'static str),
    #[error("an extended header is too long")]
    TooLong,
    #[error(transparent)]
    Read(io::Error),
}

impl From<io::Error> for TarError {
    fn from(error: io::Error) -> TarError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => TarError::Truncated,
            _ => TarError::Read(error),
        }
    }
}

/// An archive being read.
pub(crate) struct Archive<R> {
    source: R,
    /// Bytes of the current entry not read yet, and of the padding behind it.
    left: u64,
    padding: u64,
    /// Where the next byte of the source is, counted from the start.
    position: u64,
    finished: bool,
}

impl<R: Read> Archive<R> {
    pub fn new(source: R) -> Archive<R> {
        Archive { source, left: 0, padding: 0, position: 0, finished: false }
    }

    /// Where the content of the current entry starts in the archive.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next entry; what was not read of the one before is skipped.
    pub fn next(&mut self) -> Result<Option<Entry>, TarError> {
        let mut extension = Extension::default();
        loop {
            self.skip()?;
            let Some(header) = self.header()? else { return Ok(None) };
            match header[156] {
                b'x' => {
                    let text = self.extension(&header)?;
                    extension.pax(&text)?;
                }
                // Defaults for all that follows: no image builder writes any that matter.
                b'g' => self.start(number(&header[124..136], "size")?),
                b'L' => extension.path = Some(until_nul(&self.extension(&header)?).to_vec()),
                b'K' => extension.link = Some(until_nul(&self.extension(&header)?).to_vec()),
                _ => {
                    let entry = entry(&header, extension)?;
                    // Whatever has no content by its type may still say a size: then it is skipped, except for links, where
                    // old archives repeat the size of the file they link to.
                    let bare = matches!(
                        entry.kind,
                        Kind::Link | Kind::Symlink | Kind::Directory | Kind::Char | Kind::Block | Kind::Fifo
                    );
                    self.start(if bare { 0 } else { entry.size });
                    return Ok(Some(entry));
                }
            }
        }
    }

    /// Reads what is left of the source, so that a digest over it is complete.
    pub fn drain(&mut self) -> Result<(), TarError> {
        io::copy(&mut self.source, &mut io::sink())?;
        Ok(())
    }

    pub fn into_source(self) -> R {
        self.source
    }

    fn start(&mut self, size: u64) {
        self.left = size;
        self.padding = (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64;
    }

    fn skip(&mut self) -> Result<(), TarError> {
        let rest = self.left.checked_add(self.padding).ok_or(TarError::Field("size"))?;
        let skipped = io::copy(&mut self.source.by_ref().take(rest), &mut io::sink())?;
        self.position += skipped;
        (self.left, self.padding) = (0, 0);
        if skipped == rest { Ok(()) } else { Err(TarError::Truncated) }
    }

    /// The next block, unless the archive is at its end: two blocks of zeros, or as some write it, nothing more at all.
    fn header(&mut self) -> Result<Option<[u8; BLOCK]>, TarError> {
        let mut block = [0; BLOCK];
        if self.finished || !self.block(&mut block)? {
            self.finished = true;
            return Ok(None);
        }
        if block.iter().all(|byte| *byte == 0) {
            self.finished = true;
            return Ok(None);
        }
        let stored = number(&block[148..156], "checksum")?;
        let sum = |signed: bool| -> i64 {
            let bytes = block.iter().enumerate();
            bytes
                .map(|(at, byte)| match at {
                    148..156 => i64::from(b' '),
                    // Old archivers summed signed characters.
                    _ if signed => i64::from(*byte as i8),
                    _ => i64::from(*byte),
                })
                .sum()
        };
        if i64::try_from(stored).is_ok_and(|stored| stored == sum(false) || stored == sum(true)) {
            Ok(Some(block))
        } else {
            Err(TarError::Checksum)
        }
    }

    /// A whole block, or nothing at the end of the source.
    fn block(&mut self, block: &mut [u8; BLOCK]) -> Result<bool, TarError> {
        let mut filled = 0;
        while filled < BLOCK {
            match self.source.read(&mut block[filled..]) {
                Ok(0) if filled == 0 => return Ok(false),
                Ok(0) => return Err(TarError::Truncated),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.position += BLOCK as u64;
        Ok(true)
    }

    fn extension(&mut self, header: &[u8; BLOCK]) -> Result<Vec<u8>, TarError> {
        let size = number(&header[124..136], "size")?;
        if size > MAX_EXTENSION {
            return Err(TarError::TooLong);
        }
        self.start(size);
        let mut text = Vec::new();
        self.read_to_end(&mut text)?;
        Ok(text)
    }
}

/// The content of the current entry. A source that ends before it does is an error, not an end.
impl<R: Read> Read for Archive<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        let count = self.source.read(&mut buffer[..most])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= count as u64;
        self.position += count as u64;
        Ok(count)
    }
}

/// What extended headers say about the entry after them.
#[derive(Default)]
struct Extension {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    uid: Option<u64>,
    gid: Option<u64>,
    mtime: Option<(i64, u32)>,
    sparse: bool,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Extension {
    /// Records of the form `LENGTH KEY=VALUE\n`.
    fn pax(&mut self, mut text: &[u8]) -> Result<(), TarError> {
        let wrong = || TarError::Field("extended header");
        while !text.is_empty() {
            let space = text.iter().position(|b| *b == b' ').ok_or_else(wrong)?;
            let length: usize = decimal(&text[..space]).and_then(|n| n.try_into().ok()).ok_or_else(wrong)?;
            let record = text.get(space + 1..length).and_then(|record| record.strip_suffix(b"\n"));
            let record = record.ok_or_else(wrong)?;
            let equals = record.iter().position(|b| *b == b'=').ok_or_else(wrong)?;
            let (key, value) = (&record[..equals], &record[equals + 1..]);
            text = &text[length..];
            match key {
                // An empty value takes back what was said before.
                b"path" => self.path = (!value.is_empty()).then(|| value.to_vec()),
                b"linkpath" => self.link = (!value.is_empty()).then(|| value.to_vec()),
                b"size" => self.size = Some(decimal(value).ok_or(TarError::Field("size"))?),
                b"uid" => self.uid = Some(decimal(value).ok_or(TarError::Field("uid"))?),
                b"gid" => self.gid = Some(decimal(value).ok_or(TarError::Field("gid"))?),
                b"mtime" => self.mtime = Some(time(value).ok_or(TarError::Field("mtime"))?),
                _ if key.starts_with(b"GNU.sparse.") => self.sparse = true,
                _ => {
                    if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
                        self.xattrs.insert(name.to_vec(), value.to_vec());
                    }
                }
            }
        }
        Ok(())
    }
}

fn entry(header: &[u8; BLOCK], extension: Extension) -> Result<Entry, TarError> {
    let name = until_nul(&header[..100]);
    let posix = &header[257..263] == b"ustar\0";
    let path = extension.path.unwrap_or_else(|| match until_nul(&header[345..500]) {
        prefix if posix && !prefix.is_empty() => [prefix, b"/", name].concat(),
        _ => name.to_vec(),
    });
    let kind = match header[156] {
        _ if extension.sparse => Kind::Other(b'S'),
        // Before types existed, a directory was a name with a slash behind it.
        b'0' | 0 | b'7' if path.ends_with(b"/") => Kind::Directory,
        b'0' | 0 | b'7' => Kind::File,
        b'1' => Kind::Link,
        b'2' => Kind::Symlink,
        b'3' => Kind::Char,
        b'4' => Kind::Block,
        b'5' => Kind::Directory,
        b'6' => Kind::Fifo,
        other => Kind::Other(other),
    };
    let device = match kind {
        Kind::Char | Kind::Block => {
            let part =
                |range: &[u8]| u32::try_from(number(range, "device")?).map_err(|_| TarError::Field("device"));
            (part(&header[329..337])?, part(&header[337..345])?)
        }
        _ => (0, 0),
    };
    let or = |given: Option<u64>, range: &[u8], what| given.map_or_else(|| number(range, what), Ok);
    let (mtime_seconds, mtime_nanos) = match extension.mtime {
        Some(time) => time,
        None => (signed(&header[136..148], "mtime")?, 0),
    };
    Ok(Entry {
        kind,
        path,
        link: extension.link.unwrap_or_else(|| until_nul(&header[157..257]).to_vec()),
        mode: (number(&header[100..108], "mode")? & 0o7777) as u32,
        uid: or(extension.uid, &header[108..116], "uid")?,
        gid: or(extension.gid, &header[116..124], "gid")?,
        size: or(extension.size, &header[124..136], "size")?,
        mtime_seconds,
        mtime_nanos,
        device,
        xattrs: extension.xattrs,
    })
}

fn until_nul(field: &[u8]) -> &[u8] {
    &field[..field.iter().position(|b| *b == 0).unwrap_or(field.len())]
}

fn number(field: &[u8], what: &'static str) -> Result<u64, TarError> {
    u64::try_from(signed(field, what)?).map_err(|_| TarError::Field(what))
}

/// Octal digits, or with the first bit set a big-endian number, as GNU tar writes what is too large for them.
fn signed(field: &[u8], what: &'static str) -> Result<i64, TarError> {
    let wrong = TarError::Field(what);
    if field.first().is_some_and(|first| first & 0x80 != 0) {
        let negative = field[0] & 0x40 != 0;
        let fill: i128 = if negative { -1 } else { 0 };
        let mut value = fill;
        for (at, byte) in field.iter().enumerate() {
            let byte = match at {
                0 if negative => byte | 0x80,
                0 => byte & 0x7f,
                _ => *byte,
            };
            if !(-(1i128 << 100)..1i128 << 100).contains(&value) {
                return Err(wrong);
            }
            value = (value << 8) | i128::from(byte);
        }
        return i64::try_from(value).map_err(|_| wrong);
    }
    let text = field.iter().copied().skip_while(|b| *b == b' ' || *b == 0);
    let digits: Vec<u8> = text.take_while(|b| *b != b' ' && *b != 0).collect();
    let mut value: i64 = 0;
    for digit in digits {
        if !(b'0'..=b'7').contains(&digit) {
            return Err(wrong);
        }
        let more = value.checked_mul(8).and_then(|value| value.checked_add(i64::from(digit - b'0')));
        value = more.ok_or(TarError::Field(what))?;
    }
    Ok(value)
}

fn decimal(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()
}

/// Seconds with a fraction, perhaps before 1970.
fn time(text: &[u8]) -> Option<(i64, u32)> {
    let text = std::str::from_utf8(text).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let seconds: i64 = whole.parse().ok()?;
    if !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let nanos: u32 = digits.parse().ok()?;
    match nanos {
        1.. if whole.starts_with('-') => Some((seconds.checked_sub(1)?, 1_000_000_000 - nanos)),
        nanos => Some((seconds, nanos)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_octal_or_binary() {
        for (field, value) in [
            (&b"0000644\0"[..], Some(0o644)),
            (b"   644 \0", Some(0o644)),
            (b"\0\0\0\0\0\0\0\0", Some(0)),
            (b"0000648\0", None),
            (b"-000001\0", None),
            (&[0x80, 0, 0, 0, 0, 0, 1, 0], Some(256)),
            (&[0xff; 8], None),
            (&[0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], None),
        ] {
            assert_eq!(number(field, "x").ok(), value, "{field:?}");
        }
        assert_eq!(signed(&[0xff; 12], "x").ok(), Some(-1));
    }

    #[test]
    fn times_have_fractions_and_may_be_before_1970() {
        for (text, value) in [
            ("1", Some((1, 0))),
            ("1.5", Some((1, 500_000_000))),
            ("1.1234567891", Some((1, 123_456_789))),
            ("-1", Some((-1, 0))),
            ("-1.25", Some((-2, 750_000_000))),
            ("-0.5", Some((-1, 500_000_000))),
            ("", None),
            ("1.-5", None),
            ("nan", None),
        ] {
            assert_eq!(time(text.as_bytes()), value, "{text}");
        }
    }

    #[test]
    fn broken_extended_headers_are_refused() {
        for text in [
            "x",
            "5 a",
            "0 a=b\n",
            "99 a=b\n",
            "6 a=b\nx",
            "5 ab\n",
            "11 size=-12\n",
            "-6 a=b\n",
            "4294967296 a=\n",
        ] {
            assert!(Extension::default().pax(text.as_bytes()).is_err(), "{text}");
        }
        let mut extension = Extension::default();
        extension.pax(b"16 path=a\nb=c d\n31 SCHILY.xattr.user.x=a\0b=c \n\n").unwrap();
        assert_eq!(extension.path.as_deref(), Some(&b"a\nb=c d"[..]));
    }
}
