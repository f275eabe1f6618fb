//! String formats that are checked; all others are no more than a comment.

mod code;
mod mail;
mod net;
mod time;

#[cfg(test)]
mod tests;

/// A `format` of strings. Dashes in its name say nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringFormat {
    BsonObjectId,
    Uri,
    Email,
    Hostname,
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
    Isbn,
    Isbn10,
    Isbn13,
    CreditCard,
    Ssn,
    HexColor,
    RgbColor,
    Byte,
    Password,
    Date,
    Duration,
    DateTime,
    ShortName,
    LongName,
}

impl StringFormat {
    /// `None`: not one that is checked.
    pub fn parse(written: &str) -> Option<StringFormat> {
        let name = written.replace('-', "");
        Some(match name.as_str() {
            "bsonobjectid" => StringFormat::BsonObjectId,
            "uri" => StringFormat::Uri,
            "email" => StringFormat::Email,
            "hostname" => StringFormat::Hostname,
            "ipv4" => StringFormat::Ipv4,
            "ipv6" => StringFormat::Ipv6,
            "cidr" => StringFormat::Cidr,
            "mac" => StringFormat::Mac,
            "uuid" => StringFormat::Uuid,
            "uuid3" => StringFormat::Uuid3,
            "uuid4" => StringFormat::Uuid4,
            "uuid5" => StringFormat::Uuid5,
            "isbn" => StringFormat::Isbn,
            "isbn10" => StringFormat::Isbn10,
            "isbn13" => StringFormat::Isbn13,
            "creditcard" => StringFormat::CreditCard,
            "ssn" => StringFormat::Ssn,
            "hexcolor" => StringFormat::HexColor,
            "rgbcolor" => StringFormat::RgbColor,
            "byte" => StringFormat::Byte,
            "password" => StringFormat::Password,
            "date" => StringFormat::Date,
            "duration" => StringFormat::Duration,
            "datetime" => StringFormat::DateTime,
            "k8sshortname" => StringFormat::ShortName,
            "k8slongname" => StringFormat::LongName,
            _ => return None,
        })
    }

    pub fn is_valid(self, text: &str) -> bool {
        match self {
            StringFormat::BsonObjectId => text.len() == 24 && text.bytes().all(|c| c.is_ascii_hexdigit()),
            StringFormat::Uri => net::is_request_uri(text),
            StringFormat::Email => mail::is_address(text),
            StringFormat::Hostname => net::is_hostname(text),
            StringFormat::Ipv4 => text.contains('.') && net::is_sloppy_ip(text),
            StringFormat::Ipv6 => text.contains(':') && net::is_ip(text),
            StringFormat::Cidr => net::is_sloppy_cidr(text),
            StringFormat::Mac => net::is_mac(text),
            StringFormat::Uuid => code::is_uuid(text, None),
            StringFormat::Uuid3 => code::is_uuid(text, Some(b'3')),
            StringFormat::Uuid4 => code::is_uuid(text, Some(b'4')),
            StringFormat::Uuid5 => code::is_uuid(text, Some(b'5')),
            StringFormat::Isbn => code::is_isbn10(text) || code::is_isbn13(text),
            StringFormat::Isbn10 => code::is_isbn10(text),
            StringFormat::Isbn13 => code::is_isbn13(text),
            StringFormat::CreditCard => code::is_credit_card(text),
            StringFormat::Ssn => code::is_ssn(text),
            StringFormat::HexColor => code::is_hex_color(text),
            StringFormat::RgbColor => code::is_rgb_color(text),
            StringFormat::Byte => code::is_base64(text),
            StringFormat::Password => true,
            StringFormat::Date => time::is_date(text),
            StringFormat::Duration => time::is_duration(text),
            StringFormat::DateTime => time::is_date_time(text),
            StringFormat::ShortName => code::is_short_name(text),
            StringFormat::LongName => code::is_long_name(text),
        }
    }
}
