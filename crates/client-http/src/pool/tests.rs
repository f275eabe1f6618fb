//! Which connections are used again.

use std::io;

use futures_util::future::BoxFuture;
use hyper::service::service_fn;

use super::*;
use crate::dial::Dialled;

/// Servers in memory that answer everything; each connection needs a permit, and is counted.
#[derive(Clone)]
struct Servers {
    env: Env,
    http2: bool,
    begun: Arc<AtomicUsize>,
    permits: Arc<Semaphore>,
}

impl Servers {
    fn new(http2: bool, permits: usize) -> (Servers, Arc<Pool>) {
        let env = Env::simulated(1);
        let permits = Arc::new(Semaphore::new(permits));
        let servers = Servers { env: env.clone(), http2, begun: Arc::default(), permits };
        let pool = Pool::new(env, Box::new(servers.clone()), Url::parse("http://server").unwrap());
        (servers, pool)
    }

    fn begun(&self) -> usize {
        self.begun.load(Ordering::Relaxed)
    }
}

impl Dial for Servers {
    fn dial(&self) -> BoxFuture<'_, io::Result<Dialled>> {
        Box::pin(async move {
            self.begun.fetch_add(1, Ordering::Relaxed);
            self.permits.acquire().await.unwrap().forget();
            let (near, far) = tokio::io::duplex(4096);
            let (http2, tasks) = (self.http2, Tasks(self.env.clone()));
            drop(self.env.spawn("server", async move {
                let service = service_fn(|_: Request<Incoming>| async {
                    Ok::<_, io::Error>(Response::new(Body::default()))
                });
                if http2 {
                    let builder = hyper::server::conn::http2::Builder::new(tasks);
                    let _ = builder.serve_connection(TokioIo::new(far), service).await;
                } else {
                    let builder = hyper::server::conn::http1::Builder::new();
                    let _ = builder.serve_connection(TokioIo::new(far), service).await;
                }
            }));
            Ok(Dialled { wire: Box::new(near), http2: self.http2 })
        })
    }
}

async fn send(pool: &Arc<Pool>) -> Lease {
    let path = PathAndQuery::from_static("/");
    let request = Outgoing { method: Method::GET, path, headers: HeaderMap::new(), body: Bytes::new() };
    pool.send(&request, Lifetime::Call).await.unwrap().1
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_used_again_until_the_certificate_changes() {
    for http2 in [false, true] {
        let (servers, pool) = Servers::new(http2, 10);
        send(&pool).await.finish().await;
        let lease = send(&pool).await;
        assert_eq!(servers.begun(), 1);
        pool.renew(1);
        // Given back late: it shows the certificate of before.
        lease.finish().await;
        send(&pool).await.finish().await;
        assert_eq!(servers.begun(), 2, "http2 {http2}");
        // A request that knows of an older certificate changes nothing.
        pool.renew(0);
        pool.renew(1);
        send(&pool).await.finish().await;
        assert_eq!(servers.begun(), 2, "http2 {http2}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_dialled_before_the_certificate_changed_is_used_once() {
    for http2 in [false, true] {
        let (servers, pool) = Servers::new(http2, 0);
        let changed = async {
            while servers.begun() == 0 {
                tokio::task::yield_now().await;
            }
            pool.renew(1);
            servers.permits.add_permits(10);
        };
        let (lease, ()) = tokio::join!(send(&pool), changed);
        lease.finish().await;
        send(&pool).await.finish().await;
        assert_eq!(servers.begun(), 2, "http2 {http2}");
    }
}
