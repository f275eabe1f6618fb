//! Exec, attach, port-forward, and host ports.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use cri::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::Test;
use crate::node::{Node, container, shell};

pub const TESTS: &[Test] = &[
    ("exec_has_streams_and_a_code", exec_has_streams_and_a_code),
    ("exec_with_a_terminal", exec_with_a_terminal),
    ("an_exec_nobody_waits_for_is_killed", an_exec_nobody_waits_for_is_killed),
    ("exec_sync_ends_in_time", exec_sync_ends_in_time),
    ("attach_reads_and_writes", attach_reads_and_writes),
    (
        "an_attach_ends_with_its_input_where_that_stays_open",
        an_attach_ends_with_its_input_where_that_stays_open,
    ),
    ("ports_are_forwarded", ports_are_forwarded),
    ("host_ports_lead_to_pods", host_ports_lead_to_pods),
    ("datagrams_follow_a_host_port_to_the_next_pod", datagrams_follow_a_host_port_to_the_next_pod),
];

fn exec(node: &Node, id: &str, script: &str, tty: bool) -> Streams {
    let request = ExecRequest {
        container_id: id.to_owned(),
        cmd: shell(script),
        tty,
        stdin: true,
        stdout: true,
        stderr: !tty,
    };
    match node.wait(node.runtime().exec(request)).unwrap() {
        Session::Streams(streams) => streams,
        Session::Url(url) => panic!("{url}"),
    }
}

async fn text(stream: impl AsyncReadExt + Unpin) -> String {
    let (mut stream, mut text) = (stream, String::new());
    stream.read_to_string(&mut text).await.unwrap();
    text
}

fn exec_has_streams_and_a_code() {
    let node = Node::new();
    let sandbox = node.run(node.sandbox_config("web"));
    let id = node.launch(&sandbox, container("main", "sleep 1000"));
    let streams = exec(&node, &id, "cat; echo wrong >&2; exit 7", false);
    let (mut stdin, stdout, stderr) =
        (streams.stdin.unwrap(), streams.stdout.unwrap(), streams.stderr.unwrap());
    node.wait(async {
        stdin.write_all(b"typed\n").await.unwrap();
        drop(stdin);
        assert_eq!((text(stdout).await, text(stderr).await), ("typed\n".to_owned(), "wrong\n".to_owned()));
        assert_eq!(streams.exit.await, Ok(7));
    });
    let request = ExecRequest { container_id: id, cmd: vec!["nothing".to_owned()], ..Default::default() };
    let error = node.wait(node.runtime().exec(request)).err().unwrap();
    assert!(error.message.contains("exec: \"nothing\": executable file not found in $PATH"), "{error}");
}

fn exec_with_a_terminal() {
    let node = Node::new();
    let sandbox = node.run(node.sandbox_config("web"));
    let id = node.launch(&sandbox, container("main", "sleep 1000"));
    let streams = exec(&node, &id, "read line; stty size; tty; echo $TERM $line; exit 3", true);
    let (mut stdin, stdout) = (streams.stdin.unwrap(), streams.stdout.unwrap());
    assert!(streams.stderr.is_none());
    let resize = streams.resize.unwrap();
    node.wait(async {
        resize.send((100, 30)).await.unwrap();
        // The size is set before what comes later is read.
        resize.closed_or_idle().await;
        stdin.write_all(b"typed\n").await.unwrap();
        let text = text(stdout).await;
        assert!(text.contains("30 100\r\n/dev/pts/0\r\nxterm typed\r\n"), "{text}");
        assert_eq!(streams.exit.await, Ok(3));
    });
}

/// Waits until what was sent is taken.
trait Idle {
    async fn closed_or_idle(&self);
}

impl<T> Idle for tokio::sync::mpsc::Sender<T> {
    async fn closed_or_idle(&self) {
        while !self.is_closed() && self.capacity() < self.max_capacity() {
            tokio::task::yield_now().await;
        }
        // Taken is not yet done: the terminal's task has nothing to wait for in between.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }
}

fn an_exec_nobody_waits_for_is_killed() {
    let node = Node::new();
    let sandbox = node.run(node.sandbox_config("web"));
    let id = node.launch(&sandbox, container("main", "sleep 1000"));
    let streams = exec(&node, &id, "exec sleep 1234", false);
    let seen = || node.exec_sync(&id, "ps", 10).unwrap();
    node.until(|| String::from_utf8_lossy(&seen().stdout).contains("sleep 1234").then_some(()));
    node.wait(async move { drop(streams) });
    node.until(|| (!String::from_utf8_lossy(&seen().stdout).contains("sleep 1234")).then_some(()));
}

fn exec_sync_ends_in_time() {
    let node = Node::new();
    let sandbox = node.run(node.sandbox_config("web"));
    let id = node.launch(&sandbox, container("main", "sleep 1000"));
    let error = node.exec_sync(&id, "sleep 1000", 1).unwrap_err();
    assert_eq!(error.code, Code::DeadlineExceeded);
    assert_eq!(error.message, "failed to exec in container: timeout 1s exceeded: context deadline exceeded");
    // A child that keeps the stream open is not waited for.
    let executed = node.exec_sync(&id, "sleep 1000 & echo done", 20).unwrap();
    assert_eq!((executed.exit_code, &*executed.stdout), (0, &b"done\n"[..]));
    let executed = node.exec_sync(&id, "head -c 3000000 /dev/zero", 20).unwrap();
    assert_eq!(executed.stdout.len(), 3_000_000);
    // Nor one that goes on writing faster than anybody reads.
    let executed = node.exec_sync(&id, "yes & yes >&2 & yes & exit 3", 20).unwrap();
    assert_eq!(executed.exit_code, 3);
    node.stop(&id, 0);
    let error = node.exec_sync(&id, "true", 1).unwrap_err();
    assert_eq!(error.message, "container is in CONTAINER_EXITED state");
}

fn an_attach_ends_with_its_input_where_that_stays_open() {
    let node = Node::new();
    let sandbox = node.run(node.sandbox_config("web"));
    let mut config = container("main", "while read line; do echo got $line; done; exit 3");
    config.stdin = true;
    let id = node.launch(&sandbox, config);
    for line in ["one", "two"] {
        let request =
            AttachRequest { container_id: id.clone(), stdin: true, tty: false, stdout: true, stderr: true };
        let Session::Streams(streams) = node.wait(node.runtime().attach(request)).unwrap() else { panic!() };
        let (mut stdin, stdout) = (streams.stdin.unwrap(), streams.stdout.unwrap());
        node.wait(async {
            stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
            let mut stdout = stdout;
            let mut answer = vec![0; 8];
            stdout.read_exact(&mut answer).await.unwrap();
            assert_eq!(answer, format!("got {line}\n").as_bytes(), "the input stayed open");
            stdin.shutdown().await.unwrap();
            assert_eq!(text(stdout).await, "");
            assert_eq!(streams.exit.await, Ok(0));
        });
    }
    node.stop(&id, 0);
}

fn attach_reads_and_writes() {
    let node = Node::new();
    let sandbox = node.run(node.sandbox_config("web"));
    for tty in [false, true] {
        let mut config = container(if tty { "tty" } else { "main" }, "read line; echo got $line; exit 0");
        config.stdin = true;
        config.stdin_once = true;
        config.tty = tty;
        let id = node.launch(&sandbox, config);
        let request =
            AttachRequest { container_id: id.clone(), stdin: true, tty, stdout: true, stderr: !tty };
        let Session::Streams(streams) = node.wait(node.runtime().attach(request)).unwrap() else { panic!() };
        assert_eq!((streams.stderr.is_none(), streams.resize.is_some()), (tty, tty));
        let (mut stdin, stdout) = (streams.stdin.unwrap(), streams.stdout.unwrap());
        node.wait(async {
            stdin.write_all(b"hello\n").await.unwrap();
            drop(stdin);
            let text = text(stdout).await;
            assert!(text.contains("got hello"), "{text}");
            assert_eq!(streams.exit.await, Ok(0));
        });
        assert_eq!(node.ended(&id).exit_code, 0);
    }
}

fn ports_are_forwarded() {
    let node = Node::new();
    let sandbox = node.run(node.sandbox_config("web"));
    let id = node.launch(&sandbox, container("main", "exec httpd -f -p 8000 -h /www"));
    node.until(|| {
        node.exec_sync(&id, "nc 127.0.0.1 8000 < /dev/null", 10).ok().filter(|done| done.exit_code == 0)
    });
    let request = PortForwardRequest { pod_sandbox_id: sandbox.clone(), port: vec![8000] };
    let PortForward::Connect(connect) = node.wait(node.runtime().port_forward(request)).unwrap() else {
        panic!()
    };
    node.wait(async {
        let mut stream = connect(8000).await.unwrap();
        stream.write_all(b"GET /index.html HTTP/1.0\r\n\r\n").await.unwrap();
        assert!(text(stream).await.ends_with("from the pod\n"));
        let error = connect(8001).await.err().unwrap();
        assert!(error.message.contains("failed to connect to localhost:8001 inside namespace"), "{error}");
    });
    node.stop_sandbox(&sandbox);
    let request = PortForwardRequest { pod_sandbox_id: sandbox, port: vec![8000] };
    assert!(node.wait(node.runtime().port_forward(request)).is_err());
}

fn host_ports_lead_to_pods() {
    let mut node = Node::new();
    let mut config = node.sandbox_config("web");
    config.port_mappings = vec![PortMapping { container_port: 8000, host_port: 18080, ..Default::default() }];
    let sandbox = node.run(config);
    let address = node.sandbox_status(&sandbox).network.unwrap().ip;
    node.launch(&sandbox, container("main", "exec httpd -f -p 8000 -h /www"));
    let get = |host: &str, port: u16| -> Option<String> {
        let mut stream =
            TcpStream::connect_timeout(&format!("{host}:{port}").parse().unwrap(), Duration::from_secs(5))
                .ok()?;
        stream.write_all(b"GET /index.html HTTP/1.0\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        Some(text).filter(|text| text.ends_with("from the pod\n"))
    };
    node.until(|| get(&address, 8000));
    assert!(get("127.0.0.1", 18080).is_some());
    node.restart();
    assert!(get("127.0.0.1", 18080).is_some());
    // One that comes later does not get the address, and its going does not take the other's port.
    let other = node.run(node.sandbox_config("other"));
    assert_ne!(node.sandbox_status(&other).network.unwrap().ip, address);
    node.remove_sandbox(&other);
    assert!(get("127.0.0.1", 18080).is_some());
    node.stop_sandbox(&sandbox);
    assert!(get("127.0.0.1", 18080).is_none());
}

fn datagrams_follow_a_host_port_to_the_next_pod() {
    let node = Node::new();
    // The same two ends all the time: one flow, as far as the kernel knows.
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    for name in ["first", "second"] {
        let mut config = node.sandbox_config(name);
        config.port_mappings = vec![PortMapping {
            protocol: Protocol::Udp.into(),
            container_port: 53,
            host_port: 18053,
            ..Default::default()
        }];
        let sandbox = node.run(config);
        let receiver = bind_in(node.helper_pid(&sandbox), "0.0.0.0:53");
        receiver.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        sender.send_to(name.as_bytes(), "127.0.0.1:18053").unwrap();
        let mut buffer = [0; 16];
        let read = receiver.recv(&mut buffer).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(&buffer[..read], name.as_bytes());
        node.remove_sandbox(&sandbox);
    }
}

/// A socket in the network of a pod.
fn bind_in(helper: i32, address: &'static str) -> UdpSocket {
    let namespace = std::fs::File::open(format!("/proc/{helper}/ns/net")).unwrap();
    let inside = std::thread::spawn(move || {
        let kind = rustix::thread::LinkNameSpaceType::Network;
        rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(kind)).unwrap();
        UdpSocket::bind(address).unwrap()
    });
    inside.join().unwrap()
}
