//! Who a container runs as, in numbers, for its status: as its image's own files have it.

use std::io::Read;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, OFlags};

use super::{Parts, layers, process};

/// A file of users is read up to here.
const MOST_BYTES: u64 = 4 << 20;

/// `None`: it names a user whom only its mounts may know.
pub fn resolve(parts: &Parts<'_>) -> Option<cri::LinuxContainerUser> {
    let user = process::user(&parts.context(), &parts.image.config.user).ok()?;
    let layers = parts.runtime.images.layers(parts.image);
    let name = if user.user.is_empty() { "0" } else { &user.user };
    let needs_files = name.parse::<i64>().is_err()
        || user.group.parse::<i64>().is_err()
        || (user.merge_groups && name != "0");
    let (passwd, groups) = if needs_files {
        (read(&layers, "etc/passwd"), read(&layers, "etc/group"))
    } else {
        Default::default()
    };
    let entry = passwd
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|fields| fields.len() >= 4 && (fields[0] == name || fields[2] == name));
    let field = |at: usize| entry.as_ref().and_then(|fields| fields.get(at)?.parse::<i64>().ok());
    let uid = name.parse().ok().or_else(|| field(2))?;
    let group_fields =
        || groups.lines().map(|line| line.split(':').collect::<Vec<_>>()).filter(|f| f.len() >= 3);
    let gid = match &*user.group {
        "" => field(3).unwrap_or(0),
        group => group.parse().ok().or_else(|| {
            group_fields().find(|fields| fields[0] == group).and_then(|fields| fields[2].parse().ok())
        })?,
    };
    let mut all: Vec<i64> = user.additional_groups.iter().map(|group| i64::from(*group)).collect();
    if user.merge_groups
        && let Some(name) = entry.as_ref().map(|fields| fields[0])
    {
        let listed =
            group_fields().filter(|f| f.get(3).is_some_and(|members| members.split(',').any(|m| m == name)));
        all.extend(listed.filter_map(|fields| fields[2].parse::<i64>().ok()));
    }
    all.push(gid);
    all.sort_unstable();
    all.dedup();
    Some(cri::LinuxContainerUser { uid, gid, supplemental_groups: all })
}

/// Of the topmost layer that has it.
fn read(layers: &[PathBuf], path: &str) -> String {
    let open = |layer: &PathBuf| {
        // An image may have a pipe there, which would never open.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = layers::open(layer, Path::new(path), flags)?;
        let stat = rustix::fs::fstat(&file).ok()?;
        (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then(|| std::fs::File::from(file))
    };
    let mut text = Vec::new();
    if let Some(file) = layers.iter().find_map(open) {
        let _ = file.take(MOST_BYTES).read_to_end(&mut text);
    }
    String::from_utf8_lossy(&text).into_owned()
}
