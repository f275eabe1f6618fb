//! The life of sandboxes and containers, with the agent away in between.

use std::net::TcpStream;

use cri::*;
use futures_util::StreamExt;
use network::addresses::Cidr;

use crate::Test;
use crate::image::NAME;
use crate::node::{Node, container, limited, secured};

pub const TESTS: &[Test] = &[
    ("a_whole_life_with_restarts", a_whole_life_with_restarts),
    ("the_image_says_what_the_pod_does_not", the_image_says_what_the_pod_does_not),
    ("ends_while_nobody_is_there_are_told", ends_while_nobody_is_there_are_told),
    ("a_helper_that_dies_takes_its_pod_along", a_helper_that_dies_takes_its_pod_along),
    ("a_start_that_fails_is_told", a_start_that_fails_is_told),
    ("memory_that_ran_out_is_told", memory_that_ran_out_is_told),
    ("a_stop_is_a_signal_then_a_kill", a_stop_is_a_signal_then_a_kill),
    ("events_tell_what_happens", events_tell_what_happens),
    ("names_are_given_once", names_are_given_once),
    ("a_machine_that_comes_back_forgets_half_of_nothing", a_machine_that_comes_back_forgets_half_of_nothing),
    (
        "half_a_sandbox_is_off_the_network_though_its_helper_does_not_end",
        half_a_sandbox_is_off_the_network_though_its_helper_does_not_end,
    ),
    ("half_a_sandbox_gives_back_nothing_of_anothers", half_a_sandbox_gives_back_nothing_of_anothers),
    ("addresses_are_given_back_once", addresses_are_given_back_once),
];

fn a_whole_life_with_restarts() {
    let mut node = Node::new();
    let sandbox = node.run(node.sandbox_config("web"));
    node.restart();
    let status = node.sandbox_status(&sandbox);
    assert_eq!(status.state(), PodSandboxState::Ready);
    let network = status.network.clone().unwrap();
    assert!(
        network.ip.starts_with("10.88.") && network.additional_ips[0].ip.starts_with("fd88:"),
        "{network:?}"
    );
    let script = "echo begin; trap 'echo end; exit 3' USR1; while true; do sleep 0.01; done";
    let id = node.create(&sandbox, container("main", script)).unwrap();
    node.restart();
    assert_eq!(node.status(&id).state(), ContainerState::Created);
    node.start(&id).unwrap();
    node.restart();
    let running = node.status(&id);
    assert_eq!((running.state(), running.finished_at), (ContainerState::Running, 0));
    assert!(running.started_at >= running.created_at, "{running:?}");
    let executed = node.exec_sync(&id, "hostname; echo wrong >&2; exit 5", 10).unwrap();
    assert_eq!(
        (executed.exit_code, &*executed.stdout, &*executed.stderr),
        (5, &b"web\n"[..], &b"wrong\n"[..])
    );
    node.until(|| node.log(&id).contains("begin").then_some(()));
    node.restart();
    node.stop(&id, 30);
    node.restart();
    let ended = node.status(&id);
    assert_eq!((ended.state(), ended.exit_code, &*ended.reason), (ContainerState::Exited, 3, "Error"));
    assert!(ended.finished_at >= ended.started_at && ended.started_at == running.started_at);
    assert_eq!(node.log(&id), "begin\nend\n");
    let all = node.wait(node.runtime().list_containers(ListContainersRequest::default())).unwrap().containers;
    assert_eq!(all.iter().map(|one| &*one.id).collect::<Vec<_>>(), [&*id]);
    node.remove(&id);
    node.restart();
    node.remove(&id);
    assert!(
        node.wait(
            node.runtime().container_status(ContainerStatusRequest { container_id: id, verbose: false })
        )
        .is_err()
    );
    node.stop_sandbox(&sandbox);
    node.restart();
    node.stop_sandbox(&sandbox);
    let status = node.sandbox_status(&sandbox);
    assert_eq!((status.state(), status.network.unwrap().ip), (PodSandboxState::NotReady, String::new()));
    node.remove_sandbox(&sandbox);
    node.restart();
    node.remove_sandbox(&sandbox);
    let all = node.wait(node.runtime().list_pod_sandbox(ListPodSandboxRequest::default())).unwrap().items;
    assert!(all.is_empty(), "{all:?}");
}

fn the_image_says_what_the_pod_does_not() {
    let node = Node::new();
    let sandbox = node.run(node.sandbox_config("web"));
    let mut config = secured(container("a", ""), |context| context.run_as_user = None);
    config.command.clear();
    assert_eq!(node.output(&sandbox, config.clone()).1, "from the image\n/work\nimage\n");
    config.metadata = Some(ContainerMetadata { name: "b".to_owned(), attempt: 0 });
    config.log_path = "b.log".to_owned();
    config.args = vec!["id; pwd; echo $VARIABLE $HOSTNAME; cat /etc/hostname /etc/resolv.conf".to_owned()];
    config.working_dir = "/www".to_owned();
    config.envs = vec![KeyValue { key: "VARIABLE".to_owned(), value: b"pod".to_vec() }];
    // Of any bytes, as a Secret may have them.
    config.envs.push(KeyValue { key: "BINARY".to_owned(), value: b"\xff\xfe=".to_vec() });
    config.args[0] += "; printf %s \"$BINARY\" | od -An -tx1";
    let id = node.launch(&sandbox, config);
    let status = node.ended(&id);
    let log = node.log(&id);
    assert!(
        log.starts_with("uid=33(web) gid=34(www) groups=34(www),50(media)\n/www\npod web\nweb\n"),
        "{log}"
    );
    assert!(log.ends_with(" ff fe 3d\n"), "{log}");
    let user = status.user.unwrap().linux.unwrap();
    assert_eq!((user.uid, user.gid, user.supplemental_groups), (33, 34, vec![34, 50]));
    assert_eq!((status.stop_signal, status.image.unwrap().image), (Signal::Sigusr1.into(), NAME.to_owned()));
    assert_eq!((status.exit_code, &*status.reason), (0, "Completed"));
}

fn ends_while_nobody_is_there_are_told() {
    let mut node = Node::new();
    let shared = node.directory.path().join("shared");
    std::fs::create_dir(&shared).unwrap();
    let sandbox = node.run(node.sandbox_config("web"));
    let mut config = container("main", "while ! test -e /data/go; do sleep 0.01; done; echo last; exit 7");
    config.mounts = vec![Mount {
        container_path: "/data".to_owned(),
        host_path: shared.to_str().unwrap().to_owned(),
        ..Default::default()
    }];
    let id = node.launch(&sandbox, config);
    let other = node.launch(&sandbox, container("other", "sleep 1000"));
    node.leave();
    std::fs::write(shared.join("go"), "").unwrap();
    node.until(|| node.helper_state(&sandbox).contains("\"code\":7").then_some(()));
    node.come_back();
    let status = node.status(&id);
    assert_eq!((status.state(), status.exit_code, &*status.reason), (ContainerState::Exited, 7, "Error"));
    assert_eq!(node.log(&id), "last\n");
    assert_eq!(node.status(&other).state(), ContainerState::Running);
    // The helper ends while nobody is there: what it did not write down nobody knows.
    node.leave();
    kill(node.helper_pid(&sandbox));
    node.come_back();
    assert_eq!(node.sandbox_status(&sandbox).state(), PodSandboxState::NotReady);
    let (told, unknown) = (node.status(&id), node.status(&other));
    assert_eq!((told.exit_code, &*told.reason), (7, "Error"));
    assert_eq!(
        (unknown.state(), unknown.exit_code, &*unknown.reason),
        (ContainerState::Exited, 255, "Unknown")
    );
    node.remove_sandbox(&sandbox);
}

fn a_helper_that_dies_takes_its_pod_along() {
    let node = Node::new();
    let sandbox = node.run(node.sandbox_config("web"));
    let id = node.launch(&sandbox, container("main", "sleep 1000"));
    kill(node.helper_pid(&sandbox));
    let status = node.ended(&id);
    assert_eq!((status.exit_code, &*status.reason), (137, "Error"));
    assert_eq!(node.sandbox_status(&sandbox).state(), PodSandboxState::NotReady);
    let error = node.create(&sandbox, container("next", "true")).unwrap_err();
    assert!(error.message.contains("is not running"), "{error}");
    node.remove(&id);
    // The same pod, once more.
    let mut config = node.sandbox_config("web");
    config.metadata.as_mut().unwrap().attempt = 1;
    let again = node.run(config);
    node.remove_sandbox(&sandbox);
    assert_eq!(node.output(&again, container("main", "exit 4")).0, 4);
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

fn a_start_that_fails_is_told() {
    let mut node = Node::new();
    let sandbox = node.run(node.sandbox_config("web"));
    let mut config = container("main", "");
    config.command = vec!["nothing".to_owned()];
    let id = node.create(&sandbox, config).unwrap();
    let error = node.start(&id).unwrap_err();
    assert!(error.message.ends_with("exec: \"nothing\": executable file not found in $PATH"), "{error}");
    for _ in 0..2 {
        let status = node.status(&id);
        assert_eq!(
            (status.state(), status.exit_code, &*status.reason),
            (ContainerState::Exited, 128, "StartError")
        );
        assert_eq!((status.started_at, &*status.message), (0, &*error.message));
        node.restart();
    }
    assert!(node.start(&id).unwrap_err().message.contains("container is in CONTAINER_EXITED state"));
    let mut config = container("other", "true");
    config.image = Some(ImageSpec { image: "registry.test/none:1".to_owned(), ..Default::default() });
    assert_eq!(node.create(&sandbox, config).unwrap_err().code, Code::NotFound);
    let error = node.create("0", container("other", "true")).unwrap_err();
    assert_eq!(error.code, Code::NotFound);
    node.remove(&id);
}

fn memory_that_ran_out_is_told() {
    let node = Node::new();
    let sandbox = node.run(node.sandbox_config("web"));
    let config =
        limited(container("main", "tail /dev/zero"), |limits| limits.memory_limit_in_bytes = 16 << 20);
    let mut config = config;
    config.command = ["tail", "/dev/zero"].map(str::to_owned).to_vec();
    let status = node.ended(&node.launch(&sandbox, config));
    assert_eq!((status.exit_code, &*status.reason), (137, "OOMKilled"));
}

fn a_stop_is_a_signal_then_a_kill() {
    let node = Node::new();
    let sandbox = node.run(node.sandbox_config("web"));
    let mut config = container("main", "trap 'echo no' INT; echo ready; while true; do sleep 0.01; done");
    config.stop_signal = Signal::Sigint.into();
    let id = node.launch(&sandbox, config);
    node.until(|| node.log(&id).contains("ready").then_some(()));
    node.stop(&id, 1);
    let status = node.status(&id);
    assert_eq!((status.exit_code, &*status.reason), (137, "Error"));
    assert_eq!(node.log(&id), "ready\nno\n");
    node.stop(&id, 1);
    // A signal of real time, which init systems are stopped with.
    let mut config = container("real-time", "trap 'exit 6' 37; echo ready; while true; do sleep 0.01; done");
    config.stop_signal = Signal::Sigrtminplus3.into();
    let id = node.launch(&sandbox, config);
    node.until(|| node.log(&id).contains("ready").then_some(()));
    node.stop(&id, 30);
    let status = node.status(&id);
    assert_eq!((status.exit_code, status.stop_signal()), (6, Signal::Sigrtminplus3));
    // One that runs is killed when it is removed, or with its sandbox.
    let id = node.launch(&sandbox, container("second", "sleep 1000"));
    node.remove(&id);
    let id = node.launch(&sandbox, container("third", "sleep 1000"));
    node.stop_sandbox(&sandbox);
    let status = node.status(&id);
    assert_eq!((status.state(), status.exit_code), (ContainerState::Exited, 137));
    let address = node.sandbox_status(&sandbox).network.unwrap().ip;
    assert!(address.is_empty() && TcpStream::connect(("127.0.0.1", 1)).is_err());
}

fn events_tell_what_happens() {
    let node = Node::new();
    let mut events = node.wait(node.runtime().container_events(GetEventsRequest {})).unwrap();
    let sandbox = node.run(node.sandbox_config("web"));
    let id = node.create(&sandbox, container("main", "exit 2")).unwrap();
    node.start(&id).unwrap();
    node.ended(&id);
    node.remove(&id);
    node.stop_sandbox(&sandbox);
    node.remove_sandbox(&sandbox);
    use ContainerEventType as Kind;
    for (of, kind) in [
        (&sandbox, Kind::CreatedEvent),
        (&sandbox, Kind::StartedEvent),
        (&id, Kind::CreatedEvent),
        (&id, Kind::StartedEvent),
        (&id, Kind::StoppedEvent),
        (&id, Kind::DeletedEvent),
        (&sandbox, Kind::StoppedEvent),
        (&sandbox, Kind::DeletedEvent),
    ] {
        let event = node.wait(events.next()).unwrap().unwrap();
        assert_eq!((&event.container_id, event.container_event_type()), (of, kind));
        if kind == Kind::StoppedEvent && *of == id {
            assert_eq!(event.containers_statuses[0].exit_code, 2);
            assert_eq!(event.pod_sandbox_status.unwrap().id, sandbox);
        }
    }
}

fn names_are_given_once() {
    let mut node = Node::new();
    let sandbox = node.run(node.sandbox_config("web"));
    node.create(&sandbox, container("main", "true")).unwrap();
    node.restart();
    let error = node.try_run(node.sandbox_config("web")).unwrap_err();
    assert_eq!(
        error.message,
        format!(
            "failed to reserve sandbox name \"web_default_uid-web_0\": name \"web_default_uid-web_0\" is reserved for {sandbox:?}"
        )
    );
    assert!(node.create(&sandbox, container("main", "true")).is_err());
    let mut next = container("main", "true");
    next.metadata.as_mut().unwrap().attempt = 1;
    node.create(&sandbox, next).unwrap();
    let filter = ContainerFilter {
        label_selector: [("name".to_owned(), "main".to_owned())].into(),
        ..Default::default()
    };
    let request = ListContainersRequest { filter: Some(filter) };
    assert_eq!(node.wait(node.runtime().list_containers(request)).unwrap().containers.len(), 2);
    let filter = PodSandboxFilter {
        state: Some(PodSandboxStateValue { state: PodSandboxState::NotReady.into() }),
        ..Default::default()
    };
    let request = ListPodSandboxRequest { filter: Some(filter) };
    assert_eq!(node.wait(node.runtime().list_pod_sandbox(request)).unwrap().items.len(), 0);
}

/// An agent that was killed in the middle of things.
fn a_machine_that_comes_back_forgets_half_of_nothing() {
    let mut node = Node::new();
    let sandbox = node.run(node.sandbox_config("web"));
    let id = node.launch(&sandbox, container("main", "sleep 1000"));
    let kept = node.launch(&sandbox, container("kept", "sleep 1000"));
    let half = node.run(node.sandbox_config("half"));
    let directory = node.settings.directory.clone();
    node.leave();
    // A sandbox that was not set up to its end, and a container whose removal began.
    std::fs::remove_file(directory.join("sandboxes").join(&half[..16]).join("ready")).unwrap();
    let container = directory.join("containers").join(&id[..16]);
    std::fs::rename(&container, container.with_extension("removed")).unwrap();
    std::fs::create_dir(directory.join("containers/0123")).unwrap();
    std::fs::create_dir(directory.join("sandboxes/0123")).unwrap();
    node.come_back();
    let all = node.wait(node.runtime().list_pod_sandbox(ListPodSandboxRequest::default())).unwrap().items;
    assert_eq!(all.iter().map(|one| &*one.id).collect::<Vec<_>>(), [&*sandbox]);
    let all = node.wait(node.runtime().list_containers(ListContainersRequest::default())).unwrap().containers;
    assert_eq!(all.iter().map(|one| &*one.id).collect::<Vec<_>>(), [&*kept]);
    for (folder, expected) in [("sandboxes", 1), ("containers", 1)] {
        assert_eq!(std::fs::read_dir(directory.join(folder)).unwrap().count(), expected, "{folder}");
    }
    node.until(|| {
        (!node.helper_state(&sandbox).contains(&format!("\"id\":\"{id}\",\"pid\":0"))).then_some(())
    });
    assert_eq!(node.status(&kept).state(), ContainerState::Running);
}

fn half_a_sandbox_is_off_the_network_though_its_helper_does_not_end() {
    let mut node = Node::empty();
    let half = node.run(node.sandbox_config("half"));
    let before = ip(&node, &half);
    let interfaces = || std::fs::read_to_string("/proc/net/dev").unwrap().matches("veth").count();
    assert_eq!(interfaces(), 1);
    node.leave();
    let directory = node.settings.directory.join("sandboxes").join(&half[..16]);
    for file in ["ready", "helper.sock"] {
        std::fs::remove_file(directory.join(file)).unwrap();
    }
    // It hears what it is asked, and says nothing.
    let deaf = std::os::unix::net::UnixListener::bind(directory.join("helper.sock")).unwrap();
    std::thread::spawn(move || deaf.incoming().for_each(drop));
    node.come_back();
    assert!(directory.exists());
    assert_eq!(interfaces(), 0);
    // Its address is another's.
    let sandbox = node.run(node.sandbox_config("half"));
    assert_eq!(ip(&node, &sandbox), before);
}

/// A node with a single range for pods, of that prefix.
fn with_pod_range(prefix: &str) -> Node {
    let mut node = Node::empty();
    node.leave();
    let range = node.settings.pod_ranges[0].to_string().replace("/24", prefix);
    node.settings.pod_ranges = vec![Cidr::parse(&range).unwrap()];
    node.come_back();
    node
}

fn ip(node: &Node, sandbox: &str) -> String {
    node.sandbox_status(sandbox).network.unwrap().ip
}

fn half_a_sandbox_gives_back_nothing_of_anothers() {
    let mut node = with_pod_range("/29");
    let whole = node.run(node.sandbox_config("whole"));
    let half = node.run(node.sandbox_config("half"));
    let (taken, own) = (ip(&node, &whole), ip(&node, &half));
    assert_eq!(taken.len(), own.len());
    node.leave();
    // Written down as an agent leaves it that took the address for free.
    let directory = node.settings.directory.join("sandboxes").join(&half[..16]);
    std::fs::remove_file(directory.join("ready")).unwrap();
    let mut record = std::fs::read(directory.join("record")).unwrap();
    let at = record.windows(own.len()).rposition(|bytes| bytes == own.as_bytes()).unwrap();
    record[at..at + own.len()].copy_from_slice(taken.as_bytes());
    std::fs::write(directory.join("record"), record).unwrap();
    node.come_back();
    assert!(!directory.exists());
    let given: Vec<String> = (0..)
        .map_while(|n| node.try_run(node.sandbox_config(&format!("new-{n}"))).ok())
        .map(|sandbox| ip(&node, &sandbox))
        .collect();
    // Of five addresses the whole one has its own.
    assert!(given.len() == 4 && !given.contains(&taken) && given.contains(&own), "{given:?}, not {taken}");
    assert_eq!(ip(&node, &whole), taken);
}

fn addresses_are_given_back_once() {
    // One address for pods.
    let node = with_pod_range("/30");
    let first = node.run(node.sandbox_config("first"));
    // That it has stopped cannot be written down.
    let stopped = node.settings.directory.join("sandboxes").join(&first[..16]).join("stopped");
    std::fs::create_dir(&stopped).unwrap();
    let stop = StopPodSandboxRequest { pod_sandbox_id: first.clone() };
    node.wait(node.runtime().stop_pod_sandbox(stop)).unwrap_err();
    node.run(node.sandbox_config("second"));
    std::fs::remove_dir(&stopped).unwrap();
    node.stop_sandbox(&first);
    node.try_run(node.sandbox_config("third")).unwrap_err();
}
