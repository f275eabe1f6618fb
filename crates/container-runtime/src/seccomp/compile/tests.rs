use super::super::profile::{EPERM, Rule, read};
use super::super::standard;
use super::*;

/// What the program says, by just the instructions it is made of.
fn run(program: &[Instruction], architecture: u32, number: u32, arguments: &[u64]) -> Action {
    let (mut at, mut held) = (0, 0u32);
    loop {
        let Instruction { code, when, otherwise, value } = program[at];
        at += 1;
        let mut branch = |yes: bool| at += usize::from(if yes { when } else { otherwise });
        match code {
            LOAD => {
                held = match value {
                    NUMBER_AT => number,
                    ARCHITECTURE_AT => architecture,
                    place => {
                        let place = place - ARGUMENTS_AT;
                        let argument = arguments.get(place as usize / 8).copied().unwrap_or(0);
                        if place.is_multiple_of(8) { argument as u32 } else { (argument >> 32) as u32 }
                    }
                }
            }
            AND => held &= value,
            JUMP => at += value as usize,
            JUMP_EQUAL => branch(held == value),
            JUMP_GREATER => branch(held > value),
            JUMP_GREATER_OR_EQUAL => branch(held >= value),
            RETURN => return Action(value),
            other => panic!("{other:#x}"),
        }
    }
}

type Holds = Box<dyn Fn(u64) -> bool>;

const X86_64: u32 = 0xc000_003e;
const X86: u32 = 0x4000_0003;

fn one_rule(compare: Compare) -> Profile {
    let rule = Rule {
        names: vec!["openat".to_owned()],
        action: Action::ALLOW,
        conditions: vec![Condition { index: 2, compare }],
    };
    Profile { default: Action::errno(EPERM), architectures: vec![Architecture::X86_64], rules: vec![rule] }
}

#[test]
fn arguments_are_compared_with_all_their_bits() {
    let values = [0, 1, 5, 6, 7, 0xffff_ffff, 0x1_0000_0000, 0x1_0000_0006, 0x6_0000_0000, u64::MAX];
    for wanted in values {
        let compares: [(Compare, Holds); 7] = [
            (Compare::Equal(wanted), Box::new(move |value| value == wanted)),
            (Compare::NotEqual(wanted), Box::new(move |value| value != wanted)),
            (Compare::Less(wanted), Box::new(move |value| value < wanted)),
            (Compare::LessOrEqual(wanted), Box::new(move |value| value <= wanted)),
            (Compare::Greater(wanted), Box::new(move |value| value > wanted)),
            (Compare::GreaterOrEqual(wanted), Box::new(move |value| value >= wanted)),
            (Compare::Masked { mask: wanted, value: 1 }, Box::new(move |value| value & wanted == 1)),
        ];
        for (compare, holds) in compares {
            let program = program(&one_rule(compare)).unwrap();
            for value in values {
                let expected = if holds(value) { Action::ALLOW } else { Action::errno(EPERM) };
                assert_eq!(run(&program, X86_64, 257, &[0, 0, value]), expected, "{compare:?} {value:#x}");
            }
        }
    }
}

#[test]
fn the_standard_profile_allows_what_it_should() {
    let compiled = |capabilities: &[&str]| {
        let names: Vec<String> = capabilities.iter().map(|one| (*one).to_owned()).collect();
        let mut profile = standard::profile(&names);
        profile.architectures = vec![Architecture::X86_64, Architecture::X86];
        program(&profile).unwrap()
    };
    let (plain, admin) = (compiled(&[]), compiled(&["CAP_SYS_ADMIN"]));
    let (allow, refuse, missing) = (Action::ALLOW, Action::errno(EPERM), Action::errno(ENOSYS));
    for (number, arguments, without, with) in [
        (0, [0; 2], allow, allow),             // read
        (59, [0; 2], allow, allow),            // execve
        (165, [0; 2], refuse, allow),          // mount
        (246, [0; 2], refuse, refuse),         // kexec_load
        (56, [0x11, 0], allow, allow),         // clone
        (56, [0x1000_0000, 0], refuse, allow), // clone with a user namespace
        (435, [0; 2], missing, allow),         // clone3
        (41, [2, 0], allow, allow),            // socket
        (41, [38, 0], refuse, refuse),         // AF_ALG
        (41, [39, 0], allow, allow),
        (41, [40, 0], refuse, refuse), // AF_VSOCK
        (41, [41, 0], allow, allow),
        (135, [0x8, 0], allow, allow), // personality
        (135, [0x10, 0], refuse, refuse),
        (425, [0; 2], refuse, refuse), // io_uring_setup
        (5000, [0; 2], missing, missing),
        (0x4000_0000, [0; 2], missing, missing),
    ] {
        assert_eq!(run(&plain, X86_64, number, &arguments), without, "{number} {arguments:?}");
        assert_eq!(run(&admin, X86_64, number, &arguments), with, "{number} {arguments:?}");
    }
    assert_eq!(run(&plain, X86, 3, &[]), allow);
    assert_eq!(run(&plain, X86, 21, &[]), refuse);
    assert_eq!(run(&plain, 0x1234, 0, &[]), Action::KILL_PROCESS);
    assert!(plain.len() < 600, "{}", plain.len());
}

#[test]
fn profiles_are_read() {
    let json = br#"{"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X32"], "syscalls": [
        {"names": ["mkdir", "nothing"], "action": "SCMP_ACT_ERRNO", "errnoRet": 13},
        {"names": ["kill"], "action": "SCMP_ACT_KILL", "args": [
            {"index": 1, "value": 9, "op": "SCMP_CMP_EQ"}, {"index": 1, "value": 15, "op": "SCMP_CMP_EQ"}]}]}"#;
    let mut profile = read(json).unwrap();
    profile.architectures = vec![Architecture::X86_64];
    let program = program(&profile).unwrap();
    assert_eq!(run(&program, X86_64, 83, &[]), Action::errno(13));
    assert_eq!(run(&program, X86_64, 62, &[1, 9]), Action(0));
    assert_eq!(run(&program, X86_64, 62, &[1, 15]), Action(0));
    assert_eq!(run(&program, X86_64, 62, &[1, 10]), Action::ALLOW);
    assert_eq!(run(&program, X86_64, 5000, &[]), Action::ALLOW);
    for (wrong, why) in [
        (r#"{"defaultAction": "X"}"#, ProfileError::Action("X".to_owned())),
        (
            r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_LOG",
                "args": [{"index": 6, "op": "SCMP_CMP_EQ"}]}]}"#,
            ProfileError::Argument(6),
        ),
    ] {
        assert_eq!(read(wrong.as_bytes()).err(), Some(why));
    }
    assert!(read(b"{").is_err());
}
