//! Plugins that have nothing to do in a v1.36 cluster with its default features: their names are known to the
//! flags, their resources or feature gates are not switched on.

use crate::Plugin;

pub struct Idle(pub &'static str);

impl Plugin for Idle {
    fn name(&self) -> &'static str {
        self.0
    }
}
