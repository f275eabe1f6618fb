//! Both servers at once, one thread each, scenario by scenario; then the comparison.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bench::WebhookServer;
use catalog::Catalog;
use clap::ArgMatches;

use crate::case::Scenario;
use crate::cli::Options;
use crate::client::Server;
use crate::compare::compare;
use crate::error::DiffError;
use crate::explained::{Against, Explained, fits};
use crate::generate::{self, published, written};
use crate::golden;
use crate::play::{Outcome, Player};
use crate::report::Report;
use crate::webhook::Webhook;

/// So many scenarios one server may be ahead of the other.
const AHEAD: usize = 4096;

/// So long kube-apiserver's own controllers have for the status of an object.
const SETTLED: Duration = Duration::from_millis(400);

/// The pause before a request is sent again whose answer is waited for.
const AGAIN: Duration = Duration::from_millis(50);

/// The pause before a request of a case about admission.
const FOLLOWED: Duration = Duration::from_millis(12);

type Played = Result<Vec<Outcome>, DiffError>;

pub fn run(matches: &ArgMatches) -> Result<(), DiffError> {
    let options = Options::read(matches);
    let scenarios = chosen(&options)?;
    let mut explained = match &options.explained {
        Some(path) => Explained::read(&read(path)?, Against::Live)?,
        None if options.admission => Explained::of_admission(Against::Live)?,
        None => Explained::built_in(Against::Live)?,
    };
    let cases: usize = scenarios.iter().map(|scenario| scenario.steps.len()).sum();
    println!("{cases} requests in {} scenarios", scenarios.len());
    let run = options.run.clone().unwrap_or_else(run_word);
    let mut theirs = Server::open(&options.against, options.allow_remote)?;
    let mut ours = Server::open(&options.kubeconfig, options.allow_remote)?;
    let mut report = Report::new(options.shown, options.details.as_deref())?;
    let mut lines = String::new();
    std::thread::scope(|scope| -> Result<(), DiffError> {
        let (scenarios, run) = (&scenarios, &run);
        let play = |server: &'static str, mut speak: Box<dyn FnMut(&Scenario) -> Played + Send>| {
            let (sender, receiver) = sync_channel::<Played>(AHEAD);
            let work = move || {
                for scenario in scenarios {
                    let played = speak(scenario);
                    let failed = played.is_err();
                    // The receiver is gone only after the other server failed, which is told already.
                    if sender.send(played).is_err() || failed {
                        return;
                    }
                }
            };
            let builder = std::thread::Builder::new().name(server.to_owned());
            builder.spawn_scoped(scope, work).map(|_| receiver)
        };
        let threads = |source| DiffError::Read { path: "a thread".into(), source };
        let (keep, admission) = (options.keep, options.admission);
        let word = run.clone();
        let hook = Asked::start(admission)?;
        let ours = play("ours", Box::new(move |s| speak(&mut ours, s, &word, keep, hook.as_ref())))
            .map_err(threads)?;
        let word = run.clone();
        let hook = Asked::start(admission)?;
        let theirs = play("theirs", Box::new(move |s| speak(&mut theirs, s, &word, keep, hook.as_ref())))
            .map_err(threads)?;
        for scenario in scenarios {
            let (ours, theirs) = (next(&ours)?, next(&theirs)?);
            report.begin(scenario);
            for ((step, ours), theirs) in scenario.steps.iter().zip(&ours).zip(&theirs) {
                let case = format!("{} / {}", scenario.name, step.name);
                let difference = compare(ours, theirs);
                let reason =
                    difference.as_ref().and_then(|d| explained.reason(&case, &d.place).map(str::to_owned));
                report.case(&case, scenario, step, ours, theirs, difference.as_ref(), reason.as_deref())?;
                if options.record.is_some() && golden::is_kept(scenario, step) {
                    let _ = writeln!(lines, "{}", golden::line(&case, scenario, step, theirs));
                }
            }
        }
        Ok(())
    })?;
    if let Some(path) = &options.record {
        let written = std::fs::File::create(path).and_then(|mut file| file.write_all(lines.as_bytes()));
        written.map_err(|source| DiffError::Write { path: path.clone(), source })?;
        println!(
            "recorded {} answers in {} ({} KiB)",
            lines.lines().count(),
            path.display(),
            lines.len() >> 10
        );
    }
    // Of a part of the cases one cannot say what never matches.
    let whole = options.only.is_empty() && options.cases.is_none() && options.crds.is_none();
    let idle: Vec<String> = if whole { explained.idle().collect() } else { Vec::new() };
    match report.end(&idle)? {
        0 => Ok(()),
        count => Err(DiffError::Different(count)),
    }
}

fn chosen(options: &Options) -> Result<Vec<Scenario>, DiffError> {
    let mut scenarios = match (&options.cases, &options.crds) {
        _ if options.admission => generate::admission::all(),
        (Some(path), _) => written::read(&read(path)?)?,
        (None, Some(folder)) => published::scenarios(folder)?,
        (None, None) => generate::all(&Catalog::builtin()),
    };
    if !options.only.is_empty() {
        let wanted = |scenario: &Scenario| {
            options.only.iter().any(|only| {
                scenario.resource == *only
                    || scenario.resource.ends_with(&format!(" {only}"))
                    || fits(only, &scenario.name)
            })
        };
        scenarios.retain(wanted);
        if scenarios.is_empty() {
            return Err(DiffError::Nothing(options.only.join(", ")));
        }
    }
    Ok(scenarios)
}

fn read(path: &Path) -> Result<String, DiffError> {
    std::fs::read_to_string(path).map_err(|source| DiffError::Read { path: path.to_path_buf(), source })
}

fn next(receiver: &Receiver<Played>) -> Played {
    receiver.recv().unwrap_or(Err(DiffError::Panicked))
}

/// The webhooks of one server under test.
struct Asked {
    server: WebhookServer,
    webhook: Arc<Webhook>,
}

impl Asked {
    fn start(admission: bool) -> Result<Option<Asked>, DiffError> {
        if !admission {
            return Ok(None);
        }
        let webhook = Arc::new(Webhook::default());
        let answers = webhook.clone();
        let server = WebhookServer::start(Arc::new(move |path, body| answers.answer(path, body)))?;
        Ok(Some(Asked { server, webhook }))
    }
}

fn speak(server: &mut Server, scenario: &Scenario, run: &str, keep: bool, asked: Option<&Asked>) -> Played {
    let mut player = Player::new(scenario, run);
    if let Some(asked) = asked {
        player = player.with_webhooks(asked.server.url(), asked.server.ca_bundle());
    }
    for request in player.prepare() {
        server.ask(&request)?;
    }
    let mut outcomes = Vec::with_capacity(scenario.steps.len());
    while player.next().is_some() {
        if let Some(look) = player.refresh() {
            let answer = server.ask(&look)?;
            player.refreshed(&answer);
        }
        let Some((step, request)) = player.next() else { break };
        if let Some(asked) = asked {
            // kube-apiserver begins with what its cache has, and asks again if that is old: it has this long to follow.
            std::thread::sleep(FOLLOWED);
            asked.webhook.take();
        }
        let answer = server.ask(&request)?;
        let calls = asked.map(|asked| asked.webhook.take()).unwrap_or_default();
        match player.answer(&request, &answer) {
            Some(mut outcome) => {
                outcome.calls = player.called(step, &request, calls);
                outcomes.push(outcome);
            }
            None => std::thread::sleep(AGAIN),
        }
        if player.settles(&request, &answer) {
            std::thread::sleep(SETTLED);
        }
    }
    if !keep {
        server.ask(&player.clean_up())?;
    }
    Ok(outcomes)
}

/// A word no other run has: what it begins with keeps it a DNS label.
pub fn run_word() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_micros() as u64);
    let mut number = now;
    let mut word = String::from("df");
    for _ in 0..7 {
        word.push(char::from(b"bcdfghjklmnpqrstvwxz2456"[(number % 24) as usize]));
        number /= 24;
    }
    word
}
