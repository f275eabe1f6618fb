//! What a scenario waits for, in a few words.

use object::Value;

/// `phase Running`, `waiting c CrashLoopBackOff`, `running c`, `terminated c`, `ready c`, `restarts c 2`, `condition Ready True`,
/// `condition PodResizePending reason`, `event Unhealthy`, `observed` (the pod's generation), `gone`.
#[derive(Debug, PartialEq, Eq)]
pub struct Until(Vec<String>);

const KNOWN: &[(&str, usize)] = &[
    ("phase", 2),
    ("waiting", 3),
    ("running", 2),
    ("terminated", 2),
    ("ready", 2),
    ("restarts", 3),
    ("condition", 3),
    ("event", 2),
    ("observed", 1),
    ("gone", 1),
];

impl Until {
    pub fn read(text: &str) -> Option<Until> {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        KNOWN.iter().any(|(verb, length)| words[0] == *verb && words.len() == *length).then_some(Until(words))
    }

    /// `pod`: as it is, or `None` when there is none any more.
    pub fn holds(&self, pod: Option<&Value>, events: &[Value]) -> bool {
        let word = |index: usize| self.0.get(index).map_or("", String::as_str);
        let Some(pod) = pod else { return word(0) == "gone" };
        let state = |name: &str| {
            let status = container(pod, word(1))?;
            status.at(&["state", name]).cloned()
        };
        match word(0) {
            "phase" => pod.str_at(&["status", "phase"]) == Some(word(1)),
            "waiting" => state("waiting").is_some_and(|s| s.str_at(&["reason"]) == Some(word(2))),
            "running" => state("running").is_some(),
            "terminated" => state("terminated").is_some(),
            "ready" => {
                container(pod, word(1)).and_then(|s| s.get("ready")).and_then(Value::as_bool) == Some(true)
            }
            "restarts" => {
                let count =
                    container(pod, word(1)).and_then(|s| s.get("restartCount")).and_then(Value::as_int);
                count.unwrap_or(0) >= word(2).parse().unwrap_or(1)
            }
            "condition" => {
                let all = pod.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
                let condition = all.iter().find(|one| one.str_at(&["type"]) == Some(word(1)));
                let is = |field| condition.is_some_and(|c| c.str_at(&[field]) == Some(word(2)));
                is("status") || is("reason") || (word(2) == "gone" && condition.is_none())
            }
            "event" => events.iter().any(|event| event.str_at(&["reason"]) == Some(word(1))),
            "observed" => {
                let now = pod.at(&["status", "observedGeneration"]).and_then(Value::as_int);
                now.is_some() && now == pod.at(&["metadata", "generation"]).and_then(Value::as_int)
            }
            _ => false,
        }
    }

    pub fn text(&self) -> String {
        self.0.join(" ")
    }
}

/// The status of a container of any kind.
fn container<'a>(pod: &'a Value, name: &str) -> Option<&'a Value> {
    super::observation::STATUSES.iter().find_map(|(list, _)| {
        let statuses = pod.at(&["status", list])?.as_list()?;
        statuses.iter().find(|status| status.str_at(&["name"]) == Some(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_looked_up_in_the_pod() {
        let pod = crate::case::parse(
            r#"{"metadata":{"generation":2},"status":{"phase":"Running","observedGeneration":1,"conditions":
               [{"type":"Ready","status":"False","reason":"No"}],"initContainerStatuses":[{"name":"i","state":
               {"waiting":{"reason":"CrashLoopBackOff"}},"restartCount":2}],"containerStatuses":[{"name":"c","ready":true,
               "state":{"running":{}}}]}}"#,
        );
        for (text, wanted) in [
            ("phase Running", true),
            ("phase Failed", false),
            ("waiting i CrashLoopBackOff", true),
            ("running c", true),
            ("running i", false),
            ("ready c", true),
            ("restarts i 2", true),
            ("restarts c 1", false),
            ("condition Ready No", true),
            ("condition Other gone", true),
            ("observed", false),
            ("gone", false),
        ] {
            assert_eq!(Until::read(text).unwrap().holds(pod.as_ref(), &[]), wanted, "{text}");
        }
        assert!(Until::read("gone").unwrap().holds(None, &[]));
        assert_eq!(Until::read("phase"), None);
        assert_eq!(Until::read("soon"), None);
    }
}
