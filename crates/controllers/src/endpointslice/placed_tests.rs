//! Looking at what changed alone gives the slices that looking at everything gives.

use crate::testing::random;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kinds::pod::view::{PodView, PortView};

use super::draft::Draft;
use super::placed::{Placed, Slice};
use super::plan::{self, Member, NodeOfPod, Plan};
use super::slice::SliceView;
use crate::services::ServiceView;
use crate::services::tests::{pod, service};

const MOST: usize = 5;

type Pods = BTreeMap<String, PodView>;
type Slices = BTreeMap<String, Arc<SliceView>>;

fn change(pods: &mut Pods, random: &mut impl FnMut(usize) -> usize) -> String {
    let at = random(60);
    let name = format!("p{at:02}");
    let known = pods.get_mut(&name);
    match (known, random(8)) {
        (Some(_), 0..2) => drop(pods.remove(&name)),
        (Some(known), 2..5) => known.ready = !known.ready,
        (Some(known), 5) => known.ips = Box::new([format!("10.0.1.{}", 100 + random(99)).into()]),
        (Some(known), 6) => known.deletion = 1,
        // Another port: another group.
        (Some(known), _) => {
            let number = 8080 + random(2) as i64;
            known.ports = Box::new([PortView { name: "http".into(), number, protocol: "TCP".into() }]);
        }
        (None, _) => drop(pods.insert(name.clone(), pod(&format!("10.0.0.{}", 100 + at)))),
    }
    name
}

fn members<'a>(pods: impl Iterator<Item = (&'a String, &'a PodView)>) -> Vec<Member<'a>> {
    let node = || NodeOfPod::There(Some("z".to_owned()));
    let member = |(name, pod): (&'a String, &'a PodView)| Member {
        namespace: "default",
        name,
        uid: name,
        pod: Arc::new(pod.clone()),
        node: node(),
    };
    pods.map(member).collect()
}

fn planned(service: &ServiceView, members: &[Member<'_>], slices: &[Arc<SliceView>], more: bool) -> Plan {
    plan::plan(service, members, slices, MOST, more, None, &mut Default::default())
}

/// The slices after a plan for some of them, and what changed. `fresh` names new ones.
fn applied(
    service: &ServiceView,
    slices: &Slices,
    given: &[Arc<SliceView>],
    plan: &Plan,
    fresh: usize,
) -> (Slices, BTreeSet<String>) {
    let view = |name: &str, draft: &Draft| {
        Arc::new(SliceView {
            name: name.to_owned(),
            address_type: draft.address_type.as_str().to_owned(),
            ports: draft.ports.clone(),
            endpoints: draft.endpoints.clone(),
            labels: draft.labels.clone(),
            owners: vec![service.uid.clone()],
        })
    };
    let (mut after, mut touched) = (slices.clone(), BTreeSet::new());
    let made = plan.create.iter().enumerate().map(|(i, draft)| {
        // Names come in no order.
        (format!("{:03}-{fresh}-{i}", (fresh * 37 + i * 11) % 1000), draft)
    });
    let updated = plan.update.iter().map(|(i, draft)| (given[*i].name.clone(), draft));
    for (name, draft) in made.chain(updated) {
        after.insert(name.clone(), view(&name, draft));
        touched.insert(name);
    }
    for i in &plan.delete {
        after.remove(&given[*i].name);
        touched.insert(given[*i].name.clone());
    }
    (after, touched)
}

fn holds_for(seed: u64, spec: &str) -> usize {
    let (service, mut random) = (service(spec), random(seed));
    let (mut pods, mut slices, mut placed) = (Pods::new(), Slices::new(), Placed::default());
    let mut narrowed = 0;
    for step in 0..150 {
        let many = if random(10) == 0 { 12 } else { 1 + random(3) };
        let changed: BTreeSet<String> = (0..many).map(|_| change(&mut pods, &mut random)).collect();
        let all: Vec<Arc<SliceView>> = slices.values().cloned().collect();
        let whole = planned(&service, &members(pods.iter()), &all, false);
        let (after, touched) = applied(&service, &slices, &all, &whole, step);
        let mut given = Vec::new();
        let narrow = placed.narrow(&changed, MOST, |names| {
            given = names.iter().map(|name| slices[name].clone()).collect();
            let beside = names.iter().flat_map(|name| placed.pods_in(name)).map(|name| name.to_string());
            let some: BTreeSet<String> = changed.iter().cloned().chain(beside).collect();
            let some = pods.iter().filter(|(name, _)| some.contains(*name));
            Some(planned(&service, &members(some), &given, true))
        });
        if let Some(plan) = narrow.filter(|_| !slices.is_empty()) {
            let (by_some, touched_by_some) = applied(&service, &slices, &given, &plan, step);
            assert_eq!(by_some, after, "seed {seed}, step {step}");
            assert_eq!(touched_by_some, touched, "seed {seed}, step {step}");
            narrowed += 1;
        }
        slices = after;
        for name in touched {
            placed.set(&name, slices.get(&name).map(|slice| Slice::of_view(slice)));
        }
        let mut anew = Placed::default();
        slices.iter().for_each(|(name, slice)| anew.set(name, Some(Slice::of_view(slice))));
        assert_eq!(placed, anew, "seed {seed}, step {step}");
    }
    narrowed
}

#[test]
fn what_changed_alone_gives_the_same_slices_as_everything() {
    let plain = r#"{"selector":{"app":"web"},"clusterIP":"10.96.0.9","ipFamilies":["IPv4"],"ports":[{"port":80,"targetPort":"http"}]}"#;
    let dual = r#"{"selector":{"a":"b"},"ipFamilies":["IPv4","IPv6"],"clusterIP":"10.0.0.1","trafficDistribution":"PreferClose",
        "ports":[{"port":1,"targetPort":"http"}]}"#;
    for spec in [plain, dual] {
        let narrowed: usize = (1..12).map(|seed| holds_for(seed, spec)).sum();
        assert!(narrowed > 11 * 75, "most changes are looked at alone: {narrowed}");
    }
}
