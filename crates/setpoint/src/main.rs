//! `setpoint`: the Kubernetes control plane as one program. Parse, wire, run, drain.

// What commands print goes through it, not through std: a reader may leave.
#[macro_use(print, println, eprintln)]
extern crate bench;

mod access;
mod advertise;
mod backup;
mod bootstrap;
mod bridge_owner;
mod cli;
mod cluster_network;
mod controller_flags;
mod controllers;
mod descriptors;
mod detach;
mod envtest;
mod etcd;
mod flag_values;
mod followed;
mod front_proxy;
mod identity;
mod images;
mod join_objects;
mod kube_apiserver;
mod kubeconfig;
mod kubelet_client;
mod local_node;
mod memory;
mod node;
mod node_flags;
mod parent;
mod pid_file;
mod reset;
mod run;
mod store_choice;
mod token;

use std::path::Path;
use std::process::ExitCode;

use clap::ArgMatches;

/// Every write builds and drops an object tree: glibc's allocator took a fifth of a patch (docs/performance.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Its work is not what it prints.
fn serves(matches: &ArgMatches) -> bool {
    match matches.subcommand() {
        Some(("up", matches)) => !matches.get_flag("detach"),
        Some(("node", matches)) => matches.subcommand().is_none(),
        Some((name, _)) => name == "server",
        None => false,
    }
}

fn main() -> ExitCode {
    // The process that forks pods must not have a thread.
    container_runtime::serve_if_spawner();
    // Under these names it is what envtest starts.
    let mut args = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned());
    match args.next().as_deref().and_then(|name| Path::new(name).file_name()?.to_str()) {
        Some(kube_apiserver::NAME) => return kube_apiserver::main(args),
        Some(etcd::NAME) => return etcd::main(args),
        _ => {}
    }
    let matches = match cli::command().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => return cli::explain(&error),
    };
    let done = match matches.subcommand() {
        Some(("up", matches)) if matches.get_flag("detach") => detach::up(matches),
        Some(("up" | "server", matches)) => run::Settings::from_matches(matches).and_then(run::run),
        Some(("down", matches)) => detach::down(matches),
        Some(("kubeconfig", matches)) => kubeconfig::print(matches),
        Some(("backup", matches)) => backup::backup(matches),
        Some(("restore", matches)) => backup::restore(matches),
        Some(("repair", matches)) => backup::repair(matches),
        Some(("reset", matches)) => reset::reset(matches),
        Some(("node", matches)) => node::run(matches),
        Some(("token", matches)) => token::run(matches),
        Some(("envtest", matches)) => envtest::run(matches),
        Some(("image", matches)) => images::run(matches),
        Some(("bench", matches)) => bench::run(matches).map_err(anyhow::Error::from),
        Some(("diff", matches)) => diff::run(matches).map_err(anyhow::Error::from),
        Some(("diff-pods", matches)) => diff::pods::run(matches).map_err(anyhow::Error::from),
        Some(("version", _)) => {
            println!(
                "setpoint {}\nKubernetes API {}",
                env!("CARGO_PKG_VERSION"),
                apiserver::KUBERNETES_VERSION
            );
            Ok(())
        }
        _ => unreachable!("clap requires one of the subcommands"),
    };
    match done {
        Ok(()) if bench::output::has_failed() && !serves(&matches) => ExitCode::FAILURE,
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One line: what failed, where, and how to fix it. Nobody may be there to read it.
            eprintln!("setpoint: {error:#}");
            ExitCode::FAILURE
        }
    }
}
