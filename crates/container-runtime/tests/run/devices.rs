//! Devices that are described by CDI.

use cri::*;

use crate::Test;
use crate::node::{Node, container};

pub const TESTS: &[Test] =
    &[("a_cdi_device_is_a_node_a_mount_and_variables", a_cdi_device_is_a_node_a_mount_and_variables)];

fn a_cdi_device_is_a_node_a_mount_and_variables() {
    let node = Node::new();
    let folder = node.directory.path();
    let library = folder.join("library");
    std::fs::create_dir(&library).unwrap();
    std::fs::write(library.join("driver"), "of the machine").unwrap();
    // A number of nobody's: who may open it learns so, and others that they may not.
    let odd = folder.join("odd");
    let number = rustix::fs::makedev(60, 1);
    let (kind, mode) = (rustix::fs::FileType::CharacterDevice, rustix::fs::Mode::from_raw_mode(0o666));
    rustix::fs::mknodat(rustix::fs::CWD, &odd, kind, mode, number).unwrap();
    let cdi = folder.join("cdi");
    std::fs::create_dir(&cdi).unwrap();
    let spec = format!(
        "cdiVersion: 0.6.0
kind: example.com/thing
containerEdits: {{env: [THINGS=all]}}
devices:
- name: zero
  containerEdits:
    deviceNodes: [{{path: /dev/thing0, hostPath: /dev/zero, permissions: rw}}]
    mounts: [{{hostPath: {library}, containerPath: /lib/thing, options: [ro, nosuid, nodev, bind]}}]
    env: [THING=zero]
    additionalGids: [4321]
- name: odd
  containerEdits: {{deviceNodes: [{{path: /dev/odd, hostPath: {odd}, permissions: r}}]}}
",
        library = library.display(),
        odd = odd.display()
    );
    std::fs::write(cdi.join("thing.yaml"), spec).unwrap();
    let sandbox = node.run(node.sandbox_config("web"));
    let with = |name: &str, script: &str, devices: &[&str]| ContainerConfig {
        cdi_devices: devices.iter().map(|name| CDIDevice { name: (*name).to_owned() }).collect(),
        ..container(name, &format!("{{ {script}; }} 2>&1"))
    };
    let script = "head -c 4 /dev/thing0 | wc -c; ls -l /dev/thing0 | tr -s ' ' | cut -d' ' -f1,5,6; \
                  cat /lib/thing/driver; echo; (: > /lib/thing/x); echo $THINGS $THING; grep Groups /proc/self/status";
    let (_, log) = node.output(&sandbox, with("zero", script, &["example.com/thing=zero"]));
    let expected = [
        "4",
        "crw-rw-rw- 1, 5",
        "of the machine",
        "/bin/sh: can't create /lib/thing/x: Read-only file system",
        "all zero",
    ];
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines[..expected.len()], expected, "{log}");
    assert!(lines[expected.len()].contains(" 4321"), "{log}");
    // Both, and what holds for all of them once; one may be read and not written.
    let both = ["example.com/thing=odd", "example.com/thing=zero"];
    let script = "(: < /dev/odd); (: > /dev/odd); echo $THINGS $THING";
    let (_, log) = node.output(&sandbox, with("both", script, &both));
    let expected = "/bin/sh: can't open /dev/odd: No such device or address\n\
                    /bin/sh: can't create /dev/odd: Operation not permitted\nall zero\n";
    assert_eq!(log, expected);
    // Nobody else has it.
    let (_, log) = node.output(&sandbox, with("none", "ls /dev/thing0 /lib/thing; echo [$THINGS]", &[]));
    assert!(log.contains("/dev/thing0: No such file") && log.ends_with("[]\n"), "{log}");
    let error = node.create(&sandbox, with("unknown", "true", &["example.com/thing=one"])).unwrap_err();
    assert_eq!(error.message, "CDI device injection failed: unresolvable CDI devices example.com/thing=one");
}
