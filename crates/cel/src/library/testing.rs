//! Tables of expressions for the libraries' tests.

use crate::cost::{Range, estimate};
use crate::environment::{Environment, EnvironmentSet, Version};

fn environment() -> Environment {
    EnvironmentSet::of(Version(1, 36)).new_expressions
}

/// What expressions come to, or fail with.
pub fn answers(cases: &[(&str, &str)]) {
    let env = environment();
    for (expression, wanted) in cases {
        let checked = env.compile(expression).unwrap_or_else(|issues| panic!("{issues}"));
        let program = env.program(&checked).unwrap_or_else(|error| panic!("{expression}: {error}"));
        let evaluation = program.eval(&());
        let got = evaluation.result.map_or_else(|error| error.to_string(), |value| value.to_string());
        assert_eq!(got, *wanted, "{expression}");
    }
}

/// What running expressions costs.
pub fn costs(cases: &[(&str, u64)]) {
    let env = environment();
    for (expression, wanted) in cases {
        let checked = env.compile(expression).unwrap_or_else(|issues| panic!("{issues}"));
        let program = env.program(&checked).unwrap_or_else(|error| panic!("{expression}: {error}"));
        assert_eq!(program.eval(&()).cost, *wanted, "{expression}");
    }
}

/// What running expressions is estimated to cost.
pub fn estimates(cases: &[(&str, u64, u64)]) {
    let env = environment();
    for &(expression, min, max) in cases {
        let checked = env.compile(expression).unwrap_or_else(|issues| panic!("{issues}"));
        assert_eq!(estimate(&env, &checked, &()), Range { min, max }, "{expression}");
    }
}

/// What expressions are refused with, and in which column.
pub fn refusals(cases: &[(&str, i32, &str)]) {
    let env = environment();
    for &(expression, column, wanted) in cases {
        let issues = env.compile(expression).expect_err(expression);
        let issue = issues.iter().next().unwrap();
        assert_eq!((issue.location.column + 1, issue.message.as_str()), (column, wanted), "{expression}");
    }
}
