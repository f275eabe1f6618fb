//! Applies of status and scale, and what the main resource may say of them.

use object::Value;

use super::{Applies, json};
use crate::case::{JSON, MERGE, Step, text_of};

impl Applies<'_> {
    pub(super) fn subresources(&mut self) {
        if self.target.status {
            self.status();
        } else {
            let body = text_of(&self.bare(&[]));
            self.apply_to("status where there is none", "/status", "one&dryRun=All", body);
        }
        if self.target.scale {
            self.scale();
        }
    }

    fn status(&mut self) {
        let with_status = |mut body: Value, status: Value| {
            body.make_map().set("status", status);
            text_of(&body)
        };
        let status = self.sample.status.clone().unwrap_or(Value::map());
        let whole = with_status(self.bare(&[]), status.clone());
        self.apply_to("status", "/status", "stat", whole.clone());
        self.apply_to("status again", "/status", "stat", whole.clone());
        self.get("get after status");
        self.apply_to(
            "status with a label",
            "/status",
            "stat&dryRun=All",
            with_status(self.bare(&[("st", "1")]), status.clone()),
        );
        let spec = with_status(self.labelled(&[("a", "4")]), status.clone());
        self.apply_to("status with a spec", "/status", "stat2&dryRun=All&force=true", spec.clone());
        self.apply_to("status by the main resource", "", "main&dryRun=All&force=true", spec);
        self.apply_to("status of another manager", "/status", "stat2", whole.clone());
        self.apply_to("status given up", "/status", "stat2", text_of(&self.bare(&[])));
        let condition = r#"{"conditions":[{"type":"Other","status":"False","reason":"R","message":"m","lastTransitionTime":"2020-01-01T00:00:00Z"}]}"#;
        self.apply_to(
            "one condition by another",
            "/status",
            "stat3&dryRun=All",
            with_status(self.bare(&[]), json(condition)),
        );
        for (what, status) in [
            ("null", "null"),
            ("text", r#""x""#),
            ("nothing", "{}"),
            ("unknown fields", r#"{"nonsense":{"a":[1]}}"#),
            ("a condition without a type", r#"{"conditions":[{"status":"False"}]}"#),
            (
                "a condition twice",
                r#"{"conditions":[{"type":"A","status":"False"},{"type":"A","status":"True"}]}"#,
            ),
            ("conditions of null", r#"{"conditions":null}"#),
        ] {
            let body = with_status(self.bare(&[]), json(status));
            self.apply_to(format!("status of {what}"), "/status", "stat4&dryRun=All", body);
        }
        let missing = format!("{}x/status?fieldManager=stat", self.one);
        let mut body = self.bare(&[]);
        let name = format!("{}x", self.sample.name(self.target, &self.word));
        body.map_at(&["metadata"]).set("name", name);
        self.steps.push(Step::text(
            "status of the missing",
            "PATCH",
            missing,
            crate::case::APPLY,
            text_of(&body),
        ));
        let path = format!("{}/status?fieldManager=statpatch", self.one);
        self.steps.push(Step::text(
            "merge patch of status",
            "PATCH",
            path,
            MERGE,
            format!(r#"{{"status":{condition}}}"#),
        ));
        self.get("get after the patch of status");
        self.apply_to("status after the patch", "/status", "stat", whole);
    }

    fn scale(&mut self) {
        let name = self.sample.name(self.target, &self.word);
        let scale = |replicas: &str| {
            format!(
                r#"{{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{{"name":"{name}","namespace":"$NS"}},"spec":{{{replicas}}}}}"#
            )
        };
        let with_replicas = |applies: &Self, replicas: i64| {
            let mut body = applies.bare(&[]);
            body.map_at(&["spec"]).set("replicas", replicas);
            body
        };
        self.apply("replicas", "main&force=true", &with_replicas(self, 2));
        self.steps.push(Step::new("get scale", "GET", format!("{}/scale", self.one)));
        self.apply_to("scale, a conflict", "/scale", "scaler", scale(r#""replicas":3"#));
        if self.target.custom {
            // kube-apiserver cannot: what follows would differ for that alone.
            self.apply_to(
                "scale of a custom resource",
                "/scale",
                "scaler&dryRun=All&force=true",
                scale(r#""replicas":3"#),
            );
            return;
        }
        self.apply_to("scale, dry run", "/scale", "scaler&dryRun=All&force=true", scale(r#""replicas":3"#));
        self.apply_to("scale", "/scale", "scaler&force=true", scale(r#""replicas":3"#));
        self.apply_to("scale again", "/scale", "scaler", scale(r#""replicas":3"#));
        self.get("get after scale");
        self.apply("replicas after scale", "main", &with_replicas(self, 2));
        self.apply("same replicas after scale", "main", &with_replicas(self, 3));
        self.get("get with shared replicas");
        self.apply_to("scale given up", "/scale", "scaler", scale(""));
        self.get("get after scale was given up");
        for (what, replicas) in [
            ("text", r#""replicas":"x""#),
            ("a negative number", r#""replicas":-1"#),
            ("null", r#""replicas":null"#),
            ("an unknown field", r#""replicas":1,"nonsense":1"#),
        ] {
            self.apply_to(
                format!("scale to {what}"),
                "/scale",
                "scaler&dryRun=All&force=true",
                scale(replicas),
            );
        }
        let other = scale(r#""replicas":1"#).replace("autoscaling/v1", "apps/v1");
        self.apply_to("scale of another version", "/scale", "scaler&dryRun=All", other);
        let path = format!("{}/scale?fieldManager=putter", self.one);
        self.steps.push(Step::text("update of scale", "PUT", path, JSON, scale(r#""replicas":4"#)));
        let path = format!("{}/scale?fieldManager=patcher", self.one);
        self.steps.push(Step::text(
            "merge patch of scale",
            "PATCH",
            path,
            MERGE,
            r#"{"spec":{"replicas":5}}"#,
        ));
        self.get("get after scales");
        self.steps.push(Step::new("get scale after scales", "GET", format!("{}/scale", self.one)));
        self.apply("replicas after scales", "main", &with_replicas(self, 2));
        self.apply("replicas, forced", "main&force=true", &with_replicas(self, 2));
        self.apply("replicas given up", "main", &self.bare(&[]));
        self.get("get after replicas were given up");
    }
}
