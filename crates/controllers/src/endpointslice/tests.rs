use std::sync::Arc;

use kinds::pod::view::{PodView, PortView};

use super::plan::{self, Member, NodeOfPod, Plan, labels};
use super::slice::{Endpoint, Hints, SliceView};
use crate::services::ServiceView;
use crate::services::tests::{pod, service, tree};

const WEB: &str = r#"{"selector":{"app":"web"},"clusterIP":"10.96.0.9","ipFamilies":["IPv4"],"ports":[{"port":80,"targetPort":"http"}]}"#;

fn member(name: &str, pod: PodView) -> Member<'_> {
    let node = NodeOfPod::There(Some("z".to_owned()));
    Member { namespace: "default", name, uid: name, pod: Arc::new(pod), node }
}

fn members(names: &[String]) -> Vec<Member<'_>> {
    // Addresses whose text sorts as their numbers do: so it is plain who stands where.
    let address = |i: usize| format!("10.0.{}.{}", 100 + i / 100, 100 + i % 100);
    names.iter().enumerate().map(|(i, name)| member(name, pod(&address(i)))).collect()
}

fn names(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|i| format!("p{i:04}")).collect()
}

/// For a service that asks for no hints by zone.
fn plan(service: &ServiceView, members: &[Member<'_>], slices: &[Arc<SliceView>], most: usize) -> Plan {
    plan::plan(service, members, slices, most, false, None, &mut Default::default())
}

/// The slices as they would be after the plan; new ones get a number as name.
pub fn after(service: &ServiceView, slices: &[Arc<SliceView>], plan: &Plan) -> Vec<Arc<SliceView>> {
    let view = |name: String, draft: &super::draft::Draft| {
        Arc::new(SliceView {
            name,
            address_type: draft.address_type.as_str().to_owned(),
            ports: draft.ports.clone(),
            endpoints: draft.endpoints.clone(),
            labels: draft.labels.clone(),
            owners: vec![service.uid.clone()],
        })
    };
    let mut all: Vec<Arc<SliceView>> = Vec::new();
    for (i, slice) in slices.iter().enumerate() {
        match plan.update.iter().find(|(at, _)| *at == i) {
            Some((_, draft)) => all.push(view(slice.name.clone(), draft)),
            None if plan.delete.contains(&i) => {}
            None => all.push(slice.clone()),
        }
    }
    let made = plan.create.iter().enumerate();
    all.extend(made.map(|(i, draft)| view(format!("new-{}-{i}", slices.len()), draft)));
    all
}

fn sizes(slices: &[Arc<SliceView>]) -> Vec<usize> {
    slices.iter().map(|slice| slice.endpoints.len()).collect()
}

fn changes(plan: &Plan) -> (usize, usize, usize) {
    (plan.create.len(), plan.update.len(), plan.delete.len())
}

#[test]
fn an_applied_plan_leaves_nothing_to_do() {
    for spec in [
        WEB,
        r#"{"selector":{"a":"b"},"clusterIP":"None"}"#,
        r#"{"selector":{"a":"b"},"ipFamilies":["IPv4","IPv6"],"clusterIP":"10.0.0.1","trafficDistribution":"PreferClose","ports":[{"port":1}]}"#,
    ] {
        let service = service(spec);
        for count in [0, 1, 100, 101, 250] {
            let names = names(0..count);
            let first = plan(&service, &members(&names), &[], 100);
            let slices = after(&service, &[], &first);
            assert_eq!(sizes(&slices).iter().sum::<usize>(), count);
            assert_eq!(changes(&plan(&service, &members(&names), &slices, 100)), (0, 0, 0), "{spec} {count}");
        }
    }
}

#[test]
fn slices_hold_a_hundred_and_are_filled_before_new_ones_are_made() {
    let service = service(WEB);
    let all = names(0..250);
    let first = plan(&service, &members(&all), &[], 100);
    let slices = after(&service, &[], &first);
    assert_eq!(sizes(&slices), [100, 100, 50]);

    // Ten more go to the slice with room; nobody else is touched.
    let more = names(0..260);
    let next = plan(&service, &members(&more), &slices, 100);
    assert_eq!(changes(&next), (0, 1, 0));
    assert_eq!(next.update[0].0, 2);

    // One goes, one comes: the slice that lost one takes it.
    let mut swapped = names(0..250);
    swapped[5] = "p9999".to_owned();
    let next = plan(&service, &members(&swapped), &slices, 100);
    assert_eq!((changes(&next), next.update[0].0), ((0, 1, 0), 0));

    // A hundred more than fit anywhere: a new slice.
    let more = names(0..350);
    assert_eq!(changes(&plan(&service, &members(&more), &slices, 100)), (1, 0, 0));

    // The last slice's endpoints go: the slice goes.
    let fewer = names(0..200);
    let next = plan(&service, &members(&fewer), &slices, 100);
    assert_eq!((changes(&next), next.delete[0]), ((0, 0, 1), 2));
}

#[test]
fn the_fullest_fitting_slice_is_filled() {
    let service = service(WEB);
    let with = |range| {
        let names: Vec<String> = names(range);
        let made = plan(&service, &members(&names), &[], 100);
        made.create[0].endpoints.clone()
    };
    let all: Vec<Endpoint> = with(0..90);
    let slice = |name: &str, endpoints: &[Endpoint]| {
        let draft = &plan(&service, &[], &[], 100).create[0];
        Arc::new(SliceView {
            name: name.to_owned(),
            address_type: "IPv4".to_owned(),
            ports: vec![super::slice::Port { port: 8080, protocol: "TCP".to_owned(), ..Default::default() }],
            endpoints: endpoints.to_vec(),
            labels: draft.labels.clone(),
            owners: vec!["svc".to_owned()],
        })
    };
    let slices = [slice("few", &all[..10]), slice("more", &all[10..50]), slice("most", &all[50..])];
    let wanted = names(0..140);
    let next = plan(&service, &members(&wanted), &slices, 100);
    // 50 more: to the 40 of "more" or "most" there is room for 60; the first of the fullest takes them.
    assert_eq!((changes(&next), next.update[0].0), ((0, 1, 0), 1));
}

#[test]
fn named_ports_that_differ_make_groups_and_ports_nobody_has_are_left_out() {
    let service = service(WEB);
    let other = PodView {
        ports: Box::new([PortView { name: "http".into(), number: 9090, protocol: "TCP".into() }]),
        ..pod("10.0.0.2")
    };
    let none = PodView { ports: Box::new([]), ..pod("10.0.0.3") };
    let members = [member("a", pod("10.0.0.1")), member("b", other), member("c", none)];
    let made = plan(&service, &members, &[], 100);
    let ports: Vec<Vec<i64>> =
        made.create.iter().map(|slice| slice.ports.iter().map(|port| port.port).collect()).collect();
    assert_eq!(ports, [vec![], vec![8080], vec![9090]]);
    // The group of 9090 goes: its slice is not needed.
    let slices = after(&service, &[], &made);
    let next = plan(&service, &members[..1], &slices, 100);
    assert_eq!(changes(&next), (0, 0, 2));
}

#[test]
fn a_slice_to_delete_is_reused_for_one_to_create() {
    let old = service(WEB);
    let all = names(0..3);
    let slices = after(&old, &[], &plan(&old, &members(&all), &[], 100));
    let new = service(&WEB.replace("\"targetPort\":\"http\"", "\"targetPort\":7"));
    let next = plan(&new, &members(&all), &slices, 100);
    assert_eq!(changes(&next), (0, 1, 0));
    assert_eq!(next.update[0].1.ports[0].port, 7);
    // But not one of a service that was here before.
    let stranger = Arc::new(SliceView { owners: vec!["other".to_owned()], ..(*slices[0]).clone() });
    let next = plan(&new, &members(&all), &[stranger], 100);
    assert_eq!(changes(&next), (1, 0, 1));
}

#[test]
fn conditions_reflect_the_pod() {
    let of = |spec: &str, pod: PodView| {
        let made = plan(&service(spec), &[member("a", pod)], &[], 100);
        let e = &made.create[0].endpoints[0];
        (e.ready.unwrap(), e.serving.unwrap(), e.terminating.unwrap())
    };
    let unready = PodView { ready: false, ..pod("10.0.0.1") };
    let going = PodView { deletion: 5, ..pod("10.0.0.1") };
    let publish = WEB.replace("\"selector\"", "\"publishNotReadyAddresses\":true,\"selector\"");
    assert_eq!(of(WEB, pod("10.0.0.1")), (true, true, false));
    assert_eq!(of(WEB, unready.clone()), (false, false, false));
    assert_eq!(of(WEB, going.clone()), (false, true, true));
    assert_eq!(of(&publish, unready), (true, false, false));
    assert_eq!(of(&publish, going), (true, true, true));
}

#[test]
fn slices_are_per_family_and_deleted_with_it() {
    let both = service(&WEB.replace("[\"IPv4\"]", "[\"IPv4\",\"IPv6\"]"));
    let dual = PodView { ips: Box::new(["10.0.0.1".into(), "fd00::1".into()]), ..pod("x") };
    let members = [member("a", dual)];
    let made = plan(&both, &members, &[], 100);
    let types: Vec<&str> = made.create.iter().map(|slice| slice.address_type.as_str()).collect();
    assert_eq!(types, ["IPv4", "IPv6"]);
    let slices = after(&both, &[], &made);
    assert_eq!(slices[1].endpoints[0].addresses, ["fd00::1"]);
    let next = plan(&service(WEB), &members, &slices, 100);
    assert_eq!((changes(&next), next.delete[0]), ((0, 0, 1), 1));
}

#[test]
fn labels_are_the_services_and_the_controllers_own() {
    let slices = after(&service(WEB), &[], &plan(&service(WEB), &[member("a", pod("10.0.0.1"))], &[], 100));
    let mut changed = service(WEB);
    changed.labels.insert("new".to_owned(), "1".to_owned());
    changed.labels.insert("kubernetes.io/service-name".to_owned(), "liar".to_owned());
    let next = plan(&changed, &[member("a", pod("10.0.0.1"))], &slices, 100);
    assert_eq!(changes(&next), (0, 1, 0));
    let got = &next.update[0].1.labels;
    assert_eq!(got, &labels(&changed));
    assert_eq!(got["kubernetes.io/service-name"], "web");
    assert_eq!(got["new"], "1");
    let headless = service(r#"{"clusterIP":"None","selector":{"a":"b"}}"#);
    assert_eq!(labels(&headless)["service.kubernetes.io/headless"], "");
}

#[test]
fn a_pod_on_an_unknown_node_is_left_out_and_reported_unless_all_are_published() {
    let lost = Member { node: NodeOfPod::Missing, ..member("a", pod("10.0.0.1")) };
    let made = plan(&service(WEB), &[lost], &[], 100);
    assert_eq!(made.notes.skipped, ["skipping Pod a for Service default/web: Node n Not Found"]);
    assert!(made.create.iter().all(|slice| slice.endpoints.is_empty()));
    let lost = Member { node: NodeOfPod::Missing, ..member("a", pod("10.0.0.1")) };
    let publish = service(&WEB.replace("\"selector\"", "\"publishNotReadyAddresses\":true,\"selector\""));
    assert_eq!(plan(&publish, &[lost], &[], 100).create[0].endpoints.len(), 1);
}

#[test]
fn hints_come_change_and_go_with_the_traffic_distribution() {
    let with = |distribution: &str| {
        service(
            &WEB.replace("\"selector\"", &format!("\"trafficDistribution\":\"{distribution}\",\"selector\"")),
        )
    };
    let unready = PodView { ready: false, ..pod("10.0.0.2") };
    let members = [member("a", pod("10.0.0.1")), member("b", unready)];
    let hints = |slices: &[Arc<SliceView>]| -> Vec<Hints> {
        slices[0].endpoints.iter().map(|endpoint| endpoint.hints.clone()).collect()
    };
    let zone = Hints { zones: vec!["z".to_owned()], nodes: vec![] };
    let node = Hints { zones: vec!["z".to_owned()], nodes: vec!["n".to_owned()] };
    let mut slices: Vec<Arc<SliceView>> = Vec::new();
    for (service, want) in [
        (with("PreferClose"), zone.clone()),
        (with("PreferSameNode"), node),
        (with("PreferSameZone"), zone),
        (service(WEB), Hints::default()),
    ] {
        let next = plan(&service, &members, &slices, 100);
        assert_eq!(next.create.len() + next.update.len(), 1);
        slices = after(&service, &slices, &next);
        assert_eq!(hints(&slices), [want, Hints::default()]);
        assert_eq!(changes(&plan(&service, &members, &slices, 100)), (0, 0, 0));
    }
}

#[test]
fn nothing_is_created_for_a_deleted_service() {
    let mut going = service(WEB);
    going.deleting = true;
    assert_eq!(changes(&plan(&going, &[member("a", pod("10.0.0.1"))], &[], 100)), (0, 0, 0));
}

#[test]
fn a_slice_survives_a_round_trip() {
    let endpoint = Endpoint {
        addresses: vec!["10.0.0.1".to_owned()],
        ready: Some(true),
        hostname: Some("h".to_owned()),
        hints: Hints { zones: vec!["z".to_owned()], nodes: vec!["n".to_owned()] },
        ..Endpoint::default()
    };
    let mut slice = tree(
        r#"{"metadata":{"name":"s","ownerReferences":[{"apiVersion":"v1","kind":"Service","uid":"u"}]},"addressType":"IPv4"}"#,
    );
    slice.make_map().set("endpoints", object::Value::List(vec![endpoint.to_value()]));
    let view = SliceView::read(&slice);
    assert_eq!((view.endpoints, view.owners), (vec![endpoint], vec!["u".to_owned()]));
}
