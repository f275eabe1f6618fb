//! What two nodes may differ in, taken out of a text: names, addresses, ids, times.

/// Words of one pod on one node, and what stands for them.
#[derive(Default)]
pub struct Words(Vec<(String, &'static str)>);

impl Words {
    /// Empty ones stand for nothing.
    pub fn add(&mut self, word: &str, stands: &'static str) {
        if !word.is_empty() && !self.0.iter().any(|(known, _)| known == word) {
            self.0.push((word.to_owned(), stands));
            // A name that begins with another comes first.
            self.0.sort_by_key(|(word, _)| std::cmp::Reverse(word.len()));
        }
    }

    pub fn normalise(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (word, stands) in &self.0 {
            text = replace_word(&text, word, stands);
        }
        let mut out = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(first) = rest.chars().next() {
            let taken =
                rest.find(|c: char| !c.is_ascii_alphanumeric() && !"-:.+".contains(c)).unwrap_or(rest.len());
            if taken == 0 {
                out.push(first);
                rest = &rest[first.len_utf8()..];
                continue;
            }
            out.push_str(&word(&rest[..taken]));
            rest = &rest[taken..];
        }
        out
    }
}

/// Where it is not a part of another word.
fn replace_word(text: &str, word: &str, stands: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for (at, _) in text.match_indices(word) {
        let alone = |inner: Option<char>, outer: Option<char>| {
            let is_part = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
            !is_part(inner) || !is_part(outer)
        };
        let end = at + word.len();
        let begins = alone(word.chars().next(), text[..at].chars().next_back());
        if at >= from && begins && alone(word.chars().next_back(), text[end..].chars().next()) {
            out.push_str(&text[from..at]);
            out.push_str(stands);
            from = end;
        }
    }
    out.push_str(&text[from..]);
    out
}

/// One run of letters, digits and `-:.+`.
fn word(text: &str) -> String {
    if is_time(text) {
        return "TIME".to_owned();
    }
    let is_duration = |text: &str| {
        let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = &text[number.len()..];
        let fine = number.contains('.') || unit == "ms";
        fine && ["ms", "s"].contains(&unit) && number.parse::<f64>().is_ok()
    };
    if is_duration(text) {
        return "DURATION".to_owned();
    }
    if is_uid(text) {
        return "UID".to_owned();
    }
    let mut out = String::with_capacity(text.len());
    for (index, part) in text.split_inclusive(['-', ':', '.', '+']).enumerate() {
        let bare = part.trim_end_matches(['-', ':', '.', '+']);
        let is_id = bare.len() >= 12
            && bare.bytes().all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase())
            && bare.bytes().any(|b| b.is_ascii_digit())
            && (index > 0 || bare.len() > 20 || bare.bytes().any(|b| b.is_ascii_alphabetic()));
        if is_id {
            out.push_str("ID");
            out.push_str(&part[bare.len()..]);
        } else {
            out.push_str(part);
        }
    }
    out
}

fn is_uid(text: &str) -> bool {
    let parts: Vec<usize> = text.split('-').map(str::len).collect();
    parts == [8, 4, 4, 4, 12] && text.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit())
}

/// As the API writes them, or Go's logs.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 19
        && bytes[4] == b'-'
        && bytes[7] == b'-'
        && bytes[10] == b'T'
        && bytes[..4].iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_ids_times_and_durations_are_taken_out() {
        let mut words = Words::default();
        words.add("dfabca", "NS");
        words.add("10.1.2.3", "POD_IP");
        words.add("10.1.2.30", "HOST_IP");
        words.add("", "NOTHING");
        for (text, wanted) in [
            (
                "back-off 10s restarting failed container=c pod=p_dfabca(1)",
                "back-off 10s restarting failed container=c pod=p_NS(1)",
            ),
            ("Get \"http://10.1.2.3:80/\": no", "Get \"http://POD_IP:80/\": no"),
            ("10.1.2.30", "HOST_IP"),
            ("none of dfabcab", "none of dfabcab"),
            ("containerd://0123456789abcdef0123", "containerd://ID"),
            ("at 2026-11-18T04:05:06Z.", "at TIME"),
            ("pulled in 1.5s (23ms including waiting)", "pulled in DURATION (DURATION including waiting)"),
            ("feedface and 100000000000", "feedface and 100000000000"),
            ("of e22da84d-4e97-49f5-a5a1-0123456789ab", "of UID"),
            ("größer", "größer"),
        ] {
            assert_eq!(words.normalise(text), wanted, "{text}");
        }
    }
}
