//! Credentials from a plugin: a program that prints them, run when they are needed and when they have ended.
//!
//! It is bounded: a minute, a megabyte; its stdin is closed, and when nobody waits for it any more it is killed.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use codec::json;
use env::Env;
use object::{Map, Value, time};
use parking_lot::Mutex;

use crate::process::{self, Running};

/// A plugin that asks somebody else has this long.
const LIMIT: Duration = Duration::from_secs(60);
/// Credentials are a few kilobytes.
const MAX_OUTPUT: u64 = process::MAX_OUTPUT;
/// How a plugin is told what it is run for.
const INFO: &str = "KUBERNETES_EXEC_INFO";

/// `users[].user.exec` of a kubeconfig.
#[derive(Clone, Default, PartialEq)]
pub struct Plugin {
    /// `client.authentication.k8s.io/v1` or `v1beta1`: what is said to the plugin, and what it must answer in.
    pub api_version: String,
    pub command: String,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
    /// What to tell who does not have the plugin.
    pub install_hint: String,
    /// The cluster it is for, if the plugin is to know.
    pub cluster: Option<Value>,
}

/// Arguments may hold secrets.
impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Plugin({}, ..)", self.command)
    }
}

/// What a plugin gave. Secrets are not for logs.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Given {
    pub token: Option<String>,
    /// Certificate chain and key, in PEM.
    pub certificate: Option<(Vec<u8>, Vec<u8>)>,
    /// How often the certificate was another one than before.
    pub generation: u64,
    /// Unix nanoseconds after which it is worth nothing.
    expires_at: Option<u128>,
}

/// A plugin and what it gave last; shared by requests, which need the token, and connections, which need the certificate.
pub struct Exec {
    env: Env,
    plugin: Plugin,
    /// Guards what was given last; held for a copy.
    given: Mutex<Option<Arc<Given>>>,
    /// Held while the plugin runs, on purpose: who waits uses what it gives.
    running: tokio::sync::Mutex<()>,
}

impl Exec {
    pub fn new(env: Env, plugin: Plugin) -> Arc<Exec> {
        let running = tokio::sync::Mutex::default();
        Arc::new(Exec { env, plugin, given: Mutex::default(), running })
    }

    /// What is good now: what was given last, or what the plugin gives when it is asked again.
    pub async fn credentials(&self) -> Result<Arc<Given>, String> {
        if let Some(given) = self.good() {
            return Ok(given);
        }
        let _turn = self.running.lock().await;
        if let Some(given) = self.good() {
            return Ok(given);
        }
        let mut given = self.run().await?;
        let mut last = self.given.lock();
        if let Some(before) = last.as_ref() {
            given.generation = before.generation + u64::from(before.certificate != given.certificate);
        }
        let given = Arc::new(given);
        *last = Some(given.clone());
        Ok(given)
    }

    /// The server did not take what was used: the plugin is asked again, unless it has been since.
    pub fn refused(&self, used: &Arc<Given>) {
        let mut given = self.given.lock();
        if given.as_ref().is_some_and(|given| Arc::ptr_eq(given, used)) {
            // The certificate stays, to be compared with the next one.
            *given = Some(Arc::new(Given { expires_at: Some(0), ..Given::clone(used) }));
        }
    }

    fn good(&self) -> Option<Arc<Given>> {
        let given = self.given.lock().clone()?;
        given.expires_at.is_none_or(|end| self.env.now_nanos() < end).then_some(given)
    }

    async fn run(&self) -> Result<Given, String> {
        let plugin = &self.plugin;
        let mut command = Command::new(&plugin.command);
        command.args(&plugin.args).envs(plugin.env.iter().map(|(name, value)| (name, value)));
        command.env(INFO, plugin.info());
        let mut running = Running::start(command).map_err(|error| plugin.cannot_start(&error))?;
        let command = &plugin.command;
        let done = self.env.timeout(LIMIT, running.end()).await;
        let Ok(Some(ran)) = done else {
            return Err(format!(
                "exec: executable {command} did not end within {LIMIT:?}; run it by hand to see why"
            ));
        };
        if ran.output.len() as u64 > MAX_OUTPUT {
            return Err(format!("exec: executable {command} printed more than {MAX_OUTPUT} bytes"));
        }
        let status = ran.status.map_err(|error| format!("exec: executable {command}: {error}"))?;
        if !status.success() {
            let why = match status.code() {
                Some(code) => format!("failed with exit code {code}"),
                None => "was killed".to_owned(),
            };
            let complaint = String::from_utf8_lossy(&ran.complaint);
            let said = complaint.trim();
            let said = if said.is_empty() { "it said nothing; run it by hand to see why" } else { said };
            return Err(format!("exec: executable {command} {why}: {said}"));
        }
        plugin.read(&ran.output)
    }
}

impl Plugin {
    /// The first lines of a kubeconfig's `exec`; `folder` is where the file is, from which commands with a path are looked for.
    pub fn parse(exec: &Value, folder: &Path) -> Result<Plugin, String> {
        let text = |name: &str| exec.str_at(&[name]).unwrap_or("").to_owned();
        let api_version = text("apiVersion");
        if !matches!(
            api_version.as_str(),
            "client.authentication.k8s.io/v1" | "client.authentication.k8s.io/v1beta1"
        ) {
            return Err(format!(
                "exec plugin: invalid apiVersion {api_version:?}: write client.authentication.k8s.io/v1 or v1beta1, whichever \
                 the plugin speaks"
            ));
        }
        let command = text("command");
        if command.is_empty() {
            return Err("its user has an exec plugin without a command".to_owned());
        }
        match text("interactiveMode").as_str() {
            "Never" | "IfAvailable" => {}
            "" if api_version.ends_with("/v1beta1") => {}
            "" => {
                return Err(format!(
                    "interactiveMode must be specified for {command} to use exec authentication plugin: write \
                     interactiveMode: Never"
                ));
            }
            "Always" => {
                return Err(format!(
                    "exec plugin cannot support interactive mode: {command} wants to ask somebody, and nobody is there; use \
                     interactiveMode IfAvailable or Never"
                ));
            }
            other => {
                return Err(format!(
                    "invalid interactiveMode for {command}: {other:?}: write Never, IfAvailable or Always"
                ));
            }
        }
        let texts = |name: &str| exec.get(name).and_then(Value::as_list).unwrap_or_default();
        let args = texts("args").iter().map(|arg| arg.as_str().map(str::to_owned)).collect::<Option<_>>();
        let variable = |entry: &Value| {
            let (name, value) = (entry.str_at(&["name"])?, entry.str_at(&["value"])?);
            (!name.is_empty() && !name.contains(['=', '\0'])).then(|| (name.to_owned(), value.to_owned()))
        };
        // A bare name is looked for in PATH, a path from where the kubeconfig is.
        let command =
            if command.contains('/') { folder.join(command).to_string_lossy().into_owned() } else { command };
        Ok(Plugin {
            api_version,
            command,
            args: args.ok_or("its exec plugin has arguments that are not text")?,
            env: texts("env")
                .iter()
                .map(variable)
                .collect::<Option<_>>()
                .ok_or("its exec plugin has an env that is no list of name and value")?,
            install_hint: text("installHint"),
            cluster: None,
        })
    }

    fn info(&self) -> String {
        let mut spec = Map::default();
        if let Some(cluster) = &self.cluster {
            spec.set("cluster", cluster.clone());
        }
        spec.set("interactive", false);
        let mut info = Map::default();
        info.set("kind", "ExecCredential");
        info.set("apiVersion", self.api_version.as_str());
        info.set("spec", spec);
        String::from_utf8(json::to_vec(&Value::Map(info))).expect("JSON is UTF-8")
    }

    fn cannot_start(&self, error: &std::io::Error) -> String {
        let command = &self.command;
        if error.kind() != std::io::ErrorKind::NotFound {
            return format!("exec: executable {command} cannot be started: {error}");
        }
        let hint = match self.install_hint.as_str() {
            "" => "install it, or use a kubeconfig with a certificate or a token",
            hint => hint,
        };
        format!(
            "exec: executable {command} not found; the kubeconfig's user gets its credentials from it: {hint}"
        )
    }

    fn read(&self, output: &[u8]) -> Result<Given, String> {
        let credential = json::parse(output, None).map_err(|error| {
            format!("decoding stdout: {} printed no ExecCredential: {error}", self.command)
        })?;
        let (kind, version) =
            (credential.str_at(&["kind"]), credential.str_at(&["apiVersion"]).unwrap_or(""));
        if kind != Some("ExecCredential") {
            return Err(format!("decoding stdout: {} printed no ExecCredential", self.command));
        }
        if version != self.api_version {
            return Err(format!(
                "exec plugin is configured to use API version {}, plugin returned version {version}",
                self.api_version
            ));
        }
        let status = credential.get("status").filter(|status| !status.is_null());
        let status = status.ok_or("exec plugin didn't return a status field")?;
        let text = |name: &str| status.str_at(&[name]).filter(|text| !text.is_empty());
        let pem = |name: &str| text(name).map(|text| text.as_bytes().to_vec());
        let certificate = match (pem("clientCertificateData"), pem("clientKeyData")) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err("exec plugin returned only certificate or key, not both".to_owned()),
        };
        let token = text("token").map(str::to_owned);
        if token.is_none() && certificate.is_none() {
            return Err("exec plugin didn't return a token or cert/key pair".to_owned());
        }
        let expires_at = match text("expirationTimestamp") {
            None => None,
            Some(end) => {
                let end = time::parse(end)
                    .ok_or_else(|| format!("exec plugin returned {end:?} as expirationTimestamp"))?;
                Some(u128::try_from(end.0).unwrap_or(0) * 1_000_000_000)
            }
        };
        Ok(Given { token, certificate, generation: 0, expires_at })
    }
}

/// What a plugin that asks for it is told of the cluster: `spec.cluster` of the ExecCredential.
pub(crate) fn cluster_info(cluster: &Value, authority_pem: Option<&[u8]>) -> Value {
    use base64::Engine as _;
    let mut info = Map::default();
    for name in ["server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url"] {
        if let Some(value) = cluster.get(name).filter(|value| !value.is_null()) {
            info.set(name, value.clone());
        }
    }
    if let Some(pem) = authority_pem {
        let pem = base64::engine::general_purpose::STANDARD.encode(pem);
        info.set("certificate-authority-data", pem);
    }
    let extensions = cluster.get("extensions").and_then(Value::as_list).unwrap_or_default();
    let ours = |entry: &&Value| entry.str_at(&["name"]) == Some("client.authentication.k8s.io/exec");
    if let Some(config) = extensions.iter().find(ours).and_then(|entry| entry.get("extension")) {
        info.set("config", config.clone());
    }
    Value::Map(info)
}
