//! The stream of what happens to containers.

use cri::{ContainerEventResponse, Error};
use futures_util::stream::{self, BoxStream, StreamExt};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

pub fn stream(
    receiver: broadcast::Receiver<ContainerEventResponse>,
) -> BoxStream<'static, Result<ContainerEventResponse, Error>> {
    stream::unfold(receiver, |mut receiver| async move {
        loop {
            match receiver.recv().await {
                Ok(event) => return Some((Ok(event), receiver)),
                // Too slow: kubelet lists everything from time to time.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    })
    .boxed()
}
