//! The feature gates of Kubernetes v1.36. Each is as it is there by default: nothing is built for those that are off.

const GATES: &str = include_str!("../data/feature_gates.txt");

/// `None`: there is no such gate.
pub fn is_on(gate: &str) -> Option<bool> {
    let signed = |line: &'static str| line.split_at_checked(1);
    let (sign, _) = GATES.lines().filter_map(signed).find(|(_, name)| *name == gate)?;
    Some(sign == "+")
}
