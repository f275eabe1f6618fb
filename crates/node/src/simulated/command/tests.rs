//! Commands and how they end.

use super::*;

fn end(command: &[&str]) -> Option<(i64, i32)> {
    let words: Vec<String> = command.iter().map(|w| (*w).to_owned()).collect();
    let mut files = std::collections::BTreeSet::new();
    run_in(&words, &mut files).end.map(|end| (end.after_millis, end.code))
}

fn run_in(words: &[String], files: &mut std::collections::BTreeSet<String>) -> Run {
    let variable = |name: &str| match name {
        "INDEX" => "3".to_owned(),
        "AGAIN" => "sh -c \"$AGAIN\"; sh -c \"$AGAIN\"".to_owned(),
        _ => String::new(),
    };
    run(words, &mut World::new(&variable, &|path| format!("here:{path}"), files))
}

fn shell(script: &str, files: &mut std::collections::BTreeSet<String>) -> Run {
    run_in(&["sh".to_owned(), "-c".to_owned(), script.to_owned()], files)
}

#[test]
fn a_script_finds_what_it_touched() {
    let once =
        "\nif [[ -r /data/foo-$INDEX ]]\nthen\n exit 0\nelse\n touch /data/foo-${INDEX}\n exit 42\nfi\n";
    let mut files = std::collections::BTreeSet::new();
    for code in [42, 0, 0] {
        assert_eq!(shell(once, &mut files).end, Some(End { after_millis: 0, code }));
    }
    assert_eq!(files.into_iter().collect::<Vec<_>>(), ["here:/data/foo-3"]);
}

#[test]
fn conditions_choose_a_branch() {
    for (script, code) in [
        ("if [ $(expr ${INDEX} % 2) -ne 0 ]; then exit 1; else exit 0; fi", 1),
        ("if [ $(expr $INDEX + 1) -eq 4 ]; then exit 5; fi; exit 6", 5),
        ("if [ \"$INDEX\" = 4 ]; then exit 5; fi; exit 6", 6),
        ("if [ '$INDEX' != 3 ]; then exit 5; fi", 5),
        ("if [ -z \"$NONE\" ]; then if false; then exit 1; else exit 2; fi; fi; exit 3", 2),
        ("if ! true; then exit 1; fi", 0),
        ("[ $INDEX -gt 2 ] && exit 9", 9),
        ("test -n x || exit 9", 0),
        ("f(){\n exit 7\n}\nf\nexit 8", 7),
        ("f() {\n true\n}\nf && exit 8", 8),
    ] {
        let end = shell(script, &mut std::collections::BTreeSet::new()).end;
        assert_eq!(end, Some(End { after_millis: 0, code }), "{script}");
    }
}

#[test]
fn a_trap_says_how_a_container_stops() {
    let mut files = std::collections::BTreeSet::new();
    let waits = "_term(){\n\tsleep 5\n\texit 143\n}\ntrap _term SIGTERM\nwhile true; do\n\tsleep 1\ndone";
    let run = shell(waits, &mut files);
    assert_eq!(run, Run { end: None, on_term: Some(End { after_millis: 5000, code: 143 }) });
    let run = shell("trap 'exit 0' TERM; sleep 600", &mut files);
    assert_eq!(run.on_term, Some(End { after_millis: 0, code: 0 }));
    assert_eq!(run.end, Some(End { after_millis: 600_000, code: 0 }));
    assert_eq!(shell("trap 'echo bye' EXIT; sleep 600", &mut files).on_term, None);
}

#[test]
fn no_script_is_followed_for_ever() {
    let mut files = std::collections::BTreeSet::new();
    assert_eq!(shell("f(){\n f\n}\nf", &mut files).end, None);
    assert_eq!(shell("sh -c \"$AGAIN\"", &mut files).end, None);
    for broken in [
        "if true",
        "if true; then",
        "f(){",
        "if",
        "if true; then exit 0; elif true; then exit 1; fi",
        "$(",
        "exit ${",
    ] {
        shell(broken, &mut files);
    }
    shell(&"if true; then ".repeat(2000), &mut files);
    shell(&"touch a; ".repeat(5000), &mut files);
}

#[test]
fn plain_commands_end_as_they_say() {
    for (command, want) in [
        (&["true"][..], Some((0, 0))),
        (&["/bin/false"], Some((0, 1))),
        (&["exit", "3"], Some((0, 3))),
        (&["sleep", "5"], Some((5000, 0))),
        (&["sleep", "0.5"], Some((500, 0))),
        (&["/bin/sleep", "2m"], Some((120_000, 0))),
        (&["sleep", "infinity"], None),
        (&["sleep", "abc"], Some((0, 1))),
        (&["nginx", "-g", "daemon off;"], None),
        (&["echo", "hi"], Some((0, 0))),
        (&[], None),
    ] {
        assert_eq!(end(command), want, "{command:?}");
    }
}

#[test]
fn scripts_are_followed_command_by_command() {
    for (script, want) in [
        ("exit 0", Some((0, 0))),
        ("exit 1", Some((0, 1))),
        ("sleep 5; exit 1", Some((5000, 1))),
        ("sleep 1 && sleep 2 && exit 4", Some((3000, 4))),
        ("false || exit 7", Some((0, 7))),
        ("true || exit 7", Some((0, 0))),
        ("false && exit 7", Some((0, 1))),
        ("false; exit", Some((0, 1))),
        ("echo 'a; exit 9'; exit 2", Some((0, 2))),
        ("echo a\nsleep 1\nexit 300", Some((1000, 44))),
        ("while true; do sleep 1; done", None),
        ("exec sleep 3", Some((3000, 0))),
        ("./server --port 80", None),
        ("", Some((0, 0))),
    ] {
        assert_eq!(end(&["sh", "-c", script]), want, "{script}");
    }
    assert_eq!(end(&["/bin/bash", "-ec", "exit 5"]), Some((0, 5)));
    assert_eq!(end(&["sh", "-e", "-c", "exit 6"]), Some((0, 6)));
    assert_eq!(end(&["sh"]), None);
}

#[test]
fn scripts_made_to_grow_stay_small() {
    let negations = "! ".repeat(50_001);
    assert_eq!(end(&["sh", "-c", &format!("{negations}true")]), Some((0, 1)));
    assert_eq!(end(&["sh", "-c", &format!("[ {negations}-n x ]")]), Some((0, 1)));
    assert_eq!(end(&["sh", "-c", &"then ".repeat(100_000)]), None);
    // Each of the variables is longer than a word may grow.
    let words = vec!["sh".to_owned(), "-c".to_owned(), format!("echo {}", "$LONG".repeat(100_000))];
    let long = |_: &str| "x".repeat(1 << 20);
    let mut files = std::collections::BTreeSet::new();
    let run = run(&words, &mut World::new(&long, &str::to_owned, &mut files));
    assert_eq!(run.end, Some(End { after_millis: 0, code: 0 }));
}

#[test]
fn command_and_arguments_are_one() {
    let container =
        codec::json::parse(br#"{"command":["sh","-c"],"args":["sleep 2; false"]}"#, None).unwrap();
    let (nothing, mut files) = (|_: &str| String::new(), std::collections::BTreeSet::new());
    let run = run_of(&container, &mut World::new(&nothing, &nothing, &mut files));
    assert_eq!(run.end, Some(End { after_millis: 2000, code: 1 }));
}

#[test]
fn servers_are_known_by_their_command_or_their_image() {
    for (container, serves_on) in [
        (r#"{"image":"registry.k8s.io/pause:3.10"}"#, true),
        (r#"{"image":"registry.k8s.io/e2e-test-images/agnhost:2.53","args":["netexec"]}"#, true),
        (r#"{"image":"agnhost","command":["/agnhost","serve-hostname"]}"#, true),
        (r#"{"image":"agnhost"}"#, true),
        (r#"{"image":"x","command":["sleep","infinity"]}"#, true),
        (r#"{"image":"x","command":["sh","-c","while true; do date; done"]}"#, true),
        (r#"{"image":"agnhost","args":["pi-digits"]}"#, false),
        (r#"{"image":"perl","command":["perl","-Mbignum=bpi","-wle","print bpi(2000)"]}"#, false),
        (r#"{"image":"library/hello-world"}"#, false),
        ("{}", false),
    ] {
        let tree = codec::json::parse(container.as_bytes(), None).expect("JSON");
        assert_eq!(serves(&tree), serves_on, "{container}");
    }
}
