//! File descriptors: as many as the system allows, and how many of them connections may take.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Kept back for the store, certificates, etcd and our own connections: an eighth, within these bounds, but never more than half.
const KEPT_BACK: std::ops::RangeInclusive<u64> = 128..=1024;

/// Raises the soft limit to the hard one; gives how many connections fit below it.
pub fn raise() -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let soft = limit.current;
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit.clone()) {
            tracing::warn!(%error, "the limit of open files could not be raised");
            limit.current = soft;
        }
    }
    let connections = for_connections(limit.current);
    let descriptors = limit.current.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string());
    tracing::info!(descriptors, connections, "file descriptors, and connections below them");
    connections
}

/// `None`: as many as one likes.
fn for_connections(descriptors: Option<u64>) -> usize {
    let Some(all) = descriptors else { return usize::MAX };
    let kept = (all / 8).clamp(*KEPT_BACK.start(), *KEPT_BACK.end()).min(all / 2);
    usize::try_from(all - kept).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_the_rest() {
        assert_eq!(for_connections(Some(100)), 50);
        assert_eq!(for_connections(Some(256)), 128);
        assert_eq!(for_connections(Some(1024)), 896);
        assert_eq!(for_connections(Some(65_536)), 64_512);
        assert_eq!(for_connections(None), usize::MAX);
    }
}
