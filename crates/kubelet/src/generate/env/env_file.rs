//! Files of variables, a strict part of what a shell reads: `NAME='value'`, where a value may go over lines.

/// As long a line as upstream's reader takes.
const MAX_LINE: usize = 64 << 10;

/// The value of a name; empty if it is not there.
pub(super) fn value(content: &str, key: &str) -> Result<String, String> {
    let invalid =
        |line: usize, why: &str| Err(format!("invalid environment variable format at line {line}: {why}"));
    let mut lines = content.lines().enumerate().map(|(index, line)| (index + 1, line));
    while let Some((number, line)) = lines.next() {
        let line = fitting(line)?.trim_start_matches([' ', '\t']);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((name, rest)) = line.split_once('=') else { return invalid(number, "missing '='") };
        if name.trim_end_matches([' ', '\t']).is_empty() {
            return invalid(number, "empty variable name");
        }
        if name.ends_with([' ', '\t']) {
            return invalid(number, "whitespace before '=' is not allowed");
        }
        if rest.starts_with([' ', '\t']) {
            // As in a shell: the variable is empty, and what follows is something else.
            if name == key {
                return Ok(String::new());
            }
            continue;
        }
        let Some(mut rest) = rest.strip_prefix('\'') else {
            return invalid(number, "value must be enclosed in single quotes");
        };
        let mut value = String::new();
        let mut at = number;
        let after = loop {
            if let Some((end, after)) = rest.split_once('\'') {
                value.push_str(end);
                break after;
            }
            value.push_str(rest);
            value.push('\n');
            let Some((next_number, next)) = lines.next() else {
                let why = "unclosed single quote";
                return Err(format!("invalid environment variable format starting at line {number}: {why}"));
            };
            (at, rest) = (next_number, fitting(next)?);
        };
        let after = after.trim_start_matches([' ', '\t']);
        if !after.is_empty() && !after.starts_with('#') {
            return invalid(at, "unexpected content after closing quote");
        }
        if name == key {
            return Ok(value);
        }
    }
    Ok(String::new())
}

fn fitting(line: &str) -> Result<&str, String> {
    if line.len() < MAX_LINE { Ok(line) } else { Err("token too long".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn values_are_what_a_shell_would_take() {
        for (content, key, expected) in [
            ("KEY='value'", "KEY", "value"),
            ("  KEY='value' # why", "KEY", "value"),
            ("\n# KEY='no'\n\t\nKEY='yes'\n", "KEY", "yes"),
            ("A='1'\nB='2'", "B", "2"),
            ("A='1'\nA='2'", "A", "1"),
            ("KEY='line1\nline2'", "KEY", "line1\nline2"),
            ("KEY='line1\r\nline2'\r\n", "KEY", "line1\nline2"),
            ("A='x\n# no comment'\nB='y'", "B", "y"),
            ("KEY=''", "KEY", ""),
            ("KEY= 'value'", "KEY", ""),
            ("A= 'x'\nKEY='y'", "KEY", "y"),
            ("KEY='a=b \"c\" $D \\n'", "KEY", "a=b \"c\" $D \\n"),
            ("A='1'", "MISSING", ""),
            ("", "KEY", ""),
        ] {
            assert_eq!(value(content, key).as_deref(), Ok(expected), "{content}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_its_line() {
        for (content, expected) in [
            ("A='1'\nnonsense", "invalid environment variable format at line 2: missing '='"),
            ("='x'", "invalid environment variable format at line 1: empty variable name"),
            (
                "KEY ='x'",
                "invalid environment variable format at line 1: whitespace before '=' is not allowed",
            ),
            (
                "KEY=x",
                "invalid environment variable format at line 1: value must be enclosed in single quotes",
            ),
            (
                "KEY=\"x\"",
                "invalid environment variable format at line 1: value must be enclosed in single quotes",
            ),
            (
                "KEY='x' y",
                "invalid environment variable format at line 1: unexpected content after closing quote",
            ),
            (
                "KEY='x\ny'z",
                "invalid environment variable format at line 2: unexpected content after closing quote",
            ),
            ("\nKEY='x\ny", "invalid environment variable format starting at line 2: unclosed single quote"),
        ] {
            assert_eq!(value(content, "KEY"), Err(expected.to_owned()), "{content}");
        }
        assert_eq!(value(&format!("KEY='{}'", "x".repeat(70_000)), "KEY"), Err("token too long".to_owned()));
    }
}
