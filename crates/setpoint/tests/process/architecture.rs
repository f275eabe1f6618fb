//! The order of the crates: what ARCHITECTURE.md and the workspace's manifest say of it is what the crates' own manifests do.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The project's root.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn crates() -> BTreeSet<String> {
    let folders = fs::read_dir(root().join("crates")).unwrap();
    folders.map(|folder| folder.unwrap().file_name().into_string().unwrap()).collect()
}

/// The first word of each line between two markers.
fn listed(file: &str, from: &str, to: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(file)).unwrap();
    let list = text.split_once(from).unwrap().1.split_once(to).unwrap().0;
    list.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// What a crate depends on, of this project; what only its tests need does not count.
fn dependencies(name: &str, crates: &BTreeSet<String>) -> Vec<String> {
    let manifest = fs::read_to_string(root().join("crates").join(name).join("Cargo.toml")).unwrap();
    let Some((_, rest)) = manifest.split_once("[dependencies]\n") else { return Vec::new() };
    let section = rest.split("\n[").next().unwrap();
    let names = section.lines().filter_map(|line| line.split(['.', ' ', '=']).next());
    names.filter(|name| crates.contains(*name)).map(str::to_owned).collect()
}

fn assert_ordered(list: &[String], crates: &BTreeSet<String>, file: &str) {
    for (at, name) in list.iter().enumerate() {
        for dependency in dependencies(name, crates) {
            let above = list[..at].contains(&dependency);
            assert!(above, "{file}: {name} depends on {dependency}, which must stand above it");
        }
    }
}

#[test]
fn crates_depend_only_on_crates_above_them() {
    let crates = crates();
    let documented = listed("ARCHITECTURE.md", "## Crates, from the bottom up", "## The path of a write");
    let documented: Vec<String> = documented.into_iter().filter(|word| crates.contains(word)).collect();
    assert_eq!(
        documented.iter().cloned().collect::<BTreeSet<_>>(),
        crates,
        "ARCHITECTURE.md lists every crate"
    );
    assert_eq!(documented.len(), crates.len(), "each once");
    assert_ordered(&documented, &crates, "ARCHITECTURE.md");

    let workspace = listed("Cargo.toml", "# Our own crates", "# Others'");
    let workspace: Vec<String> = workspace.into_iter().filter(|word| crates.contains(word)).collect();
    assert_ordered(&workspace, &crates, "Cargo.toml");
}
