//! What the recorded cases do not show: limits, and where nodes are.

use super::*;

fn failure(text: &str) -> String {
    parse(text, Syntax::default()).map(|_| String::new()).unwrap_or_else(|issues| issues.to_string())
}

#[test]
fn nesting_is_bounded() {
    let nested = |levels: usize| format!("{}1{}", "(".repeat(levels), ")".repeat(levels));
    assert!(parse(&nested(249), Syntax::default()).is_ok());
    assert_eq!(failure(&nested(250)), "ERROR: <input>:-1:0: expression recursion limit exceeded: 250");
    let sum = |terms: usize| vec!["1"; terms].join(" + ");
    assert!(parse(&sum(251), Syntax::default()).is_ok());
    assert!(failure(&sum(252)).contains("max recursion depth exceeded"));
    let long = |terms: usize| vec!["a"; terms].join(" && ");
    assert!(parse(&long(10_000), Syntax::default()).is_ok(), "logical operators make a balanced tree");
}

#[test]
fn length_is_bounded() {
    let text = "'".to_owned() + &"é".repeat(MAX_LENGTH) + "'";
    assert!(failure(&text).contains("expression code point size exceeds limit: size: 100002, limit 100000"));
}

#[test]
fn columns_count_characters() {
    let message = failure("'日本' +");
    assert!(message.starts_with("ERROR: <input>:1:7:"), "{message}");
    assert!(message.ends_with("\n | '日本' +\n | .．．...^"), "{message}");
}

#[test]
fn what_macros_replace_has_no_place() {
    let ast = parse("[1].all(x, x > 0)", Syntax::default()).unwrap();
    let mut nodes = vec![&ast.root];
    while let Some(node) = nodes.pop() {
        assert!(ast.location(node.id).is_some(), "{node:?}");
        node.children(&mut |child| nodes.push(child));
    }
}
