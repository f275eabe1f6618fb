//! A rollout: old pods are replaced within what may be missing, or what may be too many.

use super::placement::Fit;
use super::plan::{Changes, Snapshot};
use super::pods::Pod;

/// The pods of a node that are not going, by template.
struct Pair<'a> {
    new: Option<&'a Pod>,
    old: Option<&'a Pod>,
}

impl Snapshot<'_> {
    /// After [`Snapshot::manage`] found nothing to do.
    pub fn roll(&self) -> Changes {
        let Some(rolling) = &self.set.rolling else { return Changes::default() };
        let desired = self.nodes.values().filter(|fit| fit.run).count() as i64;
        let surge = rolling.max_surge.of(desired);
        let mut unavailable = rolling.max_unavailable.of(desired);
        if desired > 0 && surge == 0 && unavailable == 0 {
            // The rollout could never move.
            unavailable = 1;
        }
        if surge == 0 { self.replace(unavailable) } else { self.surge(surge, desired) }
    }

    /// Deletes old pods; their successors come with the next look at the nodes.
    fn replace(&self, most: i64) -> Changes {
        let mut changes = Changes::default();
        let (mut unavailable, mut candidates) = (0, Vec::new());
        for (_, pods) in self.considered() {
            let Some(Pair { new, old }) = self.pair(pods) else {
                unavailable += 1;
                continue;
            };
            match (new, old) {
                (None, None) | (Some(_), Some(_)) => unavailable += 1,
                (Some(new), None) => unavailable += i64::from(!self.is_available(new)),
                // It does nothing: replacing it costs nothing.
                (None, Some(old)) if !self.is_available(old) => {
                    changes.delete.push(old.obj.clone());
                    unavailable += 1;
                }
                (None, Some(_)) if unavailable >= most => {}
                (None, Some(old)) => candidates.push(old.obj.clone()),
            }
        }
        let left = usize::try_from(most - unavailable).unwrap_or(0);
        changes.delete.extend(candidates.into_iter().take(left));
        changes
    }

    /// Makes new pods beside the old, which go when the new are available.
    fn surge(&self, most: i64, desired: i64) -> Changes {
        let mut changes = Changes::default();
        let (mut surging, mut available) = (0, 0);
        let (mut candidates, mut misplaced) = (Vec::new(), Vec::new());
        for (name, pods) in self.considered() {
            let Some(Pair { new, old }) = self.pair(pods) else {
                surging += 1;
                continue;
            };
            available += i64::from(old.or(new).is_some_and(|pod| self.is_available(pod)));
            let Some(old) = old else { continue };
            match new {
                Some(new) if self.is_available(new) => changes.delete.push(old.obj.clone()),
                Some(_) => surging += 1,
                None => {
                    // Differs from kube-controller-manager: there, a pod on a node that is gone stops the whole rollout.
                    let Some(fit) = self.fit(name) else { continue };
                    match (self.is_available(old), fit.run) {
                        (false, false) => changes.delete.push(old.obj.clone()),
                        (false, true) => changes.create.push(name.to_owned()),
                        (true, false) => misplaced.push(old.obj.clone()),
                        (true, true) if surging < most => candidates.push(name.to_owned()),
                        (true, true) => {}
                    }
                }
            }
        }
        // Who surges expects everything to be available: what moves to another node waits for its successor there.
        let spare = usize::try_from(available - desired).unwrap_or(0);
        changes.delete.extend(misplaced.into_iter().take(spare));
        let left = usize::try_from(most - surging).unwrap_or(0);
        changes.create.extend(candidates.into_iter().take(left));
        changes
    }

    /// Nodes with pods, and those that should have some.
    fn considered(&self) -> impl Iterator<Item = (&str, &[Pod])> {
        let missing = self.nodes.iter().filter(|(name, fit)| fit.run && !self.pods.contains_key(*name));
        let missing = missing.map(|(name, _)| (name.as_str(), &[] as &[Pod]));
        self.pods.iter().map(|(name, pods)| (name.as_str(), pods.as_slice())).chain(missing)
    }

    fn fit(&self, name: &str) -> Option<Fit> {
        self.nodes.get(name).copied()
    }

    /// `None`: there are several of one kind, which the next look at the node puts right.
    fn pair<'a>(&self, pods: &'a [Pod]) -> Option<Pair<'a>> {
        let mut pair = Pair { new: None, old: None };
        for pod in pods.iter().filter(|pod| !pod.goes()) {
            let slot = if pod.is_updated(self.set, self.hash) { &mut pair.new } else { &mut pair.old };
            if slot.replace(pod).is_some() {
                return None;
            }
        }
        Some(pair)
    }
}
