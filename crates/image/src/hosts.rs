//! Where a registry is: `certs.d/HOST/hosts.toml`, as containerd reads it, and what holds where nothing is said.
//!
//! ```text
//! docker.io ── certs.d/docker.io/hosts.toml ── mirrors, in the file's order ── the registry itself
//!           ── no such file ── https://registry-1.docker.io/v2
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

/// A server to ask, with how to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub scheme: Scheme,
    /// Host, with a port where it is not the scheme's.
    pub authority: String,
    /// In front of `/NAME/manifests/…`.
    pub path: String,
    /// May say what a tag means.
    pub resolve: bool,
    /// May give content by digest.
    pub pull: bool,
    pub tls: Tls,
    pub headers: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
    /// HTTPS, and HTTP if that is not spoken there: a registry on this machine.
    Either,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tls {
    pub authorities: Vec<PathBuf>,
    /// Certificate and key; both in one file where there is no key.
    pub clients: Vec<(PathBuf, Option<PathBuf>)>,
    pub skip_verify: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct HostsError {
    pub path: PathBuf,
    pub problem: String,
}

/// The servers to ask for images of a registry, in order. `folders` are searched for the registry's own settings.
pub(crate) fn endpoints(folders: &[PathBuf], domain: &str) -> Result<Vec<Endpoint>, HostsError> {
    let Some(folder) = folders.iter().find_map(|folder| find(folder, domain)) else {
        return Ok(vec![default(domain)]);
    };
    let path = folder.join("hosts.toml");
    let wrong = |problem: String| HostsError { path: path.clone(), problem };
    match fs::read_to_string(&path) {
        Ok(text) => parse(&text, &folder, domain).map_err(wrong),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut endpoint = default(domain);
            let found = certificates(&folder).map_err(|error| wrong(error.to_string()))?;
            if found != Tls::default() {
                endpoint.tls = Tls { skip_verify: endpoint.tls.skip_verify, ..found };
            }
            Ok(vec![endpoint])
        }
        Err(error) => Err(wrong(error.to_string())),
    }
}

/// The folder of a registry: a colon is a bad name for a folder on some systems, so `HOST_PORT_` is looked for first.
fn find(folder: &Path, domain: &str) -> Option<PathBuf> {
    // A name of the image's choosing becomes a path.
    if domain.is_empty() || domain.starts_with('.') || domain.contains('/') {
        return None;
    }
    let escaped = match domain.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() => format!("{host}_{port}_"),
        _ => domain.to_owned(),
    };
    [escaped.as_str(), domain, "_default"]
        .into_iter()
        .map(|name| folder.join(name))
        .find(|path| path.is_dir())
}

/// The registry itself, by its name alone.
fn default(domain: &str) -> Endpoint {
    let (scheme, authority, skip_verify) = match domain {
        "docker.io" => (Scheme::Https, "registry-1.docker.io", false),
        local if is_local(local) => match split_port(local).1 {
            Some("80") => (Scheme::Http, local, false),
            None | Some("443") => (Scheme::Https, local, true),
            Some(_) => (Scheme::Either, local, true),
        },
        other => (Scheme::Https, other, false),
    };
    Endpoint {
        scheme,
        authority: authority.to_owned(),
        path: "/v2".to_owned(),
        resolve: true,
        pull: true,
        tls: Tls { skip_verify, ..Tls::default() },
        headers: Vec::new(),
    }
}

pub(crate) fn is_local(domain: &str) -> bool {
    let host = split_port(domain).0;
    if host == "localhost" {
        return true;
    }
    let address = host.trim_start_matches('[').trim_end_matches(']');
    address.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

pub(crate) fn split_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (authority, None),
    }
}

pub(crate) fn parse(text: &str, folder: &Path, domain: &str) -> Result<Vec<Endpoint>, String> {
    let document = DeTable::parse(text).map_err(|error| error.to_string())?;
    let table = document.get_ref();
    let mut endpoints = Vec::new();
    if let Some(hosts) = get(table, "host") {
        let hosts = hosts.as_table().ok_or("host must be a table")?;
        let mut hosts: Vec<_> = hosts.iter().collect();
        // In the order they are written in: the first is asked first.
        hosts.sort_by_key(|(name, _)| name.span().start);
        for (name, host) in hosts {
            let host = host
                .get_ref()
                .as_table()
                .ok_or_else(|| format!("host {:?} must be a table", name.get_ref()))?;
            endpoints.push(endpoint(name.get_ref(), host, folder)?);
        }
    }
    let server = string(table, "server")?.unwrap_or_default();
    let own = if server.is_empty() {
        endpoint_at(default(domain), table, folder)?
    } else {
        endpoint(server, table, folder)?
    };
    endpoints.push(own);
    Ok(endpoints)
}

fn endpoint(server: &str, table: &DeTable<'_>, folder: &Path) -> Result<Endpoint, String> {
    let url = if server.starts_with("http") { server.to_owned() } else { format!("https://{server}") };
    let uri: http::Uri = url.parse().map_err(|_| format!("unable to parse server {server:?}"))?;
    let authority =
        uri.authority().ok_or_else(|| format!("server {server:?} names no host"))?.as_str().to_owned();
    let scheme = match uri.scheme_str() {
        Some("http") => Scheme::Http,
        Some("https") => Scheme::Https,
        _ => return Err(format!("unable to parse server {server:?}")),
    };
    let mut path = uri.path().trim_end_matches('/').to_owned();
    if !bool(table, "override_path")?.unwrap_or(false) && !path.ends_with("/v2") {
        path.push_str("/v2");
    }
    let bare = Endpoint { scheme, authority, path, ..default("") };
    endpoint_at(bare, table, folder)
}

/// With what a table says about it.
fn endpoint_at(endpoint: Endpoint, table: &DeTable<'_>, folder: &Path) -> Result<Endpoint, String> {
    let mut endpoint = endpoint;
    if let Some(capabilities) = get(table, "capabilities") {
        let list = strings(capabilities).ok_or("capabilities must be a list of strings")?;
        (endpoint.resolve, endpoint.pull) = (false, false);
        for capability in &list {
            match capability.to_lowercase().as_str() {
                "pull" => endpoint.pull = true,
                "resolve" => endpoint.resolve = true,
                "push" => {}
                other => return Err(format!("unknown capability {other:?}")),
            }
        }
        if list.is_empty() {
            (endpoint.resolve, endpoint.pull) = (true, true);
        }
    }
    let file = |name: &str| folder.join(name);
    if let Some(ca) = get(table, "ca") {
        let list = strings(ca).ok_or("ca must be a path or a list of paths")?;
        endpoint.tls.authorities = list.iter().map(|name| file(name)).collect();
    }
    if let Some(client) = get(table, "client") {
        endpoint.tls.clients = clients(client, &file)
            .ok_or("client must be a path, a list of paths, or a list of pairs of certificate and key")?;
    }
    if let Some(skip) = bool(table, "skip_verify")? {
        endpoint.tls.skip_verify = skip;
    }
    if let Some(header) = get(table, "header") {
        for (name, value) in header.as_table().ok_or("header must be a table")?.iter() {
            let values = strings(value.get_ref()).ok_or("a header must be a string or a list of strings")?;
            endpoint.headers.extend(values.into_iter().map(|value| (name.get_ref().to_string(), value)));
        }
    }
    Ok(endpoint)
}

/// `"both.pem"`, `["both.pem", …]`, `[["cert.pem", "key.pem"], …]`.
fn clients(value: &DeValue<'_>, file: &dyn Fn(&str) -> PathBuf) -> Option<Vec<(PathBuf, Option<PathBuf>)>> {
    if let Some(path) = value.as_str() {
        return Some(vec![(file(path), None)]);
    }
    let pair = |value: &DeValue<'_>| match value.as_str() {
        Some(path) => Some((file(path), None)),
        None => match strings(value)?.as_slice() {
            [both] => Some((file(both), None)),
            [certificate, key] if key.is_empty() => Some((file(certificate), None)),
            [certificate, key] => Some((file(certificate), Some(file(key)))),
            _ => None,
        },
    };
    value.as_array()?.iter().map(|value| pair(value.get_ref())).collect()
}

/// Docker's older way: `*.crt` are authorities, `NAME.cert` with `NAME.key` is the client.
fn certificates(folder: &Path) -> io::Result<Tls> {
    let mut tls = Tls::default();
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.sort();
    for path in paths {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("crt") => tls.authorities.push(path),
            Some("cert") => {
                let key = path.with_extension("key");
                tls.clients.push((path, Some(key)));
            }
            _ => {}
        }
    }
    Ok(tls)
}

fn get<'t, 'i>(table: &'t DeTable<'i>, key: &str) -> Option<&'t DeValue<'i>> {
    table.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value.get_ref())
}

fn string<'t>(table: &'t DeTable<'_>, key: &str) -> Result<Option<&'t str>, String> {
    let value = get(table, key);
    value.map(|value| value.as_str().ok_or_else(|| format!("{key} must be a string"))).transpose()
}

fn bool(table: &DeTable<'_>, key: &str) -> Result<Option<bool>, String> {
    let value = get(table, key);
    value.map(|value| value.as_bool().ok_or_else(|| format!("{key} must be true or false"))).transpose()
}

fn strings(value: &DeValue<'_>) -> Option<Vec<String>> {
    match value.as_str() {
        Some(text) => Some(vec![text.to_owned()]),
        None => value.as_array()?.iter().map(|item| item.get_ref().as_str().map(str::to_owned)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(endpoints: &[Endpoint]) -> Vec<String> {
        let show = |endpoint: &Endpoint| {
            let scheme = match endpoint.scheme {
                Scheme::Http => "http",
                Scheme::Https => "https",
                Scheme::Either => "either",
            };
            let can = match (endpoint.resolve, endpoint.pull) {
                (true, true) => "",
                (true, false) => " resolve",
                (false, true) => " pull",
                (false, false) => " nothing",
            };
            let skip = if endpoint.tls.skip_verify { " skip" } else { "" };
            format!("{scheme}://{}{}{can}{skip}", endpoint.authority, endpoint.path)
        };
        endpoints.iter().map(show).collect()
    }

    #[test]
    fn registries_are_where_their_names_say() {
        for (domain, at) in [
            ("docker.io", "https://registry-1.docker.io/v2"),
            ("quay.io", "https://quay.io/v2"),
            ("registry:5000", "https://registry:5000/v2"),
            ("localhost", "https://localhost/v2 skip"),
            ("localhost:443", "https://localhost:443/v2 skip"),
            ("localhost:5000", "either://localhost:5000/v2 skip"),
            ("127.0.0.1:80", "http://127.0.0.1:80/v2"),
            ("127.1.2.3:5000", "either://127.1.2.3:5000/v2 skip"),
            ("[::1]:5000", "either://[::1]:5000/v2 skip"),
            ("localhost.example.com:5000", "https://localhost.example.com:5000/v2"),
        ] {
            assert_eq!(shown(&endpoints(&[], domain).unwrap()), [at]);
        }
    }

    #[test]
    fn mirrors_are_asked_in_the_order_of_the_file() {
        let text = r#"
            server = "https://registry-1.docker.io"
            [host."https://z.example"]
              capabilities = ["pull", "resolve"]
              ca = "z.crt"
              client = [["c.pem", "k.pem"], ["both.pem"]]
              [host."https://z.example".header]
                x-key = ["a", "b"]
            [host."http://a.example:5000/prefix"]
              capabilities = ["pull"]
              ca = ["/abs/one.crt", "two.crt"]
            [host."b.example/own"]
              override_path = true
              skip_verify = true
              client = "both.pem"
        "#;
        let list = parse(text, Path::new("/certs"), "docker.io").unwrap();
        assert_eq!(
            shown(&list),
            [
                "https://z.example/v2",
                "http://a.example:5000/prefix/v2 pull",
                "https://b.example/own skip",
                "https://registry-1.docker.io/v2",
            ]
        );
        assert_eq!(list[0].tls.authorities, [PathBuf::from("/certs/z.crt")]);
        let pair = |one: &str, two: Option<&str>| (PathBuf::from(one), two.map(PathBuf::from));
        let both = pair("/certs/both.pem", None);
        assert_eq!(list[0].tls.clients, [pair("/certs/c.pem", Some("/certs/k.pem")), both.clone()]);
        assert_eq!(list[2].tls.clients, [both]);
        assert_eq!(list[1].tls.authorities, [PathBuf::from("/abs/one.crt"), PathBuf::from("/certs/two.crt")]);
        let header = |value: &str| ("x-key".to_owned(), value.to_owned());
        assert_eq!(list[0].headers, [header("a"), header("b")]);
    }

    #[test]
    fn without_a_server_the_registry_itself_comes_last() {
        let text = "[host.\"http://mirror\"]\ncapabilities = [\"resolve\"]";
        let list = parse(text, Path::new("/"), "docker.io").unwrap();
        assert_eq!(shown(&list), ["http://mirror/v2 resolve", "https://registry-1.docker.io/v2"]);
        assert_eq!(
            shown(&parse("", Path::new("/"), "localhost:5000").unwrap()),
            ["either://localhost:5000/v2 skip"]
        );
        assert_eq!(
            shown(&parse("skip_verify = true", Path::new("/"), "r.io").unwrap()),
            ["https://r.io/v2 skip"]
        );
    }

    #[test]
    fn wrong_files_say_what_is_wrong() {
        for (text, problem) in [
            ("server = 1", "server must be a string"),
            ("host = 1", "host must be a table"),
            ("[host]\na = 1", "host \"a\" must be a table"),
            ("capabilities = [\"fly\"]", "unknown capability \"fly\""),
            ("ca = 1", "ca must be a path or a list of paths"),
            (
                "client = [1]",
                "client must be a path, a list of paths, or a list of pairs of certificate and key",
            ),
            ("skip_verify = \"yes\"", "skip_verify must be true or false"),
            ("server = \"http://\"", "unable to parse server \"http://\""),
        ] {
            assert_eq!(parse(text, Path::new("/"), "r.io").unwrap_err(), problem);
        }
        assert!(parse("= broken", Path::new("/"), "r.io").is_err());
    }

    #[test]
    fn a_registry_has_its_folder_or_the_default_one() {
        let home = tempfile::tempdir().unwrap();
        let write = |folder: &str, text: &str| {
            fs::create_dir_all(home.path().join(folder)).unwrap();
            fs::write(home.path().join(folder).join("hosts.toml"), text).unwrap();
        };
        let find = |domain: &str| shown(&endpoints(&[home.path().to_owned()], domain).unwrap());
        write("r.io:5000", "server = \"one\"");
        assert_eq!(find("r.io:5000"), ["https://one/v2"]);
        write("r.io_5000_", "server = \"two\"");
        assert_eq!(find("r.io:5000"), ["https://two/v2"]);
        assert_eq!(find("q.io"), ["https://q.io/v2"]);
        write("_default", "server = \"three\"");
        assert_eq!(find("q.io"), ["https://three/v2"]);
        assert_eq!(find(".."), ["https://../v2"]);
        let docker = home.path().join("d.io");
        fs::create_dir_all(&docker).unwrap();
        for file in ["b.crt", "a.crt", "me.cert", "me.key", "README"] {
            fs::write(docker.join(file), "").unwrap();
        }
        let found = endpoints(&[home.path().to_owned()], "d.io").unwrap();
        assert_eq!(found[0].tls.authorities, [docker.join("a.crt"), docker.join("b.crt")]);
        assert_eq!(found[0].tls.clients, [(docker.join("me.cert"), Some(docker.join("me.key")))]);
    }
}
