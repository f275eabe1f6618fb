//! Finds the last lines of a file, reading it backwards.

use std::io::{self, Read, Seek, SeekFrom};

const BLOCK: usize = 32 << 10;

/// Where the last `lines` lines begin. A last line without a newline is not counted, but part of them.
pub(super) fn start_of_last_lines(file: &mut (impl Read + Seek), lines: u64) -> io::Result<u64> {
    let mut end = file.seek(SeekFrom::End(0))?;
    let mut newlines = 0;
    let mut block = vec![0; BLOCK];
    while end > 0 {
        let size = end.min(BLOCK as u64) as usize;
        end -= size as u64;
        file.seek(SeekFrom::Start(end))?;
        file.read_exact(&mut block[..size])?;
        for at in memchr::memrchr_iter(b'\n', &block[..size]) {
            if newlines == lines {
                return Ok(end + at as u64 + 1);
            }
            newlines += 1;
        }
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn last_lines_are_found_from_the_end() {
        let start = |text: &str, lines| start_of_last_lines(&mut Cursor::new(text), lines).unwrap();
        for (text, lines, expected) in [
            ("", 0, 0),
            ("", 5, 0),
            ("a\nb\nc\n", 0, 6),
            ("a\nb\nc\n", 1, 4),
            ("a\nb\nc\n", 3, 0),
            ("a\nb\nc\n", 9, 0),
            ("a\nb\nrest", 0, 4),
            ("a\nb\nrest", 1, 2),
        ] {
            assert_eq!(start(text, lines), expected, "{lines} of {text:?}");
        }
        let long = "x".repeat(BLOCK - 3);
        let text = format!("{long}\n{long}\n{long}\n");
        assert_eq!(start(&text, 2), BLOCK as u64 - 2);
        assert_eq!(start(&text, 1), 2 * (BLOCK as u64 - 2));
    }
}
