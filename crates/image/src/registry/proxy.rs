//! Proxies between this machine and registries, as `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` name them.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::url::Url;

/// What a proxy may say before the connection is through.
const MAX_HEAD: usize = 16 << 10;

/// Which proxy is for which server. The default has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    http: String,
    https: String,
    /// Servers that are asked directly.
    none: Vec<String>,
}

/// One to go through.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Proxy {
    pub url: Url,
    /// The value of `Proxy-Authorization`.
    pub authorization: Option<String>,
}

impl Proxies {
    /// As the environment of this process has them; the names may be in small letters.
    pub fn from_environment() -> Proxies {
        let read = |name: &str| {
            let found =
                [name.to_owned(), name.to_lowercase()].into_iter().find_map(|name| std::env::var(name).ok());
            found.unwrap_or_default()
        };
        Proxies::new(&read("HTTP_PROXY"), &read("HTTPS_PROXY"), &read("NO_PROXY"))
    }

    /// The proxies for plain and for encrypted connections, and a list with commas of names, addresses and networks that need none.
    pub fn new(http: &str, https: &str, none: &str) -> Proxies {
        let none = none.split(',').map(|entry| entry.trim().to_lowercase()).filter(|entry| !entry.is_empty());
        Proxies { http: http.trim().to_owned(), https: https.trim().to_owned(), none: none.collect() }
    }

    pub(crate) fn find(&self, url: &Url) -> Result<Option<Proxy>, String> {
        let text = if url.https { &self.https } else { &self.http };
        // What is on this machine is never behind a proxy.
        if text.is_empty() || crate::hosts::is_local(&url.authority) || self.is_direct(url) {
            return Ok(None);
        }
        parse(text).map(Some).ok_or_else(|| "invalid proxy address: use http://HOST:PORT".to_owned())
    }

    fn is_direct(&self, url: &Url) -> bool {
        let host = url.host().to_lowercase();
        let address = host.parse::<IpAddr>().ok();
        self.none.iter().any(|entry| {
            if entry == "*" {
                return true;
            }
            if let Some(network) = entry.split_once('/') {
                return address.is_some_and(|address| is_within(address, network));
            }
            let (name, port) = crate::hosts::split_port(entry);
            if port.is_some_and(|port| port != url.port().to_string()) {
                return false;
            }
            let name = name.trim_start_matches('[').trim_end_matches(']');
            if let Some(address) = address {
                return name.parse::<IpAddr>() == Ok(address);
            }
            // `.a.io` is for what is below, `a.io` also for itself.
            let below = name.trim_start_matches('*').trim_start_matches('.');
            let is_itself = host == below && below.len() == name.len();
            is_itself
                || host.strip_suffix(below).is_some_and(|front| front.ends_with('.') && !below.is_empty())
        })
    }
}

fn is_within(address: IpAddr, (network, length): (&str, &str)) -> bool {
    let Ok(length) = length.parse::<u32>() else { return false };
    let (address, network, bits) = match (address, network.parse::<IpAddr>()) {
        (IpAddr::V4(address), Ok(IpAddr::V4(network))) => {
            (u128::from(u32::from(address)), u128::from(u32::from(network)), 32)
        }
        (IpAddr::V6(address), Ok(IpAddr::V6(network))) => (u128::from(address), u128::from(network), 128),
        _ => return false,
    };
    length <= bits && (length == 0 || (address ^ network) >> (bits - length) == 0)
}

fn parse(text: &str) -> Option<Proxy> {
    let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let uri: http::Uri = text.parse().ok()?;
    let login = uri.authority()?.as_str().rsplit_once('@').map(|(login, _)| login);
    let authorization = login.map(|login| {
        let plain = percent_encoding::percent_decode_str(login).collect::<Vec<u8>>();
        format!("Basic {}", STANDARD.encode(plain))
    });
    Some(Proxy { url: Url::parse(&text)?, authorization })
}

impl Proxy {
    /// Asks it to connect us; from then on it is as if it were not there.
    pub async fn tunnel(
        &self,
        wire: &mut (impl client_http::Wire + ?Sized),
        to: &Url,
    ) -> std::io::Result<()> {
        let other =
            |problem: String| std::io::Error::other(format!("proxy {}: {problem}", self.url.authority));
        let host = to.host();
        let host = if host.contains(':') {
            format!("[{host}]:{}", to.port())
        } else {
            format!("{host}:{}", to.port())
        };
        let mut request = format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: setpoint\r\n");
        if let Some(authorization) = &self.authorization {
            request.push_str(&format!("Proxy-Authorization: {authorization}\r\n"));
        }
        request.push_str("\r\n");
        wire.write_all(request.as_bytes()).await?;
        wire.flush().await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if head.len() >= MAX_HEAD {
                return Err(other("its answer is too long".to_owned()));
            }
            // Byte by byte: what follows is not for us.
            head.push(wire.read_u8().await?);
        }
        let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        let status =
            line.strip_prefix("HTTP/1.").and_then(|rest| rest.split_once(' ')).map(|(_, status)| status);
        match status {
            Some(status) if status.starts_with('2') => Ok(()),
            Some(status) => Err(other(status.to_owned())),
            None => Err(other("it does not speak HTTP".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_servers_need_no_proxy() {
        let none = "a.io, .b.io,*.c.io,10.0.0.0/8,192.0.2.7,[2001:db8::1],fd00::/8,d.io:5000";
        let proxies = Proxies::new("plain.proxy:3128", "https://user:p%40ss@secure.proxy", none);
        for (url, proxied) in [
            ("https://registry-1.docker.io/v2/", true),
            ("http://r.io:5000/v2/", true),
            ("https://a.io/", false),
            ("https://x.A.io/", false),
            ("https://xa.io/", true),
            ("https://b.io/", true),
            ("https://x.b.io/", false),
            ("https://x.y.c.io/", false),
            ("https://10.1.2.3:5000/", false),
            ("https://11.1.2.3/", true),
            ("https://192.0.2.7/", false),
            ("https://[2001:db8::1]/", false),
            ("https://[fd12::1]/", false),
            ("https://d.io:5000/", false),
            ("https://d.io/", true),
            ("http://127.0.0.1:5000/", false),
            ("http://localhost:5000/", false),
            ("http://[::1]:5000/", false),
        ] {
            let url = Url::parse(url).unwrap();
            let found = proxies.find(&url).unwrap();
            assert_eq!(found.is_some(), proxied, "{url}");
            if let Some(found) = found {
                let expected = if url.https { ("secure.proxy", 443) } else { ("plain.proxy", 3128) };
                assert_eq!((found.url.host(), found.url.port()), expected);
                let login = url.https.then(|| format!("Basic {}", STANDARD.encode("user:p@ss")));
                assert_eq!(found.authorization, login);
            }
        }
        let url = Url::parse("https://a.io/").unwrap();
        assert_eq!(Proxies::default().find(&url).unwrap().map(|_| ()), None);
        assert!(Proxies::new("", "socks5://x", "").find(&url).is_err());
        assert_eq!(Proxies::new("", "x", "*").find(&url).unwrap().map(|_| ()), None);
    }
}
