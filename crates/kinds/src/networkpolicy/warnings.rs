//! Warnings about network policies: blocks of addresses in odd forms.

use super::{Accepted, Said};
use crate::check::{items, member, text, texts};
use crate::workload::SPEC;

pub(super) fn warn(write: &Accepted<'_>, said: &mut Said) {
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        let at = SPEC.child(rules);
        for (i, rule) in items(write.spec(), rules).iter().enumerate() {
            let at = at.index(i);
            let at = at.child(peers);
            for (j, peer) in items(rule, peers).iter().enumerate() {
                let Some(block) = member(peer, "ipBlock") else { continue };
                let at = at.index(j);
                let at = at.child("ipBlock");
                said.cidr(&at.child("cidr"), text(block, "cidr"));
                for (k, except) in texts(block, "except").enumerate() {
                    said.cidr(&at.child("except").index(k), except);
                }
            }
        }
    }
}
