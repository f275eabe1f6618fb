//! Rotates the certificates of this server before they expire, without a restart.
//!
//! Open connections keep their certificate; new ones get the new one. The administrator's certificate is in a kubeconfig, which is
//! rewritten.

use std::sync::Arc;
use std::time::Duration;

use auth::Pki;
use auth::pki::{FrontProxy, ServingCertificate};
use env::Env;

use crate::aggregation::certificate::ProxyClientCertificate;
use crate::connect::KubeletClientCertificate;
use crate::shutdown::Shutdown;

/// A certificate is renewed with a third of its year left, so an hour more or less does not matter.
const CHECK: Duration = Duration::from_secs(3600);
/// The first retry after a failure; then with backoff, up to the interval of the check.
const RETRY: Duration = Duration::from_secs(60);

/// Writes the administrator's kubeconfig; an error says what is wrong and how to fix it.
pub type WriteKubeconfig = Box<dyn FnMut(&Pki) -> Result<(), String> + Send>;

pub struct CertificateRotation {
    pub pki: Pki,
    /// The certificate of new connections, if this server issues its own.
    pub certificate: Option<Arc<ServingCertificate>>,
    pub write_kubeconfig: WriteKubeconfig,
    /// The certificate for kubelets, if this server issues its own.
    pub kubelet_client: Option<Arc<KubeletClientCertificate>>,
    /// The certificate for servers whose APIs are aggregated, if this server issues its own.
    pub front_proxy: Option<(FrontProxy, Arc<ProxyClientCertificate>)>,
}

impl CertificateRotation {
    /// Checks the certificates periodically until shutdown.
    pub async fn run(mut self, env: Env, mut shutdown: Shutdown) {
        let (mut pending, mut failures) = (Pending::default(), 0);
        loop {
            let wait = match self.step(env.now_seconds(), &mut pending) {
                Ok(()) => {
                    failures = 0;
                    CHECK
                }
                Err(problem) => {
                    let wait = (RETRY * (1 << failures)).min(CHECK);
                    failures = (failures + 1).min(6);
                    tracing::error!(
                        problem,
                        again_in_seconds = wait.as_secs(),
                        "could not rotate certificates"
                    );
                    wait
                }
            };
            tokio::select! {
                biased;
                () = shutdown.begun() => return,
                () = env.sleep(wait) => {}
            }
        }
    }

    /// Renews what is due and installs it; what fails stays pending for the next step.
    fn step(&mut self, now: u64, pending: &mut Pending) -> Result<(), String> {
        let renewed = self.pki.renew_if_due(now).map_err(|error| error.to_string())?;
        pending.serving |= renewed.serving;
        pending.admin |= renewed.admin;
        if let Some(certificate) = self.certificate.as_ref().filter(|_| pending.serving) {
            let swapped = certificate.swap(self.pki.serving());
            swapped.map_err(|error| format!("the renewed serving certificate cannot be used: {error}"))?;
            pending.serving = false;
            tracing::info!("rotated the serving certificate");
        }
        if pending.admin {
            (self.write_kubeconfig)(&self.pki)?;
            pending.admin = false;
            tracing::info!("rotated the administrator's certificate in the kubeconfig");
        }
        if let Some(client) = &self.kubelet_client
            && client.renew_if_due(&self.pki, now).map_err(|error| error.to_string())?
        {
            tracing::info!("rotated the certificate for kubelets");
        }
        if let Some((proxy, certificate)) = &mut self.front_proxy
            && proxy.renew_if_due(now).map_err(|error| error.to_string())?
        {
            certificate.swap(proxy.client()).map_err(|error| error.to_string())?;
            tracing::info!("rotated the front proxy's certificate");
        }
        Ok(())
    }
}

/// Signed, but not installed yet.
#[derive(Default)]
struct Pending {
    serving: bool,
    admin: bool,
}
