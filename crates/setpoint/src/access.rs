//! Flags for who may talk to the server: its serving certificate, the CAs of clients, anonymous requests, authorization.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use apiserver::{Authorization, AuthorizationMode};
use auth::pki::{ServingCertificate, certificates_from_pem, certificates_to_pem};
use auth::{CaBundle, FollowedFiles};
use clap::{Arg, ArgAction, ArgMatches, value_parser};

use crate::followed::Followed;

const CERTIFICATE: &str = "tls-cert-file";
const KEY: &str = "tls-private-key-file";
const CLIENT_CA: &str = "client-ca-file";
const ANONYMOUS: &str = "anonymous-auth";
const MODE: &str = "authorization-mode";

/// Named as in kube-apiserver.
pub fn flags() -> Vec<Arg> {
    let file = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("FILE").value_parser(value_parser!(PathBuf)).help(help)
    };
    vec![
        file(
            CERTIFICATE,
            "Serving certificate, followed by its CA if any; read again when it changes [default: DATA-DIR/pki/apiserver.crt, generated and renewed]",
        ),
        file(KEY, "Private key of --tls-cert-file"),
        file(CLIENT_CA, "CAs whose client certificates are accepted, in addition to the cluster's own CA; read again when it changes"),
        Arg::new(ANONYMOUS)
            .long(ANONYMOUS)
            .value_name("BOOL")
            .value_parser(value_parser!(bool))
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .default_value("true")
            .help("Whether requests without credentials are let through to authorization, as system:anonymous: by default they may read health and version. Always off with --authorization-mode AlwaysAllow"),
        Arg::new(MODE)
            .long(MODE)
            .value_name("MODES")
            .value_delimiter(',')
            .action(ArgAction::Append)
            .default_values(["Node", "RBAC"])
            .help("Who decides what users may, in this order: Node, RBAC, AlwaysAllow, AlwaysDeny"),
    ]
}

pub struct AccessSettings {
    certificate: Option<(PathBuf, PathBuf)>,
    client_ca: Option<PathBuf>,
    pub refuse_anonymous: bool,
    pub authorization: Authorization,
}

impl AccessSettings {
    pub fn from_matches(matches: &ArgMatches) -> Result<AccessSettings> {
        let file = |name: &str| matches.get_one::<PathBuf>(name).cloned();
        let certificate = match (file(CERTIFICATE), file(KEY)) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate, key)),
            _ => bail!("--{CERTIFICATE} and --{KEY} must be given together"),
        };
        let names = matches.get_many::<String>(MODE).into_iter().flatten();
        let authorization = modes(names.map(String::as_str))?;
        let anonymous = matches.get_one::<bool>(ANONYMOUS).copied().unwrap_or(true);
        // As upstream: otherwise everybody who reaches the port would be an administrator.
        let everyone = authorization.has(AuthorizationMode::AlwaysAllow);
        Ok(AccessSettings {
            certificate,
            client_ca: file(CLIENT_CA),
            refuse_anonymous: !anonymous || everyone,
            authorization,
        })
    }

    /// The given serving certificate. The file may hold the key as well.
    pub fn serving_certificate(&self) -> Result<Option<GivenCertificate>> {
        let Some((certificate, key)) = &self.certificate else { return Ok(None) };
        let files = FollowedFiles::open("the serving certificate", &[certificate, key]);
        let files = files.map_err(|error| anyhow!("--{CERTIFICATE}, --{KEY}: {error}"))?;
        let [pem, key] = files.contents() else { bail!("--{CERTIFICATE} and --{KEY} are two files") };
        let serving = ServingCertificate::from_pem(pem, key)
            .map_err(|why| anyhow!("--{CERTIFICATE}, --{KEY}: {why}"))?;
        let chain = certificates_from_pem(pem).map_err(|why| anyhow!("--{CERTIFICATE}: {why}"))?;
        let chain = certificates_to_pem(&chain);
        let serving = Arc::new(serving);
        let installed = serving.clone();
        let install = move |contents: &[Vec<u8>]| match contents {
            [pem, key] => installed.swap_pem(pem, key),
            _ => Err("a certificate and a key are two files".to_owned()),
        };
        Ok(Some(GivenCertificate { serving, chain, followed: Followed::new(files, install) }))
    }

    /// The given CAs of clients behind the cluster's own, and the file they are in.
    pub fn client_ca(&self, own_pem: &str) -> Result<(Arc<CaBundle>, Option<Followed>)> {
        let own =
            certificates_from_pem(own_pem.as_bytes()).map_err(|why| anyhow!("the cluster's CA: {why}"))?;
        let Some(path) = &self.client_ca else { return Ok((Arc::new(CaBundle::new(&own)), None)) };
        let files = FollowedFiles::open("the CAs of clients", &[path]);
        let files = files.map_err(|error| anyhow!("--{CLIENT_CA}: {error}"))?;
        let all = move |contents: &[Vec<u8>]| -> Result<Vec<_>, String> {
            let mut all = own.clone();
            all.extend(certificates_from_pem(&contents.concat())?);
            Ok(all)
        };
        let given = all(files.contents())
            .map_err(|why| anyhow!("--{CLIENT_CA}: {} cannot be used: {why}", path.display()))?;
        let bundle = Arc::new(CaBundle::new(&given));
        let installed = bundle.clone();
        let install = move |contents: &[Vec<u8>]| {
            installed.swap(&all(contents)?);
            Ok(())
        };
        Ok((bundle, Some(Followed::new(files, install))))
    }
}

/// A serving certificate that was given.
pub struct GivenCertificate {
    pub serving: Arc<ServingCertificate>,
    /// In PEM: what clients may need to verify it, and everybody is shown.
    pub chain: String,
    pub followed: Followed,
}

fn modes<'a>(names: impl Iterator<Item = &'a str>) -> Result<Authorization> {
    let mut modes = Vec::new();
    for name in names {
        let mode = match name.trim() {
            "Node" => AuthorizationMode::Node,
            "RBAC" => AuthorizationMode::Rbac,
            "AlwaysAllow" => AuthorizationMode::AlwaysAllow,
            "AlwaysDeny" => AuthorizationMode::AlwaysDeny,
            "ABAC" | "Webhook" => {
                bail!("--{MODE} {name} is not supported: use Node, RBAC, AlwaysAllow or AlwaysDeny")
            }
            _ => bail!("--{MODE} {name:?} is not a valid mode: use Node, RBAC, AlwaysAllow or AlwaysDeny"),
        };
        if modes.contains(&mode) {
            bail!("--{MODE} has mode {name:?} specified more than once");
        }
        modes.push(mode);
    }
    if modes.is_empty() {
        bail!("at least one --{MODE} must be given");
    }
    Ok(Authorization(modes))
}

/// Two PEM files as one.
pub fn joined(first: &str, second: &str) -> String {
    format!("{}\n{second}", first.trim_end())
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    fn settings(flags: &[&str]) -> Result<AccessSettings> {
        let args = ["setpoint", "server", "--data-dir", "/nowhere"].iter().chain(flags);
        let matches = crate::cli::command().try_get_matches_from(args)?;
        let (_, matches) = matches.subcommand().context("a command")?;
        AccessSettings::from_matches(matches)
    }

    #[test]
    fn nodes_and_rbac_decide_unless_modes_are_given() {
        assert_eq!(settings(&[]).unwrap().authorization, Authorization::default());
        let given = settings(&["--authorization-mode=AlwaysDeny,RBAC"]).unwrap().authorization;
        assert_eq!(given.0, [AuthorizationMode::AlwaysDeny, AuthorizationMode::Rbac]);
        for (wrong, why) in [("", "valid mode"), ("Webhook", "supported"), ("RBAC,RBAC", "more than once")] {
            let flag = format!("--authorization-mode={wrong}");
            assert!(settings(&[&flag]).err().unwrap().to_string().contains(why), "{wrong}");
        }
    }

    #[test]
    fn nobody_is_anonymous_where_everybody_may_everything() {
        assert!(!settings(&[]).unwrap().refuse_anonymous);
        assert!(settings(&["--anonymous-auth=false"]).unwrap().refuse_anonymous);
        assert!(
            settings(&["--authorization-mode=AlwaysAllow", "--anonymous-auth"]).unwrap().refuse_anonymous
        );
    }

    #[test]
    fn a_key_beside_its_certificate_is_shown_to_nobody() {
        let home = tempfile::tempdir().unwrap();
        let pki = auth::Pki::open_or_create(&home.path().join("pki"), 1_700_000_000, &[]).unwrap();
        let combined = home.path().join("combined.pem");
        let text = format!("{}{}", pki.serving().key_pem(), pki.serving().certificate_pem());
        std::fs::write(&combined, text).unwrap();
        let file = combined.display();
        let flags = ["tls-cert-file", "tls-private-key-file", "client-ca-file"]
            .map(|name| format!("--{name}={file}"));
        let given = settings(&flags.each_ref().map(String::as_str)).unwrap();
        assert_eq!(given.serving_certificate().unwrap().unwrap().chain, pki.serving().certificate_pem());
        let (authorities, _) = given.client_ca(pki.ca_pem()).unwrap();
        let shown = authorities.current().pem.clone();
        assert_eq!(shown.matches("BEGIN CERTIFICATE").count(), 2);
        assert!(!shown.contains("PRIVATE KEY"));
    }

    #[test]
    fn the_names_of_a_certificate_are_its_dns_names_and_addresses() {
        let home = tempfile::tempdir().unwrap();
        let names = ["*.example.com", "10.0.0.1", "fd00::1"].map(str::to_owned);
        let pki = auth::Pki::open_or_create(&home.path().join("pki"), 1_700_000_000, &names).unwrap();
        let serving = ServingCertificate::new(pki.serving()).unwrap();
        let found = serving.names();
        assert!(names.iter().all(|name| found.contains(name)), "{found:?}");
        // They follow the certificate.
        let more = ["later.example.com".to_owned()];
        let pki = auth::Pki::open_or_create(&home.path().join("other"), 1_700_000_000, &more).unwrap();
        serving.swap(pki.serving()).unwrap();
        let found = serving.names();
        assert!(found.contains(&more[0]) && !found.contains(&names[0]), "{found:?}");
    }

    #[test]
    fn a_certificate_needs_its_key() {
        assert!(settings(&["--tls-cert-file=x"]).err().unwrap().to_string().contains("together"));
    }
}
