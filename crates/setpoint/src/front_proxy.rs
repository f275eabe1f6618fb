//! Flags for aggregated API servers and front proxies: which certificate this server shows, and which proxies it believes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use apiserver::ProxyClientCertificate;
use auth::pki::FrontProxy;
use auth::{RequestHeaderNames, RequestHeaders};
use clap::{Arg, ArgMatches, value_parser};

const CERTIFICATE: &str = "proxy-client-cert-file";
const KEY: &str = "proxy-client-key-file";
const AUTHORITY: &str = "requestheader-client-ca-file";
const ALLOWED: &str = "requestheader-allowed-names";
const USERNAME: &str = "requestheader-username-headers";
const UID: &str = "requestheader-uid-headers";
const GROUP: &str = "requestheader-group-headers";
const EXTRA: &str = "requestheader-extra-headers-prefix";

/// Named as in kube-apiserver.
pub fn flags() -> Vec<Arg> {
    let file = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("FILE").value_parser(value_parser!(PathBuf)).help(help)
    };
    let list = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("NAMES").value_delimiter(',').help(help)
    };
    vec![
        file(
            CERTIFICATE,
            "Client certificate for aggregated API servers [default: DATA-DIR/pki/front-proxy-client.crt, generated if missing]",
        ),
        file(KEY, "Key of --proxy-client-cert-file"),
        file(
            AUTHORITY,
            "CA bundle that verifies front proxies before X-Remote-* headers are trusted [default: DATA-DIR/pki/front-proxy-ca.crt, generated if missing]",
        ),
        list(
            ALLOWED,
            "Common names that front proxies' certificates may have; if empty, any certificate of --requestheader-client-ca-file is accepted [default: front-proxy-client, without that file]",
        ),
        list(USERNAME, "Headers with the user's name [default: X-Remote-User]"),
        list(UID, "Headers with the user's UID [default: X-Remote-Uid]"),
        list(GROUP, "Headers with the user's groups [default: X-Remote-Group]"),
        list(EXTRA, "Prefixes of headers with the user's extra [default: X-Remote-Extra-]"),
    ]
}

pub struct FrontProxySettings {
    certificate: Option<(PathBuf, PathBuf)>,
    authority: Option<PathBuf>,
    names: RequestHeaderNames,
}

impl FrontProxySettings {
    pub fn from_matches(matches: &ArgMatches) -> Result<FrontProxySettings> {
        let file = |name: &str| matches.get_one::<PathBuf>(name).cloned();
        let certificate = match (file(CERTIFICATE), file(KEY)) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate, key)),
            _ => bail!("--{CERTIFICATE} and --{KEY} must be given together"),
        };
        let authority = file(AUTHORITY);
        let usual = RequestHeaderNames::usual(FrontProxy::CLIENT_NAME);
        let list = |name: &str, usual: Vec<String>| -> Result<Vec<String>> {
            let Some(given) = matches.get_many::<String>(name) else { return Ok(usual) };
            let given: Vec<String> = given.map(|value| value.trim().to_owned()).collect();
            // `--flag=` is an empty list.
            if given == [""] {
                return Ok(Vec::new());
            }
            if given.iter().any(String::is_empty) {
                bail!("--{name}: a name is empty");
            }
            Ok(given)
        };
        let allowed = if authority.is_some() { Vec::new() } else { usual.allowed_names };
        let names = RequestHeaderNames {
            allowed_names: list(ALLOWED, allowed)?,
            username: list(USERNAME, usual.username)?,
            uid: list(UID, usual.uid)?,
            group: list(GROUP, usual.group)?,
            extra_prefixes: list(EXTRA, usual.extra_prefixes)?,
        };
        if names.username.is_empty() {
            bail!("--{USERNAME} must not be empty");
        }
        Ok(FrontProxySettings { certificate, authority, names })
    }

    /// The certificate for aggregated servers: the given one, or our own, which is renewed.
    pub fn certificate(&self, own: &FrontProxy) -> Result<Arc<ProxyClientCertificate>> {
        let Some((certificate, key)) = &self.certificate else {
            return ProxyClientCertificate::new(own.client()).map_err(|error| anyhow!("{error}"));
        };
        ProxyClientCertificate::from_pem(&read(CERTIFICATE, certificate)?, &read(KEY, key)?)
            .map_err(|why| anyhow!("--{CERTIFICATE}, --{KEY}: {why}"))
    }

    pub fn issues_its_own(&self) -> bool {
        self.certificate.is_none()
    }

    pub fn request_headers(&self, own: &FrontProxy) -> Result<Arc<RequestHeaders>> {
        let authority = match &self.authority {
            None => own.ca_pem().to_owned(),
            Some(path) => String::from_utf8_lossy(&read(AUTHORITY, path)?).into_owned(),
        };
        let headers = RequestHeaders::new(authority, self.names.clone());
        Ok(Arc::new(headers.map_err(|why| anyhow!("--{AUTHORITY}: {why}"))?))
    }
}

fn read(flag: &str, path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("--{flag}: cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(flags: &[&str]) -> Result<RequestHeaderNames> {
        let args = ["setpoint", "server", "--data-dir", "/nowhere"].iter().chain(flags);
        let matches = crate::cli::command().try_get_matches_from(args)?;
        let (_, matches) = matches.subcommand().context("a command")?;
        Ok(FrontProxySettings::from_matches(matches)?.names)
    }

    #[test]
    fn headers_are_the_usual_ones_unless_flags_say_otherwise() {
        assert_eq!(names(&[]).unwrap(), RequestHeaderNames::usual("front-proxy-client"));
        let flags = ["--requestheader-client-ca-file=x", "--requestheader-username-headers=X-A,X-B"];
        let given = names(&flags).unwrap();
        assert_eq!(
            (given.allowed_names.len(), given.username),
            (0, vec!["X-A".to_owned(), "X-B".to_owned()])
        );
        assert!(names(&["--requestheader-group-headers="]).unwrap().group.is_empty());
        assert!(names(&["--requestheader-username-headers="]).is_err());
        assert!(names(&["--proxy-client-cert-file=x"]).is_err());
    }
}
