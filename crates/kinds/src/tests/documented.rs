//! docs/kinds.md says of every kind what there is and which recorded answers show it; here that is made from the truth.
//!
//! `KINDS_DOC=write cargo test -p kinds documented` writes the table anew.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use catalog::{Catalog, Resource};

use crate::kind_of_resource;

const BEGIN: &str = "<!-- made by kinds/src/tests/documented.rs -->\n";

/// What validation leaves out, by resource; of the others everything is validated.
const NOT_VALIDATED: [(&str, &str); 7] = [
    ("validatingadmissionpolicies", "JSONPath of warnings in the status"),
    ("certificatesigningrequests", "P-521 and RSA-PSS signatures"),
    ("resourceclaims", "admin access"),
    ("resourceclaimtemplates", "admin access"),
    ("selfsubjectreviews", "nothing to validate"),
    ("componentstatuses", "read only"),
    ("bindings", "as pods/binding"),
];

/// Bodies of subresources: kind, test file, what of it shows the kind.
const BODIES: [(&str, &str, &str); 4] = [
    ("Binding", "testkit/tests/api/subresources.rs", "/binding"),
    ("Eviction", "testkit/tests/api/subresources.rs", "/eviction"),
    ("Scale", "testkit/tests/api/sweep.rs", "/scale"),
    ("TokenRequest", "testkit/tests/api/identity.rs", "TokenRequest"),
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(name: &str) -> String {
    let path = crates().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The recorded answers, read once.
struct Recorded {
    defaults: String,
    refusals: String,
    columns: String,
    cells: String,
    answers: String,
    cases: String,
}

impl Recorded {
    fn read() -> Recorded {
        let golden = |name: &str| read(&format!("kinds/tests/golden/{name}"));
        Recorded {
            defaults: golden("defaults.jsonl"),
            refusals: golden("refusals.jsonl") + &golden("refusals_random.jsonl"),
            columns: golden("columns.tsv"),
            cells: golden("cells.jsonl") + &golden("cells_random.jsonl"),
            answers: read("diff/golden/answers.jsonl"),
            cases: read("diff/data/cases.jsonl"),
        }
    }

    /// Which of them speak of a resource.
    fn of(&self, resource: &Resource) -> Vec<&'static str> {
        let (version, plural) = (resource.api_version(), &resource.plural);
        let group = if resource.group.is_empty() { "core" } else { &resource.group };
        let has = |text: &str, needle: String| text.contains(&needle);
        let path = |text: &str| {
            text.lines().any(|line| {
                let path =
                    line.split("\"path\"").nth(1).unwrap_or_default().split(',').next().unwrap_or_default();
                path.contains(&format!("/{version}/")) && path.contains(&format!("/{plural}"))
            })
        };
        let case = |what: &str| has(&self.answers, format!("\"case\":\"{version} {plural} {what} / "));
        let all = [
            ("defaults", has(&self.defaults, format!("\"kind\":\"{version}/{}\"", resource.kind))),
            ("refusals", path(&self.refusals)),
            ("columns", has(&self.columns, format!("\n{group}\t{}\t{plural}\t", resource.version))),
            ("cells", has(&self.cells, format!("\"resource\":\"{plural}\""))),
            ("life", case("life")),
            ("fields", case("fields")),
            ("leaves", case("leaves")),
            ("rich", case("rich leaves")),
            ("cases", path(&self.cases)),
        ];
        all.into_iter().filter_map(|(word, there)| there.then_some(word)).collect()
    }
}

/// What writes go through: the row of `list.rs` and what it names.
fn strategy(rows: &str, plural: &str) -> String {
    let row = rows
        .lines()
        .find(|line| line.trim_start().starts_with('(') && line.contains(&format!(" \"{plural}\", &")));
    let row = row.unwrap_or_else(|| panic!("no row for {plural} in list.rs"));
    let named = row.split('&').nth(1).and_then(|rest| rest.trim_end_matches("),").split_once("::"));
    let Some((file, name)) = named else { return "generic".to_owned() };
    let code = read(&format!("kinds/src/{file}.rs"));
    let ty = code.split_once(&format!("static {name}: ")).map(|(_, rest)| rest);
    let ty = ty.unwrap_or_else(|| panic!("kinds/src/{file}.rs has no {name}"));
    let of_its_own = if ty.starts_with("GenericKind ") { "generic, checks in" } else { "own," };
    format!("{of_its_own} `{file}`")
}

fn table() -> String {
    let catalog = Catalog::builtin();
    let recorded = Recorded::read();
    let mut out = String::from(BEGIN);
    let rows = read("kinds/src/list.rs");
    out.push_str("| group and version | resource | strategy | defaults | not validated | columns | stored as | recorded |\n|---|---|---|---|---|---|---|---|\n");
    let mut resources: Vec<&Resource> = catalog.resources().iter().map(|resource| &**resource).collect();
    resources.sort_by_key(|r| (r.api_version(), r.plural.clone()));
    for resource in resources {
        let stored = match resource.storage.as_deref() {
            None => "not stored".to_owned(),
            Some(s) if s.group == resource.group && s.version == resource.version => String::new(),
            Some(s) => format!("{} {}", s.api_version(), s.plural),
        };
        let stored_plural = resource.storage.as_ref().map(|storage| storage.plural.to_string());
        let strategy = stored_plural.map_or("none".to_owned(), |plural| strategy(&rows, &plural));
        let left =
            NOT_VALIDATED.iter().find(|(plural, _)| resource.plural == *plural).map_or("", |(_, left)| left);
        let kind = kind_of_resource(resource);
        let _ = writeln!(
            out,
            "| {} | {} | {strategy} | {} | {left} | {} | {stored} | {} |",
            resource.api_version(),
            resource.plural,
            if kind.defaults(&resource.version).is_some() { "yes" } else { "none" },
            if kind.printer(&resource.version).is_generic() { "generic" } else { "own" },
            recorded.of(resource).join(" "),
        );
    }
    out.push_str("\n| body of a subresource | served at | shown by |\n|---|---|---|\n");
    for (kind, file, _) in BODIES {
        let at: Vec<String> = catalog
            .resources()
            .iter()
            .flat_map(|r| {
                r.subresources.iter().filter(|s| s.kind == *kind).map(|s| format!("{}/{}", r.plural, s.name))
            })
            .collect();
        let _ = writeln!(out, "| {kind} | {} | {file} |", at.join(", "));
    }
    out
}

#[test]
fn every_kind_is_documented_with_what_shows_it() {
    let doc = crates().join("../docs/kinds.md");
    let text = std::fs::read_to_string(&doc).unwrap();
    let (head, written) = text.split_once(BEGIN).expect("docs/kinds.md has the table's mark");
    let table = table();
    if std::env::var("KINDS_DOC").is_ok_and(|mode| mode == "write") {
        return std::fs::write(&doc, format!("{head}{table}")).unwrap();
    }
    let written = format!("{BEGIN}{written}");
    for (ours, theirs) in table.lines().zip(written.lines()) {
        assert_eq!(theirs, ours, "docs/kinds.md is stale: KINDS_DOC=write cargo test -p kinds documented");
    }
    assert_eq!(table.lines().count(), written.lines().count(), "rows of docs/kinds.md");
}

#[test]
fn every_kind_has_recorded_answers_and_every_body_a_test() {
    let catalog = Catalog::builtin();
    let recorded = Recorded::read();
    for resource in catalog.resources() {
        let shown = recorded.of(resource);
        let needed = if resource.storage.is_some() { "life" } else { "cases" };
        assert!(shown.contains(&needed), "{} {}: only {shown:?}", resource.api_version(), resource.plural);
    }
    for (kind, file, needle) in BODIES {
        assert!(read(file).contains(needle), "{file} says nothing of {kind}");
    }
    // Bodies that only open a connection have nothing to default or validate.
    let bodies = catalog.resources().iter().flat_map(|r| r.subresources.iter().map(move |s| (r, s)));
    for (resource, sub) in bodies.filter(|(r, s)| s.kind != r.kind && !s.kind.ends_with("Options")) {
        let known = BODIES.iter().any(|(kind, ..)| sub.kind == *kind);
        assert!(known, "{}/{} takes a {}", resource.plural, sub.name, sub.kind);
    }
    for (plural, _) in NOT_VALIDATED {
        assert!(catalog.resources().iter().any(|r| r.plural == *plural), "no {plural}");
    }
}
