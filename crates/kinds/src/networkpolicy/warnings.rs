//! Warnings about network policies: blocks of addresses in odd forms.

use crate::check::{items, member, text, texts};
use crate::warnings::{Accepted, Warnings};
use crate::workload::SPEC;

pub(crate) fn warn(write: &Accepted<'_>, warnings: &mut Warnings) {
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        let at = SPEC.child(rules);
        for (i, rule) in items(write.spec(), rules).iter().enumerate() {
            let at = at.index(i);
            let at = at.child(peers);
            for (j, peer) in items(rule, peers).iter().enumerate() {
                let Some(block) = member(peer, "ipBlock") else { continue };
                let at = at.index(j);
                let at = at.child("ipBlock");
                warnings.cidr(&at.child("cidr"), text(block, "cidr"));
                for (k, except) in texts(block, "except").enumerate() {
                    warnings.cidr(&at.child("except").index(k), except);
                }
            }
        }
    }
}
