//! What commands print. Whoever reads it may have seen enough, as `head` has: then the rest is nobody's, and no failure.

use std::fmt::Arguments;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Something was not written.
static FAILED: AtomicBool = AtomicBool::new(false);

/// As std's, which panics when nobody reads any more.
#[macro_export]
macro_rules! print {
    ($($text:tt)*) => { $crate::output::write(::std::format_args!($($text)*)) };
}

/// As std's, which panics when nobody reads any more.
#[macro_export]
macro_rules! println {
    () => { $crate::output::write(::std::format_args!("\n")) };
    ($($text:tt)*) => { $crate::output::write_line(::std::format_args!($($text)*)) };
}

/// As std's, which panics when nobody reads any more: what failed is told by the exit code, too.
#[macro_export]
macro_rules! eprintln {
    () => { $crate::output::write_error(::std::format_args!("\n")) };
    ($($text:tt)*) => { $crate::output::write_error_line(::std::format_args!($($text)*)) };
}

pub fn write(text: Arguments<'_>) {
    note(write_to(&mut io::stdout().lock(), text));
}

pub fn write_line(text: Arguments<'_>) {
    write(format_args!("{text}\n"));
}

pub fn write_error(text: Arguments<'_>) {
    // There is nowhere else to say it.
    let _ = write_to(&mut io::stderr().lock(), text);
}

pub fn write_error_line(text: Arguments<'_>) {
    write_error(format_args!("{text}\n"));
}

/// Whether output was lost that somebody waits for: a command that only prints has failed then.
pub fn has_failed() -> bool {
    FAILED.load(Ordering::Relaxed)
}

/// At once: what comes next may never end.
fn write_to(out: &mut dyn Write, text: Arguments<'_>) -> io::Result<()> {
    let written = out.write_fmt(text).and_then(|()| out.flush());
    written.or_else(|error| if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
}

fn note(written: io::Result<()>) {
    if let Err(error) = written
        && !FAILED.swap(true, Ordering::Relaxed)
    {
        let _ = writeln!(io::stderr(), "setpoint: cannot write to the standard output: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken(io::ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_left_is_no_failure_and_a_full_disk_is() {
        let write = |kind| write_to(&mut Broken(kind), format_args!("text\n")).map_err(|error| error.kind());
        assert_eq!(write(io::ErrorKind::BrokenPipe), Ok(()));
        assert_eq!(write(io::ErrorKind::StorageFull), Err(io::ErrorKind::StorageFull));
    }
}
