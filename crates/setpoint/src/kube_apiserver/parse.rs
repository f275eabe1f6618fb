//! kube-apiserver's command line, as its flag library (pflag) reads it.

use std::collections::BTreeMap;

use super::flags::{self, Flag, Form};

/// The values of each flag that was given, in order.
#[derive(Debug, Default)]
pub struct Given(BTreeMap<&'static str, Vec<String>>);

impl Given {
    /// Its last value.
    pub fn one(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.last().map(String::as_str)
    }

    pub fn all(&self, name: &str) -> &[String] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// In the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Flag, &[String])> {
        self.0.iter().filter_map(|(name, values)| Some((flags::find(name)?, values.as_slice())))
    }
}

/// An error is upstream's sentence.
pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Given, String> {
    let mut given = Given::default();
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        // Templates of envtest leave an empty one where a flag is not used.
        if arg.is_empty() {
            continue;
        }
        let (name, value, shown) = match arg.strip_prefix("--") {
            Some(long) => {
                let (name, value) = split(long);
                if name.is_empty() {
                    return Err(format!("bad flag syntax: {arg}"));
                }
                (name, value, format!("unknown flag: --{name}"))
            }
            None => match arg.strip_prefix('-').filter(|short| !short.is_empty()) {
                Some(short) => short_flag(short)?,
                None => {
                    return Err(format!("\"kube-apiserver\" does not take any arguments, got [{arg:?}]"));
                }
            },
        };
        let flag = flags::find(name).ok_or(shown)?;
        let value = match (value, flag.form) {
            (Some(value), _) => value.to_owned(),
            (None, Form::Switch) => "true".to_owned(),
            (None, _) if flag.name == "version" => "true".to_owned(),
            (None, _) => args.next().ok_or_else(|| format!("flag needs an argument: --{name}"))?,
        };
        let value = match flag.form {
            Form::Switch => switch(&value)
                .ok_or_else(|| {
                    format!(
                        "invalid argument {value:?} for \"--{name}\" flag: strconv.ParseBool: parsing {value:?}: invalid syntax"
                    )
                })?
                .to_string(),
            _ => value,
        };
        given.0.entry(flag.name).or_default().push(value);
    }
    Ok(given)
}

/// `-h`, `-v 4`, `-v=4`, `-v4`.
fn short_flag(short: &str) -> Result<(&'static str, Option<&str>, String), String> {
    match short.split_at(short.chars().next().map_or(0, char::len_utf8)) {
        ("h", "") => Ok(("help", None, String::new())),
        ("v", "") => Ok(("v", None, String::new())),
        ("v", level) => Ok(("v", Some(level.strip_prefix('=').unwrap_or(level)), String::new())),
        (letter, _) => {
            let letter = letter.chars().next().unwrap_or('-');
            Err(format!("unknown shorthand flag: {letter:?} in -{short}"))
        }
    }
}

fn split(text: &str) -> (&str, Option<&str>) {
    text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)))
}

/// The words of Go's `strconv.ParseBool`.
pub fn switch(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(args: &[&str]) -> Result<Given, String> {
        parse(args.iter().map(|arg| (*arg).to_owned()))
    }

    #[test]
    fn values_follow_an_equals_sign_or_come_next() {
        let all = given(&["--secure-port", "1", "--secure-port=2", "--allow-privileged", "", "-v4"]).unwrap();
        assert_eq!(all.one("secure-port"), Some("2"));
        assert_eq!(all.all("secure-port").len(), 2);
        assert_eq!((all.one("allow-privileged"), all.one("v")), (Some("true"), Some("4")));
        assert_eq!(given(&["--allow_privileged=F"]).unwrap().one("allow-privileged"), Some("false"));
    }

    #[test]
    fn mistakes_are_told_in_upstreams_words() {
        for (args, why) in [
            (&["--insecure-port=0"][..], "unknown flag: --insecure-port"),
            (&["-x"], "unknown shorthand flag: 'x' in -x"),
            (&["--etcd-servers"], "flag needs an argument: --etcd-servers"),
            (&["serve"], "\"kube-apiserver\" does not take any arguments, got [\"serve\"]"),
        ] {
            assert_eq!(given(args).unwrap_err(), why);
        }
        assert!(given(&["--allow-privileged=maybe"]).unwrap_err().contains("invalid argument \"maybe\""));
    }
}
