//! The flags a command was started with, as a node's `/flagz` tells them.

use std::collections::BTreeMap;

use clap::ArgMatches;

/// Their values are nobody's business.
const SECRET: [&str; 1] = ["token"];

/// All that were given or have a default, by name.
pub fn of(matches: &ArgMatches) -> BTreeMap<String, String> {
    let value = |name: &str| {
        let words = matches.try_get_raw(name).ok().flatten()?;
        let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
        let is_secret = SECRET.contains(&name) && words.iter().any(|word| !word.is_empty());
        Some(if is_secret { "CLASSIFIED".to_owned() } else { words.join(",") })
    };
    let names = matches.ids().map(clap::Id::as_str);
    names.filter_map(|name| Some((name.to_owned(), value(name)?))).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn flags_are_told_without_secrets() {
        let words = ["node", "--token", "a.b", "--node-labels", "x=1,y=2", "--server=https://s"];
        let flags = super::of(&crate::node::command().try_get_matches_from(words).unwrap());
        let told = |name: &str| flags.get(name).map(String::as_str);
        assert_eq!(told("token"), Some("CLASSIFIED"));
        assert_eq!(told("node-labels"), Some("x=1,y=2"));
        assert_eq!((told("server"), told("bridge")), (Some("https://s"), Some("setpoint0")));
    }
}
