//! The task of a connection: reads, writes, pings, and ends it.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::BytesMut;
use env::Env;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};

use super::{Decode, Encode, End, Flow, Mux};
use crate::Io;

/// How much is read at once.
const READ_BYTES: usize = 32 << 10;
/// How long a closed connection may take to hand over its last bytes.
const LINGER: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timing {
    /// The connection is cut when nothing moved for so long.
    pub idle_timeout: Option<Duration>,
    pub ping_period: Option<Duration>,
    pub first_ping: u32,
}

/// Runs a connection to its end.
pub(crate) async fn drive(
    env: Env,
    io: Io,
    mux: Arc<Mux>,
    decoder: impl Decode,
    encoder: impl Encode,
    timing: Timing,
) {
    let (reader, writer) = tokio::io::split(io);
    let mut reading = pin!(read(&env, reader, &mux, decoder));
    let mut writing = pin!(write(&env, writer, &mux, encoder));
    let end = tokio::select! {
        end = &mut reading => {
            // What is queued may still interest a peer that only said goodbye: a WebSocket expects the close echoed.
            if end == End::Closed {
                mux.state.lock().peer_closed();
                let _ = env.timeout(LINGER, &mut writing).await;
            }
            end
        }
        end = &mut writing => {
            // Closing a socket with unread bytes makes the kernel discard what was written: read to the peer's end first.
            if end == End::Closed {
                let _ = env.timeout(LINGER, &mut reading).await;
            }
            end
        }
        () = cut(&env, &mux) => End::Lost("the peer did not read the end of the connection".to_owned()),
        () = idle(&env, &mux, timing.idle_timeout) => End::Lost("the connection was idle for too long".to_owned()),
        () = ping(&env, &mux, timing) => End::Closed,
    };
    if let End::Lost(reason) = &end {
        tracing::debug!(reason, "streaming connection lost");
    }
    mux.state.lock().finished(end);
}

async fn read(env: &Env, mut reader: ReadHalf<Io>, mux: &Arc<Mux>, mut decoder: impl Decode) -> End {
    let mut input = BytesMut::new();
    loop {
        room(mux).await;
        input.reserve(READ_BYTES);
        match reader.read_buf(&mut input).await {
            Ok(0) if mux.state.lock().closing => return End::Closed,
            Ok(0) => return End::Lost("the peer closed the connection".to_owned()),
            Ok(_) => {}
            Err(error) => return End::Lost(error.to_string()),
        }
        mux.state.lock().active = env.monotonic();
        match decoder.decode(&mut input, mux) {
            Ok(Flow::Continue) => {}
            Ok(Flow::End) => return End::Closed,
            Err(reason) => return End::Lost(reason),
        }
    }
}

/// Until what was received has been read so far that more may come.
async fn room(mux: &Mux) {
    poll_fn(|cx| {
        let mut state = mux.state.lock();
        if state.has_room() || state.closing {
            return Poll::Ready(());
        }
        state.connection_reader = Some(cx.waker().clone());
        Poll::Pending
    })
    .await
}

async fn write(env: &Env, mut writer: WriteHalf<Io>, mux: &Mux, mut encoder: impl Encode) -> End {
    let mut output = BytesMut::new();
    loop {
        let (frames, size, last) = poll_fn(|cx| {
            let mut state = mux.state.lock();
            if state.outbox.is_empty() && !state.closing {
                state.writer = Some(cx.waker().clone());
                return Poll::Pending;
            }
            let (frames, size) = state.take_outbox();
            Poll::Ready((frames, size, state.closing))
        })
        .await;
        for frame in frames {
            encoder.encode(frame, &mut output);
        }
        let written = async {
            writer.write_all_buf(&mut output).await?;
            writer.flush().await
        };
        if let Err(error) = written.await {
            return End::Lost(error.to_string());
        }
        mux.state.lock().written(size, env.monotonic());
        if last {
            let _ = writer.shutdown().await;
            return End::Closed;
        }
    }
}

/// The time a closed connection has.
async fn cut(env: &Env, mux: &Mux) {
    poll_fn(|cx| {
        let mut state = mux.state.lock();
        if state.closing {
            return Poll::Ready(());
        }
        // The driver's own task: whatever wakes it polls this again.
        state.writer.get_or_insert_with(|| cx.waker().clone());
        Poll::Pending
    })
    .await;
    env.sleep(LINGER).await
}

async fn idle(env: &Env, mux: &Mux, timeout: Option<Duration>) {
    let Some(timeout) = timeout else { return std::future::pending().await };
    loop {
        let deadline = mux.state.lock().active + timeout;
        if deadline <= env.monotonic() {
            return;
        }
        env.sleep_until(deadline).await;
    }
}

async fn ping(env: &Env, mux: &Mux, timing: Timing) {
    let Some(period) = timing.ping_period else { return std::future::pending().await };
    let mut id = timing.first_ping;
    loop {
        env.sleep(period).await;
        mux.ping(id);
        id = id.wrapping_add(2) & 0x7fff_ffff;
        id += u32::from(id == 0) * 2;
    }
}
