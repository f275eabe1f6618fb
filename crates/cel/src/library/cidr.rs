//! Prefixes: `cidr('10.0.0.0/8').containsIP('10.1.2.3')`.

#[cfg(test)]
mod tests;

use std::any::Any;
use std::net::{IpAddr, Ipv6Addr};

use super::arguments::{opaque, text};
use super::costs::{NOMINAL, PARSE};
use super::ip::{self, Ip, ip_type};
use super::netip::{parse_prefix, width};
use super::quote::quote;
use crate::cost::{self, ActualCall, CallEstimate, Cost, EstimatedCall, Range, STRING_TRAVERSAL};
use crate::error::Error;
use crate::function::{Function, Overload};
use crate::library::Library;
use crate::types::Type;
use crate::value::{Opaque, Val};

/// The value of `cidr()`: an address, and how many of its bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    pub address: IpAddr,
    pub bits: u8,
}

fn cidr_type() -> Type {
    Type::opaque("net.CIDR", [])
}

pub fn library() -> Library {
    let functions = vec![
        Function::new(
            "cidr",
            [Overload::global("string_to_cidr", [Type::String], cidr_type(), |args| {
                Ok(Val::opaque(parse(text(args, 0)?)?))
            })],
        )
        .cost(PARSE),
        Function::new(
            "isCIDR",
            [Overload::global("is_cidr", [Type::String], Type::Bool, |args| {
                Ok(parse(text(args, 0)?).is_ok().into())
            })],
        )
        .cost(PARSE),
        Function::new(
            "containsIP",
            [
                // A text that is no address gets no message of its own upstream.
                Overload::member(CONTAINS_IP_TEXT, [cidr_type(), Type::String], Type::Bool, |args| {
                    let ip = ip::parse(text(args, 1)?).map_err(|_| Error::no_such_overload())?;
                    Ok(receiver(args)?.contains(ip).into())
                }),
                Overload::member("cidr_contains_ip_ip", [cidr_type(), ip_type()], Type::Bool, |args| {
                    Ok(receiver(args)?.contains(opaque::<Ip>(args, 1)?.0).into())
                }),
            ],
        )
        .cost(CONTAINS_IP),
        Function::new(
            "containsCIDR",
            [
                Overload::member(CONTAINS_CIDR_TEXT, [cidr_type(), Type::String], Type::Bool, |args| {
                    Ok(receiver(args)?.includes(parse(text(args, 1)?)?).into())
                }),
                Overload::member("cidr_contains_cidr", [cidr_type(), cidr_type()], Type::Bool, |args| {
                    Ok(receiver(args)?.includes(*opaque(args, 1)?).into())
                }),
            ],
        )
        .cost(CONTAINS_CIDR),
        Function::new(
            "ip",
            [Overload::member("cidr_ip", [cidr_type()], ip_type(), |args| {
                Ok(Val::opaque(Ip(receiver(args)?.address)))
            })],
        )
        .cost(ip::IP),
        Function::new(
            "prefixLength",
            [Overload::member("cidr_prefix_length", [cidr_type()], Type::Int, |args| {
                Ok(Val::Int(i64::from(receiver(args)?.bits)))
            })],
        )
        .cost(NOMINAL),
        Function::new(
            "masked",
            [Overload::member("cidr_masked", [cidr_type()], cidr_type(), |args| {
                let Cidr { address, bits } = *receiver(args)?;
                Ok(Val::opaque(Cidr { address: masked(address, bits), bits }))
            })],
        )
        .cost(NOMINAL),
        Function::new(
            "string",
            [Overload::global("cidr_to_string", [cidr_type()], Type::String, |args| {
                Ok(Val::string(receiver(args)?.text()))
            })],
        ),
    ];
    Library { functions, types: vec![cidr_type()], ..Library::default() }
}

const CONTAINS_IP_TEXT: &str = "cidr_contains_ip_string";
const CONTAINS_CIDR_TEXT: &str = "cidr_contains_cidr_string";

/// Both addresses are read as far as the prefix goes.
const CONTAINS_IP: Cost = Cost {
    actual: |call| Some(comparison(call)? + argument(call, CONTAINS_IP_TEXT)?),
    estimate: |call| Some((estimated(2) + estimated_argument(call, CONTAINS_IP_TEXT)?).into()),
};

/// As [`CONTAINS_IP`], and the prefix is read once more to mask it, and the lengths are compared.
const CONTAINS_CIDR: Cost = Cost {
    actual: |call| {
        let mask = cost::traversal(call.args.first()?.cost_size()) + 1;
        Some(comparison(call)? + mask + argument(call, CONTAINS_CIDR_TEXT)?)
    },
    estimate: |call| -> Option<CallEstimate> {
        let mask = estimated(1) + Range::fixed(1);
        Some((estimated(2) + mask + estimated_argument(call, CONTAINS_CIDR_TEXT)?).into())
    },
};

fn comparison(call: &ActualCall<'_, '_>) -> Option<u64> {
    Some(cost::traversal(2 * call.args.first()?.cost_size()))
}
/// A text is parsed before.
fn argument(call: &ActualCall<'_, '_>, text: &str) -> Option<u64> {
    let size = call.args.get(1)?.cost_size();
    Some(if call.overload == text { cost::traversal(size) } else { 0 })
}
/// An address is 4 or 16 bytes.
fn estimated(times: u64) -> Range {
    Range { min: 4 * times, max: 16 * times }.scale(STRING_TRAVERSAL)
}
fn estimated_argument(call: &EstimatedCall<'_>, text: &str) -> Option<Range> {
    let argument = call.args.first()?;
    Some(if call.overload == text { call.size(argument).scale(STRING_TRAVERSAL) } else { Range::ZERO })
}

fn receiver<'v>(args: &'v [Val<'_>]) -> Result<&'v Cidr, Error> {
    opaque(args, 0)
}

fn parse(raw: &str) -> Result<Cidr, Error> {
    // Upstream wraps the message of the parser twice, its own once.
    const CONTEXT: &str = "network address parse error during conversion from string";
    let (address, bits) =
        parse_prefix(raw).map_err(|message| Error::new(format!("{CONTEXT}: {CONTEXT}: {message}")))?;
    if ip::is_mapped(address) {
        let quoted = quote(raw.as_bytes());
        return Err(Error::new(format!("{CONTEXT}: IPv4-mapped IPv6 address {quoted} is not allowed")));
    }
    Ok(Cidr { address, bits })
}

/// With only the first bits.
fn masked(address: IpAddr, bits: u8) -> IpAddr {
    let mask = |width: u8| u128::MAX.checked_shl(u32::from(width - bits)).unwrap_or(0);
    match address {
        IpAddr::V4(ip) => IpAddr::V4((u32::from(ip) & mask(32) as u32).into()),
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from(u128::from(ip) & mask(128))),
    }
}

impl Cidr {
    fn contains(self, ip: IpAddr) -> bool {
        // Masked as a prefix of the other family, it would not fit.
        width(self.address) == width(ip) && masked(self.address, self.bits) == masked(ip, self.bits)
    }
    fn includes(self, other: Cidr) -> bool {
        self.bits <= other.bits && self.contains(other.address)
    }
}

impl Opaque for Cidr {
    fn ty(&self) -> Type {
        cidr_type()
    }
    fn equal(&self, other: &Val<'_>) -> Result<bool, Error> {
        other.as_opaque::<Cidr>().map(|other| self == other).ok_or_else(Error::no_such_overload)
    }
    /// Of the prefix, in bytes.
    fn size(&self) -> Option<u64> {
        Some(u64::from(self.bits.div_ceil(8)))
    }
    fn text(&self) -> String {
        format!("{}/{}", self.address, self.bits)
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
