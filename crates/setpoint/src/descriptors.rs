//! File descriptors: as many as the system allows, and how many of them connections may take.

use apiserver::MAX_CONNECTIONS;
use rustix::process::{Resource, getrlimit, setrlimit};

/// Kept back for the store, certificates, etcd and our own connections: an eighth, within these bounds, but never more than half.
const KEPT_BACK: std::ops::RangeInclusive<u64> = 128..=1024;

/// Descriptors this process may have (`None`: as many as it likes), and how many connections fit below that.
pub struct Descriptors {
    all: Option<u64>,
    pub connections: usize,
}

impl Descriptors {
    pub fn log(&self) {
        let all = self.all.map_or_else(|| "unlimited".to_owned(), |all| all.to_string());
        tracing::info!(
            descriptors = all,
            connections = self.connections,
            "limits of open files and connections"
        );
    }
}

/// Raises the soft limit to the hard one.
pub fn raise() -> Descriptors {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let soft = limit.current;
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "the limit of open files could not be raised");
            limit.current = soft;
        }
    }
    Descriptors { all: limit.current, connections: for_connections(limit.current).min(MAX_CONNECTIONS) }
}

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
