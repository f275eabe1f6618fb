//! Two pods on a bridge, in network namespaces of their own. Needs root; says so and passes without.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "namespaces are held by threads")]

use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc;
use std::time::Duration;

use network::addresses::{Addresses, Cidr};
use network::node::{Bridge, interfaces, set_loopback_up, veth_name};
use network::rules::{HostPort, Protocol, Rules, forget_earlier_flows, forget_flows_to, tables};
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
        // A node of another cluster, whose table comes first, has the same address for something else.
        let others = Rules {
            pod_ranges: vec![Cidr::parse("10.78.0.0/24").unwrap()],
            redirects: vec![(Protocol::Tcp, service, "10.77.0.1:1".parse().unwrap())],
            ..Rules::default()
        };
        others.apply("setpoint-other").unwrap();
        let rules = Rules {
            pod_ranges: vec![Cidr::parse("10.77.0.0/24").unwrap(), Cidr::parse("fd77::/64").unwrap()],
            cluster_ranges: Vec::new(),
            host_ports: vec![HostPort { protocol: Protocol::Tcp, host: None, port: 8080, to: server }],
            redirects: vec![(Protocol::Tcp, service, server)],
        };
        rules.apply("setpoint-test").unwrap();
        rules.apply("setpoint-test").unwrap();
        let mut tables = tables().unwrap();
        tables.sort();
        assert_eq!(tables, ["setpoint-other", "setpoint-test", "sp-test0-guard"]);
        assert!(ask(service).is_err(), "of the machine's own processes the first decides");
    });
    let host_port: SocketAddr = "10.77.0.1:8080".parse().unwrap();
    let loopback: SocketAddr = "127.0.0.1:8080".parse().unwrap();
    assert!(machine.run(move || ask(loopback)).is_ok());
    assert!(pods[1].run(move || ask(host_port)).is_ok());
    assert!(pods[0].run(move || ask(host_port)).is_ok());
    assert!(pods[1].run(move || ask(service)).is_ok());
    machine.run(|| {
        Rules::remove("setpoint-other").unwrap();
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
        assert_eq!(tables().unwrap(), Vec::<String>::new());
        interfaces().unwrap()
    });
    assert_eq!(
        left.iter().filter(|name| name.starts_with("sp-") || name.starts_with("veth")).count(),
        0,
        "{left:?}"
    );
}

/// A machine with a bridge and one pod whose loopback is down, so that loopback addresses leave it.
fn machine_with_pod() -> (Namespace, Namespace) {
    let (machine, pod) = (Namespace::new(), Namespace::new());
    set_loopback_up(&machine.file).unwrap();
    let file = pod.file.try_clone().unwrap();
    machine.run(move || {
        let bridge = bridge();
        bridge.ensure().unwrap();
        bridge.connect(1, &file, &["10.78.0.2".parse().unwrap()]).unwrap();
    });
    (machine, pod)
}

fn bridge() -> Bridge {
    let ranges = vec![Cidr::parse("10.78.0.0/24").unwrap(), Cidr::parse("fd78::/64").unwrap()];
    Bridge { name: "sp-test1".to_owned(), ranges, mtu: 1500 }
}

#[test]
fn a_pod_does_not_reach_the_machines_loopback() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let (machine, pod) = machine_with_pod();
    let receiver = machine.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    let port = receiver.local_addr().unwrap().port();
    pod.run(move || {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.send_to(b"loopback", ("127.0.0.1", port)).unwrap();
        socket.send_to(b"bridge", ("10.78.0.1", port)).unwrap();
    });
    let mut buffer = [0; 16];
    let read = receiver.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..read], b"bridge");
    machine.run(|| bridge().remove().unwrap());
}

#[test]
fn many_rules_are_one_batch() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let machine = Namespace::new();
    machine.run(|| {
        let to = |port| SocketAddr::from(([10, 78, 0, 2], port));
        let host_ports = (1..=2000)
            .map(|port| HostPort { protocol: Protocol::Tcp, host: None, port, to: to(port) })
            .collect();
        let rules = Rules { host_ports, ..Rules::default() };
        rules.apply("setpoint-test").unwrap();
        rules.apply("setpoint-test").unwrap();
        Rules::remove("setpoint-test").unwrap();
        // What the kernel does not take is an error, also in the middle of a batch.
        assert!(rules.apply(&"long".repeat(100)).is_err());
    });
}

#[test]
fn the_bridge_keeps_its_hardware_address_and_routers_are_heard() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let (machine, _pod) = machine_with_pod();
    let (again, _other) = machine_with_pod();
    // The kernel's own list of the bridge's addresses: the link-local one is made of the hardware address, a moment later.
    let local = |machine: &Namespace| {
        machine.run(|| {
            (0..1000).find_map(|_| {
                let all = std::fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap();
                let line = all.lines().find(|line| line.starts_with("fe80") && line.ends_with("sp-test1"));
                if line.is_none() {
                    std::thread::sleep(Duration::from_millis(10));
                }
                line.map(|line| line[..32].to_owned())
            })
        })
    };
    let first = local(&machine);
    assert!(first.is_some() && first == local(&again), "{first:?}");
    let heard = machine.run(|| std::fs::read_to_string("/proc/sys/net/ipv6/conf/lo/accept_ra").unwrap());
    assert_eq!(heard, "2\n");
}

#[test]
fn pods_keep_their_address_within_the_cluster() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let (machine, pod) = machine_with_pod();
    // Another range behind this machine, as another node's would be.
    let other = Namespace::new();
    let file = other.file.try_clone().unwrap();
    machine.run(move || {
        let ranges = vec![Cidr::parse("10.79.0.0/24").unwrap()];
        let bridge = Bridge { name: "sp-test2".to_owned(), ranges, mtu: 1500 };
        bridge.ensure().unwrap();
        bridge.connect(2, &file, &["10.79.0.2".parse().unwrap()]).unwrap();
    });
    // Neither end believes a neighbour that says it is a router, though nobody here uses version 6.
    let hears = |at: &Namespace, name: &'static str| {
        at.run(move || std::fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{name}/accept_ra")).unwrap())
    };
    assert_eq!([hears(&machine, "sp-test2"), hears(&other, "eth0")], ["0\n", "0\n"]);
    let server = serve(&other, "10.79.0.2".parse().unwrap());
    for (cluster, seen) in [("10.80.0.0/16", "10.79.0.1"), ("10.79.0.0/16", "10.78.0.2")] {
        machine.run(move || {
            let cluster_ranges = vec![Cidr::parse(cluster).unwrap(), Cidr::parse("fd79::/48").unwrap()];
            let rules = Rules { pod_ranges: bridge().ranges, cluster_ranges, ..Rules::default() };
            rules.apply("setpoint-test").unwrap();
        });
        assert_eq!(pod.run(move || ask(server)).unwrap(), seen);
    }
}

#[test]
fn datagrams_follow_a_host_port_from_pod_to_pod() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let (machine, first) = machine_with_pod();
    let (second, client) = (Namespace::new(), Namespace::new());
    let files = [&second, &client].map(|pod| pod.file.try_clone().unwrap());
    machine.run(move || {
        for (at, file) in (3_u8..).zip(files) {
            bridge().connect(at.into(), &file, &[IpAddr::from([10, 78, 0, at])]).unwrap();
        }
        rules(Vec::new());
    });
    let listen = |at: &Namespace, address: &'static str| {
        let socket = at.run(move || UdpSocket::bind(address).unwrap());
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket
    };
    let (first, second) = (listen(&first, "10.78.0.2:53"), listen(&second, "10.78.0.3:53"));
    let before = listen(&machine, "10.78.0.1:5556");
    // The same two ends all the time, and so the same flow.
    let sender = client.run(|| UdpSocket::bind("10.78.0.4:40000").unwrap());
    let arrives_at = |receiver: &UdpSocket, text: &str| {
        sender.send_to(text.as_bytes(), "10.78.0.1:5556").unwrap();
        let mut buffer = [0; 16];
        let read = receiver.recv(&mut buffer).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(std::str::from_utf8(&buffer[..read]), Ok(text));
    };
    let port =
        |to: &str| HostPort { protocol: Protocol::Udp, host: None, port: 5556, to: to.parse().unwrap() };
    let of = [port("10.78.0.2:53"), port("10.78.0.3:53")];
    arrives_at(&before, "no pod yet");
    let ports = of.clone();
    machine.run(move || {
        rules(vec![ports[0].clone()]);
        forget_earlier_flows(&ports[..1]).unwrap();
    });
    arrives_at(&first, "to the first");
    let ports = of.clone();
    machine.run(move || {
        rules(vec![ports[1].clone()]);
        forget_earlier_flows(&ports[1..]).unwrap();
        // What goes to the other is none of its business.
        forget_flows_to(&ports[..1]).unwrap();
    });
    arrives_at(&second, "to the second");
    machine.run(move || {
        rules(Vec::new());
        forget_flows_to(&of).unwrap();
    });
    arrives_at(&before, "no pod any more");
}

fn rules(host_ports: Vec<HostPort>) {
    let rules = Rules { pod_ranges: bridge().ranges, host_ports, ..Rules::default() };
    rules.apply("setpoint-test").unwrap();
}
