//! Priority: a pod's class becomes a number, and only one class is the default of the cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use codec::json;
use object::{Obj, Value};

use crate::tree::{flag, text};
use crate::{Attempt, Effects, Memo, Operation, Plugin, Refusal};

pub struct Priority {
    classes: Memo<Classes>,
}

/// All priority classes, as pods need them.
struct Classes {
    by_name: BTreeMap<String, Class>,
    default: Option<String>,
}

struct Class {
    value: i64,
    policy: String,
}

const GROUP: &str = "scheduling.k8s.io";
const PLURAL: &str = "priorityclasses";
/// What pods have where no class is the default.
const POLICY: &str = "PreemptLowerPriority";

impl Default for Priority {
    fn default() -> Priority {
        Priority { classes: Memo::of(GROUP, PLURAL) }
    }
}

impl Plugin for Priority {
    fn name(&self) -> &'static str {
        "Priority"
    }

    fn mutate(&self, attempt: &Attempt<'_>, new: &mut Value, _: &mut Effects) -> Result<(), Refusal> {
        if !attempt.is("", "pods") {
            return Ok(());
        }
        match (attempt.operation, attempt.old) {
            (Operation::Create, _) => self.complete(attempt, new),
            (Operation::Update, Some(old)) => {
                for member in ["priority", "preemptionPolicy"] {
                    let absent = new.at(&["spec", member]).is_none_or(Value::is_null);
                    if absent && let Some(was) = old.at(&["spec", member]) {
                        new.map_at(&["spec"]).set(member, was.clone());
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn validate(&self, attempt: &Attempt<'_>, new: Option<&Value>, _: &mut Effects) -> Result<(), Refusal> {
        let Some(class) = new.filter(|_| attempt.is(GROUP, PLURAL)) else { return Ok(()) };
        if flag(class, "globalDefault") != Some(true) {
            return Ok(());
        }
        let Some(classes) = self.classes.get(attempt, Classes::of)? else { return Ok(()) };
        match &classes.default {
            Some(default) if attempt.operation == Operation::Create || default != attempt.name => {
                let why = format!(
                    "PriorityClass {default} is already marked as default. Only one default can exist"
                );
                Err(attempt.forbidden(why).into())
            }
            _ => Ok(()),
        }
    }
}

impl Priority {
    fn complete(&self, attempt: &Attempt<'_>, pod: &mut Value) -> Result<(), Refusal> {
        let classes = self.classes.get(attempt, Classes::of)?;
        let spec = pod.map_at(&["spec"]);
        let wanted = spec.get("priorityClassName").and_then(Value::as_str).unwrap_or_default();
        let by_name = |name: &str| classes.as_ref().and_then(|c| c.by_name.get(name));
        let (value, policy) = if !wanted.is_empty() {
            let Some(class) = by_name(wanted) else {
                let why = format!("no PriorityClass with name {wanted} was found");
                return Err(attempt.forbidden(why).into());
            };
            (class.value, class.policy.as_str())
        } else if let Some(default) = classes.as_ref().and_then(|c| c.default.as_deref()) {
            spec.set("priorityClassName", default);
            by_name(default).map_or((0, POLICY), |class| (class.value, class.policy.as_str()))
        } else {
            (0, POLICY)
        };
        if let Some(own) = spec.get("priority").and_then(Value::as_int).filter(|own| *own != value) {
            let why = format!(
                "the integer value of priority ({own}) must not be provided in pod spec; priority admission \
                 controller computed {value} from the given PriorityClass name"
            );
            return Err(attempt.forbidden(why).into());
        }
        spec.set("priority", value);
        if policy.is_empty() {
            return Ok(());
        }
        match spec.get("preemptionPolicy").and_then(Value::as_str) {
            Some(own) if own != policy => {
                let why = format!(
                    "the string value of PreemptionPolicy ({own}) must not be provided in pod spec; priority \
                     admission controller computed {policy} from the given PriorityClass name"
                );
                Err(attempt.forbidden(why).into())
            }
            Some(_) => Ok(()),
            None => {
                spec.set("preemptionPolicy", policy);
                Ok(())
            }
        }
    }
}

impl Classes {
    fn of(objects: Vec<Arc<Obj>>) -> Classes {
        let mut by_name = BTreeMap::new();
        let mut default: Option<(i64, String)> = None;
        for obj in objects {
            let Ok(tree) = json::parse(obj.body(), None) else { continue };
            let value = tree.get("value").and_then(Value::as_int).unwrap_or(0);
            // Should there be several defaults, the lowest counts.
            if flag(&tree, "globalDefault") == Some(true) && default.as_ref().is_none_or(|(v, _)| *v > value)
            {
                default = Some((value, obj.name().to_owned()));
            }
            let policy = text(&tree, "preemptionPolicy").to_owned();
            by_name.insert(obj.name().to_owned(), Class { value, policy });
        }
        Classes { by_name, default: default.map(|(_, name)| name) }
    }
}
