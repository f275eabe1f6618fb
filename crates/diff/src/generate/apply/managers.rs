//! managedFields that clients send with other verbs, and what becomes of them.

use super::{Applies, json};

/// The annotation of client-side apply.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

impl Applies<'_> {
    pub(super) fn sent_managers(&mut self) {
        let version = self.target.api_version.clone();
        let entry = |changes: &str| {
            let mut entry = json(&format!(
                r#"{{"manager":"sent","operation":"Update","apiVersion":"{version}","time":"2020-01-01T00:00:00Z",
                "fieldsType":"FieldsV1","fieldsV1":{{"f:metadata":{{"f:labels":{{"f:a":{{}}}}}}}}}}"#
            ));
            let changes = json(changes);
            for (name, value) in changes.as_map().into_iter().flat_map(|map| map.iter()) {
                match value {
                    value if value.is_null() => drop(entry.make_map().remove(name)),
                    value => entry.make_map().set(name.clone(), value.clone()),
                }
            }
            crate::case::text_of(&entry)
        };
        let fields = |fields: &str| entry(&format!(r#"{{"fieldsV1":{fields}}}"#));
        for (what, managers) in [
            ("a sound entry", entry("{}")),
            ("an apply entry", entry(r#"{"operation":"Apply"}"#)),
            ("an entry twice", format!("{0},{0}", entry("{}"))),
            (
                "an entry twice with other fields",
                format!("{},{}", entry("{}"), fields(r#"{"f:metadata":{"f:labels":{"f:own":{}}}}"#)),
            ),
            ("no manager", entry(r#"{"manager":null}"#)),
            ("an empty manager", entry(r#"{"manager":""}"#)),
            ("a long manager", entry(&format!(r#"{{"manager":"{}"}}"#, "m".repeat(129)))),
            ("an unprintable manager", entry(r#"{"manager":"a\u0007b"}"#)),
            ("no operation", entry(r#"{"operation":null}"#)),
            ("an unknown operation", entry(r#"{"operation":"Dance"}"#)),
            ("no apiVersion", entry(r#"{"apiVersion":null}"#)),
            ("an unknown version", entry(r#"{"apiVersion":"nonsense.example.com/v1"}"#)),
            ("a broken version", entry(r#"{"apiVersion":"a/b/c"}"#)),
            ("no time", entry(r#"{"time":null}"#)),
            ("a broken time", entry(r#"{"time":"yesterday"}"#)),
            ("no fieldsType", entry(r#"{"fieldsType":null}"#)),
            ("an unknown fieldsType", entry(r#"{"fieldsType":"FieldsV2"}"#)),
            ("no fields", entry(r#"{"fieldsV1":null}"#)),
            ("a subresource", entry(r#"{"subresource":"status"}"#)),
            ("an unknown subresource", entry(r#"{"subresource":"nonsense"}"#)),
            ("a long subresource", entry(&format!(r#"{{"subresource":"{}"}}"#, "s".repeat(257)))),
            ("an unknown member", entry(r#"{"nonsense":1}"#)),
            ("empty fields", fields("{}")),
            ("fields of text", fields(r#""f:metadata""#)),
            ("fields of a list", fields("[]")),
            ("fields of a number", fields("5")),
            ("a field of null", fields(r#"{"f:metadata":null}"#)),
            ("a field of text", fields(r#"{"f:metadata":"x"}"#)),
            ("a field of a list", fields(r#"{"f:metadata":[]}"#)),
            ("a path that does not exist", fields(r#"{"f:nonsense":{"f:more":{}}}"#)),
            ("a path into a scalar", fields(r#"{"f:metadata":{"f:name":{"f:x":{}}}}"#)),
            ("an index", fields(r#"{"f:metadata":{"i:0":{}}}"#)),
            ("a broken index", fields(r#"{"f:metadata":{"i:x":{}}}"#)),
            ("an unknown prefix", fields(r#"{"x:metadata":{}}"#)),
            ("no prefix", fields(r#"{"metadata":{}}"#)),
            ("an empty name", fields(r#"{"":{}}"#)),
            ("an empty field", fields(r#"{"f:":{}}"#)),
            ("a dot", fields(r#"{".":{},"f:metadata":{".":{},"f:labels":{".":{}}}}"#)),
            ("a broken key", fields(r#"{"f:metadata":{"f:ownerReferences":{"k:{bad":{}}}}"#)),
            ("a key of a list", fields(r#"{"f:metadata":{"f:ownerReferences":{"k:[1]":{}}}}"#)),
            ("a broken value", fields(r#"{"f:metadata":{"f:finalizers":{"v:{":{}}}}"#)),
            ("a value", fields(r#"{"f:metadata":{"f:finalizers":{"v:\"x\"":{}}}}"#)),
            ("fields out of order", fields(r#"{"f:metadata":{"f:labels":{"f:own":{},"f:a":{}}}}"#)),
            ("an entry of null", "null".to_owned()),
            ("an entry of text", r#""x""#.to_owned()),
            ("an empty entry and another", format!("{{}},{}", entry("{}"))),
        ] {
            let body = format!(r#"{{"metadata":{{"managedFields":[{managers}],"labels":{{"m":"1"}}}}}}"#);
            self.merge(format!("managers with {what}"), "m&dryRun=All", &body);
        }
        // Times of entries whose fields stay are kept.
        let body = format!(
            r#"{{"metadata":{{"managedFields":[{},{},{}]}}}}"#,
            fields(r#"{"f:metadata":{"f:labels":{"f:s":{}}}}"#),
            entry(r#"{"manager":"one","operation":"Apply"}"#),
            entry(
                r#"{"manager":"other","fieldsV1":{"f:nonsense":{"f:more":{}},"f:metadata":{"f:labels":{"f:s":{}}}}}"#
            )
        );
        self.merge("old managers", "m", &body);
        self.get("get with old managers");
        self.merge("old managers, one label", "sent", r#"{"metadata":{"labels":{"late":"1"}}}"#);
        self.apply("old managers, nothing new", "other", &self.bare(&[("s", "1")]));
        self.apply("old managers, same fields", "one&dryRun=All", &self.bare(&[("a", "8")]));
        self.apply("old managers, apply", "one&force=true", &self.labelled(&[("a", "5"), ("own", "1")]));
        self.get("get after old managers");
    }

    pub(super) fn cleared_managers(&mut self) {
        self.merge("cleared by nothing", "m&dryRun=All", r#"{"metadata":{"managedFields":null}}"#);
        self.merge("cleared by an empty list", "m", r#"{"metadata":{"managedFields":[]}}"#);
        self.get("get after an empty list");
        self.merge("cleared by an empty entry", "m", r#"{"metadata":{"managedFields":[{}]}}"#);
        self.get("get after an empty entry");
        self.merge("patched without managers", "m", r#"{"metadata":{"labels":{"untracked":"1"}}}"#);
        self.apply("first apply, a conflict", "one", &self.labelled(&[("a", "9")]));
        self.apply("first apply, dry run", "one&dryRun=All&force=true", &self.labelled(&[("a", "9")]));
        self.apply("first apply, forced", "one&force=true", &self.labelled(&[("a", "9")]));
        self.get("get after the first apply");
        let mut cleared = self.labelled(&[("a", "9")]);
        cleared.map_at(&["metadata"]).set("managedFields", json("[]"));
        self.put("updated with an empty list", "m&dryRun=All", &cleared);
        cleared.map_at(&["metadata"]).set("managedFields", json("[{}]"));
        self.put("updated with an empty entry", "m", &cleared);
        self.apply("first apply of what is there", "one", &self.labelled(&[("a", "9")]));
        self.put("updated without managers", "m", &self.labelled(&[("a", "9"), ("more", "1")]));
    }

    /// Objects that `kubectl apply` wrote before it asked the server to.
    pub(super) fn client_side(&mut self) {
        let csa = "kubectl-client-side-apply";
        let mut old = self.labelled(&[("a", "9"), ("csa", "1"), ("gone", "1")]);
        let config = crate::case::text_of(&old);
        old.map_at(&["metadata", "annotations"]).set(LAST_APPLIED, config.clone());
        self.put("client-side apply", csa, &old);
        self.apply(
            "server-side by kubectl, dry run",
            "kubectl&dryRun=All",
            &self.labelled(&[("a", "9"), ("csa", "2")]),
        );
        self.apply(
            "server-side by another",
            "other-tool&dryRun=All",
            &self.labelled(&[("a", "9"), ("csa", "2")]),
        );
        self.apply(
            "server-side by kubectl",
            "kubectl&force=true",
            &self.labelled(&[("a", "9"), ("csa", "2")]),
        );
        self.get("get after kubectl");
        let mut annotated = self.labelled(&[("a", "9"), ("csa", "3")]);
        annotated.map_at(&["metadata", "annotations"]).set(LAST_APPLIED, "{}");
        self.apply("kubectl with an annotation of its own", "kubectl&force=true", &annotated);
        self.apply("kubectl without it", "kubectl&force=true", &self.labelled(&[("a", "9"), ("csa", "4")]));
        self.merge(
            "broken last-applied annotation",
            csa,
            &format!(r#"{{"metadata":{{"annotations":{{"{LAST_APPLIED}":"{{"}}}}}}"#),
        );
        self.apply("kubectl after that", "kubectl&force=true", &self.labelled(&[("a", "9"), ("csa", "5")]));
    }

    pub(super) fn many_managers(&mut self) {
        for number in 1..=13 {
            let body = format!(r#"{{"metadata":{{"labels":{{"n{number}":"1"}}}}}}"#);
            self.merge(format!("updater {number}"), &format!("u{number:02}"), &body);
        }
        self.get("get after many");
        self.apply(
            "conflict with old changes",
            "one",
            &self.labelled(&[("a", "9"), ("n1", "2"), ("n13", "2")]),
        );
    }
}
