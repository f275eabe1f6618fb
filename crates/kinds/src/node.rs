//! Nodes.

mod validation;

use crate::checked::Checked;
use crate::rules::Rules;

/// A node may be born with a status: kubelets register that way.
pub(crate) static KIND: Checked =
    Checked::new(Rules { keep_status_on_update: true, ..Rules::PLAIN }, validation::check);
