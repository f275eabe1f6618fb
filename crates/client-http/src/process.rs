//! A program that runs to its end on a thread of its own: what it printed, what it complained about, how it ended.
//!
//! The one place of this crate with a thread and a process. A program is no part of any world: it has its own clock.

use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Of what is printed one byte more than this is kept, so that who reads sees that it was too much.
pub(crate) const MAX_OUTPUT: u64 = 1 << 20;
/// What it says about a failure.
const MAX_COMPLAINT: u64 = 4 << 10;
/// How often a program that has closed its output is asked whether it has ended.
const ASK: Duration = Duration::from_millis(5);

/// A program while it runs; killed when dropped.
pub(crate) struct Running {
    /// Guards the process, which its thread waits for and its owner may kill; held for one question.
    child: Arc<Mutex<Child>>,
    ran: oneshot::Receiver<Ran>,
}

pub(crate) struct Ran {
    pub status: io::Result<ExitStatus>,
    pub output: Vec<u8>,
    pub complaint: Vec<u8>,
}

impl Running {
    #[allow(
        clippy::disallowed_methods,
        reason = "a pipe is read by a thread that may block, outside every world"
    )]
    pub fn start(mut command: Command) -> io::Result<Running> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let child = Arc::new(Mutex::new(child));
        let (done, ran) = oneshot::channel();
        let running = Running { child: child.clone(), ran };
        std::thread::Builder::new().name("exec-plugin".into()).spawn(move || {
            let (output, complaint) = std::thread::scope(|scope| {
                let complaint = scope.spawn(|| read(stderr, MAX_COMPLAINT));
                (read(stdout, MAX_OUTPUT), complaint.join().unwrap_or_default())
            });
            let status = loop {
                match child.lock().try_wait() {
                    Ok(Some(status)) => break Ok(status),
                    Ok(None) => {}
                    Err(error) => break Err(error),
                }
                std::thread::sleep(ASK);
            };
            // Nobody waits any more: then nobody wants to know.
            let _ = done.send(Ran { status, output, complaint });
        })?;
        Ok(running)
    }

    /// `None` when its thread died.
    pub async fn end(&mut self) -> Option<Ran> {
        (&mut self.ran).await.ok()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Ended already: nothing to kill.
        let _ = self.child.lock().kill();
    }
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
