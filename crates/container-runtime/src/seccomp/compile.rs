//! A profile as a program: which machine, then a search for the number among ranges, then conditions on arguments.

use std::collections::BTreeMap;

use super::profile::{Action, Architecture, Compare, Condition, ENOSYS, Profile, ProfileError};
use super::syscalls::TABLE;

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_GREATER: u16 = 0x25;
const JUMP_GREATER_OR_EQUAL: u16 = 0x35;
const RETURN: u16 = 0x06;

/// Where the kernel has what it tells a filter.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const ARGUMENTS_AT: u32 = 16;
/// The kernel's own limit.
const MOST_INSTRUCTIONS: usize = 4096;

/// One instruction; jumps count what they skip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instruction {
    code: u16,
    when: u8,
    otherwise: u8,
    value: u32,
}

/// What happens with a system call.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Always(Action),
    /// The first whose conditions all hold, else the default.
    First(Vec<(Vec<Condition>, Action)>),
}

pub fn compile(profile: &Profile) -> Result<Vec<u8>, ProfileError> {
    let program = program(profile)?;
    let mut bytes = Vec::with_capacity(program.len() * 8);
    for instruction in program {
        bytes.extend_from_slice(&instruction.code.to_ne_bytes());
        bytes.extend_from_slice(&[instruction.when, instruction.otherwise]);
        bytes.extend_from_slice(&instruction.value.to_ne_bytes());
    }
    Ok(bytes)
}

fn program(profile: &Profile) -> Result<Vec<Instruction>, ProfileError> {
    let mut all = vec![plain(LOAD, ARCHITECTURE_AT)];
    for architecture in &profile.architectures {
        let body = body(profile, *architecture)?;
        // Over the jump to the next machine, or there.
        all.push(jump(JUMP_EQUAL, audit_number(*architecture), 1, 0));
        all.push(plain(JUMP, far(body.len())?));
        all.extend(body);
    }
    all.push(plain(RETURN, Action::KILL_PROCESS.0));
    if all.len() > MOST_INSTRUCTIONS { Err(ProfileError::Length) } else { Ok(all) }
}

fn audit_number(architecture: Architecture) -> u32 {
    match architecture {
        Architecture::X86_64 => 0xc000_003e,
        Architecture::X86 => 0x4000_0003,
        Architecture::Aarch64 => 0xc000_00b7,
    }
}

/// The number of a system call, if the machine has it.
fn numbers(architecture: Architecture) -> BTreeMap<&'static str, u32> {
    let column = match architecture {
        Architecture::X86_64 => 1,
        Architecture::X86 => 2,
        Architecture::Aarch64 => 3,
    };
    let row = |row: &'static str| {
        let mut words = row.split_whitespace();
        let name = words.next()?;
        Some((name, words.nth(column - 1)?.parse().ok()?))
    };
    TABLE.split(';').filter_map(row).collect()
}

fn body(profile: &Profile, architecture: Architecture) -> Result<Vec<Instruction>, ProfileError> {
    let numbers = numbers(architecture);
    let mut outcomes: BTreeMap<u32, Outcome> = BTreeMap::new();
    let mut last_named = 0;
    for rule in &profile.rules {
        for number in rule.names.iter().filter_map(|name| numbers.get(&**name)) {
            last_named = last_named.max(*number);
            let conditional = (rule.conditions.clone(), rule.action);
            match outcomes.get_mut(number) {
                _ if rule.conditions.is_empty() => {
                    drop(outcomes.insert(*number, Outcome::Always(rule.action)))
                }
                Some(Outcome::Always(_)) => {}
                Some(Outcome::First(all)) => all.push(conditional),
                None => drop(outcomes.insert(*number, Outcome::First(vec![conditional]))),
            }
        }
    }
    let ranges = ranges(&outcomes, profile.default, last_named);
    let mut all = vec![plain(LOAD, NUMBER_AT)];
    all.extend(search(&ranges, profile.default)?);
    Ok(all)
}

/// From which number on there is which outcome; the first begins at 0.
fn ranges(outcomes: &BTreeMap<u32, Outcome>, default: Action, last_named: u32) -> Vec<(u32, Outcome)> {
    let mut all: Vec<(u32, Outcome)> = Vec::new();
    let mut add = |from: u32, outcome: Outcome| {
        if all.last().is_some_and(|(start, _)| *start == from) {
            all.pop();
        }
        if all.last().is_none_or(|(_, last)| *last != outcome) {
            all.push((from, outcome));
        }
    };
    add(0, Outcome::Always(default));
    for (number, outcome) in outcomes {
        add(*number, outcome.clone());
        add(number + 1, Outcome::Always(default));
    }
    // Calls that came after the profile do not exist for it: programs then use older ones. As runc does.
    if default.is_errno() {
        add(last_named + 1, Outcome::Always(Action::errno(ENOSYS)));
    }
    all
}

/// A search by halves for the range of the number.
fn search(ranges: &[(u32, Outcome)], default: Action) -> Result<Vec<Instruction>, ProfileError> {
    match ranges {
        [] => Ok(vec![plain(RETURN, default.0)]),
        [(_, Outcome::Always(action))] => Ok(vec![plain(RETURN, action.0)]),
        [(_, Outcome::First(rules))] => first(rules, default),
        _ => {
            let (low, high) = ranges.split_at(ranges.len() / 2);
            let from = high.first().map_or(0, |(from, _)| *from);
            let (low, high) = (search(low, default)?, search(high, default)?);
            let mut all = match u8::try_from(low.len()) {
                Ok(over) => vec![jump(JUMP_GREATER_OR_EQUAL, from, over, 0)],
                Err(_) => vec![jump(JUMP_GREATER_OR_EQUAL, from, 0, 1), plain(JUMP, far(low.len())?)],
            };
            all.extend(low);
            all.extend(high);
            Ok(all)
        }
    }
}

/// Rules one after the other, built from the last.
fn first(rules: &[(Vec<Condition>, Action)], default: Action) -> Result<Vec<Instruction>, ProfileError> {
    let mut all = vec![plain(RETURN, default.0)];
    for (conditions, action) in rules.iter().rev() {
        let mut rule = vec![plain(RETURN, action.0)];
        for condition in conditions.iter().rev() {
            let mut tested = test(condition, rule.len())?;
            tested.append(&mut rule);
            rule = tested;
        }
        rule.append(&mut all);
        all = rule;
    }
    Ok(all)
}

/// Goes on after itself if the condition holds, else `over` further. Arguments have 64 bits, instructions 32.
fn test(condition: &Condition, over: usize) -> Result<Vec<Instruction>, ProfileError> {
    let over = u8::try_from(over).ok().filter(|over| *over < 250).ok_or(ProfileError::Length)?;
    let at = ARGUMENTS_AT + 8 * u32::from(condition.index);
    let (low_at, high_at) = if cfg!(target_endian = "big") { (at + 4, at) } else { (at, at + 4) };
    let halves = |value: u64| (value as u32, (value >> 32) as u32);
    let (low, high) = (plain(LOAD, low_at), plain(LOAD, high_at));
    Ok(match condition.compare {
        Compare::Equal(value) => {
            let (l, h) = halves(value);
            vec![high, jump(JUMP_EQUAL, h, 0, over + 2), low, jump(JUMP_EQUAL, l, 0, over)]
        }
        Compare::NotEqual(value) => {
            let (l, h) = halves(value);
            vec![high, jump(JUMP_EQUAL, h, 0, 2), low, jump(JUMP_EQUAL, l, over, 0)]
        }
        Compare::Masked { mask, value } => {
            let ((ml, mh), (l, h)) = (halves(mask), halves(value));
            vec![
                high,
                plain(AND, mh),
                jump(JUMP_EQUAL, h, 0, over + 3),
                low,
                plain(AND, ml),
                jump(JUMP_EQUAL, l, 0, over),
            ]
        }
        Compare::Greater(value) => ordered(value, JUMP_GREATER, (0, over), (low, high)),
        Compare::GreaterOrEqual(value) => ordered(value, JUMP_GREATER_OR_EQUAL, (0, over), (low, high)),
        Compare::LessOrEqual(value) => ordered(value, JUMP_GREATER, (over, 0), (low, high)),
        Compare::Less(value) => ordered(value, JUMP_GREATER_OR_EQUAL, (over, 0), (low, high)),
    })
}

/// `compare` of the lower halves decides where the upper ones are equal.
fn ordered(
    value: u64,
    compare: u16,
    (when, otherwise): (u8, u8),
    (low, high): (Instruction, Instruction),
) -> Vec<Instruction> {
    let upper = (value >> 32) as u32;
    vec![
        high,
        jump(JUMP_GREATER, upper, when + 3, 0),
        jump(JUMP_EQUAL, upper, 0, otherwise + 2),
        low,
        jump(compare, value as u32, when, otherwise),
    ]
}

fn plain(code: u16, value: u32) -> Instruction {
    Instruction { code, when: 0, otherwise: 0, value }
}

fn jump(code: u16, value: u32, when: u8, otherwise: u8) -> Instruction {
    Instruction { code, when, otherwise, value }
}

fn far(over: usize) -> Result<u32, ProfileError> {
    u32::try_from(over).map_err(|_| ProfileError::Length)
}

#[cfg(test)]
mod tests;
