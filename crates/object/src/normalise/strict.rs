//! Unknown and duplicate fields, collected for `fieldValidation=Warn` and `Strict`.

use std::collections::HashSet;

use super::error::FieldPath;
use crate::{Map, quote};

/// As upstream: more would only fill the response.
const MAX_MESSAGES: usize = 100;

/// Collects unknown and duplicate fields, in document order, each path once.
#[derive(Debug, Default)]
pub struct Strict {
    /// `None`: not requested.
    messages: Option<Vec<String>>,
}

impl Strict {
    /// Collects nothing and costs nothing (`fieldValidation=Ignore`, and everything read from the store).
    pub fn off() -> Strict {
        Strict { messages: None }
    }
    pub fn on() -> Strict {
        Strict { messages: Some(Vec::new()) }
    }
    pub fn is_on(&self) -> bool {
        self.messages.is_some()
    }
    /// `unknown field "metadata.nope"`, `duplicate field "data.a"`.
    pub fn messages(&self) -> &[String] {
        self.messages.as_deref().unwrap_or_default()
    }
    pub fn into_messages(self) -> Vec<String> {
        self.messages.unwrap_or_default()
    }
    /// Adds a message of another decoder (YAML finds duplicates before there is a tree).
    pub fn push(&mut self, message: String) {
        if let Some(messages) = &mut self.messages
            && messages.len() < MAX_MESSAGES
            && !messages.contains(&message)
        {
            messages.push(message);
        }
    }

    pub(super) fn unknown(&mut self, here: &FieldPath<'_>, name: &str) {
        if self.is_on() {
            self.push(format!("unknown field {}", quote(&here.path_to(name))));
        }
    }
    pub(super) fn duplicate(&mut self, here: &FieldPath<'_>, name: &str) {
        if self.is_on() {
            self.push(format!("duplicate field {}", quote(&here.path_to(name))));
        }
    }
}

/// Positions of entries whose name came before.
pub(super) fn repeated(map: &Map) -> Vec<usize> {
    let mut seen = HashSet::with_capacity(map.len());
    map.iter().enumerate().filter(|(_, (name, _))| !seen.insert(name.as_str())).map(|(i, _)| i).collect()
}
