use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use env::Env;

use super::*;
use crate::testing::registry::describe;
use crate::testing::{Header, Tar, config, gzip, root};
use crate::unpack::Limits;

struct Case {
    home: tempfile::TempDir,
    store: Store,
}

impl Case {
    fn new() -> Case {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(&home.path().join("store"), &Env::machine(), Limits::default()).unwrap();
        Case { home, store }
    }

    fn import(&self, archive: &[u8], name: Option<&str>) -> Result<Vec<Image>, StoreError> {
        let path = self.home.path().join("archive");
        fs::write(&path, archive).unwrap();
        let name = name.map(|name| Reference::parse(name).unwrap());
        import(&self.store, &path, &ImportOptions { name, platform: Platform::current() })
    }

    fn file(&self, image: &Image, path: &str) -> Option<PathBuf> {
        self.store.layers(image).into_iter().map(|layer| layer.join(path)).find(|path| path.exists())
    }
}

/// What `docker save` writes (the older form, with a link to a layer that was there before).
fn docker_archive(layers: &[&[u8]], names: &[&str]) -> Vec<u8> {
    let config = config(layers, "/bin/busybox");
    let mut tar = Tar::default().file("config.json", &config);
    for (at, layer) in layers.iter().enumerate() {
        tar = match layers[..at].iter().position(|before| before == layer) {
            Some(before) => tar.symlink(&format!("{at}/layer.tar"), &format!("../{before}/layer.tar")),
            None => tar.file(&format!("{at}/layer.tar"), layer),
        };
    }
    let paths: Vec<String> = (0..layers.len()).map(|at| format!("{at}/layer.tar")).collect();
    let manifest = serde_json::json!([{"Config": "config.json", "RepoTags": names, "Layers": paths}]);
    tar.file("manifest.json", manifest.to_string().as_bytes()).bytes()
}

fn layout(layers: &[&[u8]], annotations: serde_json::Value) -> Vec<u8> {
    let config = config(layers, "oci");
    let packed: Vec<Vec<u8>> = layers.iter().map(|layer| gzip(layer)).collect();
    let (config_descriptor, descriptors) = describe(&config, &packed);
    let manifest = serde_json::json!({
        "schemaVersion": 2, "mediaType": manifest::OCI_MANIFEST, "config": config_descriptor, "layers": descriptors,
    });
    let manifest = manifest.to_string().into_bytes();
    let index = serde_json::json!({"schemaVersion": 2, "manifests": [{
        "mediaType": manifest::OCI_MANIFEST, "digest": Digest::of(&manifest), "size": manifest.len(), "annotations": annotations,
    }]});
    let mut tar = Tar::default().file("oci-layout", br#"{"imageLayoutVersion": "1.0.0"}"#);
    for blob in packed.iter().chain([&config, &manifest]) {
        tar = tar.pax(&[("path", blob_member(&Digest::of(blob)).as_bytes())]).file("blob", blob);
    }
    tar.file("./index.json", index.to_string().as_bytes()).bytes()
}

#[test]
fn an_image_of_busybox_is_imported_as_docker_saves_it() {
    let busybox = ["/bin/busybox", "/usr/bin/busybox"].iter().find_map(|path| fs::read(path).ok());
    let Some(busybox) = busybox else {
        return eprintln!("skipped: there is no busybox (apt-get install busybox-static)");
    };
    if !root("an_image_of_busybox_is_imported_as_docker_saves_it") {
        return;
    }
    let case = Case::new();
    let size = busybox.len() as u64;
    let header = Header { path: b"bin/busybox", mode: 0o755, size, ..Header::default() };
    let base = Tar::default().dir("bin", 0o755).entry(&header, &busybox).symlink("bin/sh", "busybox").bytes();
    let top = Tar::default().file("etc/hello", b"hello").bytes();
    let archive = docker_archive(&[&base, &top, &top], &["busybox:here", "localhost/other"]);
    for archive in [archive.clone(), gzip(&archive)] {
        let images = case.import(&archive, Some("not-used")).unwrap();
        let [image] = &images[..] else { panic!("{images:?}") };
        let names = ["docker.io/library/busybox:here", "localhost/other:latest"].map(str::to_owned);
        assert_eq!(image.names, BTreeSet::from(names));
        assert_eq!(
            (image.config.entrypoint.clone(), image.layers.len()),
            (vec!["/bin/busybox".to_owned()], 3)
        );
        assert!(image.pulled.is_none());
        let program = case.file(image, "bin/busybox").unwrap();
        assert_eq!(fs::metadata(&program).unwrap().permissions().mode() & 0o777, 0o755);
        let output = std::process::Command::new(program).args(["echo", "it runs"]).output().unwrap();
        assert_eq!(output.stdout, b"it runs\n");
    }
    assert_eq!(case.store.list().unwrap().len(), 1);
}

#[test]
fn an_oci_layout_is_imported_under_the_name_it_has_or_gets() {
    if !root("an_oci_layout_is_imported_under_the_name_it_has_or_gets") {
        return;
    }
    let layer = Tar::default().file("a", b"a").bytes();
    for (annotations, given, name) in [
        (
            serde_json::json!({"io.containerd.image.name": "r.io/a:1", "org.opencontainers.image.ref.name": "1"}),
            None,
            Some("r.io/a:1"),
        ),
        (serde_json::json!({"org.opencontainers.image.ref.name": "r.io/b:2"}), None, Some("r.io/b:2")),
        (serde_json::json!({"org.opencontainers.image.ref.name": "3"}), Some("r.io/c"), Some("r.io/c:3")),
        (serde_json::json!({"org.opencontainers.image.ref.name": "3"}), None, None),
        (serde_json::json!(null), Some("r.io/d:4"), Some("r.io/d:4")),
    ] {
        let case = Case::new();
        let images = case.import(&layout(&[&layer], annotations), given).unwrap();
        let names: Vec<String> = images[0].names.iter().cloned().collect();
        assert_eq!(names, name.into_iter().collect::<Vec<_>>());
        assert_eq!(images[0].digests.len(), names.len());
        assert!(case.file(&images[0], "a").is_some());
    }
}

#[test]
fn broken_archives_are_refused_and_leave_nothing() {
    if !root("broken_archives_are_refused_and_leave_nothing") {
        return;
    }
    let layer = Tar::default().file("a", b"a").bytes();
    let docker = |manifest: &str| {
        Tar::default().file("c", &config(&[&layer], "x")).file("manifest.json", manifest.as_bytes())
    };
    let good = docker_archive(&[&layer], &["a"]);
    let swapped = {
        let other = Tar::default().file("a", b"b").bytes();
        docker(r#"[{"Config": "c", "Layers": ["l"]}]"#).file("l", &other).bytes()
    };
    let evil = Tar::default().file("../../../evil", b"x").bytes();
    for (what, archive) in [
        ("nothing", vec![]),
        ("no archive", b"hello".to_vec()),
        ("an archive of something else", Tar::default().file("x", b"").bytes()),
        ("a cut archive", good[..good.len() - 2000].to_vec()),
        ("no JSON", docker("[{").bytes()),
        ("no layer", docker(r#"[{"Config": "c", "Layers": ["l"]}]"#).bytes()),
        ("too few layers", docker(r#"[{"Config": "c", "Layers": []}]"#).bytes()),
        ("no config", docker(r#"[{"Config": "d", "Layers": []}]"#).bytes()),
        ("a path out", docker(r#"[{"Config": "../../etc/passwd", "Layers": []}]"#).bytes()),
        ("a link out", docker(r#"[{"Config": "d", "Layers": []}]"#).symlink("d", "/etc/passwd").bytes()),
        ("a loop of links", docker(r#"[{"Config": "d", "Layers": []}]"#).symlink("d", "d").bytes()),
        ("a wrong name", docker(r#"[{"Config": "c", "RepoTags": ["A B"], "Layers": []}]"#).bytes()),
        ("another layer", swapped),
        ("an evil layer", docker_archive(&[&evil], &["evil"])),
    ] {
        let case = Case::new();
        assert!(case.import(&archive, None).is_err(), "{what}");
        assert!(case.store.list().unwrap().is_empty(), "{what}");
        let left = fs::read_dir(case.home.path().join("store/tmp")).unwrap().count();
        assert_eq!(left, 0, "{what}");
    }
    // Of a layout, every blob is checked: here one letter of the config is another.
    let mut archive = layout(&[&layer], serde_json::json!({}));
    let at = archive.windows(5).position(|bytes| bytes == b"\"oci\"").unwrap();
    archive[at + 1] = b'x';
    assert!(matches!(Case::new().import(&archive, None), Err(StoreError::Digest(_))));
}
