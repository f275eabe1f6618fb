//! DefaultTolerationSeconds: a pod stays five minutes on a node that stopped answering, unless it says otherwise.

use object::Value;

use crate::tree::{items, list_mut, map, text};
use crate::{Attempt, Effects, Operation, Plugin, Refusal};

pub struct DefaultTolerationSeconds;

const SECONDS: i64 = 300;
const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

impl Plugin for DefaultTolerationSeconds {
    fn name(&self) -> &'static str {
        "DefaultTolerationSeconds"
    }

    fn mutate(&self, attempt: &Attempt<'_>, new: &mut Value, _: &mut Effects) -> Result<(), Refusal> {
        if attempt.operation == Operation::Delete || !attempt.is("", "pods") {
            return Ok(());
        }
        let own = new.get("spec").map(|spec| items(spec, "tolerations")).unwrap_or_default();
        let tolerates = |taint: &str| {
            let about = |name: &str, wanted: &str, own: &Value| ["", wanted].contains(&text(own, name));
            own.iter().any(|t| about("key", taint, t) && about("effect", "NoExecute", t))
        };
        let missing = TAINTS.map(|taint| !tolerates(taint));
        for (taint, missing) in TAINTS.into_iter().zip(missing) {
            if missing {
                let toleration = map([
                    ("key", taint.into()),
                    ("operator", "Exists".into()),
                    ("effect", "NoExecute".into()),
                    ("tolerationSeconds", SECONDS.into()),
                ]);
                list_mut(new.map_at(&["spec"]), "tolerations").push(toleration);
            }
        }
        Ok(())
    }
}
