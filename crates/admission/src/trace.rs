//! What took part in the admission of one request: for `/debug/admission`, and the audit annotations it left.
//!
//! ```text
//! every write    policies and webhooks whose rules are about it: what each did, or why it was not asked; who refused it
//! a dry run      besides: what each built-in plugin changed, and which configurations have no rule for it
//! ```
//! A request that nobody outside is asked about, and that nobody refuses, notes nothing: its trace is two empty lists. A dry run is shown
//! all the same.
//! Of what was changed only the paths of fields are noted, not their values. Messages and annotations are noted as they are, and may
//! quote values; those about Secrets are not noted.

mod changes;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use object::Status;
use object::validate_text::qualified_name;
use parking_lot::Mutex;

use crate::{Attempt, Phase, RequestContext};

pub use changes::changes;

/// Steps of one request; more are counted, and those of who was not asked go first.
const MAX_STEPS: usize = 256;
/// Bytes of one text.
const MAX_TEXT: usize = 1024;
/// Audit annotations of one request.
const MAX_ANNOTATIONS: usize = 128;
/// Bytes of its key that the log shows.
const MAX_SHOWN_KEY: usize = 256;
/// Bytes of the value of one, as upstream bounds those of policies. Differs from kube-apiserver: those of webhooks, too, since they
/// are kept in memory.
const MAX_ANNOTATION_BYTES: usize = 10 * 1024;

/// One per request, whoever sent it.
#[derive(Default)]
pub struct Trace {
    /// Guards what was noted; held to add one line.
    notes: Mutex<Notes>,
    /// Nanoseconds that mutating webhooks took, one after the other.
    mutating: AtomicU64,
    /// The longest of the validating ones, which are asked at once.
    validating: AtomicU64,
}

/// What a trace holds.
#[derive(Default)]
struct Notes {
    name: String,
    dry_run: bool,
    /// Steps so far, with those that were dropped.
    added: usize,
    /// With the number each got when it was added.
    steps: Vec<(usize, Step)>,
    annotations: Vec<(String, String)>,
    /// Annotations that were not taken. A webhook decides how many there are, so the log has one line for all of them.
    not_taken: usize,
    /// The key of the first of them, and what is wrong with it.
    first_not_taken: Option<(String, String)>,
}

/// How far a trace has come.
#[derive(Clone, Copy, Default)]
pub struct Mark {
    added: usize,
    annotations: usize,
}

/// What a trace holds in the end.
#[derive(Default)]
pub struct Noted {
    /// Of the object, once it has one.
    pub name: String,
    /// It was asked for in the body, as deletions and evictions do.
    pub dry_run: bool,
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
    /// Otherwise it says why it was passed over.
    pub asked: bool,
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
        let mut notes = self.notes.lock();
        // Of many objects that are deleted at once the same is told of each.
        let again = |(_, last): &(usize, Step)| {
            (last.plugin, &last.who, &last.did) == (step.plugin, &step.who, &step.did)
        };
        if !notes.steps.last().is_some_and(again) {
            notes.push(step);
        }
    }

    /// Whom it is about, once that is known.
    fn name(&self, attempt: &Attempt<'_>) {
        let mut notes = self.notes.lock();
        if notes.name.is_empty() {
            let name = [attempt.name, attempt.generate_name].into_iter().find(|name| !name.is_empty());
            notes.name = name.unwrap_or_default().to_owned();
        }
    }

    /// A webhook took that long.
    pub fn waited_for_webhook(&self, phase: Phase, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        match phase {
            Phase::Admit => self.mutating.fetch_add(nanos, Ordering::Relaxed),
            Phase::Validate => self.validating.fetch_max(nanos, Ordering::Relaxed),
        };
    }

    /// How long the request waited for webhooks: time that is not this server's.
    pub fn webhooks_took(&self) -> Duration {
        let nanos = |of: &AtomicU64| Duration::from_nanos(of.load(Ordering::Relaxed));
        nanos(&self.mutating) + nanos(&self.validating)
    }

    /// The body asks for a dry run; what the query says is known from the request.
    pub fn set_dry_run(&self) {
        self.notes.lock().dry_run = true;
    }

    fn annotate(&self, key: String, mut value: String) {
        let wrong = match key.split('/').count() {
            2 => qualified_name(&key).join(","),
            _ => "the right format is a DNS subdomain prefix and '/' and key name".to_owned(),
        };
        if !wrong.is_empty() {
            return self.notes.lock().leave(&key, &wrong);
        }
        let fits = value.floor_char_boundary(MAX_ANNOTATION_BYTES);
        value.truncate(fits);
        let mut notes = self.notes.lock();
        match notes.annotations.iter().find(|(own, _)| *own == key) {
            Some((_, own)) if *own != value => notes.leave(&key, "it has another value already"),
            Some(_) => {}
            None if notes.annotations.len() < MAX_ANNOTATIONS => notes.annotations.push((key, value)),
            None => notes.leave(&key, "there are too many"),
        }
    }

    fn mark(&self) -> Mark {
        let notes = self.notes.lock();
        Mark { added: notes.added, annotations: notes.annotations.len() }
    }

    /// Forgets what was noted since.
    fn back_to(&self, mark: Mark) {
        let mut notes = self.notes.lock();
        notes.added = mark.added;
        notes.steps.retain(|(number, _)| *number < mark.added);
        notes.annotations.truncate(mark.annotations);
    }

    /// What was noted so far; nothing of it stays.
    pub fn take(&self) -> Noted {
        let notes = std::mem::take(&mut *self.notes.lock());
        let Notes { name, dry_run, added, steps, annotations, not_taken, first_not_taken } = notes;
        if let Some((key, wrong)) = first_not_taken {
            tracing::warn!(
                count = not_taken,
                key,
                wrong,
                "audit annotations are left out, this one and others"
            );
        }
        let left_off = added - steps.len();
        let steps = steps.into_iter().map(|(_, step)| step).collect();
        Noted { name, dry_run, steps, left_off, annotations }
    }
}

impl Notes {
    /// An annotation is not taken.
    fn leave(&mut self, key: &str, wrong: &str) {
        self.not_taken += 1;
        let shown = |text: &str| text[..text.floor_char_boundary(MAX_SHOWN_KEY)].to_owned();
        self.first_not_taken.get_or_insert_with(|| (shown(key), shown(wrong)));
    }

    fn push(&mut self, step: Step) {
        let number = self.added;
        self.added += 1;
        if self.steps.len() == MAX_STEPS {
            let passed_over = self.steps.iter().rposition(|(_, step)| !step.asked);
            let Some(at) = passed_over.filter(|_| step.asked) else { return };
            self.steps.remove(at);
        }
        self.steps.push((number, step));
    }
}

impl RequestContext<'_> {
    /// Where its first attempt begins.
    pub fn mark(&self) -> Mark {
        self.trace.map(Trace::mark).unwrap_or_default()
    }

    /// What an attempt before this one noted is forgotten: nothing came of it.
    pub fn begin_attempt(&self, mark: Mark) {
        if let Some(trace) = self.trace {
            trace.back_to(mark);
        }
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
            let (who, did) = (who.into(), did.into());
            trace.add(self, Step { phase, plugin, who, did, took, asked: true });
        }
    }

    /// Why somebody is not asked.
    pub fn note_passed_over(
        &self,
        phase: Phase,
        plugin: &'static str,
        who: impl Into<String>,
        why: impl Into<String>,
    ) {
        if let Some(trace) = self.trace {
            let (who, did) = (who.into(), why.into());
            trace.add(self, Step { phase, plugin, who, did, took: None, asked: false });
        }
    }

    /// A plugin said no.
    pub(crate) fn note_refusal(&self, phase: Phase, plugin: &'static str, status: &Status) {
        self.note(phase, plugin, "", format!("refused: {}", status.message), None);
    }

    /// An annotation for the audit log. Of two with one key the first stays, as in upstream's events; what upstream would not take is
    /// not taken.
    pub fn annotate(&self, key: String, value: String) {
        if let Some(trace) = self.trace {
            trace.annotate(key, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(number: usize, asked: bool) -> Step {
        let did = number.to_string();
        Step { phase: Phase::Admit, plugin: "P", who: String::new(), did, took: None, asked }
    }

    fn told(noted: &Noted) -> Vec<&str> {
        noted.steps.iter().map(|step| step.did.as_str()).collect()
    }

    #[test]
    fn those_who_were_asked_are_told_before_those_who_were_not() {
        let trace = Trace::default();
        (0..MAX_STEPS).for_each(|number| trace.notes.lock().push(step(number, false)));
        trace.notes.lock().push(step(MAX_STEPS, true));
        trace.notes.lock().push(step(MAX_STEPS + 1, false));
        let noted = trace.take();
        assert_eq!((noted.steps.len(), noted.left_off), (MAX_STEPS, 2));
        assert_eq!(told(&noted)[MAX_STEPS - 2..], ["254", "256"]);
    }

    #[test]
    fn an_abandoned_attempt_leaves_nothing() {
        let trace = Trace::default();
        (0..MAX_STEPS).for_each(|number| trace.notes.lock().push(step(number, number > 0)));
        trace.annotate("example.com/a".to_owned(), "kept".to_owned());
        let mark = trace.mark();
        trace.notes.lock().push(step(MAX_STEPS, true));
        trace.annotate("example.com/b".to_owned(), "gone".to_owned());
        trace.back_to(mark);
        let noted = trace.take();
        assert_eq!((noted.left_off, noted.annotations.len()), (1, 1));
        assert_eq!(told(&noted)[..1], ["1"]);
        assert_eq!(told(&noted)[MAX_STEPS - 2..], ["255"]);
    }

    #[test]
    fn annotations_are_bounded() {
        let trace = Trace::default();
        trace.annotate("example.com/a".to_owned(), "ä".repeat(MAX_ANNOTATION_BYTES));
        assert_eq!(trace.take().annotations[0].1.len(), MAX_ANNOTATION_BYTES);
    }

    #[test]
    fn annotations_that_are_not_taken_are_one_line_of_the_log() {
        let trace = Trace::default();
        trace.annotate("no key, ".repeat(1 << 17), String::new());
        (0..MAX_ANNOTATIONS + 3).for_each(|n| trace.annotate(format!("example.com/{n}"), String::new()));
        trace.annotate("example.com/0".to_owned(), "other".to_owned());
        let notes = trace.notes.lock();
        assert_eq!((notes.annotations.len(), notes.not_taken), (MAX_ANNOTATIONS, 5));
        let (key, wrong) = notes.first_not_taken.as_ref().expect("the first one");
        assert!(key.starts_with("no key, no") && key.len() == MAX_SHOWN_KEY && wrong.len() <= MAX_SHOWN_KEY);
    }
}
