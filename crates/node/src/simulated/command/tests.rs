//! Commands and how they end.

use super::*;

fn end(command: &[&str]) -> Option<(i64, i32)> {
    let words: Vec<String> = command.iter().map(|w| (*w).to_owned()).collect();
    run(&words).map(|end| (end.after_millis, end.code))
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
fn command_and_arguments_are_one() {
    let container =
        codec::json::parse(br#"{"command":["sh","-c"],"args":["sleep 2; false"]}"#, None).unwrap();
    assert_eq!(end_of(&container), Some(End { after_millis: 2000, code: 1 }));
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
