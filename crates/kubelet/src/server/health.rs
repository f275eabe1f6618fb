//! `/healthz`: one check, or all of them.

use http::StatusCode;

use super::answer::{self, Answer};
use super::query::Query;
use super::{Context, Node};

const CHECKS: [&str; 3] = ["ping", "log", "syncloop"];

/// `log` is upstream's check that its log can be written; ours never blocks.
fn check(node: &dyn Node, name: &str) -> Result<(), String> {
    match name {
        "syncloop" => node.sync_loop(),
        _ => Ok(()),
    }
}

pub fn one(context: &Context, name: &str) -> Answer {
    match check(&*context.node, name) {
        Ok(()) => answer::text(StatusCode::OK, "ok"),
        Err(why) => {
            answer::error(StatusCode::INTERNAL_SERVER_ERROR, &format!("internal server error: {why}"))
        }
    }
}

pub fn all(context: &Context, query: &Query) -> Answer {
    let excluded: Vec<&str> = query.all("exclude").collect();
    let mut lines = String::new();
    let mut failed = false;
    for name in CHECKS {
        if excluded.contains(&name) {
            lines += &format!("[+]{name} excluded: ok\n");
            continue;
        }
        match check(&*context.node, name) {
            Ok(()) => lines += &format!("[+]{name} ok\n"),
            Err(why) => {
                tracing::warn!(check = name, why, "health check failed");
                // Whoever may see the reason asks for the check itself.
                lines += &format!("[-]{name} failed: reason withheld\n");
                failed = true;
            }
        }
    }
    let mut unknown: Vec<&str> = excluded.into_iter().filter(|name| !CHECKS.contains(name)).collect();
    unknown.sort_unstable();
    unknown.dedup();
    if !unknown.is_empty() {
        let quoted: Vec<String> = unknown.iter().map(|name| format!("{name:?}")).collect();
        let quoted = quoted.join(",");
        lines += &format!("warn: some health checks cannot be excluded: no matches for {quoted}\n");
    }
    if failed {
        return answer::error(StatusCode::INTERNAL_SERVER_ERROR, &format!("{lines}healthz check failed"));
    }
    if query.get("verbose").is_none() {
        return answer::plain_ok("ok");
    }
    answer::plain_ok(format!("{lines}healthz check passed\n"))
}

/// `/metrics/slis`: the checks as gauges.
pub fn metrics(context: &Context) -> Answer {
    let mut out = String::new();
    let name = "kubernetes_healthcheck";
    metrics::header(
        &mut out,
        name,
        "gauge",
        "[STABLE] This metric records the result of a single healthcheck.",
    );
    for check_name in CHECKS {
        let value = u8::from(check(&*context.node, check_name).is_ok());
        out += &format!("{name}{{name=\"{check_name}\",type=\"healthz\"}} {value}\n");
    }
    answer::metrics(out)
}
