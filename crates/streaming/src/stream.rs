//! One stream of a connection.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::mux::Mux;
use crate::spdy::Headers;
use crate::spdy::frame::status;

/// A stream of a SPDY connection, or a channel of a WebSocket: two halves, each ended on its own.
///
/// A stream that is dropped is reset: the peer reads its end, and its writes fail.
pub struct Stream {
    mux: Arc<Mux>,
    id: u32,
    headers: Headers,
}

impl Stream {
    pub(crate) fn new(mux: Arc<Mux>, id: u32, headers: Headers) -> Stream {
        Stream { mux, id, headers }
    }

    pub fn id(&self) -> u32 {
        self.id
    }

    /// What the stream was opened with.
    pub fn headers(&self) -> &Headers {
        &self.headers
    }

    /// The next bytes, in the pieces they came; empty at the end. One reader at a time.
    pub async fn chunk(&self) -> io::Result<Bytes> {
        poll_fn(|cx| self.mux.poll_read(self.id, usize::MAX, cx)).await
    }

    /// Writes all of it. One writer at a time.
    pub async fn send(&self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            let written = poll_fn(|cx| self.mux.poll_write(self.id, data, cx)).await?;
            data = &data[written..];
        }
        Ok(())
    }

    /// Writes a frame without data, which tells a WebSocket client that the session is set up.
    pub(crate) async fn send_empty(&self) -> io::Result<()> {
        poll_fn(|cx| self.mux.poll_write(self.id, &[], cx)).await.map(drop)
    }

    /// Ends this side's half: the peer reads the end, and may go on writing.
    pub fn finish(&self) {
        self.mux.finish(self.id);
    }

    /// Everything up to the end, or the first `limit` bytes.
    pub(crate) async fn read_all(&self, limit: usize) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        loop {
            let piece = self.chunk().await?;
            let room = limit - all.len();
            all.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.is_empty() || all.len() == limit {
                return Ok(all);
            }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.mux.reset(self.id, status::CANCEL);
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let piece = ready!(self.mux.poll_read(self.id, buf.remaining(), cx))?;
        buf.put_slice(&piece);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        if data.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.mux.poll_write(self.id, data, cx)
    }

    /// Nothing to do: what is queued is written without being asked.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.finish();
        Poll::Ready(Ok(()))
    }
}
