//! Members kept between looks, with what changed of them, decide the same as all looked at anew.

use std::collections::BTreeMap;

use catalog::Catalog;
use runtime::Key;
use runtime::owners::{Verdict, verdict};

use super::super::members::{part_of_pod, parts_of_claim};
use super::*;
use crate::changed::{Changed, Parts};

/// Numbers that look random, the same for every run of one seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    /// The first as often as all others together.
    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        if self.below(2) == 0 { of[0] } else { of[self.below(of.len())] }
    }
}

/// What informers would hold.
struct Caches<'a> {
    catalog: &'a Catalog,
    pods: BTreeMap<String, Arc<Obj>>,
    claims: BTreeMap<String, Arc<Obj>>,
    changed: Changed,
}

const READY_LATER: &str = r#"{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:20Z"}]}"#;
/// The last two mean one ordinal with others; one has none.
const NAMES: [&str; 9] =
    ["web-0", "web-1", "web-2", "web-3", "web-4", "web-5", "web-2147483648", "web-00", "web-03"];

impl Caches<'_> {
    fn stored(&self, plural: &str, metadata: &str, rest: &str) -> Arc<Obj> {
        let storage = self.catalog.find_storage("", plural).expect("a resource of the catalogue");
        let body = format!(r#"{{"kind":"X","apiVersion":"v1","metadata":{metadata}{rest}}}"#);
        let name = tree(metadata).str_at(&["name"]).expect("a name").to_owned();
        let obj = Obj::publish(storage, &storage.key("d", &name), body.as_bytes(), object::Revision(7), None);
        Arc::new(obj.expect("an object"))
    }

    fn put_pod(&mut self, name: &str, pod: Option<Arc<Obj>>) {
        let old = match &pod {
            Some(pod) => self.pods.insert(name.to_owned(), pod.clone()),
            None => self.pods.remove(name),
        };
        for (set, part) in old.iter().chain(&pod).filter_map(|pod| part_of_pod(pod)) {
            self.changed.note(&set, &part);
        }
    }

    fn put_claim(&mut self, name: &str, claim: Option<Arc<Obj>>) {
        let old = match &claim {
            Some(claim) => self.claims.insert(name.to_owned(), claim.clone()),
            None => self.claims.remove(name),
        };
        for (set, part) in old.iter().chain(&claim).flat_map(|claim| parts_of_claim(claim)) {
            self.changed.note(&set, &part);
        }
    }

    fn change_pod(&mut self, random: &mut Random) {
        let from = random.below(6);
        let name = random.pick(&NAMES[from..]);
        if random.below(6) == 0 {
            return self.put_pod(name, None);
        }
        let uid = random.pick(&["pod", "another"]);
        let going = random.pick(&["", "", r#","deletionTimestamp":"2026-01-01T00:00:00Z""#]);
        let app = random.pick(&["web", "web", "web", "other"]);
        let revision = random.pick(&["new", "old"]);
        let labelled = random.pick(&[name, name, "web-9"]);
        let theirs = OF_SET.replace(r#""uid":"set""#, r#""uid":"other""#);
        let owners = random.pick(&[OF_SET, OF_SET, OF_SET, "", &theirs]);
        let status = random.pick(&[READY, READY_LATER, STARTING, PENDING, FAILED]);
        let volumes = random.pick(&["data-web-", "data-web-", "none-"]);
        let ordinal = super::super::identity::ordinal(name).unwrap_or(0);
        let metadata = format!(
            r#"{{"name":"{name}","namespace":"d","uid":"{uid}"{going},"ownerReferences":[{owners}],"labels":{{"app":"{app}",
            "controller-revision-hash":"{revision}","statefulset.kubernetes.io/pod-name":"{labelled}"}}}}"#
        );
        let rest = format!(
            r#","spec":{{"volumes":[{{"name":"data","persistentVolumeClaim":{{"claimName":"{volumes}{ordinal}"}}}}]}},"status":{status}"#
        );
        let pod = self.stored("pods", &metadata, &rest);
        self.put_pod(name, Some(pod));
    }

    fn change_claim(&mut self, random: &mut Random) {
        let ordinal = random.below(6);
        let name = format!("data-web-{ordinal}");
        if random.below(4) == 0 {
            return self.put_claim(&name, None);
        }
        let of_pod = OF_POD.replace("web-0", &format!("web-{ordinal}"));
        let owners = random.pick(&["", OF_SET, &of_pod, OF_OTHER]);
        let going = random.pick(&["", "", r#","deletionTimestamp":"2026-01-01T00:00:00Z""#]);
        let metadata =
            format!(r#"{{"name":"{name}","namespace":"d","uid":"c"{going},"ownerReferences":[{owners}]}}"#);
        let claim = self.stored("persistentvolumeclaims", &metadata, "");
        self.put_claim(&name, Some(claim));
    }
}

/// All of a plan.
fn said(plan: &Plan) -> String {
    let pod = |pod: &Pod| format!("{} {:p}", pod.obj.name(), Arc::as_ptr(&pod.obj));
    let step = |step: &Step| match step {
        Step::Delete(gone) => format!("delete {}", pod(gone)),
        Step::Create { ordinal, current } => format!("create {ordinal}, current: {current}"),
        Step::MakeClaims { pod: of, then_update } => format!("claims of {}, update: {then_update}", pod(of)),
        Step::Update(wrong) => format!("update {}", pod(wrong)),
        Step::FixClaims(of) => format!("fix claims of {}", pod(of)),
    };
    let phases: Vec<Vec<String>> = plan.phases.iter().map(|phase| phase.iter().map(step).collect()).collect();
    format!("{phases:?} {:?} {} {:?}", plan.outdated.as_ref().map(pod), plan.more, plan.status)
}

/// How often what was kept was enough, and how often there was anything to do.
fn kept_is_the_same_as_all_anew(
    seed: u64,
    catalog: &Catalog,
    obj: &Obj,
    set: &StatefulSet,
) -> (usize, usize) {
    let mut random = Random(seed);
    let (pods, claims, changed) = (BTreeMap::new(), BTreeMap::new(), Changed::default());
    let mut caches = Caches { catalog, pods, claims, changed };
    let key = Key::new("d", "web");
    let (mut kept, mut enough, mut busy) = (Members::default(), 0, 0);
    for step in 0..60 {
        for _ in 0..random.below(4) {
            if random.below(3) == 0 {
                caches.change_claim(&mut random)
            } else {
                caches.change_pod(&mut random)
            }
        }
        if random.below(20) == 0 {
            caches.changed.forget(&key);
        }
        let claim = |name: &str| caches.claims.get(name).cloned();
        let rules = Rules { obj, set, claim: &claim };
        let found = |pod: &&Arc<Obj>| verdict(obj, pod, rules.means(pod));
        let ours = caches.pods.values().filter(|pod| found(pod) == Verdict::Ours);
        let anew = Members::new(ours.map(|pod| Pod::new(pod.clone())), &rules);
        match caches.changed.take(&key) {
            Parts::Only(parts) if kept.update(&parts, &rules, &|name| caches.pods.get(name).cloned()) => {
                enough += 1;
            }
            Parts::Only(_) => {
                let mut all = caches.pods.values();
                let moves = |pod: &Arc<Obj>| matches!(found(&pod), Verdict::Adopt | Verdict::Release);
                assert!(all.any(moves), "seed {seed}, step {step}: nothing to adopt or release");
                kept = Members::new(anew.pods().cloned(), &rules);
            }
            Parts::All => kept = Members::new(anew.pods().cloned(), &rules),
        }
        // Time passes, too.
        let now = NOW + 2 * step;
        let (some, all) = (decide_by(rules, &kept, now), decide_by(rules, &anew, now));
        assert_eq!(said(&some), said(&all), "seed {seed}, step {step}");
        busy += usize::from(all.outdated.is_some() || all.phases.iter().any(|phase| !phase.is_empty()));
    }
    (enough, busy)
}

#[test]
fn members_kept_between_looks_give_the_same_as_all_looked_at_anew() {
    let (obj, going) = (owner(""), owner(r#","deletionTimestamp":"2026-01-01T00:00:00Z""#));
    let (catalog, mut enough, mut busy) = (Catalog::builtin(), 0, 0);
    for (at, more) in [
        r#""replicas":4"#,
        r#""replicas":3,"minReadySeconds":30,"ordinals":{"start":2}"#,
        r#""replicas":5,"podManagementPolicy":"Parallel""#,
        r#""replicas":3,"podManagementPolicy":"Parallel","persistentVolumeClaimRetentionPolicy":{"whenScaled":"Delete","whenDeleted":"Delete"}"#,
        r#""replicas":4,"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Delete"},"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":2}}"#,
        r#""replicas":2,"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Delete"},"updateStrategy":{"type":"OnDelete"}"#,
        r#""replicas":0"#,
    ]
    .into_iter()
    .enumerate()
    {
        for templates in ["", r#","volumeClaimTemplates":[{"metadata":{"name":"data"}}]"#] {
            let set = set(&format!("{more}{templates}"));
            for seed in 0..12 {
                let obj = if seed == 11 { &going } else { &obj };
                let (more_enough, more_busy) =
                    kept_is_the_same_as_all_anew(100 * at as u64 + seed, &catalog, obj, &set);
                (enough, busy) = (enough + more_enough, busy + more_busy);
            }
        }
    }
    assert!(enough > 2000 && busy > 2000, "{enough} looks were enough, {busy} found something to do");
}
