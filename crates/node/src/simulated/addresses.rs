//! Addresses of simulated nodes and their pods: every node has its own part of 10.0.0.0/8.

use std::net::Ipv4Addr;

/// The addresses of one node's pods.
pub struct Addresses {
    /// The first address of the range; it and the one after are nobody's, as on a bridge.
    base: u32,
    /// A bit for each address of the range.
    taken: Vec<u64>,
    size: u32,
    /// Where to look first: behind the one that was taken last.
    next: u32,
}

const RESERVED: u32 = 2;
const POD_NETWORK: u32 = 10 << 24;
const POD_NETWORK_SIZE: u32 = 1 << 24;

impl Addresses {
    /// Of the `index`-th node of a cluster whose nodes hold so many pods. Beyond 2^24 addresses ranges are shared.
    pub fn of_node(index: usize, pods: i64) -> Addresses {
        // Twice as many as pods, so that an address rests before it is used again; at least a /24.
        let wanted =
            u32::try_from(pods.max(0)).unwrap_or(u32::MAX).saturating_mul(2).saturating_add(RESERVED);
        let size = wanted.clamp(256, 1 << 16).next_power_of_two();
        let base = POD_NETWORK + (index as u64 * u64::from(size) % u64::from(POD_NETWORK_SIZE)) as u32;
        Addresses { base, taken: vec![0; size.div_ceil(64) as usize], size, next: RESERVED }
    }

    /// The next that is free.
    pub fn take(&mut self) -> Option<Ipv4Addr> {
        let mut hosts = (self.next..self.size - 1).chain(RESERVED..self.next);
        let free = hosts.find(|host| !self.is_taken(*host))?;
        self.next = free + 1;
        self.set(free, true);
        Some(Ipv4Addr::from(self.base + free))
    }

    /// This very one; `false`: it is another's, or not of this node.
    pub fn claim(&mut self, address: Ipv4Addr) -> bool {
        let Some(host) = self.host(address) else { return false };
        let free = !self.is_taken(host);
        self.set(host, true);
        free
    }

    pub fn give_back(&mut self, address: Ipv4Addr) {
        if let Some(host) = self.host(address) {
            self.set(host, false);
        }
    }

    fn host(&self, address: Ipv4Addr) -> Option<u32> {
        u32::from(address).checked_sub(self.base).filter(|host| (RESERVED..self.size - 1).contains(host))
    }
    fn is_taken(&self, host: u32) -> bool {
        self.taken[(host / 64) as usize] >> (host % 64) & 1 == 1
    }
    fn set(&mut self, host: u32, taken: bool) {
        let bit = 1u64 << (host % 64);
        let word = &mut self.taken[(host / 64) as usize];
        *word = if taken { *word | bit } else { *word & !bit };
    }
}

/// The address of the node itself, in 172.16.0.0/12.
pub fn of_machine(index: usize) -> Ipv4Addr {
    // The first address of the network is nobody's.
    Ipv4Addr::from((172 << 24 | 16 << 16) + 1 + (index as u32 % ((1 << 20) - 2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_do_not_share_addresses_and_reuse_released_ones() {
        let (mut a, mut b) = (Addresses::of_node(0, 110), Addresses::of_node(1, 110));
        let first = a.take().unwrap();
        assert_eq!(first, Ipv4Addr::new(10, 0, 0, 2));
        assert_eq!(b.take().unwrap(), Ipv4Addr::new(10, 0, 1, 2));
        let second = a.take().unwrap();
        assert_ne!(first, second);
        assert!(!a.claim(second) && !a.claim(Ipv4Addr::new(10, 0, 1, 7)));
        a.give_back(first);
        assert!(a.claim(first));
        let more = std::iter::from_fn(|| a.take()).count();
        assert_eq!(more, 256 - 2 - 1 - 2);
    }
}
