//! TaintNodesByCondition: a new node takes no pods before something says that it is ready.

use object::Value;

use crate::tree::{list_mut, map, text};
use crate::{Attempt, Effects, Operation, Plugin, Refusal};

pub struct TaintNodesByCondition;

const KEY: &str = "node.kubernetes.io/not-ready";
const EFFECT: &str = "NoSchedule";

impl Plugin for TaintNodesByCondition {
    fn name(&self) -> &'static str {
        "TaintNodesByCondition"
    }

    fn mutate(&self, attempt: &Attempt<'_>, new: &mut Value, _: &mut Effects) -> Result<(), Refusal> {
        if attempt.operation != Operation::Create || !attempt.is("", "nodes") {
            return Ok(());
        }
        let taints = list_mut(new.map_at(&["spec"]), "taints");
        if !taints.iter().any(|taint| text(taint, "key") == KEY && text(taint, "effect") == EFFECT) {
            taints.push(map([("key", KEY.into()), ("effect", EFFECT.into())]));
        }
        Ok(())
    }
}
