//! Flags for aggregated API servers and front proxies: which certificate this server shows, and which proxies it believes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use apiserver::{ProxyClientCertificate, Shutdown};
use auth::pki::FrontProxy;
use auth::{RequestHeaderNames, RequestHeaders};
use clap::{Arg, ArgMatches, value_parser};
use env::Env;

/// How often files are looked at.
const FOLLOW: Duration = Duration::from_secs(60);

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

    /// The files of the given one, for those who replace them.
    pub fn certificate_files(&self, installed: &Arc<ProxyClientCertificate>) -> Option<CertificateFiles> {
        let (certificate, key) = self.certificate.clone()?;
        Some(CertificateFiles { certificate, key, seen: None, installed: installed.clone() })
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

/// A certificate and its key, which somebody else renews.
pub struct CertificateFiles {
    certificate: PathBuf,
    key: PathBuf,
    /// What was read last, usable or not: nothing is said of it twice.
    seen: Option<[Vec<u8>; 2]>,
    installed: Arc<ProxyClientCertificate>,
}

impl CertificateFiles {
    /// Looks every minute, as kube-apiserver does.
    pub async fn follow(mut self, env: Env, mut shutdown: Shutdown) {
        loop {
            match self.refresh() {
                Ok(false) => {}
                Ok(true) => tracing::info!("loaded the certificate for aggregated API servers anew"),
                Err(error) => tracing::warn!(
                    error = format!("{error:#}"),
                    "the certificate for aggregated API servers stays as it is"
                ),
            }
            tokio::select! {
                biased;
                () = shutdown.begun() => return,
                () = env.sleep(FOLLOW) => {}
            }
        }
    }

    /// Installs what is in the files now; true if that was not there the last time.
    fn refresh(&mut self) -> Result<bool> {
        let now = [read(CERTIFICATE, &self.certificate)?, read(KEY, &self.key)?];
        if self.seen.as_ref() == Some(&now) {
            return Ok(false);
        }
        let first = self.seen.is_none();
        let [certificate, key] = self.seen.insert(now);
        let swapped = self.installed.swap_pem(certificate, key);
        swapped.map(|()| !first).map_err(|why| anyhow!("--{CERTIFICATE}, --{KEY}: {why}"))
    }
}

fn read(flag: &str, path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("--{flag}: cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use rustls::client::ResolvesClientCert;

    use super::*;

    fn settings(flags: &[&str]) -> Result<FrontProxySettings> {
        let args = ["setpoint", "server", "--data-dir", "/nowhere"].iter().chain(flags);
        let matches = crate::cli::command().try_get_matches_from(args)?;
        let (_, matches) = matches.subcommand().context("a command")?;
        FrontProxySettings::from_matches(matches)
    }

    fn names(flags: &[&str]) -> Result<RequestHeaderNames> {
        Ok(settings(flags)?.names)
    }

    /// Which of two certificates is installed.
    fn serial(certificate: &ProxyClientCertificate) -> Vec<u8> {
        let key = certificate.resolve(&[], &[]).expect("there is one");
        key.cert[0].to_vec()
    }

    #[test]
    fn a_certificate_that_was_replaced_is_used_without_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let [certificate, key] = ["crt", "key"].map(|name| directory.path().join(name));
        let write = |proxy: &FrontProxy| {
            std::fs::write(&certificate, proxy.client().certificate_pem()).unwrap();
            std::fs::write(&key, proxy.client().key_pem()).unwrap();
        };
        let [old, new] = ["old", "new"].map(|name| {
            let own = directory.path().join(name);
            std::fs::create_dir(&own).unwrap();
            FrontProxy::open_or_create(&own, 1_800_000_000).unwrap()
        });
        write(&old);
        let flags =
            [format!("--{CERTIFICATE}={}", certificate.display()), format!("--{KEY}={}", key.display())];
        let given = settings(&flags.each_ref().map(String::as_str)).unwrap();
        let installed = given.certificate(&old).unwrap();
        let mut files = given.certificate_files(&installed).unwrap();
        assert!(!files.refresh().unwrap(), "it was read at the start");
        let first = serial(&installed);
        assert!(!files.refresh().unwrap(), "nothing has changed");
        // Half of it is there: what works stays.
        std::fs::write(&certificate, new.client().certificate_pem()).unwrap();
        assert!(files.refresh().is_err());
        assert!(!files.refresh().unwrap(), "it is said once");
        assert_eq!(serial(&installed), first);
        write(&new);
        assert!(files.refresh().unwrap());
        assert_ne!(serial(&installed), first);
        assert!(settings(&[]).unwrap().certificate_files(&installed).is_none());
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
