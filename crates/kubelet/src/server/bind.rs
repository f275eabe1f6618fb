//! The node's port. It is bound before anything else of the node is touched: where it is taken, another node may be running.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

/// Connections that wait to be accepted; the kernel has a limit of its own.
const BACKLOG: i32 = 4096;

/// An unspecified address is that of both versions of IP, as in Go. `port` 0: a free one.
pub fn bind(address: &str, port: u16) -> io::Result<TcpListener> {
    match address.parse::<IpAddr>() {
        Ok(ip) if ip.is_unspecified() => match listen((Ipv6Addr::UNSPECIFIED, port).into()) {
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                // A kernel without version 6.
                listen((Ipv4Addr::UNSPECIFIED, port).into())
            }
            done => done,
        },
        Ok(ip) => listen(SocketAddr::new(ip, port)),
        Err(_) => {
            let mut tried = Err(io::ErrorKind::AddrNotAvailable.into());
            for address in (address, port).to_socket_addrs()? {
                tried = listen(address);
                if tried.is_ok() {
                    break;
                }
            }
            tried
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    // Connections of an earlier run may still be closing.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, !address.ip().is_unspecified())?;
    }
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn an_unspecified_address_is_that_of_both_versions() {
        let connects = |listener: &TcpListener, ip: &str| {
            let port = listener.local_addr().unwrap().port();
            TcpStream::connect((ip, port)).is_ok()
        };
        let has_v6 = TcpListener::bind("[::1]:0").is_ok();
        for address in ["0.0.0.0", "::"] {
            let both = bind(address, 0).unwrap();
            assert!(connects(&both, "127.0.0.1"));
            assert_eq!(connects(&both, "::1"), has_v6, "{address}");
        }
        let one = bind("127.0.0.1", 0).unwrap();
        assert!(connects(&one, "127.0.0.1") && !connects(&one, "::1"));
    }

    #[test]
    fn a_port_of_either_version_that_is_taken_is_taken() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        assert_eq!(bind("0.0.0.0", port).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        bind("localhost", 0).unwrap();
    }
}
