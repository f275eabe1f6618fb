//! The life of one object: every verb, every form of answer, and the ways each can be refused.

use object::Value;

use crate::case::{
    APPLY, JSON, JSON_PATCH, MERGE, PARTIAL, PARTIAL_LIST, STRATEGIC, Scenario, Step, TABLE, YAML, parse,
    text_of,
};
use crate::kinds::{Sample, Target};

pub fn scenario(sample: &Sample, target: &Target) -> Scenario {
    Scenario {
        name: format!("{} life", sample.resource),
        resource: sample.resource.clone(),
        custom: false,
        steps: steps(sample, target),
    }
}

pub fn steps(sample: &Sample, target: &Target) -> Vec<Step> {
    let mut life = Life { sample, target, all: target.collection(), steps: Vec::new() };
    life.births();
    life.reads();
    life.lists();
    life.updates();
    life.patches();
    life.subresources();
    life.deaths();
    life.steps
}

struct Life<'a> {
    sample: &'a Sample,
    target: &'a Target,
    /// The collection's path.
    all: String,
    steps: Vec<Step>,
}

impl Life<'_> {
    fn body(&self, word: &str) -> Value {
        let mut body = self.sample.object(self.target, word);
        body.map_at(&["metadata", "labels"]).set("diff", "life-$NS");
        body
    }

    /// The object with one more member of its metadata.
    fn with_meta(&self, word: &str, name: &'static str, value: Value) -> Value {
        let mut body = self.body(word);
        body.map_at(&["metadata"]).set(name, value);
        body
    }

    fn one(&self, word: &str) -> String {
        format!("{}/{}", self.all, self.sample.name(self.target, word))
    }

    fn get(&mut self, name: &str, path: String) {
        self.steps.push(Step::new(name, "GET", path));
    }

    fn view(&mut self, name: &str, path: String, accept: &str) {
        self.steps.push(Step::new(name, "GET", path).accept(accept));
    }

    fn post(&mut self, name: &str, query: &str, body: &Value) {
        self.steps.push(Step::with(name, "POST", format!("{}{query}", self.all), body));
    }

    fn put(&mut self, name: &str, path: String, body: &Value) {
        self.steps.push(Step::with(name, "PUT", path, body));
    }

    fn patch(&mut self, name: &str, path: String, kind: &str, body: &str) {
        self.steps.push(Step::text(name, "PATCH", path, kind, body));
    }

    fn delete(&mut self, name: &str, path: String, options: &str) {
        self.steps.push(match options {
            "" => Step::new(name, "DELETE", path),
            options => Step::text(name, "DELETE", path, JSON, options),
        });
    }

    fn births(&mut self) {
        let body = self.body("a");
        self.post("create dry run", "?dryRun=All", &body);
        self.post("create with a bad dryRun", "?dryRun=Some", &body);
        self.post("create with a bad fieldValidation", "?fieldValidation=Never", &body);
        self.post("create with a long field manager", &format!("?fieldManager={}", "m".repeat(129)), &body);
        let mut odd = body.clone();
        odd.make_map().set("bogus", 1);
        odd.map_at(&["metadata"]).set("strange", true);
        for how in ["Strict", "Warn", "Ignore"] {
            self.post(
                &format!("create with unknown fields, {how}"),
                &format!("?dryRun=All&fieldValidation={how}"),
                &odd,
            );
        }
        // A name twice in one object.
        let twice = text_of(&body).replacen('{', r#"{"kind":"Twice","#, 1);
        for how in ["Strict", "Warn"] {
            let path = format!("{}?dryRun=All&fieldValidation={how}", self.all);
            self.steps.push(Step::text(
                format!("create with a field twice, {how}"),
                "POST",
                path,
                JSON,
                twice.clone(),
            ));
        }
        let empty = self.all.clone();
        self.steps.push(Step::text("create from nothing", "POST", &empty, JSON, ""));
        self.steps.push(Step::text("create from an empty object", "POST", &empty, JSON, "{}"));
        self.steps.push(Step::text("create from a list", "POST", &empty, JSON, "[]"));
        self.steps.push(Step::text("create from broken JSON", "POST", &empty, JSON, r#"{"metadata":"#));
        self.steps.push(Step::text("create from text", "POST", &empty, "text/plain", "hello"));
        let dry = format!("{}?dryRun=All", self.all);
        self.steps.push(Step::text("create from YAML", "POST", &dry, YAML, text_of(&body)));
        for (what, group, kind) in [
            ("another kind", self.target.api_version.clone(), "Nonsense".to_owned()),
            ("another group", "nonsense/v1".to_owned(), self.target.kind.clone()),
        ] {
            let mut other = body.clone();
            other.make_map().set("apiVersion", group);
            other.make_map().set("kind", kind);
            self.post(&format!("create of {what}"), "?dryRun=All", &other);
        }
        for (what, name) in [
            ("upper case", "Bad_Name"),
            ("too long", &*"n".repeat(254)),
            ("a slash", "a/b"),
            ("dots", "a..b"),
        ] {
            let bad = self.with_meta("a", "name", name.into());
            self.post(&format!("create with a bad name, {what}"), "?dryRun=All", &bad);
        }
        let mut nameless = body.clone();
        nameless.map_at(&["metadata"]).remove("name");
        self.post("create without a name", "?dryRun=All", &nameless);
        nameless.map_at(&["metadata"]).set("generateName", "Bad_");
        self.post("create with a bad generateName", "?dryRun=All", &nameless);
        let odd_meta = parse(
            r#"{"labels":{"a/b/c":"x"},"annotations":{"bad key":"v"},"finalizers":["nonsense","a/b/c"],
            "ownerReferences":[{"apiVersion":"v1","kind":"","name":"","uid":""},
            {"apiVersion":"v1","kind":"Event","name":"e","uid":"u"}]}"#,
        );
        let mut bad = body.clone();
        for (name, value) in odd_meta.as_ref().and_then(Value::as_map).into_iter().flat_map(|m| m.iter()) {
            bad.map_at(&["metadata"]).set(name.clone(), value.clone());
        }
        self.post("create with bad metadata", "?dryRun=All", &bad);
        let mut bad = body.clone();
        bad.map_at(&["metadata", "labels"]).set("diff", "not ok!");
        self.post("create with a bad label", "?dryRun=All", &bad);
        let bad = self.with_meta("a", "resourceVersion", "5".into());
        self.post("create with a resourceVersion", "?dryRun=All", &bad);
        let bad = self.with_meta("a", "namespace", "elsewhere".into());
        self.post("create in another namespace", "?dryRun=All", &bad);
        let given = parse(
            r#"{"uid":"5a5f7f3e-0000-4000-8000-000000000000","creationTimestamp":"2020-01-01T00:00:00Z","generation":7,
            "selfLink":"/x","deletionTimestamp":"2020-01-01T00:00:00Z","deletionGracePeriodSeconds":5}"#,
        );
        let mut forged = body.clone();
        for (name, value) in given.as_ref().and_then(Value::as_map).into_iter().flat_map(|m| m.iter()) {
            forged.map_at(&["metadata"]).set(name.clone(), value.clone());
        }
        self.post("create with the server's fields", "?dryRun=All", &forged);
        if let Some(status) = &self.sample.status {
            let mut with_status = body.clone();
            with_status.make_map().set("status", status.clone());
            self.post("create with a status", "?dryRun=All", &with_status);
        }
        self.post("create", "", &body);
        self.post("create again", "", &body);
        if !self.sample.names_are_given() {
            let mut generated = self.body("g");
            generated.map_at(&["metadata"]).remove("name");
            generated.map_at(&["metadata"]).set("generateName", "$RUN-g-");
            generated.map_at(&["metadata", "labels"]).set("diff", "generated-$NS");
            self.post("create with generateName", "", &generated);
        }
    }

    fn reads(&mut self) {
        let one = self.one("a");
        self.get("get", one.clone());
        self.get("get of the missing", self.one("missing"));
        self.view("get as Table", one.clone(), TABLE);
        self.view("get as Table without objects", format!("{one}?includeObject=None"), TABLE);
        self.view("get as Table with whole objects", format!("{one}?includeObject=Object"), TABLE);
        self.view("get as metadata", one.clone(), PARTIAL);
        self.view("get as YAML", one.clone(), YAML);
        self.view("get as nonsense", one.clone(), "application/nonsense");
        self.view("get of the missing as Table", self.one("missing"), TABLE);
        self.get("get with an old resourceVersion", format!("{one}?resourceVersion=0"));
        self.get("get with a bad resourceVersion", format!("{one}?resourceVersion=x"));
        self.steps.push(Step::new("an unknown subresource", "GET", format!("{one}/nonsense")));
        self.steps.push(Step::with("post to an object", "POST", one, &self.body("a")));
    }

    fn lists(&mut self) {
        let all = format!("{}?labelSelector=diff%3Dlife-$NS", self.all);
        self.get("list", all.clone());
        self.view("list as Table", all.clone(), TABLE);
        self.view("list as metadata", all.clone(), PARTIAL_LIST);
        self.view("list as YAML", all.clone(), YAML);
        self.get("list of nothing", format!("{}?labelSelector=diff%3Dnothing", self.all));
        self.view("list of nothing as Table", format!("{}?labelSelector=diff%3Dnothing", self.all), TABLE);
        for (what, query) in [
            ("limit 1", "&limit=1"),
            ("a bad limit", "&limit=x"),
            ("a negative limit", "&limit=-1"),
            ("resourceVersion 0", "&resourceVersion=0"),
            ("a match without a version", "&resourceVersionMatch=Exact"),
            ("a bad match", "&resourceVersion=1&resourceVersionMatch=Sometimes"),
            ("a bad continue", "&continue=nonsense"),
            ("a name as field", "&fieldSelector=metadata.name%3Dnothing"),
            ("an unknown field", "&fieldSelector=spec.nonsense%3Da"),
            ("a broken field selector", "&fieldSelector=nonsense"),
        ] {
            self.get(&format!("list with {what}"), format!("{all}{query}"));
        }
        self.get("list with a broken label selector", format!("{}?labelSelector=a%20b%20c", self.all));
    }

    fn updates(&mut self) {
        let one = self.one("a");
        let mut changed = self.body("a");
        changed.map_at(&["metadata", "labels"]).set("changed", "yes");
        self.put("update without a version", format!("{one}?dryRun=All"), &changed);
        let mut versioned = changed.clone();
        versioned.map_at(&["metadata"]).set("resourceVersion", "$RV");
        self.get("get before update", one.clone());
        self.put("update dry run", format!("{one}?dryRun=All"), &versioned);
        self.put("update", one.clone(), &versioned);
        self.get("get after update", one.clone());
        versioned.map_at(&["metadata"]).set("resourceVersion", "$RV1");
        self.put("update with a stale version", one.clone(), &versioned);
        versioned.map_at(&["metadata"]).set("resourceVersion", "x");
        self.put("update with a bad version", one.clone(), &versioned);
        versioned.map_at(&["metadata"]).set("resourceVersion", "$RV");
        versioned.map_at(&["metadata"]).set("uid", "5a5f7f3e-0000-4000-8000-000000000000");
        self.put("update with another uid", one.clone(), &versioned);
        self.put("update under another name", one.clone(), &self.body("b"));
        self.put(
            "update of the missing",
            format!("{}?dryRun=All", self.one("missing")),
            &self.body("missing"),
        );
        let mut versioned = self.body("missing");
        versioned.map_at(&["metadata"]).set("resourceVersion", "$RV");
        self.put("update of the missing with a version", self.one("missing"), &versioned);
        let dry = format!("{one}?dryRun=All");
        self.steps.push(Step::text("update from nothing", "PUT", &dry, JSON, ""));
        self.steps.push(Step::text("update from an empty object", "PUT", &dry, JSON, "{}"));
        let mut finalizers = changed;
        finalizers.map_at(&["metadata"]).set("resourceVersion", "$RV");
        finalizers.map_at(&["metadata"]).set("finalizers", parse(r#"["nonsense"]"#).unwrap_or(Value::Null));
        self.put("update with a bad finalizer", one, &finalizers);
    }

    fn patches(&mut self) {
        let one = self.one("a");
        let label = r#"{"metadata":{"labels":{"patched":"yes"}}}"#;
        self.patch("merge patch", one.clone(), MERGE, label);
        self.patch("merge patch again", one.clone(), MERGE, label);
        self.patch(
            "strategic patch",
            one.clone(),
            STRATEGIC,
            r#"{"metadata":{"labels":{"patched":null,"more":"1"}}}"#,
        );
        self.patch(
            "JSON patch",
            one.clone(),
            JSON_PATCH,
            r#"[{"op":"add","path":"/metadata/labels/json","value":"1"}]"#,
        );
        let dry = format!("{one}?dryRun=All");
        for (what, kind, body) in [
            ("merge patch of a list", MERGE, "[]"),
            ("merge patch of broken JSON", MERGE, "{"),
            ("merge patch of the name", MERGE, r#"{"metadata":{"name":"other"}}"#),
            (
                "merge patch of the uid",
                MERGE,
                r#"{"metadata":{"uid":"5a5f7f3e-0000-4000-8000-000000000000"}}"#,
            ),
            (
                "merge patch with a stale version",
                MERGE,
                r#"{"metadata":{"resourceVersion":"$RV1","labels":{"x":"y"}}}"#,
            ),
            ("merge patch of the kind", MERGE, r#"{"kind":"Nonsense"}"#),
            ("merge patch of a label to a number", MERGE, r#"{"metadata":{"labels":{"n":1}}}"#),
            ("merge patch of labels to text", MERGE, r#"{"metadata":{"labels":"x"}}"#),
            ("merge patch with a bad label", MERGE, r#"{"metadata":{"labels":{"bad key!":"x"}}}"#),
            ("merge patch with an unknown field", MERGE, r#"{"metadata":{"strange":1},"bogus":{}}"#),
            ("merge patch of everything to null", MERGE, r#"{"metadata":null,"spec":null,"data":null}"#),
            ("strategic patch with a bad directive", STRATEGIC, r#"{"metadata":{"$patch":"nonsense"}}"#),
            (
                "strategic patch that replaces labels",
                STRATEGIC,
                r#"{"metadata":{"labels":{"$patch":"replace","only":"1"}}}"#,
            ),
            (
                "strategic patch that deletes labels",
                STRATEGIC,
                r#"{"metadata":{"labels":{"$patch":"delete"}}}"#,
            ),
            ("strategic patch of finalizers", STRATEGIC, r#"{"metadata":{"finalizers":["example.com/a"]}}"#),
            ("strategic patch of labels to text", STRATEGIC, r#"{"metadata":{"labels":"x"}}"#),
            (
                "JSON patch with a failing test",
                JSON_PATCH,
                r#"[{"op":"test","path":"/metadata/labels/diff","value":"no"}]"#,
            ),
            (
                "JSON patch of a missing path",
                JSON_PATCH,
                r#"[{"op":"remove","path":"/metadata/labels/none"}]"#,
            ),
            ("JSON patch with a bad op", JSON_PATCH, r#"[{"op":"dance","path":"/metadata"}]"#),
            ("JSON patch of an object", JSON_PATCH, "{}"),
            ("patch of an unknown type", "application/nonsense", "{}"),
            ("patch without fields", MERGE, "{}"),
        ] {
            self.patch(what, dry.clone(), kind, body);
        }
        self.patch(
            "strict merge patch with an unknown field",
            format!("{dry}&fieldValidation=Strict"),
            MERGE,
            r#"{"metadata":{"strange":1},"bogus":{}}"#,
        );
        self.patch("patch of the missing", self.one("missing"), MERGE, label);
        let mut applied = self.body("a");
        applied.map_at(&["metadata", "labels"]).set("applied", "yes");
        self.patch("apply without a manager", one.clone(), APPLY, &text_of(&applied));
        self.patch("apply", format!("{one}?fieldManager=diff&dryRun=All"), APPLY, &text_of(&applied));
        self.patch(
            "apply of a new object",
            format!("{}?fieldManager=diff&dryRun=All", self.one("applied")),
            APPLY,
            &text_of(&self.body("applied")),
        );
    }

    fn subresources(&mut self) {
        let one = self.one("a");
        if self.target.status {
            let path = format!("{one}/status");
            let mut body = self.body("a");
            body.map_at(&["metadata"]).set("resourceVersion", "$RV");
            body.make_map().set("status", self.sample.status.clone().unwrap_or(Value::map()));
            self.get("get status", path.clone());
            self.put("update status", path.clone(), &body);
            self.get("get after the status update", one.clone());
            self.view("get as Table after the status update", one.clone(), TABLE);
            self.patch(
                "merge patch of status",
                format!("{path}?dryRun=All"),
                MERGE,
                r#"{"status":{"conditions":[]},"spec":null}"#,
            );
            self.patch("status of a wrong type", format!("{path}?dryRun=All"), MERGE, r#"{"status":"x"}"#);
            self.patch("strategic patch of status", format!("{path}?dryRun=All"), STRATEGIC,
                r#"{"metadata":{"labels":{"by":"status"}},"status":{"conditions":[{"type":"New","status":"False","reason":"N","message":"","lastTransitionTime":"2020-02-02T00:00:00Z"}]}}"#);
        } else {
            self.get("get status where there is none", format!("{one}/status"));
        }
        if self.target.scale {
            let path = format!("{one}/scale");
            self.get("get scale", path.clone());
            let name = self.sample.name(self.target, "a");
            let scale = |replicas: &str| {
                format!(
                    r#"{{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{{"name":"{name}","namespace":"$NS"}},"spec":{{"replicas":{replicas}}}}}"#
                )
            };
            for (what, replicas) in [("5", "5"), ("a negative number", "-1"), ("text", "\"x\"")] {
                self.steps.push(Step::text(format!("scale to {what}"), "PUT", &path, JSON, scale(replicas)));
            }
            self.patch("merge patch of scale", path.clone(), MERGE, r#"{"spec":{"replicas":2}}"#);
            self.get("get after scale", one.clone());
        }
    }

    fn deaths(&mut self) {
        let one = self.one("a");
        for (what, options) in [
            ("another uid", r#"{"preconditions":{"uid":"5a5f7f3e-0000-4000-8000-000000000000"}}"#),
            ("a stale version", r#"{"preconditions":{"resourceVersion":"$RV1"}}"#),
            ("a bad propagation", r#"{"propagationPolicy":"Sideways"}"#),
            ("two propagations", r#"{"propagationPolicy":"Orphan","orphanDependents":true}"#),
            ("a negative grace period", r#"{"gracePeriodSeconds":-5,"dryRun":["All"]}"#),
            ("a bad dry run", r#"{"dryRun":["Some"]}"#),
            ("broken options", r#"{"preconditions":"#),
            ("options of another kind", r#"{"kind":"Nonsense","apiVersion":"v1","dryRun":["All"]}"#),
        ] {
            self.delete(&format!("delete with {what}"), one.clone(), options);
        }
        self.delete("delete dry run", format!("{one}?dryRun=All"), "");
        self.delete(
            "delete in the foreground, dry",
            format!("{one}?dryRun=All&propagationPolicy=Foreground"),
            "",
        );
        self.delete("delete of the missing", self.one("missing"), "");
        self.patch("finalizer", one.clone(), MERGE, r#"{"metadata":{"finalizers":["example.com/keep"]}}"#);
        self.delete("delete with a finalizer", one.clone(), "");
        self.get("get while dying", one.clone());
        self.view("get as Table while dying", one.clone(), TABLE);
        self.delete("delete while dying", one.clone(), "");
        self.patch(
            "new finalizer while dying",
            one.clone(),
            MERGE,
            r#"{"metadata":{"finalizers":["example.com/keep","example.com/more"]}}"#,
        );
        self.patch("last finalizer", one.clone(), MERGE, r#"{"metadata":{"finalizers":null}}"#);
        self.delete("delete for good", one.clone(), r#"{"gracePeriodSeconds":0}"#);
        self.get("get after delete", one);
        if self.target.delete_collection {
            let all = format!("{}?labelSelector=diff%3Dgenerated-$NS", self.all);
            self.delete("delete collection dry run", format!("{all}&dryRun=All"), "");
            self.delete("delete collection", all.clone(), r#"{"gracePeriodSeconds":0}"#);
            self.get("list after delete collection", all);
        } else {
            self.delete("delete collection where it is not allowed", self.all.clone(), "");
        }
    }
}
