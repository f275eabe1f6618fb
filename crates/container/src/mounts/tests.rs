use std::fs::File;

use rustix::mount::mount_bind;
use rustix::thread::UnshareFlags;

use super::*;

/// On a thread whose mounts are shared, as on most machines, and nobody else's.
fn on_shared_mounts(test: impl FnOnce(&Path) + Send + 'static) {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: mounts need root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    #[allow(clippy::disallowed_methods, reason = "a namespace is a thread's")]
    let thread = std::thread::spawn(move || {
        #[allow(deprecated)]
        rustix::thread::unshare(UnshareFlags::NEWNS).unwrap();
        for kind in [MountPropagationFlags::PRIVATE, MountPropagationFlags::SHARED] {
            mount_change("/", kind | MountPropagationFlags::REC).unwrap();
        }
        test(&path);
    });
    thread.join().unwrap();
}

/// `host`, a mount in it, and `pod/T` made from it.
fn bound(folder: &Path, sub: bool) -> (PathBuf, PathBuf) {
    let (host, pod) = (folder.join("host"), folder.join("pod/T"));
    std::fs::create_dir_all(host.join("sub")).unwrap();
    std::fs::create_dir_all(&pod).unwrap();
    mount_bind(&host, &pod).unwrap();
    if sub {
        tmpfs(&host.join("sub"), None).unwrap();
        std::fs::write(host.join("sub/precious"), "x").unwrap();
        assert!(pod.join("sub/precious").exists(), "the mounts of this test are not shared");
    }
    (host, pod)
}

#[test]
fn what_the_host_mounts_in_a_volume_stays_when_its_pod_goes() {
    for (end, busy) in
        [(unmount_below as fn(&Path) -> io::Result<()>, true), (detach_below, true), (unmount_below, false)]
    {
        on_shared_mounts(move |folder| {
            let (host, pod) = bound(folder, true);
            let used = busy.then(|| File::open(host.join("sub/precious")).unwrap());
            end(&folder.join("pod")).unwrap();
            assert_eq!(below(&folder.join("pod")).unwrap(), []);
            assert!(host.join("sub/precious").exists());
            assert_eq!(at(&host.join("sub")).unwrap(), Some(FileSystem::Tmpfs));
            assert!(!pod.join("sub").exists());
            drop(used);
        });
    }
}

#[test]
fn the_mount_that_holds_a_path_is_the_one_on_top() {
    on_shared_mounts(|folder| {
        let (host, pod) = bound(folder, true);
        let place = |path: &Path| holding(path).unwrap().unwrap().path;
        assert_eq!(place(&pod), pod);
        assert_eq!(place(&host.join("sub/precious")), host.join("sub"));
        std::os::unix::fs::symlink(host.join("sub"), folder.join("link")).unwrap();
        assert_eq!(place(&folder.join("link")), host.join("sub"));
        tmpfs(&pod, None).unwrap();
        let over = holding(&pod).unwrap().unwrap();
        assert!(over.path == pod && over.file_system == "tmpfs" && over.is_shared(), "{over:?}");
        mount_change(&pod, MountPropagationFlags::PRIVATE).unwrap();
        assert!(!holding(&pod).unwrap().unwrap().is_shared());
        assert!(holding(&host.join("missing")).is_err());
    });
}

#[test]
fn what_is_in_use_stays_mounted_unless_it_is_detached() {
    on_shared_mounts(|folder| {
        let (_, pod) = bound(folder, false);
        let used = File::open(&pod).unwrap();
        let error = unmount_below(folder).unwrap_err().to_string();
        assert!(error.starts_with(&format!("unmount {}: ", pod.display())), "{error}");
        // Nothing is on it, so it was not opened: of a file system whose server is gone, that would fail or block.
        assert!(below(folder).unwrap()[0].peer_group.is_some());
        detach_below(folder).unwrap();
        assert_eq!(below(folder).unwrap(), []);
        drop(used);
    });
}

#[test]
fn what_is_in_use_for_a_moment_is_waited_for() {
    on_shared_mounts(|folder| {
        let (_, pod) = bound(folder, false);
        // As a forked child has it until its exec.
        let used = File::open(&pod).unwrap();
        assert_eq!(unmount(&pod, UnmountFlags::empty()), Err(Errno::BUSY));
        #[allow(clippy::disallowed_methods, reason = "somebody else's")]
        let user = std::thread::spawn(move || {
            std::thread::sleep(BUSY_PAUSE * 3);
            drop(used);
        });
        unmount_below(folder).unwrap();
        assert_eq!(below(folder).unwrap(), []);
        user.join().unwrap();
    });
}

#[test]
fn a_mount_that_covers_what_the_host_shares_is_left_to_people() {
    on_shared_mounts(|folder| {
        let (disk, pod) = (folder.join("disk"), folder.join("pod/T"));
        for path in [&disk, &pod] {
            std::fs::create_dir_all(path).unwrap();
        }
        tmpfs(&disk, None).unwrap();
        mount_bind(&disk, &pod).unwrap();
        // Over the disk, and so over what the pod has of it.
        tmpfs(&disk, None).unwrap();
        let count = |path: &Path| below(path).unwrap().len();
        assert_eq!((count(&disk), count(&pod)), (2, 2));
        for end in [unmount_below, detach_below] {
            let error = end(&pod).unwrap_err().to_string();
            assert!(error.contains("shared with the host"), "{error}");
            assert_eq!((count(&disk), count(&pod)), (2, 2));
        }
        unmount(&disk, UnmountFlags::empty()).unwrap();
        unmount_below(&pod).unwrap();
        assert_eq!((count(&disk), count(&pod)), (1, 0));
    });
}

#[test]
fn what_a_pod_mounts_over_a_volume_of_its_own_goes_with_it() {
    for end in [unmount_below, detach_below] {
        on_shared_mounts(move |folder| {
            let (volume, sub_path) = (folder.join("pod/volumes/m"), folder.join("pod/volume-subpaths/m"));
            for path in [&volume, &sub_path] {
                std::fs::create_dir_all(path).unwrap();
            }
            tmpfs(&volume, None).unwrap();
            mount_bind(&volume, &sub_path).unwrap();
            tmpfs(&volume, None).unwrap();
            let all = below(folder).unwrap();
            assert!(all.len() == 4 && all[0].peer_group.is_some(), "{all:?}");
            end(&folder.join("pod")).unwrap();
            assert_eq!(below(folder).unwrap(), []);
        });
    }
}

#[test]
fn a_link_in_a_volume_leads_to_no_other_mount() {
    on_shared_mounts(|folder| {
        let other = folder.join("other/sub");
        std::fs::create_dir_all(&other).unwrap();
        tmpfs(&other, None).unwrap();
        std::os::unix::fs::symlink("other", folder.join("link")).unwrap();
        assert!(unmount_one(&folder.join("link/sub"), UnmountFlags::empty()).is_err());
        assert!(open(&folder.join("link/sub")).is_err());
        assert_eq!(at(&other).unwrap(), Some(FileSystem::Tmpfs));
    });
}

#[test]
fn mounts_are_read_with_their_odd_names() {
    let table = b"22 28 0:21 / /proc rw,nosuid shared:7 - proc proc rw\n\
        40 28 0:30 /x /a\\040b\\134c rw - tmpfs tmpfs rw,size=64k\n\
        41 40 0:31 / /a\\040b\\134c/d rw shared:1 master:2 - hugetlbfs nodev rw,pagesize=2M\nbroken\n";
    let all: Vec<Mounted> = parse(table).collect();
    let seen: Vec<_> = all.iter().map(|m| (m.path.to_str().unwrap(), m.file_system.as_str())).collect();
    assert_eq!(seen, [("/proc", "proc"), ("/a b\\c", "tmpfs"), ("/a b\\c/d", "hugetlbfs")]);
    let seen: Vec<_> = all.iter().map(|m| (m.id, m.parent, m.peer_group)).collect();
    assert_eq!(seen, [(22, 28, Some(7)), (40, 28, None), (41, 40, Some(1))]);
    assert_eq!(at(Path::new("/proc")).unwrap(), Some(FileSystem::Other));
    assert_eq!(at(Path::new("/proc/self")).unwrap(), None);
    assert_eq!(at(Path::new("/nowhere/at/all")).unwrap(), None);
}
