//! The file descriptor limit (RLIMIT_NOFILE), and how many connections it allows.

use apiserver::MAX_CONNECTIONS;
use rustix::process::{Resource, getrlimit, setrlimit};

/// Reserved for the store, certificates, etcd and outgoing connections: an eighth, within these bounds, but at most half.
const RESERVED: std::ops::RangeInclusive<u64> = 128..=1024;

/// The limit of this process (`None`: unlimited), and the number of connections it allows.
pub struct Descriptors {
    limit: Option<u64>,
    pub connections: usize,
}

impl Descriptors {
    pub fn log(&self) {
        let limit = self.limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string());
        tracing::info!(
            descriptors = limit,
            connections = self.connections,
            "limits for open files and connections"
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
            tracing::warn!(%error, "cannot raise the open file limit");
            limit.current = soft;
        }
    }
    Descriptors { limit: limit.current, connections: for_connections(limit.current).min(MAX_CONNECTIONS) }
}

fn for_connections(descriptors: Option<u64>) -> usize {
    let Some(all) = descriptors else { return usize::MAX };
    let reserved = (all / 8).clamp(*RESERVED.start(), *RESERVED.end()).min(all / 2);
    usize::try_from(all - reserved).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_descriptors_are_reserved() {
        assert_eq!(for_connections(Some(100)), 50);
        assert_eq!(for_connections(Some(256)), 128);
        assert_eq!(for_connections(Some(1024)), 896);
        assert_eq!(for_connections(Some(65_536)), 64_512);
        assert_eq!(for_connections(None), usize::MAX);
    }
}
