use super::plan::*;
use crate::endpointslice::Draft;
use crate::services::tests::tree;

const WEB: &str = r#"{"metadata":{"name":"web","uid":"e1","labels":{"tier":"front"},"annotations":{"a":"b",
    "endpoints.kubernetes.io/last-change-trigger-time":"2026-01-01T00:00:00Z",
    "kubectl.kubernetes.io/last-applied-configuration":"{}"}},
    "subsets":[{"addresses":[{"ip":"10.0.0.2","nodeName":"n","hostname":"h","targetRef":{"kind":"Pod","name":"p","namespace":"default",
        "uid":"u","resourceVersion":"5"}},{"ip":"010.0.0.1"},{"ip":"fd00::1"}],
      "notReadyAddresses":[{"ip":"10.0.0.3"}],"ports":[{"name":"http","port":80},{"name":"dns","port":53,"protocol":"UDP"}]}]}"#;

fn view(json: &str) -> EndpointsView {
    EndpointsView::read(&tree(json))
}

/// The slices as they would be after the plan.
fn after(endpoints: &EndpointsView, there: &[Mirror], plan: &Plan) -> Vec<Mirror> {
    let mirror = |draft: &Draft| Mirror {
        slice: crate::endpointslice::SliceView {
            address_type: draft.address_type.as_str().to_owned(),
            ports: draft.ports.clone(),
            endpoints: draft.endpoints.clone(),
            labels: draft.labels.clone(),
            ..Default::default()
        },
        annotations: draft.annotations.clone().unwrap_or_default(),
        owners: vec![(endpoints.name.clone(), endpoints.uid.clone())],
    };
    let mut all: Vec<Mirror> = Vec::new();
    for (i, slice) in there.iter().enumerate() {
        match plan.update.iter().find(|(at, _)| *at == i) {
            Some((_, draft)) => all.push(mirror(draft)),
            None if plan.delete.contains(&i) => {}
            None => all.push(slice.clone()),
        }
    }
    all.extend(plan.create.iter().map(mirror));
    all
}

fn changes(plan: &Plan) -> (usize, usize, usize) {
    (plan.create.len(), plan.update.len(), plan.delete.len())
}

fn ips(draft: &Draft) -> Vec<(&str, bool)> {
    draft.endpoints.iter().map(|e| (e.addresses[0].as_str(), e.ready == Some(true))).collect()
}

#[test]
fn each_family_of_a_subset_has_one_slice_with_the_labels_and_annotations_of_the_endpoints() {
    let plan = plan(&view(WEB), &[], 1000);
    assert_eq!(changes(&plan), (2, 0, 0));
    let v4 = &plan.create[0];
    assert_eq!(ips(v4), [("10.0.0.1", true), ("10.0.0.2", true), ("10.0.0.3", false)]);
    assert_eq!(ips(&plan.create[1]), [("fd00::1", true)]);
    let ports: Vec<_> = v4.ports.iter().map(|p| (p.name.as_str(), p.port, p.protocol.as_str())).collect();
    assert_eq!(ports, [("dns", 53, "UDP"), ("http", 80, "TCP")]);
    let labels: Vec<_> = v4.labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(
        labels,
        [
            ("endpointslice.kubernetes.io/managed-by", "endpointslicemirroring-controller.k8s.io"),
            ("kubernetes.io/service-name", "web"),
            ("tier", "front"),
        ]
    );
    assert_eq!(v4.annotations.iter().flatten().map(|(name, _)| name).collect::<Vec<_>>(), ["a"]);
    let second = &v4.endpoints[1];
    assert_eq!((second.node.as_deref(), second.hostname.as_deref()), (Some("n"), Some("h")));
    assert_eq!(second.target.as_ref().map(|t| t.resource_version.as_str()), Some("5"));
    assert_eq!((second.serving, second.terminating), (None, None));
    assert_eq!(v4.endpoints[0].target, None);
}

#[test]
fn an_applied_plan_leaves_nothing_to_do_whatever_the_versions_of_targets() {
    let web = view(WEB);
    let there = after(&web, &[], &plan(&web, &[], 1000));
    assert_eq!(changes(&plan(&web, &there, 1000)), (0, 0, 0));
    let newer = view(&WEB.replace(r#""resourceVersion":"5""#, r#""resourceVersion":"6""#));
    assert_eq!(changes(&plan(&newer, &there, 1000)), (0, 0, 0));
    let (mut shuffled, none) = (there.clone(), view(r#"{"metadata":{"name":"web"}}"#));
    shuffled[0].slice.endpoints.reverse();
    assert_eq!(changes(&plan(&web, &shuffled, 1000)), (0, 0, 0));
    assert_eq!(changes(&plan(&none, &there, 1000)), (0, 0, 2));
}

#[test]
fn whatever_differs_is_written_into_the_same_slice() {
    let web = view(WEB);
    let there = after(&web, &[], &plan(&web, &[], 1000));
    for (old, new, slices) in [
        (r#""tier":"front""#, r#""tier":"back""#, 2),
        (r#""a":"b""#, r#""a":"c""#, 2),
        (r#""uid":"e1""#, r#""uid":"e2""#, 2),
        (r#""nodeName":"n""#, r#""nodeName":"m""#, 1),
        (r#""uid":"u""#, r#""uid":"v""#, 1),
        ("10.0.0.3", "10.0.0.4", 1),
    ] {
        let changed = view(&WEB.replace(old, new));
        let next = plan(&changed, &there, 1000);
        assert_eq!(changes(&next), (0, slices, 0), "{new}");
        assert_eq!(changes(&plan(&changed, &after(&changed, &there, &next), 1000)), (0, 0, 0), "{new}");
    }
}

#[test]
fn slices_to_delete_are_reused_within_their_family() {
    let web = view(WEB);
    let there = after(&web, &[], &plan(&web, &[], 1000));
    let other_port = view(&WEB.replace(r#""port":80"#, r#""port":81"#));
    assert_eq!(changes(&plan(&other_port, &there, 1000)), (0, 2, 0));
    let only_v6 = view(
        r#"{"metadata":{"name":"web","uid":"e1"},"subsets":[{"addresses":[{"ip":"fd00::9"}],"ports":[{"port":1}]}]}"#,
    );
    let next = plan(&only_v6, &there[..1], 1000);
    assert_eq!(changes(&next), (1, 0, 1));
    // Twins are not needed.
    let twins = [there[0].clone(), there[0].clone(), there[1].clone()];
    assert_eq!(plan(&web, &twins, 1000).delete, [1]);
}

#[test]
fn subsets_are_packed_before_they_are_mirrored() {
    let split = view(
        r#"{"metadata":{"name":"web"},"subsets":[
        {"addresses":[{"ip":"10.0.0.1"}],"ports":[{"name":"a","port":1}]},
        {"addresses":[{"ip":"10.0.0.1"}],"ports":[{"name":"b","port":2}]},
        {"addresses":[{"ip":"10.0.0.2"}]}]}"#,
    );
    let made = plan(&split, &[], 1000).create;
    let shape: Vec<_> = made.iter().map(|draft| (draft.ports.len(), ips(draft))).collect();
    assert_eq!(shape, [(0, vec![("10.0.0.2", true)]), (2, vec![("10.0.0.1", true)])]);
}

#[test]
fn too_many_addresses_are_cut_ready_ones_last_and_invalid_ones_are_counted() {
    let web = view(&WEB.replace("010.0.0.1", "nonsense"));
    let made = plan(&web, &[], 1000);
    assert_eq!((made.notes.invalid, made.notes.skipped), (1, 1));
    let made = plan(&view(WEB), &[], 2);
    assert_eq!((made.notes.invalid, made.notes.skipped), (0, 2));
    assert_eq!(made.create.iter().map(|draft| draft.endpoints.len()).sum::<usize>(), 2);
    assert!(made.create.iter().all(|draft| draft.endpoints.iter().all(|e| e.ready == Some(true))));
}

#[test]
fn endpoints_with_skip_mirror_are_not_mirrored() {
    let with = |metadata: &str| is_mirrored(&tree(&format!(r#"{{"metadata":{metadata}}}"#)));
    assert!(with("{}"));
    assert!(with(r#"{"labels":{"endpointslice.kubernetes.io/skip-mirror":"false"}}"#));
    assert!(!with(r#"{"labels":{"endpointslice.kubernetes.io/skip-mirror":"true"}}"#));
    assert!(!with(r#"{"annotations":{"control-plane.alpha.kubernetes.io/leader":""}}"#));
}

#[test]
fn nothing_is_created_for_deleted_endpoints() {
    let going =
        view(&WEB.replace(r#""uid":"e1""#, r#""uid":"e1","deletionTimestamp":"2026-01-01T00:00:00Z""#));
    assert_eq!(changes(&plan(&going, &[], 1000)), (0, 0, 0));
}
