use catalog::Name;

use super::MAX_DEPTH;
use crate::{Value, discard};

/// A quarter of what threads get.
const SMALL_STACK: usize = 512 * 1024;

fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    #[allow(clippy::disallowed_methods, reason = "a test of stacks needs a thread of its own")]
    let thread = std::thread::Builder::new().stack_size(SMALL_STACK).spawn(test);
    thread.expect("a thread").join().expect("it ends well");
}

fn in_map(value: Value) -> Value {
    Value::Map([(Name::Static("a"), value)].into_iter().collect())
}

fn in_list(value: Value) -> Value {
    Value::List(vec![value])
}

fn nested(levels: usize, around: impl Fn(usize, Value) -> Value) -> Value {
    (0..levels).fold(Value::from("x"), |value, level| around(level, value))
}

#[test]
fn values_ten_times_too_deep_are_cloned_compared_shown_and_dropped() {
    on_a_small_stack(|| {
        let levels = 10 * MAX_DEPTH;
        let maps = nested(levels, |_, value| in_map(value));
        let mixed = nested(levels, |i, value| if i % 2 == 0 { in_map(value) } else { in_list(value) });
        let lists = in_map(nested(levels, |_, value| in_list(value)));
        for value in [maps, mixed, lists] {
            let other = value.clone();
            assert!(value == other);
            assert!(format!("{value:?}").len() > levels);
            drop(other);
            drop(value);
        }
    });
}

#[test]
fn lists_in_no_map_are_dropped_too() {
    on_a_small_stack(|| {
        discard(nested(10 * MAX_DEPTH, |_, value| in_list(value)));
        let mut map = in_map(nested(10 * MAX_DEPTH, |_, value| in_list(value)));
        map.make_map().set("a", 1i64);
    });
    // Without a word the compiler's own way is taken, which wants the usual stack of a thread.
    drop(nested(MAX_DEPTH, |_, value| in_list(value)));
}
