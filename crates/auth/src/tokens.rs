//! Static bearer tokens: a CSV file of `token,user,uid,"group1,group2"`.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ring::digest::{SHA256, digest};

use crate::UserInfo;

#[derive(Debug, thiserror::Error)]
pub enum TokensError {
    #[error("cannot read the token file {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("the token file {} has {size} bytes, more than the {MAX_BYTES} allowed", path.display())]
    TooLarge { path: PathBuf, size: usize },
    #[error("{}:{line}: {why}; expected token,user name,user uid,\"group1,group2\"", path.display())]
    Line { path: PathBuf, line: usize, why: String },
}

/// Tokens are stored and looked up by their SHA-256, so that timing reveals nothing about them.
#[derive(Clone, Default)]
pub struct Tokens {
    users: HashMap<[u8; 32], UserInfo>,
    warnings: Vec<String>,
}

impl Tokens {
    pub fn load(path: &Path) -> Result<Tokens, TokensError> {
        let text = std::fs::read(path).map_err(|source| TokensError::Read { path: path.into(), source })?;
        Tokens::parse(path, &text)
    }

    /// `path` is for error messages only.
    pub fn parse(path: &Path, text: &[u8]) -> Result<Tokens, TokensError> {
        if text.len() > MAX_BYTES {
            return Err(TokensError::TooLarge { path: path.into(), size: text.len() });
        }
        let error = |line, why: &str| TokensError::Line { path: path.into(), line, why: why.to_owned() };
        let text = std::str::from_utf8(text).map_err(|e| {
            let line = 1 + text[..e.valid_up_to()].iter().filter(|b| **b == b'\n').count();
            error(line, "not UTF-8")
        })?;
        let mut out = Tokens::default();
        for record in records(text) {
            let (line, fields) = record.map_err(|(line, why)| error(line, why))?;
            let [token, name, uid, rest @ ..] = fields.as_slice() else {
                return Err(error(line, &format!("must have at least 3 columns, found {}", fields.len())));
            };
            if token.is_empty() {
                out.warnings.push(format!("{}:{line}: empty token, line ignored", path.display()));
                continue;
            }
            let groups = rest.first().map(|g| g.split(',').map(str::to_owned).collect()).unwrap_or_default();
            let user = UserInfo { name: name.clone(), uid: uid.clone(), groups, ..UserInfo::default() };
            if out.users.insert(key(token), user).is_some() {
                out.warnings
                    .push(format!("{}:{line}: duplicate token, the last line is used", path.display()));
            }
        }
        Ok(out)
    }

    /// The user of a bearer token; the caller adds `system:authenticated`.
    pub fn authenticate(&self, token: &str) -> Option<UserInfo> {
        self.users.get(&key(token)).cloned()
    }

    pub fn len(&self) -> usize {
        self.users.len()
    }
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }
    /// Warnings for the operator; never include a token.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

const MAX_BYTES: usize = 8 << 20;

fn key(token: &str) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    out
}

type Record = Result<(usize, Vec<String>), (usize, &'static str)>;

/// CSV records with the number of their first line. Empty lines are skipped; fields may be in double quotes, in
/// which `""` is a quote and line breaks are preserved.
fn records(text: &str) -> impl Iterator<Item = Record> {
    let mut chars = text.chars().peekable();
    let mut line = 1;
    std::iter::from_fn(move || {
        while let Some('\n' | '\r') = chars.peek() {
            line += usize::from(chars.next() == Some('\n'));
        }
        chars.peek()?;
        let first_line = line;
        let mut fields = Vec::new();
        loop {
            let mut field = String::new();
            if chars.next_if_eq(&'"').is_some() {
                loop {
                    match chars.next() {
                        None => return Some(Err((first_line, "unterminated quoted field"))),
                        Some('"') if chars.next_if_eq(&'"').is_some() => field.push('"'),
                        Some('"') => break,
                        Some(c) => {
                            line += usize::from(c == '\n');
                            field.push(c);
                        }
                    }
                }
                if !matches!(chars.peek(), None | Some(',' | '\n' | '\r')) {
                    return Some(Err((line, "text after a closing quote")));
                }
            } else {
                while let Some(c) = chars.next_if(|c| !matches!(c, ',' | '\n' | '\r')) {
                    if c == '"' {
                        return Some(Err((line, "a quote inside an unquoted field")));
                    }
                    field.push(c);
                }
            }
            fields.push(field);
            if chars.next_if_eq(&',').is_none() {
                return Some(Ok((first_line, fields)));
            }
        }
    })
}
