//! How much a patch may cost: in proportion to what it holds and to what it is applied to.
//!
//! Every map and list is opened once, except where elements of the patch have one merge key: each of them opens the element
//! they merge into again. Two such elements are a port of TCP and UDP. Thirty thousand of them, on an element of thirty thousand
//! members, would take minutes.

use super::super::count;
use crate::{Status, Value};

/// How often everything may be looked at: twice where `$setElementOrder` says how a list is ordered, else once.
const LOOKS: usize = 3;
/// What even a small patch may cost.
const FREE: usize = 1 << 16;

/// What is left of the work a patch may cause, in members and elements looked at.
pub(super) struct Work {
    left: usize,
}

impl Work {
    pub fn on(doc: &Value, patch: &Value) -> Work {
        Work { left: FREE + LOOKS * (count(doc) + count(patch)) }
    }

    pub fn spend(&mut self, members: usize) -> Result<(), Status> {
        match self.left.checked_sub(members) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err(Status::too_large(
                    "Request entity too large: too many elements of this patch have the same merge key; send it in parts",
                ))
            }
        }
    }
}
