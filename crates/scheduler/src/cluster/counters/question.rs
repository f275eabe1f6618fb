//! Which placed pods are counted.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use object::selector::LabelSelector;

use super::by_label::must_have;
use crate::pod::{Class, Held, PodTerm};
use crate::read::Labels;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Question {
    /// Those of a namespace that are not going away, for spreading.
    Spread { namespace: Arc<str>, selector: Arc<LabelSelector> },
    /// Those that all terms mean.
    Terms(Vec<Arc<PodTerm>>),
    /// Those that hold a term.
    Holders(Arc<Held>),
}

/// A question with its hash, which a table that grows needs again of all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyed {
    hash: u64,
    pub question: Question,
}

impl Hash for Keyed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl From<Question> for Keyed {
    fn from(question: Question) -> Keyed {
        let mut hasher = DefaultHasher::new();
        question.hash(&mut hasher);
        Keyed { hash: hasher.finish(), question }
    }
}

impl Question {
    pub(super) fn about(&self, class: &Class, namespace_labels: &Labels) -> bool {
        match self {
            Question::Spread { namespace, selector } => {
                class.namespace == *namespace
                    && !selector.is_everything()
                    && selector.matches(&|key| class.label(key))
            }
            Question::Terms(terms) => {
                let matches = |t: &Arc<PodTerm>| t.matches(&class.namespace, namespace_labels, &class.labels);
                !terms.is_empty() && terms.iter().all(matches)
            }
            Question::Holders(held) => class.holds(held),
        }
    }

    /// A label all the pods must have.
    pub(super) fn must_have(&self) -> Option<(Arc<str>, Arc<str>)> {
        match self {
            Question::Spread { selector, .. } => must_have(selector),
            Question::Terms(terms) => terms.iter().find_map(|term| must_have(&term.selector)),
            Question::Holders(_) => None,
        }
    }

    /// Whether the labels of namespaces decide which pods are meant.
    pub(super) fn chooses_namespaces(&self) -> bool {
        let by_label = |t: &Arc<PodTerm>| t.namespace_selector != LabelSelector::nothing();
        matches!(self, Question::Terms(terms) if terms.iter().any(by_label))
    }
}
