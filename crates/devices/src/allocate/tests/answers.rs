//! Answers of kube-scheduler's allocator (v1.36.4, its default gates), recorded: each line a cluster and what it answered.
//!
//! `node`, `labels`, `slices`, `classes`, `claims` and what is `held` go in; `found` (an allocation per claim, ids of shares made
//! equal), `none`, `error` or `onNode` comes out. `DEVICES_ANSWERS` names another file to be compared.

use std::fmt::Write;

use object::Value;

use super::cluster::Cluster;
use crate::allocate::AllocateError;
use crate::testing::json;

pub(super) const RECORDED: &str = include_str!("../answers.jsonl");

#[test]
fn allocations_are_those_of_kube_scheduler() {
    let other = std::env::var("DEVICES_ANSWERS").ok().map(|path| std::fs::read_to_string(path).unwrap());
    let recorded = other.as_deref().unwrap_or(RECORDED);
    let mut differences = String::new();
    let (mut cases, mut different) = (0, 0);
    for line in recorded.lines() {
        let case = json(line);
        let (input, wanted) = (case.get("in").unwrap(), case.get("out").unwrap());
        let answer = answer(&Cluster::parse(input));
        cases += 1;
        if answer != *wanted {
            different += 1;
            let text = |value: &Value| String::from_utf8(codec::json::to_vec(value)).unwrap();
            if different <= 5 {
                let (got, wanted) = (text(&answer), text(wanted));
                writeln!(differences, "line {cases}:\n  got    {got}\n  wanted {wanted}").unwrap();
            }
        }
    }
    assert!(cases > 0);
    assert_eq!(different, 0, "of {cases}:\n{differences}");
}

fn answer(cluster: &Cluster) -> Value {
    let mut answer = Value::map();
    let (name, value) = match cluster.allocate() {
        Ok(Some(found)) => ("found", found.iter().map(|a| a.to_value()).collect::<Vec<_>>().into()),
        Ok(None) => ("none", Value::Bool(true)),
        Err(AllocateError::OnNode(error)) => ("onNode", error.into()),
        Err(AllocateError::Fatal(error)) => ("error", error.into()),
        Err(AllocateError::Interrupted) => ("timeout", Value::Bool(true)),
    };
    answer.make_map().set(name, value);
    answer
}
