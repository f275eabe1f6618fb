//! A way to the server through a proxy: HTTP's CONNECT, or SOCKS5.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A proxy's answer has a short head.
const MAX_HEAD: usize = 16 << 10;

/// `proxy-url` of a kubeconfig, taken apart.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    socks: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// User and password.
    login: Option<(String, String)>,
}

/// A password is not for logs.
impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Proxy({}:{})", self.host, self.port)
    }
}

impl Proxy {
    /// `http://[user:password@]host[:port]`, or the same with `socks5`.
    pub fn parse(url: &str) -> Result<Proxy, String> {
        let shown = without_secrets(url);
        let wrong =
            || format!("its proxy-url {shown:?} is none: write it as http://host:port or socks5://host:port");
        let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
        let (socks, usual) = match scheme {
            "http" => (false, 80),
            "socks5" | "socks5h" => (true, 1080),
            "https" => {
                return Err(format!(
                    "its proxy-url {shown:?} is a proxy behind TLS, which is not supported; use http:// or socks5://"
                ));
            }
            _ => return Err(wrong()),
        };
        let rest = rest.trim_end_matches('/');
        let (login, address) = match rest.rsplit_once('@') {
            Some((login, address)) => (Some(login), address),
            None => (None, rest),
        };
        let plain = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let login = login.map(|login| {
            let (user, password) = login.split_once(':').unwrap_or((login, ""));
            (plain(user), plain(password))
        });
        let address: http::uri::Authority = address.parse().map_err(|_| wrong())?;
        let host = address.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = match address.port_u16() {
            Some(port) => port,
            None if address.as_str() == address.host() => usual,
            None => return Err(wrong()),
        };
        if host.is_empty() || url.contains(char::is_whitespace) {
            return Err(wrong());
        }
        Ok(Proxy { socks, host, port, login })
    }

    /// Asks the proxy on the other end to lead to the server.
    pub(crate) async fn lead(&self, tcp: &mut TcpStream, host: &str, port: u16) -> io::Result<()> {
        let led =
            if self.socks { self.socks5(tcp, host, port).await } else { self.connect(tcp, host, port).await };
        led.map_err(|error| {
            io::Error::new(error.kind(), format!("the proxy {}:{}: {error}", self.host, self.port))
        })
    }

    async fn connect(&self, tcp: &mut TcpStream, host: &str, port: u16) -> io::Result<()> {
        let target = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
        if let Some((user, password)) = &self.login {
            let login = STANDARD.encode(format!("{user}:{password}"));
            request.push_str(&format!("Proxy-Authorization: Basic {login}\r\n"));
        }
        request.push_str("\r\n");
        tcp.write_all(request.as_bytes()).await?;
        // Byte by byte: what follows the head belongs to the server.
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if head.len() == MAX_HEAD {
                return Err(refused("it answered with something that is not HTTP".to_owned()));
            }
            head.push(tcp.read_u8().await?);
        }
        let line = String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_owned();
        match line.split(' ').nth(1) {
            Some(code) if code.starts_with('2') && code.len() == 3 => Ok(()),
            Some("407") => Err(refused(format!(
                "it wants a user and a password; write proxy-url: http://USER:PASSWORD@{}:{}",
                self.host, self.port
            ))),
            _ => Err(refused(format!("it does not lead to {target}: {line}"))),
        }
    }

    /// RFC 1928, and RFC 1929 for a user and a password.
    async fn socks5(&self, tcp: &mut TcpStream, host: &str, port: u16) -> io::Result<()> {
        let method = u8::from(self.login.is_some()) * 2;
        tcp.write_all(&[5, 1, method]).await?;
        let mut answer = [0; 2];
        tcp.read_exact(&mut answer).await?;
        if answer != [5, method] {
            return Err(refused("unsupported proxy authentication; check the user in proxy-url".to_owned()));
        }
        let short = |text: &str, what: &str| {
            u8::try_from(text.len()).map_err(|_| refused(format!("{what} is too long")))
        };
        if let Some((user, password)) = &self.login {
            let secret = "the user or password";
            let mut login = vec![1, short(user, secret)?];
            login.extend_from_slice(user.as_bytes());
            login.push(short(password, secret)?);
            login.extend_from_slice(password.as_bytes());
            tcp.write_all(&login).await?;
            tcp.read_exact(&mut answer).await?;
            if answer[1] != 0 {
                return Err(refused("it refuses the user and the password in proxy-url".to_owned()));
            }
        }
        let mut request = vec![5, 1, 0];
        match host.parse::<std::net::IpAddr>() {
            Ok(std::net::IpAddr::V4(ip)) => request.extend_from_slice(&[&[1], &ip.octets()[..]].concat()),
            Ok(std::net::IpAddr::V6(ip)) => request.extend_from_slice(&[&[4], &ip.octets()[..]].concat()),
            // A name is for the proxy to look up.
            Err(_) => {
                request.extend_from_slice(&[3, short(host, &format!("{host:?}"))?]);
                request.extend_from_slice(host.as_bytes());
            }
        }
        request.extend_from_slice(&port.to_be_bytes());
        tcp.write_all(&request).await?;
        let mut head = [0; 4];
        tcp.read_exact(&mut head).await?;
        if head[1] != 0 {
            return Err(refused(format!("it does not lead to {host}:{port} (SOCKS5 error {})", head[1])));
        }
        // Its own address, which nobody asked for.
        let rest = match head[3] {
            1 => 4,
            4 => 16,
            3 => usize::from(tcp.read_u8().await?),
            _ => return Err(refused("it answered with something that is not SOCKS5".to_owned())),
        };
        tcp.read_exact(&mut vec![0; rest + 2]).await?;
        Ok(())
    }
}

/// Scheme and host of what may not even be an address: all the rest may be a password.
fn without_secrets(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let address = rest.rsplit_once('@').map_or(rest, |(_, address)| address);
    let end = match address.find(']') {
        Some(end) if address.starts_with('[') => end + 1,
        _ => address.find([':', '/', '?', '#']).unwrap_or(address.len()),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    if scheme.is_empty() || !scheme.chars().all(plain) {
        return address[..end].to_owned();
    }
    format!("{scheme}://{}", &address[..end])
}

fn refused(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionRefused, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_urls_are_parsed() {
        let parts = |url: &str| Proxy::parse(url).map(|p| (p.socks, p.host, p.port, p.login));
        let login = Some(("a@b".to_owned(), "c:d".to_owned()));
        assert_eq!(parts("http://p:3128/"), Ok((false, "p".to_owned(), 3128, None)));
        assert_eq!(parts("http://a%40b:c%3Ad@p"), Ok((false, "p".to_owned(), 80, login)));
        assert_eq!(parts("socks5://[::1]:9"), Ok((true, "::1".to_owned(), 9, None)));
        for bad in ["p:1", "ftp://p", "http://", "http://p:99999", "https://p", "http://p q"] {
            assert!(parts(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_invalid_proxy_url_is_shown_without_credentials() {
        for (url, shown) in [
            ("https://user:secret@proxy:1", "\"https://proxy\""),
            ("ftp://user:secret@proxy", "\"ftp://proxy\""),
            ("http://user:secret@proxy:99999", "\"http://proxy\""),
            ("http://user:a@secret/x@[::1]:x", "\"http://[::1]\""),
            ("user:secret@proxy:80", "\"proxy\""),
            ("user:secret://secret@proxy", "\"proxy\""),
            ("http://user:secret", "\"http://user\""),
            ("socks5://user:secret@", "\"socks5://\""),
        ] {
            let refused = Proxy::parse(url).unwrap_err();
            assert!(refused.contains(shown) && !refused.contains("secret"), "{refused}");
        }
    }

    #[tokio::test]
    async fn a_password_too_long_for_socks_is_not_shown() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let proxy = Proxy::parse(&format!("socks5://user:{}@{address}", "secret".repeat(50))).unwrap();
        let mut tcp = TcpStream::connect(address).await.unwrap();
        let (mut far, _) = listener.accept().await.unwrap();
        far.write_all(&[5, 2]).await.unwrap();
        let refused = proxy.lead(&mut tcp, "server", 443).await.unwrap_err().to_string();
        assert_eq!(refused, format!("the proxy {address}: the user or password is too long"));
    }
}
