//! Several managers of one object: shared fields, conflicts, force, and writes of other verbs in between.

use super::{Applies, json};
use crate::case::{JSON_PATCH, STRATEGIC, Step};

impl Applies<'_> {
    pub(super) fn owners(&mut self) {
        self.apply("second manager, same fields", "two", &self.labelled(&[("a", "2")]));
        self.apply("second manager again", "two", &self.labelled(&[("a", "2")]));
        self.apply("first gives up what is shared", "one", &self.bare(&[("own", "1")]));
        self.get("get after the first gave up");
        self.apply("first takes it back", "one", &self.labelled(&[("a", "2"), ("own", "1")]));
        self.apply("second gives up all", "two", &self.bare(&[]));
        self.get("get after the second gave up");
        self.apply("second manager of one label", "two", &self.bare(&[("second", "1")]));
        self.apply("label of the second given up", "two&dryRun=All", &self.bare(&[]));
        self.apply("first gives up all, dry run", "one&dryRun=All", &self.bare(&[]));
    }

    pub(super) fn quarrels(&mut self) {
        self.apply("conflict", "two", &self.bare(&[("a", "3")]));
        self.apply("conflict, dry run", "two&dryRun=All", &self.bare(&[("a", "3")]));
        self.apply("two conflicts", "two", &self.bare(&[("a", "3"), ("own", "3")]));
        self.apply("shared again", "three", &self.bare(&[("a", "2")]));
        self.apply("conflict with two managers", "four", &self.bare(&[("a", "4")]));
        self.apply("forced, dry run", "four&dryRun=All&force=true", &self.bare(&[("a", "4")]));
        self.apply("forced", "four&force=true", &self.bare(&[("a", "4")]));
        self.get("get after force");
        self.apply("first conflicts with who forced", "one", &self.labelled(&[("a", "2"), ("own", "1")]));
        self.apply("first accepts", "one", &self.labelled(&[("a", "4"), ("own", "1")]));
        self.apply("forced by the first", "one&force=true", &self.labelled(&[("a", "5"), ("own", "1")]));
    }

    pub(super) fn updates_in_between(&mut self) {
        self.get("get before updates");
        self.put("update", "editor", &self.labelled(&[("a", "6"), ("own", "1"), ("edited", "1")]));
        self.get("get after update");
        self.apply("conflict with an update", "one", &self.labelled(&[("a", "5"), ("own", "1")]));
        self.apply("conflict of another with an update", "two", &self.bare(&[("edited", "2")]));
        self.apply("forced over an update", "one&force=true", &self.labelled(&[("a", "5"), ("own", "1")]));
        self.merge("patched", "patcher", r#"{"metadata":{"labels":{"a":"7","patched":"1"}}}"#);
        self.merge("patched again", "patcher", r#"{"metadata":{"labels":{"a":"7","patched":"1"}}}"#);
        self.merge("patched by another", "patcher2", r#"{"metadata":{"labels":{"patched":"2"}}}"#);
        self.apply("conflict with a patch", "one", &self.labelled(&[("a", "5"), ("own", "1")]));
        self.apply("conflict with two patches", "two", &self.bare(&[("a", "5"), ("patched", "5")]));
        self.merge("label removed by a patch", "patcher", r#"{"metadata":{"labels":{"own":null}}}"#);
        self.get("get after the removal");
        self.apply("removed label comes back", "one&force=true", &self.labelled(&[("a", "5"), ("own", "1")]));
        let path = format!("{}?fieldManager=jsonpatcher", self.one);
        self.steps.push(Step::text(
            "JSON patch",
            "PATCH",
            &path,
            JSON_PATCH,
            r#"[{"op":"add","path":"/metadata/labels/json","value":"1"}]"#,
        ));
        let path = format!("{}?fieldManager=strategist", self.one);
        self.steps.push(Step::text(
            "strategic patch",
            "PATCH",
            &path,
            STRATEGIC,
            r#"{"metadata":{"labels":{"json":null,"s":"1"}}}"#,
        ));
        self.merge("without a manager's name", "", r#"{"metadata":{"labels":{"agent":"1"}}}"#);
        self.get("get after patches");
        // An update by the manager that applies is another entry.
        self.merge("patched by who applies", "one", r#"{"metadata":{"labels":{"a":"8"}}}"#);
        self.apply("apply after the own patch", "one", &self.labelled(&[("a", "5"), ("own", "1")]));
        self.apply("apply of the own patch", "one", &self.labelled(&[("a", "8"), ("own", "1")]));
    }

    /// Lists of metadata: a set and a map.
    pub(super) fn metadata(&mut self) {
        let mut owned = self.bare(&[]);
        let lists = json(
            r#"{"finalizers":["example.com/a","example.com/b"],"annotations":{"note":"1"},
            "ownerReferences":[{"apiVersion":"v1","kind":"A","name":"a","uid":"u-1"},
            {"apiVersion":"v1","kind":"B","name":"b","uid":"u-2","controller":true}]}"#,
        );
        for (name, value) in lists.as_map().into_iter().flat_map(|map| map.iter()) {
            owned.map_at(&["metadata"]).set(name.clone(), value.clone());
        }
        self.apply("lists of metadata", "lister", &owned);
        let mut other = self.bare(&[]);
        let finalizers = json(r#"["example.com/c","example.com/a"]"#);
        other.map_at(&["metadata"]).set("finalizers", finalizers);
        let owners = json(r#"[{"apiVersion":"v1","kind":"C","name":"c","uid":"u-2"}]"#);
        other.map_at(&["metadata"]).set("ownerReferences", owners);
        self.apply("lists of another manager", "lister2", &other);
        self.apply("lists of another manager, forced", "lister2&force=true", &other);
        self.get("get with lists");
        self.apply("lists given up", "lister", &self.bare(&[]));
        self.apply("lists given up by the other", "lister2", &self.bare(&[]));
        self.get("get without lists");
    }
}
