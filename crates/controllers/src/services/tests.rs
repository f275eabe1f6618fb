use kinds::pod::view::PortView;
use object::Value;
use runtime::Key;

use super::*;

pub fn tree(json: &str) -> Value {
    codec::json::parse(json.as_bytes(), None).expect("JSON")
}

/// A service `web` in `default` with a spec of its own.
pub fn service(spec: &str) -> ServiceView {
    ServiceView::read(&tree(&format!(
        r#"{{"metadata":{{"name":"web","namespace":"default","uid":"svc","labels":{{"tier":"front"}},
        "creationTimestamp":"2026-01-01T00:00:00Z"}},"spec":{spec}}}"#
    )))
}

/// A running, ready pod.
pub fn pod(ip: &str) -> PodView {
    PodView {
        phase: kinds::pod::view::Phase::Running,
        ready: true,
        ips: Box::new([ip.into()]),
        node: "n".into(),
        ports: Box::new([PortView { name: "http".into(), number: 8080, protocol: "TCP".into() }]),
        ..PodView::default()
    }
}

#[test]
fn a_service_is_read_with_its_defaults() {
    let view = service(
        r#"{"selector":{"app":"web"},"clusterIP":"10.96.0.9","ipFamilies":["IPv6","IPv4"],
        "ports":[{"port":80},{"name":"dns","port":53,"protocol":"UDP","targetPort":"dns","appProtocol":"x"}]}"#,
    );
    assert!(view.is_ours() && view.has_ip());
    assert_eq!(view.families, [Family::V6, Family::V4]);
    assert_eq!(view.ports[0].target, TargetPort::Number(80));
    assert_eq!(view.ports[0].protocol, "TCP");
    assert_eq!(view.ports[1].target, TargetPort::Name("dns".to_owned()));
    assert!(!service(r#"{"clusterIP":"None","selector":{"a":"b"}}"#).has_ip());
    assert!(!service(r#"{}"#).is_ours());
    assert!(!service(r#"{"type":"ExternalName","selector":{"a":"b"}}"#).is_ours());
}

#[test]
fn named_ports_are_found_by_name_and_protocol() {
    let view = service(
        r#"{"ports":[{"port":1,"targetPort":"http"},{"port":1,"targetPort":"http","protocol":"UDP"},{"port":7}]}"#,
    );
    let found: Vec<_> =
        view.ports.iter().map(|port| ServiceView::find_port(port, &pod("10.0.0.1"))).collect();
    assert_eq!(found, [Some(8080), None, Some(7)]);
}

#[test]
fn addresses_are_in_canonical_form() {
    let of = |ip: &str, family| addresses(&pod(ip), family);
    assert_eq!(of("010.000.0.1", Family::V4), ["10.0.0.1"]);
    assert_eq!(of("2001:DB8:0::1", Family::V6), ["2001:db8::1"]);
    assert_eq!(of("::ffff:10.0.0.1", Family::V4), ["10.0.0.1"]);
    assert!(of("10.0.0.1", Family::V6).is_empty());
    assert!(of("no address", Family::V4).is_empty());
}

#[test]
fn terminal_pods_and_pods_without_address_are_no_endpoints() {
    assert!(may_be_endpoint(&pod("10.0.0.1"), false));
    let going = PodView { deletion: 1, ..pod("10.0.0.1") };
    assert!(may_be_endpoint(&going, true) && !may_be_endpoint(&going, false));
    assert!(!may_be_endpoint(&PodView { ips: Box::new([]), ..pod("x") }, true));
    assert!(!may_be_endpoint(&PodView { phase: kinds::pod::view::Phase::Failed, ..pod("10.0.0.1") }, true));
}

#[test]
fn the_trigger_time_is_the_earliest_change_since_the_last_reconcile() {
    let (times, key) = (TriggerTimes::default(), Key::new("default", "web"));
    let next = |pods: &[(&'static str, i64)]| times.next(&key, 100, pods.iter().copied());
    assert_eq!(next(&[("a", 90)]), Some(100), "a service never seen: when it was made");
    assert_eq!(next(&[("a", 90)]), None);
    assert_eq!(next(&[("a", 120), ("b", 110), ("c", 0)]), Some(110));
    assert_eq!(next(&[("b", 110)]), None);
    times.forget(&key);
    assert_eq!(next(&[("a", 200)]), Some(100));
}
