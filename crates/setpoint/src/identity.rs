//! Flags for service account tokens: signing key, verification keys, issuers, audiences, expiration.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use auth::ServiceAccounts;
use auth::jwt::{PublicKey, SigningKey};
use auth::pki::service_account_key;
use auth::service_account::{DEFAULT_ISSUER, Settings};
use clap::{Arg, ArgAction, ArgMatches, value_parser};

/// Named as in kube-apiserver, so that scripts and manuals apply.
pub fn flags() -> Vec<Arg> {
    let file = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("FILE").value_parser(value_parser!(PathBuf)).help(help)
    };
    let switch = |name: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("BOOL")
            .value_parser(value_parser!(bool))
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .default_value("true")
            .help(help)
    };
    vec![
        file(
            "service-account-signing-key-file",
            "Private key used to sign service account tokens; all servers on one etcd need the same key [default: DATA-DIR/pki/sa.key, generated if missing]",
        ),
        file(
            "service-account-key-file",
            "File with additional private or public keys used to verify service account tokens; may be repeated",
        )
        .action(ArgAction::Append),
        Arg::new("service-account-issuer")
            .long("service-account-issuer")
            .value_name("ISSUER")
            .action(ArgAction::Append)
            .default_value(DEFAULT_ISSUER)
            .help("Issuer of service account tokens; may be repeated: the first is used for new tokens, all are accepted"),
        Arg::new("api-audiences")
            .long("api-audiences")
            .value_name("NAMES")
            .action(ArgAction::Append)
            .value_delimiter(',')
            .help("Audiences accepted in service account tokens [default: the issuers]"),
        Arg::new("service-account-max-token-expiration")
            .long("service-account-max-token-expiration")
            .value_name("DURATION")
            .help("Maximum lifetime of requested service account tokens, such as 24h; at least 1h"),
        switch(
            "service-account-extend-token-expiration",
            "Extend the lifetime of projected service account tokens to one year, for clients that do not reload them",
        ),
        switch(
            "enable-bootstrap-token-auth",
            "Allow Secrets of type bootstrap.kubernetes.io/token in kube-system to be used for authentication",
        ),
    ]
}

pub struct IdentitySettings {
    signing_key_file: Option<PathBuf>,
    key_files: Vec<PathBuf>,
    issuers: Vec<String>,
    audiences: Vec<String>,
    max_expiration_seconds: i64,
    extend_expiration: bool,
    pub bootstrap_tokens: bool,
}

impl IdentitySettings {
    pub fn from_matches(matches: &ArgMatches) -> Result<IdentitySettings> {
        let texts = |name: &str| -> Vec<String> {
            matches.get_many::<String>(name).into_iter().flatten().cloned().collect()
        };
        let issuers = texts("service-account-issuer");
        for (at, issuer) in issuers.iter().enumerate() {
            if issuer.is_empty() {
                bail!("--service-account-issuer should not be an empty string");
            }
            if issuers[..at].contains(issuer) {
                bail!("--service-account-issuer {issuer:?} is already specified");
            }
        }
        let limit = matches.get_one::<String>("service-account-max-token-expiration");
        let max_expiration_seconds = limit.map_or(Ok(0), |text| max_expiration(text))?;
        let on = |name: &str| matches.get_one::<bool>(name).copied().unwrap_or(true);
        Ok(IdentitySettings {
            signing_key_file: matches.get_one::<PathBuf>("service-account-signing-key-file").cloned(),
            key_files: matches
                .get_many::<PathBuf>("service-account-key-file")
                .into_iter()
                .flatten()
                .cloned()
                .collect(),
            issuers,
            audiences: texts("api-audiences"),
            max_expiration_seconds,
            extend_expiration: on("service-account-extend-token-expiration"),
            bootstrap_tokens: on("enable-bootstrap-token-auth"),
        })
    }

    /// Reads the key files, or the generated key in `pki_dir`.
    pub fn service_accounts(&self, pki_dir: &Path) -> Result<ServiceAccounts> {
        let read = |flag: &str, path: &Path| {
            std::fs::read(path).with_context(|| format!("{flag}: cannot read {}", path.display()))
        };
        let signer = match &self.signing_key_file {
            None => service_account_key(pki_dir)?,
            Some(path) => {
                let flag = "--service-account-signing-key-file";
                SigningKey::from_pem(&read(flag, path)?)
                    .map_err(|e| anyhow!("{flag}: {} cannot be used: {e}", path.display()))?
            }
        };
        let mut extra = Vec::new();
        for path in &self.key_files {
            let flag = "--service-account-key-file";
            let keys = PublicKey::all_from_pem(&read(flag, path)?)
                .map_err(|e| anyhow!("{flag}: {} cannot be used: {e}", path.display()))?;
            extra.extend(keys);
        }
        let settings = Settings {
            issuers: self.issuers.clone(),
            audiences: self.audiences.clone(),
            max_expiration_seconds: self.max_expiration_seconds,
            extend_expiration: self.extend_expiration,
        };
        Ok(ServiceAccounts::new(settings, signer, extra))
    }
}

/// kube-apiserver's bounds.
fn max_expiration(text: &str) -> Result<i64> {
    let seconds = seconds(text).ok_or_else(|| {
        anyhow!("--service-account-max-token-expiration {text} is not a duration: use 24h, 90m or 3600s")
    })?;
    if seconds != 0 && !(3600..=1 << 32).contains(&seconds) {
        bail!("the service-account-max-token-expiration must be between 1 hour and 2^32 seconds");
    }
    Ok(seconds)
}

/// A Go duration in whole seconds: `1h30m`, `3600s`.
pub fn seconds(text: &str) -> Option<i64> {
    let mut total: i64 = 0;
    let mut rest = text;
    if rest == "0" {
        return Some(0);
    }
    while !rest.is_empty() {
        let digits = rest.bytes().position(|b| !b.is_ascii_digit()).filter(|n| *n > 0)?;
        let number: i64 = rest[..digits].parse().ok()?;
        let unit = match rest.as_bytes()[digits] {
            b'h' => 3600,
            b'm' => 60,
            b's' => 1,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(unit)?)?;
        rest = &rest[digits + 1..];
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_as_in_go() {
        for (text, expected) in
            [("24h", Some(86_400)), ("1h30m", Some(5400)), ("3600s", Some(3600)), ("0", Some(0))]
        {
            assert_eq!(seconds(text), expected, "{text}");
        }
        for odd in ["", "h", "1", "1d", "-1h", "1.5h", "99999999999999999999h", "9223372036854775807h", "1hé"]
        {
            assert_eq!(seconds(odd), None, "{odd}");
        }
        assert!(max_expiration("59m").is_err());
        assert!(max_expiration("1h").is_ok());
    }
}
