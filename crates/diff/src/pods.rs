//! `setpoint diff-pods`: runs the same pods on two nodes of a cluster and compares what becomes of them.
//!
//! ```text
//!   data/pods.yaml ──> Scenario ──┬── Driver (node) ── pod, steps, deletion ── every version, events, logs ──┐
//!                                 └── Driver (the other node) ───────────────────────────────────────────────┤
//!                                     or golden/pods.jsonl, what kubelet did once                            v
//!                                            compare place by place ── data/pods-explained.tsv ── Observation
//! ```
//! An [`Observation`] is text by place: the sequence of a pod's phases, conditions and container states, the whole status at rest
//! and at the end, events with their counts, and the lines its containers wrote about what they see.

mod driver;
mod observation;
mod scenario;
mod text;
mod until;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bench::Endpoint;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use object::{Map, Value};

use crate::case::{parse, text_of};
use crate::error::DiffError;
use crate::explained::{Against, Explained, fits};
use driver::Driver;
use observation::Observation;
use scenario::Scenario;

const SCENARIOS: &str = include_str!("../data/pods.yaml");
const EXPLAINED: &str = include_str!("../data/pods-explained.tsv");
const RECORDED: &str = include_str!("../golden/pods.jsonl");

const EXAMPLES: &str = "\
Examples:
  A node of Setpoint beside one of upstream's kubelet:
      setpoint diff-pods --kubeconfig DATA-DIR/admin.kubeconfig --node a --against b
  A node of Setpoint, with what kubelet did when it was recorded:
      setpoint diff-pods --kubeconfig DATA-DIR/admin.kubeconfig --node a

Both nodes need the image (--image: a static busybox with /bin/sh) and none of the others that the pods ask for. Exit code 1: there
are differences that are not in the list of known ones.";

pub fn command() -> Command {
    let text = |name: &'static str| Arg::new(name).long(name).value_name("NAME");
    let file = |name: &'static str| {
        Arg::new(name).long(name).value_name("FILE").value_parser(value_parser!(PathBuf))
    };
    let directory =
        |name: &'static str| Arg::new(name).long(name).value_name("DIR").value_parser(value_parser!(PathBuf));
    Command::new("diff-pods")
        .about("Run the same pods on two nodes and report differences in what becomes of them")
        .after_help(EXAMPLES)
        .arg(file("kubeconfig").required(true).help("Kubeconfig of the cluster (current context)"))
        .arg(text("node").required(true).help("The node under test"))
        .arg(text("against").help("The reference node; without it, what kubelet did when it was recorded"))
        .arg(
            Arg::new("only")
                .long("only")
                .value_name("SCENARIO")
                .action(ArgAction::Append)
                .help("Only run this scenario, where * stands for any text; may be repeated"),
        )
        .arg(directory("static-pods").help(
            "The staticPodPath of the node under test: without it scenarios of static pods are left out",
        ))
        .arg(directory("static-pods-against").help("That of the reference node"))
        .arg(file("scenarios").help("Run the scenarios of this file instead of the built-in ones"))
        .arg(text("image").default_value("test/busybox:1").help("The image of the containers"))
        .arg(
            Arg::new("parallel")
                .long("parallel")
                .value_name("N")
                .default_value("4")
                .value_parser(value_parser!(u64).range(1..=64))
                .help("Scenarios that run at a time"),
        )
        .arg(file("explained").help("File with the known differences, instead of the built-in list"))
        .arg(file("record").help("Record what the reference node did in this file, one line per scenario"))
        .arg(file("details").help("Write everything that was seen on both nodes to this file"))
        .arg(
            Arg::new("allow-remote")
                .long("allow-remote")
                .action(ArgAction::SetTrue)
                .help("Allow a server on another machine"),
        )
}

pub fn run(matches: &ArgMatches) -> Result<(), DiffError> {
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
    let only: Vec<String> = matches.get_many::<String>("only").unwrap_or_default().cloned().collect();
    let image = text("image").unwrap_or_default();
    let written = match path("scenarios") {
        Some(path) => {
            let text = std::fs::read_to_string(&path);
            text.map_err(|source| DiffError::Read { path, source })?
        }
        None => SCENARIOS.to_owned(),
    };
    let mut scenarios = scenario::read(&written.replace("$IMAGE", &image))?;
    scenarios.retain(|one| only.is_empty() || only.iter().any(|pattern| fits(pattern, &one.name)));
    if scenarios.is_empty() {
        return Err(DiffError::NoScenario(only.join(", ")));
    }
    let against = text("against");
    let recorded = recorded(RECORDED);
    let folders = (path("static-pods"), path("static-pods-against"));
    let can_place = folders.0.is_some() && (against.is_none() || folders.1.is_some());
    let mut left_out = leave_out(&mut scenarios, |one| {
        let why_not = [
            (
                one.is_static && !can_place,
                "needs --static-pods, and --static-pods-against beside another node",
            ),
            (against.is_none() && !recorded.contains_key(&one.name), why_not_recorded(one)),
        ];
        why_not.into_iter().find_map(|(applies, why)| applies.then_some(why))
    });
    let kind = if against.is_some() { Against::Live } else { Against::Recorded };
    let explained = match path("explained") {
        Some(path) => {
            let text = std::fs::read_to_string(&path);
            text.map_err(|source| DiffError::Read { path, source })?
        }
        None => EXPLAINED.to_owned(),
    };
    let kubeconfig = path("kubeconfig").unwrap_or_default();
    let endpoint = Endpoint::load(&kubeconfig, matches.get_flag("allow-remote"))?;
    let node = text("node").unwrap_or_default();
    let at_once = matches.get_one::<u64>("parallel").map_or(4, |n| *n as usize);
    let word = crate::run::run_word();
    let ours = Driver::open(&endpoint, &node, &format!("{word}a"), &image, folders.0)?;
    let mut explained = Explained::read(&for_runtime(&explained, ours.has_embedded_runtime()), kind)?;
    let theirs = match &against {
        Some(node) => Driver::open(&endpoint, node, &format!("{word}b"), &image, folders.1).map(Some),
        None => Ok(None),
    };
    let can_map_users = |driver: &Driver| driver.has_user_namespaces();
    if !can_map_users(&ours) || !theirs.as_ref().ok().and_then(Option::as_ref).is_none_or(can_map_users) {
        let why = "needs user namespaces, which the runtime of one of the nodes does not have";
        left_out.extend(leave_out(&mut scenarios, |one| one.has_own_users().then_some(why)));
    }
    let (seen, theirs) = match theirs {
        Ok(theirs) => (observe_all(&scenarios, at_once, &ours, theirs.as_ref()), theirs),
        Err(error) => (Err(error), None),
    };
    // Whatever came of it, no namespace is left.
    let closed = (ours.close(), theirs.map_or(Ok(()), |theirs| theirs.close()));
    let seen = seen?;
    closed.0.and(closed.1)?;
    let nothing = Observation::default();
    let mut details = String::new();
    let (mut different, mut known, mut places) = (0, 0, 0);
    for (scenario, (mine, other)) in scenarios.iter().zip(&seen) {
        let other = match (other, recorded.get(&scenario.name)) {
            (Some(other), _) => other,
            (None, Some(other)) => other,
            (None, None) => &nothing,
        };
        let _ = writeln!(details, "=== {}", scenario.name);
        for (place, mine, other) in mine.beside(other) {
            places += 1;
            if Observation::agree(&place, mine, other) {
                let _ = writeln!(details, "    {place}: {mine}");
                continue;
            }
            if let Some(reason) = explained.reason(&scenario.name, &place) {
                known += 1;
                let _ = writeln!(details, "  ~ {place}: {reason}\n      ours   {mine}\n      theirs {other}");
                continue;
            }
            different += 1;
            let _ = writeln!(details, "  ! {place}\n      ours   {mine}\n      theirs {other}");
            println!("{}\n  {place}\n    ours   {mine}\n    theirs {other}", scenario.name);
        }
    }
    write(path("details"), &details)?;
    let lines = scenarios.iter().zip(&seen).filter_map(|(scenario, (_, other))| {
        let other = other.as_ref()?;
        Some(format!("{}\n", text_of(&record(&scenario.name, other))))
    });
    write(path("record"), &lines.collect::<String>())?;
    for (name, why) in &left_out {
        println!("left out: {name} {why}");
    }
    let whole = only.is_empty() && path("scenarios").is_none();
    // What is known of those that were not run cannot be used.
    let is_run = |line: &String| {
        let case = line.split('\t').next().unwrap_or_default();
        !left_out.iter().any(|(name, _)| fits(case, name))
    };
    let idle: Vec<String> = if whole { explained.idle().filter(is_run).collect() } else { Vec::new() };
    for line in &idle {
        println!("unused explanation, remove it from the list: {line}");
    }
    println!("{} scenarios, {places} places: {different} differ, {known} more are known to", scenarios.len());
    match different + idle.len() {
        0 => Ok(()),
        count => Err(DiffError::Different(count)),
    }
}

fn why_not_recorded(scenario: &Scenario) -> &'static str {
    if scenario.has_own_users() {
        "was not recorded: containerd 1.6 has no user namespaces"
    } else {
        "was not recorded"
    }
}

/// Those that cannot be compared here, each with the reason.
fn leave_out(
    scenarios: &mut Vec<Scenario>,
    why: impl Fn(&Scenario) -> Option<&'static str>,
) -> Vec<(String, &'static str)> {
    let mut left_out = Vec::new();
    scenarios.retain(|one| match why(one) {
        None => true,
        Some(why) => {
            left_out.push((one.name.clone(), why));
            false
        }
    });
    left_out
}

/// Lines that begin with `embedded` are about nodes with the embedded runtime: true of them in every run, and not read for others.
fn for_runtime(explained: &str, embedded: bool) -> String {
    let line = |line: &str| match line.strip_prefix("embedded\t") {
        Some(rest) if embedded => format!("both\t{rest}\n"),
        Some(_) => "\n".to_owned(),
        None => format!("{line}\n"),
    };
    explained.lines().map(line).collect()
}

type Seen = (Observation, Option<Observation>);

/// So many scenarios at a time, each on both nodes at once, so that they have the same machine.
fn observe_all(
    scenarios: &[Scenario],
    at_once: usize,
    ours: &Driver,
    theirs: Option<&Driver>,
) -> Result<Vec<Seen>, DiffError> {
    let next = AtomicUsize::new(0);
    let done: Mutex<BTreeMap<usize, Result<Seen, DiffError>>> = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(scenario) = scenarios.get(index) else { return };
                    let seen = std::thread::scope(|both| {
                        let other = theirs.map(|driver| both.spawn(|| driver.observe(scenario)));
                        let mine = ours.observe(scenario)?;
                        let other = other.map(|thread| thread.join().unwrap_or(Err(DiffError::Panicked)));
                        Ok((mine, other.transpose()?))
                    });
                    if let Ok(mut done) = done.lock() {
                        done.insert(index, seen);
                    }
                }
            });
        }
    });
    done.into_inner().map_err(|_| DiffError::Panicked)?.into_values().collect()
}

fn write(path: Option<PathBuf>, text: &str) -> Result<(), DiffError> {
    let write = |path: &Path| {
        std::fs::write(path, text).map_err(|source| DiffError::Write { path: path.to_owned(), source })
    };
    path.as_deref().map_or(Ok(()), write)
}

fn record(name: &str, seen: &Observation) -> Value {
    let mut row = Map::with_capacity(2);
    row.set("scenario", name);
    let places = seen.places().map(|(place, text)| (place.to_owned().into(), Value::from(text)));
    row.set("seen", Value::Map(places.collect()));
    Value::Map(row)
}

fn recorded(text: &str) -> BTreeMap<String, Observation> {
    let read = |line: &str| {
        let row = parse(line)?;
        let seen = row.get("seen")?.as_map()?.iter();
        let seen =
            seen.map(|(place, text)| (place.to_string(), text.as_str().unwrap_or_default().to_owned()));
        Some((row.str_at(&["scenario"])?.to_owned(), seen.collect()))
    };
    text.lines().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_scenarios_can_be_read_and_were_recorded() {
        let mut scenarios = scenario::read(SCENARIOS).unwrap();
        let recorded = recorded(RECORDED);
        let unrecorded = |one: &Scenario| (!recorded.contains_key(&one.name)).then(|| why_not_recorded(one));
        for (name, why) in leave_out(&mut scenarios, unrecorded) {
            assert_ne!(why, "was not recorded", "{name}");
        }
        assert_eq!(scenarios.len(), recorded.len(), "each was recorded once");
        for embedded in [false, true] {
            Explained::read(&for_runtime(EXPLAINED, embedded), Against::Live).unwrap();
        }
        command().debug_assert();
    }

    /// The API server refuses it, whatever the node.
    const REFUSED: &[&str] = &["unknown-runtime-class"];

    #[test]
    fn what_was_recorded_came_to_what_it_was_meant_to() {
        for (name, seen) in recorded(RECORDED) {
            let trouble = seen.places().find(|(place, _)| place.starts_with("trouble"));
            assert_eq!(trouble.is_some(), REFUSED.contains(&&*name), "{name}: {trouble:?}");
        }
    }

    #[test]
    fn what_only_the_embedded_runtime_does_is_not_explained_for_others() {
        let text = "embedded\ta\tb\tc\nboth\td\te\tf\n";
        let lines = |embedded| {
            let explained = Explained::read(&for_runtime(text, embedded), Against::Recorded).unwrap();
            explained.idle().collect::<Vec<_>>()
        };
        assert_eq!(lines(true), ["a\tb", "d\te"]);
        assert_eq!(lines(false), ["d\te"]);
        // A mistake is told with the line it is in.
        let wrong =
            Explained::read(&for_runtime("embedded\ta\tb\tc\noops\n", false), Against::Live).unwrap_err();
        assert!(wrong.to_string().contains("2"), "{wrong}");
    }
}
