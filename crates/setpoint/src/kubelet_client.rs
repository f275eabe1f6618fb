//! Flags for how this server reaches kubelets.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use apiserver::{KubeletClient, KubeletClientCertificate, KubeletClientConfig};
use auth::Pki;
use clap::{Arg, ArgMatches, value_parser};
use env::Env;

const AUTHORITY: &str = "kubelet-certificate-authority";
const CERTIFICATE: &str = "kubelet-client-certificate";
const KEY: &str = "kubelet-client-key";
const ADDRESS_TYPES: &str = "kubelet-preferred-address-types";
const TIMEOUT: &str = "kubelet-timeout";

/// Named as in kube-apiserver.
pub fn flags() -> Vec<Arg> {
    let file = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("FILE").value_parser(value_parser!(PathBuf)).help(help)
    };
    vec![
        Arg::new(AUTHORITY)
            .long(AUTHORITY)
            .value_name("FILE")
            .help("CA that verifies kubelets' serving certificates; empty: they are not verified [default: the cluster's CA]"),
        file(
            CERTIFICATE,
            "Client certificate for kubelets [default: issued by the cluster's CA, for kube-apiserver-kubelet-client in system:masters]",
        ),
        file(KEY, "Key of --kubelet-client-certificate"),
        Arg::new(ADDRESS_TYPES)
            .long(ADDRESS_TYPES)
            .value_name("TYPES")
            .value_delimiter(',')
            .default_value("InternalIP,ExternalIP,Hostname")
            .help("Types of node addresses to reach kubelets at, best first"),
        Arg::new(TIMEOUT)
            .long(TIMEOUT)
            .value_name("DURATION")
            .default_value("5s")
            .help("How long a connection to a kubelet may take to be opened"),
    ]
}

pub struct KubeletClientSettings {
    /// None: the cluster's CA. Empty: none.
    authority: Option<String>,
    certificate: Option<(PathBuf, PathBuf)>,
    preferred_address_types: Vec<String>,
    timeout: Duration,
}

impl KubeletClientSettings {
    pub fn from_matches(matches: &ArgMatches) -> Result<KubeletClientSettings> {
        let file = |name: &str| matches.get_one::<PathBuf>(name).cloned();
        let certificate = match (file(CERTIFICATE), file(KEY)) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate, key)),
            _ => bail!("--{CERTIFICATE} and --{KEY} must be given together"),
        };
        let text = matches.get_one::<String>(TIMEOUT).map_or("", String::as_str);
        let timeout = object::time::parse_duration(text).map_err(|error| anyhow!("--{TIMEOUT}: {error}"))?;
        let timeout = u64::try_from(timeout).ok().filter(|nanos| *nanos > 0);
        Ok(KubeletClientSettings {
            authority: matches.get_one::<String>(AUTHORITY).cloned(),
            certificate,
            preferred_address_types: matches
                .get_many::<String>(ADDRESS_TYPES)
                .into_iter()
                .flatten()
                .map(|kind| kind.trim().to_owned())
                .filter(|kind| !kind.is_empty())
                .collect(),
            timeout: Duration::from_nanos(timeout.ok_or_else(|| anyhow!("--{TIMEOUT} must be positive"))?),
        })
    }

    /// The certificate for kubelets: the given one, or one of our own.
    pub fn certificate(&self, env: &Env, pki: &Pki) -> Result<Arc<KubeletClientCertificate>> {
        let Some((certificate, key)) = &self.certificate else {
            return Ok(KubeletClientCertificate::issue(pki, env.now_seconds())?);
        };
        let read = |flag: &str, path: &PathBuf| {
            std::fs::read(path).with_context(|| format!("--{flag}: cannot read {}", path.display()))
        };
        KubeletClientCertificate::from_pem(&read(CERTIFICATE, certificate)?, &read(KEY, key)?)
            .map_err(|why| anyhow!("--{CERTIFICATE}, --{KEY}: {why}"))
    }

    pub fn client(
        &self,
        env: &Env,
        cluster_ca: &str,
        certificate: Arc<KubeletClientCertificate>,
    ) -> Result<KubeletClient> {
        let authority_pem = match self.authority.as_deref() {
            None => Some(cluster_ca.to_owned()),
            Some("") => None,
            Some(path) => {
                let read = std::fs::read_to_string(path);
                Some(read.with_context(|| format!("--{AUTHORITY}: cannot read {path}"))?)
            }
        };
        let config = KubeletClientConfig {
            authority_pem,
            certificate: Some(certificate),
            preferred_address_types: self.preferred_address_types.clone(),
            timeout: self.timeout,
            dialer: None,
        };
        KubeletClient::new(env, config).map_err(|why| anyhow!("--{AUTHORITY}: {why}"))
    }
}
