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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// How many were begun, the largest number at once, what came of it.
    async fn run(count: usize, fails: fn(usize) -> bool) -> (usize, usize, usize, Option<usize>) {
        let (begun, now, most) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let (well, failed) = slow_start(count, &|i| {
            let (begun, now, most) = (&begun, &now, &most);
            Box::pin(async move {
                begun.fetch_add(1, Ordering::SeqCst);
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                now.fetch_sub(1, Ordering::SeqCst);
                if fails(i) { Err(i) } else { Ok(()) }
            })
        })
        .await;
        (begun.into_inner(), most.into_inner(), well, failed)
    }

    #[tokio::test]
    async fn batches_double_while_all_succeed() {
        assert_eq!(run(10, |_| false).await, (10, 4, 10, None));
        assert_eq!(run(0, |_| false).await, (0, 0, 0, None));
        assert_eq!(run(500, |_| false).await, (500, 245, 500, None));
    }

    #[tokio::test]
    async fn nothing_starts_after_a_batch_with_a_failure() {
        assert_eq!(run(500, |_| true).await, (1, 1, 0, Some(0)));
        // 1, 2, 4: the fourth fails, the rest of its batch is still finished.
        assert_eq!(run(500, |i| i == 3).await, (7, 4, 6, Some(3)));
    }

    #[tokio::test]
    async fn all_keeps_within_its_limit_and_goes_on_after_a_failure() {
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let failed = all(50, 8, &|i| {
            let (now, most) = (&now, &most);
            Box::pin(async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                now.fetch_sub(1, Ordering::SeqCst);
                if i == 3 { Err(i) } else { Ok(()) }
            })
        })
        .await;
        assert_eq!((failed, most.into_inner()), (Some(3), 8));
    }
}
