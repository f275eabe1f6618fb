//! Limits the cost of a patch in proportion to its size and to that of the document.
//!
//! Every map and list is opened once, except where elements of the patch have one merge key: each of them opens the element
//! they merge into again. Two such elements are a port of TCP and UDP. Thirty thousand of them, on an element of thirty thousand
//! members, would take minutes.

use super::super::count;
use crate::{Status, Value};

/// How often everything may be visited: twice with `$setElementOrder`, else once.
const LOOKS: usize = 3;
/// Budget of even a small patch.
const FREE: usize = 1 << 16;

/// The remaining budget of a patch, in members and elements visited.
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
