//! The command line of `setpoint diff`.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

const EXAMPLES: &str = "\
Examples:
  All cases, against a kube-apiserver of the same version:
      setpoint diff --kubeconfig DATA-DIR/admin.kubeconfig --against upstream.kubeconfig
  One resource, with all differences in a file:
      setpoint diff --kubeconfig F --against G --only deployments --details differences.txt
  Your own requests (for the format see crates/diff/src/generate/written.rs):
      setpoint diff --kubeconfig F --against G --cases cases.jsonl
  CustomResourceDefinitions as operators publish them: each is installed, and objects made from its schema are sent:
      setpoint diff --kubeconfig F --against G --crds DIR
  Webhooks and policies: what is answered, and what webhooks are asked:
      setpoint diff --kubeconfig F --against G --admission

Both servers should authenticate the caller as the same user (for example by the same token) and run no controllers: see
docs/status.md. Objects are created in namespaces whose names start with df, which are deleted afterwards; cluster-scoped objects
start with df too and may be left behind. To clean up after a killed run:  kubectl delete namespace -l setpoint-diff=true
Responses are compared by status code, content type, body and warnings, ignoring values that legitimately differ (uids,
resourceVersions, timestamps and similar: see crates/diff/src/normalise.rs). Exit code 1: there are differences that are not in
the list of known ones.";

pub fn command() -> Command {
    let file = |name: &'static str| {
        Arg::new(name).long(name).value_name("FILE").value_parser(value_parser!(PathBuf))
    };
    let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    Command::new("diff")
        .about(
            "Send the same requests to two Kubernetes API servers and report differences in their responses",
        )
        .after_help(EXAMPLES)
        .arg(file("kubeconfig").required(true).help("Kubeconfig of the server under test (current context)"))
        .arg(file("against").required(true).help("Kubeconfig of the reference server (current context)"))
        .arg(Arg::new("only").long("only").value_name("RESOURCE").action(ArgAction::Append).help(
            "Only run cases of this resource: deployments, or \"apps/v1 deployments\"; or scenarios of this name, where * \
             stands for any text: \"* apply\"; may be repeated",
        ))
        .arg(file("cases").help("Run the cases of this file instead of the built-in ones"))
        .arg(
            Arg::new("crds").long("crds").value_name("DIR").value_parser(value_parser!(PathBuf)).help(
                "Run cases for the CustomResourceDefinitions in this directory's YAML files instead of the built-in ones",
            ),
        )
        .arg(flag("admission").help(
            "Run the cases about admission instead: they configure webhooks and policies for the whole cluster, and serve the webhooks",
        ))
        .arg(file("explained").help("File with the known differences, instead of the built-in list"))
        .arg(
            file("record")
                .help("Record the responses of the reference server in this file, one line per case"),
        )
        .arg(
            file("details")
                .help("Write every difference in full to this file: the request and both responses"),
        )
        .arg(
            Arg::new("show")
                .long("show")
                .value_name("N")
                .default_value("20")
                .value_parser(value_parser!(u64))
                .help("Number of differences to print"),
        )
        .arg(Arg::new("run").long("run").value_name("PREFIX").value_parser(is_prefix).help(
            "Prefix for the names of created objects, instead of a random one: lower-case letters and digits",
        ))
        .arg(flag("keep").help("Keep the namespaces after the run"))
        .arg(flag("allow-remote").help("Allow servers on other machines"))
}

/// The prefix becomes part of names and is replaced in responses, so it must be short and unlike any other text.
fn is_prefix(text: &str) -> Result<String, String> {
    let fine = (5..=12).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    if fine {
        Ok(text.to_owned())
    } else {
        Err("must be 5 to 12 lower-case letters and digits, starting with a letter".to_owned())
    }
}

/// The parsed command line.
pub struct Options {
    pub kubeconfig: PathBuf,
    pub against: PathBuf,
    pub only: Vec<String>,
    pub cases: Option<PathBuf>,
    pub crds: Option<PathBuf>,
    pub admission: bool,
    pub explained: Option<PathBuf>,
    pub record: Option<PathBuf>,
    pub details: Option<PathBuf>,
    pub shown: usize,
    pub run: Option<String>,
    pub keep: bool,
    pub allow_remote: bool,
}

impl Options {
    pub fn read(matches: &ArgMatches) -> Options {
        let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
        Options {
            kubeconfig: path("kubeconfig").expect("required by clap"),
            against: path("against").expect("required by clap"),
            only: matches.get_many::<String>("only").unwrap_or_default().cloned().collect(),
            cases: path("cases"),
            crds: path("crds"),
            admission: matches.get_flag("admission"),
            explained: path("explained"),
            record: path("record"),
            details: path("details"),
            shown: matches.get_one::<u64>("show").map_or(20, |n| *n as usize),
            run: matches.get_one::<String>("run").cloned(),
            keep: matches.get_flag("keep"),
            allow_remote: matches.get_flag("allow-remote"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn invalid_prefixes_are_rejected() {
        for word in ["", "abc", "Abcdef", "1abcdef", "a-bcdef", "abcdefghijklmn"] {
            assert!(is_prefix(word).is_err(), "{word:?}");
        }
        assert!(is_prefix("dfgolden").is_ok());
    }
}
