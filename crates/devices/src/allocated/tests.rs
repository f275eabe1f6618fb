use super::*;
use crate::testing::json;

fn allocation(results: &str) -> Allocation {
    Allocation::parse(&json(&format!(r#"{{"devices":{{"results":[{results}]}}}}"#)))
}

fn result(device: &str, more: &str) -> String {
    format!(r#"{{"request":"r","driver":"d","pool":"p","device":"{device}"{more}}}"#)
}

fn id(device: &str) -> DeviceId {
    DeviceId { driver: "d".into(), pool: "p".into(), device: device.into() }
}

#[test]
fn what_a_holder_has_is_replaced() {
    let mut allocated = Allocated::default();
    let (a, b) = (allocation(&result("a", "")), allocation(&result("b", "")));
    assert!(allocated.set("x", Some(&a)));
    assert!(!allocated.set("x", Some(&a)));
    let version = allocated.version();
    assert!(allocated.set("x", Some(&b)));
    assert!(allocated.version() > version);
    assert!(!allocated.is_allocated(&id("a")) && allocated.is_allocated(&id("b")));
    // Assumed and seen: held until both are gone.
    assert!(allocated.set("y", Some(&b)));
    assert!(allocated.set("x", None));
    assert!(allocated.is_allocated(&id("b")));
    assert!(allocated.set("y", None) && !allocated.set("y", None));
    assert!(!allocated.is_allocated(&id("b")) && !allocated.holds("y"));
    assert!(allocated.pools.is_empty());
}

#[test]
fn administrators_hold_nothing() {
    let mut allocated = Allocated::default();
    assert!(!allocated.set("x", Some(&allocation(&result("a", r#","adminAccess":true"#)))));
    assert!(!allocated.is_allocated(&id("a")));
}

#[test]
fn shares_add_up() {
    let mut allocated = Allocated::default();
    let share = |share: &str, amount: &str| {
        let more = format!(r#","shareID":"{share}","consumedCapacity":{{"mem":"{amount}"}}"#);
        allocation(&result("a", &more))
    };
    allocated.set("x", Some(&share("1", "1Gi")));
    allocated.set("y", Some(&share("2", "512Mi")));
    let consumed = |allocated: &Allocated| {
        let used = allocated.pool("d", "p").and_then(|pool| pool.get("a"));
        used.map(|used| (used.is_exclusive(), used.consumed()[0].1.to_string()))
    };
    assert_eq!(consumed(&allocated), Some((false, "1536Mi".to_owned())));
    allocated.set("x", None);
    assert_eq!(consumed(&allocated), Some((false, "512Mi".to_owned())));
    allocated.set("y", None);
    assert_eq!(consumed(&allocated), None);
}
