//! What upstream says of expressions that do not fit the types of what they are about.

use catalog::Catalog;

use super::*;

struct BuiltIns(Catalog);

impl Kinds for BuiltIns {
    fn kinds_for(&self, group: &str, version: &str, resource: &str) -> Vec<GroupVersionKind> {
        let found = self.0.find(group, version, resource);
        let kind = |resource: &Arc<catalog::Resource>| GroupVersionKind {
            group: resource.group.to_string(),
            version: resource.version.to_string(),
            kind: resource.kind.to_string(),
        };
        found.map(kind).into_iter().collect()
    }
    fn object_type(&self, kind: &GroupVersionKind) -> Option<ObjectType> {
        let ty = self.0.find_type(&kind.group, &kind.version, &kind.kind)?;
        Some(ObjectType::BuiltIn(self.0.types().clone(), ty))
    }
}

fn warnings(rules: &str, rest: &str) -> Vec<(String, String)> {
    let spec = format!(r#"{{"matchConstraints":{{"resourceRules":[{rules}]}},{rest}}}"#);
    let spec = codec::json::parse(spec.as_bytes(), None).expect("JSON");
    let found = type_check(&spec, &BuiltIns(Catalog::builtin()));
    found.into_iter().map(|warning| (warning.field_ref, warning.warning)).collect()
}

const DEPLOYMENTS: &str =
    r#"{"apiGroups":["apps"],"apiVersions":["v1"],"operations":["*"],"resources":["deployments"]}"#;

#[test]
fn fields_that_do_not_exist_are_reported_with_the_kind() {
    let found = warnings(
        DEPLOYMENTS,
        r#""validations":[{"expression":"object.spec.replicas > 1"},{"expression":"object.foo > 1","messageExpression":"string(object.spec.bar)"}]"#,
    );
    let (field, warning) = &found[0];
    assert_eq!(field, "spec.validations[1].expression");
    assert_eq!(
        warning,
        "apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'foo'\n | object.foo > 1\n | ......^\n"
    );
    assert_eq!(found[1].0, "spec.validations[1].messageExpression");
    assert_eq!(found.len(), 2);
}

#[test]
fn types_of_fields_variables_and_parameters_are_known() {
    let ok = r#""paramKind":{"apiVersion":"v1","kind":"ConfigMap"},"variables":[{"name":"r","expression":"object.spec.replicas"}],"validations":[
        {"expression":"variables.r <= int(params.data['max'])"},
        {"expression":"object.spec.template.spec.containers.all(c, c.image.startsWith('x') && c.ports.all(p, p.containerPort > 1))"},
        {"expression":"object.metadata.labels['a'] == 'b' && object.metadata.creationTimestamp < timestamp('2030-01-01T00:00:00Z')"},
        {"expression":"object.spec.strategy.rollingUpdate.maxSurge == 1 || object.spec.strategy.rollingUpdate.maxSurge == '1'"},
        {"expression":"authorizer.path('/x').check('get').allowed() && request.operation == 'CREATE'"}]"#;
    assert_eq!(warnings(DEPLOYMENTS, ok), []);
    for wrong in [
        "variables.r == 'text'",
        "params.data.max > 1",
        "params.nothing == 1",
        "object.spec.replicas == 'x'",
        "object.spec.template.spec.containers[0].resources.limits['cpu'] == '1'",
        "authorizer.requestResource.check('get').allowed()",
    ] {
        let rest = format!(
            r#""paramKind":{{"apiVersion":"v1","kind":"ConfigMap"}},"variables":[{{"name":"r","expression":"object.spec.replicas"}}],"validations":[{{"expression":"{wrong}"}}]"#
        );
        assert_eq!(warnings(DEPLOYMENTS, &rest).len(), 1, "{wrong}");
    }
}

#[test]
fn rules_with_wildcards_are_about_no_type() {
    let any = r#"{"apiGroups":["*"],"apiVersions":["v1"],"operations":["*"],"resources":["deployments"]}"#;
    assert_eq!(warnings(any, r#""validations":[{"expression":"object.foo == 1"}]"#), []);
    let sub = r#"{"apiGroups":["apps"],"apiVersions":["v1"],"operations":["*"],"resources":["deployments/scale","*"]}"#;
    assert_eq!(warnings(sub, r#""validations":[{"expression":"object.foo == 1"}]"#), []);
}

#[test]
fn kinds_are_sorted_and_each_is_reported() {
    let two =
        r#"{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],"resources":["pods","configmaps"]},"#;
    let found = warnings(
        &format!("{two}{DEPLOYMENTS}"),
        r#""validations":[{"expression":"object.spec.replicas > 1"}]"#,
    );
    let kinds: Vec<&str> = found[0].1.split("ERROR").collect();
    assert!(kinds[0].starts_with("/v1, Kind=ConfigMap: "), "{found:?}");
    assert!(kinds[1].contains("\n/v1, Kind=Pod: "), "{found:?}");
    assert_eq!(kinds.len(), 3);
}
