//! What was seen of a pod, as text by place.

use std::collections::{BTreeMap, BTreeSet};

use object::Value;

use super::text::Words;
use crate::case::text_of;

/// Lists of container statuses, and what their places begin with.
pub const STATUSES: &[(&str, &str)] = &[
    ("initContainerStatuses", "init container"),
    ("containerStatuses", "container"),
    ("ephemeralContainerStatuses", "ephemeral container"),
];

const REST: &str = "at rest";
const END: &str = "at the end";

#[derive(Default, Debug, PartialEq, Eq)]
pub struct Observation(BTreeMap<String, String>);

impl FromIterator<(String, String)> for Observation {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(places: T) -> Self {
        Observation(places.into_iter().collect())
    }
}

/// Everything the API said of one pod.
pub struct Told {
    /// Each version of the pod, from its creation.
    pub versions: Vec<Value>,
    /// When it had come to rest, before it was deleted.
    pub at_rest: Option<Value>,
    pub events: Vec<Value>,
    /// By container.
    pub logs: Vec<(String, String)>,
    /// What was waited for in vain, what was refused.
    pub troubles: Vec<String>,
}

impl Observation {
    pub fn of(told: &Told, words: &Words) -> Observation {
        let mut places = BTreeMap::new();
        for (place, track) in tracks(&told.versions, words) {
            places.insert(place, track.join(" > "));
        }
        for (head, pod) in [(REST, told.at_rest.as_ref()), (END, told.versions.last())] {
            if let Some(status) = pod.and_then(|pod| pod.get("status")) {
                flatten(head, status, words, &mut places);
            }
        }
        // What stayed is not told twice.
        let ends: Vec<String> = places.keys().filter(|place| place.starts_with(END)).cloned().collect();
        for place in ends {
            let before = format!("{REST}{}", &place[END.len()..]);
            if places.get(&before) == places.get(&place) {
                places.remove(&place);
            }
        }
        for event in &told.events {
            let text = |path: &[&str]| event.str_at(path).unwrap_or_default().to_owned();
            let place = format!(
                "event {} {} {} {}",
                text(&["type"]),
                text(&["reason"]),
                text(&["involvedObject", "fieldPath"]),
                words.normalise(&text(&["message"])),
            );
            let count = event.get("count").and_then(Value::as_int).unwrap_or(1);
            let before = places.get(&place).and_then(|count| count.parse::<i64>().ok()).unwrap_or(0);
            places.insert(place, (before + count).to_string());
        }
        for (container, log) in &told.logs {
            for (number, line) in log.lines().enumerate() {
                places.insert(format!("log {container} {number:03}"), words.normalise(line));
            }
        }
        for trouble in &told.troubles {
            places.insert(format!("trouble {}", words.normalise(trouble)), "yes".to_owned());
        }
        Observation(places)
    }

    pub fn places(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(place, text)| (place.as_str(), text.as_str()))
    }

    /// Whether what two nodes have at a place says the same of them. Of a sequence one may have missed what passed quickly, and
    /// events are told as often as something is tried.
    pub fn agree(place: &str, ours: &str, theirs: &str) -> bool {
        if ours == theirs {
            return true;
        }
        let is_sequence = ["phase", "condition ", "container ", "init container ", "ephemeral container "];
        if ours == "-" || theirs == "-" {
            return false;
        }
        if is_sequence.iter().any(|head| place.starts_with(head)) {
            let (ours, theirs): (Vec<_>, Vec<_>) =
                (ours.split(" > ").collect(), theirs.split(" > ").collect());
            return is_part(&ours, &theirs) || is_part(&theirs, &ours);
        }
        place.starts_with("event ")
    }

    /// Each place of either, with what both have there.
    pub fn beside<'a>(&'a self, other: &'a Observation) -> impl Iterator<Item = (String, &'a str, &'a str)> {
        let places: BTreeSet<&String> = self.0.keys().chain(other.0.keys()).collect();
        let text = |of: &'a Observation, place: &String| of.0.get(place).map_or("-", String::as_str);
        places.into_iter().map(move |place| (place.clone(), text(self, place), text(other, place)))
    }
}

/// All of one are in the other, in this order, and both end alike.
fn is_part(of: &[&str], all: &[&str]) -> bool {
    let mut rest = all.iter();
    of.iter().all(|step| rest.any(|other| other == step)) && of.last() == all.last()
}

/// Sequences: what changes is told once.
fn tracks(versions: &[Value], words: &Words) -> BTreeMap<String, Vec<String>> {
    let mut tracks: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pod in versions {
        let mut note = |place: String, now: String| {
            let track = tracks.entry(place).or_default();
            if track.last() != Some(&now) {
                track.push(now);
            }
        };
        let Some(status) = pod.get("status") else { continue };
        note("phase".to_owned(), status.str_at(&["phase"]).unwrap_or_default().to_owned());
        for condition in status.get("conditions").and_then(Value::as_list).unwrap_or_default() {
            let text = |field| condition.str_at(&[field]).unwrap_or_default();
            let now = [text("status"), text("reason"), &words.normalise(text("message"))].join(" ");
            note(format!("condition {}", text("type")), now.trim_end().to_owned());
        }
        for (list, kind) in STATUSES {
            for container in status.get(list).and_then(Value::as_list).unwrap_or_default() {
                let name = container.str_at(&["name"]).unwrap_or_default();
                note(format!("{kind} {name}"), state(container));
            }
        }
    }
    tracks
}

fn state(container: &Value) -> String {
    let is = |field: &str| container.get(field).and_then(Value::as_bool) == Some(true);
    let at = |path: &[&str]| container.str_at(path).unwrap_or_default().to_owned();
    let state = container.get("state").and_then(Value::as_map);
    let now = state.and_then(|state| state.iter().next()).map_or("nothing", |(name, _)| name.as_str());
    let mut text = match now {
        "waiting" => format!("waiting {}", at(&["state", "waiting", "reason"])),
        "terminated" => {
            let code = container.at(&["state", "terminated", "exitCode"]).and_then(Value::as_int);
            format!("{} {}", at(&["state", "terminated", "reason"]), code.unwrap_or(0))
        }
        other => other.to_owned(),
    };
    for (field, word) in [("started", " started"), ("ready", " ready")] {
        if is(field) {
            text += word;
        }
    }
    match container.get("restartCount").and_then(Value::as_int) {
        Some(count) if count > 0 => format!("{text} #{count}"),
        _ => text,
    }
}

/// A line for each leaf; items of lists by what tells them apart.
fn flatten(place: &str, value: &Value, words: &Words, places: &mut BTreeMap<String, String>) {
    match value {
        Value::Map(map) if !map.is_empty() => {
            for (name, value) in map.iter() {
                flatten(&format!("{place}.{name}"), value, words, places);
            }
        }
        Value::List(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                let key = ["name", "type", "mountPath"].iter().find_map(|key| item.str_at(&[key]));
                let key = key.map_or_else(|| index.to_string(), str::to_owned);
                flatten(&format!("{place}[{}]", words.normalise(&key)), item, words, places);
            }
        }
        Value::Str(text) => {
            places.insert(place.to_owned(), words.normalise(text).replace('\n', "\\n"));
        }
        other => {
            places.insert(place.to_owned(), text_of(other));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::parse;

    #[test]
    fn versions_become_sequences_and_the_last_one_is_kept() {
        let version = |phase: &str, state: &str| {
            let text = format!(
                r#"{{"status":{{"phase":"{phase}","containerStatuses":[{{"name":"c","restartCount":1,"state":{state}}}]}}}}"#
            );
            parse(&text).unwrap()
        };
        let told = Told {
            versions: vec![
                version("Pending", r#"{"waiting":{"reason":"ContainerCreating"}}"#),
                version("Pending", r#"{"running":{}}"#),
                version("Failed", r#"{"terminated":{"reason":"Error","exitCode":3}}"#),
            ],
            at_rest: None,
            events: vec![parse(r#"{"type":"Normal","reason":"Killing","message":"m","count":2}"#).unwrap()],
            logs: vec![("c".to_owned(), "a\nb\n".to_owned())],
            troubles: Vec::new(),
        };
        let seen = Observation::of(&told, &Words::default());
        let at = |place: &str| seen.0.get(place).map(String::as_str);
        assert_eq!(at("phase"), Some("Pending > Failed"));
        assert_eq!(at("container c"), Some("waiting ContainerCreating #1 > running #1 > Error 3 #1"));
        assert_eq!(at("at the end.containerStatuses[c].state.terminated.exitCode"), Some("3"));
        assert_eq!(at("event Normal Killing  m"), Some("2"));
        assert_eq!(at("log c 001"), Some("b"));
        let agree = |ours, theirs| Observation::agree("phase", ours, theirs);
        assert!(agree("Pending > Running > Failed", "Pending > Failed") && agree("A > C", "A > B > C"));
        assert!(!agree("A > B", "A > B > C") && !agree("A > B > D", "A > C > D") && !agree("A", "-"));
        let nothing = Observation::default();
        assert!(seen.beside(&nothing).all(|(_, _, other)| other == "-"));
    }
}
