//! Everything two right answers may differ in, taken out of both. Each rule has its reason; there are no others.
//!
//! | what | becomes | why |
//! |---|---|---|
//! | keys of objects | sorted | JSON objects have no order |
//! | `metadata.managedFields`, in texts too | sorted by operation, manager, version and subresource | their order follows times in whole seconds |
//! | the run's word in any text | `RUN` | each run has its own, so that runs do not meet |
//! | UUIDs in any text | `UID` | random |
//! | `resourceVersion` members, and versions in conflict messages | `VERSION` | revisions of two stores |
//! | times of 2025 and later | `TIME` | now; cases send only older ones |
//! | names made from `generateName` | their random end is `RANDOM` | random |
//! | `kube-api-access-xxxxx` | `kube-api-access-RANDOM` | random |
//! | `clusterIP`, `clusterIPs` and such cells, in 10.96.0.0/16 or 192.0.2.0/24, that the request did not send | `ALLOTTED` | a free address is any free address |
//! | `nodePort`, `healthCheckNodePort` and such cells that the request did not send | `30000` | a free port is any free port |
//! | `continue` tokens, tokens of service accounts | `TOKEN` | opaque |
//! | cells of a Table whose column is an age, or behind the last column | `AGE` | now; upstream gives IPAddresses one cell more than columns |
//! | `serverAddress` | `ADDRESS` | two servers have two addresses |
//! | `buildDate` | dropped | two builds |
//! | the root of the file a scheme is named after | dropped | it depends on the folder kube-apiserver was built in |
//! | causes of a refused apply | sorted by manager | kube-apiserver keeps managers in a Go map |
//! | errors of an object that does not fit its schema | sorted | kube-apiserver walks it in the order of a Go map |
//! | causes of a refused custom resource | sorted, and left out of the message that repeats them | kube-apiserver walks the schema in the order of a Go map |
//! | `allOf` of one reference and nothing else in OpenAPI documents | the reference | where upstream has a description |
//! | conditions of definitions in cases about custom resources | sorted by type | three controllers write them |
//! | `storageVersionHash` of groups that have the run's word | `HASH` | it is the hash of a name with that word |
//! | `status.currentMetrics` that an autoscaler shown to a webhook does not have | `null` | upstream has the list, empty, once it was stored |
//! | `selfType` and a number in the compiler's messages | `selfType` | a random number |
//! | `description` of Table columns and in OpenAPI documents | dropped | prose of upstream, which Setpoint does not repeat |

use std::borrow::Cow;

use catalog::Name;
use object::{Map, Value};

use crate::case::{parse, text_of};
use crate::play::Request;

/// Columns that show how long ago something was.
const AGES: &[&str] = &["Age", "Last Seen", "First Seen", "Duration", "Last Schedule"];

pub struct Normaliser<'a> {
    run: &'a str,
    request: &'a Request,
    /// What the request wants names made from; `RUN` for the run's word, as texts have it by then.
    generate_name: Option<String>,
}

impl<'a> Normaliser<'a> {
    pub fn new(run: &'a str, request: &'a Request) -> Self {
        let body = request.body.as_deref().filter(|body| body.contains("generateName")).and_then(parse);
        let base = body.as_ref().and_then(|body| body.str_at(&["metadata", "generateName"]));
        let generate_name = base.filter(|base| !base.is_empty()).map(|base| base.replace(run, "RUN"));
        Normaliser { run, request, generate_name }
    }

    pub fn value(&self, value: Value) -> Value {
        match value {
            Value::Str(text) => Value::Str(self.text(&text)),
            Value::List(items) => Value::List(items.into_iter().map(|v| self.value(v)).collect()),
            Value::Map(map) => self.map(map),
            other => other,
        }
    }

    fn map(&self, mut map: Map) -> Value {
        if self.is_openapi() {
            map.remove("description");
            // What has a description refers to its type from inside an allOf.
            if map.len() == 1
                && let Some(Value::List(all)) = map.get_mut("allOf")
                && all.len() == 1
                && let Some(only) = all.pop()
            {
                return self.value(only);
            }
        }
        if let Some(Value::List(causes)) = map.get_mut("causes") {
            let is_conflict = |cause: &Value| cause.str_at(&["reason"]) == Some("FieldManagerConflict");
            if causes.iter().all(is_conflict) {
                causes.sort_by_key(|cause| cause.str_at(&["message"]).map(str::to_owned));
            }
        }
        if map.contains("columnDefinitions") {
            self.hide_cells(&mut map);
        }
        // Objects read later: the request does not say what their names were made from.
        if let (Some(Value::Str(base)), Some(Value::Str(name))) = (map.get("generateName"), map.get("name"))
            && name.strip_prefix(base.as_str()).is_some_and(|end| end.len() == 5)
        {
            let name = format!("{base}RANDOM");
            map.set("name", name);
        }
        let mut entries: Vec<(Name, Value)> = Vec::with_capacity(map.len());
        for (name, value) in map {
            let value = match (name.as_str(), value) {
                ("managedFields", Value::List(items)) => {
                    sorted_managers(items.into_iter().map(|item| self.value(item)).collect())
                }
                ("resourceVersion", Value::Str(text)) if is_number(&text) => "VERSION".into(),
                ("continue", Value::Str(text)) if !text.is_empty() => "TOKEN".into(),
                ("token", Value::Str(text)) if text.starts_with("eyJ") => "TOKEN".into(),
                ("serverAddress", Value::Str(_)) => "ADDRESS".into(),
                ("buildDate", Value::Str(_)) => continue,
                ("clusterIP", Value::Str(text)) => self.address(text),
                ("clusterIPs", Value::List(items)) => items
                    .into_iter()
                    .map(|item| match item {
                        Value::Str(text) => self.address(text),
                        other => other,
                    })
                    .collect::<Vec<_>>()
                    .into(),
                ("nodePort" | "healthCheckNodePort", Value::Int(port))
                    if (30000..32768).contains(&port) && !self.sent(&port.to_string()) =>
                {
                    30000.into()
                }
                ("storageVersionHash", Value::Str(_)) if self.request.path.contains(self.run) => {
                    "HASH".into()
                }
                ("columnDefinitions", Value::List(columns)) => without_descriptions(columns),
                (_, value) => self.value(value),
            };
            // Keys of managed fields hold values: `k:{"uid":"…"}`.
            let holds_values = name.starts_with("k:{") || name.starts_with("v:");
            let name =
                if holds_values || name.contains(self.run) { Name::from(self.text(&name)) } else { name };
            entries.push((name, value));
        }
        entries.sort_by(|(a, _), (b, _)| a.as_str().cmp(b.as_str()));
        Value::Map(entries.into_iter().collect())
    }

    fn is_openapi(&self) -> bool {
        self.request.path.starts_with("/openapi/")
    }

    fn address(&self, text: String) -> Value {
        let in_range = text.starts_with("10.96.") || text.starts_with("192.0.2.");
        if in_range && !self.sent(&text) { "ALLOTTED".into() } else { Value::Str(text) }
    }

    /// `80:31217/TCP,81:30001/TCP`: node ports are any free port.
    fn ports(&self, text: &str) -> String {
        let port = |entry: &str| match entry
            .split_once(':')
            .and_then(|(port, rest)| Some((port, rest.split_once('/')?)))
        {
            Some((port, (node, protocol))) if !self.sent(node) => format!("{port}:30000/{protocol}"),
            _ => entry.to_owned(),
        };
        text.split(',').map(port).collect::<Vec<_>>().join(",")
    }

    fn sent(&self, text: &str) -> bool {
        self.request.body.as_ref().is_some_and(|body| body.contains(text))
    }

    pub fn text(&self, text: &str) -> String {
        let text = &with_sorted_errors(with_sorted_managers(text));
        let mut out = String::with_capacity(text.len());
        let mut rest: &str = text;
        while let Some(first) = rest.chars().next() {
            let (word, skip) = if rest.starts_with(self.run) {
                ("RUN", self.run.len())
            } else if is_uuid(rest) {
                ("UID", 36)
            } else if let Some(length) = recent_time(rest) {
                ("TIME", length)
            } else if let Some(digits) = version_after(&out, rest) {
                ("VERSION", digits)
            } else if let Some(digits) = digits_after(&out, rest, &["selfType"]) {
                ("", digits)
            } else if let Some(root) = source_root(&out, rest) {
                ("", root)
            } else if self.is_random(&out, rest) {
                ("RANDOM", 5)
            } else {
                out.push(first);
                rest = &rest[first.len_utf8()..];
                continue;
            };
            out.push_str(word);
            rest = &rest[skip..];
        }
        out
    }
}

impl Normaliser<'_> {
    /// Cells that are ages or allotted addresses.
    fn hide_cells(&self, table: &mut Map) {
        let columns = table.get("columnDefinitions").and_then(Value::as_list).unwrap_or_default();
        let name = |column: &Value| match column.str_at(&["type"]) {
            // Columns of custom resources say so.
            Some("date") => AGES[0].to_owned(),
            _ => column.str_at(&["name"]).unwrap_or_default().to_owned(),
        };
        let names: Vec<String> = columns.iter().map(name).collect();
        let Some(Value::List(rows)) = table.get_mut("rows") else { return };
        for row in rows {
            let Some(Value::List(cells)) = row.as_map_mut().and_then(|row| row.get_mut("cells")) else {
                continue;
            };
            for (at, cell) in cells.iter_mut().enumerate() {
                let Some(text) = cell.as_str() else { continue };
                match names.get(at).map(String::as_str) {
                    Some("Cluster-IP") => *cell = self.address(text.to_owned()),
                    Some("Port(s)") => *cell = self.ports(text).into(),
                    Some(name) if !AGES.contains(&name) => {}
                    _ if matches!(text, "<none>" | "<unknown>" | "") || recent_time(text).is_some() => {}
                    _ => *cell = "AGE".into(),
                }
            }
        }
    }

    /// Whether five letters and digits follow that the server made up.
    fn is_random(&self, before: &str, rest: &str) -> bool {
        let known = before.ends_with("kube-api-access-")
            // Every case that makes up names begins them so.
            || before.ends_with("RUN-g-")
            || self.generate_name.as_ref().is_some_and(|base| before.ends_with(base.as_str()));
        let made_up = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        known && rest.len() >= 5 && rest.as_bytes()[..5].iter().all(made_up)
    }
}

fn sorted_managers(mut managers: Vec<Value>) -> Value {
    managers.sort_by_cached_key(|manager| {
        let key = ["operation", "manager", "apiVersion", "subresource"]
            .map(|name| manager.str_at(&[name]).unwrap_or_default().to_owned());
        (key, text_of(manager))
    });
    managers.into()
}

/// Messages of refused patches show the whole object: its managers are sorted there, too.
fn with_sorted_managers(text: &str) -> Cow<'_, str> {
    let mark = r#"\"managedFields\":"#;
    let Some(start) = text.find(mark).map(|at| at + mark.len()) else { return Cow::Borrowed(text) };
    let mut open = 0usize;
    let end = text[start..].char_indices().find_map(|(at, c)| {
        open = match c {
            '[' => open + 1,
            ']' => open.saturating_sub(1),
            _ => open,
        };
        (open == 0).then_some(start + at + 1)
    });
    let managers = end.and_then(|end| match parse(&unquoted(&text[start..end]))? {
        Value::List(managers) if managers.len() > 1 => Some((end, sorted_managers(managers))),
        _ => None,
    });
    let Some((end, managers)) = managers else { return Cow::Borrowed(text) };
    let quoted = text_of(&managers).replace('\\', r"\\").replace('"', r#"\""#);
    Cow::Owned(format!("{}{quoted}{}", &text[..start], &text[end..]))
}

/// `failed to …: errors:` and a line for each.
fn with_sorted_errors(text: Cow<'_, str>) -> Cow<'_, str> {
    let Some((start, errors)) = text.split_once(": errors:\n  ") else { return text };
    let mut errors: Vec<&str> = errors.split("\n  ").collect();
    errors.sort_unstable();
    Cow::Owned(format!("{start}: errors:\n  {}", errors.join("\n  ")))
}

/// Without the backslashes of a quoted text.
fn unquoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next()),
            c => out.push(c),
        }
    }
    out
}

/// A definition whose conditions came in any order.
pub fn with_sorted_conditions(mut definition: Value) -> Value {
    if let Some(Value::List(conditions)) = definition
        .as_map_mut()
        .and_then(|definition| definition.get_mut("status"))
        .and_then(Value::as_map_mut)
        .and_then(|status| status.get_mut("conditions"))
    {
        conditions.sort_by_key(|condition| condition.str_at(&["type"]).map(str::to_owned));
    }
    definition
}

/// What a webhook was asked, with the list that upstream's autoscalers have or have not.
pub fn with_current_metrics(mut asked: Value) -> Value {
    for name in ["object", "oldObject"] {
        let object = asked.as_map_mut().and_then(|asked| asked.get_mut(name));
        let Some(object) = object.filter(|object| {
            object.str_at(&["apiVersion"]) == Some("autoscaling/v2")
                && object.str_at(&["kind"]) == Some("HorizontalPodAutoscaler")
        }) else {
            continue;
        };
        let status = object.map_at(&["status"]);
        if !status.contains("currentMetrics") {
            status.set("currentMetrics", Value::Null);
            status.entries_mut().sort_by(|(a, _), (b, _)| a.as_str().cmp(b.as_str()));
        }
    }
    asked
}

/// A refusal whose causes came in any order.
pub fn with_sorted_causes(mut refusal: Value) -> Value {
    let Some(Value::List(causes)) = refusal
        .as_map_mut()
        .and_then(|refusal| refusal.get_mut("details"))
        .and_then(Value::as_map_mut)
        .and_then(|details| details.get_mut("causes"))
    else {
        return refusal;
    };
    if causes.len() < 2 {
        return refusal;
    }
    causes.sort_by_key(text_of);
    if let Some((start, _)) = refusal.str_at(&["message"]).and_then(|message| message.split_once(": [")) {
        let message = format!("{start}: CAUSES");
        refusal.make_map().set("message", message);
    }
    refusal
}

fn without_descriptions(mut columns: Vec<Value>) -> Value {
    for column in &mut columns {
        if let Some(column) = column.as_map_mut() {
            column.remove("description");
            column.entries_mut().sort_by(|(a, _), (b, _)| a.as_str().cmp(b.as_str()));
        }
    }
    columns.into()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// The length of `k8s.io/apimachinery/` in front of a scheme's `pkg/…`.
fn source_root(before: &str, rest: &str) -> Option<usize> {
    if !before.ends_with("in scheme \"") || !rest.starts_with("k8s.io/") {
        return None;
    }
    rest.find("pkg/")
}

fn is_uuid(text: &str) -> bool {
    let b = text.as_bytes();
    b.len() >= 36
        && b[..36].iter().enumerate().all(|(i, c)| match i {
            8 | 13 | 18 | 23 => *c == b'-',
            _ => c.is_ascii_hexdigit(),
        })
}

/// The length of an RFC 3339 time in UTC, with or without fractions, that no case has sent.
fn recent_time(text: &str) -> Option<usize> {
    let b = text.as_bytes();
    let form = b"0000-00-00T00:00:00";
    let fits = b.len() > form.len()
        && b.iter()
            .zip(form)
            .all(|(c, p)| if *p == b'0' { c.is_ascii_digit() } else { c == p || *c == b' ' });
    if !fits || !("2025".."2100").contains(&text.get(..4)?) {
        return None;
    }
    let fraction = b[form.len()..].iter().take_while(|c| **c == b'.' || c.is_ascii_digit()).count();
    let end = form.len() + fraction;
    Some(if b.get(end) == Some(&b'Z') { end + 1 } else { end })
}

/// Digits of a resourceVersion that a message mentions.
fn version_after(before: &str, rest: &str) -> Option<usize> {
    let known = [
        "current: ",
        "in record (",
        "in precondition: ",
        "in the precondition (",
        "ResourceVersion in object meta: ",
        "resourceVersion\":\"",
        "resourceVersion\\\":\\\"",
    ];
    digits_after(before, rest, &known)
}

fn digits_after(before: &str, rest: &str, known: &[&str]) -> Option<usize> {
    if !known.iter().any(|k| before.ends_with(k)) {
        return None;
    }
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0).then_some(digits)
}
