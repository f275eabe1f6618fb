use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::slice::from_ref;
use std::time::Duration;

use super::*;
use crate::keyring::{Credential, Login, SecretSource};
use crate::testing::{Tar, config, folder, root};

struct Case {
    home: tempfile::TempDir,
    env: Env,
}

impl Case {
    fn new() -> Case {
        Case { home: folder(), env: Env::machine() }
    }

    fn open(&self) -> Store {
        Store::open(self.home.path(), &self.env, Limits::default()).unwrap()
    }

    /// Enters an image of these layers.
    fn add(
        &self,
        store: &Store,
        name: &str,
        layers: &[&[u8]],
        pulled_by: Option<PulledBy>,
    ) -> Result<Image, StoreError> {
        let reference = Reference::parse(name).unwrap();
        let config = config(layers, name);
        let diff_ids: Vec<Digest> = layers.iter().map(|layer| Digest::of(layer)).collect();
        for (at, layer) in layers.iter().enumerate() {
            store.unpack_layer(&diff_ids[..at], &diff_ids[at], *layer, layer.len() as u64)?;
        }
        store.enter(NewImage {
            config_blob: &config,
            manifest: None,
            names: from_ref(&reference),
            content_bytes: 1,
            pulled_by: pulled_by.map(|by| (reference.name(), by)),
        })
    }

    fn names(&self, folder: &str) -> BTreeSet<String> {
        let entries = fs::read_dir(self.home.path().join(folder)).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

fn layer(name: &str, size: usize) -> Vec<u8> {
    Tar::default().file(name, &vec![1; size]).bytes()
}

/// Layers stacked by the kernel, as a container sees them.
struct Mounted(PathBuf);

impl Mounted {
    fn new(store: &Store, image: &Image, at: &Path) -> Option<Mounted> {
        use std::ffi::CString;
        fs::create_dir_all(at).unwrap();
        let layers: Vec<String> = store.layers(image).iter().map(|path| path.display().to_string()).collect();
        let options = CString::new(format!("lowerdir={}", layers.join(":"))).unwrap();
        let mounted = rustix::mount::mount(
            "overlay",
            at,
            "overlay",
            rustix::mount::MountFlags::RDONLY,
            options.as_c_str(),
        );
        mounted
            .map(|()| Mounted(at.to_owned()))
            .inspect_err(|error| eprintln!("skipped: no overlayfs here: {error}"))
            .ok()
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.0.join(folder)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH).unwrap();
    }
}

#[test]
fn layers_stack_as_the_image_means_them() {
    if !root("layers_stack_as_the_image_means_them") {
        return;
    }
    let case = Case::new();
    let store = case.open();
    let base = Tar::default()
        .dir("etc", 0o755)
        .file("etc/gone", b"")
        .file("etc/changed", b"old")
        .file("etc/kept", b"kept")
        .file("cache/a", b"")
        .file("cache/b", b"")
        .file("replaced/old", b"")
        .file("file", b"a file");
    let middle = Tar::default()
        .file("etc/.wh.gone", b"")
        .file("etc/changed", b"new")
        .dir("cache", 0o700)
        .file("cache/.wh..wh..opq", b"")
        .file("cache/c", b"")
        .file(".wh.replaced", b"")
        .dir("replaced", 0o755)
        .file("replaced/new", b"");
    let top = Tar::default()
        .dir("file", 0o755)
        .file("file/now", b"a folder")
        .file("etc/gone", b"back")
        .link("etc/same", "etc/gone");
    let layers = [base.bytes(), middle.bytes(), top.bytes()];
    let image = case.add(&store, "a", &[&layers[0], &layers[1], &layers[2]], None).unwrap();
    let Some(mounted) = Mounted::new(&store, &image, &case.home.path().join("merged")) else { return };
    assert_eq!(mounted.names(""), ["cache", "etc", "file", "replaced"]);
    assert_eq!(mounted.names("etc"), ["changed", "gone", "kept", "same"]);
    assert_eq!(
        (mounted.names("cache"), mounted.names("replaced"), mounted.names("file")),
        (vec!["c".into()], vec!["new".into()], vec!["now".into()])
    );
    let read = |path: &str| fs::read_to_string(mounted.0.join(path)).unwrap();
    assert_eq!(
        (read("etc/changed"), read("etc/gone"), read("etc/same"), read("etc/kept")),
        ("new".into(), "back".into(), "back".into(), "kept".into())
    );
    // The middle layer alone still hides what the base had.
    let half = case.add(&store, "b", &[&layers[0], &layers[1]], None).unwrap();
    let half = Mounted::new(&store, &half, &case.home.path().join("half")).unwrap();
    assert_eq!(half.names("etc"), ["changed", "kept"]);
}

fn find(store: &Store, name: &str) -> Option<Image> {
    store.find(&Reference::parse(name).unwrap()).unwrap()
}

#[test]
fn images_share_layers_and_give_them_back_with_the_last() {
    if !root("images_share_layers_and_give_them_back_with_the_last") {
        return;
    }
    let case = Case::new();
    let store = case.open();
    let (base, one, two) = (layer("base", 1000), layer("one", 10), layer("two", 20));
    let first = case.add(&store, "a:1", &[&base, &one], None).unwrap();
    let second = case.add(&store, "b:1", &[&base, &two], None).unwrap();
    assert_eq!((first.disk_bytes, second.disk_bytes, store.used_bytes().unwrap()), (1010, 1020, 1030));
    assert_eq!(case.names("layers").len(), 3);
    let dirs = store.layers(&first);
    assert!(dirs[0].join("one").is_file() && dirs[1].join("base").is_file(), "the topmost first");
    assert_eq!(first.config.entrypoint, ["a:1"]);
    assert_eq!(first.names, BTreeSet::from(["docker.io/library/a:1".to_owned()]));

    let in_use = BTreeSet::from([first.id.clone()]);
    assert!(matches!(store.remove("a:1", &in_use), Err(StoreError::InUse(id)) if id == first.id));
    let pruned = store.remove("b:1", &in_use).unwrap();
    assert_eq!(pruned.images, [second.id]);
    assert_eq!(case.names("layers").len(), 2);
    store.remove(first.id.as_str(), &BTreeSet::new()).unwrap();
    assert!(
        case.names("layers").is_empty()
            && case.names("blobs/sha256").is_empty()
            && case.names("tmp").is_empty()
    );
    assert!(matches!(store.remove("a:1", &BTreeSet::new()), Err(StoreError::NotFound(_))));
}

#[test]
fn a_tag_means_the_last_image_it_was_given_to() {
    if !root("a_tag_means_the_last_image_it_was_given_to") {
        return;
    }
    let case = Case::new();
    let store = case.open();
    let old = case.add(&store, "a", &[&layer("old", 1)], None).unwrap();
    let new = case.add(&store, "a", &[&layer("new", 1)], None).unwrap();
    assert_eq!(find(&store, "docker.io/library/a:latest").unwrap().id, new.id);
    assert!(store.get(&old.id).unwrap().unwrap().names.is_empty());
    // A second name, and one of them is taken away.
    let again = case.add(&store, "a", &[&layer("new", 1)], None).unwrap();
    assert_eq!(again.id, new.id);
}

#[test]
fn the_longest_unused_go_first_until_there_is_room() {
    if !root("the_longest_unused_go_first_until_there_is_room") {
        return;
    }
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut case = Case::new();
        case.env = Env::simulated(1);
        let store = case.open();
        let pass = Duration::from_secs(60);
        let mut ids = Vec::new();
        for name in ["a", "b", "c", "d"] {
            ids.push(case.add(&store, name, &[&layer(name, 100)], None).unwrap().id);
            case.env.sleep(pass).await;
        }
        store.touch(&ids[0]);
        let in_use = BTreeSet::from([ids[1].clone()]);
        // `a` was used last, `b` is in use: `c` it is, and no more than asked for.
        assert_eq!(store.prune(50, Duration::ZERO, &in_use).unwrap().images, [ids[2].clone()]);
        // `d` is too young.
        let pruned = store.prune(u64::MAX, Duration::from_secs(120), &in_use).unwrap();
        assert_eq!(pruned.images, [ids[0].clone()]);
        assert!(pruned.freed_bytes >= 100);
        assert_eq!(store.list().unwrap().len(), 2);
    });
}

#[test]
fn what_a_crash_left_is_gone_after_the_next_start() {
    if !root("what_a_crash_left_is_gone_after_the_next_start") {
        return;
    }
    let case = Case::new();
    let store = case.open();
    let (good, broken) = (layer("good", 10), layer("broken", 10));
    case.add(&store, "good", &[&good], None).unwrap();
    let lost = case.add(&store, "broken", &[&broken], None).unwrap();
    drop(store);
    let at = |path: &str| case.home.path().join(path);
    fs::create_dir_all(at("tmp/half/fs/deep")).unwrap();
    fs::write(at("tmp/blob"), "half").unwrap();
    fs::create_dir_all(at("layers/orphan/fs")).unwrap();
    fs::write(at(&format!("blobs/sha256/{}", "0".repeat(64))), "orphan").unwrap();
    // A layer without its record was never whole.
    fs::remove_file(at(&format!("layers/{}/layer.json", lost.layers[0].hex()))).unwrap();
    let store = case.open();
    assert!(find(&store, "good").is_some() && find(&store, "broken").is_none());
    assert!(case.names("tmp").is_empty());
    assert_eq!((case.names("layers").len(), case.names("blobs/sha256").len()), (1, 1));
    // Another process works with it: its things stay.
    fs::write(at("tmp/theirs"), "").unwrap();
    let second = case.open();
    assert_eq!(case.names("tmp"), BTreeSet::from(["theirs".to_owned()]));
    // And both see what the other does.
    case.add(&second, "new", &[&good], None).unwrap();
    assert!(find(&store, "new").is_some());
    drop((store, second));
    fs::write(at("index.json"), "{broken").unwrap();
    assert!(case.open().list().unwrap().is_empty());
}

#[test]
fn a_layer_that_was_not_synced_does_not_survive_a_reboot() {
    if !root("a_layer_that_was_not_synced_does_not_survive_a_reboot") {
        return;
    }
    let case = Case::new();
    let (synced, unsynced) = (layer("synced", 10), layer("unsynced", 10));
    let store = case.open();
    case.add(&store, "synced", &[&synced], None).unwrap();
    store.sync_layers().unwrap();
    case.add(&store, "unsynced", &[&unsynced], None).unwrap();
    drop(store);
    let store = case.open();
    assert!(
        find(&store, "synced").is_some() && find(&store, "unsynced").is_some(),
        "the power was never away"
    );
    drop(store);
    for name in case.names("layers") {
        let path = case.home.path().join("layers").join(name).join("layer.json");
        let mut record: LayerRecord = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        record.boot = "another".to_owned();
        fs::write(&path, serde_json::to_vec(&record).unwrap()).unwrap();
    }
    let store = case.open();
    assert!(find(&store, "synced").is_some() && find(&store, "unsynced").is_none());
    assert_eq!(case.names("layers").len(), 1);
}

#[test]
fn a_layer_that_fails_leaves_nothing() {
    if !root("a_layer_that_fails_leaves_nothing") {
        return;
    }
    let case = Case::new();
    let store = case.open();
    let bad = Tar::default().dir("a", 0o755).file("a/b", b"x").file("../c", b"x").bytes();
    let error = case.add(&store, "bad", &[&bad], None).unwrap_err();
    assert!(error.to_string().contains("leads out of the layer"), "{error}");
    assert!(case.names("tmp").is_empty() && case.names("layers").is_empty());
    // An image is not entered without its layers.
    let config = config(&[&bad], "x");
    let new =
        NewImage { config_blob: &config, manifest: None, names: &[], content_bytes: 0, pulled_by: None };
    assert!(matches!(store.enter(new), Err(StoreError::Missing(_))));
    assert!(store.list().unwrap().is_empty());
}

#[test]
fn blobs_are_checked_before_they_get_their_name() {
    let case = Case::new();
    let store = case.open();
    let descriptor = |content: &[u8], size: u64| crate::manifest::Descriptor {
        media_type: String::new(),
        digest: Digest::of(content),
        size,
        platform: None,
        annotations: Default::default(),
    };
    for (content, size, works) in
        [(&b"right"[..], 5, true), (b"wrong", 5, false), (b"righ", 5, false), (b"right!", 5, false)]
    {
        let mut writer = store.write_descriptor(&descriptor(b"right", size)).unwrap();
        let written = writer.write(content).and_then(|()| writer.finish());
        assert_eq!(written.is_ok(), works, "{content:?}");
        assert_eq!(store.has_blob(&Digest::of(b"right")), works);
        store.remove_blob(&Digest::of(b"right")).unwrap();
        assert!(case.names("tmp").is_empty());
    }
    // What the disk changed afterwards is not believed.
    let digest = store.put_blob(b"config").unwrap();
    fs::write(store.blob_path(&digest), "c0nfig").unwrap();
    assert!(matches!(store.read_blob(&digest), Err(StoreError::Digest(_))));
}

fn credential(secret: &str, password: &str) -> Credential {
    Credential {
        login: Login { username: "u".into(), password: password.into(), ..Login::default() },
        source: Some(SecretSource {
            namespace: "ns".into(),
            name: secret.into(),
            uid: format!("uid-{secret}"),
        }),
    }
}

#[test]
fn whose_credentials_opened_an_image_is_written_down() {
    if !root("whose_credentials_opened_an_image_is_written_down") {
        return;
    }
    let case = Case::new();
    let store = case.open();
    let content = layer("x", 1);
    let by = |credential: Option<&Credential>| Some(PulledBy::from_credential(credential));
    let opened = |name: &str| {
        let image = find(&store, name).unwrap();
        let of = image.pulled.and_then(|pulled| pulled.get(name).cloned());
        of.map(|of| match of {
            PulledBy::Secrets(list) => list.into_iter().map(|secret| secret.source.name).collect::<Vec<_>>(),
            PulledBy::Node => vec!["the node".to_owned()],
        })
    };
    case.add(&store, "r.io/a", &[&content], None).unwrap();
    assert_eq!(opened("r.io/a"), None, "imported");
    for name in ["one", "other"] {
        case.add(&store, "r.io/a", &[&content], by(Some(&credential(name, "p")))).unwrap();
    }
    drop(case.open());
    assert_eq!(opened("r.io/a").unwrap(), ["one", "other"]);
    // From another repository it is another question, even for the same content.
    let config = fs::read(store.blob_path(&find(&store, "r.io/a").unwrap().id)).unwrap();
    let names = [Reference::parse("q.io/a").unwrap()];
    let new =
        NewImage { config_blob: &config, manifest: None, names: &names, content_bytes: 1, pulled_by: None };
    store.enter(new).unwrap();
    assert_eq!(opened("q.io/a"), None);
    // Pulled once without credentials, it is for all.
    case.add(&store, "r.io/a", &[&content], by(None)).unwrap();
    assert_eq!(opened("r.io/a").unwrap(), ["the node"]);
}

#[test]
fn chain_ids_are_ocis() {
    let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
    assert_eq!(layer::chain_ids(from_ref(&a)), from_ref(&a));
    let chain = Digest::of(format!("{a} {b}").as_bytes());
    assert_eq!(layer::chain_ids(&[a.clone(), b.clone()]), [a, chain]);
}

#[test]
fn a_store_is_for_its_owner() {
    use std::os::unix::fs::PermissionsExt;
    let case = Case::new();
    let path: PathBuf = case.home.path().join("new/store");
    drop(Store::open(&path, &case.env, Limits::default()).unwrap());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
}
