//! Fields that somebody else owns.

use std::fmt;

use object::{Cause, Status};

use crate::managers::ManagerId;
use crate::path::{PathElement, path_text};
use crate::set::Set;

/// A field that an apply would change, and who owns it.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    pub manager: ManagerId,
    pub path: Vec<PathElement>,
}

/// All conflicts of an apply, by manager.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflicts(Vec<Conflict>);

impl Conflicts {
    pub(crate) fn new(mut conflicts: Vec<Conflict>) -> Conflicts {
        // Stable: the fields of each stay in their order.
        conflicts.sort_by_cached_key(|conflict| conflict.manager.identifier());
        Conflicts(conflicts)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Conflict> {
        self.0.iter()
    }

    pub fn set(&self) -> Set {
        // Sorted, each is added at the end.
        let mut paths: Vec<_> = self.0.iter().map(|conflict| &conflict.path).collect();
        paths.sort();
        let mut set = Set::new();
        paths.into_iter().for_each(|path| set.insert(path));
        set
    }

    pub(crate) fn without(self, allowed: &Set) -> Conflicts {
        Conflicts(self.0.into_iter().filter(|conflict| !allowed.has(&conflict.path)).collect())
    }

    /// 409, with a cause for each field.
    pub fn status(&self) -> Status {
        let cause = |conflict: &Conflict| Cause {
            reason: "FieldManagerConflict",
            message: format!("conflict with {}", conflict.manager),
            field: path_text(&conflict.path),
        };
        Status::apply_conflict(self.to_string(), self.0.iter().map(cause).collect())
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [one] = &self.0[..] {
            let path = path_text(&one.path);
            return write!(f, "Apply failed with 1 conflict: conflict with {}: {path}", one.manager);
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        let mut before: Option<&ManagerId> = None;
        for conflict in &self.0 {
            if before != Some(&conflict.manager) {
                let line = if before.is_some() { "\n" } else { "" };
                write!(f, "{line}conflicts with {}:", conflict.manager)?;
                before = Some(&conflict.manager);
            }
            write!(f, "\n- {}", path_text(&conflict.path))?;
        }
        Ok(())
    }
}
