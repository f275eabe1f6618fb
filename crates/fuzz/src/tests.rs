//! The engine finds what it is there to find.

use super::*;

fn failure(work: impl FnOnce()) -> String {
    words(&*catch_unwind(AssertUnwindSafe(|| quietly(work))).expect_err("it fails"))
}

#[test]
fn a_panic_is_found_shrunk_and_reported() {
    let told = failure(|| {
        Fuzz::new("none").seeds(["a long way to the word that is not ok"]).tokens(&["not"]).run(|input| {
            assert!(!input.windows(3).any(|three| three == b"not"), "said not");
            "ok"
        });
    });
    assert!(told.contains(r#"input: b"not""#) && told.contains("said not"), "{told}");
}

#[test]
fn memory_beyond_the_bound_is_found() {
    let told = failure(|| {
        Fuzz::new("none").seeds(["xxxxxxxx"]).allocates(1000, 10).run(|input| {
            drop(Vec::<u8>::with_capacity(input.len() * 2000));
            "ok"
        });
    });
    assert!(told.contains("bytes allocated for an input of 1,"), "{told}");
}

#[test]
fn a_leak_is_found_and_a_first_use_allocation_is_none() {
    let mut kept = Vec::new();
    let told = failure(|| {
        Fuzz::new("none").seeds(["x"]).run(|input| {
            kept.push(Box::new(input.len()));
            "ok"
        });
    });
    assert!(told.contains("still held"), "{told}");
    let mut once = None;
    Fuzz::new("none").seeds(["x"]).inputs(3).run(|input| {
        once.get_or_insert_with(|| input.to_vec());
        "ok"
    });
}

#[test]
fn quadratic_work_is_found() {
    let told = failure(|| {
        Fuzz::new("none").grows(&[Growth::new("", "x", "", 8000)]).run(|input| {
            for end in 0..input.len() {
                drop(input[..end].to_vec());
            }
            "ok"
        });
    });
    assert!(told.contains("bytes allocated for an input"), "{told}");
}

#[test]
fn messages_that_differ_in_numbers_are_one_outcome() {
    assert_eq!(outcome("line 3: bad"), outcome("line 17: bad"));
    assert_ne!(outcome("line 3: bad"), outcome("line 3: worse"));
}
