//! A small JSON writer; the caller writes keys in order.

use object::Value;

pub(crate) struct Json {
    out: Vec<u8>,
}

impl Json {
    pub(crate) fn new() -> Json {
        Json { out: Vec::with_capacity(64 * 1024) }
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.out
    }

    pub(crate) fn object(&mut self, body: impl FnOnce(&mut Json)) {
        self.separate();
        self.out.push(b'{');
        body(self);
        self.out.push(b'}');
    }

    pub(crate) fn array(&mut self, body: impl FnOnce(&mut Json)) {
        self.separate();
        self.out.push(b'[');
        body(self);
        self.out.push(b']');
    }

    /// Begins a member; its value must follow.
    pub(crate) fn key(&mut self, name: &str) -> &mut Json {
        self.string(name);
        self.out.push(b':');
        self
    }

    pub(crate) fn string(&mut self, text: &str) {
        self.separate();
        quote(&mut self.out, text);
    }

    pub(crate) fn bool(&mut self, value: bool) {
        self.raw(if value { "true" } else { "false" });
    }

    pub(crate) fn strings<'a>(&mut self, all: impl IntoIterator<Item = &'a str>) {
        self.array(|w| all.into_iter().for_each(|s| w.string(s)));
    }

    pub(crate) fn value(&mut self, value: &Value) {
        self.separate();
        codec::json::write(value, &mut self.out);
    }

    /// Writes text that is JSON already.
    pub(crate) fn raw(&mut self, json: &str) {
        self.separate();
        self.out.extend_from_slice(json.as_bytes());
    }

    /// A comma, unless the value is the first of its object or array, or belongs to a key.
    fn separate(&mut self) {
        // A string ends in a quote, so an opening bracket or colon as the last byte is always structure.
        if !matches!(self.out.last(), None | Some(b'{' | b'[' | b':')) {
            self.out.push(b',');
        }
    }
}

/// Writes `text` as a JSON string.
pub(crate) fn quote(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for c in text.chars() {
        match c {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            c if c < ' ' => out.extend_from_slice(format!("\\u{:04x}", c as u32).as_bytes()),
            c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
}

/// A group, version and kind as in `x-kubernetes-group-version-kind`.
pub(crate) fn group_version_kind(group: &str, version: &str, kind: &str) -> String {
    format!("{{\"group\":{},\"kind\":{},\"version\":{}}}", quoted(group), quoted(kind), quoted(version))
}

/// `text` as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    quote(&mut out, text);
    String::from_utf8(out).expect("quoting valid UTF-8 leaves valid UTF-8")
}
