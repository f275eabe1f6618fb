//! Which devices a group may open or make: lines of version 1 (`c 1:3 rwm`), or a program of version 2 that says the same.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use crate::sys;

/// What every container may use: the devices without state, its terminals, and making nodes of others without opening them.
pub const DEFAULT: [&str; 11] = [
    "c *:* m",
    "b *:* m",
    "c 1:3 rwm",
    "c 1:5 rwm",
    "c 1:7 rwm",
    "c 1:8 rwm",
    "c 1:9 rwm",
    "c 5:0 rwm",
    "c 5:1 rwm",
    "c 5:2 rwm",
    "c 136:* rwm",
];

const MAKE: i32 = 1;
const READ: i32 = 2;
const WRITE: i32 = 4;
const EVERYTHING: i32 = MAKE | READ | WRITE;

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    /// 1 for block, 2 for character devices; `None`: both.
    kind: Option<i32>,
    major: Option<i32>,
    minor: Option<i32>,
    access: i32,
}

impl Rule {
    fn parse(line: &str) -> Option<Rule> {
        let mut words = line.split(' ');
        let kind = match words.next()? {
            "a" => None,
            "b" => Some(1),
            "c" => Some(2),
            _ => return None,
        };
        let number = |text: &str| match text {
            "*" => Some(None),
            text => text.parse::<i32>().ok().filter(|number| *number >= 0).map(Some),
        };
        let (major, minor) = words.next()?.split_once(':')?;
        let mut access = 0;
        for letter in words.next()?.chars() {
            access |= match letter {
                'm' => MAKE,
                'r' => READ,
                'w' => WRITE,
                _ => return None,
            };
        }
        let rule = Rule { kind, major: number(major)?, minor: number(minor)?, access };
        (words.next().is_none() && access != 0).then_some(rule)
    }

    fn allows_all(&self) -> bool {
        let Rule { kind, major, minor, access } = *self;
        kind.is_none() && major.is_none() && minor.is_none() && access == EVERYTHING
    }
}

fn parse(lines: &[String]) -> io::Result<Vec<Rule>> {
    let invalid =
        |line: &String| io::Error::new(io::ErrorKind::InvalidInput, format!("invalid device rule {line:?}"));
    lines.iter().map(|line| Rule::parse(line).ok_or_else(|| invalid(line))).collect()
}

/// Of version 1: nothing, then what is listed.
pub fn restrict_v1(directory: &Path, lines: &[String]) -> io::Result<()> {
    parse(lines)?;
    std::fs::write(directory.join("devices.deny"), "a")?;
    lines.iter().try_for_each(|line| std::fs::write(directory.join("devices.allow"), line))
}

/// Of version 2: the program stays with the group.
pub fn restrict_v2(directory: &Path, lines: &[String]) -> io::Result<()> {
    let program = program(&parse(lines)?);
    let group = std::fs::File::open(directory)?;
    sys::attach_device_program(group.as_fd(), &program)
}

enum Step {
    Do(u64),
    UnlessEqual(u8, i32),
}

/// Instructions of BPF: registers 2 to 5 hold kind, access, major and minor; 0 is the answer.
fn program(rules: &[Rule]) -> Vec<u64> {
    const LOAD_WORD: u8 = 0x61;
    const MOVE: u8 = 0xbc;
    const MOVE_NUMBER: u8 = 0xb4;
    const AND_NUMBER: u8 = 0x54;
    const SHIFT_RIGHT: u8 = 0x74;
    const UNLESS_EQUAL: u8 = 0x55;
    const EXIT: u8 = 0x95;
    let mut all = vec![
        instruction(LOAD_WORD, 2, 1, 0, 0),
        instruction(MOVE, 3, 2, 0, 0),
        instruction(AND_NUMBER, 2, 0, 0, 0xffff),
        instruction(SHIFT_RIGHT, 3, 0, 0, 16),
        instruction(LOAD_WORD, 4, 1, 4, 0),
        instruction(LOAD_WORD, 5, 1, 8, 0),
    ];
    for rule in rules {
        let mut steps = Vec::new();
        if rule.access != EVERYTHING {
            // What is asked for beyond the rule is nothing.
            steps.push(Step::Do(instruction(MOVE, 1, 3, 0, 0)));
            steps.push(Step::Do(instruction(AND_NUMBER, 1, 0, 0, !rule.access)));
            steps.push(Step::UnlessEqual(1, 0));
        }
        for (register, wanted) in [(2, rule.kind), (4, rule.major), (5, rule.minor)] {
            steps.extend(wanted.map(|wanted| Step::UnlessEqual(register, wanted)));
        }
        // A test that fails goes over the rest of the rule and its two instructions of consent.
        for (step, over) in steps.iter().zip((2..steps.len() as i16 + 2).rev()) {
            all.push(match *step {
                Step::Do(plain) => plain,
                Step::UnlessEqual(register, wanted) => instruction(UNLESS_EQUAL, register, 0, over, wanted),
            });
        }
        all.extend([instruction(MOVE_NUMBER, 0, 0, 0, 1), instruction(EXIT, 0, 0, 0, 0)]);
        if rule.allows_all() {
            // The kernel takes no program with steps that are never reached.
            return all;
        }
    }
    all.extend([instruction(MOVE_NUMBER, 0, 0, 0, 0), instruction(EXIT, 0, 0, 0, 0)]);
    all
}

/// Operation, registers, how far to jump, number: as they lie in memory.
fn instruction(operation: u8, to: u8, from: u8, over: i16, number: i32) -> u64 {
    let [o0, o1] = over.to_ne_bytes();
    let [n0, n1, n2, n3] = number.to_ne_bytes();
    let registers = if cfg!(target_endian = "big") { to << 4 | from } else { from << 4 | to };
    u64::from_ne_bytes([operation, registers, o0, o1, n0, n1, n2, n3])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the program says: just the instructions it is made of.
    fn allows(program: &[u64], kind: u32, access: u32, major: u32, minor: u32) -> bool {
        let context = [access << 16 | kind, major, minor];
        let mut registers = [0u64; 11];
        let mut at = 0;
        loop {
            let [operation, pair, o0, o1, n0, n1, n2, n3] = program[at].to_ne_bytes();
            let (to, from) = (usize::from(pair & 15), usize::from(pair >> 4));
            let (over, number) = (i16::from_ne_bytes([o0, o1]), i32::from_ne_bytes([n0, n1, n2, n3]));
            at += 1;
            match operation {
                0x61 => registers[to] = u64::from(context[over as usize / 4]),
                0xbc => registers[to] = registers[from] & 0xffff_ffff,
                0xb4 => registers[to] = u64::from(number as u32),
                0x54 => registers[to] = u64::from(registers[to] as u32 & number as u32),
                0x74 => registers[to] = u64::from(registers[to] as u32 >> number),
                0x55 if registers[to] != i64::from(number) as u64 => at += over as usize,
                0x55 => {}
                0x95 => return registers[0] == 1,
                other => panic!("{other:#x}"),
            }
        }
    }

    #[test]
    fn a_program_says_what_the_lines_say() {
        let lines = ["c *:* m", "c 1:3 rw", "b 8:* r"].map(str::to_owned);
        let program = program(&parse(&lines).unwrap());
        let allowed = |kind, access, major, minor| allows(&program, kind, access, major, minor);
        assert!(allowed(2, 1, 10, 200), "any may be made");
        assert!(allowed(2, 2, 1, 3) && allowed(2, 6, 1, 3) && allowed(1, 2, 8, 5));
        assert!(!allowed(2, 7, 1, 3), "not by one rule");
        assert!(!allowed(2, 2, 1, 5) && !allowed(1, 2, 1, 3) && !allowed(1, 6, 8, 5) && !allowed(1, 1, 8, 0));
    }

    #[test]
    fn everything_and_nothing() {
        let everything = program(&parse(&["a *:* rwm".to_owned(), "c 1:3 r".to_owned()]).unwrap());
        assert!(allows(&everything, 1, 7, 8, 0));
        assert!(!allows(&program(&[]), 2, 2, 1, 3));
        for wrong in ["", "c", "c 1:3", "c 1:3 x", "d 1:3 r", "c 1 r", "c -1:3 r", "c 1:3 r w", "c 1:3 "] {
            assert!(Rule::parse(wrong).is_none(), "{wrong}");
        }
        assert!(parse(&DEFAULT.map(str::to_owned)).is_ok());
    }
}
