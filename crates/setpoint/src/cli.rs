//! The command line: one place for every flag, its default and its help.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

pub fn command() -> Command {
    Command::new("setpoint")
        .version(env!("CARGO_PKG_VERSION"))
        .about("The Kubernetes control plane as one small program")
        .long_about(
            "The Kubernetes control plane as one small program: an API server that speaks v1.36, controllers, a scheduler and \
             simulated nodes, on a durable store of its own or on etcd.\n\nStart with `setpoint up --detach --simulated-nodes 3`; it says what runs where and what to type next. `setpoint down` stops it.",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(up_command())
        .subcommand(server_command("server", "Run the control plane: the same as `up`, as long as there is no agent for real containers"))
        .subcommand(
            Command::new("down")
                .about("Stop the server on a data directory; its data stays")
                .long_about(
                    "Stop the server on a data directory, and return when it has ended; its data stays. Nothing to stop is \
                     no failure.",
                )
                .arg(data_dir()),
        )
        .subcommand(
            Command::new("kubeconfig")
                .about("Print the administrator's kubeconfig of a data directory")
                .arg(data_dir()),
        )
        .subcommand(
            Command::new("reset")
                .about("Delete a data directory: all objects, keys and certificates in it")
                .arg(data_dir())
                .arg(Arg::new("yes").long("yes").action(ArgAction::SetTrue).help("Do not ask")),
        )
        .subcommands(crate::backup::commands(data_dir))
        .subcommand(bench::command())
        .subcommand(diff::command())
        .subcommand(Command::new("version").about("Print the versions of setpoint and of the API it speaks"))
}

fn up_command() -> Command {
    server_command("up", "Start a cluster on this machine; --detach puts it into the background")
        .long_about(
            "Start a cluster on this machine: the API server, the controllers and the scheduler in one process. It stays in the \
             foreground until Ctrl-C or SIGTERM; with --detach the command returns when the cluster is ready, and `setpoint \
             down` stops it.\n\nThere is no agent for real containers yet: give it nodes with --simulated-nodes N, whose pods \
             run without containers.",
        )
        .after_help(
            "Examples:\n  A cluster with three simulated nodes in the background, and its end:\n      setpoint up --detach \
             --data-dir /tmp/demo --simulated-nodes 3\n      export KUBECONFIG=/tmp/demo/admin.kubeconfig\n      kubectl create \
             deployment web --image=nginx --replicas=3\n      setpoint down --data-dir /tmp/demo\n  A bare API server in memory, \
             on a free port:\n      setpoint up --data-dir /tmp/bare --listen 127.0.0.1:0 --store memory --controllers=-*",
        )
        .arg(
            Arg::new("detach")
                .long("detach")
                .display_order(0)
                .action(ArgAction::SetTrue)
                .help("Run in the background: return when the server is ready, or say why it is not; its log goes to DATA-DIR/log"),
        )
        // What `--detach` starts is this program again, with this flag in its place.
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
                .help("Address to serve the API on; port 0 takes a free one"),
        )
        .arg(
            Arg::new("store")
                .long("store")
                .value_name("STORE")
                .default_value("disk")
                .help("Where objects are kept: memory, disk, or etcd:URL[,URL]"),
        )
        .arg(file("etcd-cafile", "Authorities that signed the certificate of an etcd at https://, in PEM"))
        .arg(file("etcd-certfile", "Our certificate for an etcd that asks for one, in PEM"))
        .arg(file("etcd-keyfile", "The key of --etcd-certfile, in PEM"))
        .arg(
            Arg::new("kubeconfig")
                .long("kubeconfig")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("Where to write the administrator's kubeconfig once the server is ready [default: DATA-DIR/admin.kubeconfig]"),
        )
        .arg(
            Arg::new("token-file")
                .long("token-file")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("Users who prove themselves with a static token: lines of token,user,uid,\"group1,group2\""),
        )
        .args(crate::identity::flags())
        .args(crate::loops::flags())
        .arg(
            Arg::new("max-requests-inflight")
                .long("max-requests-inflight")
                .value_name("N")
                .default_value("400")
                .value_parser(clap::value_parser!(u32))
                .help("Together with the next flag: how many requests are served at once, divided among the priority levels"),
        )
        .arg(
            Arg::new("max-mutating-requests-inflight")
                .long("max-mutating-requests-inflight")
                .value_name("N")
                .default_value("200")
                .value_parser(clap::value_parser!(u32))
                .help("Added to the flag before: only the sum counts, as in kube-apiserver"),
        )
        .arg(
            Arg::new("service-cluster-ip-range")
                .long("service-cluster-ip-range")
                .value_name("CIDR[,CIDR]")
                .default_value("10.96.0.0/16")
                .help("Where services get their addresses from: one range, or one of IPv4 and one of IPv6"),
        )
        .arg(
            Arg::new("service-node-port-range")
                .long("service-node-port-range")
                .value_name("FIRST-LAST")
                .default_value("30000-32767")
                .help("Which ports services of type NodePort and LoadBalancer get on every node"),
        )
        .arg(
            Arg::new("advertise-address")
                .long("advertise-address")
                .value_name("IP")
                .help("Where pods and nodes reach this server [default: the address of --listen, or the machine's first one that is not loopback]"),
        )
        .arg(
            Arg::new("enable-admission-plugins")
                .long("enable-admission-plugins")
                .value_name("NAMES")
                .value_delimiter(',')
                .action(ArgAction::Append)
                .help("Admission plugins to run beside the default ones, by name, with commas between them"),
        )
        .arg(
            Arg::new("disable-admission-plugins")
                .long("disable-admission-plugins")
                .value_name("NAMES")
                .value_delimiter(',')
                .action(ArgAction::Append)
                .help("Default admission plugins not to run"),
        )
        .arg(
            Arg::new("log")
                .long("log")
                .value_name("FILTER")
                .default_value("info")
                .help("What to log: error, warn, info, debug, trace, or a filter such as apiserver=debug"),
        )
}

fn file(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name("FILE").value_parser(value_parser!(PathBuf)).help(help)
}

fn data_dir() -> Arg {
    Arg::new("data-dir").long("data-dir").value_name("DIR").value_parser(value_parser!(PathBuf)).help(
        "Objects, keys and certificates [default: /var/lib/setpoint as root, else ~/.local/share/setpoint]",
    )
}

/// Help and version go out as clap writes them; a mistake becomes one line that says where to look.
pub fn explain(error: &clap::Error) -> ExitCode {
    let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if asked || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return if asked { ExitCode::SUCCESS } else { ExitCode::from(2) };
    }
    let text = error.render().to_string();
    // What is wrong stands before the first empty line; a tip, if clap has one, after it.
    let wrong = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
    let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
    let one_line: Vec<&str> = wrong.split_whitespace().chain(tip.map(|_| ";")).chain(tip).collect();
    eprintln!("setpoint: {}; `setpoint help` lists what there is", one_line.join(" ").replace(" ;", ";"));
    ExitCode::from(2)
}

/// The data directory asked for, or the default one.
pub fn data_dir_of(matches: &ArgMatches) -> PathBuf {
    if let Some(dir) = matches.get_one::<PathBuf>("data-dir") {
        return dir.clone();
    }
    default_data_dir(rustix::process::geteuid().is_root(), std::env::var_os("HOME").map(PathBuf::from))
}

/// Root is known by its number: `HOME` may still be that of the user who became root.
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
    fn root_keeps_its_data_with_the_machine_whatever_home_says() {
        let home = std::env::temp_dir();
        let own = home.join(".local/share/setpoint");
        let shared = PathBuf::from("/var/lib/setpoint");
        assert_eq!(default_data_dir(true, Some(home.clone())), shared);
        assert_eq!(default_data_dir(false, Some(home)), own);
        assert_eq!(default_data_dir(false, Some("/no/such/home".into())), shared);
        assert_eq!(default_data_dir(false, None), shared);
    }
}
