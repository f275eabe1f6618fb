//! Which fields of an object changed: their paths, never their values.

use object::{Index, Value, deep};

/// Paths that are named; more are counted.
const MAX_PATHS: usize = 12;

/// `metadata.labels.a added, spec.x changed`; `None` if both are the same.
pub fn changes(before: &Value, after: &Value) -> Option<String> {
    if before == after {
        return None;
    }
    let mut found = Found::default();
    found.compare(&mut String::new(), before, after);
    if found.paths.is_empty() {
        return None;
    }
    let mut text = found.paths.join(", ");
    if found.more > 0 {
        text.push_str(&format!(" and {} more", found.more));
    }
    Some(text)
}

#[derive(Default)]
struct Found {
    paths: Vec<String>,
    more: usize,
}

impl Found {
    fn add(&mut self, path: &str, what: &str) {
        match self.paths.len() < MAX_PATHS {
            true => self.paths.push(format!("{path} {what}")),
            false => self.more += 1,
        }
    }

    fn compare(&mut self, path: &mut String, before: &Value, after: &Value) {
        let length = path.len();
        if let (Some(old_map), Some(new_map)) = (before.as_map(), after.as_map()) {
            let (was, is) = (Index::of_map(old_map), Index::of_map(new_map));
            for (name, old) in old_map.iter() {
                descend(path, name);
                match is.get(name) {
                    Some(new) => deep(|| self.compare(path, old, new)),
                    None => self.add(path, "removed"),
                }
                path.truncate(length);
            }
            for (name, _) in new_map.iter().filter(|(name, _)| was.get(name).is_none()) {
                descend(path, name);
                self.add(path, "added");
                path.truncate(length);
            }
        } else if let (Some(before), Some(after)) = (before.as_list(), after.as_list()) {
            for at in 0..before.len().max(after.len()) {
                path.push_str(&format!("[{at}]"));
                match (before.get(at), after.get(at)) {
                    (Some(old), Some(new)) => deep(|| self.compare(path, old, new)),
                    (None, _) => self.add(path, "added"),
                    (_, None) => self.add(path, "removed"),
                }
                path.truncate(length);
            }
        } else if before != after {
            self.add(path, "changed");
        }
    }
}

fn descend(path: &mut String, name: &str) {
    if name.contains(['.', '/']) {
        path.push_str(&format!("[{name:?}]"));
        return;
    }
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(text: &str) -> Value {
        codec::json::parse(text.as_bytes(), None).unwrap()
    }

    #[test]
    fn paths_are_named_and_values_are_not() {
        let before = tree(r#"{"metadata":{"labels":{"a":"1"}},"data":{"password":"secret"},"list":[1,2]}"#);
        let after = tree(
            r#"{"metadata":{"labels":{"a":"2","x.io/y":"z"}},"data":{},"list":[1,3,4],"spec":{"b":true}}"#,
        );
        assert_eq!(
            changes(&before, &after).unwrap(),
            "metadata.labels.a changed, metadata.labels[\"x.io/y\"] added, data.password removed, list[1] changed, \
             list[2] added, spec added"
        );
        assert_eq!(changes(&before, &before), None);
    }

    #[test]
    fn beyond_a_dozen_they_are_counted() {
        let many: Vec<String> = (0..20).map(|n| format!("\"k{n}\":1")).collect();
        let after = tree(&format!("{{{}}}", many.join(",")));
        assert!(changes(&Value::map(), &after).unwrap().ends_with("k11 added and 8 more"));
    }
}
