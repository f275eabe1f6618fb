//! Sweeps over every storage of the catalogue, and the tables of the generic strategy.

mod documented;
mod made_at_run_time;

use catalog::{Catalog, Storage, Verbs};
use object::normalise::{Strict, normalise};
use object::{FieldError, PatchType, Value};

use crate::samples::minimal;
use crate::{
    Context, Generation, Kind, WriteQuery, apply_scale, dedup_owner_references, invalid, kind_of,
    prepare_create, prepare_update, same, to_scale, validate_create, validate_update,
};

pub(crate) const NOW: i64 = 1_700_000_000;
pub(crate) const NOW_TEXT: &str = "2023-11-14T22:13:20Z";

pub(crate) fn json(text: &str) -> Value {
    codec::json::parse(text.as_bytes(), None).unwrap_or_else(|e| panic!("{e}: {text}"))
}

pub(crate) fn text(value: &Value) -> String {
    String::from_utf8(codec::json::to_vec(value)).unwrap()
}

pub(crate) fn storage<'c>(catalog: &'c Catalog, plural: &str) -> &'c Storage {
    catalog.storages().iter().find(|s| s.plural == *plural).unwrap_or_else(|| panic!("no storage {plural}"))
}

pub(crate) fn lines(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn normalised(catalog: &Catalog, storage: &Storage, value: &mut Value) {
    let mut strict = Strict::default();
    normalise(catalog.schema(), storage.ty, value, &mut strict)
        .unwrap_or_else(|e| panic!("{}: {e:?}", storage.kind));
}

#[test]
fn every_storage_has_a_row_and_every_row_a_storage() {
    let catalog = Catalog::builtin();
    let mut rows: Vec<(String, String)> =
        crate::list::rows().map(|(g, p)| (g.to_owned(), p.to_owned())).collect();
    let mut storages: Vec<(String, String)> =
        catalog.storages().iter().map(|s| (s.group.to_string(), s.plural.to_string())).collect();
    rows.sort();
    storages.sort();
    assert_eq!(rows, storages);
}

/// Served without being stored, or the body of a subresource; those that only open a connection are no objects.
#[test]
fn every_unstored_kind_has_a_row_and_every_row_an_unstored_kind() {
    let catalog = Catalog::builtin();
    let resources = catalog.resources().iter();
    let served = resources.clone().filter(|r| r.storage.is_none()).map(|r| (&*r.group, &*r.kind));
    let bodies = resources.flat_map(|r| {
        let others = r.subresources.iter().filter(|s| s.kind != r.kind && !s.kind.ends_with("Options"));
        others.map(|s| (&*s.group, &*s.kind))
    });
    let unstored: std::collections::BTreeSet<(&str, &str)> = served.chain(bodies).collect();
    let rows: Vec<(&str, &str)> = crate::list::unstored_rows().collect();
    assert_eq!(rows, unstored.into_iter().collect::<Vec<_>>(), "in order, and none twice");
}

#[test]
fn a_minimal_object_of_every_kind_is_created_and_updated() {
    let catalog = Catalog::builtin();
    for storage in catalog.storages() {
        let kind = kind_of(storage);
        let ctx = Context::plain(storage, NOW);
        let mut new = minimal(storage);
        new.make_map().set("status", json(r#"{"phase":"Forged"}"#));
        new.map_at(&["metadata"]).set("annotations", json(r#"{"a":"1"}"#));
        crate::defaults::apply(kind_of(storage), &storage.version, &mut new);
        prepare_create(kind, &mut new, &ctx);
        normalised(&catalog, storage, &mut new);
        kind.canonicalise(&mut new);
        let touched = text(&new);
        normalised(&catalog, storage, &mut new);
        assert_eq!(text(&new), touched, "{} is no longer canonical", storage.kind);
        let forged = new.str_at(&["status", "phase"]) == Some("Forged");
        assert_eq!(forged, storage.kind == "Node", "{}", storage.kind);
        // Events must be about something in their own namespace.
        let event = |e: &FieldError| storage.kind == "Event" && e.field == "involvedObject.namespace";
        let errors: Vec<FieldError> =
            validate_create(kind, storage, &new, &ctx).into_iter().filter(|e| !event(e)).collect();
        assert_eq!(lines(&errors), Vec::<String>::new(), "{}", storage.kind);

        // An update that changes nothing changes nothing, whatever it says of status, generation and identity.
        let old = new;
        for subresource in [None, Some("status"), Some("scale")] {
            let mut again = old.clone();
            if subresource.is_none() && kind.rules().keep_status_on_update {
                again.make_map().set("status", json(r#"{"phase":"Forged"}"#));
            }
            let metadata = again.map_at(&["metadata"]);
            metadata.set("generation", 77i64);
            metadata.remove("uid");
            metadata.remove("creationTimestamp");
            let ctx = Context { subresource, ..ctx };
            prepare_update(kind, &mut again, &old, &ctx);
            normalised(&catalog, storage, &mut again);
            assert_eq!(text(&again), text(&old), "{} {subresource:?}", storage.kind);
            let errors = validate_update(kind, storage, &again, &old, &ctx);
            assert!(errors.iter().all(event), "{} {:?}", storage.kind, lines(&errors));
        }
    }
}

#[test]
fn status_writes_change_neither_spec_nor_generation() {
    let catalog = Catalog::builtin();
    let with_status = catalog.storages().iter().filter(|s| kind_of(s).rules().keep_status_on_update);
    for storage in with_status {
        let kind = kind_of(storage);
        let old = json(r#"{"metadata":{"name":"x","generation":4},"spec":{"a":1},"status":{"s":1}}"#);
        let mut new = json(
            r#"{"metadata":{"name":"x","labels":{"l":"1"},"annotations":{"a":"1"},"ownerReferences":[{"uid":"1"}]},"spec":{"a":2},"status":{"s":2}}"#,
        );
        let ctx = Context { subresource: Some("status"), ..Context::plain(storage, NOW) };
        prepare_update(kind, &mut new, &old, &ctx);
        assert_eq!(new.at(&["spec", "a"]), Some(&Value::Int(1)), "{}", storage.kind);
        assert_eq!(new.at(&["status", "s"]), Some(&Value::Int(2)), "{}", storage.kind);
        assert_eq!(new.at(&["metadata", "generation"]), Some(&Value::Int(4)), "{}", storage.kind);
    }
}

#[test]
fn what_a_status_write_may_change_of_the_metadata_depends_on_the_kind() {
    let catalog = Catalog::builtin();
    // kind, and which of labels, annotations, finalizers, owners stay as they were
    let table = [
        ("daemonsets", [false, false, false, false]),
        ("customresourcedefinitions", [false, false, false, false]),
        ("deployments", [true, false, false, false]),
        ("pods", [false, false, false, true]),
        ("apiservices", [true, true, true, true]),
        ("resourceclaims", [true, true, true, true]),
        ("flowschemas", [true, true, true, true]),
    ];
    for (plural, kept) in table {
        let storage = storage(&catalog, plural);
        let old = json(r#"{"metadata":{"name":"x","labels":{"was":"1"}}}"#);
        let mut new = json(
            r#"{"metadata":{"name":"x","labels":{"now":"1"},"annotations":{"a":"1"},"finalizers":["a/b"],"ownerReferences":[{"uid":"1"}]}}"#,
        );
        let ctx = Context { subresource: Some("status"), ..Context::plain(storage, NOW) };
        prepare_update(kind_of(storage), &mut new, &old, &ctx);
        let found = ["labels", "annotations", "finalizers", "ownerReferences"].map(|m| {
            let mut annotations = new.at(&["metadata", m]).cloned();
            // Daemon sets always carry theirs.
            if let Some(map) = annotations.as_mut().and_then(Value::as_map_mut) {
                map.remove("deprecated.daemonset.template.generation");
            }
            same(annotations.as_ref(), old.at(&["metadata", m]))
        });
        assert_eq!(found, kept, "{plural}");
    }
}

#[test]
fn generation_changes_with_the_fields_of_the_kind() {
    let catalog = Catalog::builtin();
    let base = r#"{"metadata":{"name":"x","labels":{"a":"1"},"annotations":{"a":"1"},"generation":3},"spec":{"a":1},"webhooks":[{"name":"a"}],"template":{"a":1},"endpoints":[{"a":1}]}"#;
    // kind, what of the text changes, the generation after
    let table = [
        ("replicasets", (r#""spec":{"a":1}"#, r#""spec":{"a":2}"#), 4),
        ("replicasets", (r#""labels":{"a":"1"}"#, r#""labels":{"a":"2"}"#), 3),
        ("replicasets", (r#""annotations":{"a":"1"}"#, r#""annotations":{"a":"2"}"#), 3),
        ("deployments", (r#""annotations":{"a":"1"}"#, r#""annotations":{"a":"2"}"#), 4),
        ("pods", (r#""spec":{"a":1}"#, r#""spec":{"a":2}"#), 4),
        ("configmaps", (r#""spec":{"a":1}"#, r#""spec":{"a":2}"#), 3),
        ("services", (r#""spec":{"a":1}"#, r#""spec":{"a":2}"#), 3),
        ("podtemplates", (r#""template":{"a":1}"#, r#""template":{"a":2}"#), 4),
        ("mutatingwebhookconfigurations", (r#"[{"name":"a"}]"#, r#"[{"name":"b"}]"#), 4),
        ("endpointslices", (r#""endpoints":[{"a":1}]"#, r#""endpoints":[]"#), 4),
        ("endpointslices", (r#""labels":{"a":"1"}"#, r#""labels":{"a":"2"}"#), 4),
        ("endpointslices", (r#""annotations":{"a":"1"}"#, r#""annotations":{"a":"2"}"#), 3),
        ("priorityclasses", (r#""spec":{"a":1}"#, r#""spec":{"a":2}"#), 3),
        ("csidrivers", (r#""spec":{"a":1}"#, r#""spec":{"a":2}"#), 4),
    ];
    for (plural, (from, to), wanted) in table {
        let storage = storage(&catalog, plural);
        let mut new = json(&base.replace(from, to));
        prepare_update(kind_of(storage), &mut new, &json(base), &Context::plain(storage, NOW));
        assert_eq!(new.at(&["metadata", "generation"]), Some(&Value::Int(wanted)), "{plural}: {to}");
    }
}

#[test]
fn generation_starts_where_the_kind_has_one() {
    let catalog = Catalog::builtin();
    for (plural, wanted) in [
        ("pods", Some(1)),
        ("deployments", Some(1)),
        ("priorityclasses", Some(1)),
        ("csidrivers", None),
        ("services", None),
        ("configmaps", None),
    ] {
        let storage = storage(&catalog, plural);
        let mut new = minimal(storage);
        prepare_create(kind_of(storage), &mut new, &Context::plain(storage, NOW));
        assert_eq!(new.at(&["metadata", "generation"]).and_then(Value::as_int), wanted, "{plural}");
    }
    assert_eq!(kind_of(storage(&catalog, "pods")).rules().generation, Generation::SPEC);
}

#[test]
fn equality_sees_neither_order_nor_emptiness() {
    let table = [
        (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#, true),
        (r#"{"a":1,"b":null}"#, r#"{"a":1}"#, true),
        (r#"{"a":1,"r":{},"l":[]}"#, r#"{"a":1}"#, true),
        (r#"{"a":{"b":{}}}"#, r#"{}"#, true),
        (r#"{"a":1}"#, r#"{"a":2}"#, false),
        (r#"{"a":1,"b":2}"#, r#"{"a":1}"#, false),
        (r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#, false),
        (r#"{"a":""}"#, r#"{}"#, false),
    ];
    for (a, b, wanted) in table {
        assert_eq!(same(Some(&json(a)), Some(&json(b))), wanted, "{a} {b}");
        assert_eq!(same(Some(&json(b)), Some(&json(a))), wanted, "{b} {a}");
    }
}

/// Every line was asked of kube-apiserver v1.36.4: does the generation move from the first to the second, and back?
#[test]
fn maps_are_compared_in_one_walk_whatever_their_order() {
    let catalog = Catalog::builtin();
    let storage = storage(&catalog, "configmaps");
    let map = |names: &mut dyn Iterator<Item = usize>| {
        let members: Vec<String> = names.map(|i| format!("\"k{i:06}\":\"\"")).collect();
        json(&format!("{{\"data\":{{{}}}}}", members.join(",")))
    };
    // Each with each would take minutes.
    let (up, down) = (map(&mut (0..200_000)), map(&mut (0..200_000).rev()));
    let other = map(&mut (1..200_001));
    let spot = crate::equal::FieldType::of(storage, &["data"]);
    let data = |tree: &Value| tree.at(&["data"]).cloned();
    for (a, b, alike) in [(&up, &up, true), (&up, &down, true), (&up, &other, false)] {
        let (a, b) = (data(a), data(b));
        assert_eq!(spot.same(a.as_ref(), b.as_ref()), alike);
        assert_eq!(spot.identical(a.as_ref(), b.as_ref()), alike);
        assert_eq!(same(a.as_ref(), b.as_ref()), alike);
    }
}

#[test]
fn equality_is_that_of_the_type() {
    let catalog = Catalog::builtin();
    let none = r#"{}"#;
    let table = [
        // A pointer to nothing is not nil,
        ("deployments", r#"{"template":{"spec":{"affinity":{}}}}"#, none, true),
        (
            "deployments",
            r#"{"template":{"spec":{"containers":[{"lifecycle":{}}]}}}"#,
            r#"{"template":{"spec":{"containers":[{}]}}}"#,
            true,
        ),
        ("deployments", r#"{"template":{"spec":{"dnsConfig":{"nameservers":[]}}}}"#, none, true),
        ("deployments", r#"{"paused":false,"minReadySeconds":0}"#, none, false),
        ("deployments", r#"{"progressDeadlineSeconds":0}"#, none, true),
        ("cronjobs", r#"{"jobTemplate":{"spec":{"podFailurePolicy":{}}}}"#, none, true),
        (
            "customresourcedefinitions",
            r#"{"versions":[{"subresources":{"status":{}}}]}"#,
            r#"{"versions":[{"subresources":{}}]}"#,
            true,
        ),
        // an empty list or map is, as is a struct that is held by value,
        ("deployments", r#"{"template":{"spec":{"nodeSelector":{},"tolerations":[]}}}"#, none, false),
        (
            "deployments",
            r#"{"template":{"spec":{"containers":[{"resources":{}}]}}}"#,
            r#"{"template":{"spec":{"containers":[{}]}}}"#,
            false,
        ),
        ("deployments", r#"{"strategy":{},"template":{"metadata":{}}}"#, none, false),
        ("replicationcontrollers", r#"{"selector":{}}"#, none, false),
        ("poddisruptionbudgets", r#"{"selector":{}}"#, none, true),
        // and amounts are equal by what they say.
        (
            "deployments",
            r#"{"template":{"spec":{"overhead":{"memory":"1Ki"}}}}"#,
            r#"{"template":{"spec":{"overhead":{"memory":"1024"}}}}"#,
            false,
        ),
        // Two kinds of kinds tell empty from absent.
        ("networkpolicies", r#"{"ingress":[]}"#, none, true),
        ("networkpolicies", r#"{"podSelector":{"matchLabels":{}}}"#, none, true),
        (
            "networkpolicies",
            r#"{"ingress":[{"from":[{"namespaceSelector":{}}]}]}"#,
            r#"{"ingress":[{"from":[{}]}]}"#,
            true,
        ),
    ];
    for (plural, a, b, wanted) in table {
        let storage = storage(&catalog, plural);
        for (old, new) in [(a, b), (b, a)] {
            let object =
                |spec: &str| json(&format!(r#"{{"metadata":{{"name":"x","generation":3}},"spec":{spec}}}"#));
            let mut after = object(new);
            prepare_update(kind_of(storage), &mut after, &object(old), &Context::plain(storage, NOW));
            let moved = after.at(&["metadata", "generation"]) == Some(&Value::Int(4));
            assert_eq!(moved, wanted, "{plural}: {old} to {new}");
        }
    }
}

#[test]
fn pods_start_pending_with_a_qos_class_and_change_only_through_subresources() {
    let catalog = Catalog::builtin();
    let storage = storage(&catalog, "pods");
    let kind = kind_of(storage);
    let resources = |list: &[&str]| {
        let containers: Vec<String> =
            list.iter().map(|r| format!(r#"{{"name":"c","resources":{r}}}"#)).collect();
        json(&format!(r#"{{"metadata":{{"name":"p"}},"spec":{{"containers":[{}]}}}}"#, containers.join(",")))
    };
    let both = r#"{"requests":{"cpu":"100m","memory":"1Gi"},"limits":{"cpu":"0.1","memory":"1024Mi"}}"#;
    for (containers, wanted) in [
        (vec!["{}"], "BestEffort"),
        (vec![r#"{"requests":{"cpu":"0"}}"#], "BestEffort"),
        (vec![r#"{"requests":{"nvidia.com/gpu":"1"}}"#], "BestEffort"),
        (vec![r#"{"requests":{"cpu":"1"}}"#], "Burstable"),
        (vec![both], "Guaranteed"),
        (vec![both, "{}"], "Burstable"),
        (vec![r#"{"requests":{"cpu":"1","memory":"1"},"limits":{"cpu":"2","memory":"1"}}"#], "Burstable"),
    ] {
        let mut pod = resources(&containers);
        prepare_create(kind, &mut pod, &Context::plain(storage, NOW));
        assert_eq!(pod.str_at(&["status", "qosClass"]), Some(wanted), "{containers:?}");
        assert_eq!(pod.str_at(&["status", "phase"]), Some("Pending"));
    }

    let old = json(
        r#"{"metadata":{"name":"p","labels":{"a":"1"},"generation":1},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i","resources":{}}]},"status":{"phase":"Running"}}"#,
    );
    let mut new = json(
        r#"{"metadata":{"name":"p","labels":{"a":"2"}},"spec":{"nodeName":"m","containers":[{"name":"c","image":"j","resources":{"limits":{"cpu":"1"}}}],"ephemeralContainers":[{"name":"d"}]},"status":{"phase":"Failed"}}"#,
    );
    let mut resized = new.clone();
    let ctx = Context::plain(storage, NOW);
    prepare_update(kind, &mut new, &old, &Context { subresource: Some("ephemeralcontainers"), ..ctx });
    assert_eq!(
        text(&new),
        r#"{"metadata":{"name":"p","labels":{"a":"1"},"generation":2},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i","resources":{}}],"ephemeralContainers":[{"name":"d"}]},"status":{"phase":"Running"}}"#
    );
    prepare_update(kind, &mut resized, &old, &Context { subresource: Some("resize"), ..ctx });
    assert_eq!(
        text(&resized),
        r#"{"metadata":{"name":"p","labels":{"a":"1"},"generation":2},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"1"}}}]},"status":{"phase":"Running"}}"#
    );
}

#[test]
fn kinds_fill_in_what_the_server_owns() {
    let catalog = Catalog::builtin();
    let created = |plural: &str, body: &str| {
        let storage = storage(&catalog, plural);
        let groups = ["g".to_owned()];
        let extra = [("k".to_owned(), vec!["v".to_owned()])].into();
        let requester = crate::Requester { name: "jane", uid: "7", groups: &groups, extra: Some(&extra) };
        let ctx = Context { requester, ..Context::plain(storage, NOW) };
        let mut new = json(body);
        prepare_create(kind_of(storage), &mut new, &ctx);
        kind_of(storage).canonicalise(&mut new);
        text(&new)
    };
    assert_eq!(
        created("namespaces", r#"{"metadata":{"name":"n"},"spec":{"finalizers":["x/y"]}}"#),
        r#"{"metadata":{"name":"n","labels":{"kubernetes.io/metadata.name":"n"}},"spec":{"finalizers":["x/y","kubernetes"]},"status":{"phase":"Active"}}"#
    );
    assert_eq!(
        created("limitranges", r#"{"metadata":{"uid":"abc"}}"#),
        r#"{"metadata":{"uid":"abc","name":"abc"}}"#
    );
    assert_eq!(
        created("serviceaccounts", r#"{"metadata":{"name":"s"},"secrets":[{"name":"a","namespace":"b"}]}"#),
        r#"{"metadata":{"name":"s"},"secrets":[{"name":"a"}]}"#
    );
    assert_eq!(
        created(
            "certificatesigningrequests",
            r#"{"metadata":{"name":"c"},"spec":{"username":"root","request":"x"}}"#
        ),
        r#"{"metadata":{"name":"c"},"spec":{"request":"x","username":"jane","uid":"7","groups":["g"],"extra":{"k":["v"]}},"status":{}}"#
    );
    assert_eq!(
        created("persistentvolumes", r#"{"metadata":{"name":"p"}}"#),
        format!(
            r#"{{"metadata":{{"name":"p"}},"status":{{"phase":"Pending","lastPhaseTransitionTime":"{NOW_TEXT}"}}}}"#
        )
    );
    assert_eq!(
        created(
            "jobs",
            r#"{"metadata":{"name":"j","uid":"u"},"spec":{"template":{"metadata":{"labels":{"job-name":"mine"}}}}}"#
        ),
        r#"{"metadata":{"name":"j","uid":"u","generation":1,"labels":{"job-name":"mine","batch.kubernetes.io/job-name":"j","controller-uid":"u","batch.kubernetes.io/controller-uid":"u"}},"spec":{"template":{"metadata":{"labels":{"job-name":"mine","batch.kubernetes.io/job-name":"j","controller-uid":"u","batch.kubernetes.io/controller-uid":"u"}}},"selector":{"matchLabels":{"batch.kubernetes.io/controller-uid":"u"}}},"status":{}}"#
    );
    assert_eq!(
        created(
            "customresourcedefinitions",
            r#"{"metadata":{"name":"c"},"spec":{"versions":[{"name":"v1"},{"name":"v2","storage":true}]}}"#
        ),
        r#"{"metadata":{"name":"c","generation":1},"spec":{"versions":[{"name":"v1"},{"name":"v2","storage":true}]},"status":{"storedVersions":["v2"]}}"#
    );
    assert!(created("apiservices", r#"{"metadata":{"name":"v1."}}"#).contains(r#""reason":"Local""#));
    assert!(
        !created("apiservices", r#"{"metadata":{"name":"v1."},"spec":{"service":{"name":"x"}}}"#)
            .contains("Local")
    );
    assert!(created("daemonsets", r#"{"metadata":{"name":"d"}}"#).contains(r#"template.generation":"1""#));
}

#[test]
fn a_decided_signing_request_keeps_its_decision_through_status_writes() {
    let catalog = Catalog::builtin();
    let storage = storage(&catalog, "certificatesigningrequests");
    let old = json(r#"{"metadata":{"name":"c"},"spec":{"request":"x"},"status":{}}"#);
    let mut approved = json(
        r#"{"metadata":{"name":"c"},"spec":{"request":"y"},"status":{"certificate":"forged","conditions":[{"type":"Approved","status":"True"}]}}"#,
    );
    let ctx = Context { subresource: Some("approval"), ..Context::plain(storage, NOW) };
    prepare_update(kind_of(storage), &mut approved, &old, &ctx);
    assert_eq!(
        text(&approved),
        format!(
            r#"{{"metadata":{{"name":"c"}},"spec":{{"request":"x"}},"status":{{"conditions":[{{"type":"Approved","status":"True","lastUpdateTime":"{NOW_TEXT}","lastTransitionTime":"{NOW_TEXT}"}}]}}}}"#
        )
    );
    let mut signed = json(
        r#"{"metadata":{"name":"c"},"status":{"certificate":"real","conditions":[{"type":"Approved","status":"False"}]}}"#,
    );
    let ctx = Context { subresource: Some("status"), now: NOW + 5, ..ctx };
    prepare_update(kind_of(storage), &mut signed, &approved, &ctx);
    assert_eq!(signed.at(&["status", "conditions"]), approved.at(&["status", "conditions"]));
    assert_eq!(signed.str_at(&["status", "certificate"]), Some("real"));
}

#[test]
fn secrets_merge_string_data_into_data() {
    let catalog = Catalog::builtin();
    let resource = catalog.find("", "v1", "secrets").unwrap();
    let kind = kind_of(storage(&catalog, "secrets"));
    let mut secret = json(r#"{"data":{"a":"eA==","b":"eQ=="},"stringData":{"a":"hello","c":""}}"#);
    kind.to_storage(&mut secret, resource).unwrap();
    assert_eq!(text(&secret), r#"{"data":{"a":"aGVsbG8=","b":"eQ==","c":""}}"#);
}

#[test]
fn events_keep_everything_in_either_group() {
    let catalog = Catalog::builtin();
    let core = storage(&catalog, "events");
    let kind = kind_of(core);
    let theirs = catalog.find("events.k8s.io", "v1", "events").unwrap();
    let own = catalog.find("", "v1", "events").unwrap();
    let source = r#"{"kind":"Event","apiVersion":"events.k8s.io/v1","metadata":{"name":"e","namespace":"n"},"eventTime":"2023-11-14T22:13:20.000001Z","series":{"count":3,"lastObservedTime":"2023-11-14T22:13:20.000001Z"},"reportingController":"a/b","reportingInstance":"i","action":"act","reason":"why","regarding":{"kind":"Pod","namespace":"n","name":"p"},"related":{"kind":"Node","name":"n1"},"note":"text","type":"Normal","deprecatedSource":{"component":"c"},"deprecatedFirstTimestamp":"2023-11-14T22:13:20Z","deprecatedLastTimestamp":"2023-11-14T22:13:20Z","deprecatedCount":2}"#;
    let mut event = json(source);
    kind.to_storage(&mut event, theirs).unwrap();
    normalised(&catalog, core, &mut event);
    for (path, wanted) in [
        (&["apiVersion"][..], "v1"),
        (&["message"], "text"),
        (&["involvedObject", "name"], "p"),
        (&["reportingComponent"], "a/b"),
        (&["source", "component"], "c"),
    ] {
        assert_eq!(event.str_at(path), Some(wanted), "{path:?}");
    }
    assert_eq!(event.get("count"), Some(&Value::Int(2)));
    let mut same_event = event.clone();
    kind.to_storage(&mut same_event, own).unwrap();
    assert_eq!(same_event, event);
    kind.from_storage(&mut event, theirs);
    normalise(catalog.schema(), theirs.ty, &mut event, &mut Strict::default()).unwrap();
    assert_eq!(text(&event), text(&json(source)));
}

#[test]
fn events_are_validated_by_the_group_they_are_written_through() {
    let catalog = Catalog::builtin();
    let storage = storage(&catalog, "events");
    let kind = kind_of(storage);
    let old_style = json(r#"{"metadata":{"name":"E_","namespace":"n"},"involvedObject":{"namespace":"n"}}"#);
    let core = Context::plain(storage, NOW);
    let strict = Context { group: "events.k8s.io", ..core };
    assert_eq!(lines(&validate_create(kind, storage, &old_style, &core)), Vec::<String>::new());
    let errors = lines(&validate_create(kind, storage, &old_style, &strict));
    assert!(errors[0].starts_with("metadata.name: Invalid value: \"E_\""), "{errors:?}");
    assert_eq!(errors[1..], ["eventTime: Required value", "type: Invalid value: \"\": has invalid value: "]);
    let mut elsewhere = old_style.clone();
    elsewhere.map_at(&["involvedObject"]).set("namespace", "other");
    let wanted = ["involvedObject.namespace: Invalid value: \"other\": does not match event.namespace"];
    assert_eq!(lines(&validate_create(kind, storage, &elsewhere, &core)), wanted);
    let mut changed = old_style.clone();
    changed.make_map().set("reason", "new");
    let errors = lines(&validate_update(kind, storage, &changed, &old_style, &strict));
    assert_eq!(errors, ["reason: Invalid value: \"new\": field is immutable"; 2]);
    assert_eq!(lines(&validate_update(kind, storage, &changed, &old_style, &core)), Vec::<String>::new());
}

#[test]
fn scale_shows_replicas_and_moves_them_back() {
    let catalog = Catalog::builtin();
    let deployments = storage(&catalog, "deployments");
    let paths = kind_of(deployments).scale_paths("v1").unwrap();
    let mut object = json(
        r#"{"metadata":{"name":"d","namespace":"n","uid":"u","resourceVersion":"7","creationTimestamp":"2023-11-14T22:13:20Z","labels":{"a":"b"}},"spec":{"replicas":2,"selector":{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"c","operator":"In","values":["e","d"]}]}},"status":{"replicas":1}}"#,
    );
    let mut scale = to_scale(paths, &object).unwrap();
    assert_eq!(
        text(&scale),
        r#"{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"d","namespace":"n","uid":"u","resourceVersion":"7","creationTimestamp":"2023-11-14T22:13:20Z"},"spec":{"replicas":2},"status":{"replicas":1,"selector":"a=b,c in (d,e)"}}"#
    );
    scale.map_at(&["spec"]).set("replicas", 5i64);
    scale.map_at(&["metadata"]).remove("resourceVersion");
    apply_scale(paths, deployments, &mut object, &scale).unwrap();
    assert_eq!(object.at(&["spec", "replicas"]), Some(&Value::Int(5)));
    assert_eq!(object.at(&["metadata", "resourceVersion"]), None);

    scale.map_at(&["spec"]).set("replicas", -1i64);
    let refused = apply_scale(paths, deployments, &mut object, &scale).unwrap_err();
    let wanted = "Scale.autoscaling \"d\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0";
    assert_eq!((refused.code, refused.message.as_str()), (422, wanted));
    scale.map_at(&["spec"]).set("replicas", 1i64);
    scale.map_at(&["metadata"]).set("uid", "other");
    let refused = apply_scale(paths, deployments, &mut object, &scale).unwrap_err();
    let wanted = "Operation cannot be fulfilled on deployments/scale.apps \"d\": Precondition failed: UID in precondition: other, UID in object meta: u";
    assert_eq!((refused.code, refused.message.as_str()), (409, wanted));

    let controllers = storage(&catalog, "replicationcontrollers");
    let rc = json(r#"{"metadata":{"name":"r"},"spec":{"replicas":1,"selector":{"b":"2","a":"1"}}}"#);
    let scale = to_scale(kind_of(controllers).scale_paths("v1").unwrap(), &rc).unwrap();
    assert_eq!(scale.str_at(&["status", "selector"]), Some("a=1,b=2"));
    assert!(kind_of(storage(&catalog, "daemonsets")).scale_paths("v1").is_none());
}

#[test]
fn invalid_options_get_upstreams_error() {
    let refused = |body: &str| crate::delete_options(&json(body)).unwrap_err().message;
    assert_eq!(
        refused(r#"{"propagationPolicy":"Nope"}"#),
        "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"Nope\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
    );
    assert_eq!(
        refused(r#"{"orphanDependents":true,"propagationPolicy":"Orphan"}"#),
        "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be both set"
    );
    let options = crate::delete_options(&json(
        r#"{"gracePeriodSeconds":5,"preconditions":{"uid":"u","resourceVersion":"3"},"dryRun":["All"]}"#,
    ))
    .unwrap();
    assert_eq!((options.grace_period_seconds, options.dry_run), (Some(5), true));
    assert_eq!(options.preconditions.resource_version.as_deref(), Some("3"));

    let write = |options: WriteQuery<'_>, (verb, patch): (Verbs, Option<PatchType>)| {
        options.parse(verb, patch).unwrap_err().message
    };
    let nope = WriteQuery { field_validation: "Nope", ..WriteQuery::default() };
    assert_eq!(
        write(nope, (Verbs::CREATE, None)),
        "CreateOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: \"Nope\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\""
    );
    let dry = WriteQuery { dry_run: vec!["Nope"], ..WriteQuery::default() };
    assert_eq!(
        write(dry, (Verbs::CREATE, None)),
        "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Nope\"]: supported values: \"All\""
    );
    let force = WriteQuery { force: Some(true), ..WriteQuery::default() };
    assert_eq!(
        write(force.clone(), (Verbs::PATCH, Some(PatchType::Merge))),
        "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch"
    );
    assert_eq!(
        write(force, (Verbs::PATCH, Some(PatchType::Apply))),
        "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch"
    );
    let name = format!("a\u{7}{}", "x".repeat(130));
    let manager = WriteQuery { field_manager: &name, ..WriteQuery::default() };
    let message = write(manager, (Verbs::UPDATE, None));
    assert!(message.starts_with(
        "UpdateOptions.meta.k8s.io \"\" is invalid: [fieldManager: Too long: may not be more than 128 bytes"
    ));
    assert!(message.ends_with("invalid character U+0007 (at position 1)]"), "{message}");
    let fine = WriteQuery {
        dry_run: vec!["All"],
        field_manager: "m",
        field_validation: "Strict",
        force: Some(true),
    };
    let parsed = fine.parse(Verbs::PATCH, Some(PatchType::Apply)).unwrap();
    let strict = object::FieldValidation::Strict;
    let wanted = object::WriteOptions {
        field_manager: "m",
        force: true,
        dry_run: true,
        field_validation: strict,
        names_field_validation: true,
    };
    assert_eq!(parsed, wanted);
    assert_eq!(
        WriteQuery::default().parse(Verbs::CREATE, None).unwrap().field_validation,
        object::FieldValidation::Warn
    );
}

#[test]
fn config_maps_and_secrets_keep_their_limits() {
    let catalog = Catalog::builtin();
    let check = |plural: &str, new: &str, old: Option<&str>| {
        let storage = storage(&catalog, plural);
        let meta = r#""metadata":{"name":"x","namespace":"n"}"#;
        let object = |members: &str| {
            json(&format!("{{{meta}{}{members}}}", if members.is_empty() { "" } else { "," }))
        };
        let ctx = Context::plain(storage, NOW);
        let kind: &dyn Kind = kind_of(storage);
        lines(&match old {
            None => validate_create(kind, storage, &object(new), &ctx),
            Some(old) => validate_update(kind, storage, &object(new), &object(old), &ctx),
        })
    };
    let frozen = "field is immutable when `immutable` is set";
    let big = format!(r#""data":{{"a":"{}"}}"#, "x".repeat(1_048_577));
    assert_eq!(check("configmaps", &big, None), ["[]: Too long: may not be more than 1048576 bytes"]);
    let full = format!(r#""data":{{"a":"{}"}}"#, "x".repeat(1_048_576));
    assert_eq!(check("configmaps", &full, None), [""; 0]);
    assert_eq!(
        check("configmaps", r#""data":{"a":"1"},"binaryData":{"a":"AA=="}"#, None),
        ["data[a]: Invalid value: \"a\": duplicate of key present in binaryData"]
    );
    let bad = check("configmaps", r#""data":{"a/b":"1"}"#, None);
    assert!(
        bad.len() == 1 && bad[0].starts_with("data[a/b]: Invalid value: \"a/b\": a valid config key"),
        "{bad:?}"
    );
    assert_eq!(
        check("configmaps", r#""data":{"a":"2"}"#, Some(r#""data":{"a":"1"},"immutable":true"#)),
        [format!("immutable: Forbidden: {frozen}"), format!("data: Forbidden: {frozen}")]
    );
    assert_eq!(check("configmaps", r#""data":{"a":"2"}"#, Some(r#""data":{"a":"1"}"#)), [""; 0]);
    assert_eq!(
        check("secrets", r#""type":"b""#, Some(r#""type":"a""#)),
        ["type: Invalid value: \"b\": field is immutable"]
    );
    assert_eq!(
        check("secrets", r#""type":"kubernetes.io/tls","data":{"tls.crt":""}"#, None),
        ["data[tls.key]: Required value"]
    );
    assert_eq!(
        check(
            "secrets",
            r#""type":"kubernetes.io/dockerconfigjson","data":{".dockerconfigjson":"e30="}"#,
            None
        ),
        [""; 0]
    );
    let broken = check(
        "secrets",
        r#""type":"kubernetes.io/dockerconfigjson","data":{".dockerconfigjson":"eyI="}"#,
        None,
    );
    assert!(
        broken[0].starts_with("data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\""),
        "{broken:?}"
    );
}

#[test]
fn a_refusal_names_an_error_once_and_lists_every_cause() {
    let catalog = Catalog::builtin();
    let storage = storage(&catalog, "deployments");
    let error = FieldError::required("a", "");
    let status = invalid(storage, "x", vec![error.clone(), error]);
    assert_eq!(status.message, "Deployment.apps \"x\" is invalid: a: Required value");
    assert_eq!(status.details.unwrap().causes.len(), 2);
}

#[test]
fn duplicate_owners_are_dropped_with_a_warning() {
    let mut object = json(
        r#"{"metadata":{"ownerReferences":[{"uid":"1","name":"a"},{"uid":"1","name":"b"},{"name":"a","uid":"1"}]}}"#,
    );
    let warning = dedup_owner_references(&mut object, false).unwrap();
    assert!(warning.ends_with("duplicate UID(s) observed: 1"), "{warning}");
    assert_eq!(object.at(&["metadata", "ownerReferences"]).unwrap().as_list().unwrap().len(), 2);
    assert_eq!(dedup_owner_references(&mut object, false), None);
}
