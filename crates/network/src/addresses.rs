//! Which address a pod gets: the next one after the last that is free, so that one that was given back rests for a while.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::error::Error;

/// A range of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cidr {
    network: u128,
    prefix: u8,
    is_v6: bool,
}

impl Cidr {
    pub fn parse(text: &str) -> Result<Cidr, Error> {
        let invalid = || Error::Cidr(text.to_owned());
        let (address, prefix) = text.split_once('/').ok_or_else(invalid)?;
        let (address, prefix) = (address.parse::<IpAddr>(), prefix.parse::<u8>());
        let (Ok(address), Ok(prefix)) = (address, prefix) else { return Err(invalid()) };
        let bits = if address.is_ipv4() { 32 } else { 128 };
        if prefix > bits {
            return Err(invalid());
        }
        let number = number(address);
        let host_bits = u32::from(bits - prefix);
        let network = number.checked_shr(host_bits).map_or(0, |kept| kept << host_bits);
        Ok(Cidr { network, prefix, is_v6: address.is_ipv6() })
    }

    /// One address alone.
    pub fn host(address: IpAddr) -> Cidr {
        let prefix = if address.is_ipv6() { 128 } else { 32 };
        Cidr { network: number(address), prefix, is_v6: address.is_ipv6() }
    }

    pub fn everything(is_v6: bool) -> Cidr {
        Cidr { network: 0, prefix: 0, is_v6 }
    }

    /// The range of a shorter prefix that begins there.
    pub(crate) fn widen(self, prefix: u8) -> Cidr {
        Cidr { prefix: prefix.min(self.prefix), ..self }
    }

    pub fn network(&self) -> IpAddr {
        self.at(0)
    }

    /// The first one after the network's own: the bridge has it.
    pub fn gateway(&self) -> IpAddr {
        self.at(1)
    }

    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    pub fn is_v6(&self) -> bool {
        self.is_v6
    }

    /// How many there are, at most a number to count with.
    fn size(&self) -> u128 {
        let bits: u8 = if self.is_v6 { 128 } else { 32 };
        1u128.checked_shl(u32::from(bits - self.prefix)).unwrap_or(u128::MAX)
    }

    fn at(&self, offset: u128) -> IpAddr {
        let number = self.network + offset;
        if self.is_v6 { IpAddr::V6(number.into()) } else { IpAddr::V4((number as u32).into()) }
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv6() == self.is_v6 && number(address).wrapping_sub(self.network) < self.size()
    }
}

impl std::fmt::Display for Cidr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.network(), self.prefix)
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

/// The addresses of one range.
#[derive(Debug)]
pub struct Addresses {
    range: Cidr,
    taken: BTreeSet<u128>,
    last: u128,
}

impl Addresses {
    pub fn new(range: Cidr) -> Addresses {
        Addresses { range, taken: BTreeSet::new(), last: 1 }
    }

    pub fn range(&self) -> &Cidr {
        &self.range
    }

    /// Not the network's own, not the bridge's, and of IPv4 not the broadcast.
    pub fn take(&mut self) -> Result<IpAddr, Error> {
        let end = self.range.size().saturating_sub(u128::from(!self.range.is_v6));
        let first_free =
            (self.last + 1..end).chain(2..=self.last).find(|at| *at < end && !self.taken.contains(at));
        let at = first_free.ok_or_else(|| Error::Full(self.range.to_string()))?;
        self.taken.insert(at);
        self.last = at;
        Ok(self.range.at(at))
    }

    /// One that a pod has already, after a restart.
    pub fn keep(&mut self, address: IpAddr) {
        if self.range.contains(address) {
            self.taken.insert(number(address) - self.range.network);
        }
    }

    pub fn give_back(&mut self, address: IpAddr) {
        if self.range.contains(address) {
            self.taken.remove(&(number(address) - self.range.network));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        let range = Cidr::parse("10.1.2.77/24").unwrap();
        assert_eq!(
            (range.to_string(), range.gateway().to_string()),
            ("10.1.2.0/24".to_owned(), "10.1.2.1".to_owned())
        );
        assert!(
            range.contains("10.1.2.255".parse().unwrap()) && !range.contains("10.1.3.0".parse().unwrap())
        );
        assert!(!range.contains("::a01:24d".parse().unwrap()));
        assert_eq!(Cidr::parse("fd00::/64").unwrap().gateway().to_string(), "fd00::1");
        assert_eq!(Cidr::parse("::/0").unwrap().to_string(), "::/0");
        for wrong in ["", "10.0.0.0", "10.0.0.0/33", "x/8", "fd00::/129"] {
            assert!(Cidr::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_address_given_back_comes_last() {
        let mut addresses = Addresses::new(Cidr::parse("10.0.0.0/29").unwrap());
        addresses.keep("10.0.0.3".parse().unwrap());
        let take = |addresses: &mut Addresses| addresses.take().map(|a| a.to_string());
        assert_eq!(take(&mut addresses).unwrap(), "10.0.0.2");
        assert_eq!(take(&mut addresses).unwrap(), "10.0.0.4");
        addresses.give_back("10.0.0.2".parse().unwrap());
        assert_eq!(take(&mut addresses).unwrap(), "10.0.0.5");
        assert_eq!(take(&mut addresses).unwrap(), "10.0.0.6");
        assert_eq!(take(&mut addresses).unwrap(), "10.0.0.2");
        assert_eq!(take(&mut addresses).unwrap_err().to_string(), "no free address in 10.0.0.0/29");
    }
}
