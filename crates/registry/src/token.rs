//! The continue token of a paged list: upstream's own form, so that tokens survive a change of server.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use codec::json;
use object::{Map, Status, Value};

/// Where a list goes on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// The revision of the first page; `None` for an inconsistent continuation.
    pub revision: Option<u64>,
    /// The last key already handed out, relative to the list's root.
    pub after: String,
    /// How many follow it, if that is known. Ours alone: upstream counts them for each page, and ignores unknown members.
    pub left: Option<usize>,
}

impl Token {
    pub fn encode(&self) -> String {
        let mut map = Map::default();
        map.set("v", "meta.k8s.io/v1");
        map.set("rv", self.revision.map_or(-1, |r| r as i64));
        // "Right after this key" is the key with a zero byte behind it.
        map.set("start", format!("{}\0", self.after));
        if let Some(left) = self.left {
            map.set("left", left as i64);
        }
        URL_SAFE_NO_PAD.encode(json::to_vec(&Value::Map(map)))
    }

    pub fn decode(text: &str) -> Result<Token, Status> {
        let invalid = |why: String| {
            Status::bad_request(format!("invalid continue token: continue key is not valid{why}"))
        };
        let bytes = decode_base64(text).map_err(|why| invalid(format!(": {why}")))?;
        let value = json::parse(&bytes, None).map_err(|e| invalid(format!(": {e}")))?;
        match value.str_at(&["v"]).unwrap_or("") {
            "meta.k8s.io/v1" => {}
            other => {
                return Err(invalid(format!(": server does not recognize this encoded version {other}")));
            }
        }
        let revision = value.get("rv").and_then(Value::as_int).unwrap_or(0);
        if revision == 0 {
            return Err(invalid(": incorrect encoded start resourceVersion (version meta.k8s.io/v1)".into()));
        }
        let start = value.str_at(&["start"]).unwrap_or("");
        if start.is_empty() {
            return Err(invalid(": encoded start key empty (version meta.k8s.io/v1)".into()));
        }
        // A key that climbs (`..`) or doubles slashes would leave the list's root.
        let plain = start.strip_prefix('/').unwrap_or(start);
        if plain.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
            return Err(invalid(format!(": {start}")));
        }
        let after = plain.strip_suffix('\0').unwrap_or(plain).to_owned();
        let revision = (revision > 0).then_some(revision as u64);
        let left = value.get("left").and_then(Value::as_int).and_then(|left| usize::try_from(left).ok());
        Ok(Token { revision, after, left })
    }
}

/// Go's base64 errors name the first bad byte.
fn decode_base64(text: &str) -> Result<Vec<u8>, String> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| {
        let bad = text.bytes().position(|b| !b.is_ascii_alphanumeric() && b != b'-' && b != b'_');
        format!("illegal base64 data at input byte {}", bad.unwrap_or(text.len().saturating_sub(1)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_the_round_trip() {
        for (revision, left) in [(Some(7), Some(12)), (None, None)] {
            let token = Token { revision, after: "default/web".into(), left };
            assert_eq!(Token::decode(&token.encode()).unwrap(), token);
        }
    }

    #[test]
    fn forged_tokens_are_refused() {
        let forge = |text: &str| URL_SAFE_NO_PAD.encode(text);
        for bad in [
            "nope".to_owned(),
            "%%%".to_owned(),
            forge("{}"),
            forge(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a"}"#),
            forge(r#"{"v":"meta.k8s.io/v1","rv":1,"start":""}"#),
            forge(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"../secrets/x"}"#),
            forge(r#"{"v":"v2","rv":1,"start":"a"}"#),
        ] {
            let status = Token::decode(&bad).unwrap_err();
            assert_eq!(status.code, 400, "{bad}");
            assert!(
                status.message.starts_with("invalid continue token: continue key is not valid"),
                "{}",
                status.message
            );
        }
    }
}
