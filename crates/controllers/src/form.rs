//! The form of every controller: a folder with a pure `plan.rs`, looked for in the source itself.

use std::path::Path;

use super::CONTROLLERS;

fn source() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let rust = files
        .filter(|path| path.extension().is_some_and(|ending| ending == "rs") && !path.ends_with("form.rs"));
    let mut all: Vec<(String, String)> = rust
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    all.sort();
    all
}

fn plan_of(name: &str) -> Option<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    std::fs::read_to_string(folder.join(name).join("plan.rs")).ok()
}

#[test]
fn every_controller_is_a_folder_with_a_plan_and_shows_it() {
    let starts = |text: &str| text.contains("fn start(context: &Context)");
    // Another name for a controller that has one.
    let borrows = |text: &str| text.contains("start_kind(context");
    let controllers: Vec<(String, String)> = source().into_iter().filter(|(_, text)| starts(text)).collect();
    assert_eq!(controllers.len(), CONTROLLERS.len(), "a row for every controller");
    for (name, text) in
        controllers.iter().filter(|(_, text)| !borrows(text) || text.contains("fn start_kind"))
    {
        assert!(plan_of(name).is_some(), "{name} has no {name}/plan.rs");
        let shows = |text: &str| text.contains(".plan(||");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(name);
        let mut parts = std::fs::read_dir(folder).unwrap().map(|part| part.unwrap().path());
        let shown =
            shows(text) || parts.any(|part| shows(&std::fs::read_to_string(part).unwrap_or_default()));
        assert!(shown, "{name} does not show its plan in /debug/controllers");
    }
}

#[test]
fn a_plan_has_no_client_and_no_await() {
    const FOREIGN: [&str; 8] =
        ["Client", "async ", ".await", "Informer", "Recorder", "Env", "Instant::now", "SystemTime"];
    for (name, plan) in source().iter().filter_map(|(name, _)| Some((name, plan_of(name)?))) {
        for word in FOREIGN {
            assert!(!plan.contains(word), "{name}/plan.rs says {word:?}: a plan is made of data only");
        }
    }
}
