//! From the flags of kube-apiserver to those of `setpoint server`: pure.

use std::net::{IpAddr, SocketAddr};

use catalog::Catalog;
use kubelet::feature_gates;

use super::flags::{Form, Support};
use super::parse::{self, Given};

/// Of those with several values, those that are not lists with commas.
const REPEATED: [&str; 2] = ["service-account-issuer", "service-account-key-file"];

/// What is translated below, or read by the caller.
const OWN: [&str; 9] = [
    "bind-address",
    "secure-port",
    "cert-dir",
    "etcd-servers",
    "feature-gates",
    "runtime-config",
    "token-auth-file",
    "v",
    "version",
];

/// Differs from kube-apiserver: without --authorization-mode everybody may everything there.
const DEFAULTS: [(&str, &str); 3] = [
    ("authorization-mode", "RBAC"),
    ("service-cluster-ip-range", "10.0.0.0/24"),
    ("enable-bootstrap-token-auth", "false"),
];

/// The arguments of `setpoint server`, but for its store, its data directory and its certificate.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Translated {
    pub args: Vec<String>,
    pub warnings: Vec<String>,
}

/// `server_flags`: the names of the flags of `setpoint server`. All that is wrong is told at once.
pub fn translate(given: &Given, server_flags: &[String]) -> Result<Translated, Vec<String>> {
    let (mut out, mut refused) = (Translated::default(), Vec::new());
    for (flag, values) in given.iter() {
        let name = flag.name;
        match flag.support {
            Support::Honoured if is_passed(name, server_flags) => {
                out.args.extend(passed(name, flag.form, values));
            }
            Support::Honoured | Support::NoEffect(_) => {}
            Support::Refused(why) => refused.push(format!("--{name} is not supported: {why}")),
            Support::Only(accepted, why) => {
                for value in values.iter().flat_map(|value| items(value, flag.form)) {
                    if !accepted.contains(&value) {
                        refused.push(format!("--{name}={value} is not supported: {why}"));
                    }
                }
            }
        }
    }
    for (name, value) in DEFAULTS {
        if given.all(name).is_empty() {
            out.args.push(format!("--{name}={value}"));
        }
    }
    match listen(given) {
        Ok(address) => out.args.push(format!("--listen={address}")),
        Err(why) => refused.push(why),
    }
    if let Some(file) = given.one("token-auth-file") {
        out.args.push(format!("--token-file={file}"));
    }
    match given.one("v").map(str::parse::<i32>) {
        Some(Err(_)) => refused.push("--v is not a number".to_owned()),
        Some(Ok(level)) if level >= 4 => out.args.push("--log=debug".to_owned()),
        _ => {}
    }
    refused.extend(gates(given.all("feature-gates")));
    let (unserved, warnings) = versions(given.all("runtime-config"));
    refused.extend(unserved);
    out.warnings = warnings;
    // kube-apiserver alone: what its controller manager does, nobody does.
    out.args.push("--controllers=-*".to_owned());
    if refused.is_empty() { Ok(out) } else { Err(refused) }
}

/// Whether the server has a flag of that name, which means the same.
fn is_passed(name: &str, server_flags: &[String]) -> bool {
    server_flags.iter().any(|flag| flag == name) && !OWN.contains(&name) && name != "help"
}

fn items(value: &str, form: Form) -> Vec<&str> {
    match form {
        Form::Many(_) => value.split(',').map(str::trim).collect(),
        _ => vec![value],
    }
}

fn passed(name: &str, form: Form, values: &[String]) -> Vec<String> {
    match form {
        Form::Many(_) if REPEATED.contains(&name) => values.iter().map(|v| format!("--{name}={v}")).collect(),
        Form::Many(_) => {
            // `--flag=` beside others adds nothing; alone it is the empty list.
            let named: Vec<&str> = values.iter().map(String::as_str).filter(|v| !v.is_empty()).collect();
            vec![format!("--{name}={}", named.join(","))]
        }
        _ => values.last().map(|v| format!("--{name}={v}")).into_iter().collect(),
    }
}

/// Differs from kube-apiserver: without --bind-address it is loopback, not every address.
fn listen(given: &Given) -> Result<SocketAddr, String> {
    let ip = given.one("bind-address").unwrap_or("127.0.0.1");
    let ip: IpAddr = ip.parse().map_err(|_| format!("--bind-address {ip} is not an IP address"))?;
    let port = given.one("secure-port").unwrap_or("6443");
    match port.parse::<u16>() {
        Ok(0) | Err(_) => {
            Err(format!("--secure-port {port} must be between 1 and 65535, it cannot be turned off with 0"))
        }
        Ok(port) => Ok(SocketAddr::new(ip, port)),
    }
}

/// What is wrong with `--feature-gates`: only the defaults are there.
fn gates(values: &[String]) -> Vec<String> {
    let mut wrong = Vec::new();
    for pair in values.iter().flat_map(|value| value.split(',')).map(str::trim).filter(|p| !p.is_empty()) {
        let Some((name, value)) = pair.split_once('=') else {
            wrong.push(format!("--feature-gates: missing bool value for {pair}"));
            continue;
        };
        let name = name.strip_prefix("kube:").unwrap_or(name).trim();
        match (feature_gates::is_on(name), parse::switch(value.trim())) {
            (None, _) => wrong.push(format!("--feature-gates: unrecognized feature gate: {name}")),
            (_, None) => wrong.push(format!("--feature-gates: invalid value of {name}: {value}")),
            (Some(on), Some(wanted)) if on != wanted => {
                let state = if on { "on" } else { "off" };
                wrong.push(format!("--feature-gates={name}={wanted} is not supported: it is {state}, as it is in v1.36 by default"));
            }
            _ => {}
        }
    }
    wrong
}

/// What is wrong with `--runtime-config`, and what is to be warned of: only what is served can be switched on, and nothing off.
fn versions(values: &[String]) -> (Vec<String>, Vec<String>) {
    let (mut wrong, mut warnings) = (Vec::new(), Vec::new());
    if values.is_empty() {
        return (wrong, warnings);
    }
    let catalog = Catalog::builtin();
    let served = |version: &str| catalog.resources().iter().any(|resource| resource.api_version() == version);
    for pair in values.iter().flat_map(|value| value.split(',')).map(str::trim).filter(|p| !p.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, "true"));
        // `group/version/resource` exists, too.
        let version = name.splitn(3, '/').take(2).collect::<Vec<_>>().join("/");
        match (name, parse::switch(value)) {
            (_, None) => wrong.push(format!("--runtime-config: invalid value {name}={value}")),
            ("api/ga", Some(true)) | ("api/beta" | "api/alpha", Some(false)) => {}
            ("api/all" | "api/beta" | "api/alpha", Some(true)) => {
                warnings.push(format!("--runtime-config={name}=true: alpha and beta APIs are not served"));
            }
            (_, Some(true)) if served(&version) => {}
            (_, Some(false)) if name != "api/all" && name != "api/ga" && !served(&version) => {}
            (_, Some(wanted)) => {
                let state = if wanted { "not served" } else { "always served" };
                wrong.push(format!("--runtime-config={name}={wanted} is not supported: {name} is {state}"));
            }
        }
    }
    (wrong, warnings)
}

#[cfg(test)]
mod tests {
    use super::super::flags;
    use super::*;

    fn translated(args: &[&str]) -> Result<Translated, Vec<String>> {
        let given = parse::parse(args.iter().map(|arg| (*arg).to_owned())).unwrap();
        translate(&given, &super::super::server_flags())
    }

    fn why(args: &[&str]) -> String {
        translated(args).unwrap_err().join("\n")
    }

    /// What controller-runtime's envtest passes, v0.24.
    const ENVTEST: [&str; 14] = [
        "--allow-privileged=true",
        "--authorization-mode=RBAC",
        "--bind-address=127.0.0.1",
        "--cert-dir=/tmp/k8s_test_framework_1",
        "--client-ca-file=/tmp/k8s_test_framework_1/client-cert-auth-ca.crt",
        "--disable-admission-plugins=ServiceAccount",
        "--etcd-servers=http://127.0.0.1:2379",
        "--secure-port=40000",
        "--service-account-issuer=https://127.0.0.1:40000/",
        "--service-account-key-file=/tmp/k8s_test_framework_1/sa-signer.crt",
        "--service-account-signing-key-file=/tmp/k8s_test_framework_1/sa-signer.key",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--feature-gates=WatchList=true",
        "--runtime-config=api/all=true,apps/v1=true",
    ];

    #[test]
    fn the_flags_of_envtest_become_those_of_the_server() {
        let translated = translated(&ENVTEST).unwrap();
        for arg in [
            "--authorization-mode=RBAC",
            "--client-ca-file=/tmp/k8s_test_framework_1/client-cert-auth-ca.crt",
            "--disable-admission-plugins=ServiceAccount",
            "--listen=127.0.0.1:40000",
            "--service-account-issuer=https://127.0.0.1:40000/",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--enable-bootstrap-token-auth=false",
            "--controllers=-*",
        ] {
            assert!(translated.args.iter().any(|a| a == arg), "{arg}: {:?}", translated.args);
        }
        assert_eq!(translated.warnings.len(), 1);
    }

    #[test]
    fn what_would_change_security_is_refused_by_name() {
        let refused = why(&[
            "--audit-log-path=-",
            "--encryption-provider-config=x",
            "--oidc-issuer-url=x",
            "--tls-cipher-suites=x",
            "--service-account-lookup=false",
            "--secure-port=0",
            "--feature-gates=AllAlpha=true,kube:WatchList=false,NoSuch=true",
            "--runtime-config=apps/v1=false,batch/v2alpha1=true",
        ]);
        for part in [
            "--audit-log-path is not supported: there is no audit log yet",
            "--encryption-provider-config is not supported",
            "--oidc-issuer-url is not supported",
            "--tls-cipher-suites is not supported",
            "--service-account-lookup=false is not supported",
            "--secure-port 0 must be between 1 and 65535",
            "--feature-gates=AllAlpha=true is not supported: it is off",
            "--feature-gates=WatchList=false is not supported: it is on",
            "unrecognized feature gate: NoSuch",
            "--runtime-config=apps/v1=false is not supported: apps/v1 is always served",
            "--runtime-config=batch/v2alpha1=true is not supported: batch/v2alpha1 is not served",
        ] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
    }

    #[test]
    fn lists_join_and_single_values_override() {
        let args = translated(&[
            "--enable-admission-plugins=A,B",
            "--enable-admission-plugins=C",
            "--service-account-issuer=one",
            "--service-account-issuer=two",
            "--v=6",
        ])
        .unwrap()
        .args;
        for arg in ["--enable-admission-plugins=A,B,C", "--service-account-issuer=one", "--log=debug"] {
            assert!(args.iter().any(|a| a == arg), "{arg}: {args:?}");
        }
    }

    /// Their names, with those its help does not show because they are deprecated.
    const UPSTREAM: &str = include_str!("../../tests/data/kube-apiserver-v1.36-flags.txt");

    #[test]
    fn every_flag_of_kube_apiserver_is_known_and_no_other() {
        let mut ours: Vec<&str> =
            flags::GROUPS.iter().flat_map(|(_, flags)| flags.iter()).map(|flag| flag.name).collect();
        ours.sort_unstable();
        assert_eq!(ours, UPSTREAM.lines().collect::<Vec<_>>());
    }

    #[test]
    fn every_honoured_flag_goes_somewhere_and_every_row_is_documented() {
        let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/envtest.md");
        let guide = std::fs::read_to_string(guide).unwrap();
        let server = super::super::server_flags();
        for flag in flags::GROUPS.iter().flat_map(|(_, flags)| flags.iter()) {
            let name = flag.name;
            let honoured = flag.support == Support::Honoured;
            assert!(
                !honoured || OWN.contains(&name) || name == "help" || server.iter().any(|flag| flag == name),
                "{name}"
            );
            // What this mode refuses or ignores is no flag of the server's.
            assert!(honoured || !is_passed(name, &server), "{name}");
            // Groups such as `--audit-*` stand for their flags.
            let mut groups = name.match_indices('-').map(|(at, _)| format!("`--{}-*`", &name[..at]));
            let named = guide.contains(&format!("`--{name}`")) || groups.any(|group| guide.contains(&group));
            assert!(named || name == "help", "docs/envtest.md does not name --{name}");
        }
    }
}
