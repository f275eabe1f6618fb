//! This program under the name `kube-apiserver`: the API server alone, with kube-apiserver's flags. For envtest.
//!
//! ```text
//! kube-apiserver's flags ── parse ── translate ── the flags of `setpoint server` ── run
//!                                        └── refused by name, all at once
//! --etcd-servers ── the stand-in of etcd.rs: objects in its data directory; or a real etcd
//! ```

mod flags;
mod parse;
mod store;
mod translate;

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};

use crate::parent::Parent;
use crate::{cli, run};
use flags::{Form, Support};
use parse::Given;
use store::Store;

/// The name it is started by.
pub const NAME: &str = "kube-apiserver";
/// How its help begins; what has this in it is a version of this program.
pub const TITLE: &str = "Setpoint as kube-apiserver: the API server of Kubernetes ";

pub fn main(args: impl Iterator<Item = String>) -> ExitCode {
    let given = match parse::parse(args) {
        Ok(given) => given,
        Err(error) => {
            eprintln!("Error: {error}");
            return ExitCode::FAILURE;
        }
    };
    if given.one("help") == Some("true") {
        print!("{}", help());
        return ExitCode::SUCCESS;
    }
    match given.one("version") {
        None | Some("false") => {}
        Some("raw") => {
            println!("{}", raw_version());
            return ExitCode::SUCCESS;
        }
        Some("true") => {
            println!("Kubernetes {}", apiserver::KUBERNETES_VERSION);
            return ExitCode::SUCCESS;
        }
        Some(other) => {
            eprintln!("{NAME}: --version={other} is not supported: use --version or --version=raw");
            return ExitCode::FAILURE;
        }
    }
    match serve(&given) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            format!("{error:#}").lines().for_each(|line| eprintln!("{NAME}: {line}"));
            ExitCode::FAILURE
        }
    }
}

/// As Go prints the structure.
fn raw_version() -> String {
    let version = apiserver::KUBERNETES_VERSION;
    let mut numbers = version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    format!("version.Info{{Major:{major:?}, Minor:{minor:?}, GitVersion:{version:?}}}")
}

/// The names of the flags of `setpoint server`.
fn server_flags() -> Vec<String> {
    let command = cli::command();
    let server = command.find_subcommand("server");
    let flags = server.into_iter().flat_map(clap::Command::get_arguments);
    flags.filter_map(|arg| arg.get_long().map(str::to_owned)).collect()
}

fn serve(given: &Given) -> Result<()> {
    // First of all: one that ends meanwhile is not found any more.
    let parent = Parent::of_process_group_leader();
    let translated = translate::translate(given, &server_flags()).map_err(|why| anyhow!(why.join("\n")))?;
    for warning in &translated.warnings {
        eprintln!("{NAME}: warning: {warning}");
    }
    let store = Store::find(given.all("etcd-servers"))?;
    let (data_dir, _temporary) = match &store {
        Store::StandIn { dir, .. } => (dir.join("setpoint"), None),
        Store::Etcd(_) => {
            let temporary = Temporary::create()?;
            (temporary.0.clone(), Some(temporary))
        }
    };
    let mut args = vec!["setpoint".to_owned(), "server".to_owned()];
    args.extend(translated.args);
    args.extend([format!("--data-dir={}", data_dir.display()), format!("--store={}", store.flag())]);
    if given.one("tls-cert-file").is_none()
        && let Some(cert_dir) = given.one("cert-dir").map(Path::new)
    {
        args.extend(certificate(cert_dir, given, &data_dir)?);
    }
    let matches = cli::command().try_get_matches_from(args).map_err(|error| {
        let text = error.render().to_string();
        anyhow!("{}", text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned())
    })?;
    let (_, matches) = matches.subcommand().context("`server` is a command")?;
    let mut settings = run::Settings::from_matches(matches)?;
    settings.run_for_tests(store.is_synced(), parent);
    run::run(settings)
}

/// The flags for the certificate in --cert-dir. If there is none, one is made, as kube-apiserver does: by the cluster's own CA.
fn certificate(cert_dir: &Path, given: &Given, data_dir: &Path) -> Result<[String; 2]> {
    let (certificate, key) = (cert_dir.join("apiserver.crt"), cert_dir.join("apiserver.key"));
    if !certificate.exists() && !key.exists() {
        let ip = given.one("bind-address").unwrap_or("127.0.0.1").to_owned();
        let now = env::Env::machine().now_seconds();
        let pki = auth::Pki::open_or_create(&data_dir.join("pki"), now, &[ip])?;
        let failed = || format!("--cert-dir: cannot write to {}", cert_dir.display());
        std::fs::create_dir_all(cert_dir).with_context(failed)?;
        let chain = crate::access::joined(&pki.serving().certificate_pem(), pki.ca_pem());
        env::file::create(&key, pki.serving().key_pem().as_bytes(), 0o600).with_context(failed)?;
        env::file::create(&certificate, chain.as_bytes(), 0o644).with_context(failed)?;
    }
    Ok([
        format!("--tls-cert-file={}", certificate.display()),
        format!("--tls-private-key-file={}", key.display()),
    ])
}

/// A directory for keys that nobody needs afterwards; deleted when it is dropped.
struct Temporary(PathBuf);

impl Temporary {
    fn create() -> Result<Temporary> {
        let path = std::env::temp_dir().join(format!("setpoint-{NAME}-{}", env::Env::machine().uuid()));
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Temporary(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Every flag on a line of its own: envtest looks for some.
fn help() -> String {
    let mut out = format!(
        "{TITLE}{}, for tests with controller-runtime's envtest.\n\
         The folder that holds this program is made by `setpoint envtest install DIR`; docs/envtest.md is its guide.\n\n\
         Usage:\n  {NAME} [flags]\n",
        apiserver::KUBERNETES_VERSION
    );
    for (heading, flags) in flags::GROUPS {
        out.push_str(&format!("\n{heading} flags:\n\n"));
        for flag in *flags {
            let value = match flag.form {
                Form::Switch => String::new(),
                Form::One(value) | Form::Many(value) => format!(" {value}"),
            };
            let note = match flag.support {
                Support::Honoured => String::new(),
                Support::NoEffect(why) => format!(" (no effect: {why})"),
                Support::Only(accepted, why) => {
                    let accepted: Vec<&str> = accepted.iter().copied().filter(|v| !v.is_empty()).collect();
                    format!(" (only {}: {why})", accepted.join(" or "))
                }
                Support::Refused(why) => format!(" (not supported: {why})"),
            };
            let shown = format!("--{}{value}", flag.name);
            out.push_str(&format!("      {shown:<55} {}{note}\n", flag.help));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// envtest asks for flags by `^\s*--NAME\b`.
    #[test]
    fn help_shows_each_flag_at_the_beginning_of_a_line() {
        let help = help();
        let shown =
            |name: &str| help.lines().any(|line| line.trim_start().starts_with(&format!("--{name} ")));
        assert!(shown("secure-port") && shown("etcd-servers"));
        // It was removed in v1.24; where it is shown, envtest passes it.
        assert!(!help.contains("insecure-port"));
    }
}
