//! System calls that have no safe wrapper. Everything else goes through `rustix`.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::process::Pid;

/// Which side of a fork this is.
pub enum Fork {
    Child,
    Parent { pid: Pid, pidfd: OwnedFd },
}

/// Flags of [`clone`].
#[derive(Clone, Copy, Default)]
pub struct CloneFlags(u64);

impl CloneFlags {
    pub const NEW_PID: CloneFlags = CloneFlags(libc::CLONE_NEWPID as u64);
    pub const NEW_MOUNT: CloneFlags = CloneFlags(libc::CLONE_NEWNS as u64);
    pub const NEW_USER: CloneFlags = CloneFlags(libc::CLONE_NEWUSER as u64);
    pub const NEW_NETWORK: CloneFlags = CloneFlags(libc::CLONE_NEWNET as u64);
    pub const NEW_IPC: CloneFlags = CloneFlags(libc::CLONE_NEWIPC as u64);
    pub const NEW_UTS: CloneFlags = CloneFlags(libc::CLONE_NEWUTS as u64);
    /// The child becomes a child of this process' parent.
    pub const SIBLING: CloneFlags = CloneFlags(libc::CLONE_PARENT as u64);

    pub fn and(self, other: CloneFlags) -> CloneFlags {
        CloneFlags(self.0 | other.0)
    }
}

/// Forks, with new namespaces where asked for.
///
/// Only for a process of one thread: the child goes on with a copy of it, where no other thread can have left a lock held.
pub fn clone(flags: CloneFlags) -> io::Result<Fork> {
    debug_assert!(threads().is_none_or(|count| count == 1));
    let mut pidfd: libc::c_int = -1;
    // The layout of `struct clone_args`, first version.
    let args: [u64; 8] = [
        flags.0 | libc::CLONE_PIDFD as u64,
        &raw mut pidfd as u64,
        0,
        0,
        // A sibling has no signal of its own: it takes that of the caller.
        if flags.0 & libc::CLONE_PARENT as u64 != 0 { 0 } else { libc::SIGCHLD as u64 },
        0,
        0,
        0,
    ];
    // SAFETY: the arguments are those the kernel defines for this size; without CLONE_VM and a stack it behaves like fork, and the
    // process has one thread, so the child may run any code.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, args.as_ptr(), size_of_val(&args)) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        pid => {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::Other)?;
            // SAFETY: the kernel has just opened it for us.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok(Fork::Parent { pid, pidfd })
        }
    }
}

/// How many threads this process has, where `/proc` is its own.
pub fn threads() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/task").ok()?.count())
}

/// Sends a signal by its number, those for real time among them.
pub fn kill(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: plain numbers.
    let done = unsafe { libc::kill(pid, signal) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The same, to a process that cannot be mistaken for another.
pub fn pidfd_send_signal(pidfd: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    // SAFETY: no information beside the signal.
    let done = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Since the machine was started.
pub fn monotonic() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

pub fn set_nonblocking(file: BorrowedFd<'_>) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    Ok(rustix::fs::fcntl_setfl(file, flags | rustix::fs::OFlags::NONBLOCK)?)
}

pub fn pause(time: Duration) {
    if let Ok(time) = rustix::event::Timespec::try_from(time) {
        let _ = rustix::event::poll(&mut [], Some(&time));
    }
}

/// Becomes another program; returns only if that failed.
pub fn execve(path: &CString, args: &[CString], env: &[CString]) -> io::Error {
    let pointers = |all: &[CString]| -> Vec<*const libc::c_char> {
        all.iter().map(|one| one.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (args, env) = (pointers(args), pointers(env));
    // SAFETY: all strings end with zero, both lists with a null pointer, and all live across the call.
    unsafe { libc::execve(path.as_ptr(), args.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}

/// Installs a filter of system calls: eight bytes an instruction.
pub fn set_seccomp_filter(program: &[u8]) -> io::Result<()> {
    let filters: Vec<libc::sock_filter> = program
        .as_chunks::<8>()
        .0
        .iter()
        .map(|raw| libc::sock_filter {
            code: u16::from_ne_bytes([raw[0], raw[1]]),
            jt: raw[2],
            jf: raw[3],
            k: u32::from_ne_bytes([raw[4], raw[5], raw[6], raw[7]]),
        })
        .collect();
    let len = u16::try_from(filters.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog { len, filter: filters.as_ptr().cast_mut() };
    // SAFETY: the kernel copies and checks the program; it lives across the call.
    let done =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What to change about a mount.
#[derive(Clone, Copy, Default)]
pub struct MountAttributes {
    pub set: u64,
    pub propagation: u64,
    pub recursive: bool,
}

pub const READ_ONLY: u64 = 0x1;
pub const NO_SUID: u64 = 0x2;
pub const NO_DEV: u64 = 0x4;
pub const NO_EXEC: u64 = 0x8;

pub const PRIVATE: u64 = libc::MS_PRIVATE;
pub const SLAVE: u64 = libc::MS_SLAVE;

/// Changes the mount that `at` is the root of.
pub fn mount_setattr(at: BorrowedFd<'_>, attributes: MountAttributes) -> io::Result<()> {
    change_mount(at, [attributes.set, 0, attributes.propagation, 0], attributes.recursive)
}

/// Files of a mount that is attached nowhere belong to the users of a namespace, by the numbers they have there.
pub fn map_owners(at: BorrowedFd<'_>, users: BorrowedFd<'_>) -> io::Result<()> {
    const ID_MAP: u64 = 0x10_0000;
    let users = u64::try_from(users.as_raw_fd()).map_err(|_| io::ErrorKind::InvalidInput)?;
    change_mount(at, [ID_MAP, 0, 0, users], false)
}

/// The layout of `struct mount_attr`: set, clear, propagation, user namespace.
fn change_mount(at: BorrowedFd<'_>, raw: [u64; 4], recursive: bool) -> io::Result<()> {
    let recursive = if recursive { libc::AT_RECURSIVE } else { 0 };
    let flags = libc::AT_EMPTY_PATH | recursive;
    // SAFETY: an empty path with AT_EMPTY_PATH means the descriptor itself; the struct has the size given.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            at.as_raw_fd(),
            c"".as_ptr(),
            flags,
            raw.as_ptr(),
            size_of_val(&raw),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Loads a program that judges the use of devices, and binds it to a group of processes; all above and below must allow, too.
pub fn attach_device_program(group: BorrowedFd<'_>, program: &[u64]) -> io::Result<()> {
    const LOAD: libc::c_long = 5;
    const ATTACH: libc::c_long = 8;
    const KIND_CGROUP_DEVICE: u32 = 15;
    const POINT_CGROUP_DEVICE: u32 = 6;
    const BESIDE_OTHERS: u32 = 2;
    let count = u32::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // The first fields of `union bpf_attr`: kind and length, instructions, licence; no log.
    let mut load = [0u64; 6];
    load[0] = u64::from_ne_bytes(pair(KIND_CGROUP_DEVICE, count));
    load[1] = program.as_ptr() as u64;
    load[2] = c"".as_ptr() as u64;
    // SAFETY: the kernel checks the program, which lives across the call; the size is that of the attributes.
    let loaded = unsafe { libc::syscall(libc::SYS_bpf, LOAD, load.as_ptr(), size_of_val(&load)) };
    if loaded < 0 {
        return Err(io::Error::last_os_error());
    }
    let loaded = i32::try_from(loaded).map_err(|_| io::ErrorKind::Other)?;
    // SAFETY: the kernel has just opened it for us.
    let loaded = unsafe { OwnedFd::from_raw_fd(loaded) };
    let attach = [group.as_raw_fd() as u32, loaded.as_raw_fd() as u32, POINT_CGROUP_DEVICE, BESIDE_OTHERS];
    // SAFETY: plain numbers of the size given.
    let done = unsafe { libc::syscall(libc::SYS_bpf, ATTACH, attach.as_ptr(), size_of_val(&attach)) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn pair(first: u32, second: u32) -> [u8; 8] {
    let ([a, b, c, d], [e, f, g, h]) = (first.to_ne_bytes(), second.to_ne_bytes());
    [a, b, c, d, e, f, g, h]
}

/// Closes every descriptor but the standard streams and these. For a child that never returns to who owned the others.
pub fn close_all_but(kept: &[RawFd]) -> io::Result<()> {
    let mut kept: Vec<u32> = kept.iter().filter_map(|fd| u32::try_from(*fd).ok()).collect();
    kept.sort_unstable();
    let mut first = 3;
    for fd in kept.into_iter().filter(|fd| *fd >= 3).chain([u32::MAX]) {
        if fd > first {
            // SAFETY: nothing uses them any more in this process, which ends or becomes another program.
            let done = unsafe { libc::syscall(libc::SYS_close_range, first, fd - 1, 0) };
            if done != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        first = fd.saturating_add(1);
    }
    Ok(())
}

/// Signals do again what they do by default, and none is blocked: ours (SIGPIPE is ignored) are not the program's.
pub fn reset_signals() {
    /// How many there are, and the bytes of a set of them, as the kernel counts.
    const SIGNALS: i32 = 64;
    const SET: usize = 8;
    // Longer than the kernel's structure on any machine: no handler, no flags, no mask.
    let default = [0u64; 5];
    for signal in 1..=SIGNALS {
        // SAFETY: the default is no function of ours. Those that cannot be changed are refused.
        unsafe {
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), std::ptr::null::<u64>(), SET)
        };
    }
    // SAFETY: an empty set lives across the call.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            default.as_ptr(),
            std::ptr::null::<u64>(),
            SET,
        )
    };
}

/// Keys of the session that started us are not the container's.
pub fn join_new_session_keyring() -> io::Result<()> {
    const JOIN_SESSION_KEYRING: libc::c_long = 1;
    // SAFETY: no name: one of its own.
    let done = unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, std::ptr::null::<u8>()) };
    if done >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// No descriptor from `first` on survives the next exec.
pub fn close_on_exec_from(first: u32) -> io::Result<()> {
    // SAFETY: marks descriptors only, closes none.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A descriptor that is readable when a child has ended. The signal is blocked from here on; programs that are started get it back.
pub fn hear_of_children() -> io::Result<OwnedFd> {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is initialised before it is used; blocking a signal in the only thread changes nothing else.
    let fd = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
        libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Takes what is there, and leaves nothing that would wake us again.
pub fn drain(file: &OwnedFd) {
    let mut buffer = [0; 1024];
    while rustix::io::read(file, &mut buffer).is_ok_and(|read| read > 0) {}
}

/// What the first process of a namespace does: holds nothing, and buries the dead.
pub fn wait_for_children() -> ! {
    // SAFETY: nothing of this process is used any more but the standard streams.
    unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is initialised before it is used; blocking a signal in the only thread changes nothing else.
    let set = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
        set.assume_init()
    };
    loop {
        while let Ok(Some(_)) = rustix::process::wait(rustix::process::WaitOptions::NOHANG) {}
        let mut signal = 0;
        // SAFETY: both are initialised and live.
        unsafe { libc::sigwait(&raw const set, &raw mut signal) };
    }
}
