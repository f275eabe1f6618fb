//! Reads a kubeconfig (YAML or JSON), or several that count as one: the server and the credentials of the current context.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use object::Value;

use super::{Config, ConfigError};
use crate::credentials::{Credentials, Impersonate};
use crate::exec::{Plugin, cluster_info};
use crate::proxy::Proxy;

/// Larger than any kubeconfig, so that a wrong path does not fill the memory.
const MAX_BYTES: u64 = 4 << 20;

/// What is wrong, to complete "the kubeconfig cannot be used: ".
type Problem = String;

pub fn load(path: &Path) -> Result<Config, ConfigError> {
    let problem = |problem| ConfigError::Kubeconfig { path: path.to_path_buf(), problem };
    choose(&[File::open(path)?]).map_err(problem)
}

/// The files of a list such as `KUBECONFIG`, merged as kubectl does: the first that sets a value, or has an entry of a name, wins, and its entry counts
/// whole. Those that are missing are left out; `None`: all are.
pub fn load_list(list: &OsStr) -> Result<Option<Config>, ConfigError> {
    let (mut files, mut paths) = (Vec::new(), Vec::new());
    for path in std::env::split_paths(list) {
        if path.as_os_str().is_empty() || paths.contains(&path) {
            continue;
        }
        match File::open(&path) {
            Ok(file) => files.push(file),
            Err(ConfigError::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                continue;
            }
            Err(error) => return Err(error),
        }
        paths.push(path);
    }
    if files.is_empty() {
        return Ok(None);
    }
    // They came out of such a list, so they go into one.
    let together = || std::env::join_paths(&paths).map(PathBuf::from).unwrap_or_default();
    choose(&files).map(Some).map_err(|problem| ConfigError::Kubeconfig { path: together(), problem })
}

/// `folder`: where files with relative names are.
pub fn read(text: &[u8], folder: &Path) -> Result<Config, Problem> {
    choose(&[File::parse(text, folder)?])
}

struct File {
    root: Value,
    /// Where the files it names are, unless they say more.
    folder: PathBuf,
}

impl File {
    fn open(path: &Path) -> Result<File, ConfigError> {
        let read_error = |source| ConfigError::Read { path: path.to_path_buf(), source };
        let problem = |problem| ConfigError::Kubeconfig { path: path.to_path_buf(), problem };
        if std::fs::metadata(path).map_err(read_error)?.len() > MAX_BYTES {
            return Err(problem(format!("it is larger than {} MiB", MAX_BYTES >> 20)));
        }
        let text = std::fs::read(path).map_err(read_error)?;
        File::parse(&text, path.parent().unwrap_or(Path::new(""))).map_err(problem)
    }

    fn parse(text: &[u8], folder: &Path) -> Result<File, Problem> {
        let root =
            codec::yaml::parse(text).map_err(|error| format!("it is neither YAML nor JSON: {error}"))?;
        Ok(File { root, folder: folder.to_owned() })
    }
}

fn choose(files: &[File]) -> Result<Config, Problem> {
    let context_name = files
        .iter()
        .find_map(|file| text_of(&file.root, "current-context"))
        .ok_or("it has no current-context; set one with `kubectl config use-context NAME`")?;
    let (context, _) = named(files, "contexts", context_name, "context")?;
    let cluster_name = text_of(context, "cluster").ok_or("its current context names no cluster")?;
    let (cluster, cluster_folder) = named(files, "clusters", cluster_name, "cluster")?;
    let nobody = Value::map();
    let (user, folder) = match text_of(context, "user") {
        Some(name) => named(files, "users", name, "user")?,
        None => (&nobody, cluster_folder),
    };
    if let Some(provider) = user.get("auth-provider").filter(|provider| !provider.is_null()) {
        let name = text_of(provider, "name").unwrap_or("");
        return Err(format!(
            "no Auth Provider found for name {name:?}: auth-provider was removed from clients in Kubernetes 1.26; use an exec \
             credential plugin instead{}",
            match name {
                "gcp" => " (gke-gcloud-auth-plugin)",
                "azure" => " (https://github.com/Azure/kubelogin)",
                _ => "",
            }
        ));
    }
    let proxy = text_of(cluster, "proxy-url").map(Proxy::parse).transpose()?;
    let authority_pem = pem(cluster, "certificate-authority", cluster_folder)?;
    let skip_verify = cluster.get("insecure-skip-tls-verify").and_then(Value::as_bool).unwrap_or(false);
    if skip_verify && authority_pem.is_some() {
        return Err("its cluster has a certificate-authority and insecure-skip-tls-verify; use one of them"
            .to_owned());
    }
    let certificate_pem = match (pem(user, "client-certificate", folder)?, pem(user, "client-key", folder)?) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => return Err("its user has a client certificate or a client key, but not both".to_owned()),
    };
    Ok(Config {
        server: text_of(cluster, "server").ok_or("its cluster has no server")?.to_owned(),
        tls_server_name: text_of(cluster, "tls-server-name").map(str::to_owned),
        skip_verify,
        certificate_pem,
        credentials: credentials(user, cluster, authority_pem.as_deref(), folder)?,
        authority_pem,
        proxy,
        impersonate: impersonate(user)?,
        namespace: text_of(context, "namespace").unwrap_or("default").to_owned(),
    })
}

fn credentials(
    user: &Value,
    cluster: &Value,
    authority_pem: Option<&[u8]>,
    folder: &Path,
) -> Result<Credentials, Problem> {
    // The file goes first, as in client-go: it is the one that is kept fresh.
    if let Some(path) = text_of(user, "tokenFile") {
        let path = folder.join(path);
        std::fs::metadata(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        return Ok(Credentials::TokenFile(path));
    }
    if let Some(token) = text_of(user, "token") {
        return match token.bytes().any(|byte| byte.is_ascii_control()) {
            true => Err("its token holds control characters".to_owned()),
            false => Ok(Credentials::Token(token.to_owned())),
        };
    }
    match text_of(user, "username") {
        Some(name) => Ok(Credentials::Basic {
            user: name.to_owned(),
            password: text_of(user, "password").unwrap_or("").to_owned(),
        }),
        // Last, as in client-go: what is written down goes before what a plugin would give.
        None => match user.get("exec").filter(|exec| !exec.is_null()) {
            None => Ok(Credentials::None),
            Some(exec) => {
                let mut plugin = Plugin::parse(exec, folder)?;
                if exec.get("provideClusterInfo").and_then(Value::as_bool).unwrap_or(false) {
                    plugin.cluster = Some(cluster_info(cluster, authority_pem));
                }
                Ok(Credentials::Plugin(plugin))
            }
        },
    }
}

/// `as` and what belongs to it.
pub(crate) fn impersonate(user: &Value) -> Result<Option<Impersonate>, Problem> {
    let texts = |value: &Value, name: &str| -> Result<Vec<String>, Problem> {
        let list = value.as_list().ok_or_else(|| format!("its {name} is not a list"))?;
        let texts: Option<Vec<String>> = list.iter().map(|v| v.as_str().map(str::to_owned)).collect();
        texts.ok_or_else(|| format!("its {name} holds something that is not text"))
    };
    let groups = user.get("as-groups").filter(|v| !v.is_null());
    let groups = groups.map(|list| texts(list, "as-groups")).transpose()?.unwrap_or_default();
    let mut extra = Vec::new();
    if let Some(map) = user.get("as-user-extra").and_then(Value::as_map) {
        for (name, values) in map.iter() {
            extra.push((name.to_string(), texts(values, "as-user-extra")?));
        }
    }
    let uid = text_of(user, "as-uid").unwrap_or("").to_owned();
    match text_of(user, "as") {
        Some(name) => Ok(Some(Impersonate { user: name.to_owned(), uid, groups, extra })),
        None if groups.is_empty() && uid.is_empty() && extra.is_empty() => Ok(None),
        None => Err("its user impersonates groups, a uid or extras, but nobody: add `as: NAME`".to_owned()),
    }
}

/// A member that is there and says something.
fn text_of<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.str_at(&[name]).filter(|text| !text.is_empty())
}

/// `KEY-data` in base64, or the contents of the file `KEY`.
fn pem(value: &Value, key: &str, folder: &Path) -> Result<Option<Vec<u8>>, Problem> {
    if let Some(data) = text_of(value, &format!("{key}-data")) {
        let compact: String = data.split_whitespace().collect();
        let pem = STANDARD.decode(compact).map_err(|error| format!("{key}-data is not base64: {error}"))?;
        return Ok(Some(pem));
    }
    let Some(path) = text_of(value, key) else { return Ok(None) };
    let path = folder.join(path);
    std::fs::read(&path).map(Some).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// `list: [{name: NAME, FIELD: ...}]`: what stands in the field of the first entry of that name, and the folder of its file.
fn named<'a>(
    files: &'a [File],
    list: &str,
    name: &str,
    field: &str,
) -> Result<(&'a Value, &'a Path), Problem> {
    let lists = files.iter().filter_map(|file| Some((file.root.get(list)?.as_list()?, &*file.folder)));
    let mut lists = lists.peekable();
    if lists.peek().is_none() {
        return Err(format!("it has no list of {list}"));
    }
    lists
        .flat_map(|(entries, folder)| entries.iter().map(move |entry| (entry, folder)))
        .find(|(entry, _)| entry.str_at(&["name"]) == Some(name))
        .and_then(|(entry, folder)| Some((entry.get(field)?, folder)))
        .ok_or_else(|| format!("it names the {field} {name:?}, but has none of that name under {list}"))
}
