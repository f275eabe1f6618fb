//! Directories that live as long as their pod: on disk, in memory, in huge pages. Also what the files of other volumes are kept in.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use container::mounts::{self, FileSystem};
use container::tree;
use object::Value;
use object::quantity::Quantity;

use crate::directories;

/// Where the files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Medium {
    Disk,
    /// A tmpfs of at most this size.
    Memory(Option<i64>),
    HugePages {
        page_size: String,
    },
}

/// The medium of an `emptyDir`.
pub fn medium(source: &Value, pod: &Value, allocatable: &Value) -> Result<Medium, String> {
    let said = source.str_at(&["medium"]).unwrap_or_default();
    match said {
        "" => Ok(Medium::Disk),
        "Memory" => Ok(Medium::Memory(memory_size(source.str_at(&["sizeLimit"]), pod, allocatable))),
        _ if said == "HugePages" || said.starts_with("HugePages-") => {
            Ok(Medium::HugePages { page_size: page_size(said, pod)? })
        }
        other => Err(format!("unknown storage medium {other:?}")),
    }
}

/// The least of what the node can give, what the pod may use, and what the volume may hold.
pub fn memory_size(limit: Option<&str>, pod: &Value, allocatable: &Value) -> Option<i64> {
    let node = amount(allocatable.get("memory"))?;
    let of_pod = memory_limit(pod).filter(|pod| *pod > 0 && *pod <= node).unwrap_or(node);
    let limit = limit.and_then(|text| Quantity::parse(text).ok()).map(|limit| limit.as_i64());
    Some(limit.filter(|limit| *limit > 0 && *limit <= of_pod).unwrap_or(of_pod))
}

fn amount(value: Option<&Value>) -> Option<i64> {
    let quantity = Quantity::parse(value?.as_str()?).ok()?;
    (!quantity.is_zero()).then(|| quantity.as_i64())
}

/// The memory the pod's cgroup allows; `None`: a container has no limit.
fn memory_limit(pod: &Value) -> Option<i64> {
    let overhead = amount(pod.at(&["spec", "overhead", "memory"])).unwrap_or(0);
    if let Some(limit) = amount(pod.at(&["spec", "resources", "limits", "memory"])) {
        return Some(limit.saturating_add(overhead));
    }
    let list = |name: &str| pod.at(&["spec", name]).and_then(Value::as_list).unwrap_or_default();
    let limit = |container: &Value| amount(container.at(&["resources", "limits", "memory"]));
    let (mut sidecars, mut most_of_init) = (0_i64, 0_i64);
    for container in list("initContainers") {
        let limit = limit(container)?;
        if container.str_at(&["restartPolicy"]) == Some("Always") {
            sidecars = sidecars.saturating_add(limit);
            most_of_init = most_of_init.max(sidecars);
        } else {
            most_of_init = most_of_init.max(sidecars.saturating_add(limit));
        }
    }
    let mut together = sidecars;
    for container in list("containers") {
        together = together.saturating_add(limit(container)?);
    }
    Some(together.max(most_of_init).saturating_add(overhead))
}

/// The size of the pages the pod asks for.
fn page_size(medium: &str, pod: &Value) -> Result<String, String> {
    let parse = |text: &str| {
        Quantity::parse(text).map_err(|error| format!("failed to parse page size {text:?}: {error}"))
    };
    let wanted = medium.strip_prefix("HugePages-").map(parse).transpose()?;
    let list = |name: &str| pod.at(&["spec", name]).and_then(Value::as_list).unwrap_or_default();
    let containers = list("containers").iter().chain(list("initContainers"));
    let requests = containers
        .filter_map(|container| container.at(&["resources", "requests"]))
        .chain(pod.at(&["spec", "resources", "requests"]));
    let mut found: Option<Quantity> = None;
    for (name, _) in requests.filter_map(Value::as_map).flat_map(|map| map.iter()) {
        let Some(size) = name.strip_prefix("hugepages-") else { continue };
        let size = parse(size)?;
        match wanted {
            Some(wanted) if wanted == size => found = Some(size),
            Some(_) => {}
            None if found.is_some_and(|found| found != size) => {
                return Err(format!(
                    "medium: {medium} can't be used if container requests multiple huge page sizes"
                ));
            }
            None => found = Some(size),
        }
    }
    // The kernel's suffixes are binary.
    found.map(|size| size.as_i64().to_string()).ok_or_else(|| {
        format!(
            "medium {medium}: hugePages storage requested, but there is no resource request for huge pages"
        )
    })
}

/// Makes the directory, unless it is there and `is_ready`. `true`: it is new, or an earlier agent did not finish it.
pub fn set_up(directory: &Path, is_ready: bool, medium: &Medium) -> Result<bool, String> {
    let failed =
        |what: &str, error: &dyn std::fmt::Display| format!("{what} {}: {error}", directory.display());
    let mounted = mounts::at(directory).map_err(|error| failed("find mount", &error))?;
    match (medium, mounted) {
        (Medium::Disk, _) if is_ready && directory.is_dir() => return Ok(false),
        (Medium::Memory(_), Some(FileSystem::Tmpfs)) => return Ok(!is_ready),
        (Medium::HugePages { .. }, Some(FileSystem::HugePages)) => return Ok(!is_ready),
        _ => {}
    }
    directories::make(directory).map_err(|error| failed("mkdir", &error))?;
    // Whatever the umask says.
    let all = fs::Permissions::from_mode(0o777);
    fs::set_permissions(directory, all).map_err(|error| failed("chmod", &error))?;
    match medium {
        Medium::Disk => {}
        Medium::Memory(size) => {
            mounts::tmpfs(directory, *size).map_err(|error| failed("mount tmpfs at", &error))?;
        }
        Medium::HugePages { page_size } => {
            let mounted = mounts::hugetlbfs(directory, page_size);
            mounted.map_err(|error| failed("mount hugetlbfs at", &error))?;
        }
    }
    Ok(true)
}

/// The reverse of [`set_up`], also of half of it.
pub fn tear_down(directory: &Path) -> std::io::Result<()> {
    mounts::unmount_below(directory)?;
    tree::remove(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Value {
        runtime::parse(text).unwrap_or_else(|_| panic!("{text}"))
    }

    #[test]
    fn memory_is_bounded_by_volume_pod_and_node() {
        let node = parse("{memory: 8Gi}");
        let pod = |limits: &str| parse(&format!("{{spec: {{containers: [{limits}]}}}}"));
        let (free, small) = (pod("{}"), pod("{resources: {limits: {memory: 1Gi}}}"));
        let gi = 1 << 30;
        assert_eq!(memory_size(None, &free, &node), Some(8 * gi));
        assert_eq!(memory_size(Some("2Gi"), &free, &node), Some(2 * gi));
        assert_eq!(memory_size(Some("16Gi"), &free, &node), Some(8 * gi));
        assert_eq!(memory_size(Some("2Gi"), &small, &node), Some(gi));
        assert_eq!(memory_size(Some("64Mi"), &small, &node), Some(64 << 20));
        assert_eq!(memory_size(Some("0"), &small, &node), Some(gi));
        assert_eq!(memory_size(None, &free, &Value::map()), None, "nothing known: the kernel's default");
        let one_free = pod("{resources: {limits: {memory: 1Gi}}}, {}");
        assert_eq!(memory_size(None, &one_free, &node), Some(8 * gi));
        let init = parse(
            "{spec: {initContainers: [{restartPolicy: Always, resources: {limits: {memory: 1Gi}}},
              {resources: {limits: {memory: 3Gi}}}], containers: [{resources: {limits: {memory: 1Gi}}}]}}",
        );
        assert_eq!(memory_size(None, &init, &node), Some(4 * gi));
    }

    #[test]
    fn huge_pages_are_of_the_size_the_pod_requests() {
        let pod = |requests: &str| {
            parse(&format!("{{spec: {{containers: [{{resources: {{requests: {{{requests}}}}}}}]}}}}"))
        };
        let of = |said: &str, pod: &Value| medium(&parse(&format!("{{medium: {said}}}")), pod, &Value::map());
        let size = |bytes: &str| Ok(Medium::HugePages { page_size: bytes.to_owned() });
        assert_eq!(of("HugePages", &pod("hugepages-2Mi: 4Mi")), size("2097152"));
        let both = pod("hugepages-2Mi: 4Mi, hugepages-1Gi: 1Gi");
        assert_eq!(of("HugePages-1Gi", &both), size("1073741824"));
        assert_eq!(
            of("HugePages", &both).unwrap_err(),
            "medium: HugePages can't be used if container requests multiple huge page sizes"
        );
        assert_eq!(
            of("HugePages", &pod("cpu: 1")).unwrap_err(),
            "medium HugePages: hugePages storage requested, but there is no resource request for huge pages"
        );
        assert_eq!(of("Tape", &both).unwrap_err(), "unknown storage medium \"Tape\"");
    }
}
