//! Which images, containers and sandboxes of a node may go: plans, without doing anything.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cri::{ContainerState, PodSandboxState};

/// What is known of the use of images: looked at again and again, as runtimes do not say when one was used.
#[derive(Clone, Debug, Default)]
pub struct ImageUse {
    records: BTreeMap<String, ImageRecord>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ImageRecord {
    /// Unix nanoseconds; of the last use, 0 for never.
    first_detected: i128,
    last_used: i128,
    size: u64,
    pinned: bool,
}

/// What is removed to free space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImagePlan {
    pub remove: Vec<String>,
    pub freed: u64,
}

impl ImageUse {
    /// Takes note of the images there are and of those that containers use, by id.
    pub fn detect(&mut self, images: &[cri::Image], in_use: &BTreeSet<String>, now: i128) {
        for image in images {
            let record = self.records.entry(image.id.clone()).or_insert(ImageRecord {
                first_detected: now,
                last_used: 0,
                size: 0,
                pinned: false,
            });
            if in_use.contains(&image.id) {
                record.last_used = now;
            }
            (record.size, record.pinned) = (image.size, image.pinned);
        }
        self.records.retain(|id, _| images.iter().any(|image| image.id == *id));
    }

    /// It was removed.
    pub fn forget(&mut self, id: &str) {
        self.records.remove(id);
    }

    /// All that are known.
    pub fn ids(&self) -> Vec<String> {
        self.records.keys().cloned().collect()
    }

    /// Images that nobody used for longer than that.
    pub fn unused_for(&self, max_age: Duration, in_use: &BTreeSet<String>, now: i128) -> Vec<String> {
        let max_age = i128::try_from(max_age.as_nanos()).unwrap_or(i128::MAX);
        let old = self.records.iter().filter(|(id, record)| {
            !in_use.contains(*id) && !record.pinned && now - record.last_used > max_age
        });
        old.map(|(id, _)| id.clone()).collect()
    }

    /// The images to remove so that `wanted` bytes become free: those used longest ago first, none in use, none younger than `min_age`.
    pub fn plan(&self, wanted: u64, in_use: &BTreeSet<String>, min_age: Duration, now: i128) -> ImagePlan {
        let unused = self.records.iter().filter(|(id, record)| !in_use.contains(*id) && !record.pinned);
        let mut candidates: Vec<(&String, &ImageRecord)> = unused.collect();
        candidates.sort_by_key(|(id, record)| (record.last_used, record.first_detected, id.as_str()));
        let mut plan = ImagePlan::default();
        for (id, record) in candidates {
            let age = now - record.first_detected;
            if record.last_used >= now || age < i128::try_from(min_age.as_nanos()).unwrap_or(i128::MAX) {
                continue;
            }
            plan.remove.push(id.clone());
            plan.freed = plan.freed.saturating_add(record.size);
            if plan.freed >= wanted {
                break;
            }
        }
        plan
    }
}

/// The images that containers are made of or mount, by id.
pub fn images_in_use(containers: &[cri::Container], statuses: &[cri::ContainerStatus]) -> BTreeSet<String> {
    let own = containers.iter().map(|container| {
        if container.image_id.is_empty() { container.image_ref.clone() } else { container.image_id.clone() }
    });
    let mounts = statuses.iter().flat_map(|status| &status.mounts);
    own.chain(mounts.filter_map(|mount| mount.image.as_ref().map(|image| image.image.clone()))).collect()
}

/// How much of the images' file system is used, and what to free if that is too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pressure {
    pub used_percent: u64,
    pub capacity: u64,
    pub to_free: u64,
}

/// `Ok(None)`: there is room. Thresholds in percent.
pub fn pressure(capacity: u64, available: u64, high: u8, low: u8) -> Result<Option<Pressure>, String> {
    if capacity == 0 {
        return Err("invalid capacity 0 on image filesystem".to_owned());
    }
    let (capacity, available) = (u128::from(capacity), u128::from(available).min(u128::from(capacity)));
    let used_percent = 100 - available * 100 / capacity;
    if used_percent < u128::from(high) {
        return Ok(None);
    }
    let wanted = capacity * u128::from(100_u8.saturating_sub(low)) / 100;
    let number = |n: u128| u64::try_from(n).unwrap_or(u64::MAX);
    Ok(Some(Pressure {
        used_percent: number(used_percent),
        capacity: number(capacity),
        to_free: number(wanted.saturating_sub(available)),
    }))
}

impl Pressure {
    /// The message of FreeDiskSpaceFailed, an event of the node.
    pub fn not_relieved(&self, freed: u64) -> String {
        format!(
            "Insufficient free disk space on the node's image filesystem ({}% of {} used). Failed to free sufficient space by \
             deleting unused images (freed {freed} bytes). Investigate disk usage, as it could be used by active images, logs, \
             volumes, or other data.",
            self.used_percent,
            size(self.capacity),
        )
    }
}

fn size(bytes: u64) -> String {
    let units = [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} B"),
    }
}

/// Which dead containers are kept. Kubelet's defaults: the last of each container, however old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerPolicy {
    pub min_age: Duration,
    /// `None`: all.
    pub per_container: Option<usize>,
    pub all: Option<usize>,
}

impl Default for ContainerPolicy {
    fn default() -> ContainerPolicy {
        ContainerPolicy { min_age: Duration::ZERO, per_container: Some(1), all: None }
    }
}

const POD_UID: &str = "io.kubernetes.pod.uid";

/// A container to remove; one in an unknown state is stopped first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    pub id: String,
    pub stop_first: bool,
}

/// Dead containers that may go. `gone`: the pod of that uid needs nothing of what is left of it.
pub fn containers(
    all: &[cri::Container],
    policy: &ContainerPolicy,
    now_nanos: i64,
    gone: &dyn Fn(&str) -> bool,
) -> Vec<Removal> {
    let min_age = i64::try_from(policy.min_age.as_nanos()).unwrap_or(i64::MAX);
    let mut units: BTreeMap<(&str, &str), Vec<&cri::Container>> = BTreeMap::new();
    for container in all {
        let young = container.created_at > now_nanos.saturating_sub(min_age);
        if container.state == ContainerState::Running as i32 || young {
            continue;
        }
        let uid = container.labels.get(POD_UID).map_or("", String::as_str);
        let name = container.metadata.as_ref().map_or("", |metadata| metadata.name.as_str());
        units.entry((uid, name)).or_default().push(container);
    }
    let mut removed = Vec::new();
    let mut kept: Vec<Vec<&cri::Container>> = Vec::new();
    for ((uid, _), mut unit) in units {
        unit.sort_by_key(|container| std::cmp::Reverse(container.created_at));
        // One that is about to start is not the last that ended. (Kubelet counts it, and can lose the log of the one before.)
        let is_starting = unit.first().is_some_and(|newest| newest.state == ContainerState::Created as i32);
        let keep = match policy.per_container {
            _ if gone(uid) => 0,
            Some(most) => most + usize::from(is_starting),
            None => usize::MAX,
        };
        removed.extend(unit.split_off(keep.min(unit.len())));
        kept.push(unit);
    }
    kept.retain(|unit| !unit.is_empty());
    let count: usize = kept.iter().map(Vec::len).sum();
    if let Some(most) = policy.all.filter(|most| count > *most) {
        // Everyone the same first, then the oldest of all.
        let each = (most / kept.len()).max(1);
        for unit in &mut kept {
            removed.extend(unit.split_off(each.min(unit.len())));
        }
        let mut rest: Vec<&cri::Container> = kept.into_iter().flatten().collect();
        rest.sort_by_key(|container| std::cmp::Reverse(container.created_at));
        removed.extend(rest.split_off(most.min(rest.len())));
    }
    let removal = |container: &cri::Container| Removal {
        id: container.id.clone(),
        stop_first: container.state == ContainerState::Unknown as i32,
    };
    removed.into_iter().map(removal).collect()
}

/// Sandboxes that may go: all but the newest of a pod, none that is ready or holds containers.
pub fn sandboxes(
    all: &[cri::PodSandbox],
    containers: &[cri::Container],
    gone: &dyn Fn(&str) -> bool,
) -> Vec<String> {
    let used: BTreeSet<&str> = containers.iter().map(|container| container.pod_sandbox_id.as_str()).collect();
    let mut pods: BTreeMap<&str, Vec<&cri::PodSandbox>> = BTreeMap::new();
    for sandbox in all {
        let uid = sandbox.metadata.as_ref().map_or("", |metadata| metadata.uid.as_str());
        pods.entry(uid).or_default().push(sandbox);
    }
    let mut removed = Vec::new();
    for (uid, mut sandboxes) in pods {
        sandboxes.sort_by_key(|sandbox| std::cmp::Reverse(sandbox.created_at));
        let keep = usize::from(!gone(uid));
        let idle = sandboxes.into_iter().skip(keep).filter(|sandbox| {
            sandbox.state != PodSandboxState::Ready as i32 && !used.contains(sandbox.id.as_str())
        });
        removed.extend(idle.map(|sandbox| sandbox.id.clone()));
    }
    removed
}

/// The uid in the name of a pod's log directory, `NAMESPACE_NAME_UID`.
pub fn uid_of_logs(directory: &str) -> Option<&str> {
    let mut parts = directory.splitn(3, '_');
    parts.next()?;
    parts.next()?;
    parts.next().filter(|uid| !uid.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(id: &str, size: u64, pinned: bool) -> cri::Image {
        cri::Image { id: id.to_owned(), size, pinned, ..Default::default() }
    }

    fn names(all: &[&str]) -> BTreeSet<String> {
        all.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn images_used_longest_ago_go_first_and_those_in_use_never() {
        let images = [
            image("old", 10, false),
            image("used", 10, false),
            image("pinned", 10, true),
            image("now", 10, false),
        ];
        let mut known = ImageUse::default();
        known.detect(&images[..3], &names(&["used"]), 1_000);
        known.detect(&images, &names(&["now"]), 2_000);
        let plan = |wanted| known.plan(wanted, &names(&["now"]), Duration::ZERO, 3_000);
        assert_eq!(plan(5), ImagePlan { remove: vec!["old".to_owned()], freed: 10 });
        assert_eq!(plan(u64::MAX).remove, ["old", "used"]);
        let young = known.plan(5, &names(&[]), Duration::from_nanos(1_500), 3_000);
        assert_eq!(young.remove, ["old"], "the one seen at 2000 is too young");
        assert_eq!(known.plan(15, &names(&[]), Duration::from_nanos(2_500), 3_000), ImagePlan::default());
        known.detect(&images[2..], &names(&[]), 4_000);
        assert_eq!(known.plan(u64::MAX, &names(&[]), Duration::ZERO, 5_000).remove, ["now"]);
    }

    #[test]
    fn images_that_nobody_used_for_long_are_old() {
        let images = [image("used", 1, false), image("never", 1, false), image("pinned", 1, true)];
        let mut known = ImageUse::default();
        known.detect(&images, &names(&["used"]), 1_000);
        let old = |in_use: &[&str], now| known.unused_for(Duration::from_nanos(500), &names(in_use), now);
        assert_eq!(old(&[], 1_500), ["never"]);
        assert_eq!(old(&[], 1_501), ["never", "used"]);
        assert_eq!(old(&["used"], 1_501), ["never"]);
    }

    #[test]
    fn space_is_freed_from_the_high_threshold_down_to_the_low_one() {
        assert_eq!(pressure(1000, 160, 85, 80), Ok(None));
        let full = pressure(1000, 150, 85, 80).unwrap().unwrap();
        assert_eq!(full, Pressure { used_percent: 85, capacity: 1000, to_free: 50 });
        assert_eq!(pressure(1000, 5000, 85, 80), Ok(None));
        assert_eq!(pressure(0, 0, 85, 80), Err("invalid capacity 0 on image filesystem".to_owned()));
        let disk = pressure(10 << 30, 1 << 30, 85, 80).unwrap().unwrap();
        let said = disk.not_relieved(7);
        assert!(said.starts_with(
            "Insufficient free disk space on the node's image filesystem (90% of 10.0 GiB used). Failed"
        ));
        assert!(said.contains("(freed 7 bytes)"));
    }

    fn container(id: &str, pod: &str, name: &str, created_at: i64, state: ContainerState) -> cri::Container {
        cri::Container {
            id: id.to_owned(),
            pod_sandbox_id: format!("sandbox-{pod}"),
            metadata: Some(cri::ContainerMetadata { name: name.to_owned(), attempt: 0 }),
            state: state as i32,
            created_at,
            labels: BTreeMap::from([(POD_UID.to_owned(), pod.to_owned())]),
            ..Default::default()
        }
    }

    fn ids(removals: Vec<Removal>) -> Vec<String> {
        removals.into_iter().map(|removal| removal.id).collect()
    }

    #[test]
    fn the_last_dead_container_of_each_is_kept() {
        use ContainerState::{Exited, Running, Unknown};
        let all = [
            container("a1", "a", "main", 1, Exited),
            container("a2", "a", "main", 2, Unknown),
            container("a3", "a", "main", 3, Exited),
            container("a4", "a", "main", 4, Running),
            container("b1", "b", "main", 1, Exited),
            container("c1", "c", "main", 1, Exited),
        ];
        let plan = |policy: &ContainerPolicy, now: i64| {
            let mut ids = ids(containers(&all, policy, now, &|uid| uid == "c"));
            ids.sort();
            ids
        };
        assert_eq!(plan(&ContainerPolicy::default(), 100), ["a1", "a2", "c1"]);
        let removal = containers(&all, &ContainerPolicy::default(), 100, &|_| false);
        assert!(removal.iter().any(|removal| removal.id == "a2" && removal.stop_first));
        let old = ContainerPolicy { min_age: Duration::from_nanos(99), ..Default::default() };
        assert_eq!(plan(&old, 100), ["c1"], "those created at 1 and before");
        let few = ContainerPolicy { all: Some(1), per_container: None, ..Default::default() };
        assert_eq!(plan(&few, 100), ["a1", "a2", "b1", "c1"]);
    }

    #[test]
    fn the_last_that_ended_is_kept_while_the_next_starts() {
        use ContainerState::{Created, Exited};
        let all = [
            container("1", "a", "main", 1, Exited),
            container("2", "a", "main", 2, Created),
            container("3", "a", "main", 3, Exited),
            container("4", "a", "main", 4, Created),
        ];
        let plan = |gone: bool| ids(containers(&all, &ContainerPolicy::default(), 100, &|_| gone));
        assert_eq!(plan(false), ["2", "1"]);
        assert_eq!(plan(true), ["4", "3", "2", "1"]);
    }

    #[test]
    fn sandboxes_that_nobody_needs_go() {
        let sandbox = |id: &str, pod: &str, created_at: i64, state: PodSandboxState| cri::PodSandbox {
            id: id.to_owned(),
            metadata: Some(cri::PodSandboxMetadata { uid: pod.to_owned(), ..Default::default() }),
            state: state as i32,
            created_at,
            ..Default::default()
        };
        use PodSandboxState::{NotReady, Ready};
        let all = [
            sandbox("a1", "a", 1, NotReady),
            sandbox("a2", "a", 2, NotReady),
            sandbox("b1", "b", 1, Ready),
            sandbox("b2", "b", 2, Ready),
            sandbox("sandbox-c", "c", 1, NotReady),
            sandbox("d1", "d", 1, NotReady),
        ];
        let held = [container("x", "c", "main", 1, ContainerState::Exited)];
        assert_eq!(sandboxes(&all, &held, &|uid| uid == "c" || uid == "d"), ["a1", "d1"]);
    }

    #[test]
    fn logs_name_their_pod() {
        assert_eq!(uid_of_logs("default_web_1-2"), Some("1-2"));
        assert_eq!(uid_of_logs("default_web"), None);
        assert_eq!(uid_of_logs("x"), None);
    }
}
