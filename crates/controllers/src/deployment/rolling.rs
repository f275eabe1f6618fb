//! A rolling update: new pods come and old ones go, never more than the surge above nor more than the unavailable below.

use super::plan::Planner;

impl Planner<'_> {
    /// One step up or else one step down; the next follows when its pods are there, or gone.
    pub(super) fn roll(&mut self) {
        let new = self.need_new();
        if self.grow_new(new) || self.shrink_old(new) {
            return;
        }
        if self.d.status.is_complete(self.d) {
            self.clean_up();
        }
    }

    fn grow_new(&mut self, new: usize) -> bool {
        let (have, wanted) = (self.members[new].replicas, self.d.replicas);
        let size = if have > wanted { wanted } else { self.room_for_new(have) };
        self.scale(new, size, false)
    }

    fn shrink_old(&mut self, new: usize) -> bool {
        let old = self.active_old();
        if old.is_empty() {
            return false;
        }
        let least = self.d.replicas - self.d.max_unavailable();
        // New pods that do not run yet must not cost old ones their place.
        let unavailable = self.members[new].replicas - self.members[new].set.status.available;
        let most = self.total() - least - unavailable;
        if most <= 0 {
            return false;
        }
        // First those that do not run anyway: they would block the rollout for ever.
        let unhealthy = self.drop_unhealthy(&old, most);
        let healthy = self.drop_available(&old, new, least);
        unhealthy || healthy
    }

    fn drop_unhealthy(&mut self, old: &[usize], most: i64) -> bool {
        let mut dropped = 0;
        for at in old {
            let (have, available) = (self.members[*at].replicas, self.members[*at].set.status.available);
            // A status may lag behind a size: more available than wanted is no reason to grow.
            let less = (most - dropped).min(have - available);
            if less > 0 {
                self.scale(*at, have - less, false);
                dropped += less;
            }
        }
        dropped > 0
    }

    fn drop_available(&mut self, old: &[usize], new: usize, least: i64) -> bool {
        let available =
            old.iter().chain([&new]).map(|at| self.members[*at].set.status.available).sum::<i64>();
        let most = available - least;
        let mut dropped = 0;
        for at in old {
            let have = self.members[*at].replicas;
            let less = (most - dropped).min(have);
            if less > 0 {
                self.scale(*at, have - less, false);
                dropped += less;
            }
        }
        dropped > 0
    }
}
