//! YAML as Kubernetes reads and writes it: YAML 1.1 scalars, one document, JSON's data model.
//!
//! ```text
//! bytes ── saphyr-parser (events) ──> nodes ── decode (resolve, merge keys, aliases) ──> Value
//! Value ── write (block style, sorted names, quoted where needed, folded at 80) ──> bytes
//! ```
//!
//! As upstream: only the first document is read; names that are not strings become strings;
//! `yes`, `on` and `y` are true, `0644` is 420, `1.0` is the integer 1, `12:30` and timestamps are strings.

mod brackets;
mod decode;
mod flow;
mod nodes;
mod order;
mod scalar;
mod write;

#[cfg(test)]
mod tests;

use object::Value;

use crate::json;

pub use write::write;

/// As deep as JSON. Upstream's YAML reader counts flow and block nesting separately, and each may be
/// as deep; its JSON reader then counts all.
pub const MAX_DEPTH: usize = object::MAX_DEPTH;

/// The first document of a body.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Names are unique; of duplicates the last value wins.
    pub value: Value,
    /// Strict field validation of duplicate names, worded as upstream: one message for all of them.
    pub duplicates: Option<String>,
}

/// Why a body is not YAML, or cannot be converted to JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum YamlError {
    #[error("yaml: invalid leading UTF-8 octet")]
    NotUtf8,
    #[error("yaml: control characters are not allowed")]
    ControlCharacter,
    #[error("yaml: found character that cannot start any token")]
    LeadingTab,
    #[error("yaml: line {line}: {problem}")]
    Syntax { line: usize, problem: String },
    /// The first line is not named.
    #[error("yaml: {}exceeded max depth of {MAX_DEPTH}", line.map(|line| format!("line {line}: ")).unwrap_or_default())]
    TooDeep { line: Option<usize> },
    #[error(
        "yaml: line {line}: brackets nest more than 255 deep around anchors or aliases, or too often; write the document as JSON, or indent what they hold"
    )]
    TooManyBrackets { line: usize },
    /// Valid YAML, but the resulting JSON is not accepted.
    #[error("json parse error: invalid character '{bracket}' exceeded max depth")]
    TooDeepForJson { bracket: char },
    #[error("yaml: document contains excessive aliasing")]
    ExcessiveAliasing,
    #[error("yaml: line {line}: anchor value contains itself")]
    SelfReference { line: usize },
    #[error("yaml: map merge requires map or sequence of maps as the value")]
    BadMerge,
    #[error("yaml: line {line}: invalid map key: a map or a sequence cannot be one")]
    CompositeKey { line: usize },
    #[error("unsupported map key of type: {go_type}, at line {line}")]
    UnsupportedKey { line: usize, go_type: &'static str },
    #[error("yaml: cannot decode {found} `{text}` as a {tag}")]
    BadTag { found: &'static str, text: String, tag: String },
    #[error("yaml: line {line}: !!binary is not supported; write the base64 text as a plain string")]
    Binary { line: usize },
    #[error("json: unsupported value: {0}")]
    NotANumber(&'static str),
}

impl YamlError {
    /// The same in a text that begins so many lines further down than was known.
    fn further_down(self, lines: usize) -> YamlError {
        match self {
            YamlError::Syntax { line, problem } => YamlError::Syntax { line: line + lines, problem },
            YamlError::TooManyBrackets { line } => YamlError::TooManyBrackets { line: line + lines },
            YamlError::TooDeep { line } => {
                let line = line.unwrap_or(1) + lines;
                YamlError::TooDeep { line: (line > 1).then_some(line) }
            }
            other => other,
        }
    }
}

/// Parses the first document; null if there is none.
pub fn parse_document(bytes: &[u8]) -> Result<Document, YamlError> {
    let text = std::str::from_utf8(bytes).map_err(|_| YamlError::NotUtf8)?;
    if text.chars().any(|c| !scalar::is_allowed(c)) {
        return Err(YamlError::ControlCharacter);
    }
    // The parser takes it for a space; upstream's does not where a document begins.
    if text.starts_with('\t') {
        return Err(YamlError::LeadingTab);
    }
    if flow::is_plain_json(text)
        && let Some(document) = as_json(bytes)
    {
        return Ok(document);
    }
    match nodes::Nodes::read(text) {
        Ok(nodes) => decode::decode(&nodes),
        // Documents that nest deeper than the parser supports, and cannot be split, were nearly always written as JSON.
        Err(error @ YamlError::TooManyBrackets { .. }) => as_json(bytes).ok_or(error),
        Err(error) => Err(error),
    }
}

/// [`parse_document`] for callers without strict field validation.
pub fn parse(bytes: &[u8]) -> Result<Value, YamlError> {
    Ok(parse_document(bytes)?.value)
}

/// What was written as JSON, which is YAML as well; duplicate names mean something else there, so these are not accepted.
fn as_json(bytes: &[u8]) -> Option<Document> {
    let value = json::parse(bytes, None).ok()?;
    object::patch::duplicate_fields(&value).is_empty().then_some(Document { value, duplicates: None })
}
