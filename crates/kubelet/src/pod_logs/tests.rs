use super::*;

struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Machine {
        Machine { folder: tempfile::tempdir().unwrap() }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// A node of this name, whose logs are where all nodes have them.
    fn node(&self, name: &str) -> PodLogs {
        let mut config = Config::new(name, self.at(name));
        config.pod_logs_directory = self.at("pods");
        config.container_logs_directory = self.at("containers");
        let logs = PodLogs::of(&config);
        logs.create().unwrap();
        logs
    }

    fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.at(path)).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// With a log, linked for collectors.
    fn pod<'a>(&self, logs: &PodLogs, pod: &'a str, id: &'a str) -> (ContainerLog<'a>, PathBuf) {
        let directory = PathBuf::from(format!("d_{pod}_uid-{pod}"));
        logs.make(&directory, "c").unwrap();
        let log = self.at("pods").join(directory).join("c/0.log");
        fs::write(&log, "said\n").unwrap();
        let of = ContainerLog { namespace: "d", pod, container: "c", id };
        logs.link(of, &log).unwrap();
        (of, log)
    }
}

#[test]
fn collectors_find_a_container_s_log_by_its_link_until_it_is_removed() {
    let machine = Machine::new();
    let logs = machine.node("n");
    let (of, log) = machine.pod(&logs, "web", "0123abcd");
    assert_eq!(machine.names("containers"), ["web_d_c-0123abcd.log"]);
    assert_eq!(fs::read_to_string(machine.at("containers/web_d_c-0123abcd.log")).unwrap(), "said\n");
    logs.unlink(of, &log).unwrap();
    assert!(machine.names("containers").is_empty());
    // One that has none is not linked.
    fs::remove_file(&log).unwrap();
    logs.link(of, &log).unwrap();
    assert!(machine.names("containers").is_empty());
}

#[test]
fn a_node_removes_its_own_logs_only() {
    let machine = Machine::new();
    let (one, other) = (machine.node("one"), machine.node("other"));
    machine.pod(&one, "web", "0123abcd");
    machine.pod(&other, "db", "4567ef01");
    fs::create_dir(machine.at("pods/d_kubelet_uid-kubelet")).unwrap();
    let uids = |logs: &PodLogs| logs.own().into_iter().map(|(uid, _)| uid).collect::<Vec<_>>();
    assert_eq!((uids(&one), uids(&other)), (vec!["uid-web".to_owned()], vec!["uid-db".to_owned()]));
    one.remove(Path::new("d_web_uid-web")).unwrap();
    assert!(uids(&one).is_empty());
    assert_eq!(machine.names("pods"), ["d_db_uid-db", "d_kubelet_uid-kubelet"]);
    assert_eq!(machine.names("containers"), ["db_d_c-4567ef01.log"]);
    machine.pod(&one, "web", "0123abcd");
    remove_shared_from(&machine.at("one"), &machine.at("containers")).unwrap();
    assert_eq!(machine.names("pods"), ["d_db_uid-db", "d_kubelet_uid-kubelet"]);
    assert_eq!(machine.names("containers"), ["db_d_c-4567ef01.log"]);
}

#[test]
fn dead_links_go_but_not_those_of_a_log_that_is_rotated() {
    let machine = Machine::new();
    let (one, other) = (machine.node("one"), machine.node("other"));
    for (node, pod, id) in [(&one, "web", "aaaaaa"), (&one, "db", "bbbbbb"), (&other, "cache", "cccccc")] {
        let (_, log) = machine.pod(node, pod, id);
        fs::remove_file(log).unwrap();
    }
    machine.pod(&one, "old", "dddddd");
    one.remove_dead_links(&|id| id == "bbbbbb");
    let left = ["cache_d_c-cccccc.log", "db_d_c-bbbbbb.log", "old_d_c-dddddd.log"];
    assert_eq!(machine.names("containers"), left);
}

#[test]
fn the_node_s_own_directory_has_no_links() {
    let machine = Machine::new();
    let mut config = Config::new("n", machine.at("n"));
    config.container_logs_directory = machine.at("containers");
    let logs = PodLogs::of(&config);
    logs.create().unwrap();
    logs.make(Path::new("d_web_u"), "c").unwrap();
    assert!(machine.at("n/logs/d_web_u/c").is_dir() && !machine.at("containers").exists());
    assert_eq!(logs.own(), [("u".to_owned(), PathBuf::from("d_web_u"))]);
    logs.remove(Path::new("d_web_u")).unwrap();
    assert!(machine.names("n/logs").is_empty());
}

#[test]
fn long_names_are_cut_off_as_kubelet_s() {
    let logs = Machine::new().node("n");
    let (pod, id) = ("p".repeat(200), "0".repeat(64));
    let path = logs.link_path(ContainerLog { namespace: "d", pod: &pod, container: "c", id: &id });
    let name = path.file_name().unwrap().to_str().unwrap();
    assert_eq!(name.len(), 255);
    assert!(name.starts_with(&format!("{pod}_d_c-000")) && name.ends_with("0.log"));
}
