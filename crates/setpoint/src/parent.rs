//! Whether the process that started this one is still there: a test that was killed leaves no server behind.

use std::time::Duration;

use env::Env;
use rustix::process::{Pid, getpid, getppid};

const CHECK: Duration = Duration::from_secs(1);

/// The process that started this one, and stops it.
#[derive(Clone, Copy, Debug)]
pub struct Parent(Pid);

impl Parent {
    /// envtest starts its processes as leaders of process groups in its own session. Others, such as a script's children and
    /// daemons, are not: they may outlive who started them.
    pub fn of_process_group_leader() -> Option<Parent> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        let own = getpid().as_raw_pid();
        let (group, session) = group_and_session(&stat)?;
        if group != own || session == own { None } else { getppid().map(Parent) }
    }

    /// Returns when it has ended.
    pub async fn gone(self, env: &Env) {
        // A process without parent gets another one.
        while getppid() == Some(self.0) {
            env.sleep(CHECK).await;
        }
    }
}

/// From the line in `/proc/PID/stat`. Either is 0 where its leader is outside this PID namespace, as in a container that was
/// entered; rustix' `getpgrp` and `getsid` panic there.
fn group_and_session(stat: &str) -> Option<(i32, i32)> {
    // The name of the program, in parentheses, may contain anything.
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_whitespace().skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaders_are_found_behind_any_name() {
        assert_eq!(group_and_session("77 (a) (b c) S 12 77 5 0 -1"), Some((77, 5)));
        assert_eq!(group_and_session("7 (etcd) R 1 0 0 0 -1"), Some((0, 0)));
        assert_eq!(group_and_session("7 (etcd"), None);
    }
}
