//! Limits.

use container::config::Resources;

/// What is zero or empty is not asked for.
pub fn convert(from: &cri::LinuxContainerResources) -> Resources {
    let positive = |value: i64| u64::try_from(value).ok().filter(|value| *value > 0);
    Resources {
        cpu_shares: positive(from.cpu_shares),
        cpu_weight: None,
        cpu_quota: (from.cpu_quota != 0).then_some(from.cpu_quota),
        cpu_period: positive(from.cpu_period),
        memory: (from.memory_limit_in_bytes > 0).then_some(from.memory_limit_in_bytes),
        pids: None,
        hugepages: from.hugepage_limits.iter().map(|one| (one.page_size.clone(), one.limit)).collect(),
        memory_and_swap: (from.memory_swap_limit_in_bytes > 0).then_some(from.memory_swap_limit_in_bytes),
        unified: from.unified.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        devices: None,
        // Who wants the container to end as a whole says so in `unified`.
        single_process_oom: true,
    }
}

/// What an update changes; the rest stays, and `unified` is merged.
pub fn merge(old: &mut cri::LinuxContainerResources, new: &cri::LinuxContainerResources) {
    for (old, new) in [
        (&mut old.cpu_period, new.cpu_period),
        (&mut old.cpu_quota, new.cpu_quota),
        (&mut old.cpu_shares, new.cpu_shares),
        (&mut old.memory_limit_in_bytes, new.memory_limit_in_bytes),
        (&mut old.memory_swap_limit_in_bytes, new.memory_swap_limit_in_bytes),
        (&mut old.oom_score_adj, new.oom_score_adj),
    ] {
        if new != 0 {
            *old = new;
        }
    }
    for (old, new) in [(&mut old.cpuset_cpus, &new.cpuset_cpus), (&mut old.cpuset_mems, &new.cpuset_mems)] {
        if !new.is_empty() {
            old.clone_from(new);
        }
    }
    if !new.hugepage_limits.is_empty() {
        old.hugepage_limits.clone_from(&new.hugepage_limits);
    }
    old.unified.extend(new.unified.clone());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_asked_for_is_not_limited() {
        let nothing = Resources { single_process_oom: true, ..Resources::default() };
        assert_eq!(convert(&cri::LinuxContainerResources::default()), nothing);
        let asked = cri::LinuxContainerResources {
            cpu_shares: 2,
            cpu_quota: -1,
            memory_limit_in_bytes: 4096,
            ..Default::default()
        };
        let resources = convert(&asked);
        assert_eq!(
            (resources.cpu_shares, resources.cpu_quota, resources.memory),
            (Some(2), Some(-1), Some(4096))
        );
    }

    #[test]
    fn an_update_keeps_what_it_does_not_name() {
        let mut old =
            cri::LinuxContainerResources { cpu_shares: 2, memory_limit_in_bytes: 4096, ..Default::default() };
        merge(&mut old, &cri::LinuxContainerResources { cpu_shares: 512, ..Default::default() });
        assert_eq!((old.cpu_shares, old.memory_limit_in_bytes), (512, 4096));
    }
}
