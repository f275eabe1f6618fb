//! Warnings as header values, within what clients and proxies take.
//!
//! Whole texts while they have at most 4096 characters together. Beyond that every text is cut to 256, and those that come
//! after another 4096 are left out.

use std::collections::BTreeSet;

use http::HeaderValue;

const ALL_CHARS: usize = 4 * 1024;
const CUT_CHARS: usize = 256;

/// `299 - "text"` for each text, in order, none twice. A text that no header can carry is left out.
pub fn fitting(texts: &[String]) -> Vec<HeaderValue> {
    let mut seen = BTreeSet::new();
    let said = texts.iter().map(String::as_str).filter(|text| !text.is_empty());
    let distinct: Vec<&str> = said.filter(|text| seen.insert(*text)).collect();
    let total: usize = distinct.iter().filter(|t| is_sendable(t)).map(|t| t.chars().count()).sum();
    if total <= ALL_CHARS {
        return distinct.into_iter().filter_map(header).collect();
    }
    let mut written = 0;
    let mut values = Vec::new();
    for text in distinct {
        if written >= ALL_CHARS {
            break;
        }
        let cut: String = text.chars().take(CUT_CHARS).collect();
        if let Some(value) = header(&cut) {
            written += cut.chars().count();
            values.push(value);
        }
    }
    values
}

fn is_sendable(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

fn header(text: &str) -> Option<HeaderValue> {
    if !is_sendable(text) {
        return None;
    }
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    HeaderValue::from_bytes(format!("299 - \"{escaped}\"").as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::fitting;

    fn sent(texts: &[String]) -> Vec<String> {
        let values = fitting(texts);
        values.iter().map(|v| String::from_utf8(v.as_bytes().to_vec()).unwrap()).collect()
    }

    #[test]
    fn each_text_is_sent_once_and_quoted() {
        let texts = ["a \"b\" \\c", "übel", "", "line\nbreak", "übel"].map(str::to_owned);
        assert_eq!(sent(&texts), [r#"299 - "a \"b\" \\c""#, "299 - \"übel\""]);
    }

    #[test]
    fn texts_are_cut_when_all_together_are_too_long() {
        let long = |n: usize| format!("{n:04}{}", "x".repeat(996));
        let four: Vec<String> = (0..4).map(long).collect();
        assert!(sent(&four).iter().all(|t| t.len() == 1000 + 8), "4000 characters are sent whole");
        let twenty: Vec<String> = (0..20).map(long).collect();
        let cut = sent(&twenty);
        assert!(cut.iter().all(|t| t.len() == 256 + 8), "{cut:?}");
        assert_eq!(cut.len(), 16, "16 * 256 characters are as many as are sent");
        assert!(cut[15].starts_with("299 - \"0015"));
    }
}
