//! Calls of one webhook whose requests have given their seats back.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// About as many as upstream serves requests at once.
const MAX_CALLS: usize = 640;
/// Of one user, so that nobody takes the room of all others.
const MAX_CALLS_OF_USER: usize = MAX_CALLS / 4;

#[derive(Default)]
pub struct Waiting {
    /// Guards how many there are of each user.
    calls: Mutex<BTreeMap<String, usize>>,
}

/// One of them, until dropped.
pub struct WaitingCall<'a> {
    waiting: &'a Waiting,
    user: &'a str,
}

impl Waiting {
    /// `None`: too many wait already, so the request must keep its seats, which bound how many more there are.
    pub fn begin<'a>(&'a self, user: &'a str) -> Option<WaitingCall<'a>> {
        let mut calls = self.calls.lock();
        let own = calls.get(user).copied().unwrap_or_default();
        if own >= MAX_CALLS_OF_USER || calls.values().sum::<usize>() >= MAX_CALLS {
            return None;
        }
        calls.insert(user.to_owned(), own + 1);
        Some(WaitingCall { waiting: self, user })
    }
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        let mut calls = self.waiting.calls.lock();
        if let Some(own) = calls.get_mut(self.user) {
            *own -= 1;
            if *own == 0 {
                calls.remove(self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_takes_no_more_than_a_quarter() {
        let waiting = Waiting::default();
        let of = |user| std::iter::from_fn(|| waiting.begin(user)).collect::<Vec<_>>();
        let mut all: Vec<_> = ["a", "b", "c", "d"].into_iter().map(of).collect();
        assert!(all.iter().all(|calls| calls.len() == MAX_CALLS_OF_USER));
        assert!(waiting.begin("e").is_none(), "{MAX_CALLS} in all");
        assert!(all[0].pop().is_some() && waiting.begin("b").is_none());
        assert!(waiting.begin("e").is_some());
        drop(all);
        assert!(waiting.calls.lock().is_empty());
    }
}
