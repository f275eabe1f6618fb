//! Keeps the certificates of this server good: a new one before the old one ends, without a restart.
//!
//! Connections that are open keep the certificate they were greeted with; new ones see the new one. The administrator's
//! certificate is in a kubeconfig, which is written anew.

use std::sync::Arc;
use std::time::Duration;

use auth::Pki;
use auth::pki::ServingCertificate;
use env::Env;

use crate::shutdown::Shutdown;

/// A certificate is renewed with a third of its year left, so an hour more or less does not matter.
const CHECK: Duration = Duration::from_secs(3600);
/// After a failure: sooner, then less and less often, but at least as often as without one.
const RETRY: Duration = Duration::from_secs(60);

/// Writes the administrator's kubeconfig; an error says what is wrong and how to mend it.
pub type WriteKubeconfig = Box<dyn FnMut(&Pki) -> Result<(), String> + Send>;

pub struct CertificateRotation {
    pub pki: Pki,
    /// What new connections are shown.
    pub certificate: Arc<ServingCertificate>,
    pub write_kubeconfig: WriteKubeconfig,
}

impl CertificateRotation {
    /// Looks at the certificates now and then until the server goes down.
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
                        "certificates are not renewed"
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

    /// Renews what is due and shows it; what fails is owed and tried again with the next step.
    fn step(&mut self, now: u64, pending: &mut Pending) -> Result<(), String> {
        let renewed = self.pki.renew_if_due(now).map_err(|error| error.to_string())?;
        pending.serving |= renewed.serving;
        pending.admin |= renewed.admin;
        if pending.serving {
            let swapped = self.certificate.swap(self.pki.serving());
            swapped.map_err(|error| format!("the renewed serving certificate cannot be used: {error}"))?;
            pending.serving = false;
            tracing::info!("new connections see a new serving certificate");
        }
        if pending.admin {
            (self.write_kubeconfig)(&self.pki)?;
            pending.admin = false;
            tracing::info!("the administrator's certificate in the kubeconfig is new");
        }
        Ok(())
    }
}

/// What is signed but not in use yet.
#[derive(Default)]
struct Pending {
    serving: bool,
    admin: bool,
}
