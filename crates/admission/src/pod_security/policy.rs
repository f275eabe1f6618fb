//! What the labels of a namespace ask for.

use std::fmt;

use object::{FieldError, quote};

/// The latest policies are those of this version: later ones did not change anything.
const NEWEST: u64 = 35;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Privileged,
    Baseline,
    Restricted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Latest,
    /// v1.`n`
    Minor(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelVersion {
    pub level: Level,
    pub version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    pub enforce: LevelVersion,
    pub audit: LevelVersion,
    pub warn: LevelVersion,
}

/// A label nobody can follow.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken {
    label: &'static str,
    value: String,
    why: &'static str,
}

const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
const ENFORCE_VERSION: &str = "pod-security.kubernetes.io/enforce-version";
const AUDIT: &str = "pod-security.kubernetes.io/audit";
const AUDIT_VERSION: &str = "pod-security.kubernetes.io/audit-version";
const WARN: &str = "pod-security.kubernetes.io/warn";
const WARN_VERSION: &str = "pod-security.kubernetes.io/warn-version";
pub const LEVELS: &str = "must be one of privileged, baseline, restricted";
pub const VERSIONS: &str = "must be \"latest\" or \"v1.x\"";

impl Policy {
    /// The policy, `defaults` where no label says otherwise, and the labels that could not be read: a broken level is the strictest for enforcement, and the
    /// loosest for warnings.
    pub fn of(defaults: Policy, label: impl Fn(&str) -> Option<String>) -> (Policy, Vec<Broken>) {
        let mut broken = Vec::new();
        let mut policy = defaults;
        let mut enforced = false;
        if let Some(value) = label(ENFORCE) {
            let level = Level::parse(&value);
            enforced = level.is_some();
            policy.enforce.level = level.unwrap_or(Level::Restricted);
            note(&mut broken, level.is_none(), ENFORCE, value, LEVELS);
        }
        read_version(&label, ENFORCE_VERSION, &mut policy.enforce, &mut broken);
        for (name, versioned, at) in
            [(AUDIT, AUDIT_VERSION, &mut policy.audit), (WARN, WARN_VERSION, &mut policy.warn)]
        {
            if let Some(value) = label(name) {
                let level = Level::parse(&value);
                at.level = level.unwrap_or(Level::Privileged);
                note(&mut broken, level.is_none(), name, value, LEVELS);
            }
            read_version(&label, versioned, at, &mut broken);
        }
        // What is enforced is also warned of, so that objects with templates are told early.
        if enforced && policy.enforce.level > policy.warn.level && label(WARN).is_none() {
            policy.warn.level = policy.enforce.level;
            if label(WARN_VERSION).is_none() {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, broken)
    }

    pub fn is_privileged(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|lv| lv.level == Level::Privileged)
    }

    /// Whether both ask for the same: the version of a privileged mode says nothing.
    pub fn is_equivalent(&self, other: &Policy) -> bool {
        let pairs = [(self.enforce, other.enforce), (self.audit, other.audit), (self.warn, other.warn)];
        pairs.iter().all(|(a, b)| a == b || (a.level == Level::Privileged && b.level == Level::Privileged))
    }

    /// What labels say, of the modes that are not privileged: `enforce=baseline:latest, warn=restricted:v1.30`.
    pub fn labelled(&self, is_set: impl Fn(&str) -> bool) -> String {
        let modes = [
            ("enforce", self.enforce, ENFORCE, ENFORCE_VERSION),
            ("audit", self.audit, AUDIT, AUDIT_VERSION),
            ("warn", self.warn, WARN, WARN_VERSION),
        ];
        let said = modes.into_iter().filter(|(_, at, level, version)| {
            at.level != Level::Privileged && (is_set(level) || is_set(version))
        });
        let said: Vec<String> = said.map(|(mode, at, ..)| format!("{mode}={at}")).collect();
        said.join(", ")
    }
}

/// Everything is allowed.
impl Default for Policy {
    fn default() -> Policy {
        let open = LevelVersion { level: Level::Privileged, version: Version::Latest };
        Policy { enforce: open, audit: open, warn: open }
    }
}

fn read_version(
    label: &impl Fn(&str) -> Option<String>,
    name: &'static str,
    into: &mut LevelVersion,
    broken: &mut Vec<Broken>,
) {
    if let Some(value) = label(name) {
        let version = Version::parse(&value);
        into.version = version.unwrap_or(Version::Latest);
        note(broken, version.is_none(), name, value, VERSIONS);
    }
}

fn note(broken: &mut Vec<Broken>, is: bool, label: &'static str, value: String, why: &'static str) {
    if is {
        broken.push(Broken { label, value, why });
    }
}

impl Level {
    pub fn parse(text: &str) -> Option<Level> {
        match text {
            "privileged" => Some(Level::Privileged),
            "baseline" => Some(Level::Baseline),
            "restricted" => Some(Level::Restricted),
            _ => None,
        }
    }
}

impl Version {
    pub fn parse(text: &str) -> Option<Version> {
        if text == "latest" {
            return Some(Version::Latest);
        }
        let digits = text.strip_prefix("v1.")?;
        let plain = digits.bytes().all(|b| b.is_ascii_digit());
        let number: u64 = digits.parse().ok().filter(|_| plain)?;
        // Upstream's numbers end here, and have no leading zeros.
        (number <= i64::MAX as u64 && (digits == "0" || !digits.starts_with('0')))
            .then_some(Version::Minor(number))
    }

    /// The minor version whose checks count.
    pub fn effective(self) -> u64 {
        match self {
            Version::Latest => NEWEST,
            Version::Minor(minor) => minor.min(NEWEST),
        }
    }
}

impl LevelVersion {
    pub fn quoted(self) -> String {
        quote(&self.to_string())
    }
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        match self.version {
            Version::Latest => write!(f, "{level}:latest"),
            Version::Minor(minor) => write!(f, "{level}:v1.{minor}"),
        }
    }
}

impl Broken {
    pub fn into_error(self) -> FieldError {
        FieldError::invalid(format!("metadata.labels[{}]", self.label), quote(&self.value), self.why)
    }
}
