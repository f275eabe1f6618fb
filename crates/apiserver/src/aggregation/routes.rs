//! A snapshot of all APIServices: which group versions other servers serve, and where every group stands among the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use env::Env;
use object::Value;
use percent_encoding::percent_decode_str;
use rustls::ClientConfig;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::ServerName;
use tokio::sync::Semaphore;

use super::pool::BackendPool;
use super::priorities::Priority;
use crate::connect::backend::BackendCount;

/// The APIService of the core group, which stands for all of `/api`.
const LEGACY: &str = "v1.";

#[derive(Clone, Default)]
pub(crate) struct Routes {
    all: BTreeMap<String, Arc<ApiService>>,
    /// How many of them have a Service.
    remotes: usize,
}

pub(crate) struct ApiService {
    pub name: String,
    pub group: String,
    pub version: String,
    pub priority: Priority,
    /// None: this server serves it.
    pub remote: Option<Remote>,
}

/// Another server.
pub(crate) struct Remote {
    pub service: ServiceKey,
    /// As its condition says.
    pub available: bool,
    /// The error is for clients.
    pub tls: Result<Arc<ClientConfig>, String>,
    pub server_name: Option<ServerName<'static>>,
    /// Its connections: one that hangs takes not all there are.
    pub connections: Arc<BackendCount>,
    /// Its requests under way, of which a connection of HTTP/2 carries many.
    pub requests: Arc<BackendCount>,
    /// Calls of webhooks under way that it serves; more wait for their turn.
    pub webhook_calls: Arc<Semaphore>,
    /// Connections to its endpoints, under this trust.
    pub pool: Arc<BackendPool>,
    /// What `tls` was made from.
    trust: Trust,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ServiceKey {
    pub namespace: String,
    pub name: String,
    pub port: u16,
}

#[derive(Clone, PartialEq, Eq)]
struct Trust {
    ca_bundle: String,
    skip_verify: bool,
}

impl ServiceKey {
    /// `spec.service` of an APIService that another server serves.
    pub fn of_api_service(object: &Value) -> Option<ServiceKey> {
        object.at(&["spec", "service"]).filter(|service| !service.is_null()).map(ServiceKey::of)
    }

    fn of(service: &Value) -> ServiceKey {
        let text = |name: &str| service.str_at(&[name]).unwrap_or("").to_owned();
        let port = service.get("port").and_then(Value::as_int).and_then(|port| u16::try_from(port).ok());
        ServiceKey { namespace: text("namespace"), name: text("name"), port: port.unwrap_or(443) }
    }
}

impl ApiService {
    /// `before`: the same one, whose connections are kept.
    pub fn of(
        object: &Value,
        before: Option<&ApiService>,
        env: &Env,
        certificate: Option<&Arc<dyn ResolvesClientCert>>,
    ) -> ApiService {
        let text = |path: &[&str]| object.str_at(path).unwrap_or("").to_owned();
        let number = |name: &str| object.at(&["spec", name]).and_then(Value::as_int).unwrap_or(0);
        let remote = ServiceKey::of_api_service(object).map(|service| {
            let trust = Trust {
                ca_bundle: text(&["spec", "caBundle"]),
                skip_verify: object.at(&["spec", "insecureSkipTLSVerify"]).and_then(Value::as_bool)
                    == Some(true),
            };
            let before = before.and_then(|before| before.remote.as_ref());
            let same = before.filter(|before| before.trust == trust && before.service == service);
            let tls = same.map_or_else(|| trust.tls(env, certificate), |same| same.tls.clone());
            Remote {
                available: is_available(object),
                pool: same.map_or_else(|| BackendPool::new(env, tls.as_ref().ok()), |same| same.pool.clone()),
                tls,
                server_name: ServerName::try_from(format!("{}.{}.svc", service.name, service.namespace)).ok(),
                connections: before.map(|before| before.connections.clone()).unwrap_or_default(),
                requests: before.map(|before| before.requests.clone()).unwrap_or_default(),
                webhook_calls: before.map_or_else(webhook::places, |before| before.webhook_calls.clone()),
                service,
                trust,
            }
        });
        ApiService {
            name: text(&["metadata", "name"]),
            group: text(&["spec", "group"]),
            version: text(&["spec", "version"]),
            priority: Priority { group: number("groupPriorityMinimum"), version: number("versionPriority") },
            remote,
        }
    }

    /// Where its paths begin.
    pub fn root(&self) -> String {
        match self.name.as_str() {
            LEGACY => format!("/api/{}", self.version),
            _ => format!("/apis/{}/{}", self.group, self.version),
        }
    }
}

impl Remote {
    /// Whether what one says holds for the other: the same Service, trusted for the same reason.
    pub fn is_same_server(&self, other: &Remote) -> bool {
        self.service == other.service && self.trust == other.trust
    }
}

impl Trust {
    fn tls(
        &self,
        env: &Env,
        certificate: Option<&Arc<dyn ResolvesClientCert>>,
    ) -> Result<Arc<ClientConfig>, String> {
        let bundle = STANDARD.decode(&self.ca_bundle).map_err(|error| error.to_string())?;
        let bundle = Some(bundle.as_slice()).filter(|bundle| !bundle.is_empty());
        let tls = webhook::tls::client_config(env, bundle, self.skip_verify);
        let mut tls = tls.map_err(|error| error.to_string())?;
        if let Some(certificate) = certificate {
            tls.client_auth_cert_resolver = certificate.clone();
        }
        Ok(Arc::new(tls))
    }
}

pub(crate) fn is_available(object: &Value) -> bool {
    available_condition(object).is_some_and(|condition| condition.str_at(&["status"]) == Some("True"))
}

pub(crate) fn available_condition(object: &Value) -> Option<&Value> {
    let conditions = object.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
    conditions.iter().find(|condition| condition.str_at(&["type"]) == Some("Available"))
}

impl Routes {
    pub fn set(&mut self, service: ApiService) {
        self.remove(&service.name.clone());
        self.remotes += usize::from(service.remote.is_some());
        self.all.insert(service.name.clone(), Arc::new(service));
    }

    pub fn remove(&mut self, name: &str) {
        if let Some(old) = self.all.remove(name) {
            self.remotes -= usize::from(old.remote.is_some());
        }
    }

    pub fn get(&self, name: &str) -> Option<&Arc<ApiService>> {
        self.all.get(name)
    }

    pub fn has_remotes(&self) -> bool {
        self.remotes > 0
    }

    /// Those other servers serve, by name.
    pub fn remotes(&self) -> impl Iterator<Item = &Arc<ApiService>> {
        let all = (self.remotes > 0).then(|| self.all.values());
        all.into_iter().flatten().filter(|service| service.remote.is_some())
    }

    pub fn is_remote(&self, name: &str) -> bool {
        self.all.get(name).is_some_and(|service| service.remote.is_some())
    }

    pub fn remote(&self, group: &str, version: &str) -> Option<&Arc<ApiService>> {
        if self.remotes == 0 {
            return None;
        }
        self.all.get(&super::priorities::name(group, version)).filter(|service| service.remote.is_some())
    }

    pub fn priority(&self, group: &str, version: &str) -> Option<Priority> {
        self.all.get(&super::priorities::name(group, version)).map(|service| service.priority)
    }

    /// The other server a path leads to, if any: `/apis/GROUP/VERSION` and what is below.
    pub fn find(&self, path: &str) -> Option<&Arc<ApiService>> {
        if self.remotes == 0 {
            return None;
        }
        let decoded = percent_decode_str(path).decode_utf8_lossy();
        let mut parts = decoded.strip_prefix('/')?.split('/');
        let name = match parts.next()? {
            "api" => LEGACY.to_owned(),
            "apis" => {
                let (group, version) = (parts.next()?, parts.next()?);
                super::priorities::name(group, version)
            }
            _ => return None,
        };
        self.all.get(&name).filter(|service| service.remote.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes() -> Routes {
        let env = Env::simulated(1);
        let text = r#"{"metadata":{"name":"v1.x.io"},"spec":{"group":"x.io","version":"v1","groupPriorityMinimum":10,
            "versionPriority":20,"service":{"namespace":"a","name":"b","port":8443},"insecureSkipTLSVerify":true},
            "status":{"conditions":[{"type":"Available","status":"True"}]}}"#;
        let local = r#"{"metadata":{"name":"v2.x.io"},"spec":{"group":"x.io","version":"v2"}}"#;
        let mut routes = Routes::default();
        for text in [text, local] {
            let object = codec::json::parse(text.as_bytes(), None).unwrap();
            routes.set(ApiService::of(&object, None, &env, None));
        }
        routes
    }

    #[test]
    fn paths_of_a_remote_group_version_lead_to_it() {
        let mut routes = routes();
        for path in
            ["/apis/x.io/v1", "/apis/x.io/v1/", "/apis/x.io/v1/namespaces/a/things", "/apis/x.io%2fv1/y"]
        {
            assert_eq!(routes.find(path).map(|s| s.name.as_str()), Some("v1.x.io"), "{path}");
        }
        for path in ["/apis/x.io", "/apis/x.io/v2/things", "/apis/x.io/v11", "/api/v1/pods", "/", "/apis"] {
            assert!(routes.find(path).is_none(), "{path}");
        }
        routes.remove("v1.x.io");
        assert!(routes.find("/apis/x.io/v1").is_none() && !routes.has_remotes());
    }

    #[test]
    fn a_service_has_its_name_and_port() {
        let routes = routes();
        let remote = routes.get("v1.x.io").unwrap().remote.as_ref().unwrap();
        assert_eq!(remote.service, ServiceKey { namespace: "a".into(), name: "b".into(), port: 8443 });
        assert_eq!(remote.server_name, Some(ServerName::try_from("b.a.svc").unwrap()));
        assert!(remote.available && remote.tls.is_ok());
    }
}
