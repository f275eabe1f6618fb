//! What expressions may use.

/// A version of Kubernetes: major and minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32);

/// Parts of the language that came later, or that Kubernetes switches on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// `1 < 2.0`.
    CrossTypeNumericComparisons,
    /// `a.?b`, `a[?k]`, `[?x]`, `{?k: v}` and the macros of optional values.
    OptionalSyntax,
    /// `all`, `exists` and `existsOne` with two variables, `transformList`, `transformMap`, `transformMapEntry`.
    TwoVariableComprehensions,
    /// Constant durations, timestamps, patterns and literals are validated with the expression.
    LiteralValidation,
}

pub struct Environment {}
pub struct EnvironmentSet {}
