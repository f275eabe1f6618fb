//! Values that another program wrote, in its own order and with its own spaces: brought into ours, or refused.
//!
//! ```text
//! etcdctl put ... '{ "apiVersion": "v1", "data": {..}, "kind": "ConfigMap", "metadata": {..} }'
//! is kept as      {"kind":"ConfigMap","apiVersion":"v1","metadata":{..},"data":{..}}
//! ```
//! List items are cut behind kind and apiVersion, so their place matters.

use std::borrow::Cow;

use catalog::Storage;
use object::scan::{Names, Span, members};

/// The value in our order; `None` if it is no object of this kind and version. Our own is found to be so at once.
pub(crate) fn in_our_order<'a>(storage: &Storage, value: &'a [u8]) -> Option<Cow<'a, [u8]>> {
    if is_ours(storage, value) {
        return Some(Cow::Borrowed(value));
    }
    let (mut kind, mut version, mut metadata) = (None, None, None);
    let mut rest: Vec<(Span, Span)> = Vec::new();
    let mut seen = Names::default();
    for (name, text) in members(value)? {
        // Twice the same name: nobody knows which is meant.
        if !seen.insert(name.of(value)) {
            return None;
        }
        match name.of(value) {
            b"kind" => kind = Some(text),
            b"apiVersion" => version = Some(text),
            b"metadata" => metadata = Some(text),
            _ => rest.push((name, text)),
        }
    }
    let quoted = |text: Option<Span>| {
        let text = text?.of(value);
        text.strip_prefix(b"\"")?.strip_suffix(b"\"")
    };
    if quoted(kind)? != storage.kind.as_bytes() || !is_version(storage, quoted(version)?) {
        return None;
    }
    let mut out = Vec::with_capacity(value.len());
    out.extend_from_slice(b"{\"kind\":");
    out.extend_from_slice(kind?.of(value));
    out.extend_from_slice(b",\"apiVersion\":");
    out.extend_from_slice(version?.of(value));
    out.extend_from_slice(b",\"metadata\":");
    without_spaces(metadata?.of(value), &mut out);
    for (name, text) in rest {
        out.extend_from_slice(b",\"");
        out.extend_from_slice(name.of(value));
        out.extend_from_slice(b"\":");
        without_spaces(text.of(value), &mut out);
    }
    out.push(b'}');
    Some(Cow::Owned(out))
}

/// Does it begin as everything does that we write?
fn is_ours(storage: &Storage, value: &[u8]) -> bool {
    let after_type = || {
        let kind = value.strip_prefix(b"{\"kind\":\"")?.strip_prefix(storage.kind.as_bytes())?;
        let version = kind.strip_prefix(b"\",\"apiVersion\":\"")?;
        let group = match storage.group.as_bytes() {
            b"" => version,
            group => version.strip_prefix(group)?.strip_prefix(b"/")?,
        };
        group.strip_prefix(storage.version.as_bytes())?.strip_prefix(b"\",\"metadata\":{")
    };
    after_type().is_some()
}

fn is_version(storage: &Storage, said: &[u8]) -> bool {
    let version = match storage.group.as_bytes() {
        b"" => Some(said),
        group => said.strip_prefix(group).and_then(|rest| rest.strip_prefix(b"/")),
    };
    version.is_some_and(|version| {
        let mut versions = std::iter::once(&storage.version).chain(&storage.earlier_versions);
        versions.any(|known| version == known.as_bytes())
    })
}

/// Of well-formed JSON.
fn without_spaces(json: &[u8], out: &mut Vec<u8>) {
    let (mut in_string, mut escaped) = (false, false);
    for byte in json {
        match byte {
            b' ' | b'\n' | b'\t' | b'\r' if !in_string => continue,
            b'"' if !escaped => in_string = !in_string,
            _ => {}
        }
        escaped = in_string && *byte == b'\\' && !escaped;
        out.push(*byte);
    }
}
