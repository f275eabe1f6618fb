//! Keeps one certificate good for as long as the node runs.

use std::sync::Arc;
use std::time::Duration;

use ::runtime::Stop;
use auth::pki::Identity;
use env::Env;
use tokio::sync::Notify;

use super::request::{Purpose, SigningRequests, Wanted, obtain};
use super::store::Store;

/// After a request that came to nothing, or to nothing that lasts; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LAST_PAUSE: Duration = Duration::from_secs(60);
/// Longer waits are looked at in between: the clock may be set.
const LOOK: Duration = Duration::from_secs(3600);

pub struct Keeper {
    pub env: Env,
    pub requests: Arc<dyn SigningRequests>,
    pub purpose: Purpose,
    pub node: String,
    pub store: Store,
    /// In the store.
    pub file: &'static str,
    /// The names the certificate must have now; none for a client's.
    pub names: Box<dyn Fn() -> Vec<String> + Send + Sync>,
    /// Told when the names may be others.
    pub changed: Arc<Notify>,
    /// Puts a new one to use.
    pub install: Box<dyn Fn(&Identity) + Send + Sync>,
}

/// When a certificate is replaced: after 70 to 90 percent of its life, so that nodes that joined together do not all ask together.
/// `draw` is a random number below 1000.
pub fn rotation_due(identity: &Identity, draw: u64) -> u64 {
    let (first, last) = identity.validity();
    let life = u128::from(last.saturating_sub(first));
    let part = 700 * 1000 + 200 * u128::from(draw.min(1000));
    first.saturating_add(u64::try_from(life * part / 1_000_000).unwrap_or(u64::MAX))
}

impl Keeper {
    /// Until stopped. `current`: the one that is in use already.
    pub async fn run(self, current: Option<Identity>, stop: Stop) {
        let mut current = current.map(|identity| self.with_due(identity));
        let mut pause = FIRST_PAUSE;
        // What was asked for last.
        let mut asked_for = None;
        loop {
            let left = |(identity, due): &(Identity, u64)| self.seconds_left(identity, *due, &asked_for);
            let wait = current.as_ref().map_or(0, left);
            if wait > 0 {
                let look = Duration::from_secs(wait).min(LOOK);
                tokio::select! {
                    biased;
                    () = stop.stopped() => return,
                    () = self.changed.notified() => {}
                    () = self.env.sleep(look) => {}
                }
                continue;
            }
            let wanted = Wanted { purpose: self.purpose, node: self.node.clone(), names: (self.names)() };
            let asked = tokio::select! {
                biased;
                () = stop.stopped() => return,
                asked = obtain(&self.env, &*self.requests, &wanted) => asked,
            };
            let names = wanted.names;
            let stored = asked.and_then(|identity| self.store.write(self.file, &identity).map(|()| identity));
            let lasts = match stored {
                Ok(identity) => {
                    tracing::info!(node = self.node, purpose = ?self.purpose, "new certificate");
                    (self.install)(&identity);
                    let missing = missing(&identity, &names);
                    if !missing.is_empty() {
                        tracing::warn!(
                            node = self.node,
                            ?missing,
                            "the new certificate lacks names that were asked for"
                        );
                    }
                    asked_for = Some(Asked { names, until: self.env.now_seconds() + LOOK.as_secs() });
                    let (identity, due) = current.insert(self.with_due(identity));
                    self.seconds_left(identity, *due, &asked_for) > 0
                }
                Err(error) => {
                    tracing::warn!(node = self.node, purpose = ?self.purpose, %error, "no new certificate, retrying");
                    false
                }
            };
            if lasts {
                pause = FIRST_PAUSE;
                continue;
            }
            tokio::select! {
                biased;
                () = stop.stopped() => return,
                () = self.env.sleep(pause) => {}
            }
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    fn with_due(&self, identity: Identity) -> (Identity, u64) {
        let due = rotation_due(&identity, self.env.random_below(1000));
        (identity, due)
    }

    /// 0: another one is needed now. A signer that leaves names out, or adds some, has its reasons: it is not asked for the same over
    /// and over.
    fn seconds_left(&self, identity: &Identity, due: u64, last: &Option<Asked>) -> u64 {
        let now = self.env.now_seconds();
        let names = (self.names)();
        let left = due.saturating_sub(now);
        if missing(identity, &names).is_empty() {
            return left;
        }
        match last {
            Some(asked) if asked.names == names => left.min(asked.until.saturating_sub(now)),
            _ => 0,
        }
    }
}

/// Names that came to a certificate, perhaps without some of them.
struct Asked {
    names: Vec<String>,
    /// Not again before, unless they change.
    until: u64,
}

fn missing<'a>(identity: &Identity, wanted: &'a [String]) -> Vec<&'a String> {
    let has = identity.names();
    wanted.iter().filter(|name| !has.iter().any(|has| has.eq_ignore_ascii_case(name))).collect()
}
