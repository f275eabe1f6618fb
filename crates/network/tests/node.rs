//! Two pods on a bridge, in network namespaces of their own. Needs root; says so and passes without.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "namespaces are held by threads")]

use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc;
use std::time::Duration;

use network::addresses::{Addresses, Cidr};
use network::node::{Bridge, interfaces, set_loopback_up, veth_name};
use network::rules::{HostPort, Protocol, Rules};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

/// A network namespace held by a thread.
struct Namespace {
    file: OwnedFd,
    _end: mpsc::Sender<()>,
}

impl Namespace {
    fn new() -> Namespace {
        let (told, opened) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        std::thread::spawn(move || {
            #[allow(deprecated)]
            rustix::thread::unshare(UnshareFlags::NEWNET).unwrap();
            told.send(OwnedFd::from(File::open("/proc/thread-self/ns/net").unwrap())).unwrap();
            let _ = ends.recv();
        });
        Namespace { file: opened.recv().unwrap(), _end: end }
    }

    /// Runs inside.
    fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let file = self.file.try_clone().unwrap();
        let inside = std::thread::spawn(move || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            work()
        });
        inside.join().unwrap()
    }
}

/// Answers every connection with the address it came from.
fn serve(namespace: &Namespace, address: IpAddr) -> SocketAddr {
    let listener = namespace.run(move || TcpListener::bind((address, 0)).unwrap());
    let bound = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let peer = stream.peer_addr().unwrap().ip().to_string();
            stream.write_all(peer.as_bytes()).unwrap();
        }
    });
    bound
}

fn ask(address: SocketAddr) -> Result<String, std::io::Error> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(10))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

#[test]
fn pods_reach_each_other_host_ports_and_services() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    // A machine of its own, so that nothing of this one is touched.
    let machine = Namespace::new();
    let pods = [Namespace::new(), Namespace::new()];
    let files: Vec<OwnedFd> = pods.iter().map(|pod| pod.file.try_clone().unwrap()).collect();
    set_loopback_up(&machine.file).unwrap();
    let addresses = machine.run(move || {
        let ranges = vec![Cidr::parse("10.77.0.0/24").unwrap(), Cidr::parse("fd77::/64").unwrap()];
        let bridge = Bridge { name: "sp-test0".to_owned(), ranges: ranges.clone(), mtu: 1500 };
        bridge.ensure().unwrap();
        bridge.ensure().unwrap();
        let (mut v4, mut v6) = (Addresses::new(ranges[0].clone()), Addresses::new(ranges[1].clone()));
        let mut all = Vec::new();
        for (at, file) in files.iter().enumerate() {
            let own = [v4.take().unwrap(), v6.take().unwrap()];
            // Twice, as after a crash in the middle.
            bridge.connect(at as u128, file, &own).unwrap();
            bridge.connect(at as u128, file, &own).unwrap();
            set_loopback_up(file).unwrap();
            all.push(own);
        }
        all
    });
    let server = serve(&pods[0], addresses[0][0]);
    let server6 = serve(&pods[0], addresses[0][1]);
    // Pod to pod, both versions, and the machine to a pod.
    assert_eq!(pods[1].run(move || ask(server)).unwrap(), "10.77.0.3");
    assert_eq!(pods[1].run(move || ask(server6)).unwrap(), "fd77::3");
    assert_eq!(machine.run(move || ask(server)).unwrap(), "10.77.0.1");
    // A host port, from the machine, from its loopback, from the pod's neighbour and from itself; and an address that is nowhere.
    let service: SocketAddr = "10.96.0.1:443".parse().unwrap();
    machine.run(move || {
        let rules = Rules {
            pod_ranges: vec![Cidr::parse("10.77.0.0/24").unwrap(), Cidr::parse("fd77::/64").unwrap()],
            host_ports: vec![HostPort { protocol: Protocol::Tcp, host: None, port: 8080, to: server }],
            redirects: vec![(Protocol::Tcp, service, server)],
        };
        rules.apply("setpoint-test").unwrap();
        rules.apply("setpoint-test").unwrap();
    });
    let host_port: SocketAddr = "10.77.0.1:8080".parse().unwrap();
    let loopback: SocketAddr = "127.0.0.1:8080".parse().unwrap();
    assert!(machine.run(move || ask(loopback)).is_ok());
    assert!(pods[1].run(move || ask(host_port)).is_ok());
    assert!(pods[0].run(move || ask(host_port)).is_ok());
    assert!(pods[1].run(move || ask(service)).is_ok());
    machine.run(|| {
        Rules::remove("setpoint-test").unwrap();
        Rules::remove("setpoint-test").unwrap();
    });
    assert!(machine.run(move || ask(loopback)).is_err());
    // Nothing stays.
    let left = machine.run(|| {
        let bridge = Bridge { name: "sp-test0".to_owned(), ranges: Vec::new(), mtu: 1500 };
        bridge.disconnect(0).unwrap();
        bridge.disconnect(0).unwrap();
        let left = interfaces().unwrap();
        assert!(left.contains(&veth_name("sp-test0", 1)) && !left.contains(&veth_name("sp-test0", 0)));
        bridge.disconnect(1).unwrap();
        bridge.remove().unwrap();
        interfaces().unwrap()
    });
    assert_eq!(
        left.iter().filter(|name| name.starts_with("sp-") || name.starts_with("veth")).count(),
        0,
        "{left:?}"
    );
}
