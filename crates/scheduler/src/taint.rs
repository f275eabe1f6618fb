//! Taints of nodes and tolerations of pods: which keep which away.

use object::Value;

use crate::cluster::NodeIx;
use crate::cluster::bits::Bits;
use crate::cluster::words::{TaintSet, Words};
use crate::read::{list, text};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Taint {
    pub key: String,
    pub value: String,
    pub effect: Effect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
    /// An effect this version does not know keeps nothing away.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Toleration {
    /// Empty is every key.
    pub key: String,
    pub operator: Operator,
    pub value: String,
    /// `None` is every effect.
    pub effect: Option<Effect>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    Equal,
    Exists,
    /// Comparisons are behind a gate that is off by default, and what is unknown tolerates nothing.
    Never,
}

/// The taint that `cordon` puts beside `spec.unschedulable`.
pub const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

impl Effect {
    fn parse(text: &str) -> Effect {
        match text {
            "NoSchedule" => Effect::NoSchedule,
            "PreferNoSchedule" => Effect::PreferNoSchedule,
            "NoExecute" => Effect::NoExecute,
            _ => Effect::Other,
        }
    }
    fn forbids(self) -> bool {
        matches!(self, Effect::NoSchedule | Effect::NoExecute)
    }
}

impl Taint {
    pub fn parse(value: &Value) -> Taint {
        Taint {
            key: text(value, "key").to_owned(),
            value: text(value, "value").to_owned(),
            effect: Effect::parse(text(value, "effect")),
        }
    }
    pub fn parse_all(spec: Option<&Value>) -> Vec<Taint> {
        list(spec, "taints").iter().map(Taint::parse).collect()
    }
}

impl Toleration {
    pub fn parse(value: &Value) -> Toleration {
        let effect = text(value, "effect");
        Toleration {
            key: text(value, "key").to_owned(),
            operator: match text(value, "operator") {
                "" | "Equal" => Operator::Equal,
                "Exists" => Operator::Exists,
                _ => Operator::Never,
            },
            value: text(value, "value").to_owned(),
            effect: (!effect.is_empty()).then(|| Effect::parse(effect)),
        }
    }
    pub fn parse_all(spec: Option<&Value>) -> Vec<Toleration> {
        list(spec, "tolerations").iter().map(Toleration::parse).collect()
    }

    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.effect.is_none_or(|effect| effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && match self.operator {
                Operator::Equal => self.value == taint.value,
                Operator::Exists => true,
                Operator::Never => false,
            }
    }
}

/// Whether no taint that forbids placing stands against these tolerations.
pub fn all_tolerated(taints: &[Taint], tolerations: &[Toleration]) -> bool {
    taints.iter().filter(|t| t.effect.forbids()).all(|taint| tolerations.iter().any(|t| t.tolerates(taint)))
}

/// How many `PreferNoSchedule` taints are not tolerated.
pub fn intolerable(taints: &[Taint], tolerations: &[Toleration]) -> i64 {
    let cares = |t: &&Toleration| t.effect.is_none_or(|effect| effect == Effect::PreferNoSchedule);
    taints
        .iter()
        .filter(|taint| taint.effect == Effect::PreferNoSchedule)
        .filter(|taint| !tolerations.iter().filter(cares).any(|t| t.tolerates(taint)))
        .count() as i64
}

/// What tolerations come to for each set of taints of the nodes.
#[derive(Debug, Default)]
pub struct Tolerance {
    /// Intolerable taints, or [`FORBIDDEN`].
    sets: Vec<i32>,
}

const FORBIDDEN: i32 = -1;

impl Tolerance {
    pub fn new(tolerations: &[Toleration], words: &Words) -> Tolerance {
        let judge = |set: TaintSet| {
            let taints = words.taints(set);
            match all_tolerated(taints, tolerations) {
                true => intolerable(taints, tolerations).min(i64::from(i16::MAX)) as i32,
                false => FORBIDDEN,
            }
        };
        Tolerance { sets: (0..words.taint_sets() as TaintSet).map(judge).collect() }
    }

    /// How many `PreferNoSchedule` taints of a node are not tolerated; `None` when one forbids placing.
    #[inline]
    pub fn of(&self, words: &Words, node: NodeIx) -> Option<i32> {
        let count = self.sets[words.taint_set(node)? as usize];
        (count != FORBIDDEN).then_some(count)
    }

    /// Whether all nodes are equally tolerable, as far as they are at all.
    pub fn all_equal(&self) -> bool {
        self.sets.iter().all(|count| *count == 0)
    }

    /// Leaves only the nodes no taint of which forbids placing.
    pub fn keep(&self, words: &Words, nodes: &mut Bits) {
        for (set, _) in self.sets.iter().enumerate().filter(|(_, count)| **count == FORBIDDEN) {
            nodes.take(words.with_taints(set as TaintSet));
        }
    }
}

/// Whether a cordoned node is open to these tolerations.
pub fn tolerates_unschedulable(tolerations: &[Toleration]) -> bool {
    let taint = Taint { key: UNSCHEDULABLE.to_owned(), value: String::new(), effect: Effect::NoSchedule };
    tolerations.iter().any(|t| t.tolerates(&taint))
}
