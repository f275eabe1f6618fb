//! The query of a request.

use percent_encoding::percent_decode_str;

/// Names and values, decoded, in their order.
#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(String, String)>);

/// More parameters than a command line of any use has words.
const MAX_PARAMETERS: usize = 10_000;

impl Query {
    pub fn parse(text: Option<&str>) -> Query {
        let pairs = text.unwrap_or("").split('&').filter(|pair| !pair.is_empty()).take(MAX_PARAMETERS);
        // As Go's: a pair with a semicolon, or what cannot be decoded, is left out.
        let decode = |text: &str| {
            let plain = text.replace('+', " ");
            percent_decode_str(&plain).decode_utf8().ok().map(|text| text.into_owned())
        };
        let pairs = pairs.filter(|pair| !pair.contains(';')).filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(name)?, decode(value)?))
        });
        Query(pairs.collect())
    }

    /// Of a repeated parameter the first counts.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs().find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs().filter(move |(found, _)| *found == name).map(|(_, value)| value)
    }

    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_may_repeat() {
        let query = Query::parse(Some("command=sh&command=-c&command=echo+a%26b&input=1&flag&x;y=1&%ff=2"));
        assert_eq!(query.all("command").collect::<Vec<_>>(), ["sh", "-c", "echo a&b"]);
        assert_eq!((query.get("input"), query.get("flag"), query.get("none")), (Some("1"), Some(""), None));
        assert_eq!(query.pairs().count(), 5);
    }
}
