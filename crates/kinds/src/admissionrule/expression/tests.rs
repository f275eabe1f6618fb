//! Expressions of webhooks and policies, and what upstream says of them.

use super::{Scope, Use};
use crate::check::{Errors, Path};

fn errors_of(scope: &Scope, of: Use, text: &str) -> Vec<String> {
    let mut errors = Errors::default();
    scope.check(of, text, false, &Path::Root("e"), &mut errors);
    errors.list.iter().map(ToString::to_string).collect()
}

#[test]
fn expressions_see_the_request_and_what_is_written() {
    let scope = Scope::default();
    for fine in [
        "object.spec.replicas <= 5",
        "request.operation == 'CREATE' && request.namespace != 'kube-system'",
        "!('system:nodes' in request.userInfo.groups)",
        "namespaceObject.metadata.labels['env'] == 'prod'",
        "authorizer.group('apps').resource('deployments').check('create').allowed()",
        "authorizer.requestResource.check('custom').allowed()",
    ] {
        assert_eq!(errors_of(&scope, Use::Condition, fine), Vec::<String>::new(), "{fine}");
    }
    assert_eq!(
        errors_of(&scope, Use::Condition, "object.spec.paused"),
        [r#"e: Invalid value: "object.spec.paused": must evaluate to bool but got dyn"#]
    );
    assert_eq!(
        errors_of(&scope, Use::Audit, "1"),
        [r#"e: Invalid value: "1": must evaluate to one of [string null_type] but got int"#]
    );
    assert_eq!(
        errors_of(&scope, Use::Condition, "request.none == ''"),
        [
            "e: Invalid value: \"request.none == ''\": compilation failed: ERROR: <input>:1:8: undefined field 'none'\n \
          | request.none == ''\n | .......^"
        ]
    );
}

#[test]
fn parameters_variables_and_the_authorizer_are_where_they_can_be() {
    let undeclared = |scope: &Scope, of, text: &str| {
        errors_of(scope, of, text).first().is_some_and(|error| error.contains("undeclared reference"))
    };
    assert!(undeclared(&Scope::default(), Use::Condition, "params.limit > 1"));
    assert!(!undeclared(&Scope::with_params(true), Use::Condition, "params.limit > 1"));
    assert!(undeclared(&Scope::default(), Use::Condition, "variables.a == 1"));
    assert!(undeclared(&Scope::default(), Use::Message, "authorizer.path('/x').check('get').reason()"));

    let mut scope = Scope::default().composed();
    let mut errors = Errors::default();
    scope.add("a", "'text'", false, &Path::Root("v"), &mut errors);
    scope.add("b", "variables.a.size()", false, &Path::Root("v"), &mut errors);
    assert!(errors.is_empty());
    assert_eq!(errors_of(&scope, Use::Condition, "variables.b > 1"), Vec::<String>::new());
    let wrong = errors_of(&scope, Use::Condition, "variables.b == 'x'");
    assert!(wrong[0].contains("no matching overload for '_==_' applied to '(int, string)'"), "{wrong:?}");
    assert!(errors_of(&scope, Use::Condition, "variables.c == 1")[0].contains("undefined field 'c'"));
}

#[test]
fn patches_are_made_of_their_own_types() {
    let scope = Scope::default().composed();
    let fine = "Object{spec: Object.spec{replicas: 3}}";
    assert_eq!(errors_of(&scope, Use::ApplyConfiguration, fine), Vec::<String>::new());
    let fine = "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: 1}]";
    assert_eq!(errors_of(&scope, Use::JsonPatch, fine), Vec::<String>::new());
    assert_eq!(
        errors_of(&scope, Use::JsonPatch, "{}"),
        [r#"e: Invalid value: "{}": must evaluate to list(JSONPatch) but got map(dyn, dyn)"#]
    );
    assert!(
        errors_of(&scope, Use::Condition, "Object{} == 1")[0].contains("undeclared reference to 'Object'")
    );
}

/// No clock is read: a quadratic walk over so many would take minutes.
#[test]
fn as_many_variables_as_a_body_holds_are_compiled_one_after_another() {
    let mut scope = Scope::default().composed();
    let mut errors = Errors::default();
    scope.add("v0", "1", false, &Path::Root("v"), &mut errors);
    for i in 1..30_000 {
        let text = format!("variables.v{} + 1", i - 1);
        scope.add(&format!("v{i}"), &text, false, &Path::Root("v"), &mut errors);
    }
    assert!(errors.is_empty());
}
