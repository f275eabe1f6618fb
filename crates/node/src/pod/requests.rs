//! What a pod asks of its node: the sum of its containers, or the largest init container where that is more.

use object::Value;
use object::quantity::Quantity;

use crate::pod::{Pod, Role};

/// Amounts of what every node has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    pub cpu_milli: i64,
    pub memory: i64,
    pub ephemeral_storage: i64,
}

impl Requests {
    pub fn of(pod: &Pod<'_>) -> Requests {
        Requests::of_containers(pod).plus(Requests::overhead(pod))
    }

    /// The same, where the overhead of running it gives a pod nothing that did not ask for anything.
    pub fn asked_for(pod: &Pod<'_>) -> Requests {
        let with_overhead = |own: i64, overhead: i64| if own == 0 { 0 } else { own.saturating_add(overhead) };
        Requests::of_containers(pod).each(Requests::overhead(pod), with_overhead)
    }

    fn overhead(pod: &Pod<'_>) -> Requests {
        Requests::read(pod.tree.at(&["spec", "overhead"]))
    }

    fn of_containers(pod: &Pod<'_>) -> Requests {
        // Sidecars run beside everything that comes after them.
        let (mut sidecars, mut init, mut main) =
            (Requests::default(), Requests::default(), Requests::default());
        for container in &pod.containers {
            let own = Requests::read(container.spec.at(&["resources", "requests"]));
            match container.role {
                Role::Main => main = main.plus(own),
                Role::Sidecar => {
                    sidecars = sidecars.plus(own);
                    init = init.most(sidecars);
                }
                Role::Init => init = init.most(sidecars.plus(own)),
                // They ask for nothing of their own.
                Role::Ephemeral => {}
            }
        }
        let sum = main.plus(sidecars).most(init);
        let whole = pod.tree.at(&["spec", "resources", "requests"]);
        Requests::read_over(whole, sum)
    }

    /// Of a map of quantities.
    pub fn read(amounts: Option<&Value>) -> Requests {
        Requests::read_over(amounts, Requests::default())
    }

    /// What the map names, the rest from `other`.
    fn read_over(amounts: Option<&Value>, other: Requests) -> Requests {
        let quantity = |name: &str| {
            let text = amounts.and_then(|a| a.get(name)).and_then(Value::as_str);
            text.and_then(|text| Quantity::parse(text).ok())
        };
        Requests {
            cpu_milli: quantity("cpu").map_or(other.cpu_milli, |q| q.as_milli()),
            memory: quantity("memory").map_or(other.memory, |q| q.as_i64()),
            ephemeral_storage: quantity("ephemeral-storage").map_or(other.ephemeral_storage, |q| q.as_i64()),
        }
    }

    pub fn plus(self, other: Requests) -> Requests {
        self.each(other, i64::saturating_add)
    }
    pub fn minus(self, other: Requests) -> Requests {
        self.each(other, i64::saturating_sub)
    }
    fn most(self, other: Requests) -> Requests {
        self.each(other, i64::max)
    }
    fn each(self, other: Requests, f: fn(i64, i64) -> i64) -> Requests {
        Requests {
            cpu_milli: f(self.cpu_milli, other.cpu_milli),
            memory: f(self.memory, other.memory),
            ephemeral_storage: f(self.ephemeral_storage, other.ephemeral_storage),
        }
    }
}
