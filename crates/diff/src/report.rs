//! The report: progress, the first differences, a table by resource.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use crate::case::{Scenario, Step, text_of};
use crate::compare::Difference;
use crate::error::DiffError;
use crate::play::Outcome;

/// Bodies are truncated to this on the terminal.
const SHOWN_BODY: usize = 600;

#[derive(Default)]
struct Count {
    cases: usize,
    explained: usize,
    different: usize,
}

pub struct Report {
    shown: usize,
    details: Option<(PathBuf, BufWriter<File>)>,
    /// In the order they came, by resource.
    order: Vec<String>,
    counts: BTreeMap<String, Count>,
    different: usize,
}

impl Report {
    pub fn new(shown: usize, details: Option<&Path>) -> Result<Report, DiffError> {
        let open = |path: &Path| {
            let file =
                File::create(path).map_err(|source| DiffError::Write { path: path.to_path_buf(), source })?;
            Ok::<_, DiffError>((path.to_path_buf(), BufWriter::new(file)))
        };
        let details = details.map(open).transpose()?;
        Ok(Report { shown, details, order: Vec::new(), counts: BTreeMap::new(), different: 0 })
    }

    pub fn begin(&mut self, scenario: &Scenario) {
        if !self.order.contains(&scenario.resource) {
            self.order.push(scenario.resource.clone());
        }
        if std::io::stderr().is_terminal() {
            eprint!("\r\x1b[K{} ({} different so far)", scenario.name, self.different);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one case and all that is known of it")]
    pub fn case(
        &mut self,
        case: &str,
        scenario: &Scenario,
        step: &Step,
        ours: &Outcome,
        theirs: &Outcome,
        difference: Option<&Difference>,
        reason: Option<&str>,
    ) -> Result<(), DiffError> {
        let count = self.counts.entry(scenario.resource.clone()).or_default();
        count.cases += 1;
        let Some(difference) = difference else { return Ok(()) };
        if reason.is_some() {
            count.explained += 1;
            return Ok(());
        }
        count.different += 1;
        self.different += 1;
        if self.different <= self.shown {
            clear_progress();
            println!("{}", described(case, step, ours, theirs, difference, SHOWN_BODY));
        }
        if let Some((path, file)) = &mut self.details {
            let text = described(case, step, ours, theirs, difference, usize::MAX);
            writeln!(file, "{text}").map_err(|source| DiffError::Write { path: path.clone(), source })?;
        }
        Ok(())
    }

    /// Prints the summary; returns the number of unexplained differences and unused explanations.
    pub fn end(mut self, idle: &[String]) -> Result<usize, DiffError> {
        clear_progress();
        println!("{:<64} {:>8} {:>10} {:>10}", "RESOURCE", "CASES", "EXPLAINED", "DIFFERENT");
        let mut total = Count::default();
        for resource in &self.order {
            let count = self.counts.entry(resource.clone()).or_default();
            println!("{resource:<64} {:>8} {:>10} {:>10}", count.cases, count.explained, count.different);
            total.cases += count.cases;
            total.explained += count.explained;
            total.different += count.different;
        }
        println!("{:<64} {:>8} {:>10} {:>10}", "all", total.cases, total.explained, total.different);
        for line in idle {
            println!("unused explanation, remove it from the list: {line}");
        }
        if let Some((path, mut file)) = self.details {
            file.flush().map_err(|source| DiffError::Write { path: path.clone(), source })?;
            println!("all differences: {}", path.display());
        } else if total.different > self.shown {
            println!(
                "{} more differences not shown; write all of them with --details FILE",
                total.different - self.shown
            );
        }
        Ok(total.different + idle.len())
    }
}

fn clear_progress() {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
}

fn described(
    case: &str,
    step: &Step,
    ours: &Outcome,
    theirs: &Outcome,
    difference: &Difference,
    longest: usize,
) -> String {
    let mut text = format!("CASE   {case}\n       {} {}", step.method, step.path);
    if let Some(content_type) = &step.content_type {
        text.push_str(&format!("\n       {content_type}"));
    }
    if let Some(accept) = &step.accept {
        text.push_str(&format!("\n       accept {accept}"));
    }
    if let Some(body) = &step.body {
        text.push_str(&format!("\n       {}", cut(body, longest)));
    }
    text.push_str(&format!(
        "\nFIELD  {}\n ours   {}\n theirs {}",
        difference.place,
        cut(&difference.ours, longest),
        cut(&difference.theirs, longest)
    ));
    for (who, outcome) in [("OURS", ours), ("THEIRS", theirs)] {
        text.push_str(&format!("\n{who:<6} {} {}", outcome.status, cut(&text_of(&outcome.body), longest)));
        if !outcome.calls.is_empty() {
            text.push_str(&format!("\n       asked {}", crate::webhook::names(&outcome.calls)));
        }
        for warning in &outcome.warnings {
            text.push_str(&format!("\n       Warning: {}", cut(warning, longest)));
        }
    }
    text.push('\n');
    text
}

fn cut(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}
