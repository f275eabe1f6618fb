//! `setpoint image` with real archives and Debian's registry. Needs root, as images have owners and devices.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::cli::refused;
use crate::harness::*;

pub fn can_run() -> bool {
    let root =
        std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if !root {
        skipped("unpacking images needs root");
    }
    root && available("busybox") && available("tar")
}

pub fn image(data: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(SETPOINT);
    let output = run(command.arg("image").args(words).arg("--data-dir").arg(data));
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn sha256(content: &[u8]) -> String {
    use std::io::Write;
    let mut child = Command::new("sha256sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(content).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap().split(' ').next().unwrap().to_owned()
}

/// A layer with busybox, and the config of an image of it.
fn busybox(folder: &Path, command: &[&str]) -> (Vec<u8>, Vec<u8>) {
    std::fs::create_dir_all(folder.join("layer/bin")).unwrap();
    std::fs::copy("/bin/busybox", folder.join("layer/bin/busybox")).unwrap();
    for applet in ["sh", "tar", "true"] {
        // Made once for each folder.
        let _ = std::os::unix::fs::symlink("busybox", folder.join("layer/bin").join(applet));
    }
    let layer = folder.join("layer.tar");
    let mut tar = Command::new("tar");
    // The same bytes whenever it is made: names of one image are names of one image.
    let packed =
        run(tar.args(["--mtime=@0", "-cf"]).arg(&layer).arg("-C").arg(folder.join("layer")).arg("bin"));
    assert!(packed.status.success());
    let layer = std::fs::read(layer).unwrap();
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let config = serde_json::json!({
        "architecture": architecture, "os": "linux", "config": {"Cmd": command, "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", sha256(&layer))]},
    });
    (layer, config.to_string().into_bytes())
}

/// What `docker save` writes.
pub fn archive(folder: &Path, name: &str) -> std::path::PathBuf {
    archive_of(folder, name, &["/bin/busybox", "sh"])
}

/// The same of an image that runs something else.
pub fn archive_of(folder: &Path, name: &str, command: &[&str]) -> std::path::PathBuf {
    let (layer, config) = busybox(folder, command);
    let manifest = serde_json::json!([{"Config": "config.json", "RepoTags": [name], "Layers": ["one.tar"]}]);
    let saved = folder.join("saved");
    std::fs::create_dir_all(&saved).unwrap();
    std::fs::write(saved.join("one.tar"), layer).unwrap();
    std::fs::write(saved.join("config.json"), config).unwrap();
    std::fs::write(saved.join("manifest.json"), manifest.to_string()).unwrap();
    let file = folder.join("image.tar");
    let mut tar = Command::new("tar");
    let packed = run(tar.arg("-cf").arg(&file).arg("-C").arg(&saved).args([
        "manifest.json",
        "config.json",
        "one.tar",
    ]));
    assert!(packed.status.success());
    file
}

#[test]
fn images_are_imported_listed_and_removed() {
    if !can_run() {
        return;
    }
    let folder = folder();
    let data = folder.path().join("data");
    assert_eq!(text(&image(&data, &["list"])), "IMAGE   TAG   IMAGE ID   SIZE   ADDED\n");
    let file = archive(folder.path(), "example.com:5000/tools/busybox:1.36");
    let imported = text(&image(&data, &["import", file.to_str().unwrap()]));
    assert!(imported.starts_with("Imported example.com:5000/tools/busybox:1.36 ("), "{imported}");
    let listed = text(&image(&data, &["list"]));
    let row: Vec<&str> = listed.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!((row.len(), row[0], row[1]), (5, "example.com:5000/tools/busybox", "1.36"), "{listed}");
    let id = text(&image(&data, &["list", "--quiet"])).trim().to_owned();
    assert!(id.starts_with(&format!("sha256:{}", row[2])), "{id}");
    // What a container was made of stays, whatever its record holds besides.
    let container = data.join("node/containers/0123456789abcdef");
    std::fs::create_dir_all(&container).unwrap();
    std::fs::write(container.join("record"), [b"\x2a\x47", id.as_bytes(), b"\xff"].concat()).unwrap();
    let dir = data.to_str().unwrap();
    let error = refused(["image", "rm", row[2], "--data-dir", dir]);
    assert!(error.contains("is used by a container; delete its pod first"), "{error}");
    assert_eq!(text(&image(&data, &["prune"])), "Removed 0 images (0B freed).\n");
    std::fs::remove_dir_all(&container).unwrap();
    let removed = text(&image(&data, &["rm", "example.com:5000/tools/busybox:1.36"]));
    assert!(removed.starts_with("Removed example.com:5000/tools/busybox:1.36 ("), "{removed}");
    assert_eq!(text(&image(&data, &["list", "-q"])), "");
    image(&data, &["import", file.to_str().unwrap(), "--name", "other:1"]);
    assert!(text(&image(&data, &["prune"])).starts_with("Removed 1 images ("));
    let left = std::fs::read_dir(data.join("node/images/layers")).unwrap().count();
    assert_eq!(left, 0);
}

#[test]
fn what_is_no_image_is_refused_in_one_line() {
    if !can_run() {
        return;
    }
    let folder = folder();
    let data = folder.path().join("data");
    let dir = data.to_str().unwrap();
    let junk = folder.path().join("junk");
    std::fs::write(&junk, "junk").unwrap();
    for (words, says) in [
        (vec!["import", "/no/such/file"], "cannot read /no/such/file"),
        (vec!["import", junk.to_str().unwrap()], "cannot import"),
        (vec!["rm", "nothing:1"], "image \"nothing:1\" not found"),
        (vec!["pull", "UPPER"], "repository name"),
        (vec!["pull", "127.0.0.1:1/app:1"], "connection refused"),
        (vec!["pull", "app", "--auth-file", "/no/such/file"], "--auth-file /no/such/file"),
        (vec!["pull", "app", "--auth-file", junk.to_str().unwrap()], "~/.docker/config.json"),
    ] {
        let error = refused(["image"].into_iter().chain(words).chain(["--data-dir", dir]));
        assert!(error.contains(says), "{error}");
    }
}

/// Debian's registry on loopback; killed when dropped.
pub struct Registry {
    process: Child,
    pub address: String,
    /// Closed, it would end.
    _log: BufReader<std::process::ChildStderr>,
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Registry {
    pub fn start(folder: &Path) -> Registry {
        Registry::start_with(folder, "")
    }

    /// One that asks for a user of this `htpasswd` file.
    pub fn start_for(folder: &Path, users: &str) -> Registry {
        let file = folder.join("htpasswd");
        std::fs::write(&file, users).unwrap();
        Registry::start_with(
            folder,
            &format!("auth: {{htpasswd: {{realm: test, path: {}}}}}\n", file.display()),
        )
    }

    fn start_with(folder: &Path, more: &str) -> Registry {
        let config = folder.join("config.yml");
        let root = folder.join("registry");
        let text = format!(
            "version: 0.1\nlog: {{level: info, formatter: json}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\n\
             http: {{addr: '127.0.0.1:0'}}\n{more}",
            root.display()
        );
        std::fs::write(&config, text).unwrap();
        let mut process = Command::new("docker-registry")
            .arg("serve")
            .arg(&config)
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap());
        let address = log.by_ref().lines().find_map(|line| {
            let line = line.ok()?;
            let at = line.split("listening on ").nth(1)?;
            Some(at.chars().take_while(|c| c.is_ascii_digit() || ".:".contains(*c)).collect())
        });
        Registry { process, address: address.expect("it says where it listens"), _log: log }
    }
}

/// Lays an image into the registry's folder, as it keeps them itself.
pub fn lay(folder: &Path, repository: &str, tag: &str) {
    let (layer, config) = busybox(folder, &["/bin/busybox", "sh"]);
    lay_image(folder, repository, tag, &layer, &config);
}

/// The folder of a registry.
struct Shelf {
    root: std::path::PathBuf,
    repository: String,
}

impl Shelf {
    fn new(folder: &Path, repository: &str) -> Shelf {
        Shelf { root: folder.join("registry/docker/registry/v2"), repository: repository.to_owned() }
    }

    fn write(&self, path: &str, content: &[u8]) {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn link(&self, path: &str, hex: &str) {
        let path = format!("repositories/{}/{path}/link", self.repository);
        self.write(&path, format!("sha256:{hex}").as_bytes());
    }

    fn put(&self, content: &[u8]) -> String {
        let hex = sha256(content);
        self.write(&format!("blobs/sha256/{}/{hex}/data", &hex[..2]), content);
        self.link(&format!("_layers/sha256/{hex}"), &hex);
        hex
    }

    fn describe(&self, kind: &str, content: &[u8]) -> serde_json::Value {
        let digest = format!("sha256:{}", self.put(content));
        serde_json::json!({"mediaType": kind, "size": content.len(), "digest": digest})
    }

    fn revision(&self, manifest: &serde_json::Value) -> String {
        let hex = self.put(manifest.to_string().as_bytes());
        self.link(&format!("_manifests/revisions/sha256/{hex}"), &hex);
        hex
    }

    fn tag(&self, tag: &str, hex: &str) {
        self.link(&format!("_manifests/tags/{tag}/current"), hex);
        self.link(&format!("_manifests/tags/{tag}/index/sha256/{hex}"), hex);
    }
}

fn manifest(shelf: &Shelf, layer: &[u8], config: &[u8]) -> serde_json::Value {
    let kind = if layer.starts_with(&[0x1f, 0x8b]) { "tar+gzip" } else { "tar" };
    serde_json::json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": shelf.describe("application/vnd.oci.image.config.v1+json", config),
        "layers": [shelf.describe(&format!("application/vnd.oci.image.layer.v1.{kind}"), layer)],
    })
}

/// The same of any layer, whatever it holds.
pub fn lay_image(folder: &Path, repository: &str, tag: &str, layer: &[u8], config: &[u8]) {
    let shelf = Shelf::new(folder, repository);
    let hex = shelf.revision(&manifest(&shelf, layer, config));
    shelf.tag(tag, &hex);
}

/// An image for one platform only.
pub fn lay_index(folder: &Path, repository: &str, tag: &str, architecture: &str) {
    let (layer, config) = busybox(folder, &["/bin/busybox", "sh"]);
    let shelf = Shelf::new(folder, repository);
    let manifest = manifest(&shelf, &layer, &config);
    let (hex, size) = (shelf.revision(&manifest), manifest.to_string().len());
    let index = serde_json::json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [{
            "mediaType": manifest["mediaType"], "size": size, "digest": format!("sha256:{hex}"),
            "platform": {"architecture": architecture, "os": "linux"},
        }],
    });
    let hex = shelf.revision(&index);
    shelf.tag(tag, &hex);
}

/// The config of an image of one layer, given unpacked.
pub fn config_of(layer: &[u8]) -> Vec<u8> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let config = serde_json::json!({
        "architecture": architecture, "os": "linux", "config": {"Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", sha256(layer))]},
    });
    config.to_string().into_bytes()
}

#[test]
fn images_are_pulled_beside_each_other() {
    if !can_run() || !available("docker-registry") {
        return;
    }
    let folder = folder();
    let data = folder.path().join("data");
    lay(folder.path(), "me/busybox", "1");
    lay(folder.path(), "me/other", "2");
    let registry = Registry::start(folder.path());
    let names = [format!("{}/me/busybox:1", registry.address), format!("{}/me/other:2", registry.address)];
    // Several processes on one store: whichever is first, all names are there at the end.
    std::thread::scope(|scope| {
        for name in names.iter().chain(&names) {
            let data = &data;
            scope.spawn(move || {
                let output = image(data, &["pull", name]);
                assert!(text(&output).starts_with(&format!("Pulled {name} (")), "{}", text(&output));
            });
        }
    });
    let listed = text(&image(&data, &["ls"]));
    assert_eq!(listed.lines().count(), 3, "{listed}");
    let output = image(&data, &["rm", &names[0]]);
    assert_eq!(text(&output), format!("Removed the name {}.\n", names[0]));
    assert!(text(&image(&data, &["prune"])).starts_with("Removed 1 images ("));
    let missing = format!("{}/me/busybox:9", registry.address);
    let error = refused(["image", "pull", &missing, "--data-dir", data.to_str().unwrap()]);
    assert!(error.contains(&format!("{missing}: not found")), "{error}");
}
