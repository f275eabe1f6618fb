//! One who is attached and may not close the container's input, since others use it after him: he leaves when his own input ends.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

/// Done when he has left. Clones are the same.
pub type Detached = Shared<BoxFuture<'static, ()>>;

/// His input; when it is closed, he leaves.
pub struct Input {
    to: Box<dyn AsyncWrite + Send + Unpin>,
    stays: Option<oneshot::Sender<()>>,
}

/// What he sees: nothing more once he has left.
pub struct Output {
    from: Box<dyn AsyncRead + Send + Unpin>,
    detached: Detached,
}

impl Input {
    pub fn new(to: Box<dyn AsyncWrite + Send + Unpin>) -> (Input, Detached) {
        let (stays, left) = oneshot::channel();
        (Input { to, stays: Some(stays) }, left.map(|_| ()).boxed().shared())
    }
}

impl Output {
    pub fn new(from: Box<dyn AsyncRead + Send + Unpin>, detached: Detached) -> Output {
        Output { from, detached }
    }
}

impl AsyncWrite for Input {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.to).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.to).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stays = None;
        Pin::new(&mut self.to).poll_shutdown(context)
    }
}

impl AsyncRead for Output {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // What is there already is his.
        match Pin::new(&mut self.from).poll_read(context, buffer) {
            Poll::Pending => self.detached.poll_unpin(context).map(Ok),
            read => read,
        }
    }
}
