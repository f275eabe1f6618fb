//! Flags for who may talk to the server: its serving certificate, the CAs of clients, anonymous requests, authorization.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use apiserver::{Authorization, AuthorizationMode};
use auth::pki::{ServingCertificate, certificates_from_pem, certificates_to_pem};
use auth::x509::ClientCa;
use clap::{Arg, ArgAction, ArgMatches, value_parser};

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
            "Serving certificate, followed by its CA if any, read at the start [default: DATA-DIR/pki/apiserver.crt, generated and renewed]",
        ),
        file(KEY, "Private key of --tls-cert-file"),
        file(CLIENT_CA, "CAs whose client certificates are accepted, in addition to the cluster's own CA"),
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

    /// The given serving certificate, and its chain in PEM: what clients may need to verify it, and everybody is shown. The file may
    /// hold the key as well.
    pub fn serving_certificate(&self) -> Result<Option<(ServingCertificate, String)>> {
        let Some((certificate, key)) = &self.certificate else { return Ok(None) };
        let pem = read(CERTIFICATE, certificate)?;
        let serving = ServingCertificate::from_pem(&pem, &read(KEY, key)?)
            .map_err(|why| anyhow!("--{CERTIFICATE}, --{KEY}: {why}"))?;
        let chain = certificates_from_pem(&pem).map_err(|why| anyhow!("--{CERTIFICATE}: {why}"))?;
        Ok(Some((serving, certificates_to_pem(&chain))))
    }

    /// The given CAs of clients behind the cluster's own, and all of them as PEM, without anything else of the file.
    pub fn client_ca(&self, own_pem: &str) -> Result<(ClientCa, String)> {
        let mut pem = own_pem.to_owned();
        if let Some(path) = &self.client_ca {
            let given = read(CLIENT_CA, path)?;
            let given = certificates_from_pem(&given)
                .map_err(|why| anyhow!("--{CLIENT_CA}: {} cannot be used: {why}", path.display()))?;
            pem = joined(&pem, &certificates_to_pem(&given));
        }
        let all = certificates_from_pem(pem.as_bytes()).map_err(|why| anyhow!("--{CLIENT_CA}: {why}"))?;
        Ok((ClientCa::new(&all), pem))
    }
}

/// The DNS names of the first certificate.
pub fn dns_names(pem: &str) -> Vec<String> {
    let chain = certificates_from_pem(pem.as_bytes()).unwrap_or_default();
    let Some(first) = chain.first() else { return Vec::new() };
    let parsed = webpki::EndEntityCert::try_from(first);
    parsed.map_or_else(|_| Vec::new(), |leaf| leaf.valid_dns_names().map(str::to_owned).collect())
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

fn read(flag: &str, path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("--{flag}: cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
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
        let (_, chain) = given.serving_certificate().unwrap().unwrap();
        assert_eq!(chain, pki.serving().certificate_pem());
        let (_, authorities) = given.client_ca(pki.ca_pem()).unwrap();
        assert_eq!(authorities.matches("BEGIN CERTIFICATE").count(), 2);
        assert!(!authorities.contains("PRIVATE KEY"));
    }

    #[test]
    fn a_certificate_needs_its_key() {
        assert!(settings(&["--tls-cert-file=x"]).err().unwrap().to_string().contains("together"));
    }
}
