//! Bodies and options that are refused, and the first apply.

use object::Value;

use super::{Applies, json};
use crate::case::{APPLY, Step, text_of};

impl Applies<'_> {
    /// Before the object exists: every one a dry run.
    pub(super) fn refusals(&mut self) {
        let body = self.labelled(&[("a", "1")]);
        let text = text_of(&body);
        let dry = "one&dryRun=All";
        self.steps.push(Step::text("without a manager", "PATCH", &self.one, APPLY, text.clone()));
        for (what, query) in [
            ("an empty manager", "&dryRun=All"),
            ("a long manager", &*format!("{}&dryRun=All", "m".repeat(129))),
            ("the longest manager", &*format!("{}&dryRun=All", "m".repeat(128))),
            ("an unprintable manager", "a%07b&dryRun=All"),
            ("a manager of other letters", "m%C3%A4nager%20%E2%82%AC&dryRun=All"),
            ("a bad force", "one&dryRun=All&force=perhaps"),
            ("force", "one&dryRun=All&force=true"),
            ("a bad dryRun", "one&dryRun=Some"),
            ("a bad fieldValidation", "one&dryRun=All&fieldValidation=Never"),
        ] {
            self.apply(format!("with {what}"), query, &body);
        }
        self.merge("merge patch with force", "one&dryRun=All&force=true", "{}");
        for (what, body) in [
            ("nothing", ""),
            ("an empty object", "{}"),
            ("a list", "[]"),
            ("null", "null"),
            ("text", "hello"),
            ("broken JSON", r#"{"metadata":"#),
            ("broken YAML", "a: [b\nc: d"),
            ("two documents", "apiVersion: v1\n---\nkind: X\n"),
        ] {
            self.apply_to(format!("from {what}"), "", dry, body.to_owned());
        }
        self.apply("from JSON, dry run", dry, &body);
        self.apply_to("from YAML, dry run", "", dry, yaml(&body));
        let path = format!("{}?fieldManager={dry}", self.one);
        self.steps.push(Step::text("from CBOR", "PATCH", path, "application/apply-patch+cbor", text.clone()));
        self.odd_types(&body);
        self.odd_metadata(&body);
        self.validated(&body, &text);
    }

    fn odd_types(&mut self, body: &Value) {
        let version = self.target.api_version.clone();
        let group = version.split_once('/').map_or("", |(group, _)| group).to_owned();
        let unserved = if group.is_empty() { "v9".to_owned() } else { format!("{group}/v9") };
        for (what, name, value) in [
            ("no apiVersion", "apiVersion", Value::Null),
            ("no kind", "kind", Value::Null),
            ("an empty apiVersion", "apiVersion", "".into()),
            ("an empty kind", "kind", "".into()),
            ("another kind", "kind", "Nonsense".into()),
            ("another version", "apiVersion", unserved.into()),
            ("another group", "apiVersion", "nonsense.example.com/v1".into()),
            ("a broken apiVersion", "apiVersion", "a/b/c".into()),
            ("a number as kind", "kind", 1.into()),
        ] {
            let mut odd = body.clone();
            match value {
                Value::Null => drop(odd.make_map().remove(name)),
                value => odd.make_map().set(name, value),
            }
            self.apply(format!("with {what}"), "one&dryRun=All", &odd);
        }
    }

    fn odd_metadata(&mut self, body: &Value) {
        for (what, name, value) in [
            ("another name", "name", r#""other""#),
            ("an empty name", "name", r#""""#),
            ("a number as name", "name", "5"),
            ("another namespace", "namespace", r#""elsewhere""#),
            ("an empty namespace", "namespace", r#""""#),
            ("its namespace", "namespace", r#""$NS""#),
            ("generateName", "generateName", r#""p-""#),
            ("a resourceVersion", "resourceVersion", r#""1""#),
            ("resourceVersion 0", "resourceVersion", r#""0""#),
            ("an empty resourceVersion", "resourceVersion", r#""""#),
            ("a uid", "uid", r#""5a5f7f3e-0000-4000-8000-000000000000""#),
            ("creationTimestamp null", "creationTimestamp", "null"),
            ("a creationTimestamp", "creationTimestamp", r#""2020-01-01T00:00:00Z""#),
            ("a generation", "generation", "7"),
            ("a deletionTimestamp", "deletionTimestamp", r#""2020-01-01T00:00:00Z""#),
            ("a selfLink", "selfLink", r#""/x""#),
            ("managedFields", "managedFields", r#"[{"manager":"x","operation":"Apply"}]"#),
            ("an empty manager in managedFields", "managedFields", "[{}]"),
            ("managedFields empty", "managedFields", "[]"),
            ("managedFields null", "managedFields", "null"),
            ("managedFields of text", "managedFields", r#""x""#),
            ("labels null", "labels", "null"),
            ("labels empty", "labels", "{}"),
            ("a label null", "labels", r#"{"a":null}"#),
            ("a label of a number", "labels", r#"{"a":1}"#),
            ("labels of text", "labels", r#""x""#),
            ("a bad label", "labels", r#"{"a":"not ok!"}"#),
            ("a finalizer twice", "finalizers", r#"["example.com/a","example.com/a"]"#),
            ("a null finalizer", "finalizers", r#"[null]"#),
            ("an owner without a uid", "ownerReferences", r#"[{"apiVersion":"v1","kind":"A","name":"a"}]"#),
            ("an owner of null", "ownerReferences", r#"[null]"#),
            (
                "an owner twice",
                "ownerReferences",
                r#"[{"apiVersion":"v1","kind":"A","name":"a","uid":"u"},{"apiVersion":"v1","kind":"A","name":"b","uid":"u"}]"#,
            ),
        ] {
            let mut odd = body.clone();
            odd.map_at(&["metadata"]).set(name, json(value));
            self.apply(format!("with {what}"), "one&dryRun=All", &odd);
        }
        for (what, metadata) in [("null", "null"), ("text", r#""x""#), ("a list", "[]"), ("nothing", "{}")] {
            let mut odd = body.clone();
            odd.make_map().set("metadata", json(metadata));
            self.apply(format!("with metadata of {what}"), "one&dryRun=All", &odd);
        }
    }

    fn validated(&mut self, body: &Value, text: &str) {
        // Of two, kube-apiserver names either or both.
        let mut unknown = body.clone();
        unknown.make_map().set("bogus", 1);
        let mut strange = body.clone();
        strange.map_at(&["metadata"]).set("strange", true);
        let twice = text.replacen('{', r#"{"kind":"Twice","#, 1).replacen(
            r#""metadata":{"#,
            r#""metadata":{"labels":{"a":"0","a":"2"},"#,
            1,
        );
        for how in ["Strict", "Warn", "Ignore"] {
            let query = format!("one&dryRun=All&fieldValidation={how}");
            self.apply(format!("unknown field, {how}"), &query, &unknown);
            self.apply(format!("unknown field of metadata, {how}"), &query, &strange);
            self.apply_to(format!("fields twice, {how}"), "", &query, twice.clone());
            let yaml = format!("{}\nkind: Twice\n", yaml(body));
            self.apply_to(format!("fields twice in YAML, {how}"), "", &query, yaml);
        }
    }

    pub(super) fn creation(&mut self) {
        let body = self.labelled(&[("a", "1"), ("b", "1")]);
        self.apply("create", "one", &body);
        self.get("get");
        self.apply("again", "one", &body);
        self.apply_to("again as YAML", "", "one", yaml(&body));
        self.apply("again with force", "one&force=true", &body);
        let mut versioned = body.clone();
        versioned.map_at(&["metadata"]).set("resourceVersion", "$RV");
        self.apply("again with its version", "one", &versioned);
        versioned.map_at(&["metadata"]).set("uid", "$UID");
        self.apply("again with its uid", "one", &versioned);
        versioned.map_at(&["metadata"]).set("uid", "5a5f7f3e-0000-4000-8000-000000000000");
        self.apply("with another uid", "one", &versioned);
        let changed = self.labelled(&[("a", "2"), ("b", "1")]);
        self.apply("changed, dry run", "one&dryRun=All", &changed);
        self.apply("changed", "one", &changed);
        let mut stale = changed.clone();
        stale.map_at(&["metadata"]).set("resourceVersion", "$RV1");
        self.apply("with a stale version", "one", &stale);
        stale.map_at(&["metadata"]).set("resourceVersion", "x");
        self.apply("with a bad version", "one", &stale);
        stale.map_at(&["metadata"]).set("resourceVersion", "0");
        self.apply("with version 0", "one", &stale);
        self.apply("a label given up", "one", &self.labelled(&[("a", "2")]));
        self.apply("nothing but the name", "one&dryRun=All", &self.bare(&[]));
        self.get("get after changes");
    }
}

/// Block style, scalars as JSON has them.
pub fn yaml(value: &Value) -> String {
    let mut out = String::new();
    write_yaml(value, 0, &mut out);
    out
}

fn write_yaml(value: &Value, indent: usize, out: &mut String) {
    let margin = " ".repeat(indent);
    match value {
        Value::Map(map) if !map.is_empty() => {
            for (name, value) in map.iter() {
                out.push_str(&format!("{margin}{}:", text_of(&Value::Str(name.to_string()))));
                nested(value, indent, out);
            }
        }
        Value::List(items) if !items.is_empty() => {
            for item in items {
                out.push_str(&format!("{margin}-"));
                nested(item, indent, out);
            }
        }
        scalar => out.push_str(&format!("{margin}{}\n", text_of(scalar))),
    }
}

fn nested(value: &Value, indent: usize, out: &mut String) {
    let is_block = match value {
        Value::Map(map) => !map.is_empty(),
        Value::List(items) => !items.is_empty(),
        _ => false,
    };
    if is_block {
        out.push('\n');
        write_yaml(value, indent + 2, out);
    } else {
        out.push_str(&format!(" {}\n", text_of(value)));
    }
}
