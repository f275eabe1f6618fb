//! Rules of text that many kinds share: names, labels, selectors, addresses, ports, percentages.

use std::net::{IpAddr, Ipv6Addr};

use object::selector::LabelSelector;
use object::{Value, validate_text};

use super::{Errors, Path, items, member, text, texts};

/// All keys and values together.
const ANNOTATIONS_MAX_BYTES: usize = 256 * 1024;

impl Errors {
    pub(crate) fn dns_label(&mut self, at: &Path<'_>, value: &str) {
        self.each(at, value, validate_text::dns1123_label(value));
    }
    pub(crate) fn subdomain(&mut self, at: &Path<'_>, value: &str) {
        self.each(at, value, validate_text::dns1123_subdomain(value));
    }
    /// Required, and a DNS label.
    pub(crate) fn need_label(&mut self, at: &Path<'_>, value: &str) {
        if value.is_empty() {
            self.required(at, "");
        } else {
            self.dns_label(at, value);
        }
    }
    /// Required, and a DNS subdomain.
    pub(crate) fn need_subdomain(&mut self, at: &Path<'_>, value: &str) {
        if value.is_empty() {
            self.required(at, "");
        } else {
            self.subdomain(at, value);
        }
    }
    pub(crate) fn qualified(&mut self, at: &Path<'_>, value: &str) {
        self.each(at, value, validate_text::qualified_name(value));
    }
    /// `acme.io/foo`.
    pub(crate) fn domain_prefixed_path(&mut self, at: &Path<'_>, value: &str) {
        let wrong = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        match value.split_once('/') {
            _ if value.is_empty() => self.required(at, ""),
            None | Some(("", _) | (_, "")) => self.invalid(at, value, wrong),
            Some((host, path)) => {
                self.subdomain(at, host);
                let fits = |c: u8| c.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&c);
                if !path.bytes().all(fits) {
                    let regex = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+";
                    self.invalid(at, path, validate_text::regex_error("Invalid path", regex, &[]));
                }
            }
        }
    }

    /// A map of labels: keys and values.
    pub(crate) fn labels(&mut self, at: &Path<'_>, labels: Option<&Value>) {
        for (key, value) in labels.and_then(Value::as_map).into_iter().flat_map(|m| m.iter()) {
            self.qualified(at, key);
            let value = value.as_str().unwrap_or_default();
            self.each(at, value, validate_text::label_value(value));
        }
    }

    pub(crate) fn annotations(&mut self, at: &Path<'_>, annotations: Option<&Value>) {
        let mut bytes = 0;
        for (key, value) in annotations.and_then(Value::as_map).into_iter().flat_map(|m| m.iter()) {
            bytes += key.len() + value.as_str().map_or(0, str::len);
            let upper = key.bytes().any(|b| b.is_ascii_uppercase());
            let problems = match upper {
                true => validate_text::qualified_name(&key.to_lowercase()),
                false => validate_text::qualified_name(key),
            };
            self.each(at, key, problems);
        }
        if bytes > ANNOTATIONS_MAX_BYTES {
            self.too_long(at, ANNOTATIONS_MAX_BYTES);
        }
    }

    /// A `LabelSelector`; absent is fine.
    pub(crate) fn label_selector(&mut self, at: &Path<'_>, selector: Option<&Value>) {
        self.label_selector_with(at, selector, false);
    }

    /// `bad_values`: the stored object already has invalid values, so they may stay.
    pub(crate) fn label_selector_with(&mut self, at: &Path<'_>, selector: Option<&Value>, bad_values: bool) {
        let Some(selector) = selector.filter(|s| !s.is_null()) else { return };
        self.labels(&at.child("matchLabels"), selector.get("matchLabels"));
        for (i, expression) in items(selector, "matchExpressions").iter().enumerate() {
            let list = at.child("matchExpressions");
            let at = list.index(i);
            let values = items(expression, "values");
            match text(expression, "operator") {
                "In" | "NotIn" if values.is_empty() => {
                    let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                    self.required(&at.child("values"), detail);
                }
                "Exists" | "DoesNotExist" if !values.is_empty() => {
                    let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                    self.forbidden(&at.child("values"), detail);
                }
                "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
                other => self.invalid(&at.child("operator"), other, "not a valid selector operator"),
            }
            self.qualified(&at.child("key"), text(expression, "key"));
            if !bad_values {
                for (j, value) in texts(expression, "values").enumerate() {
                    self.each(&at.child("values").index(j), value, validate_text::label_value(value));
                }
            }
        }
    }

    /// An address; `before` were stored already and may stay as they are.
    pub(crate) fn ip(&mut self, at: &Path<'_>, value: &str, before: &[&str]) {
        if before.contains(&value) {
            return;
        }
        match parse_ip(value) {
            Ip::Bad => {
                let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
                self.invalid(at, value, detail);
            }
            Ip::LeadingZeros => self.invalid(at, value, "must not have leading 0s"),
            Ip::Good(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some() => {
                self.invalid(at, value, "must not be an IPv4-mapped IPv6 address");
            }
            Ip::Good(_) => {}
        }
    }

    /// A block of addresses, whose bits beyond the prefix are zero.
    pub(crate) fn cidr(&mut self, at: &Path<'_>, value: &str, before: &[&str]) {
        if before.contains(&value) {
            return;
        }
        let problem = match parse_cidr(value) {
            Cidr::Bad => "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
            Cidr::LeadingZeros => "must not have leading 0s in IP or prefix length",
            Cidr::Good(IpAddr::V6(ip), _) if ip.to_ipv4_mapped().is_some() => {
                "must not have an IPv4-mapped IPv6 address"
            }
            Cidr::Good(ip, bits) if masked(ip, bits) != ip => {
                "must not have bits set beyond the prefix length"
            }
            Cidr::Good(..) => return,
        };
        self.invalid(at, value, problem);
    }

    /// An `IntOrString` that names a port.
    pub(crate) fn port_number_or_name(&mut self, at: &Path<'_>, port: Option<&Value>) {
        match port {
            Some(Value::Str(name)) => self.each(at, name, validate_text::port_name(name)),
            other => self.port_number(at, other.and_then(Value::as_int).unwrap_or(0)),
        }
    }
    pub(crate) fn port_number(&mut self, at: &Path<'_>, port: i64) {
        for problem in validate_text::port_number(port) {
            self.invalid(at, port, problem);
        }
    }

    /// An `IntOrString` that is a count or a percentage.
    pub(crate) fn count_or_percent(&mut self, at: &Path<'_>, value: Option<&Value>) {
        match value {
            Some(Value::Str(percent)) => self.each(at, percent, validate_text::percent(percent)),
            other => {
                let count = other.and_then(Value::as_int).unwrap_or(0);
                if count < 0 {
                    self.invalid(at, count, super::NEGATIVE);
                }
            }
        }
    }
    pub(crate) fn at_most_100_percent(&mut self, at: &Path<'_>, value: Option<&Value>) {
        if percent(value).is_some_and(|p| p > 100) {
            self.invalid(at, value, "must not be greater than 100%");
        }
    }
}

/// The number of a valid percentage.
fn percent(value: Option<&Value>) -> Option<i64> {
    let text = value?.as_str()?;
    if !validate_text::percent(text).is_empty() {
        return None;
    }
    Some(text.trim_end_matches('%').parse().unwrap_or(i64::MAX))
}

/// An `IntOrString` as a number, whatever its unit; zero when it cannot be read.
pub(crate) fn count_or_percent(value: Option<&Value>) -> i64 {
    percent(value)
        .or_else(|| value.and_then(Value::as_int))
        .or_else(|| value.and_then(Value::as_str).and_then(|s| s.parse().ok()))
        .unwrap_or(0)
}

/// Whether a `LabelSelector` selects these labels; `None` when it cannot be read. An absent one selects nothing.
pub(crate) fn selects(selector: Option<&Value>, labels: Option<&Value>) -> Option<bool> {
    let Some(selector) = selector.filter(|s| !s.is_null()) else { return Some(false) };
    // Most selectors are one label: compare without building one.
    if member(selector, "matchExpressions").is_none() {
        let wanted = selector.get("matchLabels").and_then(Value::as_map);
        let mut wanted = wanted.into_iter().flat_map(|m| m.iter());
        let has = |(key, value): (&catalog::Name, &Value)| {
            value.as_str().is_some() && labels.and_then(|l| l.get(key)) == Some(value)
        };
        if wanted.all(has) {
            return Some(true);
        }
    }
    LabelSelector::from_label_selector(selector).ok().map(|selector| selector.matches_map(labels))
}

/// Whether it is a selector without any requirement.
pub(crate) fn is_empty_selector(selector: &Value) -> bool {
    let no_labels = selector.get("matchLabels").and_then(Value::as_map).is_none_or(|m| m.is_empty());
    no_labels && items(selector, "matchExpressions").is_empty()
}

pub(crate) enum Ip {
    Good(IpAddr),
    /// Go's old parser accepted `010.0.0.1`; that has an error of its own.
    LeadingZeros,
    Bad,
}

pub(crate) fn parse_ip(value: &str) -> Ip {
    if let Ok(ip) = value.parse::<IpAddr>() {
        return Ip::Good(ip);
    }
    // The IPv4 part may stand at the end of an IPv6 address.
    let (head, tail) = value.rsplit_once(':').map_or(("", value), |(h, t)| (h, t));
    if let Some(clean) = without_leading_zeros(tail) {
        let whole = if head.is_empty() && !value.contains(':') { clean } else { format!("{head}:{clean}") };
        if whole.parse::<IpAddr>().is_ok() {
            return Ip::LeadingZeros;
        }
    }
    Ip::Bad
}

/// An address as Go's old parser accepted it: with leading zeros.
pub(crate) fn sloppy_ip(value: &str) -> Option<IpAddr> {
    match parse_ip(value) {
        Ip::Good(ip) => Some(ip),
        Ip::Bad => None,
        Ip::LeadingZeros => {
            let (head, tail) = value.rsplit_once(':').map_or(("", value), |(head, tail)| (head, tail));
            let clean = without_leading_zeros(tail)?;
            if head.is_empty() { clean.parse().ok() } else { format!("{head}:{clean}").parse().ok() }
        }
    }
}

/// Dotted numbers of which at least one has leading zeros.
fn without_leading_zeros(value: &str) -> Option<String> {
    let parts: Vec<&str> = value.split('.').collect();
    let number = |p: &&str| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit());
    if parts.len() != 4
        || !parts.iter().all(number)
        || !parts.iter().any(|p| p.len() > 1 && p.starts_with('0'))
    {
        return None;
    }
    let clean = |p: &str| match p.trim_start_matches('0') {
        "" => "0".to_owned(),
        rest => rest.to_owned(),
    };
    Some(parts.into_iter().map(clean).collect::<Vec<_>>().join("."))
}

pub(crate) enum Cidr {
    Good(IpAddr, u8),
    LeadingZeros,
    Bad,
}

pub(crate) fn parse_cidr(value: &str) -> Cidr {
    let Some((address, length)) = value.split_once('/') else { return Cidr::Bad };
    if length.is_empty() || !length.bytes().all(|b| b.is_ascii_digit()) {
        return Cidr::Bad;
    }
    let Ok(bits) = length.parse::<u8>() else { return Cidr::Bad };
    let zeros = length.len() > 1 && length.starts_with('0');
    match parse_ip(address) {
        Ip::Bad => Cidr::Bad,
        Ip::LeadingZeros if bits > 128 || (!address.contains(':') && bits > 32) => Cidr::Bad,
        Ip::LeadingZeros => Cidr::LeadingZeros,
        Ip::Good(ip) if bits > if ip.is_ipv4() { 32 } else { 128 } => Cidr::Bad,
        Ip::Good(_) if zeros => Cidr::LeadingZeros,
        Ip::Good(ip) => Cidr::Good(ip, bits),
    }
}

/// A CIDR as Go's old parser accepted it: with leading zeros, and IPv4-mapped IPv6 addresses.
pub(crate) fn sloppy_cidr(value: &str) -> Option<(IpAddr, u8)> {
    match parse_cidr(value) {
        Cidr::Bad => None,
        Cidr::Good(ip, bits) => Some((ip, bits)),
        Cidr::LeadingZeros => {
            let (address, length) = value.split_once('/')?;
            Some((sloppy_ip(address)?, length.parse().ok()?))
        }
    }
}

pub(crate) fn masked(ip: IpAddr, bits: u8) -> IpAddr {
    let keep = |width: u8| if bits == 0 { 0 } else { u128::MAX << width.saturating_sub(bits) };
    match ip {
        IpAddr::V4(v4) => IpAddr::V4((u32::from(v4) & keep(32) as u32).into()),
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from(u128::from(v6) & keep(128))),
    }
}
