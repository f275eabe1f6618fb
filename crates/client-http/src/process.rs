//! A program that runs to its end on threads of its own: what it printed, what it complained about, how it ended.
//!
//! The one place of this crate with threads and a process. A program is no part of any world: it has its own clock.
//!
//! ```text
//! reads stdout ──┐
//! reads stderr ──┼─ Heard ──> waits for the end, then for what was read, then reaps ──> Ran
//! owner gives up ┘
//! ```

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, mpsc};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::sync::oneshot;

/// Of what is printed one byte more than this is kept, so that who reads sees that it was too much.
pub(crate) const MAX_OUTPUT: u64 = 1 << 20;
/// What it says about a failure.
const MAX_COMPLAINT: u64 = 4 << 10;

/// A program while it runs; killed when dropped, with all programs it started.
pub(crate) struct Running {
    process: Arc<Process>,
    heard: mpsc::Sender<Heard>,
    ran: oneshot::Receiver<Ran>,
}

pub(crate) struct Ran {
    pub status: io::Result<ExitStatus>,
    pub output: Vec<u8>,
    pub complaint: Vec<u8>,
}

/// What the thread that waits is told.
enum Heard {
    Output(Vec<u8>),
    Complaint(Vec<u8>),
    /// Nobody wants to know any more.
    GivenUp,
}

struct Process {
    /// Also of its group, which is its own.
    id: Pid,
    /// Guards the process until it is reaped: from then on its number may be somebody else's. Held to kill or to reap.
    child: Mutex<Option<Child>>,
}

impl Running {
    pub fn start(mut command: Command) -> io::Result<Running> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn()?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let process = Arc::new(Process { id: Pid::from_child(&child), child: Mutex::new(Some(child)) });
        let (heard, hearing) = mpsc::channel();
        let (done, ran) = oneshot::channel();
        let running = Running { process: process.clone(), heard: heard.clone(), ran };
        let (output, complaint) = (heard.clone(), heard);
        // Who has stopped hearing needs none of it.
        let threads = thread(move || drop(output.send(Heard::Output(read(stdout, MAX_OUTPUT)))))
            .and_then(|()| {
                thread(move || drop(complaint.send(Heard::Complaint(read(stderr, MAX_COMPLAINT)))))
            })
            .and_then(|()| {
                let process = process.clone();
                thread(move || drop(done.send(process.wait(&hearing))))
            });
        if let Err(error) = threads {
            process.kill();
            let _ = process.reap();
            return Err(error);
        }
        Ok(running)
    }

    /// `None` when its thread died.
    pub async fn end(&mut self) -> Option<Ran> {
        (&mut self.ran).await.ok()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.process.kill();
        // Its thread may have ended with it.
        let _ = self.heard.send(Heard::GivenUp);
    }
}

impl Process {
    /// Waits for its end and for all it printed, which a program it started may hold up; reaps it in any case.
    fn wait(&self, hearing: &mpsc::Receiver<Heard>) -> Ran {
        // Not reaped yet: its number must stay its own while it may be killed. What goes wrong here, reaping says.
        let ended = || waitid(WaitId::Pid(self.id), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        let _ = rustix::io::retry_on_intr(ended);
        let (mut output, mut complaint) = (None, None);
        while output.is_none() || complaint.is_none() {
            match hearing.recv() {
                Ok(Heard::Output(read)) => output = Some(read),
                Ok(Heard::Complaint(read)) => complaint = Some(read),
                Ok(Heard::GivenUp) | Err(_) => break,
            }
        }
        let status = self.reap();
        Ran { status, output: output.unwrap_or_default(), complaint: complaint.unwrap_or_default() }
    }

    /// With its whole group; nothing when it was reaped, or is just being.
    fn kill(&self) {
        let Some(child) = self.child.try_lock() else { return };
        if child.is_some() {
            // All may have ended by now: nothing to kill.
            let _ = kill_process_group(self.id, Signal::KILL);
        }
    }

    fn reap(&self) -> io::Result<ExitStatus> {
        let mut child = self.child.lock();
        let status = child.as_mut().map(Child::wait);
        *child = None;
        status.unwrap_or_else(|| Err(io::Error::other("its end was seen already")))
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "pipes and ends are waited for by threads that may block, outside every world"
)]
fn thread(run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name("exec-plugin".into()).spawn(run).map(drop)
}

fn read(from: Option<impl Read>, most: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let Some(mut from) = from else { return out };
    // What cannot be read is shorter than it should be, and how the program ends says why.
    let _ = from.by_ref().take(most + 1).read_to_end(&mut out);
    // Who writes more than we keep must not wait for us.
    let _ = io::copy(&mut from, &mut io::sink());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Running {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        Running::start(command).unwrap()
    }

    /// Whether it runs; a program that ended may wait to be reaped by who inherited it.
    fn runs(id: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    }

    /// Looks again and again until it is so; a test that never sees it does not end.
    fn until(mut so: impl FnMut() -> bool) {
        while !so() {
            std::thread::yield_now();
        }
    }

    #[tokio::test]
    async fn output_and_exit_status_of_a_program_are_reported() {
        let ran = shell("echo out; echo err >&2; exit 3").end().await.unwrap();
        assert_eq!((&ran.output[..], &ran.complaint[..]), (&b"out\n"[..], &b"err\n"[..]));
        assert_eq!(ran.status.unwrap().code(), Some(3));
    }

    #[test]
    fn an_aborted_program_is_killed_with_its_children_and_reaped() {
        // Once while it runs, once when it has left another behind that holds its output.
        for last in ["wait", "exit 0"] {
            let folder = tempfile::tempdir().unwrap();
            let (path, written) = (folder.path().join("id"), folder.path().join("written"));
            let running = shell(&format!(
                "sleep 1000 & echo $! > {}; mv {} {}; {last}",
                written.display(),
                written.display(),
                path.display()
            ));
            until(|| path.exists());
            let started = std::fs::read_to_string(&path).unwrap().trim().to_owned();
            assert!(runs(&started));
            let leader = running.process.id.as_raw_nonzero().to_string();
            drop(running);
            until(|| !runs(&started));
            until(|| !std::path::Path::new(&format!("/proc/{leader}")).exists());
        }
    }
}
