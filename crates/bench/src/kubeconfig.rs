//! Reads from a kubeconfig (YAML or JSON) the server and the credentials of its current context.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use saphyr_parser::{Event, Parser};

use crate::error::BenchError;

/// A kubeconfig is four levels deep; what nests deeper is not one.
const MAX_DEPTH: usize = 32;
/// Larger than any kubeconfig, so that a wrong path does not fill the memory.
const MAX_BYTES: u64 = 4 << 20;

/// What a client needs to reach one server, as PEM and text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Access {
    pub server: String,
    pub tls_server_name: Option<String>,
    pub authority_pem: Option<Vec<u8>>,
    pub skip_verify: bool,
    pub certificate_pem: Option<Vec<u8>>,
    pub key_pem: Option<Vec<u8>>,
    pub token: Option<String>,
}

pub fn load(path: &Path) -> Result<Access, BenchError> {
    let read_error = |source| BenchError::ReadKubeconfig { path: path.to_path_buf(), source };
    let problem = |problem: String| BenchError::Kubeconfig { path: path.to_path_buf(), problem };
    if std::fs::metadata(path).map_err(read_error)?.len() > MAX_BYTES {
        return Err(problem(format!("it is larger than {} MiB", MAX_BYTES >> 20)));
    }
    let text = std::fs::read_to_string(path).map_err(read_error)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    read(&text, &mut |file| {
        let file = folder.join(file);
        std::fs::read(&file).map_err(|error| format!("cannot read {}: {error}", file.display()))
    })
    .map_err(problem)
}

/// Reads the text of a kubeconfig; `file` gives the contents of files it names (relative to its own folder).
fn read(text: &str, file: &mut dyn FnMut(PathBuf) -> Result<Vec<u8>, String>) -> Result<Access, String> {
    let root = parse(text)?;
    let context_name = root
        .text("current-context")
        .filter(|name| !name.is_empty())
        .ok_or("it has no current-context; set one with `kubectl config use-context NAME`")?;
    let context = root.named("contexts", context_name, "context")?;
    let cluster_name = context.text("cluster").ok_or("its current context names no cluster")?;
    let cluster = root.named("clusters", cluster_name, "cluster")?;
    let empty = Node::Map(Vec::new());
    let user = match context.text("user") {
        Some(name) if !name.is_empty() => root.named("users", name, "user")?,
        _ => &empty,
    };
    for plugin in ["exec", "auth-provider"] {
        if user.get(plugin).is_some() {
            return Err(format!(
                "its user gets credentials from a plugin ({plugin}); use one with a client certificate or a token"
            ));
        }
    }
    let mut bytes = |node: &Node, key: &str| -> Result<Option<Vec<u8>>, String> {
        if let Some(data) = node.text(&format!("{key}-data")).filter(|data| !data.is_empty()) {
            let compact: String = data.split_whitespace().collect();
            return match STANDARD.decode(compact) {
                Ok(pem) => Ok(Some(pem)),
                Err(error) => Err(format!("{key}-data is not base64: {error}")),
            };
        }
        match node.text(key).filter(|path| !path.is_empty()) {
            Some(path) => file(PathBuf::from(path)).map(Some),
            None => Ok(None),
        }
    };
    let authority_pem = bytes(cluster, "certificate-authority")?;
    let certificate_pem = bytes(user, "client-certificate")?;
    let key_pem = bytes(user, "client-key")?;
    if certificate_pem.is_some() != key_pem.is_some() {
        return Err("its user has a client certificate or a client key, but not both".to_string());
    }
    let token = match (user.text("token").filter(|token| !token.is_empty()), user.text("tokenFile")) {
        (Some(token), _) => Some(token.to_string()),
        (None, Some(path)) if !path.is_empty() => {
            let token = String::from_utf8(file(PathBuf::from(path))?)
                .map_err(|_| "its tokenFile does not hold text".to_string())?;
            Some(token.trim().to_string())
        }
        _ => None,
    };
    if token.as_ref().is_some_and(|token| token.bytes().any(|byte| byte.is_ascii_control())) {
        return Err("its token holds control characters".to_string());
    }
    Ok(Access {
        server: cluster.text("server").ok_or("its cluster has no server")?.to_string(),
        tls_server_name: cluster.text("tls-server-name").filter(|name| !name.is_empty()).map(str::to_string),
        authority_pem,
        skip_verify: cluster.text("insecure-skip-tls-verify") == Some("true"),
        certificate_pem,
        key_pem,
        token,
    })
}

/// The shapes a kubeconfig is made of. Scalars stay text: none is used as anything else.
#[derive(Debug)]
enum Node {
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl Node {
    fn get(&self, key: &str) -> Option<&Node> {
        match self {
            Node::Map(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    fn text(&self, key: &str) -> Option<&str> {
        match self.get(key) {
            Some(Node::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// `list: [{name: NAME, FIELD: ...}]`: what stands in the field of the entry of that name.
    fn named(&self, list: &str, name: &str, field: &str) -> Result<&Node, String> {
        let Some(Node::List(entries)) = self.get(list) else {
            return Err(format!("it has no list of {list}"));
        };
        entries
            .iter()
            .find(|entry| entry.text("name") == Some(name))
            .and_then(|entry| entry.get(field))
            .ok_or_else(|| format!("it names the {field} {name:?}, but has none of that name under {list}"))
    }
}

fn parse(text: &str) -> Result<Node, String> {
    // Open collections, innermost last; a map also holds the key that waits for its value.
    let mut open: Vec<(Node, Option<String>)> = Vec::new();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| format!("it is neither YAML nor JSON: {error}"))?;
        let line = span.start.line();
        let finished = match event {
            Event::Scalar(value, ..) => Node::Text(value.into_owned()),
            Event::SequenceStart(..) | Event::MappingStart(..) if open.len() >= MAX_DEPTH => {
                return Err(format!("line {line} nests deeper than {MAX_DEPTH}"));
            }
            Event::SequenceStart(..) => {
                open.push((Node::List(Vec::new()), None));
                continue;
            }
            Event::MappingStart(..) => {
                open.push((Node::Map(Vec::new()), None));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some((node, _)) => node,
                None => return Err(format!("line {line} closes what was never opened")),
            },
            Event::Alias(_) => return Err(format!("line {line} uses a YAML alias; write the value out")),
            _ => continue,
        };
        match open.last_mut() {
            None => return Ok(finished),
            Some((Node::List(entries), _)) => entries.push(finished),
            Some((Node::Map(entries), key)) => match (key.take(), finished) {
                (Some(key), value) => entries.push((key, value)),
                (None, Node::Text(name)) => *key = Some(name),
                (None, _) => return Err(format!("line {line} has a key that is not text")),
            },
            Some((Node::Text(_), _)) => return Err(format!("line {line} cannot be read")),
        }
    }
    Err("it is empty".to_string())
}

#[cfg(test)]
mod tests;
