//! Signals by their names: CRI's, an image's, the kernel's.

use cri::{Error, Signal};

use crate::error::unknown;

const TERM: i32 = 15;
const RT_MIN: i32 = 34;
const RT_MAX: i32 = 64;

/// By number; the kernel's on all machines this runs on.
const NAMES: [(i32, &str, Signal); 34] = [
    (1, "HUP", Signal::Sighup),
    (2, "INT", Signal::Sigint),
    (3, "QUIT", Signal::Sigquit),
    (4, "ILL", Signal::Sigill),
    (5, "TRAP", Signal::Sigtrap),
    (6, "ABRT", Signal::Sigabrt),
    (6, "IOT", Signal::Sigiot),
    (7, "BUS", Signal::Sigbus),
    (8, "FPE", Signal::Sigfpe),
    (9, "KILL", Signal::Sigkill),
    (10, "USR1", Signal::Sigusr1),
    (11, "SEGV", Signal::Sigsegv),
    (12, "USR2", Signal::Sigusr2),
    (13, "PIPE", Signal::Sigpipe),
    (14, "ALRM", Signal::Sigalrm),
    (15, "TERM", Signal::Sigterm),
    (16, "STKFLT", Signal::Sigstkflt),
    (17, "CHLD", Signal::Sigchld),
    (17, "CLD", Signal::Sigcld),
    (18, "CONT", Signal::Sigcont),
    (19, "STOP", Signal::Sigstop),
    (20, "TSTP", Signal::Sigtstp),
    (21, "TTIN", Signal::Sigttin),
    (22, "TTOU", Signal::Sigttou),
    (23, "URG", Signal::Sigurg),
    (24, "XCPU", Signal::Sigxcpu),
    (25, "XFSZ", Signal::Sigxfsz),
    (26, "VTALRM", Signal::Sigvtalrm),
    (27, "PROF", Signal::Sigprof),
    (28, "WINCH", Signal::Sigwinch),
    (29, "IO", Signal::Sigio),
    (29, "POLL", Signal::Sigpoll),
    (30, "PWR", Signal::Sigpwr),
    (31, "SYS", Signal::Sigsys),
];

/// What the pod asks for, else the image, else SIGTERM.
pub fn stop_signal(config: &cri::ContainerConfig, of_image: &str) -> Result<i32, Error> {
    if config.stop_signal() != Signal::RuntimeDefault {
        return Ok(from_cri(config.stop_signal()));
    }
    if of_image.is_empty() {
        return Ok(TERM);
    }
    parse(of_image).ok_or_else(|| {
        unknown(format!("failed to parse stop signal {of_image:?}: invalid signal: {of_image}"))
    })
}

/// `SIGTERM`, `TERM`, `15`, `RTMIN+3`, `RTMAX-1`.
fn parse(text: &str) -> Option<i32> {
    if let Ok(number) = text.parse() {
        return (1..=RT_MAX).contains(&number).then_some(number);
    }
    let name = text.to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    let real_time = match (name.strip_prefix("RTMIN"), name.strip_prefix("RTMAX")) {
        (Some(""), _) => Some(RT_MIN),
        (_, Some("")) => Some(RT_MAX),
        (Some(rest), _) => {
            rest.strip_prefix('+').and_then(|by| by.parse::<u8>().ok()).map(|by| RT_MIN + i32::from(by))
        }
        (_, Some(rest)) => {
            rest.strip_prefix('-').and_then(|by| by.parse::<u8>().ok()).map(|by| RT_MAX - i32::from(by))
        }
        (None, None) => return NAMES.iter().find(|(_, known, _)| *known == name).map(|(number, ..)| *number),
    };
    real_time.filter(|number| (RT_MIN..=RT_MAX).contains(number))
}

fn from_cri(signal: Signal) -> i32 {
    if let Some((number, ..)) = NAMES.iter().find(|(_, _, known)| *known == signal) {
        return *number;
    }
    // From SIGRTMIN on they are in their order.
    (RT_MIN + signal as i32 - Signal::Sigrtmin as i32).clamp(RT_MIN, RT_MAX)
}

pub fn to_cri(number: i32) -> Signal {
    let named = NAMES.iter().find(|(known, ..)| *known == number).map(|(_, _, signal)| *signal);
    let real_time = || Signal::try_from(Signal::Sigrtmin as i32 + number - RT_MIN).ok();
    named.or_else(real_time).unwrap_or(Signal::RuntimeDefault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_found_by_any_name() {
        for (text, number) in
            [("SIGQUIT", 3), ("term", 15), ("9", 9), ("SIGRTMIN+3", 37), ("RTMAX-1", 63), ("SIGRTMIN", 34)]
        {
            assert_eq!(parse(text), Some(number), "{text}");
        }
        for wrong in ["", "0", "65", "SIGNOTHING", "RTMIN+40", "RTMIN3"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        for signal in [Signal::Sigterm, Signal::Sigusr1, Signal::Sigrtminplus3, Signal::Sigrtmax] {
            assert_eq!(to_cri(from_cri(signal)), signal);
        }
        assert_eq!(from_cri(Signal::Sigrtmax), 64);
    }

    #[test]
    fn the_pods_signal_comes_before_the_images() {
        let mut config = cri::ContainerConfig::default();
        assert_eq!(stop_signal(&config, "").unwrap(), 15);
        assert_eq!(stop_signal(&config, "SIGQUIT").unwrap(), 3);
        config.stop_signal = Signal::Sigint.into();
        assert_eq!(stop_signal(&config, "SIGQUIT").unwrap(), 2);
        config.stop_signal = 0;
        assert!(stop_signal(&config, "NONE").is_err());
    }
}
