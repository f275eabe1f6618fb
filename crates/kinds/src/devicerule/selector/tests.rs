//! Expressions over devices, and what upstream says of them.

use super::check;
use crate::check::{Errors, Path};

fn errors_of(expression: &str) -> Vec<String> {
    let mut errors = Errors::default();
    check(expression, false, &Path::Root("e"), &mut errors);
    errors.list.iter().map(ToString::to_string).collect()
}

#[test]
fn selectors_are_boolean_or_unknown() {
    for fine in [
        "true",
        "device.driver == 'dra.example.com'",
        "device.attributes['dra.example.com'].ready",
        "device.attributes['dra.example.com'].model.startsWith('a')",
        "'model' in device.attributes['dra.example.com']",
        "device.capacity['dra.example.com'].memory.isGreaterThan(quantity('10Gi'))",
        "device.capacity['dra.example.com'].memory.compareTo(quantity('10Gi')) >= 0",
        "device.attributes['dra.example.com'].version.isGreaterThan(semver('1.2.3'))",
        "cel.bind(dra, device.attributes['dra.example.com'], dra.one && dra.two)",
        "device.allowMultipleAllocations",
    ] {
        assert_eq!(errors_of(fine), Vec::<String>::new(), "{fine}");
    }
    assert_eq!(
        errors_of("device.driver"),
        [r#"e: Invalid value: "device.driver": must evaluate to bool or the unknown type, not string"#]
    );
    assert_eq!(
        errors_of("1"),
        [r#"e: Invalid value: "1": must evaluate to bool or the unknown type, not int"#]
    );
}

#[test]
fn what_does_not_compile_is_refused_with_the_place() {
    assert_eq!(
        errors_of("noSuchVar"),
        ["e: Invalid value: \"noSuchVar\": compilation failed: ERROR: <input>:1:1: undeclared reference to \
          'noSuchVar' (in container '')\n | noSuchVar\n | ^"]
    );
    assert_eq!(
        errors_of("device.none"),
        [
            "e: Invalid value: \"device.none\": compilation failed: ERROR: <input>:1:7: undefined field 'none'\n \
          | device.none\n | ......^"
        ]
    );
}

#[test]
fn what_may_cost_too_much_is_refused() {
    let nested = "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, device.attributes.all(d, \
                  a + b + c + d != ''))))";
    assert_eq!(errors_of(nested), ["e: Forbidden: too complex, exceeds cost limit"]);
}
