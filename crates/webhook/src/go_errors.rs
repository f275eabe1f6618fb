//! What went wrong on the way, in the words of Go's `net`, `crypto/tls`, `crypto/x509` and `net/http`: people and tools search for them.

use std::error::Error;
use std::io;
use std::net::SocketAddr;

use object::time::format_seconds;
use rustls::pki_types::{ServerName, UnixTime};
use rustls::{AlertDescription, CertificateError, InvalidMessage};

/// The two ends of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    pub local: SocketAddr,
    pub remote: SocketAddr,
}

/// The system's word for what a call failed with.
fn system(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset by peer".to_owned(),
        io::ErrorKind::BrokenPipe => "broken pipe".to_owned(),
        io::ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
        io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
        io::ErrorKind::TimedOut => "connection timed out".to_owned(),
        io::ErrorKind::AddrNotAvailable => "cannot assign requested address".to_owned(),
        _ => error.to_string(),
    }
}

pub(crate) fn connect(address: SocketAddr, error: &io::Error) -> String {
    format!("dial tcp {address}: connect: {}", system(error))
}

pub(crate) fn lookup(host: &str, error: &io::Error) -> String {
    tracing::debug!(host, %error, "a name cannot be resolved");
    format!("dial tcp: lookup {host}: no such host")
}

/// Of a connection in use; `cut`: the word for an end that came too soon.
fn transport(error: &io::Error, ends: Ends, cut: &str) -> String {
    let Ends { local, remote } = ends;
    if let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        return tls_error(tls);
    }
    // h2 keeps no more than the text of an error.
    let text = error.to_string();
    if let Some(alert) = text.strip_prefix("received fatal alert: ") {
        let known = ALERTS.iter().find(|(known, _)| format!("{known:?}") == alert);
        return format!("remote error: tls: {}", known.map_or(alert, |(_, text)| text));
    }
    match error.kind() {
        io::ErrorKind::UnexpectedEof => cut.to_owned(),
        io::ErrorKind::BrokenPipe => format!("write tcp {local}->{remote}: write: {}", system(error)),
        _ => format!("read tcp {local}->{remote}: read: {}", system(error)),
    }
}

/// `began`: how the server's first bytes look.
pub(crate) fn handshake(error: &io::Error, ends: Ends, began: &[u8]) -> String {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) if began == b"HTTP/" => {
            "http: server gave HTTP response to HTTPS client".to_owned()
        }
        Some(error) => tls_error(error),
        None => transport(error, ends, "EOF"),
    }
}

fn tls_error(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(error) => {
            format!("tls: failed to verify certificate: x509: {}", certificate(error))
        }
        rustls::Error::AlertReceived(alert) => format!("remote error: tls: {}", alert_text(*alert)),
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "tls: first record does not look like a TLS handshake".to_owned()
        }
        error => format!("tls: {error}"),
    }
}

fn certificate(error: &CertificateError) -> String {
    let invalid = "certificate has expired or is not yet valid";
    let at = |time: &UnixTime| format_seconds(i64::try_from(time.as_secs()).unwrap_or(i64::MAX));
    match error {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::ExpiredContext { time, not_after } => {
            format!("{invalid}: current time {} is after {}", at(time), at(not_after))
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            format!("{invalid}: current time {} is before {}", at(time), at(not_before))
        }
        CertificateError::Expired | CertificateError::NotValidYet => invalid.to_owned(),
        CertificateError::NotValidForNameContext { expected, presented } => wrong_name(expected, presented),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "certificate specifies an incompatible key usage".to_owned()
        }
        CertificateError::BadEncoding => "malformed certificate".to_owned(),
        CertificateError::UnhandledCriticalExtension => "unhandled critical extension".to_owned(),
        error => error.to_string(),
    }
}

/// rustls presents `DnsName("a")` and `IpAddress(10.0.0.1)`.
fn wrong_name(expected: &ServerName<'_>, presented: &[String]) -> String {
    let of = |kind: &str| -> Vec<&str> {
        let inside = |name: &'_ String| name.starts_with(kind);
        let named = presented.iter().filter(|name| inside(name));
        named
            .filter_map(|name| name[kind.len()..].strip_suffix(')'))
            .map(|name| name.trim_matches('"'))
            .collect()
    };
    match expected {
        ServerName::IpAddress(address) => {
            let address = std::net::IpAddr::from(*address);
            match &of("IpAddress(")[..] {
                [] => format!(
                    "cannot validate certificate for {address} because it doesn't contain any IP SANs"
                ),
                valid => format!("certificate is valid for {}, not {address}", valid.join(", ")),
            }
        }
        expected => match &of("DnsName(")[..] {
            [] if presented.is_empty() => {
                "certificate relies on legacy Common Name field, use SANs instead".to_owned()
            }
            [] => {
                format!("certificate is not valid for any names, but wanted to match {}", expected.to_str())
            }
            valid => format!("certificate is valid for {}, not {}", valid.join(", "), expected.to_str()),
        },
    }
}

fn alert_text(alert: AlertDescription) -> String {
    match ALERTS.iter().find(|(known, _)| *known == alert) {
        Some((_, text)) => (*text).to_owned(),
        None => format!("alert({})", u8::from(alert)),
    }
}

const ALERTS: [(AlertDescription, &str); 18] = [
    (AlertDescription::BadCertificate, "bad certificate"),
    (AlertDescription::UnsupportedCertificate, "unsupported certificate"),
    (AlertDescription::CertificateRevoked, "revoked certificate"),
    (AlertDescription::CertificateExpired, "expired certificate"),
    (AlertDescription::CertificateUnknown, "unknown certificate"),
    (AlertDescription::CertificateRequired, "certificate required"),
    (AlertDescription::UnknownCA, "unknown certificate authority"),
    (AlertDescription::AccessDenied, "access denied"),
    (AlertDescription::HandshakeFailure, "handshake failure"),
    (AlertDescription::ProtocolVersion, "protocol version not supported"),
    (AlertDescription::InsufficientSecurity, "insufficient security level"),
    (AlertDescription::InternalError, "internal error"),
    (AlertDescription::UnrecognisedName, "unrecognized name"),
    (AlertDescription::NoApplicationProtocol, "no application protocol"),
    (AlertDescription::DecodeError, "error decoding message"),
    (AlertDescription::DecryptError, "error decrypting message"),
    (AlertDescription::IllegalParameter, "illegal parameter"),
    (AlertDescription::UnexpectedMessage, "unexpected message"),
];

/// Why no head of an answer came.
pub fn no_answer(error: &hyper::Error, ends: Ends) -> String {
    if error.is_parse() {
        return format!("net/http: HTTP/1.x transport connection broken: malformed HTTP response: {error}");
    }
    if let Some(error) = source::<h2::Error>(error) {
        return http2(error, ends, "EOF");
    }
    match source::<io::Error>(error) {
        Some(error) => transport(error, ends, "EOF"),
        None if error.is_incomplete_message() || error.is_closed() || error.is_canceled() => "EOF".to_owned(),
        None => error.to_string(),
    }
}

/// Whether the connection ended, rather than the server having said something about the request.
pub(crate) fn is_cut(error: &hyper::Error) -> bool {
    match source::<h2::Error>(error) {
        Some(error) => error.is_go_away() || error.is_io(),
        None => !error.is_parse(),
    }
}

/// Whether the server ended the request alone, by HTTP/2: its connection lives.
pub(crate) fn is_reset(error: &hyper::Error) -> bool {
    source::<h2::Error>(error).is_some_and(|error| error.is_remote() && error.is_reset())
}

/// Whether the server says by HTTP/2 that it has not looked at the request: it ends the connection, or has too many streams.
pub(crate) fn is_refused(error: &hyper::Error) -> bool {
    // The GOAWAY of a peer is an error of the streams beyond the last one it has looked at; others go on.
    let says_so = |error: &h2::Error| {
        error.is_go_away() || (error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM))
    };
    source::<h2::Error>(error).is_some_and(|error| error.is_remote() && says_so(error))
}

/// Why the body of an answer broke off, and how client-go begins to say it.
pub fn broken_body(error: &hyper::Error, ends: Ends) -> String {
    let unexpected = |why: String| {
        format!("unexpected error when reading response body. Please retry. Original error: {why}")
    };
    if let Some(error) = source::<h2::Error>(error) {
        if error.is_reset() {
            let why = http2(error, ends, "unexpected EOF");
            let begin =
                "stream error when reading response body, may be caused by closed connection. Please retry.";
            return format!("{begin} Original error: {why}");
        }
        return unexpected(http2(error, ends, "unexpected EOF"));
    }
    unexpected(match source::<io::Error>(error) {
        Some(error) => transport(error, ends, "unexpected EOF"),
        None => "unexpected EOF".to_owned(),
    })
}

fn http2(error: &h2::Error, ends: Ends, cut: &str) -> String {
    let reason = error.reason().map(|reason| format!("{reason:?}")).unwrap_or_default();
    if let Some(error) = error.get_io() {
        return transport(error, ends, cut);
    }
    if error.is_go_away() {
        return format!("http2: server sent GOAWAY and closed the connection; ErrCode={reason}");
    }
    if error.is_reset() {
        return format!("stream error: {reason}; received from peer");
    }
    format!("http2: {error}")
}

fn source<E: Error + 'static>(error: &hyper::Error) -> Option<&E> {
    let mut next: Option<&(dyn Error + 'static)> = error.source();
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(expected: &str, presented: &[&str]) -> String {
        let presented: Vec<String> = presented.iter().map(|name| (*name).to_owned()).collect();
        wrong_name(&ServerName::try_from(expected.to_owned()).unwrap(), &presented)
    }

    #[test]
    fn wrong_names_are_told_as_recorded_from_kube_apiserver() {
        assert_eq!(
            name(
                "localhost",
                &[r#"DnsName("a.example.com")"#, r#"DnsName("b.example.com")"#, "IpAddress(10.0.0.1)"]
            ),
            "certificate is valid for a.example.com, b.example.com, not localhost"
        );
        assert_eq!(
            name("127.0.0.1", &[r#"DnsName("a")"#, "IpAddress(10.0.0.1)"]),
            "certificate is valid for 10.0.0.1, not 127.0.0.1"
        );
        assert_eq!(
            name("127.0.0.1", &[r#"DnsName("a")"#]),
            "cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs"
        );
        assert_eq!(
            name("localhost", &[]),
            "certificate relies on legacy Common Name field, use SANs instead"
        );
    }

    #[test]
    fn times_are_named() {
        let at = |seconds| UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        assert_eq!(
            certificate(&CertificateError::ExpiredContext { time: at(86_400), not_after: at(0) }),
            "certificate has expired or is not yet valid: current time 1970-01-02T00:00:00Z is after 1970-01-01T00:00:00Z"
        );
    }
}
