//! One certificate: a key, a request to the cluster, and the wait until it is signed.

use std::sync::Arc;
use std::time::Duration;

use auth::pki::{Identity, new_request};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::resources::CERTIFICATE_SIGNING_REQUESTS;
use client::{Answer, Client, WriteOptions};
use env::Env;
use object::{Status, Value};

/// A request that nobody decides is made anew after this.
const PATIENCE: Duration = Duration::from_secs(15 * 60);
/// How often it is looked at: soon, then less and less.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LAST_LOOK: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("{}", .0.message)]
    Api(Status),
    #[error("certificate signing request {name} was denied: {why}")]
    Denied { name: String, why: String },
    #[error("certificate signing request {name} failed: {why}")]
    Failed { name: String, why: String },
    #[error("certificate signing request {0} was neither approved nor denied within 15 minutes")]
    Undecided(String),
    #[error("the certificate the cluster issued cannot be used: {0}")]
    Unusable(String),
    #[error("{0}")]
    Crypto(String),
    #[error("cannot write {path}: {source}")]
    Write { path: String, source: std::io::Error },
}

/// What a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To be known by the API server as the node.
    Client,
    /// To be known as the node by the API server.
    Serving,
}

/// The certificate to ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub purpose: Purpose,
    pub node: String,
    /// Host names and addresses, of a serving certificate.
    pub names: Vec<String>,
}

impl Purpose {
    fn signer(self) -> &'static str {
        match self {
            Purpose::Client => "kubernetes.io/kube-apiserver-client-kubelet",
            Purpose::Serving => "kubernetes.io/kubelet-serving",
        }
    }
    fn usages(self) -> [&'static str; 2] {
        match self {
            Purpose::Client => ["digital signature", "client auth"],
            Purpose::Serving => ["digital signature", "server auth"],
        }
    }
}

/// Where requests are made.
pub trait SigningRequests: Send + Sync {
    /// Its name.
    fn create(&self, body: Value) -> Answer<'_, String>;
    fn get<'a>(&'a self, name: &'a str) -> Answer<'a, Value>;
}

impl SigningRequests for Arc<dyn Client> {
    fn create(&self, body: Value) -> Answer<'_, String> {
        Box::pin(async move {
            let target = CERTIFICATE_SIGNING_REQUESTS.everywhere();
            let created = Client::create(&**self, target, body, WriteOptions::default()).await?;
            Ok(created.name().to_owned())
        })
    }
    fn get<'a>(&'a self, name: &'a str) -> Answer<'a, Value> {
        Box::pin(async move {
            let obj = Client::get(&**self, CERTIFICATE_SIGNING_REQUESTS.at("", name)).await?;
            Ok(::runtime::tree(&obj))
        })
    }
}

/// Asks for a certificate with a key of its own, and waits for it.
pub async fn obtain(
    env: &Env,
    requests: &dyn SigningRequests,
    wanted: &Wanted,
) -> Result<Identity, CertificateError> {
    let subject = format!("system:node:{}", wanted.node);
    let groups = [auth::groups::NODES.to_owned()];
    let made = new_request(&subject, &groups, &wanted.names);
    let (key, request) = made.map_err(|error| CertificateError::Crypto(error.to_string()))?;
    let name = requests.create(body(wanted.purpose, &request)).await.map_err(CertificateError::Api)?;
    let waiting = wait(env, requests, &name);
    let certificate = env
        .timeout(PATIENCE, waiting)
        .await
        .unwrap_or_else(|_| Err(CertificateError::Undecided(name.clone())))?;
    Identity::issued(&certificate, key).map_err(CertificateError::Unusable)
}

fn body(purpose: Purpose, request: &str) -> Value {
    let mut body = Value::map();
    body.map_at(&["metadata"]).set("generateName", "csr-");
    let spec = body.map_at(&["spec"]);
    spec.set("request", STANDARD.encode(request));
    spec.set("signerName", purpose.signer());
    spec.set("usages", Value::List(purpose.usages().map(Value::from).to_vec()));
    body
}

/// The certificate in PEM.
async fn wait(env: &Env, requests: &dyn SigningRequests, name: &str) -> Result<Vec<u8>, CertificateError> {
    let mut pause = FIRST_LOOK;
    loop {
        match requests.get(name).await {
            Ok(csr) => {
                if let Some(done) = decided(name, &csr) {
                    return done;
                }
            }
            // It was cleaned up: nobody will sign it.
            Err(status) if status.code == 404 => return Err(CertificateError::Api(status)),
            Err(status) => {
                tracing::debug!(error = status.message, "cannot look at the signing request, retrying")
            }
        }
        env.sleep(pause).await;
        pause = (pause * 2).min(LAST_LOOK);
    }
}

/// `None`: not yet.
fn decided(name: &str, csr: &Value) -> Option<Result<Vec<u8>, CertificateError>> {
    let name = name.to_owned();
    for condition in csr.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default() {
        let text = |member: &str| condition.str_at(&[member]).unwrap_or("").to_owned();
        let why = [text("reason"), text("message")].join(": ");
        match &*text("type") {
            "Denied" => return Some(Err(CertificateError::Denied { name, why })),
            "Failed" => return Some(Err(CertificateError::Failed { name, why })),
            _ => {}
        }
    }
    let text = csr.str_at(&["status", "certificate"]).filter(|text| !text.is_empty())?;
    let pem = STANDARD.decode(text);
    Some(pem.map_err(|_| CertificateError::Unusable("it is not base64".to_owned())))
}
