//! A range of addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Host bits are cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    pub is_v6: bool,
    /// The first address, as a number.
    pub first: u128,
    /// The length of the prefix.
    pub size: u8,
}

impl Cidr {
    pub fn parse(text: &str) -> Option<Cidr> {
        let (address, size) = text.trim().split_once('/')?;
        let size: u8 = size.parse().ok()?;
        let (is_v6, first) = match address.parse().ok()? {
            IpAddr::V4(address) => (false, u128::from(address.to_bits())),
            IpAddr::V6(address) => (true, address.to_bits()),
        };
        (size <= bits(is_v6)).then(|| Cidr::new(is_v6, first, size))
    }

    pub fn new(is_v6: bool, address: u128, size: u8) -> Cidr {
        let hosts = low_bits(bits(is_v6) - size.min(bits(is_v6)));
        Cidr { is_v6, first: address & !hosts, size }
    }

    pub fn last(&self) -> u128 {
        self.first | low_bits(bits(self.is_v6) - self.size)
    }

    pub fn overlaps(&self, other: &Cidr) -> bool {
        self.is_v6 == other.is_v6 && self.first <= other.last() && other.first <= self.last()
    }
}

/// The bits of an address of a family.
pub fn bits(is_v6: bool) -> u8 {
    if is_v6 { 128 } else { 32 }
}

/// As many ones at the end.
pub fn low_bits(count: u8) -> u128 {
    1u128.checked_shl(u32::from(count)).map_or(u128::MAX, |over| over - 1)
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match u32::try_from(self.first) {
            Ok(first) if !self.is_v6 => write!(f, "{}/{}", Ipv4Addr::from_bits(first), self.size),
            _ => write!(f, "{}/{}", Ipv6Addr::from_bits(self.first), self.size),
        }
    }
}
