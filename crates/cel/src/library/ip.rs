//! Addresses: `ip('::1').isLoopback()`.

#[cfg(test)]
mod tests;

use std::any::Any;
use std::net::IpAddr;

use super::arguments::{opaque, text};
use super::costs::{self, NOMINAL, PARSE};
use super::netip::{Zoned, parse_address, width};
use super::quote::quote;
use crate::cost::{ActualCall, CallEstimate, Cost, EstimatedCall, Range, STRING_TRAVERSAL};
use crate::error::Error;
use crate::function::{Function, Overload};
use crate::library::Library;
use crate::types::Type;
use crate::value::{Opaque, Val};

/// The value of `ip()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip(pub IpAddr);

pub(super) fn ip_type() -> Type {
    Type::opaque("net.IP", [])
}

pub fn library() -> Library {
    let accessor = |name, id, result, call| {
        Function::new(name, [Overload::member(id, [ip_type()], result, call)]).cost(NOMINAL)
    };
    let from_text =
        |name, id, result, call| Function::new(name, [Overload::global(id, [Type::String], result, call)]);
    let functions = vec![
        from_text("ip", "string_to_ip", ip_type(), |args| {
            Ok(Val::opaque(Ip(parse(text(args, 0)?).map_err(Error::new)?)))
        })
        .cost(IP),
        from_text("isIP", "is_ip", Type::Bool, |args| Ok(parse(text(args, 0)?).is_ok().into())).cost(PARSE),
        from_text("ip.isCanonical", "ip_is_canonical", Type::Bool, |args| {
            let written = text(args, 0)?;
            let ip = parse(written).map_err(Error::new)?;
            Ok((ip.to_string() == written).into())
        })
        .cost(IS_CANONICAL),
        accessor("family", "ip_family", Type::Int, |args| {
            Ok(Val::Int(if receiver(args)?.is_ipv4() { 4 } else { 6 }))
        }),
        accessor("isUnspecified", "ip_is_unspecified", Type::Bool, |args| {
            Ok(receiver(args)?.is_unspecified().into())
        }),
        accessor("isLoopback", "ip_is_loopback", Type::Bool, |args| Ok(receiver(args)?.is_loopback().into())),
        accessor("isLinkLocalMulticast", "ip_is_link_local_multicast", Type::Bool, |args| {
            Ok(is_link_local_multicast(receiver(args)?).into())
        }),
        accessor("isLinkLocalUnicast", "ip_is_link_local_unicast", Type::Bool, |args| {
            Ok(is_link_local_unicast(receiver(args)?).into())
        }),
        accessor("isGlobalUnicast", "ip_is_global_unicast", Type::Bool, |args| {
            Ok(is_global_unicast(receiver(args)?).into())
        }),
        Function::new(
            "string",
            [Overload::global("ip_to_string", [ip_type()], Type::String, |args| {
                Ok(Val::string(receiver(args)?.to_string()))
            })],
        ),
    ];
    Library { functions, types: vec![ip_type()], ..Library::default() }
}

/// Of the function, whichever library declares the signature: a member of a prefix is just read.
pub(super) const IP: Cost = Cost {
    actual: |call| if call.overload == "cidr_ip" { Some(1) } else { costs::parse_cost(call) },
    estimate: |call| match call.overload {
        "cidr_ip" => Some(Range::fixed(1).into()),
        _ => costs::parse_estimate(call),
    },
};

/// The text is parsed, and compared with what it should be.
const IS_CANONICAL: Cost = Cost { actual: is_canonical_cost, estimate: is_canonical_estimate };

fn is_canonical_cost(call: &ActualCall<'_, '_>) -> Option<u64> {
    Some((call.args.first()?.cost_size() as f64 * 2.0 * STRING_TRAVERSAL).ceil() as u64)
}
fn is_canonical_estimate(call: &EstimatedCall<'_>) -> Option<CallEstimate> {
    Some(call.size(call.args.first()?).scale(2.0 * STRING_TRAVERSAL).into())
}

fn receiver(args: &[Val<'_>]) -> Result<IpAddr, Error> {
    opaque::<Ip>(args, 0).map(|ip| ip.0)
}

/// An address without a zone, and no IPv4 address written as an IPv6 one.
pub(super) fn parse(raw: &str) -> Result<IpAddr, String> {
    let quoted = || quote(raw.as_bytes());
    let Zoned { ip, zone } = parse_address(raw.as_bytes()).map_err(|message| {
        format!("IP Address {} parse error during conversion from string: {message}", quoted())
    })?;
    if !zone.is_empty() {
        return Err(format!("IP address {} with zone value is not allowed", quoted()));
    }
    if is_mapped(ip) {
        return Err(format!("IPv4-mapped IPv6 address {} is not allowed", quoted()));
    }
    Ok(ip)
}

/// `::ffff:1.2.3.4`.
pub(super) fn is_mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some())
}

fn is_link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    }
}
fn is_link_local_unicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}
/// Go's idea of it: private networks count.
fn is_global_unicast(ip: IpAddr) -> bool {
    let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !(broadcast || ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || is_link_local_unicast(ip))
}

impl Opaque for Ip {
    fn ty(&self) -> Type {
        ip_type()
    }
    fn equal(&self, other: &Val<'_>) -> Result<bool, Error> {
        other.as_opaque::<Ip>().map(|other| self == other).ok_or_else(Error::no_such_overload)
    }
    /// In bytes.
    fn size(&self) -> Option<u64> {
        Some(u64::from(width(self.0) / 8))
    }
    fn text(&self) -> String {
        self.0.to_string()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
