//! Conversions by a webhook amid work that does not wait.
//!
//! ```text
//! work ── convert: known? ── yes: go on
//!            └ no: note what is wanted, give up ── ask the webhook ── work again from the start
//! ```
//! Managers of other versions than the request's are rare: nearly all work is done at once, and asks nothing.

use catalog::Storage;
use object::{Status, Value};
use parking_lot::Mutex;

use crate::{Registry, RequestContext};

/// Far more than a write needs: some for each version of the resource that has managers.
const MAX_CONVERSIONS: usize = 256;

/// What the webhook made of objects during one write.
#[derive(Default)]
pub(crate) struct Conversions {
    /// Guards no more than a look: nobody waits with it.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    known: Vec<(Question, Result<Value, String>)>,
    wanted: Option<Question>,
}

#[derive(PartialEq)]
struct Question {
    object: Value,
    api_version: String,
}

/// The work has to be done again, once the webhook was asked.
#[derive(Debug)]
pub(crate) struct Unanswered;

impl From<Unanswered> for Status {
    /// Nobody sees it: whoever asks the webhook does the work again.
    fn from(_: Unanswered) -> Status {
        Status::internal("the conversion webhook was not asked yet")
    }
}

impl Conversions {
    /// The object in another version, or why it has none; without an answer yet, any error.
    pub(crate) fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        let mut state = self.state.lock();
        let is_it = |question: &Question| question.api_version == api_version && question.object == *object;
        if let Some((_, answer)) = state.known.iter().find(|(question, _)| is_it(question)) {
            return answer.clone();
        }
        if state.known.len() >= MAX_CONVERSIONS {
            return Err(format!("more than {MAX_CONVERSIONS} conversions in one request"));
        }
        let question = Question { object: object.clone(), api_version: api_version.to_owned() };
        state.wanted = Some(question);
        Err("the conversion webhook was not asked yet".to_owned())
    }

    /// The object changed meanwhile, and has other questions.
    pub(crate) fn forget(&self) {
        *self.state.lock() = State::default();
    }

    /// Whether work gave up for want of an answer: whatever came of it does not count.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.state.lock().wanted.is_some()
    }
}

impl Registry {
    /// Asks what work gave up for; false if it did not.
    pub(crate) async fn answer(
        &self,
        request: &RequestContext<'_>,
        storage: &Storage,
        conversions: &Conversions,
    ) -> Result<bool, Status> {
        let Some(question) = conversions.state.lock().wanted.take() else { return Ok(false) };
        self.check_deadline(request)?;
        let converted =
            self.call_webhook(storage, vec![question.object.clone()], &question.api_version).await;
        let answer = match converted {
            Ok(objects) => Ok(objects.into_iter().next().unwrap_or(Value::Null)),
            Err(status) => Err(status.message),
        };
        conversions.state.lock().known.push((question, answer));
        Ok(true)
    }
}
