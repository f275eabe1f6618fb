//! Flags for aggregated API servers and front proxies: which certificate this server shows, and which proxies it believes.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use apiserver::ProxyClientCertificate;
use auth::pki::FrontProxy;
use auth::{FollowedFiles, RequestHeaderNames, RequestHeaders};
use clap::{Arg, ArgMatches, value_parser};

use crate::followed::Followed;

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
            "Client certificate for aggregated API servers; read again when it changes [default: DATA-DIR/pki/front-proxy-client.crt, generated if missing]",
        ),
        file(KEY, "Key of --proxy-client-cert-file"),
        file(
            AUTHORITY,
            "CA bundle that verifies front proxies before X-Remote-* headers are trusted; read again when it changes [default: DATA-DIR/pki/front-proxy-ca.crt, generated if missing]",
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

    /// The certificate for aggregated servers: the given one with its files, or our own, which is renewed.
    pub fn certificate(&self, own: &FrontProxy) -> Result<(Arc<ProxyClientCertificate>, Option<Followed>)> {
        let Some((certificate, key)) = &self.certificate else {
            let own = ProxyClientCertificate::new(own.client()).map_err(|error| anyhow!("{error}"))?;
            return Ok((own, None));
        };
        let files = FollowedFiles::open("the certificate for aggregated API servers", &[certificate, key]);
        let files = files.map_err(|error| anyhow!("--{CERTIFICATE}, --{KEY}: {error}"))?;
        let [certificate, key] = files.contents() else { bail!("--{CERTIFICATE} and --{KEY} are two files") };
        let given = ProxyClientCertificate::from_pem(certificate, key)
            .map_err(|why| anyhow!("--{CERTIFICATE}, --{KEY}: {why}"))?;
        let installed = given.clone();
        let install = move |contents: &[Vec<u8>]| match contents {
            [certificate, key] => installed.swap_pem(certificate, key),
            _ => Err("a certificate and a key are two files".to_owned()),
        };
        Ok((given, Some(Followed::new(files, install))))
    }

    pub fn issues_its_own(&self) -> bool {
        self.certificate.is_none()
    }

    /// Which proxies are believed, and the file of their CAs.
    pub fn request_headers(&self, own: &FrontProxy) -> Result<(Arc<RequestHeaders>, Option<Followed>)> {
        let new = |pem: &[u8]| {
            let headers = RequestHeaders::new(pem, self.names.clone());
            Ok::<_, anyhow::Error>(Arc::new(headers.map_err(|why| anyhow!("--{AUTHORITY}: {why}"))?))
        };
        let Some(path) = &self.authority else { return Ok((new(own.ca_pem().as_bytes())?, None)) };
        let files = FollowedFiles::open("the CAs of front proxies", &[path]);
        let files = files.map_err(|error| anyhow!("--{AUTHORITY}: {error}"))?;
        let headers = new(&files.contents().concat())?;
        let authority = headers.authority().clone();
        let install = move |contents: &[Vec<u8>]| authority.swap_pem(&contents.concat());
        Ok((headers, Some(Followed::new(files, install))))
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
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
        let (installed, files) = given.certificate(&old).unwrap();
        let mut files = files.unwrap();
        let first = serial(&installed);
        assert!(!files.reload(), "it was read at the start");
        // Half of it is there: what works stays.
        std::fs::write(&certificate, new.client().certificate_pem()).unwrap();
        assert!(!files.reload());
        assert_eq!(serial(&installed), first);
        write(&new);
        assert!(files.reload());
        assert_ne!(serial(&installed), first);
        assert!(settings(&[]).unwrap().certificate(&old).unwrap().1.is_none());
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
