use super::*;

fn payload(files: &[(&str, &str)]) -> Payload {
    let file = |text: &str| File { data: text.as_bytes().to_vec(), mode: 0o640, user: None };
    files.iter().map(|(path, text)| ((*path).to_owned(), file(text))).collect()
}

struct Volume {
    folder: tempfile::TempDir,
    env: Env,
}

impl Volume {
    fn new() -> Volume {
        Volume { folder: tempfile::tempdir().unwrap(), env: Env::machine() }
    }
    fn write(&self, files: &[(&str, &str)]) -> bool {
        write(&self.env, self.folder.path(), &payload(files), || Ok(())).unwrap()
    }
    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.folder.path().join(path)).ok()
    }
    fn names(&self) -> Vec<String> {
        let names = fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
    fn data(&self) -> PathBuf {
        fs::read_link(self.folder.path().join(DATA)).unwrap()
    }
}

#[test]
fn files_are_seen_through_one_link_that_is_swapped() {
    let volume = Volume::new();
    assert!(volume.write(&[("a", "1"), ("dir/b", "2")]));
    let first = volume.data();
    assert_eq!((volume.read("a").as_deref(), volume.read("dir/b").as_deref()), (Some("1"), Some("2")));
    assert_eq!(fs::read_link(volume.folder.path().join("dir")).unwrap(), Path::new("..data/dir"));
    let mode = fs::metadata(volume.folder.path().join("a")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o640);

    assert!(!volume.write(&[("a", "1"), ("dir/b", "2")]), "nothing changed");
    assert_eq!(volume.data(), first);

    assert!(volume.write(&[("a", "3"), ("c", "4")]));
    assert_ne!(volume.data(), first);
    assert_eq!((volume.read("a").as_deref(), volume.read("c").as_deref()), (Some("3"), Some("4")));
    assert_eq!(volume.read("dir/b"), None);
    let names = volume.names();
    assert_eq!(names.len(), 4, "the old directory and its links are gone: {names:?}");
}

#[test]
fn a_file_that_goes_is_a_change() {
    let volume = Volume::new();
    volume.write(&[("d/a", "1"), ("d/b", "2")]);
    assert!(volume.write(&[("d/a", "1")]));
    assert_eq!(volume.read("d/b"), None);
    assert_eq!(volume.read("d/a").as_deref(), Some("1"));
    assert!(volume.write(&[]), "all can go");
    assert_eq!(volume.names().len(), 2);
}

#[test]
fn what_a_killed_writer_left_is_removed() {
    let volume = Volume::new();
    volume.write(&[("a", "1")]);
    let left = volume.folder.path().join("..2020_01_01_00_00_00.1");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("a"), "half").unwrap();
    symlink("..2020_01_01_00_00_00.1", volume.folder.path().join(NEW_DATA)).unwrap();
    assert!(volume.write(&[("a", "2")]));
    assert_eq!(volume.read("a").as_deref(), Some("2"));
    assert!(!left.exists());
    assert_eq!(volume.names().len(), 3);
}

#[test]
fn owners_are_set_before_the_files_are_seen() {
    let volume = Volume::new();
    let seen = std::cell::Cell::new(true);
    let own = || {
        seen.set(volume.folder.path().join(DATA).exists());
        Ok(())
    };
    write(&volume.env, volume.folder.path(), &payload(&[("a", "1")]), own).unwrap();
    assert!(!seen.get());
}

#[test]
fn paths_that_lead_elsewhere_are_refused() {
    let long = "n".repeat(256);
    for (path, said) in [
        ("", "invalid path: must not be empty: \"\""),
        ("/a", "invalid path: must be relative path: /a"),
        ("a/../../b", "invalid path: must not contain '..': a/../../b"),
        ("..data", "invalid path: must not start with '..': ..data"),
        ("./..data", "invalid path: must not start with '..': ./..data"),
        (&*long, "invalid path: filenames must be less than or equal to 255 characters"),
        (".", "invalid path: must not be empty: \".\""),
    ] {
        let volume = Volume::new();
        let error =
            write(&volume.env, volume.folder.path(), &payload(&[(path, "x")]), || Ok(())).unwrap_err();
        assert_eq!(error.to_string(), said);
        assert!(volume.names().is_empty());
    }
}
