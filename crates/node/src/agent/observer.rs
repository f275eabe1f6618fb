//! Who wants to know what an agent does, and what it says of its pods, before the API shows it.

use object::Value;

use crate::pod::Pod;

/// All but `turn` may be called under the agent's lock: nothing may take long, nor ask the agent anything.
pub trait Observer: Send + Sync {
    /// The agent looks after its node, or one of its pods.
    fn turn(&self);
    /// What the status of a pod is from now on. `pod` has the one before.
    fn decided(&self, pod: &Pod<'_>, status: &Value);
    /// The API shows what was decided last.
    fn shown(&self, uid: u128);
    /// The pod is gone.
    fn forgotten(&self, uid: u128);
}
