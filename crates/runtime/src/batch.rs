//! Many calls at once: a few first, then twice as many, so that what must fail fails early.

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;

/// Calls `make(i)` for `0..count`: 1, then 2, then 4 ... at once; after the first batch with a failure no more are begun.
/// Tells how many went well, and the first failure.
pub async fn slow_start<'a, E>(
    count: usize,
    make: &(dyn Fn(usize) -> BoxFuture<'a, Result<(), E>> + Send + Sync),
) -> (usize, Option<E>)
where
    E: Send,
{
    let (mut begun, mut well, mut size) = (0, 0, 1);
    while begun < count {
        let end = (begun + size).min(count);
        let mut under_way: FuturesUnordered<_> = (begun..end).map(make).collect();
        let mut failed = None;
        while let Some(result) = under_way.next().await {
            match result {
                Ok(()) => well += 1,
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        if failed.is_some() {
            return (well, failed);
        }
        begun = end;
        size *= 2;
    }
    (well, None)
}

/// Calls `make(i)` for `0..count`, at most `at_once` under way; the first failure, after all have ended.
pub async fn all<'a, E>(
    count: usize,
    at_once: usize,
    make: &(dyn Fn(usize) -> BoxFuture<'a, Result<(), E>> + Send + Sync),
) -> Option<E>
where
    E: Send,
{
    let mut failed = None;
    let mut next = 0..count;
    let mut under_way: FuturesUnordered<_> = next.by_ref().take(at_once.max(1)).map(make).collect();
    while let Some(result) = under_way.next().await {
        if let Err(error) = result {
            failed.get_or_insert(error);
        }
        under_way.extend(next.next().map(make));
    }
    failed
}
