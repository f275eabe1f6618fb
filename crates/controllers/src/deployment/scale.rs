//! Scaling in the midst of a rollout: old and new sets keep their proportions, so that the risk stays what it was.

use std::cmp::Reverse;

use super::plan::Planner;
use super::revision::{self, DESIRED_REPLICAS, MAX_REPLICAS};

impl Planner<'_> {
    /// Was the Deployment scaled since its sets were?
    pub(super) fn was_scaled(&self) -> bool {
        let active = self.members.iter().filter(|member| member.is_active());
        let noted = active.filter_map(|member| revision::count(&member.annotations, DESIRED_REPLICAS));
        noted.into_iter().any(|desired| desired != self.d.replicas)
    }

    /// Spreads the wanted replicas over the sets there are.
    pub(super) fn spread(&mut self) {
        let wanted = self.d.replicas;
        let active: Vec<usize> = (0..self.members.len()).filter(|at| self.members[*at].is_active()).collect();
        match active.as_slice() {
            [] => {
                if let Some(latest) = self.new.or_else(|| self.old().last().copied()) {
                    self.scale(latest, wanted, false);
                }
                return;
            }
            [only] => {
                self.scale(*only, wanted, false);
                return;
            }
            _ => {}
        }
        if self.is_saturated() {
            for at in self.active_old() {
                self.scale(at, 0, false);
            }
            return;
        }
        if self.d.rolling.is_some() {
            self.spread_proportionally(active);
        }
    }

    /// The new set has all that is wanted, available, and knows it.
    fn is_saturated(&self) -> bool {
        self.new.is_some_and(|new| {
            let member = &self.members[new];
            member.replicas == self.d.replicas
                && revision::count(&member.annotations, DESIRED_REPLICAS) == Some(self.d.replicas)
                && member.set.status.available == self.d.replicas
        })
    }

    /// Larger sets first; among equals newer ones grow first, older ones shrink first. What rounding leaves goes to the largest.
    fn spread_proportionally(&mut self, mut active: Vec<usize>) {
        let allowed = if self.d.replicas > 0 { self.d.max_replicas() } else { 0 };
        let to_add = allowed - self.total();
        let members = &self.members;
        if to_add > 0 {
            active.sort_by_key(|at| (Reverse(members[*at].replicas), Reverse(members[*at].age())));
        } else {
            active.sort_by_key(|at| (Reverse(members[*at].replicas), members[*at].age()));
        }
        let mut sizes: Vec<i64> = active.iter().map(|at| self.members[*at].replicas).collect();
        let mut added = 0;
        if to_add != 0 {
            for (size, at) in sizes.iter_mut().zip(&active) {
                let left = to_add - added;
                let fraction = self.fraction(*at);
                let part = if to_add > 0 { fraction.min(left) } else { fraction.max(left) };
                let part = if left == 0 { 0 } else { part };
                *size += part;
                added += part;
            }
            if let Some(largest) = sizes.first_mut() {
                *largest = (*largest + to_add - added).max(0);
            }
        }
        for (at, size) in active.into_iter().zip(sizes) {
            self.scale(at, size, true);
        }
    }

    /// By how much a set changes if it keeps its share of what there may be at most.
    fn fraction(&self, at: usize) -> i64 {
        let member = &self.members[at];
        if self.d.replicas == 0 {
            return -member.replicas;
        }
        let before = revision::count(&member.annotations, MAX_REPLICAS).filter(|most| *most != 0);
        let before = before.unwrap_or(self.d.status.replicas);
        if before == 0 {
            return 0;
        }
        // Rounded half away from zero.
        let grown = (member.replicas * self.d.max_replicas()) as f64 / before as f64;
        grown.round() as i64 - member.replicas
    }
}
