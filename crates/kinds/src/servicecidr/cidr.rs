//! A range of addresses: which of them may be given out, and in which order they are tried.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Upstream divides a range: `min(max(MIN, size / STEP), MAX)` addresses at its start are given out last, so
/// that people can choose theirs there.
const STATIC_MIN: u64 = 16;
const STATIC_MAX: u64 = 256;
const STATIC_STEP: u64 = 16;
/// Upstream's allocator takes no larger IPv6 ranges.
const SHORTEST_V6: u8 = 64;

#[derive(Debug, PartialEq, Eq)]
pub enum BadRange {
    NotARange(String),
    TooLarge(String),
    Empty(String),
    Families(String),
}

impl std::error::Error for BadRange {}

impl fmt::Display for BadRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadRange::NotARange(text) => {
                write!(
                    f,
                    "{text} is not a range of addresses: write it as ADDRESS/BITS, such as 10.96.0.0/16"
                )
            }
            BadRange::TooLarge(text) => {
                write!(f, "{text} is too large: an IPv6 range must have at least 64 bits, such as fd00::/108")
            }
            BadRange::Empty(text) => {
                let advice = "take fewer bits, such as /16 for IPv4 or /108 for IPv6";
                write!(f, "{text} has no address to give out: {advice}")
            }
            BadRange::Families(text) => {
                write!(f, "{text} must be one range, or one of IPv4 and one of IPv6")
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    pub fn name(self) -> &'static str {
        match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        }
    }
    pub fn of(address: &IpAddr) -> Family {
        if address.is_ipv4() { Family::V4 } else { Family::V6 }
    }
    pub fn parse(name: &str) -> Option<Family> {
        [Family::V4, Family::V6].into_iter().find(|family| family.name() == name)
    }
    pub fn other(self) -> Family {
        match self {
            Family::V4 => Family::V6,
            Family::V6 => Family::V4,
        }
    }
    fn width(self) -> u8 {
        match self {
            Family::V4 => 32,
            Family::V6 => 128,
        }
    }
    fn address(self, bits: u128) -> IpAddr {
        match self {
            // A number of a family never leaves it: ranges end within their family's width.
            Family::V4 => IpAddr::V4(Ipv4Addr::from(bits as u32)),
            Family::V6 => IpAddr::V6(Ipv6Addr::from(bits)),
        }
    }
}

fn number(address: &IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(u32::from(*v4)),
        IpAddr::V6(v6) => u128::from(*v6),
    }
}

/// A network and its width; host bits are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    family: Family,
    network: u128,
    bits: u8,
}

impl Cidr {
    /// 10.96.0.0/16.
    pub const DEFAULT: Cidr = Cidr { family: Family::V4, network: 0x0a60_0000, bits: 16 };

    pub fn parse(text: &str) -> Result<Cidr, BadRange> {
        let bad = || BadRange::NotARange(text.to_owned());
        let (address, bits) = text.split_once('/').ok_or_else(bad)?;
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let bits: u8 = bits.parse().map_err(|_| bad())?;
        let family = Family::of(&address);
        if bits > family.width() {
            return Err(bad());
        }
        let mut range = Cidr { family, network: 0, bits };
        range.network = number(&address) & !range.host_mask();
        Ok(range)
    }

    /// Fit for allotting: not too large, and with an address to give.
    pub fn usable(&self) -> Result<(), BadRange> {
        if self.family == Family::V6 && self.bits < SHORTEST_V6 {
            return Err(BadRange::TooLarge(self.to_string()));
        }
        if self.hosts() == 0 { Err(BadRange::Empty(self.to_string())) } else { Ok(()) }
    }

    pub fn family(&self) -> Family {
        self.family
    }

    /// The first address that may be given out; `.0` names the network.
    pub fn first(&self) -> IpAddr {
        self.family.address(self.network | (1 & self.host_mask()))
    }

    /// The network's own address.
    pub fn network(&self) -> IpAddr {
        self.family.address(self.network)
    }

    /// May this address belong to a service of this range? Not the network's and, in IPv4, not the broadcast one.
    pub fn contains(&self, address: &IpAddr) -> bool {
        let n = number(address);
        Family::of(address) == self.family
            && n & !self.host_mask() == self.network
            && n != self.network
            && !(self.family == Family::V4 && n == self.network | self.host_mask())
    }

    /// Is the other range a part of this one?
    pub fn covers(&self, other: &Cidr) -> bool {
        self.family == other.family
            && self.bits <= other.bits
            && other.network & !self.host_mask() == self.network
    }

    /// Addresses in the order they are tried: those behind the static band from a random one on and around, then
    /// the band the same way. `random(n)` is below `n`.
    pub fn candidates(&self, random: impl Fn(u64) -> u64) -> impl Iterator<Item = IpAddr> {
        let (hosts, band) = (self.hosts(), self.static_band());
        // A range may have more addresses than a number has room for; nobody walks that far.
        let bands = [(band, hosts.saturating_sub(band)), (0, band.min(hosts))];
        let (family, first) = (self.family, self.network + 1);
        bands.into_iter().filter(|(_, size)| *size > 0).flat_map(move |(offset, size)| {
            let start = random(size);
            (0..size).map(move |i| {
                let at = (u128::from(start) + u128::from(i)) % u128::from(size);
                family.address(first + u128::from(offset) + at)
            })
        })
    }

    fn host_mask(&self) -> u128 {
        let host_bits = self.family.width() - self.bits;
        if host_bits == 128 { u128::MAX } else { (1 << host_bits) - 1 }
    }

    /// How many addresses may be given out, as far as a number goes.
    fn hosts(&self) -> u64 {
        let reserved = if self.family == Family::V4 { 2 } else { 1 };
        let size = self.host_mask().saturating_add(1);
        u64::try_from(size.saturating_sub(reserved)).unwrap_or(u64::MAX)
    }

    fn static_band(&self) -> u64 {
        let size = u64::try_from(self.host_mask().saturating_add(1)).unwrap_or(u64::MAX);
        if size <= STATIC_MIN {
            return 0;
        }
        (size / STATIC_STEP).clamp(STATIC_MIN, STATIC_MAX)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network(), self.bits)
    }
}
