//! Two pools of threads: connections whose requests keep the cluster alive (health, administrators, leader election, nodes) are
//! run apart from all others, so that the operating system, and no queue of ours, decides when they get a core.
//!
//! ```text
//!  accepted ──> ordinary pool ──a request of a vital level──> priority pool ──a request of another level──> ordinary pool
//!               (a connection moves at most once a second, between two polls: its task ends in one runtime and goes on in the other)
//! ```
//! Handshakes and first requests are run by the ordinary pool: whose they are is not known before. Watches over HTTP/2 are tasks of
//! their own and belong to the pool of their level from the start.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::Handle;

use crate::connection::Connection;

/// A connection that mixes requests of both kinds does not move for each of them.
const MIN_STAY: Duration = Duration::from_secs(1);
const NEVER: u64 = u64::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Pool {
    Ordinary,
    Priority,
}

/// The runtimes of both pools.
#[derive(Clone)]
pub struct Pools {
    pub ordinary: Handle,
    pub priority: Handle,
}

impl Pools {
    #[allow(clippy::disallowed_methods, reason = "only sockets have pools: no simulated world comes here")]
    pub fn spawn(&self, pool: Pool, task: impl Future<Output = ()> + Send + 'static) {
        match pool {
            Pool::Ordinary => drop(self.ordinary.spawn(task)),
            Pool::Priority => drop(self.priority.spawn(task)),
        }
    }
}

/// Where a connection is run, and where its last request wants it to be.
pub struct PoolAssignment {
    is: AtomicU8,
    wanted: AtomicU8,
    /// When that was said, and when it moved last; milliseconds since the connection was opened.
    wanted_at: AtomicU64,
    moved_at: AtomicU64,
}

impl PoolAssignment {
    pub fn new() -> PoolAssignment {
        let ordinary = Pool::Ordinary as u8;
        PoolAssignment {
            is: AtomicU8::new(ordinary),
            wanted: AtomicU8::new(ordinary),
            wanted_at: AtomicU64::new(0),
            moved_at: AtomicU64::new(NEVER),
        }
    }

    fn pool(&self) -> Pool {
        if self.is.load(Ordering::Acquire) == Pool::Priority as u8 { Pool::Priority } else { Pool::Ordinary }
    }

    /// A request belongs there; `since_opened` is the time.
    pub fn request_move(&self, pool: Pool, since_opened: impl FnOnce() -> Duration) {
        // Who wants it to stay does not keep it from others.
        if self.is.load(Ordering::Relaxed) == pool as u8 {
            return;
        }
        let (now, moved_at) = (since_opened().as_millis() as u64, self.moved_at.load(Ordering::Relaxed));
        if moved_at != NEVER && now < moved_at + MIN_STAY.as_millis() as u64 {
            return;
        }
        self.wanted_at.store(now, Ordering::Relaxed);
        self.wanted.store(pool as u8, Ordering::Relaxed);
    }

    /// To where it must go, if it must.
    fn take_move(&self) -> Option<Pool> {
        let wanted = self.wanted.load(Ordering::Relaxed);
        if wanted == self.is.load(Ordering::Relaxed) {
            return None;
        }
        self.moved_at.store(self.wanted_at.load(Ordering::Relaxed), Ordering::Relaxed);
        self.is.store(wanted, Ordering::Release);
        Some(self.pool())
    }
}

/// A connection's task, which goes on in the other pool when the connection is to be run there.
pub struct MigratingTask {
    work: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    connection: Arc<Connection>,
    pools: Pools,
}

impl MigratingTask {
    pub fn new(
        work: impl Future<Output = ()> + Send + 'static,
        connection: Arc<Connection>,
        pools: Pools,
    ) -> MigratingTask {
        MigratingTask { work: Some(Box::pin(work)), connection, pools }
    }
}

impl Future for MigratingTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let task = &mut *self;
        let Some(work) = &mut task.work else { return Poll::Ready(()) };
        if work.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let Some(pool) = task.connection.pool_assignment().take_move() else { return Poll::Pending };
        let rest = MigratingTask {
            work: task.work.take(),
            connection: task.connection.clone(),
            pools: task.pools.clone(),
        };
        task.pools.spawn(pool, rest);
        Poll::Ready(())
    }
}

/// A socket that is watched by the runtime that runs its connection.
pub struct Socket {
    stream: Option<TcpStream>,
    connection: Arc<Connection>,
    registered: Pool,
}

impl Socket {
    pub fn new(stream: TcpStream, connection: Arc<Connection>) -> Socket {
        let registered = connection.pool_assignment().pool();
        Socket { stream: Some(stream), connection, registered }
    }

    /// Registers it anew after a move. Only the connection's task calls this, so it is in the runtime it was moved to.
    fn stream(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        let pool = self.connection.pool_assignment().pool();
        if pool != self.registered
            && let Some(stream) = self.stream.take()
        {
            self.stream = Some(TcpStream::from_std(stream.into_std()?)?);
            self.registered = pool;
        }
        self.stream.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream()?.poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(TcpStream::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::Connections;
    use env::Env;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    fn at(milliseconds: u64) -> impl FnOnce() -> Duration {
        move || Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_connection_follows_its_requests_but_not_each_of_them() {
        let pool_assignment = PoolAssignment::new();
        pool_assignment.request_move(Pool::Ordinary, at(0));
        assert_eq!(pool_assignment.take_move(), None);
        pool_assignment.request_move(Pool::Priority, at(10));
        assert_eq!(pool_assignment.take_move(), Some(Pool::Priority));
        pool_assignment.request_move(Pool::Ordinary, at(1000));
        assert_eq!(pool_assignment.take_move(), None, "it came less than a second ago");
        pool_assignment.request_move(Pool::Ordinary, at(1010));
        pool_assignment.request_move(Pool::Priority, at(1010));
        assert_eq!(
            pool_assignment.take_move(),
            Some(Pool::Ordinary),
            "a probe behind a list does not keep it"
        );
    }

    fn threads(name: &str) -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name(name)
            .enable_all()
            .build()
            .unwrap()
    }

    /// Answers each byte with the name of the thread that runs it, after it asked to be run elsewhere.
    async fn tell_thread(mut socket: Socket, connection: Arc<Connection>) {
        loop {
            let Ok(byte) = socket.read_u8().await else { return };
            let pool = if byte == b'p' { Pool::Priority } else { Pool::Ordinary };
            // Long after the last time.
            let opened = connection.pool_assignment().moved_at.load(Ordering::Relaxed).wrapping_add(1);
            connection.pool_assignment().request_move(pool, at(opened.saturating_add(10_000)));
            tokio::task::yield_now().await;
            let name = std::thread::current().name().unwrap_or("").to_owned();
            socket.write_all(format!("{name}\n").as_bytes()).await.unwrap();
        }
    }

    #[test]
    fn a_connection_goes_on_in_the_other_pool_and_comes_back() {
        let (ordinary, priority) = (threads("ordinary"), threads("priority"));
        let pools = Pools { ordinary: ordinary.handle().clone(), priority: priority.handle().clone() };
        let address = ordinary.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let (all, env) = (Connections::new(), Env::machine());
            let accept = async move {
                let (stream, _) = listener.accept().await.unwrap();
                let open = all.open(&env);
                let connection = open.connection().clone();
                let work = tell_thread(Socket::new(stream, connection.clone()), connection.clone());
                let work = async move {
                    let _open = open;
                    work.await;
                };
                MigratingTask::new(work, connection, pools).await;
            };
            drop(Env::machine().spawn("accept", accept));
            address
        });
        let mut client = std::net::TcpStream::connect(address).unwrap();
        let mut lines = std::io::BufReader::new(client.try_clone().unwrap());
        for (wanted, name) in
            [("p", "priority"), ("p", "priority"), ("o", "ordinary"), ("p", "priority"), ("o", "ordinary")]
        {
            std::io::Write::write_all(&mut client, wanted.as_bytes()).unwrap();
            let mut line = String::new();
            std::io::BufRead::read_line(&mut lines, &mut line).unwrap();
            assert_eq!(line.trim_end(), name);
        }
        drop((client, lines));
        priority.shutdown_background();
    }
}
