//! The order of a run: servers, scenarios, rounds in turn, then the table.

use clap::ArgMatches;

use crate::cli::Options;
use crate::endpoint::Endpoint;
use crate::error::BenchError;
use crate::meters::{Processes, Progress};
use crate::report::{self, Measured};
use crate::scenario::Row;
use crate::site::{Site, Target};
use crate::tally::Tally;

/// Runs what the command line asks for and prints the table. Blocks until it is done.
pub fn run(matches: &ArgMatches) -> Result<(), BenchError> {
    let options = Options::read(matches)?;
    let mut targets = vec![Target {
        label: "A",
        endpoint: Endpoint::load(&options.kubeconfig, options.allow_remote)?,
        processes: Processes::new(options.pids.clone(), "--pids")?,
    }];
    if let Some(against) = &options.against {
        targets.push(Target {
            label: "B",
            endpoint: Endpoint::load(against, options.allow_remote)?,
            processes: Processes::new(options.against_pids.clone(), "--against-pids")?,
        });
    }
    let progress = Progress::new();
    let mut results = Vec::new();
    for scenario in &options.scenarios {
        results.push(measure(scenario, &targets, &options, &progress)?);
    }
    print!("{}", report::table(&targets, &results));
    if let Some(path) = &options.json {
        std::fs::write(path, report::json(&targets, &options, &results))
            .map_err(|source| BenchError::Write { path: path.clone(), source })?;
    }
    Ok(())
}

fn measure(
    scenario: &'static Row,
    targets: &[Target],
    options: &Options,
    progress: &Progress,
) -> Result<Measured, BenchError> {
    let mut sites = Vec::new();
    let mut result = Ok(());
    for target in targets {
        match Site::open(target, progress) {
            Ok(site) => sites.push(site),
            Err(error) => {
                result = Err(error);
                break;
            }
        }
    }
    let mut rounds = vec![Vec::new(); targets.len()];
    if result.is_ok() {
        result = play(scenario, targets, &mut sites, options, progress, &mut rounds);
    }
    // Clean up whatever happened; the first error is the one to report.
    for (site, target) in sites.into_iter().zip(targets) {
        progress.begin(format!("{} on {}", scenario.name, target.label));
        progress.show("cleaning up");
        result = result.and(site.close());
    }
    progress.finish("");
    result.map(|()| Measured { scenario, rounds })
}

fn play(
    scenario: &Row,
    targets: &[Target],
    sites: &mut [Site<'_>],
    options: &Options,
    progress: &Progress,
    rounds: &mut [Vec<Tally>],
) -> Result<(), BenchError> {
    for (site, target) in sites.iter_mut().zip(targets) {
        progress.begin(format!("{} on {}: preparing", scenario.name, target.label));
        scenario.how.prepare(site)?;
    }
    for round in 1..=options.rounds {
        for ((site, target), rounds) in sites.iter_mut().zip(targets).zip(rounds.iter_mut()) {
            let name = scenario.name;
            progress.begin(format!("{name} on {}, round {round} of {}:", target.label, options.rounds));
            let tally = scenario.how.measure(site, &options.settings)?;
            progress.finish(&report::summary(&tally, scenario.how.unit()));
            rounds.push(tally);
        }
    }
    Ok(())
}
