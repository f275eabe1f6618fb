//! The command line: every flag with its default and its help text.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

pub fn command() -> Command {
    Command::new("setpoint")
        .version(env!("CARGO_PKG_VERSION"))
        .about("The Kubernetes control plane as one small program")
        .long_about(
            "The Kubernetes control plane as one small program: an API server that speaks v1.36, controllers, a scheduler, nodes with \
             real containers and simulated ones, on a durable store of its own or on etcd.\n\nStart with `setpoint up --detach --simulated-nodes 3`; it prints what is running and what to do next. Stop with `setpoint down`.",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(up_command())
        .subcommand(server_command("server", "Run the control plane in the foreground, without a node"))
        .subcommand(
            Command::new("down")
                .about("Stop the server of a data directory; the data is kept")
                .long_about(
                    "Stop the server of a data directory and wait until it has exited; the data is kept. Succeeds if no server is \
                     running.",
                )
                .arg(data_dir()),
        )
        .subcommand(
            Command::new("kubeconfig")
                .about("Print the admin kubeconfig of a data directory")
                .arg(data_dir()),
        )
        .subcommand(
            Command::new("reset")
                .about("End the pods of a data directory's node, and delete the directory's objects, keys and certificates")
                .arg(data_dir())
                .arg(Arg::new("yes").long("yes").action(ArgAction::SetTrue).help("Do not ask for confirmation")),
        )
        .subcommand(crate::node::command())
        .subcommand(crate::token::command(data_dir))
        .subcommands(crate::backup::commands(data_dir))
        .subcommand(crate::images::command(data_dir))
        .subcommand(crate::envtest::command())
        .subcommand(bench::command())
        .subcommand(diff::command())
        .subcommand(diff::pods::command())
        .subcommand(Command::new("version").about("Print the Setpoint version and the Kubernetes API version"))
}

fn up_command() -> Command {
    server_command("up", "Start a cluster on this machine; --detach puts it into the background")
        .long_about(
            "Start a cluster on this machine: the API server, the controllers and the scheduler in one process. It stays in the \
             foreground until Ctrl-C or SIGTERM; with --detach the command returns when the cluster is ready, and `setpoint \
             down` stops it.\n\nAs root this machine is a node too, with real containers and nothing else to install; its pods go on when the cluster stops. \
             --simulated-nodes N adds nodes whose pods run without containers.",
        )
        .after_help(
            "Examples:\n  Start a cluster with three simulated nodes in the background, and stop it:\n      setpoint up --detach \
             --data-dir /tmp/demo --simulated-nodes 3\n      export KUBECONFIG=/tmp/demo/admin.kubeconfig\n      kubectl create \
             deployment web --image=nginx --replicas=3\n      setpoint down --data-dir /tmp/demo\n  Run only the API server, in memory, \
             on a free port:\n      setpoint server --data-dir /tmp/bare --listen 127.0.0.1:0 --store memory --controllers=-*",
        )
        .arg(
            Arg::new("detach")
                .long("detach")
                .display_order(0)
                .action(ArgAction::SetTrue)
                .help("Run in the background: return when the server is ready, or report why it failed; logs go to DATA-DIR/log"),
        )
        .args(crate::local_node::flags())
        // `--detach` starts this program again with this flag instead.
        .arg(Arg::new("detached").long("detached").action(ArgAction::SetTrue).hide(true))
}

fn server_command(name: &'static str, about: &'static str) -> Command {
    Command::new(name)
        .about(about)
        .arg(data_dir())
        .arg(
            Arg::new("listen")
                .long("listen")
                .value_name("ADDR")
                .default_value("127.0.0.1:6443")
                .help("Address and port to serve the API on; port 0 picks a free port"),
        )
        .arg(
            Arg::new("store")
                .long("store")
                .value_name("STORE")
                .default_value("disk")
                .help("Storage backend: memory, disk, or etcd:URL[,URL]"),
        )
        .arg(file("etcd-cafile", "CA bundle to verify etcd's serving certificate (PEM)"))
        .arg(file("etcd-certfile", "Client certificate for etcd (PEM)"))
        .arg(file("etcd-keyfile", "Private key of --etcd-certfile (PEM)"))
        .arg(
            Arg::new("kubeconfig")
                .long("kubeconfig")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("Where to write the admin kubeconfig when the server is ready [default: DATA-DIR/admin.kubeconfig]"),
        )
        .arg(
            Arg::new("token-file")
                .long("token-file")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("Static token file, in CSV: token,user,uid,\"group1,group2\""),
        )
        .args(crate::access::flags())
        .args(crate::identity::flags())
        .args(crate::kubelet_client::flags())
        .args(crate::front_proxy::flags())
        .args(crate::controllers::flags())
        .args(crate::controller_flags::flags())
        .arg(
            Arg::new("max-requests-inflight")
                .long("max-requests-inflight")
                .value_name("N")
                .default_value("400")
                .value_parser(clap::value_parser!(u32))
                .help("With --max-mutating-requests-inflight: maximum number of requests in flight, shared among the priority levels"),
        )
        .arg(
            Arg::new("max-mutating-requests-inflight")
                .long("max-mutating-requests-inflight")
                .value_name("N")
                .default_value("200")
                .value_parser(clap::value_parser!(u32))
                .help("Added to --max-requests-inflight: only the sum matters, as in kube-apiserver"),
        )
        .arg(
            Arg::new("service-cluster-ip-range")
                .long("service-cluster-ip-range")
                .value_name("CIDR[,CIDR]")
                .default_value("10.96.0.0/16")
                .help("CIDR for Service cluster IPs; dual-stack with one IPv4 and one IPv6 range"),
        )
        .arg(
            Arg::new("service-node-port-range")
                .long("service-node-port-range")
                .value_name("FIRST-LAST")
                .default_value("30000-32767")
                .help("Port range for NodePort Services"),
        )
        .arg(
            Arg::new("advertise-address")
                .long("advertise-address")
                .value_name("IP")
                .help("Address advertised to pods and nodes [default: the address of --listen, or the source address of the default route]"),
        )
        .arg(
            Arg::new("enable-admission-plugins")
                .long("enable-admission-plugins")
                .value_name("NAMES")
                .value_delimiter(',')
                .action(ArgAction::Append)
                .help("Admission plugins to enable in addition to the defaults (comma-separated)"),
        )
        .arg(
            Arg::new("disable-admission-plugins")
                .long("disable-admission-plugins")
                .value_name("NAMES")
                .value_delimiter(',')
                .action(ArgAction::Append)
                .help("Default admission plugins to disable (comma-separated)"),
        )
        .arg(file(
            "admission-control-config-file",
            "Configuration of admission plugins: an AdmissionConfiguration (apiserver.config.k8s.io/v1), read at start",
        ))
        .arg(
            Arg::new("log")
                .long("log")
                .value_name("FILTER")
                .default_value("info")
                .help("Log level (error, warn, info, debug, trace) or filter, such as apiserver=debug"),
        )
}

fn file(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name("FILE").value_parser(value_parser!(PathBuf)).help(help)
}

fn data_dir() -> Arg {
    Arg::new("data-dir").long("data-dir").value_name("DIR").value_parser(value_parser!(PathBuf)).help(
        "Directory for objects, keys and certificates [default: /var/lib/setpoint as root, else ~/.local/share/setpoint]",
    )
}

/// Prints help and version as clap renders them, and any other error as one line with a hint.
pub fn explain(error: &clap::Error) -> ExitCode {
    let requested = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if requested || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return if requested { ExitCode::SUCCESS } else { ExitCode::from(2) };
    }
    let text = error.render().to_string();
    // clap puts the error before the first empty line, and a tip, if any, after it.
    let message = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
    let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
    let one_line: Vec<&str> = message.split_whitespace().chain(tip.map(|_| ";")).chain(tip).collect();
    eprintln!("setpoint: {}; see `setpoint help`", one_line.join(" ").replace(" ;", ";"));
    ExitCode::from(2)
}

/// The value of --data-dir, or the default.
pub fn data_dir_of(matches: &ArgMatches) -> PathBuf {
    if let Some(dir) = matches.get_one::<PathBuf>("data-dir") {
        return dir.clone();
    }
    default_data_dir(rustix::process::geteuid().is_root(), std::env::var_os("HOME").map(PathBuf::from))
}

/// `root` is decided by the effective user id: under sudo, `HOME` may still be the calling user's.
fn default_data_dir(root: bool, home: Option<PathBuf>) -> PathBuf {
    match home {
        Some(home) if !root && home.is_dir() => home.join(".local/share/setpoint"),
        _ => PathBuf::from("/var/lib/setpoint"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_uses_var_lib_whatever_home_is() {
        let home = std::env::temp_dir();
        let own = home.join(".local/share/setpoint");
        let shared = PathBuf::from("/var/lib/setpoint");
        assert_eq!(default_data_dir(true, Some(home.clone())), shared);
        assert_eq!(default_data_dir(false, Some(home)), own);
        assert_eq!(default_data_dir(false, Some("/no/such/home".into())), shared);
        assert_eq!(default_data_dir(false, None), shared);
    }
}
