//! Profiles: which system calls may be made, and what happens with the others. As JSON they are those of the OCI's runtime spec.

use serde::Deserialize;

/// What the kernel does: `SECCOMP_RET_*` with its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Action(pub u32);

impl Action {
    pub const ALLOW: Action = Action(0x7fff_0000);
    pub const KILL_PROCESS: Action = Action(0x8000_0000);
    const ERRNO: u32 = 0x0005_0000;

    pub fn errno(number: u16) -> Action {
        Action(Action::ERRNO | u32::from(number))
    }

    pub fn is_errno(self) -> bool {
        self.0 & 0xffff_0000 == Action::ERRNO
    }
}

pub const EPERM: u16 = 1;
pub const ENOSYS: u16 = 38;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    X86_64,
    X86,
    Aarch64,
}

impl Architecture {
    pub const NATIVE: Option<Architecture> = if cfg!(target_arch = "x86_64") {
        Some(Architecture::X86_64)
    } else if cfg!(target_arch = "aarch64") {
        Some(Architecture::Aarch64)
    } else {
        None
    };

    fn from_name(name: &str) -> Option<Architecture> {
        match name {
            "SCMP_ARCH_X86_64" => Some(Architecture::X86_64),
            "SCMP_ARCH_X86" => Some(Architecture::X86),
            "SCMP_ARCH_AARCH64" => Some(Architecture::Aarch64),
            // Those of other machines are never met here.
            _ => None,
        }
    }
}

pub struct Profile {
    pub default: Action,
    /// Programs of others are killed.
    pub architectures: Vec<Architecture>,
    pub rules: Vec<Rule>,
}

pub struct Rule {
    pub names: Vec<String>,
    pub action: Action,
    /// All must hold.
    pub conditions: Vec<Condition>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Of the argument.
    pub index: u8,
    pub compare: Compare,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    Equal(u64),
    NotEqual(u64),
    Less(u64),
    LessOrEqual(u64),
    Greater(u64),
    GreaterOrEqual(u64),
    Masked { mask: u64, value: u64 },
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    #[error("{0}")]
    Syntax(String),
    #[error("unknown action {0:?}")]
    Action(String),
    #[error("unknown operator {0:?}")]
    Operator(String),
    #[error("there is no argument {0}")]
    Argument(u64),
    #[error("programs of this machine are not known")]
    Machine,
    #[error("it is too long for the kernel")]
    Length,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Json {
    default_action: String,
    default_errno_ret: Option<u16>,
    #[serde(default)]
    architectures: Option<Vec<String>>,
    #[serde(default)]
    syscalls: Option<Vec<JsonRule>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonRule {
    #[serde(default)]
    names: Option<Vec<String>>,
    action: String,
    errno_ret: Option<u16>,
    #[serde(default)]
    args: Option<Vec<JsonArgument>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonArgument {
    index: u64,
    #[serde(default)]
    value: u64,
    #[serde(default)]
    value_two: u64,
    op: String,
}

pub fn read(json: &[u8]) -> Result<Profile, ProfileError> {
    let json: Json = serde_json::from_slice(json).map_err(|error| ProfileError::Syntax(error.to_string()))?;
    let native = Architecture::NATIVE.ok_or(ProfileError::Machine)?;
    let named = json.architectures.unwrap_or_default();
    let mut architectures: Vec<Architecture> =
        named.iter().filter_map(|name| Architecture::from_name(name)).collect();
    if !architectures.contains(&native) {
        architectures.push(native);
    }
    let mut rules = Vec::new();
    for rule in json.syscalls.unwrap_or_default() {
        let action = action(&rule.action, rule.errno_ret)?;
        let conditions =
            rule.args.unwrap_or_default().iter().map(condition).collect::<Result<Vec<_>, _>>()?;
        let names = rule.names.unwrap_or_default();
        // Conditions on the same argument are alternatives.
        let repeated = conditions
            .iter()
            .enumerate()
            .any(|(at, one)| conditions[..at].iter().any(|other| other.index == one.index));
        if repeated {
            let alternatives = conditions.into_iter();
            rules.extend(alternatives.map(|one| Rule {
                names: names.clone(),
                action,
                conditions: vec![one],
            }));
        } else {
            rules.push(Rule { names, action, conditions });
        }
    }
    Ok(Profile { default: action(&json.default_action, json.default_errno_ret)?, architectures, rules })
}

fn action(name: &str, errno: Option<u16>) -> Result<Action, ProfileError> {
    Ok(match name {
        "SCMP_ACT_ALLOW" => Action::ALLOW,
        "SCMP_ACT_LOG" => Action(0x7ffc_0000),
        "SCMP_ACT_ERRNO" => Action::errno(errno.unwrap_or(EPERM)),
        "SCMP_ACT_TRACE" => Action(0x7ff0_0000 | u32::from(errno.unwrap_or(EPERM))),
        "SCMP_ACT_TRAP" => Action(0x0003_0000),
        "SCMP_ACT_KILL" | "SCMP_ACT_KILL_THREAD" => Action(0),
        "SCMP_ACT_KILL_PROCESS" => Action::KILL_PROCESS,
        other => return Err(ProfileError::Action(other.to_owned())),
    })
}

fn condition(argument: &JsonArgument) -> Result<Condition, ProfileError> {
    let index = u8::try_from(argument.index).ok().filter(|index| *index < 6);
    let index = index.ok_or(ProfileError::Argument(argument.index))?;
    let value = argument.value;
    let compare = match &*argument.op {
        "SCMP_CMP_EQ" => Compare::Equal(value),
        "SCMP_CMP_NE" => Compare::NotEqual(value),
        "SCMP_CMP_LT" => Compare::Less(value),
        "SCMP_CMP_LE" => Compare::LessOrEqual(value),
        "SCMP_CMP_GT" => Compare::Greater(value),
        "SCMP_CMP_GE" => Compare::GreaterOrEqual(value),
        "SCMP_CMP_MASKED_EQ" => Compare::Masked { mask: value, value: argument.value_two },
        other => return Err(ProfileError::Operator(other.to_owned())),
    };
    Ok(Condition { index, compare })
}
