//! Whatever a pod, a registry or a file says: no parser panics, and a name that was understood is understood the same again.

use std::path::Path;

use env::Env;

use crate::keyring::Keyring;
use crate::reference::Reference;
use crate::{digest, hosts, manifest, registry, store};

/// Texts made of the pieces that mean something somewhere.
fn text(env: &Env) -> String {
    const PIECES: [&str; 44] = [
        "a",
        "B",
        "0",
        "ü",
        " ",
        ".",
        "..",
        "/",
        "//",
        ":",
        "@",
        "-",
        "_",
        "__",
        "[",
        "]",
        "::1",
        "localhost",
        "docker.io",
        "sha256:",
        "sha512:",
        "latest",
        "5000",
        "\"",
        "\\",
        "=",
        ",",
        "{",
        "}",
        "null",
        "[]",
        "\n",
        "\0",
        "%2f",
        "?",
        "#",
        "*",
        "http://",
        "https://",
        "Bearer ",
        "realm=",
        "host",
        "[host.\"x\"]\n",
        "\"auths\":",
    ];
    const SHA: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let mut text = String::new();
    for _ in 0..env.random_below(12) {
        let at = env.random_below(PIECES.len() as u64 + 1) as usize;
        text.push_str(PIECES.get(at).unwrap_or(&SHA));
    }
    text
}

#[tokio::test(start_paused = true)]
async fn no_text_breaks_a_parser() {
    let seed = Env::machine().random();
    eprintln!("seed {seed}");
    let env = Env::simulated(seed);
    let mut understood = 0;
    for _ in 0..50_000 {
        let (one, two) = (text(&env), text(&env));
        if let Ok(reference) = Reference::parse(&one) {
            understood += 1;
            assert_eq!(Reference::parse(&reference.to_string()).as_ref(), Ok(&reference), "{one:?}");
        }
        let _ = one.parse::<digest::Digest>();
        let _ = hosts::parse(&one, Path::new("/"), &two);
        let _ = hosts::endpoints(&[Path::new("/nowhere").to_owned()], &one);
        let _ = manifest::parse(one.as_bytes(), &two);
        let _ = store::parse_config(one.as_bytes());
        registry::hostile(&one, &two);
        let mut ring = Keyring::default();
        let entry = serde_json::json!({ "auths": {(one.as_str()): {"auth": two}, (two.as_str()): {"username": "u"}} });
        let _ = ring.add_config_json(entry.to_string().as_bytes(), None);
        let _ = ring.add_dockercfg(one.as_bytes(), None);
        let _ = ring.find(&two);
    }
    assert!(understood > 100, "{understood}: the texts are too wild to say anything");
}
