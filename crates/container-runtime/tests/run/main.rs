//! The embedded runtime with containers from Debian's busybox, called as kubelet calls it. Needs root; says so and passes without.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test with its own main"
)]

mod apparmor;
mod devices;
mod files;
mod image;
mod life;
mod machine;
mod node;
mod random;
mod registry;
mod security;
mod streams;

use std::path::Path;

/// A test of a node of its own.
type Test = (&'static str, fn());

fn main() {
    container_runtime::serve_if_spawner();
    if !rustix::process::geteuid().is_root() || !Path::new(image::BUSYBOX).exists() {
        println!("skipped: needs root and Debian's busybox-static");
        return;
    }
    // A machine of its own as far as the network goes, so that nothing of this one is touched.
    #[allow(deprecated)]
    rustix::thread::unshare(rustix::thread::UnshareFlags::NEWNET).unwrap();
    let own = std::os::fd::OwnedFd::from(std::fs::File::open("/proc/self/ns/net").unwrap());
    network::node::set_loopback_up(&own).unwrap();
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let tests = [
        life::TESTS,
        streams::TESTS,
        security::TESTS,
        apparmor::TESTS,
        devices::TESTS,
        files::TESTS,
        machine::TESTS,
        random::TESTS,
    ];
    let tests: Vec<Test> = tests.into_iter().flatten().copied().collect();
    let mut passed = 0;
    for (name, test) in tests.iter().filter(|(name, _)| name.contains(&*filter)) {
        test();
        println!("test {name} ... ok");
        passed += 1;
    }
    println!("\ntest result: ok. {passed} passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
}
