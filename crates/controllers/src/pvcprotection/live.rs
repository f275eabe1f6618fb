//! What the server itself says about the pods of a namespace that use claims.
//!
//! One answer is good for all claims whose deletion it is younger than: a thousand claims deleted at once cost a few lists.

use std::sync::Arc;

use client::resources::PODS;
use client::{Client, ListOptions};
use object::{Obj, Revision, Status};
use parking_lot::Mutex;

use super::plan::{Claim, Use, uses_of};
use crate::volumes::pods;

/// Namespaces whose last answer is kept.
const KEPT: usize = 8;

#[derive(Default)]
pub struct LiveUses {
    /// Guards the last answers, the newest last; never held while the server is asked.
    answers: Mutex<Vec<Arc<Answer>>>,
}

struct Answer {
    namespace: String,
    revision: Revision,
    uses: Vec<Use>,
}

impl LiveUses {
    /// Does any pod use the claim, which is being deleted?
    pub async fn any(&self, client: &dyn Client, obj: &Obj, claim: &Claim<'_>) -> Result<bool, Status> {
        let good =
            |answer: &&Arc<Answer>| answer.namespace == obj.namespace() && answer.revision >= obj.revision();
        let kept = self.answers.lock().iter().find(good).cloned();
        let free = |answer: &Answer| !answer.uses.iter().any(|used| used.is_of(claim));
        // One that names a user may be older than what its pod did since.
        if kept.is_some_and(|answer| free(&answer)) {
            return Ok(false);
        }
        Ok(!free(&*self.ask(client, obj.namespace()).await?))
    }

    async fn ask(&self, client: &dyn Client, namespace: &str) -> Result<Arc<Answer>, Status> {
        let list = client.list(PODS.within(namespace), ListOptions::default()).await?;
        let readable = list.items.iter().filter(|pod| pods::may_use_claims(pod));
        let uses = readable.flat_map(|pod| uses_of(&runtime::tree(pod))).collect();
        let answer = Arc::new(Answer { namespace: namespace.to_owned(), revision: list.revision, uses });
        let mut answers = self.answers.lock();
        answers.retain(|kept| kept.namespace != namespace || kept.revision > answer.revision);
        if answers.len() >= KEPT {
            answers.remove(0);
        }
        answers.push(answer.clone());
        Ok(answer)
    }
}
