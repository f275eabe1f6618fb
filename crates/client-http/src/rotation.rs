//! A client whose certificate is replaced while it is used.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use crate::config::{Config, ConfigError};
use crate::dial::{Dial, Dialled, Socket};
use crate::pool::Pool;
use crate::url::Url;

/// Connections are made with whatever certificate is the last one.
pub(crate) struct CurrentSocket {
    /// Guards the pointer; held for a copy.
    socket: Mutex<Arc<Socket>>,
}

/// Gives a client its next certificate.
pub struct CertificateRotation {
    config: Config,
    current: Arc<CurrentSocket>,
    pool: Arc<Pool>,
    generation: AtomicU64,
}

impl CurrentSocket {
    pub fn new(config: &Config, url: &Url) -> Result<Arc<CurrentSocket>, ConfigError> {
        Ok(Arc::new(CurrentSocket { socket: Mutex::new(Arc::new(Socket::new(config, url, None)?)) }))
    }
}

impl Dial for Arc<CurrentSocket> {
    fn dial(&self) -> BoxFuture<'_, io::Result<Dialled>> {
        let socket = self.socket.lock().clone();
        Box::pin(async move { socket.dial().await })
    }
}

impl CertificateRotation {
    pub(crate) fn new(config: &Config, current: Arc<CurrentSocket>, pool: Arc<Pool>) -> CertificateRotation {
        CertificateRotation { config: config.clone(), current, pool, generation: AtomicU64::new(0) }
    }

    /// Certificate chain and key, in PEM. Requests that begin from now on show it; those under way, watches too, end on their old
    /// connections.
    pub fn replace(&self, certificate_pem: Vec<u8>, key_pem: Vec<u8>) -> Result<(), ConfigError> {
        let config = Config { certificate_pem: Some((certificate_pem, key_pem)), ..self.config.clone() };
        let url = Url::parse(&config.server)?;
        *self.current.socket.lock() = Arc::new(Socket::new(&config, &url, None)?);
        self.pool.renew(self.generation.fetch_add(1, Ordering::Relaxed) + 1);
        Ok(())
    }
}
