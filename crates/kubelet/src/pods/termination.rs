//! How a container ended, in its own words: what it wrote to its termination message path, or the end of its log.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use cri::Mount;

use crate::generate::absolute;
use crate::generate::labels::ContainerInfo;

const MOST_MESSAGE_BYTES: u64 = 4096;
/// Of a log that stands in for a message.
const MOST_LOG_BYTES: usize = 2048;
const MOST_LOG_LINES: usize = 80;
/// Read for that; runtimes break longer lines into parts of some kilobytes.
const MOST_WINDOW_BYTES: u64 = 4 << 20;

/// The message of a container that ended; reads files, so not to be called where others wait.
pub fn message(status: &cri::ContainerStatus, info: &ContainerInfo) -> String {
    let own = &status.message;
    // One that cannot even be started has no log.
    let falls_back = info.termination_message_policy == "FallbackToLogsOnError"
        && status.exit_code != 0
        && status.reason != "ContainerCannotRun";
    let told = match written(status, &info.termination_message_path) {
        Ok(written) if written.is_empty() && falls_back => tail_of_log(Path::new(&status.log_path))
            .unwrap_or_else(|error| format!("Error on reading termination message from logs: {error}")),
        Ok(written) => written,
        Err(said) => said,
    };
    match (own.is_empty(), told.is_empty()) {
        (_, true) => own.clone(),
        (true, false) => told,
        (false, false) => format!("{own}: {told}"),
    }
}

/// `Err`: what is told of a file that cannot be read.
fn written(status: &cri::ContainerStatus, message_path: &str) -> Result<String, String> {
    if message_path.is_empty() {
        return Ok(String::new());
    }
    // As it was mounted.
    let message_path = absolute(message_path);
    let mount = status.mounts.iter().find(|mount| mount.container_path == message_path);
    let Some(Mount { host_path, .. }) = mount else { return Ok(String::new()) };
    match end_of(Path::new(host_path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read.map_err(|error| format!("Error on reading termination log {host_path}: {error}")),
    }
}

/// The end of a file that a container wrote: it may be anything.
fn end_of(path: &Path) -> io::Result<String> {
    use rustix::fs::{Mode, OFlags};
    // Neither waits for the other end of a pipe nor follows a link out of the container.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = std::fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    file.seek(SeekFrom::Start(metadata.len().saturating_sub(MOST_MESSAGE_BYTES)))?;
    let mut message = Vec::new();
    file.take(MOST_MESSAGE_BYTES).read_to_end(&mut message)?;
    Ok(String::from_utf8_lossy(&message).into_owned())
}

fn tail_of_log(path: &Path) -> io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    let size = file.metadata()?.len();
    // Each line has its time and stream before it.
    let mut window = (MOST_LOG_BYTES + MOST_LOG_LINES * 64) as u64;
    loop {
        file.seek(SeekFrom::Start(size.saturating_sub(window)))?;
        let mut bytes = Vec::new();
        (&mut file).take(window).read_to_end(&mut bytes)?;
        let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        // The first is cut.
        let is_whole = size <= window;
        if !is_whole {
            lines.remove(0);
        }
        let first = lines.len().saturating_sub(MOST_LOG_LINES + 1);
        let said = text_of(&lines[first..]);
        if is_whole || first > 0 || said.len() >= MOST_LOG_BYTES || window >= MOST_WINDOW_BYTES {
            let from = said.len().saturating_sub(MOST_LOG_BYTES);
            return Ok(String::from_utf8_lossy(&said[from..]).into_owned());
        }
        window *= 4;
    }
}

/// What a container said in these lines of its log.
fn text_of(lines: &[&[u8]]) -> Vec<u8> {
    let mut said = Vec::new();
    for line in lines {
        let mut parts = line.splitn(4, |byte| *byte == b' ');
        let (_, _, tag, text) = (parts.next(), parts.next(), parts.next(), parts.next());
        let Some(text) = text else { continue };
        said.extend_from_slice(text);
        if tag.is_some_and(|tag| tag.starts_with(b"F")) {
            said.push(b'\n');
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(log: &Path, message: &Path, exit_code: i32) -> cri::ContainerStatus {
        let mount = cri::Mount {
            container_path: "/dev/termination-log".to_owned(),
            host_path: message.to_string_lossy().into_owned(),
            ..cri::Mount::default()
        };
        cri::ContainerStatus {
            exit_code,
            mounts: vec![mount],
            log_path: log.to_string_lossy().into_owned(),
            ..cri::ContainerStatus::default()
        }
    }
    fn info(policy: &str) -> ContainerInfo {
        ContainerInfo {
            termination_message_path: "/dev/termination-log".to_owned(),
            termination_message_policy: policy.to_owned(),
            ..ContainerInfo::default()
        }
    }

    #[test]
    fn a_message_is_read_and_a_log_stands_in_for_it_after_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let (log, file) = (folder.path().join("0.log"), folder.path().join("message"));
        std::fs::write(&log, "2026-01-01T00:00:00Z stdout F one\n2026-01-01T00:00:00Z stderr P tw\n2026-01-01T00:00:00Z stderr F o\n").unwrap();
        std::fs::write(&file, "").unwrap();
        let of = |policy: &str, code: i32| message(&status(&log, &file, code), &info(policy));
        assert_eq!(of("FallbackToLogsOnError", 1), "one\ntwo\n");
        assert_eq!(of("FallbackToLogsOnError", 0), "");
        assert_eq!(of("File", 1), "");
        let mut never_ran = status(&log, &file, 128);
        never_ran.reason = "ContainerCannotRun".to_owned();
        never_ran.message = "no such file".to_owned();
        assert_eq!(message(&never_ran, &info("FallbackToLogsOnError")), "no such file");
        std::fs::write(&file, format!("{}{}", "x".repeat(5000), "y".repeat(4000))).unwrap();
        assert_eq!(of("FallbackToLogsOnError", 1), format!("{}{}", "x".repeat(96), "y".repeat(4000)));
    }

    #[test]
    fn the_end_of_a_long_line_is_a_message() {
        let folder = tempfile::tempdir().unwrap();
        let (log, file) = (folder.path().join("0.log"), folder.path().join("message"));
        let of = |lines: &str| {
            std::fs::write(&log, lines).unwrap();
            message(&status(&log, &file, 1), &info("FallbackToLogsOnError"))
        };
        let line = |tag: char, text: &str| format!("2026-01-01T00:00:00.000000000Z stderr {tag} {text}\n");
        let long = "x".repeat(10 << 10);
        let end = format!("{}\n", "x".repeat(2047));
        assert_eq!(of(&line('F', &long)), end);
        assert_eq!(of(&format!("{}{}", line('F', "before"), line('F', &long))), end);
        assert_eq!(of(&format!("{}{}", line('P', &long), line('F', ""))), end);
        let after = format!("{}bye\n", &end[4..]);
        assert_eq!(of(&format!("{}{}", line('F', &long), line('F', "bye"))), after);
        // As many lines as there may be, and no more.
        let short: String = (0..100).map(|number| line('F', &format!("{number:02}"))).collect();
        let last: String = (20..100).map(|number| format!("{number}\n")).collect();
        assert_eq!(of(&format!("{}{short}", line('F', &long))), last);
    }

    #[test]
    fn a_message_path_is_absolute_as_its_mount_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("message");
        std::fs::write(&file, "said").unwrap();
        let info =
            ContainerInfo { termination_message_path: "dev/termination-log".to_owned(), ..info("File") };
        assert_eq!(message(&status(&folder.path().join("none"), &file, 1), &info), "said");
    }

    #[test]
    fn what_cannot_be_read_is_told_and_no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (log, file) = (folder.path().join("0.log"), folder.path().join("message"));
        let of = |policy: &str| message(&status(&log, &file, 1), &info(policy));
        let told = of("FallbackToLogsOnError");
        assert!(told.starts_with("Error on reading termination message from logs: No such file"), "{told}");
        assert_eq!(of("File"), "", "one that was never there");
        std::fs::write(&log, "2026-01-01T00:00:00Z stdout F one\n").unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &file).unwrap();
        let expected = format!("Error on reading termination log {}: ", file.display());
        let told = of("FallbackToLogsOnError");
        assert!(told.starts_with(&expected), "{told}");
    }
}
