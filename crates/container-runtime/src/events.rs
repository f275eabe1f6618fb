//! The stream of what happens to containers.

use cri::{Code, ContainerEventResponse, Error};
use futures_util::stream::{self, BoxStream, StreamExt};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

pub fn stream(
    receiver: broadcast::Receiver<ContainerEventResponse>,
) -> BoxStream<'static, Result<ContainerEventResponse, Error>> {
    stream::unfold(receiver, |mut receiver| async move {
        match receiver.recv().await {
            Ok(event) => Some((Ok(event), receiver)),
            // Whoever was too slow lists everything.
            Err(RecvError::Lagged(lost)) => {
                let message = format!("{lost} container events were lost");
                Some((Err(Error { code: Code::OutOfRange, message }), receiver))
            }
            Err(RecvError::Closed) => None,
        }
    })
    .boxed()
}
