//! Who the process is: users and groups by the container's own files, then capabilities.

use std::collections::BTreeSet;

use rustix::process::{Gid, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::{Context, StartError};
use crate::config::{Process, User};

pub struct ResolvedUser {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
    pub home: String,
}

/// A file of users is read up to here.
const MOST_BYTES: u64 = 4 << 20;

pub fn resolve(user: &User) -> Result<ResolvedUser, StartError> {
    resolve_with(user, &read("/etc/passwd"), &read("/etc/group"))
}

fn read(path: &str) -> String {
    use std::io::Read;
    use std::os::unix::fs::OpenOptionsExt;
    let mut text = Vec::new();
    // An image may have a pipe there, which would never open.
    let mut options = std::fs::File::options();
    options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    if let Ok(file) = options.open(path)
        && file.metadata().is_ok_and(|metadata| metadata.is_file())
    {
        let _ = file.take(MOST_BYTES).read_to_end(&mut text);
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn resolve_with(user: &User, passwd: &str, group: &str) -> Result<ResolvedUser, StartError> {
    let number = user.user.parse::<u32>().ok();
    let entry = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|fields| {
        fields.len() >= 4
            && match number {
                Some(uid) => fields[2].parse() == Ok(uid),
                None => fields[0] == if user.user.is_empty() { "root" } else { &user.user },
            }
    });
    let field = |at: usize| entry.as_ref().and_then(|fields| fields.get(at).copied());
    let uid = match (number, field(2).and_then(|text| text.parse().ok())) {
        (Some(uid), _) | (None, Some(uid)) => uid,
        (None, None) if user.user.is_empty() => 0,
        (None, None) => {
            return Err(StartError(format!(
                "unable to find user {}: no matching entries in passwd file",
                user.user
            )));
        }
    };
    let groups = || group.lines().map(|line| line.split(':').collect::<Vec<_>>()).filter(|f| f.len() >= 3);
    let gid = if user.group.is_empty() {
        field(3).and_then(|text| text.parse().ok()).unwrap_or(0)
    } else if let Ok(gid) = user.group.parse() {
        gid
    } else {
        let found = groups().find(|fields| fields[0] == user.group);
        found.and_then(|fields| fields[2].parse().ok()).ok_or_else(|| {
            StartError(format!("unable to find group {}: no matching entries in group file", user.group))
        })?
    };
    let mut all: BTreeSet<u32> = user.additional_groups.iter().copied().collect();
    if user.merge_groups
        && let Some(name) = field(0)
    {
        let listed =
            groups().filter(|f| f.get(3).is_some_and(|members| members.split(',').any(|m| m == name)));
        all.extend(listed.filter_map(|fields| fields[2].parse::<u32>().ok()));
    }
    // The primary group is among the supplementary ones, as in containerd (CVE-2022-36109): a process that changes its gid must
    // not escape a file's group denial.
    all.insert(gid);
    let home = field(5).filter(|home| !home.is_empty()).unwrap_or("/").to_owned();
    // The greatest number means "as it is" to the kernel: root would stay root.
    if all.iter().chain([&uid, &gid]).any(|id| i32::try_from(*id).is_err()) {
        return Err(StartError("uids and gids must be in range 0-2147483647".to_owned()));
    }
    Ok(ResolvedUser { uid, gid, groups: all.into_iter().collect(), home })
}

/// Takes the identity on, and gives up every capability that is not listed.
pub fn assume(process: &Process, user: &ResolvedUser) -> Result<(), StartError> {
    if !process.apparmor.is_empty() && process.apparmor != "unconfined" {
        let line = format!("exec {}", process.apparmor);
        super::program::write_own("attr/apparmor/exec", &line)
            .or_else(|_| super::program::write_own("attr/exec", &line))
            .context(|| format!("failed to set the AppArmor profile {}", process.apparmor))?;
    }
    let kept = read_capabilities(&process.capabilities)?;
    let own = rustix::thread::capabilities(None).context(|| "failed to read capabilities".to_owned())?;
    for capability in CapabilitySet::all().iter() {
        if !kept.contains(capability)
            && rustix::thread::capability_is_in_bounding_set(capability).unwrap_or(false)
        {
            rustix::thread::remove_capability_from_bounding_set(capability)
                .context(|| "failed to drop a capability".to_owned())?;
        }
    }
    rustix::thread::set_keep_capabilities(true).context(|| "failed to keep capabilities".to_owned())?;
    let groups: Vec<Gid> = user.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
    rustix::thread::set_thread_groups(&groups).context(|| "failed to set groups".to_owned())?;
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    rustix::thread::set_thread_res_gid(gid, gid, gid).context(|| "failed to set the group".to_owned())?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).context(|| "failed to set the user".to_owned())?;
    rustix::thread::set_keep_capabilities(false).context(|| "failed to keep capabilities".to_owned())?;
    // What this machine does not give us we cannot pass on.
    let kept = kept & own.permitted;
    let ambient = read_capabilities(&process.ambient)? & kept;
    let effective = if user.uid == 0 { kept } else { ambient };
    let sets = CapabilitySets { effective, permitted: effective, inheritable: ambient };
    rustix::thread::set_capabilities(None, sets).context(|| "failed to set capabilities".to_owned())?;
    for capability in ambient.iter() {
        rustix::thread::configure_capability_in_ambient_set(capability, true)
            .context(|| "failed to set ambient capabilities".to_owned())?;
    }
    // The kernel forgot this when the user changed.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .context(|| "failed to set the parent death signal".to_owned())
}

fn read_capabilities(names: &[String]) -> Result<CapabilitySet, StartError> {
    let mut all = CapabilitySet::empty();
    for name in names {
        let short = name.strip_prefix("CAP_").unwrap_or(name);
        all |= CapabilitySet::from_name(short)
            .ok_or_else(|| StartError(format!("unknown capability {name:?}")))?;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nweb:x:33:34:web:/srv:/bin/false\nbroken\n";
    const GROUP: &str = "root:x:0:\nwww:x:34:\nmedia:x:50:web,other\nmail:x:51:other\n";

    fn user(name: &str, group: &str, merge: bool) -> User {
        User {
            user: name.to_owned(),
            group: group.to_owned(),
            additional_groups: vec![7],
            merge_groups: merge,
        }
    }

    #[test]
    fn users_are_looked_up_in_the_containers_files() {
        let found = resolve_with(&user("web", "", true), PASSWD, GROUP).unwrap();
        assert_eq!((found.uid, found.gid, found.groups, &*found.home), (33, 34, vec![7, 34, 50], "/srv"));
        let strict = resolve_with(&user("33", "www", false), PASSWD, GROUP).unwrap();
        assert_eq!((strict.uid, strict.gid, strict.groups), (33, 34, vec![7, 34]), "the group is among them");
        let unknown = resolve_with(&user("1000", "", true), PASSWD, GROUP).unwrap();
        assert_eq!((unknown.uid, unknown.gid, &*unknown.home), (1000, 0, "/"));
        assert_eq!(resolve_with(&user("", "", false), "", "").unwrap().uid, 0);
        let error = resolve_with(&user("nobody", "", false), PASSWD, GROUP).err().unwrap();
        assert_eq!(error.0, "unable to find user nobody: no matching entries in passwd file");
        let error = resolve_with(&user("web", "none", false), PASSWD, GROUP).err().unwrap();
        assert_eq!(error.0, "unable to find group none: no matching entries in group file");
    }

    #[test]
    fn numbers_that_the_kernel_takes_for_others_are_refused() {
        for (name, group) in
            [("4294967295", ""), ("2147483648", ""), ("0", "4294967295"), ("odd", ""), ("7", "4294967295")]
        {
            let passwd = "odd:x:4294967295:0::/:\n";
            assert!(resolve_with(&user(name, group, false), passwd, GROUP).is_err(), "{name}:{group}");
        }
        let mut many = user("1", "1", false);
        many.additional_groups.push(u32::MAX);
        assert!(resolve_with(&many, PASSWD, GROUP).is_err());
        assert_eq!(resolve_with(&user("2147483647", "", false), "", "").unwrap().uid, 2_147_483_647);
    }

    #[test]
    fn capabilities_have_their_kernel_names() {
        let read = read_capabilities(&["CAP_NET_RAW".to_owned(), "CHOWN".to_owned()]).unwrap();
        assert_eq!(read, CapabilitySet::NET_RAW | CapabilitySet::CHOWN);
        assert!(read_capabilities(&["CAP_EVERYTHING".to_owned()]).is_err());
    }
}
