use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::PathBuf;

use env::Env;

use super::*;
use crate::testing::{Header, MTIME, Tar, folder, gzip, root, zstd};

struct Case {
    home: tempfile::TempDir,
}

impl Case {
    fn new() -> Case {
        Case::at(tempfile::tempdir().unwrap())
    }

    fn at(home: tempfile::TempDir) -> Case {
        for folder in ["outside", "stage/fs"] {
            fs::create_dir_all(home.path().join(folder)).unwrap();
        }
        fs::write(home.path().join("outside/secret"), "secret").unwrap();
        Case { home }
    }

    fn fs(&self) -> PathBuf {
        self.home.path().join("stage/fs")
    }

    fn unpack_with(
        &self,
        blob: &[u8],
        diff_id: &Digest,
        limits: Limits,
        below: &[&std::path::Path],
    ) -> Result<Unpacked, UnpackError> {
        let below = below.iter().map(|path| path.to_path_buf()).collect();
        let layer = Layer { compressed_bytes: blob.len() as u64, diff_id, limits, below };
        unpack(blob, &self.fs(), &self.home.path().join("stage"), layer)
    }

    fn unpack(&self, tar: Tar) -> Result<Unpacked, UnpackError> {
        let plain = tar.bytes();
        self.unpack_with(&plain, &Digest::of(&plain), Limits::default(), &[])
    }

    /// Nothing outside the layer was touched.
    fn check_outside(&self) {
        let names = |path: &str| {
            let mut names: Vec<_> =
                fs::read_dir(self.home.path().join(path)).unwrap().map(|e| e.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(fs::read_to_string(self.home.path().join("outside/secret")).unwrap(), "secret");
        assert_eq!(names("outside"), ["secret"]);
        assert_eq!(names(""), ["outside", "stage"]);
        assert_eq!(names("stage"), ["fs"]);
    }
}

#[test]
fn a_layer_keeps_contents_owners_modes_times_and_links() {
    if !root("a_layer_keeps_contents_owners_modes_times_and_links") {
        return;
    }
    let case = Case::new();
    let owned = Header { path: b"bin/tool", mode: 0o4755, uid: 12, gid: 34, size: 4, ..Header::default() };
    let tar = Tar::default()
        .dir("./", 0o711)
        .dir("bin/", 0o750)
        .entry(&owned, b"tool")
        .link("bin/again", "/bin/tool")
        .symlink("bin/absolute", "/etc/passwd")
        .pax(&[
            ("SCHILY.xattr.user.note", b"x\0y"),
            ("SCHILY.xattr.trusted.overlay.redirect", b"/"),
            ("mtime", b"7.25"),
        ])
        .file("noted", b"noted")
        .pax(&[("path", "a/long/ü name".as_bytes())])
        .file("short", b"long")
        .entry(&Header { kind: b'3', path: b"null", mode: 0o666, device: (1, 3), ..Header::default() }, b"")
        .entry(&Header { kind: b'6', path: b"pipe", mode: 0o600, ..Header::default() }, b"");
    let done = case.unpack(tar).unwrap();
    assert_eq!(done, Unpacked { entries: 9, bytes: 13 });
    let meta = |path: &str| fs::symlink_metadata(case.fs().join(path)).unwrap();
    let tool = meta("bin/tool");
    assert_eq!((tool.uid(), tool.gid(), tool.mode() & 0o7777, tool.mtime()), (12, 34, 0o4755, MTIME));
    assert_eq!(meta("bin/again").ino(), tool.ino());
    assert_eq!((meta("bin").mode() & 0o7777, meta("bin").mtime()), (0o750, MTIME));
    assert_eq!(meta("").mode() & 0o7777, 0o711);
    assert_eq!(fs::read_link(case.fs().join("bin/absolute")).unwrap().to_str(), Some("/etc/passwd"));
    assert_eq!((meta("noted").mtime(), meta("noted").mtime_nsec()), (7, 250_000_000));
    assert_eq!(fs::read(case.fs().join("a/long/ü name")).unwrap(), b"long");
    assert!(meta("null").file_type().is_char_device() && meta("null").rdev() == rustix::fs::makedev(1, 3));
    assert!(meta("pipe").file_type().is_fifo());
    let mut buffer = [0u8; 16];
    let noted = case.fs().join("noted");
    let count = rustix::fs::getxattr(&noted, "user.note", &mut buffer).unwrap();
    assert_eq!(&buffer[..count], b"x\0y");
    assert!(rustix::fs::getxattr(&noted, "trusted.overlay.redirect", &mut buffer).is_err());
    case.check_outside();
}

#[test]
fn whiteouts_become_overlayfs_own() {
    if !root("whiteouts_become_overlayfs_own") {
        return;
    }
    let case = Case::new();
    let tar = Tar::default()
        .file("etc/.wh.gone", b"")
        .dir("opaque", 0o755)
        .file("opaque/kept", b"kept")
        .file("opaque/.wh..wh..opq", b"")
        .file(".wh.replaced", b"")
        .dir("replaced", 0o755)
        .dir("other", 0o755)
        .file(".wh.other", b"")
        .file(".wh..wh.plnk/x", b"")
        .file("stays", b"")
        .file(".wh.stays", b"");
    case.unpack(tar).unwrap();
    let meta = |path: &str| fs::symlink_metadata(case.fs().join(path)).unwrap();
    assert!(meta("etc/gone").file_type().is_char_device() && meta("etc/gone").rdev() == 0);
    assert!(meta("stays").is_file());
    assert!(!case.fs().join(".wh..wh.plnk").exists() && !case.fs().join("etc/.wh.gone").exists());
    for folder in ["opaque", "replaced", "other"] {
        let mut buffer = [0u8; 4];
        let count =
            rustix::fs::getxattr(case.fs().join(folder), "trusted.overlay.opaque", &mut buffer).unwrap();
        assert_eq!(&buffer[..count], b"y", "{folder}");
    }
    assert_eq!(fs::read(case.fs().join("opaque/kept")).unwrap(), b"kept");
}

#[test]
fn no_layer_reaches_out_of_its_directory() {
    if !root("no_layer_reaches_out_of_its_directory") {
        return;
    }
    let outside = |case: &Case| case.home.path().join("outside").to_str().unwrap().to_owned();
    let any = Case::new();
    let out = outside(&any);
    let rows: Vec<(&str, Tar, bool)> = vec![
        ("dots", Tar::default().file("../../outside/new", b"x"), false),
        ("dots in the middle", Tar::default().dir("a", 0o755).file("a/../../../outside/new", b"x"), false),
        ("the parent", Tar::default().dir("..", 0o777), false),
        ("a file as the root", Tar::default().file("./", b"").file(".", b"x"), false),
        ("an absolute name", Tar::default().file(&format!("{out}/new"), b"x"), true),
        ("through an absolute link", Tar::default().symlink("a", &out).file("a/new", b"x"), false),
        ("through a link to the root", Tar::default().symlink("a", "/").file("a/outside/new", b"x"), true),
        ("through a link with dots", Tar::default().symlink("a", "../../outside").file("a/new", b"x"), false),
        (
            "through two links",
            Tar::default().symlink("a", "..").symlink("b", "a/../outside").file("b/new", b"x"),
            false,
        ),
        ("over a link", Tar::default().symlink("a", &format!("{out}/secret")).file("a", b"x"), true),
        (
            "a directory over a link",
            Tar::default().symlink("a", &out).dir("a", 0o700).file("a/new", b"x"),
            true,
        ),
        ("a hard link out", Tar::default().link("a", "../../outside/secret").file("a", b"x"), false),
        ("an absolute hard link", Tar::default().link("a", &format!("{out}/secret")), false),
        (
            "a hard link through a link",
            Tar::default().symlink("a", &out).link("b", "a/secret").file("b", b"x"),
            false,
        ),
        (
            "a hard link to a link, written through",
            Tar::default().symlink("a", &format!("{out}/secret")).link("b", "a").file("b", b"x"),
            true,
        ),
        ("a whiteout above", Tar::default().file(".wh...", b""), false),
        ("a whiteout of itself", Tar::default().file("a/.wh..", b""), false),
        ("a whiteout of nothing", Tar::default().file("a/.wh.", b""), false),
        ("a whiteout through a link", Tar::default().symlink("a", &out).file("a/.wh.secret", b""), false),
        ("opaque through a link", Tar::default().symlink("a", &out).file("a/.wh..wh..opq", b""), false),
        ("magic links", Tar::default().symlink("a", "/proc/self/cwd").file("a/new", b"x"), false),
        ("a NUL", Tar::default().pax(&[("path", b"a\0/../../../outside/new")]).file("a", b"x"), false),
        ("a file as a directory", Tar::default().file("a", b"x").file("a/b", b"x"), false),
        ("a loop of links", Tar::default().symlink("a", "b").symlink("b", "a").file("a/x", b"x"), false),
        ("a hard link to a directory", Tar::default().dir("a", 0o755).link("b", "a"), false),
        ("a hard link to itself", Tar::default().file("a", b"x").link("a", "a"), true),
        (
            "a sparse file",
            Tar::default().entry(&Header { kind: b'S', path: b"a", ..Header::default() }, b""),
            false,
        ),
        (
            "an unknown type",
            Tar::default().entry(&Header { kind: b'V', path: b"a", ..Header::default() }, b""),
            false,
        ),
        ("a name too long", Tar::default().pax(&[("path", &[b'a'; 300])]).file("a", b"x"), false),
        (
            "a path too long",
            Tar::default().pax(&[("path", "a/".repeat(5000).as_bytes())]).dir("a", 0o755),
            false,
        ),
        ("no owner", Tar::default().pax(&[("uid", b"4294967295")]).file("a", b"x"), false),
        ("a negative owner", Tar::default().pax(&[("uid", b"-1")]).file("a", b"x"), false),
    ];
    for (what, tar, works) in rows {
        let case = Case::new();
        let done = case.unpack(tar);
        assert_eq!(done.is_ok(), works, "{what}: {done:?}");
        case.check_outside();
    }
    any.check_outside();
}

#[test]
fn what_is_replaced_goes_however_deep_it_is() {
    if !root("what_is_replaced_goes_however_deep_it_is") {
        return;
    }
    let case = Case::new();
    let deep = "d/".repeat(1500);
    let tar = Tar::default().pax(&[("path", deep.as_bytes())]).dir("x", 0o755).file("d", b"now a file");
    case.unpack(tar).unwrap();
    assert_eq!(fs::read(case.fs().join("d")).unwrap(), b"now a file");
    case.check_outside();
}

#[test]
fn every_compression_is_read_and_every_lie_about_content_is_found() {
    if !root("every_compression_is_read_and_every_lie_about_content_is_found") {
        return;
    }
    let plain = Tar::default().file("a", &[7; 5000]).bytes();
    let diff_id = Digest::of(&plain);
    let skippable = [&[0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3][..], &zstd(&plain)].concat();
    let halves = [gzip(&plain[..700]), gzip(&plain[700..])].concat();
    let frames = [zstd(&plain[..700]), zstd(&plain[700..])].concat();
    let cut = |bytes: &[u8]| bytes[..bytes.len() - 10].to_vec();
    for (what, blob, works) in [
        ("plain", plain.clone(), true),
        ("gzip", gzip(&plain), true),
        ("zstd", zstd(&plain), true),
        ("gzip in two members", halves, true),
        ("zstd in two frames", frames, true),
        ("zstd with another frame before it", skippable, true),
        ("truncated gzip", cut(&gzip(&plain)), false),
        ("truncated zstd", cut(&zstd(&plain)), false),
        ("truncated tar", plain[..3000].to_vec(), false),
        ("a truncated header", plain[..100].to_vec(), false),
        ("nothing", Vec::new(), false),
        ("no tar", vec![7; 4096], false),
        ("other content", Tar::default().file("a", &[8; 5000]).bytes(), false),
        ("content behind the end", [plain.clone(), vec![1]].concat(), false),
    ] {
        let case = Case::new();
        let done = case.unpack_with(&blob, &diff_id, Limits::default(), &[]);
        assert_eq!(done.is_ok(), works, "{what}: {done:?}");
    }
    let case = Case::new();
    let wrong = case.unpack_with(&plain, &Digest::of(b"other"), Limits::default(), &[]).unwrap_err();
    assert!(wrong.to_string().starts_with("wrong diff id calculated on extraction"), "{wrong}");
}

#[test]
fn a_layer_has_bounds() {
    if !root("a_layer_has_bounds") {
        return;
    }
    let zeros = Tar::default().file("zeros", &vec![0; 4 << 20]).bytes();
    let many = (0..50).fold(Tar::default(), |tar, at| tar.file(&format!("f{at}"), b"")).bytes();
    let limits = Limits { entries: 40, bytes: 8 << 20, ratio: 100, ratio_from_bytes: 1 << 20 };
    let rows: [(&str, &[u8], Limits); 4] = [
        ("a zip of zeros", &zeros, limits),
        ("a zip of zeros by zstd", &zeros, limits),
        ("too many bytes", &zeros, Limits { bytes: 1 << 20, ratio: u64::MAX, ..limits }),
        ("too many entries", &many, limits),
    ];
    for (what, plain, limits) in rows {
        let case = Case::new();
        let blob = if what.ends_with("zstd") { zstd(plain) } else { gzip(plain) };
        let error = case.unpack_with(&blob, &Digest::of(plain), limits, &[]).unwrap_err();
        let fits = match what {
            "too many entries" => matches!(error, UnpackError::TooManyEntries(40)),
            _ => matches!(error, UnpackError::TooLarge(_)),
        };
        assert!(fits, "{what}: {error}");
    }
    // A size that lies is found before a disk is filled.
    let case = Case::new();
    let lie = Tar::default().entry(&Header { path: b"a", size: 8 << 30, ..Header::default() }, b"x");
    assert!(case.unpack(lie).is_err());
}

#[test]
fn directories_an_archive_only_implies_are_those_of_the_layer_below() {
    if !root("directories_an_archive_only_implies_are_those_of_the_layer_below") {
        return;
    }
    let lower = Case::new();
    let sticky = Header { kind: b'5', path: b"tmp", mode: 0o1777, uid: 5, gid: 6, ..Header::default() };
    lower.unpack(Tar::default().entry(&sticky, b"").symlink("etc", "tmp")).unwrap();
    let upper = Case::new();
    let plain = Tar::default().file("tmp/new", b"x").file("etc/new", b"x").bytes();
    upper.unpack_with(&plain, &Digest::of(&plain), Limits::default(), &[&lower.fs()]).unwrap();
    let meta = |path: &str| fs::metadata(upper.fs().join(path)).unwrap();
    assert_eq!(
        (meta("tmp").permissions().mode() & 0o7777, meta("tmp").uid(), meta("tmp").gid()),
        (0o1777, 5, 6)
    );
    assert_eq!((meta("tmp").mtime(), meta("etc").permissions().mode() & 0o7777), (MTIME, 0o755));
}

/// Archives with a few bytes changed, checksums repaired, parts cut and doubled: whatever they say, nothing panics and nothing
/// outside changes.
#[test]
fn changed_archives_stay_in_their_directory() {
    if !root("changed_archives_stay_in_their_directory") {
        return;
    }
    let seed = Env::machine().random();
    eprintln!("seed {seed}");
    let mut state = seed;
    let mut below = |bound: usize| {
        // SplitMix64: the seed above gives the same run again.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    };
    let original = Tar::default()
        .dir("a", 0o755)
        .symlink("a/l", "../../outside")
        .file("a/f", b"content")
        .pax(&[("path", b"a/../b/long"), ("SCHILY.xattr.user.x", b"y"), ("mtime", b"1.5")])
        .file("x", b"content")
        .link("a/h", "a/f")
        .file("a/.wh.gone", b"")
        .file("a/.wh..wh..opq", b"")
        .symlink("a/m", "l/secret")
        .file("a/m", b"through")
        .bytes();
    let pieces: [&[u8]; 12] = [
        b"..",
        b"/",
        b"../../outside/secret",
        b"\0",
        b".wh.",
        b".wh..",
        b"1",
        b"2",
        b"5",
        b"x",
        b"99999999999",
        b"\xff\xff",
    ];
    let case = Case::at(folder());
    for _ in 0..1500 {
        let mut tar = original.clone();
        for _ in 0..=below(4) {
            let block = below(tar.len() / 512) * 512;
            match below(6) {
                0 => tar[block + below(512)] = below(256) as u8,
                1 => tar.truncate(block + below(512)),
                2 => tar.extend_from_within(block..),
                _ => {
                    // In a field of a header, or in a PAX record.
                    let at = block + [0, 1, 2, 100, 108, 124, 156, 157, 257][below(9)];
                    for (to, from) in tar[at..].iter_mut().zip(pieces[below(pieces.len())]) {
                        *to = *from;
                    }
                }
            }
            if tar.len() < 512 {
                tar = original.clone();
            }
            if let Some(header) = tar.get_mut(block..block + 512) {
                header[148..156].fill(b' ');
                let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
                header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
            }
        }
        let limits = Limits { entries: 100, bytes: 1 << 20, ratio: 10, ratio_from_bytes: 1 << 20 };
        // Whether it works does not matter.
        let _ = case.unpack_with(&tar, &Digest::of(&tar), limits, &[]);
        case.check_outside();
        fs::remove_dir_all(case.fs()).unwrap();
        fs::create_dir(case.fs()).unwrap();
    }
}
