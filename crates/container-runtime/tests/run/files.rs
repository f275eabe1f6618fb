//! What containers find in their file system.

use std::collections::BTreeSet;

use cri::*;

use crate::Test;
use crate::image::NAME;
use crate::node::{Node, container, secured};

pub const TESTS: &[Test] = &[
    ("mounts_are_as_asked", mounts_are_as_asked),
    ("bidirectional_propagation_needs_a_shared_mount", bidirectional_propagation_needs_a_shared_mount),
    ("devices_are_as_asked", devices_are_as_asked),
    ("a_root_is_like_the_images", a_root_is_like_the_images),
    ("a_part_of_an_image_is_a_volume", a_part_of_an_image_is_a_volume),
];

fn mounts_are_as_asked() {
    let node = Node::new();
    let sandbox = node.run(node.sandbox_config("web"));
    let host = |name: &str| node.directory.path().join(name).to_str().unwrap().to_owned();
    std::fs::create_dir(host("data")).unwrap();
    std::fs::write(host("hosts"), "127.0.0.1 given\n").unwrap();
    let mount = |container_path: &str, name: &str, readonly| Mount {
        container_path: container_path.to_owned(),
        host_path: host(name),
        readonly,
        ..Default::default()
    };
    let script = "cat /etc/hosts; touch /data/a && echo written; touch /ro/a || echo refused; ls -d /missing; \
                  cat /other/www/index.html; ls /other/www /www; touch /other/x || echo refused; cat /data/nested/file";
    let mut config = container("main", script);
    config.mounts = vec![
        mount("/data/nested", "nested", true),
        mount("/data", "data", false),
        Mount { recursive_read_only: true, ..mount("/ro", "data", true) },
        mount("/missing", "missing", false),
        mount("/etc/hosts", "hosts", true),
        Mount {
            container_path: "/other".to_owned(),
            image: Some(ImageSpec { image: NAME.to_owned(), ..Default::default() }),
            readonly: true,
            ..Default::default()
        },
    ];
    std::fs::create_dir(host("nested")).unwrap();
    std::fs::write(host("nested/file"), "nested\n").unwrap();
    let (code, log) = node.output(&sandbox, config.clone());
    let lines: Vec<&str> = log.lines().filter(|line| !line.starts_with("touch:")).collect();
    assert_eq!(
        lines,
        [
            "127.0.0.1 given",
            "written",
            "refused",
            "/missing",
            "from the pod",
            "/other/www:",
            "index.html",
            "",
            "/www:",
            "index.html",
            "refused",
            "nested"
        ],
        "{code} {log}"
    );
    assert!(std::path::Path::new(&host("missing")).is_dir());
    // A read-only root leaves what is mounted as it is.
    let mut config = secured(config, |context| context.readonly_rootfs = true);
    config.metadata.as_mut().unwrap().name = "readonly".to_owned();
    config.log_path = "readonly.log".to_owned();
    let script = "touch /data/b && echo written; touch /work/volume/x && echo kept; touch /x || echo refused";
    config.command = crate::node::shell(script);
    let config = secured(config, |context| context.run_as_user = Some(Int64Value { value: 1234 }));
    std::os::unix::fs::chown(host("data"), Some(1234), None).unwrap();
    let (_, log) = node.output(&sandbox, config);
    // What touch says comes by another stream, sooner or later.
    let lines: Vec<&str> = log.lines().filter(|line| !line.starts_with("touch:")).collect();
    assert_eq!(lines, ["written", "kept", "refused"], "{log}");
}

fn bidirectional_propagation_needs_a_shared_mount() {
    use rustix::mount::{MountPropagationFlags, mount_change};
    let node = Node::new();
    let sandbox = node.run(node.sandbox_config("web"));
    let disk = node.directory.path().join("disk");
    let inner = disk.join("inner");
    std::fs::create_dir(&disk).unwrap();
    container::mounts::tmpfs(&disk, None).unwrap();
    std::fs::create_dir(&inner).unwrap();
    mount_change(&disk, MountPropagationFlags::PRIVATE).unwrap();
    let mut config = secured(container("main", "mount -t tmpfs none /disk/inner"), |context| {
        context.privileged = true;
    });
    config.mounts = vec![Mount {
        container_path: "/disk".to_owned(),
        host_path: disk.to_str().unwrap().to_owned(),
        propagation: MountPropagation::Bidirectional.into(),
        ..Default::default()
    }];
    let refused = node.create(&sandbox, config.clone()).unwrap_err().message;
    let place = disk.display();
    let expected = format!(
        "path {disk:?} is mounted on {disk:?} but it is not a shared mount: `mount --make-shared {place}`"
    );
    assert!(refused.contains(&expected), "{refused}");
    // What only comes from the host may miss something, and does no harm.
    let mut reads = config.clone();
    reads.metadata.as_mut().unwrap().name = "reads".to_owned();
    reads.log_path = "reads.log".to_owned();
    reads.command = crate::node::shell("ls /disk");
    reads.mounts[0].propagation = MountPropagation::HostToContainer.into();
    assert_eq!(node.output(&sandbox, reads), (0, "inner\n".to_owned()));
    // An image's files are nowhere on the host.
    let mut of_image = config.clone();
    of_image.metadata.as_mut().unwrap().name = "image".to_owned();
    of_image.log_path = "image.log".to_owned();
    of_image.command = crate::node::shell("ls /disk/www");
    of_image.mounts[0].host_path = String::new();
    of_image.mounts[0].image = Some(ImageSpec { image: NAME.to_owned(), ..Default::default() });
    assert_eq!(node.output(&sandbox, of_image), (0, "index.html\n".to_owned()));
    mount_change(&disk, MountPropagationFlags::SHARED).unwrap();
    assert_eq!(node.output(&sandbox, config), (0, String::new()));
    let held = container::mounts::holding(&inner).unwrap().unwrap().path;
    container::mounts::unmount_below(&disk).unwrap();
    assert_eq!(held, inner);
}

fn devices_are_as_asked() {
    let node = Node::new();
    let sandbox = node.run(node.sandbox_config("web"));
    let script =
        "head -c 2 /dev/own | wc -c; echo x > /dev/own; mknod /dev/mem c 1 1 && head -c 1 /dev/mem; true";
    let mut config = container("main", &format!("{{ {script}; }} 2>&1"));
    config.devices = vec![Device {
        container_path: "/dev/own".to_owned(),
        host_path: "/dev/zero".to_owned(),
        permissions: "r".to_owned(),
    }];
    let (_, log) = node.output(&sandbox, config);
    assert!(log.starts_with("2\n") && log.contains("/dev/mem: Operation not permitted"), "{log}");
    // The host's own, as agents of nodes mount them: nothing is made there.
    let names =
        || std::fs::read_dir("/dev").unwrap().map(|one| one.unwrap().file_name()).collect::<BTreeSet<_>>();
    let before = names();
    let mut config = secured(container("agent", "head -c 3 /dev/zero | wc -c; ls -d /dev/fd"), |context| {
        context.privileged = true;
    });
    config.mounts = vec![Mount {
        container_path: "/dev/".to_owned(),
        host_path: "/dev".to_owned(),
        ..Default::default()
    }];
    assert_eq!(node.output(&sandbox, config), (0, "3\n/dev/fd\n".to_owned()));
    assert_eq!(names(), before);
}

fn a_root_is_like_the_images() {
    let node = Node::new();
    let sandbox = node.run(node.sandbox_config("web"));
    let config = secured(container("main", "ls -ld / /work; ls /; cat /etc/hostname"), |context| {
        context.run_as_user = Some(Int64Value { value: 1234 });
    });
    let (code, log) = node.output(&sandbox, config);
    assert!(code == 0 && log.starts_with("drwxr-xr-x") && log.ends_with("web\n"), "{log}");
}

fn a_part_of_an_image_is_a_volume() {
    let node = Node::new();
    let sandbox = node.run(node.sandbox_config("web"));
    let part = |name: &str, script: &str, sub_path: &str| {
        let mut config = container(name, &format!("{{ {script}; }} 2>&1"));
        config.mounts = vec![Mount {
            container_path: "/part".to_owned(),
            image: Some(ImageSpec { image: NAME.to_owned(), ..Default::default() }),
            image_sub_path: sub_path.to_owned(),
            readonly: true,
            ..Default::default()
        }];
        config
    };
    // Of all layers at once: what one replaces and hides in another is so here, too.
    let (code, log) = node.output(
        &sandbox,
        part("directory", "ls /part; cat /part/index.html; touch /part/x || echo refused", "www"),
    );
    assert_eq!(
        (code, &*log),
        (0, "index.html\nfrom the pod\ntouch: /part/x: Read-only file system\nrefused\n")
    );
    assert_eq!(
        node.output(&sandbox, part("file", "cat /part", "www/index.html")),
        (0, "from the pod\n".to_owned())
    );
    for (name, nowhere) in [("hidden", "www/old.html"), ("outside", "../etc")] {
        let id = node.create(&sandbox, part(name, "true", nowhere)).unwrap();
        let error = node.start(&id).unwrap_err();
        assert!(error.message.contains("of an image"), "{nowhere}: {}", error.message);
    }
}
