//! The program itself: its streams, its limits, where it starts, and which file it is.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::process::Resource;

use super::identity::ResolvedUser;
use super::{Context, Never, StartError, Streams, Users};
use crate::config::{Process, Variable};
use crate::sys;

const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

pub fn use_streams(streams: Streams) -> Result<(), StartError> {
    let failed = || "failed to connect the standard streams".to_owned();
    rustix::stdio::dup2_stdin(&streams.stdin).context(failed)?;
    rustix::stdio::dup2_stdout(&streams.stdout).context(failed)?;
    rustix::stdio::dup2_stderr(&streams.stderr).context(failed)
}

/// A terminal of the container's own `/dev/pts`: whoever asks for its name finds it there.
pub fn open_terminal(tell: &OwnedFd) -> Result<(), StartError> {
    use rustix::fs::open;
    let failed = || "failed to open a terminal".to_owned();
    let master =
        open("/dev/ptmx", OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).context(failed)?;
    rustix::pty::unlockpt(&master).context(failed)?;
    let slave = rustix::pty::ioctl_tiocgptpeer(
        &master,
        rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY,
    )
    .context(failed)?;
    rustix::process::ioctl_tiocsctty(&slave).context(failed)?;
    crate::wire::send_descriptor(tell, master.as_fd()).context(failed)?;
    rustix::stdio::dup2_stdin(&slave).context(failed)?;
    rustix::stdio::dup2_stdout(&slave).context(failed)?;
    rustix::stdio::dup2_stderr(&slave).context(failed)
}

/// A user that is not root may open its own streams again (`/dev/stdout`).
pub fn give_streams(uid: u32) {
    let streams = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    for stream in streams {
        let is_pipe = rustix::fs::fstat(stream)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
        if is_pipe || rustix::termios::isatty(stream) {
            // Some file systems do not let anybody; then it stays as it is.
            let _ = rustix::fs::fchown(stream, Some(rustix::process::Uid::from_raw(uid)), None);
        }
    }
}

/// What comes from the host belongs to the root of the pod's users, who may pass it on.
pub fn give(streams: &Streams, users: &Users) {
    use rustix::process::{Gid, Uid};
    for stream in [&streams.stdin, &streams.stdout, &streams.stderr] {
        let is_pipe = rustix::fs::fstat(stream)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
        if is_pipe {
            let (uid, gid) = (Uid::from_raw(users.uid), Gid::from_raw(users.gid));
            let _ = rustix::fs::fchown(stream, Some(uid), Some(gid));
        }
    }
}

/// Writes to a file of `/proc/self`, of a `/proc` made for this: the container's own may be anything.
pub fn write_own(file: &str, text: &str) -> Result<(), StartError> {
    use rustix::fs::{CWD, PROC_SUPER_MAGIC, ResolveFlags, openat2};
    let failed = || format!("failed to write {file}");
    let proc = match super::make_filesystem("proc", &[]) {
        Ok(proc) => proc,
        // Users of a pod's own may not have one that shows more than theirs: then theirs, if it is one, and nothing that lies over it.
        Err(why) => {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let own =
                openat2(CWD, "/proc", flags, Mode::empty(), ResolveFlags::NO_SYMLINKS).context(failed)?;
            if !rustix::fs::fstatfs(&own).is_ok_and(|found| found.f_type == PROC_SUPER_MAGIC) {
                return Err(why);
            }
            own
        }
    };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let file = openat2(&proc, format!("self/{file}"), flags, Mode::empty(), resolve).context(failed)?;
    rustix::io::write(&file, text.as_bytes()).context(failed).map(drop)
}

pub fn set_limits(process: &Process) -> Result<(), StartError> {
    for limit in &process.rlimits {
        let resource = resource(&limit.name)
            .ok_or_else(|| StartError(format!("unknown resource limit {:?}", limit.name)))?;
        let value = |number: u64| (number != u64::MAX).then_some(number);
        let wanted = rustix::process::Rlimit { current: value(limit.soft), maximum: value(limit.hard) };
        rustix::process::setrlimit(resource, wanted).context(|| format!("failed to set {}", limit.name))?;
    }
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    Ok(())
}

fn resource(name: &str) -> Option<Resource> {
    Some(match name {
        "RLIMIT_NOFILE" => Resource::Nofile,
        "RLIMIT_NPROC" => Resource::Nproc,
        "RLIMIT_CORE" => Resource::Core,
        "RLIMIT_MEMLOCK" => Resource::Memlock,
        "RLIMIT_STACK" => Resource::Stack,
        "RLIMIT_DATA" => Resource::Data,
        "RLIMIT_FSIZE" => Resource::Fsize,
        "RLIMIT_AS" => Resource::As,
        _ => return None,
    })
}

pub fn change_directory(process: &Process) -> Result<(), StartError> {
    let cwd = if process.cwd.as_os_str().is_empty() { Path::new("/") } else { &process.cwd };
    let failed = || format!("failed to change to the working directory {}", cwd.display());
    std::env::set_current_dir(cwd).context(failed)?;
    // Through a descriptor that was left open it could be one of the host.
    let there = rustix::process::getcwd(Vec::new()).context(failed)?;
    if there.as_bytes().starts_with(b"/") {
        return Ok(());
    }
    Err(StartError(format!("{}: it is not within the container", failed())))
}

/// Becomes the program.
pub fn execute(process: &Process, user: &ResolvedUser) -> Result<Never, StartError> {
    let name = process.args.first().map(String::as_str).unwrap_or_default();
    let env = environment(process, user);
    let path = find(name, &env)?;
    let text = |text: &[u8]| {
        CString::new(text)
            .map_err(|_| StartError(format!("exec: {name:?}: an argument or variable has a zero byte")))
    };
    let program = text(path.as_os_str().as_bytes())?;
    let args = process.args.iter().map(|arg| text(arg.as_bytes())).collect::<Result<Vec<_>, _>>()?;
    let env = env.iter().map(|one| text(one.as_bytes())).collect::<Result<Vec<_>, _>>()?;
    sys::close_on_exec_from(3).context(|| "failed to close descriptors".to_owned())?;
    sys::reset_signals();
    let error = sys::execve(&program, &args, &env);
    Err(StartError(format!("exec {}: {}", path.display(), words(&error))))
}

/// The last value of each name, in the order of the names; a home where none is set.
fn environment(process: &Process, user: &ResolvedUser) -> Vec<Variable> {
    let mut env: Vec<Variable> = Vec::with_capacity(process.env.len() + 2);
    let mut places: HashMap<&[u8], usize> = HashMap::with_capacity(process.env.len());
    for pair in &process.env {
        match places.entry(pair.name()) {
            Entry::Occupied(there) => pair.clone_into(&mut env[*there.get()]),
            Entry::Vacant(none) => {
                none.insert(env.len());
                env.push(pair.clone());
            }
        }
    }
    if !env.iter().any(|pair| pair.name() == b"HOME") {
        env.push(Variable::new("HOME", user.home.as_bytes()));
    }
    env
}

/// As a shell would find it.
fn find(name: &str, env: &[Variable]) -> Result<PathBuf, StartError> {
    if name.is_empty() {
        return Err(StartError("exec: no command".to_owned()));
    }
    if name.contains('/') {
        return match check(Path::new(name)) {
            Ok(()) => Ok(PathBuf::from(name)),
            Err(error) => Err(StartError(format!("exec: {name:?}: {}", error.in_words(name)))),
        };
    }
    let path =
        env.iter().find(|pair| pair.name() == b"PATH").map_or(DEFAULT_PATH.as_bytes(), Variable::value);
    let mut denied = false;
    for directory in path.split(|byte| *byte == b':') {
        let directory = if directory.is_empty() { b"." } else { directory };
        let file = Path::new(OsStr::from_bytes(directory)).join(name);
        match check(&file) {
            Ok(()) => return Ok(file),
            Err(Unusable::Denied) => denied = true,
            Err(Unusable::Missing(_)) => {}
        }
    }
    let why = if denied { "permission denied" } else { "executable file not found in $PATH" };
    Err(StartError(format!("exec: {name:?}: {why}")))
}

enum Unusable {
    Missing(std::io::Error),
    Denied,
}

impl Unusable {
    fn in_words(&self, name: &str) -> String {
        match self {
            Unusable::Missing(error) => format!("stat {name}: {}", words(error)),
            Unusable::Denied => "permission denied".to_owned(),
        }
    }
}

fn check(file: &Path) -> Result<(), Unusable> {
    use std::os::unix::fs::PermissionsExt;
    let metadata = std::fs::metadata(file).map_err(Unusable::Missing)?;
    if metadata.is_dir() || metadata.permissions().mode() & 0o111 == 0 {
        return Err(Unusable::Denied);
    }
    Ok(())
}

/// Of an error of the kernel, without its number.
fn words(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}
