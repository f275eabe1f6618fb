//! Backup and restore with the real binary: nothing in the backup is lost, and no revision is assigned twice.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::cli::{no_server, refused};
use crate::etcd_server::Etcd;
use crate::harness::*;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// How far a store that was put back moves on, at least.
const STEP: u64 = 1_000_000_000;

/// Runs `setpoint` with words that must succeed; what it wrote.
fn setpoint(words: &[&str]) -> String {
    let output = run(Command::new(SETPOINT).args(words));
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{words:?}: {err}");
    out
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn copy(from: &Path, to: &Path) {
    assert!(run(Command::new("cp").arg("-a").arg(from).arg(to)).status.success());
}

/// What a watch from an old revision is told: the code of its error, or 200 and events.
async fn watched(client: &kube::Client, from: u64) -> u16 {
    let path = format!("{MAPS}?watch=1&resourceVersion={from}&timeoutSeconds=1");
    let mut watch = match Watch::open(client, &path).await {
        Ok(watch) => watch,
        Err(code) => return code,
    };
    match watch.next().await.unwrap() {
        Some(event) if event["type"] == "ERROR" => event["object"]["code"].as_u64().unwrap() as u16,
        _ => 200,
    }
}

/// What clients of a lost cluster remember.
struct Remembered {
    /// An object as it is in the backup.
    kept: Value,
    /// The same object as it was changed after the backup.
    lost: Value,
    /// Of a list that was not read to its end.
    next_page: String,
}

/// Fills a cluster; `save` makes the backup, or whatever is put back later.
async fn live(client: &kube::Client, save: impl FnOnce()) -> Remembered {
    for name in ["a", "b", "c"] {
        assert_eq!(call(client, "POST", MAPS, Some(config_map(name, "1"))).await.0, 201);
    }
    let (_, kept) = call(client, "PUT", &format!("{MAPS}/b"), Some(config_map("b", "2"))).await;
    save();
    let (_, lost) = call(client, "PUT", &format!("{MAPS}/b"), Some(config_map("b", "lost"))).await;
    let (_, page) = call(client, "GET", &format!("{MAPS}?limit=1"), None).await;
    let next_page = page["metadata"]["continue"].as_str().unwrap().to_owned();
    Remembered { kept, lost, next_page }
}

/// Checks that the cluster is as it was saved, with a new history. Returns the last revision.
async fn is_put_back(client: &kube::Client, remembered: &Remembered) -> u64 {
    let Remembered { kept, lost, next_page } = remembered;
    let (code, list) = call(client, "GET", MAPS, None).await;
    assert_eq!(code, 200);
    let start = revision(&list);
    assert!(start >= revision(lost) + STEP / 2 && start >= revision(kept) + STEP, "starts at {start}");
    assert_eq!(call(client, "GET", &format!("{MAPS}/b"), None).await.1, *kept);
    // Who watched the lost cluster begins anew.
    assert_eq!(watched(client, revision(lost)).await, 410);
    assert_eq!(watched(client, revision(kept)).await, 410);
    let (code, page) = call(client, "GET", &format!("{MAPS}?limit=1&continue={next_page}"), None).await;
    assert_eq!(code, 410, "{page}");
    let exact = format!("{MAPS}?resourceVersion={}&resourceVersionMatch=Exact", revision(kept));
    assert_eq!(call(client, "GET", &exact, None).await.0, 410);
    // Who saw the object after the backup conflicts; who saw it before is right: it is that object.
    let update = |of: &Value| {
        let mut object = of.clone();
        object["data"] = json!({"value": "3"});
        Some(object)
    };
    assert_eq!(call(client, "PUT", &format!("{MAPS}/b"), update(lost)).await.0, 409);
    let (code, made) = call(client, "PUT", &format!("{MAPS}/b"), update(kept)).await;
    assert_eq!(code, 200, "{made}");
    assert!(revision(&made) > start);
    assert_eq!(watched(client, start).await, 200);
    revision(&made)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_running_server_is_restored_above_all_revisions_it_served() {
    let folder = folder();
    let (data, file) = (folder.path().join("data"), folder.path().join("backup"));
    let server = Proc::start(&data);
    let client = server.client().await;
    let words = ["backup", "--data-dir", text(&data), text(&file)];
    let remembered = live(&client, || {
        let said = setpoint(&words);
        assert!(said.contains("at revision"), "{said}");
    })
    .await;
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    server.stop();

    // Not over anything that is there, and not from a file that is damaged.
    let into = |dir: &Path| ["restore", text(&file), "--data-dir", text(dir)].map(str::to_owned);
    let line = refused(into(&data).iter().map(String::as_str));
    assert!(line.contains("not empty") && line.contains("setpoint reset"), "{line}");
    let other = folder.path().join("other");
    let good = std::fs::read(&file).unwrap();
    let mut bad = good.clone();
    bad[good.len() / 2] ^= 1;
    std::fs::write(&file, bad).unwrap();
    let line = refused(into(&other).iter().map(String::as_str));
    assert!(line.contains("damaged at byte") && !other.exists(), "{line}");
    std::fs::write(&file, good).unwrap();

    let mut last = 0;
    // The second time after the first went wrong half-way: it is not served, and the same command mends it.
    for round in 0..2 {
        if round == 1 {
            setpoint(&["reset", "--yes", "--data-dir", text(&other)]);
            setpoint(&into(&other).each_ref().map(String::as_str));
            std::fs::write(other.join("RESTORING"), "").unwrap();
            std::fs::remove_file(other.join("store/MANIFEST")).unwrap();
            let line = no_server(&other, &[]);
            assert!(line.contains("interrupted") && line.contains("setpoint restore"), "{line}");
        }
        let said = setpoint(&into(&other).each_ref().map(String::as_str));
        assert!(said.contains("continues at revision"), "{said}");
        let server = Proc::start(&other);
        let now = is_put_back(&server.client().await, &remembered).await;
        assert!(now > last, "the same backup twice: {now} after {last}");
        last = now;
        for file in ["ca.crt", "ca.key", "sa.key"] {
            assert_eq!(
                std::fs::read(server.pki(file)).unwrap(),
                std::fs::read(data.join("pki").join(file)).unwrap()
            );
            assert_eq!(std::fs::metadata(server.pki("ca.key")).unwrap().permissions().mode() & 0o777, 0o600);
        }
        server.kill();
        let server = Proc::start(&other);
        let (_, list) = call(&server.client().await, "GET", MAPS, None).await;
        assert!((last..last + STEP / 2).contains(&revision(&list)), "a restart is no restore");
        server.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copied_data_directory_advances_its_revision_and_a_renamed_one_does_not() {
    let folder = folder();
    let (data, saved) = (folder.path().join("data"), folder.path().join("saved"));
    let server = Proc::start(&data);
    let remembered = live(&server.client().await, || copy(&data, &saved)).await;
    server.stop();
    let renamed = folder.path().join("renamed");
    std::fs::rename(&data, &renamed).unwrap();
    let server = Proc::start(&renamed);
    let client = server.client().await;
    let (_, found) = call(&client, "GET", &format!("{MAPS}/b"), None).await;
    assert_eq!(found, remembered.lost);
    assert_eq!(watched(&client, revision(&remembered.kept)).await, 200);
    assert!(!server.log().contains("advancing its revision"), "{}", server.log());
    server.stop();

    std::fs::remove_dir_all(&renamed).unwrap();
    copy(&saved, &data);
    let server = Proc::start(&data);
    assert!(server.log().contains("was copied or restored: advancing its revision"), "{}", server.log());
    is_put_back(&server.client().await, &remembered).await;
    server.stop();
    // A repair moves on as well: for what leaves no trace.
    let said = setpoint(&["repair", "--data-dir", text(&data)]);
    assert!(said.contains("continues at revision"), "{said}");
}

#[test]
fn invalid_data_directories_and_backups_are_refused_in_one_line() {
    let folder = folder();
    let (none, file) = (folder.path().join("none"), folder.path().join("file"));
    let line = refused(["backup", "--data-dir", text(&none), text(&file)]);
    assert!(line.contains("holds no objects") && line.contains("--data-dir"), "{line}");
    assert!(!file.exists());
    let line = refused(["restore", text(&file), "--data-dir", text(&none)]);
    assert!(line.contains("backup file not found"), "{line}");
    std::fs::write(&file, "something else, and long enough for a header").unwrap();
    let line = refused(["restore", text(&file), "--data-dir", text(&none)]);
    assert!(line.contains("damaged") && line.contains("use another backup"), "{line}");
    let line = refused(["repair", "--data-dir", text(&none)]);
    assert!(line.contains("is missing"), "{line}");
    assert!(!none.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_that_went_back_stops_the_server_and_is_refused_until_repaired() {
    let folder = folder();
    let (data, saved) = (folder.path().join("etcd"), folder.path().join("saved"));
    let Some(mut etcd) = Etcd::start(&data) else { return };
    let ours = folder.path().join("data");
    let store = etcd.store();
    let flags = ["--store", store.as_str()];
    let server = Proc::start_with(&ours, &flags);
    server.stop();
    etcd.kill();
    copy(&data, &saved);
    etcd.restart();
    let mut server = Proc::start_with(&ours, &flags);
    let client = server.client().await;
    let mut highest = 0;
    for n in 0..5 {
        let (code, made) = call(&client, "POST", MAPS, Some(config_map(&format!("m-{n}"), "1"))).await;
        assert_eq!(code, 201, "{made}");
        highest = revision(&made);
    }
    etcd.kill();
    std::fs::remove_dir_all(&data).unwrap();
    copy(&saved, &data);
    etcd.restart();
    let status = server.ended_within(PATIENCE).expect("it stops by itself");
    assert_eq!(status.code(), Some(1), "{}", server.log());
    let log = server.log();
    let line = log.lines().last().unwrap_or_default();
    let says = |line: &str| {
        for part in ["setpoint: ", "etcd is at revision", "has served revision", "--bump-revision 1000000000"]
        {
            assert!(line.contains(part), "{part:?} is not in {line:?}");
        }
        let served: u64 =
            line.split("has served revision ").nth(1).unwrap().split(':').next().unwrap().parse().unwrap();
        assert!(served >= highest, "{line}");
    };
    says(line);
    drop(server);
    says(&no_server(&ours, &flags));
    // Who means it begins anew.
    setpoint(&["reset", "--yes", "--data-dir", text(&ours)]);
    Proc::start_with(&ours, &flags).stop();
}
