//! Where a webhook is and whom to trust there: the `clientConfig` of a CRD's conversion or of an admission webhook.

use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue};
use object::{Map, Value, quote};

use crate::path;

/// Cheap to clone. Two that are equal share their connections.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientConfig {
    pub(crate) target: Target,
    /// Authorities in PEM, or the serving certificate itself; `None`: those of this machine.
    pub(crate) ca_bundle: Option<Arc<[u8]>>,
    pub(crate) credentials: Option<Arc<Credentials>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// `https://` this authority (as written, for Host), then the path: clean, escaped.
    Url { authority: Arc<str>, host: Arc<str>, port: u16, path: Arc<str> },
    /// Found through its endpoints each time.
    Service(ServiceReference),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceReference {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub port: u16,
    /// Clean, escaped.
    pub path: Arc<str>,
}

/// Who the API server is to the webhook, from the kubeconfig of an `AdmissionConfiguration`.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Credentials {
    /// The value of the Authorization header.
    pub authorization: Option<String>,
    /// Certificate chain and key, in PEM.
    pub certificate_pem: Option<(Vec<u8>, Vec<u8>)>,
    /// Headers that name somebody to act as.
    pub impersonate: Vec<(String, Vec<u8>)>,
}

impl Credentials {
    pub(crate) fn headers(&self) -> Result<HeaderMap, ConfigError> {
        let mut headers = HeaderMap::new();
        let wrong = || ConfigError::Tls("the credentials are no header".to_owned());
        if let Some(text) = &self.authorization {
            let mut value = HeaderValue::from_str(text).map_err(|_| wrong())?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        for (name, value) in &self.impersonate {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
            headers.append(name, HeaderValue::from_bytes(value).map_err(|_| wrong())?);
        }
        Ok(headers)
    }
}

/// Secrets are not for logs.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credentials(..)")
    }
}

/// A configuration that validation would have refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("webhook configuration must have either service or URL")]
    NoTarget,
    #[error("Unparsable URL: parse {}: {problem}", quote(.url))]
    Url { url: String, problem: String },
    #[error("'https' is the only allowed URL scheme; desired format: https://host[/path]")]
    Scheme,
    #[error("host must be specified; desired format: https://host[/path]")]
    Host,
    #[error("port {0} is not valid")]
    Port(i64),
    #[error("unable to load root certificates: {0}")]
    CaBundle(String),
    #[error("{0}")]
    Tls(String),
}

impl ClientConfig {
    /// From `clientConfig`.
    pub fn from_value(config: &Value) -> Result<ClientConfig, ConfigError> {
        let target = match (config.get("service").filter(|service| !service.is_null()), config.get("url")) {
            (Some(service), _) => Target::Service(ServiceReference::from_value(service)?),
            (None, Some(Value::Str(url))) if !url.is_empty() => parse_url(url)?,
            _ => return Err(ConfigError::NoTarget),
        };
        let ca_bundle = match config.get("caBundle").and_then(Value::as_str) {
            Some(text) => {
                let pem = STANDARD
                    .decode(text)
                    .map_err(|_| ConfigError::CaBundle("unable to parse bytes as PEM block".to_owned()))?;
                // One of white space alone counts as none.
                (!pem.trim_ascii().is_empty()).then(|| pem.into())
            }
            None => None,
        };
        Ok(ClientConfig { target, ca_bundle, credentials: None })
    }

    pub fn with_credentials(self, credentials: Credentials) -> ClientConfig {
        self.with_shared(Arc::new(credentials))
    }

    pub(crate) fn with_shared(mut self, credentials: Arc<Credentials>) -> ClientConfig {
        self.credentials = Some(credentials);
        self
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    /// What a credential plugin that asks for it is told of the server.
    pub(crate) fn cluster_info(&self) -> Value {
        let mut info = Map::default();
        info.set("server", format!("https://{}", self.target.authority()));
        if let Target::Service(service) = &self.target {
            info.set("tls-server-name", service.server_name());
        }
        if let Some(bundle) = &self.ca_bundle {
            info.set("certificate-authority-data", STANDARD.encode(bundle));
        }
        Value::Map(info)
    }

    /// The same server: everything but the path.
    pub(crate) fn of_server(&self) -> ClientConfig {
        let mut server = self.clone();
        match &mut server.target {
            Target::Url { path, .. } | Target::Service(ServiceReference { path, .. }) => *path = "/".into(),
        }
        server
    }
}

impl ServiceReference {
    fn from_value(service: &Value) -> Result<ServiceReference, ConfigError> {
        let text = |name| service.get(name).and_then(Value::as_str).unwrap_or_default();
        let port = match service.get("port").and_then(Value::as_int).unwrap_or(0) {
            0 => 443,
            port => u16::try_from(port).map_err(|_| ConfigError::Port(port))?,
        };
        Ok(ServiceReference {
            namespace: text("namespace").into(),
            name: text("name").into(),
            port,
            path: path::clean(text("path").as_bytes()).into(),
        })
    }

    /// What the serving certificate must name.
    pub fn server_name(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }
}

impl Target {
    /// What stands behind `https://` and before the path, and in Host.
    pub(crate) fn authority(&self) -> String {
        match self {
            Target::Url { authority, .. } => authority.to_string(),
            Target::Service(service) => format!("{}:{}", service.server_name(), service.port),
        }
    }

    /// The authority, always with a port.
    pub(crate) fn host_port(&self) -> String {
        match self {
            Target::Url { authority, port, .. } => {
                // Behind the brackets of an IPv6 address, if it is one.
                let tail = authority.rsplit(']').next().unwrap_or_default();
                if tail.contains(':') { authority.to_string() } else { format!("{authority}:{port}") }
            }
            Target::Service(_) => self.authority(),
        }
    }

    pub(crate) fn path(&self) -> &str {
        match self {
            Target::Url { path, .. } | Target::Service(ServiceReference { path, .. }) => path,
        }
    }

    /// What the serving certificate must name.
    pub(crate) fn server_name(&self) -> String {
        match self {
            Target::Url { host, .. } => host.to_string(),
            Target::Service(service) => service.server_name(),
        }
    }

    /// HTTP/2 puts all calls on one connection. That is right where the connection's other end is the webhook, as with an endpoint or
    /// on this machine; behind another name may be a load balancer, which would see one connection only, so there upstream and we speak HTTP/1.1.
    /// Differs from kube-apiserver: it speaks HTTP/1.1 to Services too, as it chooses an endpoint for a connection and not for a call.
    pub(crate) fn http2(&self) -> bool {
        match self {
            Target::Url { host, .. } => {
                host.eq_ignore_ascii_case("localhost")
                    || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
            }
            Target::Service(_) => true,
        }
    }
}

fn parse_url(url: &str) -> Result<Target, ConfigError> {
    let (scheme, rest) = url.split_once("://").ok_or(ConfigError::Scheme)?;
    if !scheme.eq_ignore_ascii_case("https") {
        return Err(ConfigError::Scheme);
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    let wrong = |problem: String| ConfigError::Url { url: url.to_owned(), problem };
    if authority.is_empty() {
        return Err(ConfigError::Host);
    }
    let parsed: Authority = authority
        .parse()
        .map_err(|_| wrong(format!("invalid character in host name {}", quote(authority))))?;
    let host = parsed.host().trim_start_matches('[').trim_end_matches(']');
    let written = parsed.as_str();
    // A user's name would be sent nowhere: validation refuses it.
    if host.is_empty() || written.contains('@') {
        return Err(ConfigError::Host);
    }
    let port = match parsed.port_u16() {
        Some(port) => port,
        None if written == parsed.host() => 443,
        None => {
            return Err(wrong(format!("invalid port {} after host", quote(&written[parsed.host().len()..]))));
        }
    };
    let path =
        path::unescape(path).map_err(|escape| wrong(format!("invalid URL escape {}", quote(&escape))))?;
    Ok(Target::Url { authority: written.into(), host: host.into(), port, path: path::clean(&path).into() })
}

#[cfg(test)]
mod tests;
