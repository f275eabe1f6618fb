use cri::{Call, RuntimeConfigResponse};
use parking_lot::Mutex;

use super::*;

/// Answers in this order, then that it does not know the question.
struct Answers(Mutex<Vec<Result<RuntimeConfigResponse, cri::Error>>>);

impl cri::PartialRuntime for Answers {
    fn runtime_config(&self, _: RuntimeConfigRequest) -> Call<'_, RuntimeConfigResponse> {
        let unknown = cri::Error::new(Code::Unimplemented, "unknown method RuntimeConfig");
        let answer = self.0.lock().pop().unwrap_or(Err(unknown));
        Box::pin(async { answer })
    }
}

fn says(cgroup_driver: i32) -> Result<RuntimeConfigResponse, cri::Error> {
    Ok(RuntimeConfigResponse { linux: Some(cri::LinuxRuntimeConfiguration { cgroup_driver }) })
}

async fn driver(
    mut answers: Vec<Result<RuntimeConfigResponse, cri::Error>>,
    configured: &str,
) -> Result<&'static str, String> {
    answers.reverse();
    let driver = cgroup_driver(&Env::simulated(1), &Answers(Mutex::new(answers)), configured).await;
    driver.map_err(|error| error.to_string())
}

#[tokio::test(start_paused = true)]
async fn the_runtimes_cgroup_driver_counts_before_the_configurations() {
    let busy = || Err(cri::Error::new(Code::Unavailable, "starting"));
    assert_eq!(driver(vec![says(1)], "systemd").await, Ok("cgroupfs"));
    assert_eq!(driver(vec![busy(), busy(), says(1)], "cgroupfs").await, Ok("cgroupfs"));
    assert_eq!(driver(vec![Ok(RuntimeConfigResponse { linux: None })], "cgroupfs").await, Ok("cgroupfs"));
    assert_eq!(driver(Vec::new(), "cgroupfs").await, Ok("cgroupfs"), "a runtime without the call");
    for (answers, configured, told) in [
        (vec![says(0)], "cgroupfs", "set SystemdCgroup = false in containerd's configuration"),
        (Vec::new(), "systemd", "cgroupDriver systemd is not supported"),
        (vec![says(7)], "cgroupfs", "runtime returned an unknown cgroup driver 7"),
        (vec![busy(), busy(), busy()], "cgroupfs", "desc = starting"),
    ] {
        let refused = driver(answers, configured).await.unwrap_err();
        assert!(refused.contains(told), "{refused}");
    }
}

fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    root
}

#[test]
fn cgroup_v1_is_refused_only_where_the_configuration_says_so() {
    let config = Config::new("n", "/".into());
    let strict = Config { fail_cgroup_v1: true, ..config.clone() };
    let (v1, v2) = (tree(&[]), tree(&[("sys/fs/cgroup/cgroup.controllers", "cpu\n")]));
    assert!(!cgroup_v2(v1.path(), &config).unwrap());
    assert!(cgroup_v2(v2.path(), &strict).unwrap());
    let told = cgroup_v2(v1.path(), &strict).unwrap_err().to_string();
    assert!(told.starts_with("kubelet is configured to not run on a host using cgroup v1."), "{told}");
}

#[test]
fn oom_scores_are_lowered_only_with_a_capability_of_the_machine() {
    let of_machine = "         0          0 4294967295\n";
    let of_container = "         0     100000      65536\n";
    let all = "Name:\tsetpoint\nCapPrm:\t000001ffffffffff\nCapEff:\t000001ffffffffff\n";
    let without = "CapEff:\t000001fffeffffff\nCapBnd:\t000001ffffffffff\n";
    for (status, map, may) in [
        (all, of_machine, true),
        ("CapEff:\t0000000001000000\n", of_machine, true),
        (without, of_machine, false),
        (all, of_container, false),
    ] {
        let machine = tree(&[("proc/self/status", status), ("proc/self/uid_map", map)]);
        assert_eq!(may_lower_oom_scores(machine.path()), may, "{status} {map}");
    }
    assert!(may_lower_oom_scores(tree(&[]).path()), "nobody knows");
}

#[test]
fn swap_is_refused_unless_the_configuration_allows_it() {
    let config = Config::new("n", "/".into());
    let head = "Filename\tType\tSize\tUsed\tPriority\n";
    let swaps = tree(&[("proc/swaps", &format!("{head}/dev/sda2 partition 1024 0 -2\n"))]);
    assert!(swap(swaps.path(), &config).unwrap_err().to_string().contains("/dev/sda2"));
    assert!(swap(swaps.path(), &Config { fail_swap_on: false, ..config.clone() }).is_ok());
    assert!(swap(tree(&[("proc/swaps", head)]).path(), &config).is_ok());
}

#[test]
fn a_kernel_that_is_set_otherwise_is_refused_where_the_configuration_says_so() {
    let config = Config::new("n", "/".into());
    let strict = Config { protect_kernel_defaults: true, ..config.clone() };
    let mut files: Vec<(String, String)> =
        KERNEL.iter().map(|(flag, value)| (format!("proc/sys/{flag}"), format!("{value}\n"))).collect();
    let made = |files: &[(String, String)]| {
        tree(&files.iter().map(|(path, content)| (&**path, &**content)).collect::<Vec<_>>())
    };
    assert!(kernel(made(&files).path(), &strict).is_ok());
    files[0].1 = "0\n".to_owned();
    files.pop();
    let told = kernel(made(&files).path(), &strict).unwrap_err().to_string();
    let first = "protectKernelDefaults: invalid kernel flag: vm/overcommit_memory, expected value: 1, actual value: 0, ";
    assert!(told.starts_with(first) && told.contains("kernel/keys/root_maxbytes: "), "{told}");
    assert!(kernel(made(&files).path(), &config).is_ok());
}

#[test]
fn limited_swap_needs_version_2() {
    let config = Config { swap_behavior: "LimitedSwap".to_owned(), ..Config::new("n", "/nowhere".into()) };
    assert!(matches!(cgroup_v2(tree(&[]).path(), &config), Err(PreflightError::LimitedSwap)));
    let v2 = tree(&[("sys/fs/cgroup/cgroup.controllers", "memory\n")]);
    assert!(matches!(cgroup_v2(v2.path(), &config), Ok(true)));
}

#[test]
fn memory_comes_to_the_disk_only_where_the_machine_swaps_and_cannot_but_do_so() {
    let head = "Filename\tType\tSize\tUsed\tPriority\n";
    let swaps = tree(&[("proc/swaps", &format!("{head}/dev/sda2 partition 1024 0 -2\n"))]);
    let none = tree(&[("proc/swaps", head)]);
    assert!(swaps_memory_volumes(swaps.path(), || false));
    assert!(!swaps_memory_volumes(swaps.path(), || true));
    assert!(!swaps_memory_volumes(none.path(), || panic!("nothing is tried")));
}

#[test]
fn nothing_is_left_of_the_attempt_to_keep_memory_out_of_swap() {
    let directory = tempfile::tempdir().unwrap();
    let keeps = keeps_tmpfs_out_of_swap(directory.path());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: mounts need root");
        return;
    }
    // A process before this one was killed in between.
    let place = directory.path().join("tmpfs-noswap-test");
    std::fs::create_dir(&place).unwrap();
    mounts::tmpfs(&place, None).unwrap();
    assert_eq!(keeps_tmpfs_out_of_swap(directory.path()), keeps);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
