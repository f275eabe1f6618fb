//! The warnings of one write as they are found, and the wordings that several kinds share.

use std::fmt::Display;
use std::net::IpAddr;

use object::{Value, quote, validate_text};

use crate::check::text::{masked, sloppy_ip};
use crate::check::{Path, quantity, quantity_text};

const NAME: &str = "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; \
                    a DNS label is recommended";

/// All that is ever sent of warnings that are longer together: 4096 characters of texts cut to 256. The server cuts them
/// when it writes the headers; what is beyond that is not even kept.
const SENT_CHARS: usize = 4 * 1024;
const SENT_OF_ONE: usize = 256;

#[derive(Default)]
pub struct Warnings {
    list: Vec<String>,
    /// Of the texts as they are cut.
    chars: usize,
}

impl Warnings {
    pub(crate) fn into_list(self) -> Vec<String> {
        self.list
    }
    /// No further warning could be sent.
    pub(crate) fn is_full(&self) -> bool {
        self.chars > SENT_CHARS || self.list.len() > SENT_CHARS
    }
    pub fn extend(&mut self, texts: Vec<String>) {
        texts.into_iter().for_each(|text| self.push(text));
    }
    /// A warning about the whole object, or one with words of its own.
    pub(crate) fn push(&mut self, text: impl Into<String>) {
        let text = text.into();
        // What is added twice is sent once, and what no header carries is not sent.
        if !self.is_full() && !self.list.contains(&text) {
            if !text.chars().any(char::is_control) {
                self.chars += text.chars().take(SENT_OF_ONE).count();
            }
            self.list.push(text);
        }
    }
    /// A warning about one field.
    pub(crate) fn push_at(&mut self, at: &Path<'_>, text: impl Display) {
        if !self.is_full() {
            self.push(format!("{at}: {text}"));
        }
    }
    /// Pods and their host names get their names from this one.
    pub(crate) fn name_of_pods(&mut self, object: &Value) {
        self.dns_label(object, NAME);
    }
    /// `text` and what keeps the object's name from being a DNS label.
    pub(crate) fn dns_label(&mut self, object: &Value, text: &str) {
        let problems = validate_text::dns1123_label(object.str_at(&["metadata", "name"]).unwrap_or_default());
        if !problems.is_empty() {
            self.push(format!("{text}: [{}]", problems.join(" ")));
        }
    }
    /// `amounts[name]` counts bytes, so it is a whole number.
    pub(crate) fn whole_bytes(&mut self, at: &Path<'_>, amounts: Option<&Value>, name: &str) {
        let Some(value) = amounts.and_then(|a| a.get(name)).filter(|v| !v.is_null()) else { return };
        let milli = quantity(value).as_milli();
        // What does not fit in thousandths is far from being a fraction.
        if milli % 1000 != 0 && milli != i64::MAX && milli != i64::MIN {
            let shown = quote(&quantity_text(value));
            self.push_at(
                &at.key(name),
                format!("fractional byte value {shown} is invalid, must be an integer"),
            );
        }
    }
    /// An IP address in a non-canonical form. Invalid ones are left to validation.
    pub(crate) fn ip(&mut self, at: &Path<'_>, value: &str) {
        let Some(ip) = sloppy_ip(value) else { return };
        let shown = quote(value);
        match (value.parse::<IpAddr>(), ip) {
            (Ok(IpAddr::V6(v6)), _) if v6.to_ipv4_mapped().is_none() => {
                if v6.to_string() != value {
                    let canonical = quote(&v6.to_string());
                    self.push_at(
                        at,
                        format!("IPv6 address {shown} should be in RFC 5952 canonical format ({canonical})"),
                    );
                }
            }
            (Ok(IpAddr::V4(_)), _) => {}
            (_, ip) => {
                let better = quote(&plain(ip).to_string());
                self.push_at(at, format!("non-standard IP address {shown} is invalid: use {better}"));
            }
        }
    }
    /// A CIDR likewise.
    pub(crate) fn cidr(&mut self, at: &Path<'_>, value: &str) {
        let Some((address, length)) = value.split_once('/') else { return };
        let digits = !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit());
        let (Some(ip), Some(bits)) = (sloppy_ip(address), length.parse::<u8>().ok().filter(|_| digits))
        else {
            return;
        };
        let width = if ip.is_ipv4() { 32 } else { 128 };
        if bits > width {
            return;
        }
        let (shown, block) = (quote(value), network(masked(ip, bits), bits));
        let before = self.list.len();
        if masked(ip, bits) != ip {
            let single = quote(&format!("{}/{width}", plain(ip)));
            let block = quote(&block);
            self.push_at(
                at,
                format!("CIDR value {shown} is ambiguous in this context (should be {block} or {single}?)"),
            );
        }
        let mapped = matches!(ip, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
        let zeros = address.parse::<IpAddr>().is_err() || (length.len() > 1 && length.starts_with('0'));
        if mapped || zeros {
            let block = quote(&block);
            self.push_at(at, format!("non-standard CIDR value {shown} is invalid: use {block}"));
        }
        if self.list.len() == before && ip.is_ipv6() && format!("{ip}/{bits}") != value {
            let canonical = quote(&format!("{ip}/{bits}"));
            self.push_at(
                at,
                format!("IPv6 CIDR value {shown} should be in RFC 5952 canonical format ({canonical})"),
            );
        }
    }
}

/// An address as Go's `net` prints it: one that only carries an IPv4 address is that address.
fn plain(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(ip, IpAddr::V4),
        v4 => v4,
    }
}

/// A block as Go's `net` prints it.
fn network(ip: IpAddr, bits: u8) -> String {
    match plain(ip) {
        IpAddr::V4(v4) if ip.is_ipv6() => format!("{v4}/{}", bits.saturating_sub(96)),
        plain => format!("{plain}/{bits}"),
    }
}
