use kinds::pod::view::PodView;
use object::Value;

use super::plan::*;
use super::{fill, is_right};
use crate::services::tests::{pod, service};

const WEB: &str = r#"{"selector":{"app":"web"},"clusterIP":"10.96.0.9","ipFamilies":["IPv4"],
    "ports":[{"name":"http","port":80,"targetPort":"http"},{"name":"admin","port":81,"targetPort":9000}]}"#;

fn member<'a>(name: &'a str, pod: &'a PodView) -> Member<'a> {
    Member { namespace: "default", name, uid: name, pod }
}

fn ips(addresses: &[Address]) -> Vec<&str> {
    addresses.iter().map(|address| address.ip.as_str()).collect()
}

#[test]
fn pods_with_the_same_ports_share_a_subset() {
    let (a, b) = (pod("10.0.0.2"), pod("10.0.0.1"));
    let unready = PodView { ready: false, ..pod("10.0.0.3") };
    let members = [member("a", &a), member("b", &b), member("c", &unready)];
    let subsets = subsets(&service(WEB), &members);
    assert_eq!(subsets.len(), 1);
    assert_eq!(ips(&subsets[0].addresses), ["10.0.0.1", "10.0.0.2"]);
    assert_eq!(ips(&subsets[0].not_ready), ["10.0.0.3"]);
    let ports: Vec<_> = subsets[0].ports.iter().map(|port| (port.name.as_str(), port.port)).collect();
    assert_eq!(ports, [("http", 8080), ("admin", 9000)]);
}

#[test]
fn a_pod_that_lacks_a_port_is_in_a_subset_of_its_own() {
    let without = PodView { ports: Box::new([]), ..pod("10.0.0.2") };
    let with = pod("10.0.0.1");
    let subsets = subsets(&service(WEB), &[member("a", &with), member("b", &without)]);
    let all: Vec<_> = subsets.iter().map(|s| (s.ports.len(), ips(&s.addresses))).collect();
    assert_eq!(all, [(1, vec!["10.0.0.1", "10.0.0.2"]), (1, vec!["10.0.0.1"])]);
}

#[test]
fn terminating_pods_are_left_out_unless_all_are_published() {
    let going = PodView { deletion: 3, ready: false, ..pod("10.0.0.1") };
    assert!(subsets(&service(WEB), &[member("a", &going)]).is_empty());
    let publish = WEB.replace("\"selector\"", "\"publishNotReadyAddresses\":true,\"selector\"");
    assert_eq!(ips(&subsets(&service(&publish), &[member("a", &going)])[0].addresses), ["10.0.0.1"]);
}

#[test]
fn a_headless_service_needs_no_ports_and_others_do() {
    let a = pod("10.0.0.1");
    let headless = subsets(&service(r#"{"clusterIP":"None","selector":{"a":"b"}}"#), &[member("a", &a)]);
    assert_eq!((headless.len(), headless[0].ports.len()), (1, 0));
    assert!(
        subsets(&service(r#"{"clusterIP":"10.0.0.9","selector":{"a":"b"}}"#), &[member("a", &a)]).is_empty()
    );
}

#[test]
fn the_first_family_of_the_service_decides_the_address() {
    let dual = PodView { ips: Box::new(["10.0.0.1".into(), "fd00::1".into()]), ..pod("x") };
    let of = |spec: &str| subsets(&service(spec), &[member("a", &dual)])[0].addresses[0].ip.clone();
    assert_eq!(of(WEB), "10.0.0.1");
    assert_eq!(of(&WEB.replace("[\"IPv4\"]", "[\"IPv6\",\"IPv4\"]")), "fd00::1");
    assert_eq!(of(r#"{"clusterIP":"fd00::99","ports":[{"port":1}]}"#), "fd00::1");
}

#[test]
fn an_address_not_ready_on_one_port_is_not_ready() {
    let address = |ip: &str| Address { ip: ip.to_owned(), ..Address::default() };
    let port = Port { port: 1, protocol: "TCP".to_owned(), ..Port::default() };
    let packed = repack(&[
        Subset { addresses: vec![address("1.1.1.1")], ports: vec![port.clone()], ..Subset::default() },
        Subset { not_ready: vec![address("1.1.1.1")], ports: vec![port], ..Subset::default() },
    ]);
    assert_eq!((packed.len(), packed[0].addresses.len(), packed[0].not_ready.len()), (1, 0, 1));
}

#[test]
fn subsets_are_in_upstreams_order() {
    let address = |ip: &str| Address { ip: ip.to_owned(), ..Address::default() };
    let subset = |number: i64| Subset {
        addresses: vec![address(&format!("10.0.0.{number}"))],
        ports: vec![Port { port: number, protocol: "TCP".to_owned(), ..Port::default() }],
        ..Subset::default()
    };
    let packed = repack(&(1..=6).map(subset).collect::<Vec<_>>());
    // As Go sorts them: neither by address nor by port.
    assert_eq!(packed.iter().map(|s| s.ports[0].port).collect::<Vec<_>>(), [5, 2, 3, 4, 6, 1]);
}

#[test]
fn more_than_a_thousand_are_cut_ready_ones_last() {
    let many = |count: usize| (0..count).map(|_| Address::default()).collect::<Vec<_>>();
    let subset = |ready, not| Subset { addresses: many(ready), not_ready: many(not), ports: Vec::new() };
    let cut = |mut subsets: Vec<Subset>| {
        let cut = truncate(&mut subsets);
        (cut, subsets.iter().map(|s| (s.addresses.len(), s.not_ready.len())).collect::<Vec<_>>())
    };
    assert_eq!(cut(vec![subset(600, 400)]), (false, vec![(600, 400)]));
    assert_eq!(cut(vec![subset(600, 500)]), (true, vec![(600, 400)]));
    assert_eq!(cut(vec![subset(1500, 500)]), (true, vec![(1000, 0)]));
    assert_eq!(cut(vec![subset(900, 0), subset(300, 7)]), (true, vec![(750, 0), (250, 0)]));
    assert_eq!(cut(vec![subset(400, 800), subset(400, 200)]), (true, vec![(400, 160), (400, 40)]));
}

#[test]
fn written_endpoints_are_up_to_date_and_changed_ones_are_not() {
    let service = service(WEB);
    let (a, b) = (pod("10.0.0.1"), PodView { ready: false, ..pod("10.0.0.2") });
    let subsets = subsets(&service, &[member("a", &a), member("b", &b)]);
    let mut body = Value::map();
    fill(&mut body, &service, &subsets, false, Some(0));
    assert!(is_right(&body, &service, &subsets));
    let mut other = service.clone();
    other.labels.insert("x".to_owned(), "y".to_owned());
    assert!(!is_right(&body, &other, &subsets));
    assert!(!is_right(&body, &service, &subsets[..0]));
    let mut marked = body.clone();
    marked.map_at(&["metadata", "annotations"]).set(OVER_CAPACITY, "truncated");
    assert!(!is_right(&marked, &service, &subsets));
    let mut theirs = body.clone();
    theirs.map_at(&["metadata", "labels"]).remove(MANAGED_BY);
    assert!(!is_right(&theirs, &service, &subsets));
}
