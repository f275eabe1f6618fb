//! What took part in the admission of one request: for `/debug/admission`, and the audit annotations it left.
//!
//! ```text
//! every write    policies and webhooks whose rules are about it: what each did, or why it was not asked; who refused it
//! a dry run      besides: what each built-in plugin changed, and which configurations have no rule for it
//! ```
//! A request that nobody outside is asked about, and that nobody refuses, notes nothing: its trace is two empty lists. A dry run is shown
//! all the same.
//! Values of objects are never noted, only the paths of fields.

mod changes;

use std::time::Duration;

use object::Status;
use object::validate_text::qualified_name;
use parking_lot::Mutex;

use crate::{Attempt, Phase};

pub use changes::changes;

/// Steps of one request; more are counted.
const MAX_STEPS: usize = 256;
/// Bytes of one text.
const MAX_TEXT: usize = 1024;
/// Audit annotations of one request.
const MAX_ANNOTATIONS: usize = 128;

/// One per request, whoever sent it.
#[derive(Default)]
pub struct Trace {
    /// Guards what was noted; held to add one line.
    noted: Mutex<Noted>,
}

/// What a trace holds in the end.
#[derive(Default)]
pub struct Noted {
    /// Of the object, once it has one.
    pub name: String,
    pub steps: Vec<Step>,
    /// Steps beyond the limit.
    pub left_off: usize,
    pub annotations: Vec<(String, String)>,
}

/// What one of those who took part did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub phase: Phase,
    /// Upstream's name of the plugin.
    pub plugin: &'static str,
    /// Which policy or webhook: `policy NAME, binding NAME`.
    pub who: String,
    /// In words: `allowed`, `changed spec.x`, `not asked: ...`.
    pub did: String,
    pub took: Option<Duration>,
}

impl Trace {
    fn add(&self, attempt: &Attempt<'_>, mut step: Step) {
        if attempt.is_or_below("", "secrets") && step.did.contains(": ") {
            // Messages may quote what they are about.
            let kept = step.did.find(": ").unwrap_or(step.did.len());
            step.did.truncate(kept);
            step.did.push_str(" (details are withheld: the object is a Secret)");
        }
        for text in [&mut step.who, &mut step.did] {
            let fits = text.floor_char_boundary(MAX_TEXT);
            text.truncate(fits);
        }
        self.name(attempt);
        let mut noted = self.noted.lock();
        // A write that waits for something is tried again, and told the same.
        let again = |last: &Step| (last.plugin, &last.who, &last.did) == (step.plugin, &step.who, &step.did);
        if noted.steps.last().is_some_and(again) {
            return;
        }
        match noted.steps.len() < MAX_STEPS {
            true => noted.steps.push(step),
            false => noted.left_off += 1,
        }
    }

    /// Whom it is about, once that is known.
    fn name(&self, attempt: &Attempt<'_>) {
        let mut noted = self.noted.lock();
        if noted.name.is_empty() {
            let name = [attempt.name, attempt.generate_name].into_iter().find(|name| !name.is_empty());
            noted.name = name.unwrap_or_default().to_owned();
        }
    }

    fn annotate(&self, key: String, value: String) {
        let mut noted = self.noted.lock();
        match noted.annotations.iter().find(|(own, _)| *own == key) {
            Some((_, own)) if *own != value => {
                tracing::warn!(key, "audit annotation has already been set to another value");
            }
            Some(_) => {}
            None if noted.annotations.len() < MAX_ANNOTATIONS => noted.annotations.push((key, value)),
            None => tracing::warn!(key, "too many audit annotations"),
        }
    }

    /// What was noted so far; nothing of it stays.
    pub fn take(&self) -> Noted {
        std::mem::take(&mut *self.noted.lock())
    }
}

impl Attempt<'_> {
    /// Whether everything is to be noted, whatever it costs.
    pub fn is_traced_in_full(&self) -> bool {
        self.dry_run && self.trace.is_some()
    }

    /// Whom a trace is about, though nobody may have anything to say.
    pub(crate) fn name_trace(&self) {
        if let Some(trace) = self.trace {
            trace.name(self);
        }
    }

    pub fn note(
        &self,
        phase: Phase,
        plugin: &'static str,
        who: impl Into<String>,
        did: impl Into<String>,
        took: Option<Duration>,
    ) {
        if let Some(trace) = self.trace {
            trace.add(self, Step { phase, plugin, who: who.into(), did: did.into(), took });
        }
    }

    /// A plugin said no.
    pub(crate) fn note_refusal(&self, phase: Phase, plugin: &'static str, status: &Status) {
        self.note(phase, plugin, "", format!("refused: {}", status.message), None);
    }

    /// An annotation for the audit log. Of two with one key the first stays, as in upstream's events; what upstream would not take is
    /// not taken.
    pub fn annotate(&self, key: String, value: String) {
        let Some(trace) = self.trace else { return };
        let wrong = match key.split('/').count() {
            2 => qualified_name(&key).join(","),
            _ => "the right format is a DNS subdomain prefix and '/' and key name".to_owned(),
        };
        match wrong.is_empty() {
            true => trace.annotate(key, value),
            false => tracing::warn!(key, wrong, "audit annotation key has invalid format"),
        }
    }
}
