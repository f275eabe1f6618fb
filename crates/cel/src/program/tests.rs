//! What the recorded cases do not show: limits, large values, variables on demand.

use std::sync::Arc;

use super::*;
use crate::environment::{EnvironmentSet, Version};
use crate::types::Type;
use crate::value::{Map, Mapper, OwnedMap};

fn program(text: &str, variables: &[(&'static str, Type)]) -> Program {
    let env = EnvironmentSet::of(Version(1, 35))
        .stored_expressions
        .extend(variables.iter().map(|(name, ty)| ((*name).into(), ty.clone())), None);
    let checked = env.compile(text).unwrap_or_else(|issues| panic!("{issues}"));
    env.program(&checked).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn programs_are_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&Arc::new(program("1 + 1", &[])));
}

#[test]
fn the_limit_ends_an_evaluation_that_nothing_absorbs() {
    let program = program("l.exists(x, x == 1) || true", &[("l", Type::list(Type::Int))]);
    let list = Val::list((0..1000).map(|_| Val::Int(0)).collect());
    let variables = Variables::new().with("l", list);
    assert!(program.eval(&variables).result.is_ok());
    let evaluation = program.eval_within(&variables, 100);
    let error = evaluation.result.unwrap_err();
    assert_eq!(error.to_string(), "operation cancelled: actual cost limit exceeded");
    assert!(error.is_fatal());
    assert!((101..110).contains(&evaluation.cost), "{}", evaluation.cost);
}

#[test]
fn members_of_large_maps_are_found() {
    let members = (0..5000).map(|i| (format!("key-{i}").into(), object::Value::Int(i)));
    let object = object::Value::Map(members.collect());
    let program = program(
        "m.all(k, k in m && m[k] >= 0) && m['key-4999'] == 4999 && !('nope' in m) && m == n",
        &[("m", Type::map(Type::String, Type::Int)), ("n", Type::map(Type::String, Type::Int))],
    );
    let variables = Variables::new().with("m", Val::dynamic(&object)).with("n", Val::dynamic(&object));
    assert!(matches!(program.eval(&variables).result, Ok(Val::Bool(true))));
}

#[test]
fn maps_of_expressions_find_every_kind_of_key() {
    let map: OwnedMap<'_> = (0..20)
        .map(|i| match i % 3 {
            0 => (Val::Int(i), Val::Int(i)),
            1 => (Val::Uint(i as u64), Val::Int(i)),
            _ => (Val::string(i.to_string()), Val::Int(i)),
        })
        .collect();
    for (key, expected) in [
        (Val::Int(3), Some(3)),
        (Val::Uint(3), Some(3)),
        (Val::Double(4.0), Some(4)),
        (Val::from("5"), Some(5)),
        (Val::Int(5), None),
        (Val::Double(3.5), None),
    ] {
        assert_eq!(map.get(&key).and_then(Val::as_int), expected, "{key}");
    }
}

#[test]
fn deep_expressions_have_stack_enough() {
    let nested = (0..120).fold(String::from("x"), |inner, _| format!("[{inner}][0]"));
    let program = program(&nested, &[("x", Type::Dyn)]);
    let variables = Variables::new().with("x", 7);
    assert_eq!(program.eval(&variables).result.ok().and_then(|value| value.as_int()), Some(7));
    let conditions = (0..240).fold(String::from("1"), |inner, _| format!("false ? 0 : {inner}"));
    let program = self::program(&conditions, &[]);
    assert_eq!(program.eval(&()).result.ok().and_then(|value| value.as_int()), Some(1));
}

/// A variable whose members are computed when they are read.
#[derive(Debug)]
struct Squares;

impl Mapper for Squares {
    fn find<'a>(&'a self, key: &Val<'_>) -> Option<Result<Val<'a>, Error>> {
        match key.as_str()?.parse::<i64>() {
            Ok(n) => Some(Ok(Val::Int(n * n))),
            Err(_) => Some(Err(Error::new("not a number"))),
        }
    }
    fn keys<'a>(&'a self) -> Vec<Val<'a>> {
        vec![Val::from("2")]
    }
    fn len(&self) -> usize {
        1
    }
}

#[test]
fn members_may_be_made_on_demand() {
    let squares = Squares;
    let variables = Variables::new().with("v", Val::Map(Map::Custom(&squares)));
    let program = program("v['12'] + v.map(k, v[k])[0]", &[("v", Type::map(Type::String, Type::Int))]);
    assert_eq!(program.eval(&variables).result.ok().and_then(|value| value.as_int()), Some(148));
}

/// Its answer is wanted by nobody.
struct Interrupted;

impl Activation for Interrupted {
    fn variable<'a>(&'a self, _: &str) -> Option<Result<Val<'a>, Error>> {
        Some(Ok(Val::list(vec![Val::Int(1); 60])))
    }
    fn is_interrupted(&self) -> bool {
        true
    }
}

#[test]
fn loops_end_when_nobody_waits_for_the_answer() {
    let list = [("x", Type::list(Type::Int))];
    let error = |text: &str| program(text, &list).eval(&Interrupted).result.err();
    assert_eq!(error("x.all(a, a == 1)"), None, "few turns are not worth asking");
    let ended = Some(Error::interrupted());
    assert_eq!(error("x.all(a, a == 1) && x.all(a, a == 1)"), ended);
    assert_eq!(error("x.all(a, x.all(b, b == 1)) || true"), ended, "nothing absorbs it");
}
