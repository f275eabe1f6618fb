//! The users that generate the load, each with a namespace: those of a static token file, or a service account per namespace.

use std::path::Path;
use std::time::{Duration, Instant};

use super::super::OverloadSettings;
use super::super::objects::config_map;
use super::flood::{KEPT, Role};
use crate::client::Client;
use crate::endpoint::Endpoint;
use crate::error::BenchError;
use crate::request::SLOT;
use crate::site::Site;

/// The size of one object in a response.
const OBJECT_BYTES: u64 = 1_200;
/// Three nodes, if the token file does not name more.
const NODES: usize = 3;
/// How long a server may take to know a new role.
const SETTLE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(50);
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

pub struct User {
    pub endpoint: Endpoint,
    pub namespace: String,
}

/// Who renews a Lease.
#[derive(Clone)]
pub struct NodeIdentity {
    pub name: String,
    /// The node's own credentials; `None`: the administrator impersonates it.
    pub token: Option<String>,
}

pub struct Users<'a> {
    sites: Vec<Site<'a>>,
    pub all: Vec<User>,
    nodes: Vec<NodeIdentity>,
    from_file: bool,
}

impl<'a> Users<'a> {
    pub fn new(site: &mut Site<'a>, settings: &OverloadSettings) -> Result<Self, BenchError> {
        let file = settings.token_file.as_deref().map(read_tokens).transpose()?;
        let from_file = file.is_some();
        let (mut named, mut nodes) = (Vec::new(), Vec::new());
        for line in file.unwrap_or_default() {
            match line.user.strip_prefix("system:node:") {
                Some(name) => nodes.push(NodeIdentity { name: name.to_owned(), token: Some(line.token) }),
                None => named.push(line),
            }
        }
        if from_file && named.len() < settings.users {
            return Err(BenchError::Usage(format!(
                "the token file names {} users beside nodes; --users {} needs as many",
                named.len(),
                settings.users
            )));
        }
        if nodes.is_empty() {
            let name = |number| format!("{}-node-{number}", site.namespace);
            nodes.extend((0..NODES).map(|number| NodeIdentity { name: name(number), token: None }));
        }
        let mut users = Users { sites: Vec::new(), all: Vec::new(), nodes, from_file };
        match users.add(site, settings, named) {
            Ok(()) => Ok(users),
            Err(error) => Err(users.close(site).err().unwrap_or(error)),
        }
    }

    fn add(
        &mut self,
        site: &Site<'a>,
        settings: &OverloadSettings,
        named: Vec<TokenLine>,
    ) -> Result<(), BenchError> {
        let count = settings.users;
        let mut named = named.into_iter();
        for number in 0..count {
            site.progress.show(&format!("preparing user {} of {count}", number + 1));
            self.sites.push(site.another()?);
            let Some(own) = self.sites.last_mut() else { continue };
            let namespace = own.namespace.clone();
            let (token, subject) = match named.next() {
                Some(line) => (
                    line.token,
                    format!(
                        r#"{{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"{}"}}"#,
                        line.user
                    ),
                ),
                None => {
                    let asked = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":7200}}"#;
                    let path = format!("{}/default/token", own.path("serviceaccounts"));
                    let answer = own.post(&path, asked)?;
                    let token = text_after(&answer, b"\"token\":\"");
                    let none = || {
                        BenchError::Usage(
                            "the server's TokenRequest holds no token; use --token-file".to_owned(),
                        )
                    };
                    let subject =
                        format!(r#"{{"kind":"ServiceAccount","name":"default","namespace":"{namespace}"}}"#);
                    (token.ok_or_else(none)?, subject)
                }
            };
            let role = r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"bench"},"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["list","watch","create","delete"]}]}"#;
            let binding = format!(
                r#"{{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{{"name":"bench"}},"roleRef":{{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"bench"}},"subjects":[{subject}]}}"#
            );
            own.post(&format!("{RBAC}/namespaces/{namespace}/roles"), role)?;
            own.post(&format!("{RBAC}/namespaces/{namespace}/rolebindings"), &binding)?;
            own.create_all("configmaps", &config_map(&format!("there-{SLOT}")), settings.objects)?;
            let endpoint = site.endpoint().for_bearer(Some(token));
            self.all.push(User { endpoint, namespace });
        }
        self.all.iter().try_for_each(|user| settle(user, site))
    }

    pub fn take_nodes(&mut self) -> Vec<NodeIdentity> {
        std::mem::take(&mut self.nodes)
    }

    pub fn describe(&self) -> String {
        let kind = if self.from_file { "users of the token file" } else { "service accounts" };
        format!("{} {kind}", self.all.len())
    }

    /// How much larger the objects at the end are than those at the start.
    pub fn grown_bytes(&self, connections: usize) -> u64 {
        let creators =
            (0..connections).filter(|&index| Role::of(index, self.all.len()) == Role::Create).count();
        (creators * KEPT) as u64 * OBJECT_BYTES
    }

    /// Deletes the namespaces and what is in them.
    pub fn close(&mut self, site: &Site<'_>) -> Result<(), BenchError> {
        let mut result = Ok(());
        let count = self.sites.len();
        // All deletions are requested before the first is waited for.
        for own in &mut self.sites {
            for resource in ["rolebindings", "roles"] {
                let path = format!("{RBAC}/namespaces/{}/{resource}/bench", own.namespace);
                result = result.and_then(|()| own.delete(&path));
            }
            result = result.and_then(|()| own.begin_close());
        }
        for (number, own) in self.sites.drain(..).enumerate() {
            site.progress.show(&format!("removing user {} of {count}", number + 1));
            result = result.and(own.close());
        }
        result
    }
}

/// Until the user may do what the role says: a server learns of it with a delay.
fn settle(user: &User, site: &Site<'_>) -> Result<(), BenchError> {
    let path = format!("/api/v1/namespaces/{}/configmaps?limit=1", user.namespace);
    let (mut client, began) = (Client::new(user.endpoint.clone()), Instant::now());
    loop {
        match client.expect("GET", &path, None, &[]) {
            Ok(_) => return Ok(()),
            Err(BenchError::Refused { status: 401 | 403 | 429, .. }) if began.elapsed() < SETTLE => {
                std::thread::sleep(POLL);
            }
            Err(BenchError::Refused { status: 401, .. }) => {
                return Err(BenchError::Usage(format!(
                    "{} does not know the users of --token-file: start it with the same file",
                    site.endpoint().server
                )));
            }
            Err(error) => return Err(error),
        }
    }
}

struct TokenLine {
    token: String,
    user: String,
}

/// `token,user,uid,"groups"`, as the API servers' own flag reads it.
fn read_tokens(path: &Path) -> Result<Vec<TokenLine>, BenchError> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        BenchError::Usage(format!("cannot read --token-file {}: {error}", path.display()))
    })?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| {
            let mut fields = line.split(',').map(|field| field.trim().trim_matches('"').to_owned());
            let (token, user) = (fields.next(), fields.next());
            let wrong = || {
                BenchError::Usage(format!(
                    "--token-file {}: a line is no token,user,uid,\"groups\"",
                    path.display()
                ))
            };
            match (token, user) {
                (Some(token), Some(user)) if !token.is_empty() && !user.is_empty() => {
                    Ok(TokenLine { token, user })
                }
                _ => Err(wrong()),
            }
        })
        .collect()
}

/// The text behind the first `name`, up to its quotation mark.
pub fn text_after(body: &[u8], name: &[u8]) -> Option<String> {
    let at = memchr::memmem::find(body, name)? + name.len();
    let end = memchr::memchr(b'"', &body[at..])?;
    String::from_utf8(body[at..at + end].to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_file_is_read_as_the_servers_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        std::fs::write(&path, "abc,alice,1\n\ndef,system:node:n1,2,\"system:nodes,x\"\n").unwrap();
        let lines = read_tokens(&path).unwrap();
        let lines: Vec<(&str, &str)> = lines.iter().map(|line| (&*line.token, &*line.user)).collect();
        assert_eq!(lines, [("abc", "alice"), ("def", "system:node:n1")]);
        std::fs::write(&path, "only\n").unwrap();
        assert!(read_tokens(&path).is_err());
    }
}
