//! What an autoscaler looks at in a pod.

use object::quantity::Quantity;
use object::{Value, time};

#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    pub name: String,
    /// It is going, or has failed.
    pub ignored: bool,
    pub pending: bool,
    pub runs: bool,
    pub started_millis: Option<i64>,
    /// `None`: it says nothing of being ready.
    pub ready: Option<Ready>,
    spec: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    pub is_true: bool,
    pub is_false: bool,
    pub changed_millis: i64,
}

impl Pod {
    pub fn read(pod: Value) -> Pod {
        let phase = pod.str_at(&["status", "phase"]).unwrap_or("");
        let conditions = pod.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
        let ready = conditions.iter().find(|condition| condition.str_at(&["type"]) == Some("Ready"));
        Pod {
            name: pod.str_at(&["metadata", "name"]).unwrap_or("").to_owned(),
            ignored: pod.at(&["metadata", "deletionTimestamp"]).is_some() || phase == "Failed",
            pending: phase == "Pending",
            runs: phase == "Running",
            started_millis: pod.str_at(&["status", "startTime"]).and_then(millis),
            ready: ready.map(|condition| Ready {
                is_true: condition.str_at(&["status"]) == Some("True"),
                is_false: condition.str_at(&["status"]) == Some("False"),
                changed_millis: condition.str_at(&["lastTransitionTime"]).and_then(millis).unwrap_or(0),
            }),
            spec: pod.get("spec").cloned().unwrap_or_else(Value::map),
        }
    }

    pub fn is_ready(&self) -> bool {
        self.ready.is_some_and(|ready| ready.is_true)
    }

    /// What it requests of a resource, in thousandths: all of it, or one container.
    pub fn request(&self, resource: &str, container: Option<&str>) -> Result<i64, String> {
        let whole = self.spec.at(&["resources", "requests"]);
        let is_set = whole.and_then(Value::as_map).is_some_and(|requests| {
            requests
                .iter()
                .any(|(name, _)| matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-"))
        });
        if container.is_none() && is_set {
            let missing = || format!("missing pod-level request for {resource} in Pod {}", self.name);
            let own = quantity(whole, resource).or_else(|| self.largest(resource)).ok_or_else(missing)?;
            let overhead = quantity(self.spec.get("overhead"), resource).unwrap_or(0);
            return Ok(own.saturating_add(overhead));
        }
        let mut sum = 0i64;
        for one in self.containers().chain(self.sidecars()) {
            let name = one.str_at(&["name"]).unwrap_or("");
            if container.is_some_and(|wanted| wanted != name) {
                continue;
            }
            let missing =
                || format!("missing request for {resource} in container {name} of Pod {}", self.name);
            sum = sum
                .saturating_add(quantity(one.at(&["resources", "requests"]), resource).ok_or_else(missing)?);
            if container.is_some() {
                return Ok(sum);
            }
        }
        match container {
            Some(container) => Err(format!("container {container} not found in Pod {}", self.name)),
            None => Ok(sum),
        }
    }

    /// The sum of its containers, or an init container that needs more; `None`: nobody asks for it.
    fn largest(&self, resource: &str) -> Option<i64> {
        let of = |container: &Value| quantity(container.at(&["resources", "requests"]), resource);
        let mut sidecars: Option<i64> = None;
        let mut init: Option<i64> = None;
        let plus = |a: Option<i64>, b: Option<i64>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        };
        for container in list(&self.spec, "initContainers") {
            let own = of(container);
            if is_sidecar(container) {
                sidecars = plus(sidecars, own);
                init = init.max(sidecars);
            } else {
                init = init.max(plus(sidecars, own));
            }
        }
        let main = self.containers().fold(None, |sum, container| plus(sum, of(container)));
        plus(main, sidecars).max(init)
    }

    fn containers(&self) -> impl Iterator<Item = &Value> {
        list(&self.spec, "containers").iter()
    }
    fn sidecars(&self) -> impl Iterator<Item = &Value> {
        list(&self.spec, "initContainers").iter().filter(|container| is_sidecar(container))
    }
}

fn list<'a>(spec: &'a Value, name: &str) -> &'a [Value] {
    spec.get(name).and_then(Value::as_list).unwrap_or_default()
}

fn is_sidecar(container: &Value) -> bool {
    container.str_at(&["restartPolicy"]) == Some("Always")
}

fn quantity(amounts: Option<&Value>, name: &str) -> Option<i64> {
    Some(Quantity::parse(amounts?.str_at(&[name])?).ok()?.as_milli())
}

/// A time as people write it, in milliseconds.
pub fn millis(text: &str) -> Option<i64> {
    let (seconds, nanos) = time::parse(text)?;
    Some(seconds.saturating_mul(1000).saturating_add(i64::from(nanos / 1_000_000)))
}
