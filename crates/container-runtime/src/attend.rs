//! Hears what a pod's helper says by itself: one task for each pod, which waits on a socket.

use std::sync::{Arc, Weak};

use container::wire::Reply;
use cri::ContainerEventType;
use tokio::net::UnixStream;

use crate::Inner;
use crate::blocking::block;
use crate::helper::{self, Connection, HelperError};
use crate::pods::{KILLED_END, Sandbox};

impl Inner {
    /// Learns what the helper knows, and listens from then on.
    pub fn attend(self: &Arc<Inner>, sandbox: &Arc<Sandbox>) -> Result<(), HelperError> {
        let connection = Connection::open(&sandbox.directory)?;
        let state = connection.watch()?;
        sandbox.state.lock().pid = state.pid;
        self.learn(&state);
        let socket = connection.into_async()?;
        let (inner, own) = (Arc::downgrade(self), Arc::downgrade(sandbox));
        // It keeps neither alive: they own it, and end it.
        let task = self.env.spawn("pod-helper", listen(inner, own, socket));
        *sandbox.task.lock() = Some(task);
        Ok(())
    }

    /// The helper is gone, and nobody told it to.
    fn mourn(self: &Arc<Inner>, sandbox: &Arc<Sandbox>) {
        {
            let mut state = sandbox.state.lock();
            if state.stopping || !state.ready {
                return;
            }
            state.ready = false;
        }
        tracing::error!(sandbox = sandbox.record.id, "the helper of a pod died");
        self.learn(&helper::saved_state(&sandbox.directory));
        let containers = self.pods.lock().containers_of(&sandbox.record.id);
        for container in containers {
            // Their first processes died with it; others may have not.
            container::cgroup::Cgroup::at_host(&self.cgroup_of(&container)).kill();
        }
        self.end_containers(sandbox, KILLED_END);
        self.tell(&sandbox.record.id, ContainerEventType::StoppedEvent, Some(sandbox));
    }
}

async fn listen(inner: Weak<Inner>, sandbox: Weak<Sandbox>, mut socket: UnixStream) {
    loop {
        let heard = helper::next_reply(&mut socket).await;
        let (Some(inner), Some(sandbox)) = (inner.upgrade(), sandbox.upgrade()) else { return };
        match heard {
            Ok(Some(Reply::State(state))) => inner.learn(&state),
            Ok(Some(_)) => {}
            // It lets go of who does not listen for a second; perhaps it is still there.
            Ok(None) | Err(_) => {
                let again = block(move || {
                    let opened = Connection::open(&sandbox.directory).map_err(HelperError::from);
                    let told = opened.and_then(|connection| {
                        let state = connection.watch()?;
                        inner.learn(&state);
                        Ok(connection)
                    });
                    if told.is_err() {
                        inner.mourn(&sandbox);
                    }
                    Ok(told.ok())
                });
                let Ok(Some(connection)) = again.await else { return };
                let Ok(new) = connection.into_async() else { return };
                socket = new;
            }
        }
    }
}
