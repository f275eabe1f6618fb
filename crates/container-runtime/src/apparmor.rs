//! AppArmor profiles of containers: this runtime's own for who asks for none, or one that the machine has loaded.
//!
//! ```text
//!  RuntimeDefault, or nothing ── loaded by this process? ── no: profile text ── apparmor_parser ── kernel
//!  Localhost                  ── loaded by anybody?       ── no: refused
//! ```
//! The kernel takes compiled profiles, and `apparmor_parser` alone compiles them: it is spawned for the first container after each start
//! of the agent, and whenever somebody unloaded the profile.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use cri::{Error, LinuxContainerSecurityContext, ProfileType};

use crate::error::unknown;

/// Of the profile for containers that name none.
pub const DEFAULT_PROFILE: &str = "setpoint-default";
/// Where distributions install the parser.
const PARSERS: [&str; 4] = [
    "sbin/apparmor_parser",
    "usr/sbin/apparmor_parser",
    "usr/local/sbin/apparmor_parser",
    "usr/bin/apparmor_parser",
];

/// AppArmor of a machine.
#[derive(Debug)]
pub struct AppArmor {
    root: PathBuf,
    /// For the text of the profile, while it is loaded.
    directory: PathBuf,
    warned: AtomicBool,
    /// Whether the kernel was given the profile of this program. Held while that happens: of many first containers one does it.
    given: Mutex<bool>,
}

impl AppArmor {
    /// `root` holds the machine's `sys`, `etc` and `sbin`.
    pub fn at(root: &Path, directory: &Path) -> AppArmor {
        let (root, directory) = (root.to_owned(), directory.to_owned());
        AppArmor { root, directory, warned: AtomicBool::new(false), given: Mutex::new(false) }
    }

    /// The profile a container runs with, loaded; empty: none.
    pub fn profile(&self, context: &LinuxContainerSecurityContext) -> Result<String, Error> {
        let asked = context.apparmor.as_ref();
        let kind = asked.map_or(ProfileType::RuntimeDefault, cri::SecurityProfile::profile_type);
        if kind == ProfileType::Unconfined {
            return Ok(String::new());
        }
        if !self.is_enabled() {
            // Who asks for a profile must not run without.
            return if asked.is_some() {
                Err(failed("apparmor is not supported"))
            } else {
                Ok(String::new())
            };
        }
        match kind {
            ProfileType::Localhost => {
                self.localhost(&asked.map(|asked| asked.localhost_ref.clone()).unwrap_or_default())
            }
            _ if context.privileged => Ok(String::new()),
            _ => match self.load_default() {
                Ok(()) => Ok(DEFAULT_PROFILE.to_owned()),
                Err(why) if asked.is_some() => {
                    Err(unknown(format!("failed to load apparmor profile {DEFAULT_PROFILE}: {why}")))
                }
                // As with containerd, for which a machine without the parser has no AppArmor.
                Err(why) => {
                    if !self.warned.swap(true, Ordering::Relaxed) {
                        tracing::warn!(why, "containers run without an AppArmor profile");
                    }
                    Ok(String::new())
                }
            },
        }
    }

    fn is_enabled(&self) -> bool {
        let enabled = std::fs::read_to_string(self.root.join("sys/module/apparmor/parameters/enabled"));
        self.kernel().exists() && enabled.is_ok_and(|text| text.starts_with('Y'))
    }

    fn kernel(&self) -> PathBuf {
        self.root.join("sys/kernel/security/apparmor")
    }

    fn localhost(&self, asked: &str) -> Result<String, Error> {
        let name = asked.strip_prefix("localhost/").unwrap_or(asked);
        if name.is_empty() {
            return Err(failed("nil apparmor profile is not supported"));
        }
        match self.is_loaded(name) {
            Ok(true) => Ok(name.to_owned()),
            Ok(false) => Err(failed(format!("apparmor profile not found {name}"))),
            Err(error) => Err(failed(error)),
        }
    }

    /// A line of the kernel's list is `NAME (MODE)`.
    fn is_loaded(&self, name: &str) -> std::io::Result<bool> {
        let listed = std::fs::read_to_string(self.kernel().join("profiles"))?;
        Ok(listed.lines().any(|line| line.rsplit_once(" (").is_some_and(|(loaded, _)| loaded == name)))
    }

    /// Differs from containerd, which keeps what has the name: here an agent of a newer version brings its own profile, also for
    /// containers that run already.
    fn load_default(&self) -> Result<(), String> {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let is_loaded = self.is_loaded(DEFAULT_PROFILE).map_err(|error| error.to_string())?;
        if *given && is_loaded {
            return Ok(());
        }
        match self.give_default() {
            // What an earlier agent loaded confines as well.
            Err(why) if is_loaded => {
                tracing::warn!(why, "the AppArmor profile {DEFAULT_PROFILE} stays as it was")
            }
            done => done?,
        }
        *given = true;
        Ok(())
    }

    fn give_default(&self) -> Result<(), String> {
        let parser = PARSERS.iter().map(|path| self.root.join(path)).find(|path| path.is_file());
        let parser = parser.ok_or("apparmor_parser is not installed")?;
        let file = self.directory.join(DEFAULT_PROFILE);
        std::fs::write(&file, self.text()).map_err(|error| format!("{}: {error}", file.display()))?;
        // Not from a cache, and in the place of one that somebody else loads at this moment.
        let mut command = Command::new(parser);
        let done = command.args(["--skip-cache", "--replace"]).arg(&file).stdin(Stdio::null()).output();
        // It is the kernel's now, or nobody's.
        let _ = std::fs::remove_file(&file);
        let done = done.map_err(|error| format!("apparmor_parser: {error}"))?;
        if done.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&done.stderr);
        Err(format!("apparmor_parser failed ({}): {}", done.status, said.trim()))
    }

    /// What a container may do with its capabilities and files, but for what reaches the machine through `/proc`, `/sys` and mounts.
    fn text(&self) -> String {
        let name = DEFAULT_PROFILE;
        let has = |path: &str| self.root.join("etc/apparmor.d").join(path).exists();
        let include = |path: &str| if has(path) { format!("include <{path}>\n") } else { String::new() };
        let agent = std::fs::read_to_string(self.root.join("proc/self/attr/current")).unwrap_or_default();
        let agent = agent.trim().rsplit_once(" (").map_or(agent.trim(), |(agent, _)| agent);
        let agent = if agent.is_empty() { "unconfined" } else { agent };
        let peers = if agent == "unconfined" { agent.to_owned() } else { format!("{{unconfined,{agent}}}") };
        format!(
            "{abi}{tunables}profile {name} flags=(attach_disconnected,mediate_deleted) {{
{base}\
  file,
  capability,
  network,
  umount,
  # From the node's agent and the people on it; within the container from everybody to everybody.
  signal (receive) peer={peers},
  signal (receive, send) peer={name},
  ptrace (read, readby, trace, tracedby) peer={name},

  # Nothing may be mounted, whatever the capabilities.
  deny mount,
  # Files of /proc itself, and directories of it that are neither a process's nor /proc/sys.
  deny /proc/* w,
  deny /proc/{{[^0-9s/]*,s,s[^y/]*,sy,sy[^s/]*,sys?*}}/** w,
  deny /proc/{{kcore,sysrq-trigger}} klrwx,
  # Of the kernel's settings only those of shared memory are the container's.
  deny /proc/sys/[^k]** w,
  deny /proc/sys/kernel/{{[^s]*,s,s[^h]*,sh,sh[^m]*}} w,
  deny /proc/sys/kernel/*/** w,
  # Of /sys only its cgroups.
  deny /sys/{{[^f/]*,f,f[^s/]*,fs?*}}/** klwx,
  deny /sys/fs/{{[^c/]*,c,c[^g/]*,cg,cg[^r/]*}}/** klwx,
  deny /sys/{{firmware,kernel/security,devices/virtual/powercap}}/** r,
}}
",
            // What the kernel learns to mediate later, as message queues and user namespaces, is not denied for want of a rule.
            abi = if has("abi/3.0") { "abi <abi/3.0>,\n" } else { "" },
            tunables = include("tunables/global"),
            base = include("abstractions/base"),
        )
    }
}

/// In containerd's words.
fn failed(why: impl std::fmt::Display) -> Error {
    unknown(format!("failed to generate apparmor spec opts: {why}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use cri::SecurityProfile;

    use super::*;

    /// A machine of files, whose parser adds what it loads to the kernel's list.
    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new(with_parser: bool) -> Machine {
            let machine = Machine(tempfile::tempdir().unwrap());
            for directory in
                ["sys/module/apparmor/parameters", "sys/kernel/security/apparmor", "sbin", "etc", "own"]
            {
                fs::create_dir_all(machine.path(directory)).unwrap();
            }
            fs::write(machine.path("sys/module/apparmor/parameters/enabled"), "Y\n").unwrap();
            fs::write(
                machine.path("sys/kernel/security/apparmor/profiles"),
                "mine (enforce)\nmy own (complain)\n",
            )
            .unwrap();
            if with_parser {
                // A link: a file that was just written may not be executed while another test forks.
                let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/apparmor/parser.sh");
                std::os::unix::fs::symlink(script, machine.path("sbin/apparmor_parser")).unwrap();
            }
            machine
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        fn apparmor(&self) -> AppArmor {
            AppArmor::at(self.0.path(), &self.path("own"))
        }
    }

    fn asked(kind: Option<(ProfileType, &str)>, privileged: bool) -> LinuxContainerSecurityContext {
        let profile = |(kind, name): (ProfileType, &str)| SecurityProfile {
            profile_type: kind.into(),
            localhost_ref: name.to_owned(),
        };
        LinuxContainerSecurityContext { apparmor: kind.map(profile), privileged, ..Default::default() }
    }

    const DEFAULT: Option<(ProfileType, &str)> = Some((ProfileType::RuntimeDefault, ""));
    const UNCONFINED: Option<(ProfileType, &str)> = Some((ProfileType::Unconfined, ""));

    fn local(name: &str) -> Option<(ProfileType, &str)> {
        Some((ProfileType::Localhost, name))
    }

    #[test]
    fn the_default_profile_is_loaded_once() {
        let machine = Machine::new(true);
        let apparmor = machine.apparmor();
        let profile = |kind, privileged| apparmor.profile(&asked(kind, privileged)).unwrap();
        assert_eq!(profile(UNCONFINED, false), "");
        assert_eq!(profile(DEFAULT, true), "", "privileged containers have none");
        assert!(!machine.path("calls").exists());
        for kind in [None, DEFAULT, None] {
            assert_eq!(profile(kind, false), DEFAULT_PROFILE);
        }
        let calls = fs::read_to_string(machine.path("calls")).unwrap();
        assert_eq!(calls.lines().count(), 1, "{calls}");
        assert!(calls.starts_with("--skip-cache --replace "));
        let text = fs::read_to_string(machine.path("loaded")).unwrap();
        assert!(text.starts_with("profile setpoint-default flags=(attach_disconnected,mediate_deleted) {\n"));
        assert!(
            !text.contains("include") && text.contains("\n  signal (receive) peer=unconfined,\n"),
            "{text}"
        );
        assert_eq!(text.matches('{').count(), text.matches('}').count());
        assert_eq!(fs::read_dir(machine.path("own")).unwrap().count(), 0);
    }

    #[test]
    fn an_agent_that_comes_back_brings_its_profile() {
        let machine = Machine::new(true);
        let calls = || fs::read_to_string(machine.path("calls")).unwrap().lines().count();
        machine.apparmor().profile(&asked(None, false)).unwrap();
        let again = machine.apparmor();
        again.profile(&asked(None, false)).unwrap();
        assert_eq!(calls(), 2);
        // Somebody unloads it.
        fs::write(machine.path("sys/kernel/security/apparmor/profiles"), "").unwrap();
        again.profile(&asked(None, false)).unwrap();
        assert_eq!(calls(), 3);
        // What cannot be replaced stays, and confines.
        fs::write(machine.path("broken"), "").unwrap();
        assert_eq!(machine.apparmor().profile(&asked(DEFAULT, false)).unwrap(), DEFAULT_PROFILE);
        fs::write(machine.path("sys/kernel/security/apparmor/profiles"), "").unwrap();
        assert!(again.profile(&asked(DEFAULT, false)).is_err());
    }

    #[test]
    fn what_the_machine_has_is_included() {
        let machine = Machine::new(true);
        for file in ["abi/3.0", "tunables/global", "abstractions/base"] {
            let path = machine.path("etc/apparmor.d").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        fs::create_dir_all(machine.path("proc/self/attr")).unwrap();
        fs::write(machine.path("proc/self/attr/current"), "node-agent (enforce)\n").unwrap();
        machine.apparmor().profile(&asked(None, false)).unwrap();
        let text = fs::read_to_string(machine.path("loaded")).unwrap();
        assert!(text.starts_with("abi <abi/3.0>,\ninclude <tunables/global>\nprofile "), "{text}");
        assert!(text.contains("{\ninclude <abstractions/base>\n"), "{text}");
        assert!(text.contains("peer={unconfined,node-agent},"), "{text}");
    }

    #[test]
    fn a_profile_of_the_machine_must_be_loaded() {
        let machine = Machine::new(true);
        let apparmor = machine.apparmor();
        let profile = |name, privileged| {
            apparmor.profile(&asked(local(name), privileged)).map_err(|error| error.message)
        };
        assert_eq!(profile("mine", false).unwrap(), "mine");
        assert_eq!(profile("localhost/my own", true).unwrap(), "my own");
        for missing in ["min", "my", "other"] {
            let why = format!("failed to generate apparmor spec opts: apparmor profile not found {missing}");
            assert_eq!(profile(missing, false).unwrap_err(), why);
        }
        assert!(profile("", false).unwrap_err().ends_with("nil apparmor profile is not supported"));
    }

    #[test]
    fn without_the_parser_only_who_asks_for_the_profile_is_refused() {
        let machine = Machine::new(false);
        let profile = |kind| machine.apparmor().profile(&asked(kind, false)).map_err(|error| error.message);
        assert_eq!(profile(None).unwrap(), "");
        assert_eq!(
            profile(DEFAULT).unwrap_err(),
            "failed to load apparmor profile setpoint-default: apparmor_parser is not installed"
        );
        let broken = Machine::new(true);
        fs::write(broken.path("broken"), "").unwrap();
        let why = broken.apparmor().profile(&asked(DEFAULT, false)).unwrap_err().message;
        assert!(why.ends_with("apparmor_parser failed (exit status: 1): syntax"), "{why}");
    }

    #[test]
    fn without_apparmor_nobody_gets_a_profile_in_vain() {
        let machine = Machine::new(true);
        fs::write(machine.path("sys/module/apparmor/parameters/enabled"), "N\n").unwrap();
        let profile = |kind| machine.apparmor().profile(&asked(kind, false)).map_err(|error| error.message);
        assert_eq!((profile(None), profile(UNCONFINED)), (Ok(String::new()), Ok(String::new())));
        for kind in [DEFAULT, local("mine")] {
            let why = "failed to generate apparmor spec opts: apparmor is not supported";
            assert_eq!(profile(kind).unwrap_err(), why);
        }
    }
}
