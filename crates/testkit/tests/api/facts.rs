//! Checks of facts that are told for many kinds: a failure is returned, and all of them are reported at the end.

/// A check that names itself in the failure.
macro_rules! check {
    ($condition:expr, $($told:tt)+) => {
        if !$condition {
            return Err(format!("line {}: {}", line!(), format!($($told)+)));
        }
    };
}

macro_rules! same {
    ($got:expr, $want:expr, $($told:tt)+) => {{
        let (got, want) = (&$got, &$want);
        if got != want {
            let told = format!($($told)+);
            return Err(format!("line {}: {told}\n    got  {got:?}\n    want {want:?}", line!()));
        }
    }};
}
