//! The command line of `setpoint bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::error::BenchError;
use crate::scenario::{self, OverloadSettings, Row, Settings};

const EXAMPLES: &str = "\
Examples:
  All scenarios against a running Setpoint:
      setpoint bench --kubeconfig DATA-DIR/admin.kubeconfig --pids $(pgrep -x setpoint)
  Two scenarios, longer, with the raw figures in a file:
      setpoint bench --kubeconfig F --seconds 20 --json figures.json create get
  Compare with another server, in alternating rounds:
      setpoint bench --kubeconfig F --pids 100 --against G --against-pids 200,201
  Overload with 600 connections of 40 users for a minute; users and nodes from the server's --token-file:
      setpoint bench --kubeconfig F --pids 100 --token-file tokens.csv overload

Objects are created in a namespace setpoint-bench-<random>, which is deleted afterwards. To clean up after a killed run:
      kubectl delete namespace -l setpoint-bench=true";

pub fn command() -> Command {
    let scenarios: String = scenario::ALL
        .iter()
        .map(|scenario| format!("  {:<18} {}\n", scenario.name, scenario.about))
        .collect();
    let names = || scenario::ALL.iter().map(|scenario| scenario.name);
    let file = |name: &'static str| {
        Arg::new(name).long(name).value_name("FILE").value_parser(value_parser!(PathBuf))
    };
    let pids = |name: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("PID,PID")
            .value_delimiter(',')
            .action(ArgAction::Append)
            .value_parser(value_parser!(u32).range(1..))
    };
    let number = |name: &'static str, limits: std::ops::RangeInclusive<u64>| {
        Arg::new(name).long(name).value_name("N").value_parser(value_parser!(u64).range(limits))
    };
    Command::new("bench")
        .about("Benchmark any Kubernetes API server: throughput, latency, CPU and memory")
        .after_help(format!("Scenarios:\n{scenarios}\n{EXAMPLES}"))
        .arg(
            file("kubeconfig")
                .required(true)
                .help("Kubeconfig of the server to measure (current context)"),
        )
        .arg(pids("pids").help("PIDs of the server on this machine, to measure CPU and memory"))
        .arg(file("against").help("Kubeconfig of a second server to compare with, in alternating rounds"))
        .arg(pids("against-pids").requires("against").help("PIDs of the second server"))
        .arg(number("seconds", 1..=600).help("Duration of each round in seconds [default: 5, overload 60]"))
        .arg(number("warmup", 0..=60).default_value("1").help("Warm-up before each round in seconds"))
        .arg(number("connections", 1..=1024).help("Number of client connections [default: 64, overload 600]"))
        .arg(number("rounds", 1..=100).help("Rounds per scenario [default: 1, with --against 3]"))
        .arg(number("pods", 1..=1_000_000).help(
            "Number of pods [default: `hold` 10000, `pod-churn` and `node-idle` 100, `pod-start` 40]",
        ))
        .arg(
            Arg::new("image")
                .long("image")
                .value_name("IMAGE")
                .default_value("registry.k8s.io/pause:3.10.1")
                .help("Image of the pods of `pod-start`, `pod-churn`, `node-idle` and `exec`; it must run until it is stopped (`exec`: and have `true`)"),
        )
        .arg(
            number("objects", 1..=100_000)
                .default_value("100")
                .help("Existing 1 KB ConfigMaps in the namespace of each `overload` user"),
        )
        .arg(number("users", 1..=500).default_value("40").help("Number of `overload` users, each in its own namespace"))
        .arg(file("token-file").help(
            "Static token file with the users and nodes for `overload` [default: service accounts, and impersonated nodes]",
        ))
        .arg(file("json").help("Also write the raw results to this file"))
        .arg(
            Arg::new("allow-remote")
                .long("allow-remote")
                .action(ArgAction::SetTrue)
                .help("Allow servers on other machines"),
        )
        .arg(
            Arg::new("scenario")
                .value_name("SCENARIO")
                .num_args(0..)
                .value_parser(names().collect::<Vec<_>>())
                .hide_possible_values(true)
                .help("Scenarios to run [default: all not marked otherwise]"),
        )
}

/// The parsed command line.
pub struct Options {
    pub kubeconfig: PathBuf,
    pub pids: Vec<u32>,
    pub against: Option<PathBuf>,
    pub against_pids: Vec<u32>,
    pub settings: Settings,
    pub rounds: u64,
    pub json: Option<PathBuf>,
    pub allow_remote: bool,
    pub scenarios: Vec<&'static Row>,
}

impl Options {
    pub fn read(matches: &ArgMatches) -> Result<Self, BenchError> {
        let path = |name| matches.get_one::<PathBuf>(name).cloned();
        let number = |name| matches.get_one::<u64>(name).copied();
        let pids =
            |name| matches.get_many::<u32>(name).map(|pids| pids.copied().collect()).unwrap_or_default();
        let missing = |flag: &str| BenchError::Usage(format!("--{flag} is missing"));
        let against = path("against");
        let mut scenarios = Vec::new();
        for name in matches.get_many::<String>("scenario").unwrap_or_default() {
            let found =
                scenario::find(name).ok_or_else(|| BenchError::Usage(format!("unknown scenario {name}")))?;
            scenarios.push(found);
        }
        if scenarios.is_empty() {
            scenarios.extend(scenario::ALL.iter().filter(|scenario| scenario.runs_by_default));
        }
        // `overload` has its own defaults.
        let overloads = scenarios.iter().all(|scenario| scenario.name == "overload");
        let seconds = number("seconds").unwrap_or(if overloads { 60 } else { 5 });
        Ok(Options {
            kubeconfig: path("kubeconfig").ok_or_else(|| missing("kubeconfig"))?,
            pids: pids("pids"),
            rounds: number("rounds").unwrap_or(if against.is_some() { 3 } else { 1 }),
            against,
            against_pids: pids("against-pids"),
            settings: Settings {
                connections: number("connections").unwrap_or(64) as usize,
                warmup: Duration::from_secs(number("warmup").unwrap_or(1)),
                measured: Duration::from_secs(seconds),
                pods: number("pods"),
                image: matches.get_one::<String>("image").cloned().unwrap_or_default(),
                overload: OverloadSettings {
                    objects: number("objects").unwrap_or(100),
                    users: number("users").unwrap_or(40) as usize,
                    connections: number("connections").unwrap_or(600) as usize,
                    token_file: path("token-file"),
                },
            },
            json: path("json"),
            allow_remote: matches.get_flag("allow-remote"),
            scenarios,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Result<Options, String> {
        let matches = command().try_get_matches_from(line.split(' ')).map_err(|error| error.to_string())?;
        Options::read(&matches).map_err(|error| error.to_string())
    }

    #[test]
    fn command_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn default_scenarios_run_unless_some_are_named() {
        let all = options("bench --kubeconfig f").unwrap().scenarios;
        assert!(all.iter().all(|scenario| scenario.runs_by_default));
        assert!(all.iter().any(|scenario| scenario.name == "create"));
        let some = options("bench --kubeconfig f --pids 1,2 --pids 3 patch get").unwrap();
        let names: Vec<_> = some.scenarios.iter().map(|scenario| scenario.name).collect();
        assert_eq!((names, some.pids), (vec!["patch", "get"], vec![1, 2, 3]));
    }

    #[test]
    fn comparison_takes_three_rounds_by_default() {
        assert_eq!(options("bench --kubeconfig f").unwrap().rounds, 1);
        assert_eq!(options("bench --kubeconfig f --against g").unwrap().rounds, 3);
        assert_eq!(options("bench --kubeconfig f --against g --rounds 5").unwrap().rounds, 5);
    }

    #[test]
    fn wrong_flags_are_refused() {
        for line in [
            "bench",
            "bench --kubeconfig f --seconds 0",
            "bench --kubeconfig f --connections 5000",
            "bench --kubeconfig f --pids x",
            "bench --kubeconfig f --against-pids 1",
            "bench --kubeconfig f dance",
        ] {
            assert!(options(line).is_err(), "{line}");
        }
    }
}
