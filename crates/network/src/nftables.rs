//! A table of nftables as messages: chains, and rules made of expressions. One batch replaces all of it or nothing.

use std::io;
use std::net::IpAddr;

use crate::addresses::Cidr;
use crate::link::octets;
use crate::netlink::{ACK, APPEND, CREATE, DUMP, Family, Messages, REQUEST, Socket, attributes};

const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const GET_TABLE: u16 = SUBSYSTEM << 8 | 1;
const DELETE_TABLE: u16 = SUBSYSTEM << 8 | 2;
const NEW_CHAIN: u16 = SUBSYSTEM << 8 | 3;
const GET_CHAIN: u16 = SUBSYSTEM << 8 | 4;
const NEW_RULE: u16 = SUBSYSTEM << 8 | 6;
/// Both versions of IP.
const INET: u8 = 1;

const VALUE: u16 = 1;
const FIRST: u32 = 1;
const SECOND: u32 = 2;

/// Where a chain looks at packets.
#[derive(Clone, Copy)]
pub enum Hook {
    /// Before anything else, connection tracking included.
    Arrival,
    Prerouting,
    Output,
    Postrouting,
}

/// What is compared, and what is done.
pub enum Expression {
    /// The source or the destination is in a range, or is not.
    Address {
        source: bool,
        range: Cidr,
        is_in: bool,
    },
    /// TCP 6, UDP 17, SCTP 132.
    Protocol(u8),
    DestinationPort(u16),
    /// The destination is an address of this machine.
    ToThisMachine,
    /// Its destination was changed on the way.
    WasRedirected,
    Redirect {
        to: IpAddr,
        port: u16,
    },
    Masquerade,
    /// It did not come from this machine itself.
    FromOutside,
    Drop,
}

pub struct Chain {
    pub name: &'static str,
    pub hook: Hook,
    pub rules: Vec<Vec<Expression>>,
}

/// Makes the table what it shall be.
pub fn replace(table: &str, chains: &[Chain]) -> io::Result<()> {
    let mut batch = begin();
    table_message(&mut batch, NEW_TABLE, table);
    table_message(&mut batch, DELETE_TABLE, table);
    table_message(&mut batch, NEW_TABLE, table);
    for chain in chains {
        let (hook, priority, kind) = match chain.hook {
            Hook::Arrival => (0, -300, "filter"),
            Hook::Prerouting => (0, -100, "nat"),
            Hook::Output => (3, -100, "nat"),
            Hook::Postrouting => (4, 100, "nat"),
        };
        batch.begin(NEW_CHAIN, REQUEST | CREATE, &header(INET)).text(1, table).text(3, chain.name);
        batch.nest(4, |at| {
            at.network_number(1, hook).attribute(2, &i32::to_be_bytes(priority));
        });
        batch.text(7, kind);
    }
    for chain in chains {
        for rule in &chain.rules {
            batch
                .begin(NEW_RULE, REQUEST | CREATE | APPEND, &header(INET))
                .text(1, table)
                .text(2, chain.name);
            batch.nest(4, |list| rule.iter().for_each(|expression| put(list, expression)));
        }
    }
    finish(batch)
}

/// What is not there is removed already.
pub fn remove(table: &str) -> io::Result<()> {
    let mut batch = begin();
    table_message(&mut batch, NEW_TABLE, table);
    table_message(&mut batch, DELETE_TABLE, table);
    finish(batch)
}

/// The names of all tables for both versions of IP, whoever made them.
pub fn tables() -> io::Result<Vec<String>> {
    let mut question = Messages::default();
    question.begin(GET_TABLE, REQUEST | ACK | DUMP, &header(INET));
    let answers = Socket::open(Family::Netfilter)?.call(&mut question)?;
    let of_tables = answers.iter().filter(|answer| answer.kind == NEW_TABLE);
    Ok(of_tables.filter_map(|answer| table_name(&answer.body)).collect())
}

fn table_name(table: &[u8]) -> Option<String> {
    let all = attributes(table.get(4..)?);
    all.iter().find(|(kind, _)| *kind == 1).map(|(_, name)| text(name))
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value.strip_suffix(&[0]).unwrap_or(value)).into_owned()
}

/// The chains that see packets on their way through this machine and drop what none of their rules lets pass: `FAMILY TABLE CHAIN`,
/// as nft names them.
pub fn forward_drops() -> io::Result<Vec<String>> {
    let mut question = Messages::default();
    // Of all families.
    question.begin(GET_CHAIN, REQUEST | ACK | DUMP, &[0; 4]);
    let answers = Socket::open(Family::Netfilter)?.call(&mut question)?;
    Ok(answers
        .iter()
        .filter(|answer| answer.kind == NEW_CHAIN)
        .filter_map(|answer| forward_drop(&answer.body))
        .collect())
}

fn forward_drop(chain: &[u8]) -> Option<String> {
    const TABLE: u16 = 1;
    const NAME: u16 = 3;
    const HOOK: u16 = 4;
    const POLICY: u16 = 5;
    const FORWARD: u32 = 2;
    const DROP: u32 = 0;
    // Those of bridges and of ARP have other hooks.
    let family = match *chain.first()? {
        INET => "inet",
        2 => "ip",
        10 => "ip6",
        _ => return None,
    };
    let all = attributes(chain.get(4..)?);
    let of = |kind: u16| all.iter().find(|(known, _)| *known == kind).map(|(_, value)| *value);
    let number = |value: &[u8]| value.first_chunk().map(|value| u32::from_be_bytes(*value));
    // A chain that only others lead to has no hook.
    let (_, hook) = attributes(of(HOOK)?).into_iter().find(|(kind, _)| *kind == 1)?;
    let drops = number(hook)? == FORWARD && number(of(POLICY)?)? == DROP;
    drops.then_some(format!("{family} {} {}", text(of(TABLE)?), text(of(NAME)?)))
}

fn begin() -> Messages {
    let mut batch = Messages::default();
    batch.begin(BATCH_BEGIN, REQUEST, &header(0));
    batch
}

fn finish(mut batch: Messages) -> io::Result<()> {
    // Of a batch only its last word is confirmed: what fails before that is told anyway.
    batch.acknowledge();
    batch.begin(BATCH_END, REQUEST, &header(0));
    Socket::open(Family::Netfilter)?.call(&mut batch).map(drop)
}

/// The fixed part: a family, a version, and for batches whose they are.
fn header(family: u8) -> [u8; 4] {
    let [high, low] = SUBSYSTEM.to_be_bytes();
    if family == 0 { [0, 0, high, low] } else { [family, 0, 0, 0] }
}

fn table_message(batch: &mut Messages, kind: u16, table: &str) {
    batch.begin(kind, REQUEST | CREATE, &header(INET)).text(1, table);
}

fn expression(list: &mut Messages, name: &str, data: impl FnOnce(&mut Messages)) {
    list.nest(1, |one| {
        one.text(1, name).nest(2, data);
    });
}

fn put(list: &mut Messages, wanted: &Expression) {
    match wanted {
        Expression::Address { source, range, is_in } => {
            let v6 = range.is_v6();
            meta(list, 15);
            compare(list, &[if v6 { 10 } else { 2 }], true);
            let (offset, length) = match (v6, source) {
                (false, true) => (12, 4),
                (false, false) => (16, 4),
                (true, true) => (8, 16),
                (true, false) => (24, 16),
            };
            payload(list, 1, offset, length);
            let mask = mask(range.prefix(), length as usize);
            expression(list, "bitwise", |data| {
                data.network_number(1, FIRST).network_number(2, FIRST).network_number(3, length);
                value(data, 4, &mask);
                value(data, 5, &vec![0; length as usize]);
            });
            compare(list, &octets(range.network()), *is_in);
        }
        Expression::Protocol(protocol) => {
            meta(list, 16);
            compare(list, &[*protocol], true);
        }
        Expression::DestinationPort(port) => {
            payload(list, 2, 2, 2);
            compare(list, &port.to_be_bytes(), true);
        }
        Expression::ToThisMachine => {
            // The type of the destination's route: 2 is local.
            expression(list, "fib", |data| {
                data.network_number(1, FIRST).network_number(2, 3).network_number(3, 2);
            });
            compare(list, &2u32.to_ne_bytes(), true);
        }
        Expression::WasRedirected => {
            expression(list, "ct", |data| {
                data.network_number(1, FIRST).network_number(2, 2);
            });
            let changed: u32 = 1 << 5;
            expression(list, "bitwise", |data| {
                data.network_number(1, FIRST).network_number(2, FIRST).network_number(3, 4);
                value(data, 4, &changed.to_ne_bytes());
                value(data, 5, &[0; 4]);
            });
            compare(list, &[0; 4], false);
        }
        Expression::Redirect { to, port } => {
            immediate(list, FIRST, &octets(*to));
            immediate(list, SECOND, &port.to_be_bytes());
            expression(list, "nat", |data| {
                data.network_number(1, 1).network_number(2, if to.is_ipv4() { 2 } else { 10 });
                data.network_number(3, FIRST).network_number(5, SECOND);
            });
        }
        Expression::Masquerade => expression(list, "masq", |_| {}),
        Expression::FromOutside => {
            // The number of the interface it came in by: that of loopback is 1 in every namespace.
            meta(list, 4);
            compare(list, &1u32.to_ne_bytes(), false);
        }
        Expression::Drop => expression(list, "immediate", |data| {
            data.network_number(1, 0).nest(2, |inside| {
                inside.nest(2, |verdict| {
                    verdict.network_number(1, 0);
                });
            });
        }),
    }
}

fn meta(list: &mut Messages, key: u32) {
    expression(list, "meta", |data| {
        data.network_number(1, FIRST).network_number(2, key);
    });
}

fn payload(list: &mut Messages, base: u32, offset: u32, length: u32) {
    expression(list, "payload", |data| {
        data.network_number(1, FIRST)
            .network_number(2, base)
            .network_number(3, offset)
            .network_number(4, length);
    });
}

fn compare(list: &mut Messages, with: &[u8], equal: bool) {
    expression(list, "cmp", |data| {
        data.network_number(1, FIRST).network_number(2, u32::from(!equal));
        value(data, 3, with);
    });
}

fn immediate(list: &mut Messages, register: u32, bytes: &[u8]) {
    expression(list, "immediate", |data| {
        data.network_number(1, register);
        value(data, 2, bytes);
    });
}

fn value(data: &mut Messages, kind: u16, bytes: &[u8]) {
    data.nest(kind, |inside| {
        inside.attribute(VALUE, bytes);
    });
}

fn mask(prefix: u8, length: usize) -> Vec<u8> {
    let byte = |at: usize| {
        let bits = usize::from(prefix).saturating_sub(at * 8).min(8);
        (0xff00_u16 >> bits) as u8
    };
    (0..length).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(family: u8, hook: u32, policy: Option<u32>) -> Vec<u8> {
        let mut message = Messages::default();
        message.text(1, "filter").text(3, "FORWARD").nest(4, |at| {
            at.network_number(1, hook).network_number(2, 0);
        });
        if let Some(policy) = policy {
            message.network_number(5, policy);
        }
        [&[family, 0, 0, 0], message.bytes()].concat()
    }

    #[test]
    fn a_chain_on_the_way_through_that_drops_by_default_is_named() {
        let (forward, drop, accept) = (2, 0, 1);
        assert_eq!(forward_drop(&chain(2, forward, Some(drop))).as_deref(), Some("ip filter FORWARD"));
        assert_eq!(forward_drop(&chain(10, forward, Some(drop))).as_deref(), Some("ip6 filter FORWARD"));
        assert_eq!(forward_drop(&chain(2, forward, Some(accept))), None);
        assert_eq!(forward_drop(&chain(2, 1, Some(drop))), None, "of what comes to this machine itself");
        assert_eq!(forward_drop(&chain(2, forward, None)), None);
        assert_eq!(forward_drop(&chain(7, forward, Some(drop))), None, "of a bridge");
        assert_eq!(forward_drop(&[2, 0]), None);
    }

    #[test]
    fn masks_have_the_bits_of_their_prefix() {
        assert_eq!(super::mask(20, 4), [255, 255, 240, 0]);
        assert_eq!(super::mask(0, 4), [0; 4]);
        assert_eq!(super::mask(32, 4), [255; 4]);
    }
}
