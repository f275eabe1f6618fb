//! Files of one volume that would stand in each other's way.

use object::{Value, quote};

use super::Said;
use crate::check::{items, member, text};

/// A file's path in its volume, and the source it comes from where there are several.
#[derive(PartialEq)]
struct File {
    path: String,
    source: String,
}

impl File {
    fn shown(&self) -> String {
        match self.source.as_str() {
            "" => quote(&self.path),
            source => format!("{} ({source})", quote(&self.path)),
        }
    }
    /// One is the other, or a folder above it.
    fn clashes(&self, other: &File) -> bool {
        let within = |a: &str, b: &str| format!("{a}/").starts_with(&format!("{b}/"));
        within(&self.path, &other.path) || within(&other.path, &self.path)
    }
}

pub(super) fn overlaps(volumes: &[Value], said: &mut Said) {
    for volume in volumes {
        let name = quote(text(volume, "name"));
        for (kind, words) in
            [("configMap", "ConfigMap"), ("secret", "Secret"), ("downwardAPI", "DownwardAPI")]
        {
            let Some(source) = member(volume, kind) else { continue };
            let described = match kind {
                "configMap" => format!("{words} {}", quote(text(source, "name"))),
                "secret" => format!("{words} {}", quote(text(source, "secretName"))),
                _ => words.to_owned(),
            };
            let mut seen = Vec::new();
            report(files(source, ""), &mut seen, &format!("volume {name} ({described})"), said);
        }
        if let Some(projected) = member(volume, "projected") {
            let mut seen = Vec::new();
            for source in items(projected, "sources") {
                if source.as_map().is_none_or(|m| m.iter().all(|(_, v)| v.is_null())) {
                    said.say(format!("volume {name} (Projected) has no sources provided"));
                    continue;
                }
                report(projection(source), &mut seen, &format!("volume {name} (Projected)"), said);
            }
        }
    }
}

fn report(files: Vec<File>, seen: &mut Vec<File>, volume: &str, said: &mut Said) {
    for mut file in files {
        file.path = file.path.trim_end_matches('/').to_owned();
        if !file.path.is_empty() {
            for other in seen.iter().filter(|other| !other.path.is_empty() && file.clashes(other)) {
                said.say(format!("{volume}: overlapping paths: {} with {}", file.shown(), other.shown()));
            }
        }
        seen.push(file);
    }
}

/// The files a source names one by one; without a list it takes all keys, and nothing is known.
fn files(source: &Value, described: &str) -> Vec<File> {
    let file = |item: &Value| File { path: text(item, "path").to_owned(), source: described.to_owned() };
    items(source, "items").iter().map(file).collect()
}

fn projection(source: &Value) -> Vec<File> {
    let listed = |kind: &str| member(source, kind).filter(|s| member(s, "items").is_some());
    let one = |path: &str, source: &str| File { path: path.to_owned(), source: source.to_owned() };
    if let Some(map) = listed("configMap") {
        return files(map, &format!("ConfigMap {}", quote(text(map, "name"))));
    }
    if let Some(secret) = listed("secret") {
        return files(secret, &format!("Secret {}", quote(text(secret, "name"))));
    }
    if let Some(downward) = listed("downwardAPI") {
        return files(downward, "DownwardAPI");
    }
    if let Some(token) = member(source, "serviceAccountToken") {
        return vec![one(text(token, "path"), "ServiceAccountToken")];
    }
    if let Some(bundle) = member(source, "clusterTrustBundle") {
        let name = member(bundle, "name").or_else(|| member(bundle, "signerName")).and_then(Value::as_str);
        let described = format!("ClusterTrustBundle {}", quote(name.unwrap_or_default()));
        return vec![one(text(bundle, "path"), &described)];
    }
    let Some(certificate) = member(source, "podCertificate") else { return Vec::new() };
    let parts = [
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    ];
    let named = parts.into_iter().filter(|(member, _)| !text(certificate, member).is_empty());
    named.map(|(member, described)| one(text(certificate, member), described)).collect()
}
