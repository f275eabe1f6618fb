//! The engine finds each kind of failure.

use super::*;

fn failure(work: impl FnOnce()) -> String {
    words(&*catch_unwind(AssertUnwindSafe(|| quietly(work))).expect_err("it fails"))
}

#[test]
fn a_panic_is_found_shrunk_and_reported() {
    let report = failure(|| {
        Fuzz::new("none").seeds(["a long way to the word that is not ok"]).tokens(&["not"]).run(|input| {
            assert!(!input.windows(3).any(|three| three == b"not"), "input contains not");
            "ok"
        });
    });
    assert!(report.contains(r#"input: b"not""#) && report.contains("input contains not"), "{report}");
}

#[test]
fn memory_beyond_the_bound_is_found() {
    let report = failure(|| {
        Fuzz::new("none").seeds(["xxxxxxxx"]).allocates(1000, 10).run(|input| {
            drop(Vec::<u8>::with_capacity(input.len() * 2000));
            "ok"
        });
    });
    assert!(report.contains("bytes allocated for an input of 1,"), "{report}");
}

#[test]
fn a_leak_is_found_and_a_first_use_allocation_is_none() {
    let mut kept = Vec::new();
    let report = failure(|| {
        Fuzz::new("none").seeds(["x"]).run(|input| {
            kept.push(Box::new(input.len()));
            "ok"
        });
    });
    assert!(report.contains("still held"), "{report}");
    let mut once = None;
    Fuzz::new("none").seeds(["x"]).inputs(3).run(|input| {
        once.get_or_insert_with(|| input.to_vec());
        "ok"
    });
}

#[test]
fn quadratic_work_is_found() {
    let report = failure(|| {
        Fuzz::new("none").grows(&[Growth::new("", "x", "", 8000)]).run(|input| {
            for end in 0..input.len() {
                drop(input[..end].to_vec());
            }
            "ok"
        });
    });
    assert!(report.contains("bytes allocated for an input"), "{report}");
}

#[test]
fn messages_that_differ_in_numbers_are_one_outcome() {
    assert_eq!(outcome("line 3: bad"), outcome("line 17: bad"));
    assert_ne!(outcome("line 3: bad"), outcome("line 3: worse"));
}
