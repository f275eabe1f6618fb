//! Signals by the names that images and pods use.

use std::ops::RangeInclusive;

/// All that Linux has.
pub const ALL: RangeInclusive<i32> = 1..=64;

/// The first and last for real time, as the C library of most images counts: it keeps two for itself.
const FIRST: i32 = 34;
const LAST: i32 = 64;

const NAMES: [(&str, i32); 34] = [
    ("ABRT", libc::SIGABRT),
    ("ALRM", libc::SIGALRM),
    ("BUS", libc::SIGBUS),
    ("CHLD", libc::SIGCHLD),
    ("CLD", libc::SIGCHLD),
    ("CONT", libc::SIGCONT),
    ("FPE", libc::SIGFPE),
    ("HUP", libc::SIGHUP),
    ("ILL", libc::SIGILL),
    ("INT", libc::SIGINT),
    ("IO", libc::SIGIO),
    ("IOT", libc::SIGIOT),
    ("KILL", libc::SIGKILL),
    ("PIPE", libc::SIGPIPE),
    ("POLL", libc::SIGPOLL),
    ("PROF", libc::SIGPROF),
    ("PWR", libc::SIGPWR),
    ("QUIT", libc::SIGQUIT),
    ("SEGV", libc::SIGSEGV),
    ("STKFLT", libc::SIGSTKFLT),
    ("STOP", libc::SIGSTOP),
    ("SYS", libc::SIGSYS),
    ("TERM", libc::SIGTERM),
    ("TRAP", libc::SIGTRAP),
    ("TSTP", libc::SIGTSTP),
    ("TTIN", libc::SIGTTIN),
    ("TTOU", libc::SIGTTOU),
    ("URG", libc::SIGURG),
    ("USR1", libc::SIGUSR1),
    ("USR2", libc::SIGUSR2),
    ("VTALRM", libc::SIGVTALRM),
    ("WINCH", libc::SIGWINCH),
    ("XCPU", libc::SIGXCPU),
    ("XFSZ", libc::SIGXFSZ),
];

/// The number of `SIGTERM`, `term`, `15`, `SIGRTMIN+3` or `RTMAX-1`.
pub fn number(name: &str) -> Option<i32> {
    if let Ok(number) = name.parse::<i32>() {
        return ALL.contains(&number).then_some(number);
    }
    let upper = name.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let real_time = if let Some(rest) = name.strip_prefix("RTMIN") {
        Some((FIRST, rest, '+'))
    } else {
        name.strip_prefix("RTMAX").map(|rest| (LAST, rest, '-'))
    };
    let Some((from, rest, sign)) = real_time else {
        return NAMES.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    };
    if rest.is_empty() {
        return Some(from);
    }
    let by = rest.strip_prefix(sign)?.parse::<u8>().ok().map(i32::from)?;
    let number = if sign == '+' { from + by } else { from - by };
    (FIRST..=LAST).contains(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names_and_numbers() {
        for (name, expected) in [
            ("SIGTERM", Some(15)),
            ("term", Some(15)),
            ("9", Some(9)),
            ("64", Some(64)),
            ("65", None),
            ("0", None),
            ("SIGRTMIN", Some(34)),
            ("SIGRTMIN+3", Some(37)),
            ("RTMAX-1", Some(63)),
            ("SIGRTMIN+31", None),
            ("SIGRTMIN-1", None),
            ("SIGRTMAX-255", None),
            ("SIGXFSZ", Some(25)),
            ("SIGNONE", None),
            ("", None),
        ] {
            assert_eq!(number(name), expected, "{name}");
        }
    }
}
