//! What the kernel remembers of datagrams that belong together: where the first of them was sent decides where all others go, as long
//! as they keep coming, whatever the rules say meanwhile.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use crate::netlink::{ACK, DUMP, Family, Messages, REQUEST, Socket, attributes};

const SUBSYSTEM: u16 = 1;
const NEW: u16 = SUBSYSTEM << 8;
const GET: u16 = SUBSYSTEM << 8 | 1;
const DELETE: u16 = SUBSYSTEM << 8 | 2;

const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
const ID: u16 = 12;
const ZONE: u16 = 18;

const UDP: u8 = 17;

/// Where datagrams are sent, and where they arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    pub sent_to: SocketAddr,
    pub goes_to: SocketAddr,
}

impl Flow {
    /// Whether they are sent to this machine.
    pub fn is_for_this_machine(&self) -> bool {
        // Nobody can listen at an address of another one.
        UdpSocket::bind((self.sent_to.ip(), 0)).is_ok()
    }
}

/// Forgets these flows of UDP: the next datagram of each is looked at as if it were the first.
pub fn forget(which: impl Fn(&Flow) -> bool) -> io::Result<()> {
    let socket = Socket::open(Family::Netfilter)?;
    let mut question = Messages::default();
    // Of both versions of IP.
    question.begin(GET, REQUEST | ACK | DUMP, &[0; 4]);
    let mut deletions = Vec::new();
    socket.call_each(&mut question, |kind, body| {
        let entry = Some(body).filter(|_| kind == NEW).and_then(Entry::read);
        deletions.extend(entry.filter(|entry| which(&entry.flow)).map(|entry| entry.deletion()));
    })?;
    for mut deletion in deletions {
        match socket.call(&mut deletion) {
            // It came to its end meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => drop(done?),
        }
    }
    Ok(())
}

struct Entry<'a> {
    family: u8,
    flow: Flow,
    /// By which the kernel finds it again.
    key: Vec<(u16, &'a [u8])>,
}

impl Entry<'_> {
    /// `None`: it is not of UDP.
    fn read(body: &[u8]) -> Option<Entry<'_>> {
        let all = attributes(body.get(4..)?);
        let of = |kind: u16| all.iter().find(|(known, _)| *known == kind).map(|(_, value)| *value);
        let flow = Flow { sent_to: end(of(ORIGINAL)?, false)?, goes_to: end(of(REPLY)?, true)? };
        let key = all.iter().copied().filter(|(kind, _)| [ORIGINAL, ID, ZONE].contains(kind)).collect();
        Some(Entry { family: *body.first()?, flow, key })
    }

    /// Without the addresses, all there is would be deleted: they are what [`Entry::read`] requires.
    fn deletion(&self) -> Messages {
        let mut message = Messages::default();
        message.begin(DELETE, REQUEST | ACK, &[self.family, 0, 0, 0]);
        for (kind, value) in &self.key {
            if *kind == ORIGINAL {
                message.nest(*kind, |inside| {
                    inside.raw(value);
                });
            } else {
                message.attribute(*kind, value);
            }
        }
        message
    }
}

/// The source, or the destination, of packets of one direction.
fn end(direction: &[u8], source: bool) -> Option<SocketAddr> {
    const ADDRESSES: u16 = 1;
    const PROTOCOL: u16 = 2;
    const NUMBER: u16 = 1;
    let direction = attributes(direction);
    let of =
        |kind: u16| direction.iter().find(|(known, _)| *known == kind).map(|(_, value)| attributes(value));
    let (addresses, protocol) = (of(ADDRESSES)?, of(PROTOCOL)?);
    let field = |kind: u16| protocol.iter().find(|(known, _)| *known == kind).map(|(_, value)| *value);
    if field(NUMBER)?.first() != Some(&UDP) {
        return None;
    }
    let (v4, v6, port) = if source { (1, 3, 2) } else { (2, 4, 3) };
    let address = addresses.iter().find_map(|(kind, value)| match *kind {
        kind if kind == v4 => Some(IpAddr::from(*value.first_chunk::<4>()?)),
        kind if kind == v6 => Some(IpAddr::from(*value.first_chunk::<16>()?)),
        _ => None,
    });
    Some(SocketAddr::new(address?, u16::from_be_bytes(*field(port)?.first_chunk()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(protocol: u8) -> Vec<u8> {
        let mut message = Messages::default();
        let direction = |tuple: &mut Messages, ends: [[u8; 4]; 2], ports: [u16; 2]| {
            tuple.nest(1, |addresses| {
                addresses.attribute(1, &ends[0]).attribute(2, &ends[1]);
            });
            tuple.nest(2, |of| {
                of.attribute(1, &[protocol]);
                of.attribute(2, &ports[0].to_be_bytes()).attribute(3, &ports[1].to_be_bytes());
            });
        };
        let (client, machine, pod) = ([10, 0, 0, 9], [10, 0, 0, 1], [10, 244, 0, 5]);
        message.raw(&[2, 0, 0, 0]);
        message.nest(ORIGINAL, |tuple| direction(tuple, [client, machine], [40_000, 5556]));
        message.nest(REPLY, |tuple| direction(tuple, [pod, client], [53, 40_000]));
        message.network_number(ID, 7).network_number(3, 1);
        message.bytes().to_vec()
    }

    #[test]
    fn a_flow_is_read_and_deleted_by_what_it_was_sent_to() {
        let body = entry(UDP);
        let entry = Entry::read(&body).unwrap();
        let expected =
            Flow { sent_to: "10.0.0.1:5556".parse().unwrap(), goes_to: "10.244.0.5:53".parse().unwrap() };
        assert_eq!(entry.flow, expected);
        let deletion = entry.deletion();
        // After the header of the message.
        let sent = Entry::read(&[&deletion.bytes()[16..], &body[4..]].concat()).map(|entry| entry.flow);
        assert_eq!(sent, Some(expected));
        let kinds: Vec<u16> = attributes(&deletion.bytes()[20..]).iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [ORIGINAL, ID]);
    }

    #[test]
    fn what_is_not_udp_is_left_alone_and_what_is_broken_too() {
        assert!(Entry::read(&entry(6)).is_none());
        let body = entry(UDP);
        for cut in 0..60 {
            assert!(Entry::read(&body[..cut]).is_none(), "{cut}");
        }
    }
}
