//! Files of one volume with conflicting paths.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;

use object::{Value, quote};

use crate::check::{items, member, text};
use crate::warnings::Warnings;

/// The source of files, with its name if it has one.
#[derive(Clone, Copy)]
struct Source<'a> {
    kind: &'static str,
    name: Option<&'a str>,
}

/// Formatted only if two files conflict, which is rare.
impl fmt::Display for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind)?;
        self.name.map_or(Ok(()), |name| write!(f, " {}", quote(name)))
    }
}

struct Volume<'a> {
    name: &'a str,
    source: Source<'a>,
}

impl fmt::Display for Volume<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "volume {} ({})", quote(self.name), self.source)
    }
}

/// A file's path in its volume, and the source it comes from where there are several.
#[derive(Clone, Copy)]
struct File<'a> {
    path: &'a str,
    source: Option<Source<'a>>,
}

impl fmt::Display for File<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quote(self.path))?;
        self.source.map_or(Ok(()), |source| write!(f, " ({source})"))
    }
}

/// Files in order, and an index by path. Few files are searched linearly, without an index.
#[derive(Default)]
struct Taken<'a> {
    files: Vec<File<'a>>,
    places: BTreeMap<&'a str, Vec<usize>>,
}

impl<'a> Taken<'a> {
    const FEW: usize = 16;

    fn add(&mut self, file: File<'a>) {
        self.files.push(file);
        if self.files.len() > Self::FEW {
            let from = if self.places.is_empty() { 0 } else { self.files.len() - 1 };
            for (at, file) in self.files.iter().enumerate().skip(from) {
                self.places.entry(file.path).or_default().push(at);
            }
        }
    }
    /// The files of this path, of a folder above it or of something below it, in order.
    fn clashing(&self, path: &str) -> Vec<usize> {
        if self.files.len() <= Self::FEW {
            let clashes = |at: &usize| {
                let other = self.files[*at].path;
                is_at_or_above(other, path) || is_at_or_above(path, other)
            };
            return (0..self.files.len()).filter(clashes).collect();
        }
        let folder = format!("{path}/");
        let below = self.places.range::<str, _>((Bound::Included(folder.as_str()), Bound::Unbounded));
        let below = below.take_while(|(other, _)| other.starts_with(&folder)).flat_map(|(_, at)| at).copied();
        let mut found: Vec<usize> = below.chain(self.at_or_above(path)).collect();
        found.sort_unstable();
        found
    }
    /// By the parent folders of the path or by all files, whichever are fewer.
    fn at_or_above(&self, path: &str) -> Vec<usize> {
        let folders = path.bytes().filter(|b| *b == b'/').count();
        if folders < self.places.len() {
            let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
            return ends.filter_map(|end| self.places.get(&path[..end])).flatten().copied().collect();
        }
        let above = self.places.iter().filter(|(other, _)| is_at_or_above(other, path));
        above.flat_map(|(_, at)| at).copied().collect()
    }
}

/// Is the first path the second one, or a folder above it?
fn is_at_or_above(folder: &str, path: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

pub(crate) fn overlaps(volumes: &[Value], warnings: &mut Warnings) {
    for volume in volumes {
        let name = text(volume, "name");
        for (member_name, kind, named_by) in [
            ("configMap", "ConfigMap", Some("name")),
            ("secret", "Secret", Some("secretName")),
            ("downwardAPI", "DownwardAPI", None),
        ] {
            let Some(source) = member(volume, member_name) else { continue };
            let described = Source { kind, name: named_by.map(|by| text(source, by)) };
            report(files(source, None), &mut Taken::default(), &Volume { name, source: described }, warnings);
        }
        if let Some(projected) = member(volume, "projected") {
            let volume = Volume { name, source: Source { kind: "Projected", name: None } };
            let mut seen = Taken::default();
            for source in items(projected, "sources") {
                if source.as_map().is_none_or(|m| m.iter().all(|(_, v)| v.is_null())) {
                    warnings.push(format!("{volume} has no sources provided"));
                    continue;
                }
                report(projection(source), &mut seen, &volume, warnings);
            }
        }
    }
}

fn report<'a>(files: Vec<File<'a>>, seen: &mut Taken<'a>, volume: &Volume<'_>, warnings: &mut Warnings) {
    for file in files {
        let file = File { path: file.path.trim_end_matches('/'), ..file };
        if file.path.is_empty() {
            continue;
        }
        for other in seen.clashing(file.path) {
            if warnings.is_full() {
                return;
            }
            warnings.push(format!("{volume}: overlapping paths: {file} with {}", seen.files[other]));
        }
        seen.add(file);
    }
}

/// The files a source lists; without a list it uses all keys, which are not known.
fn files<'a>(of: &'a Value, source: Option<Source<'a>>) -> Vec<File<'a>> {
    items(of, "items").iter().map(|item| File { path: text(item, "path"), source }).collect()
}

fn projection(source: &Value) -> Vec<File<'_>> {
    let listed = |kind: &str| member(source, kind).filter(|s| member(s, "items").is_some());
    let nameless = |kind| Some(Source { kind, name: None });
    for (member_name, kind) in [("configMap", "ConfigMap"), ("secret", "Secret")] {
        if let Some(named) = listed(member_name) {
            return files(named, Some(Source { kind, name: Some(text(named, "name")) }));
        }
    }
    if let Some(downward) = listed("downwardAPI") {
        return files(downward, nameless("DownwardAPI"));
    }
    if let Some(token) = member(source, "serviceAccountToken") {
        return vec![File { path: text(token, "path"), source: nameless("ServiceAccountToken") }];
    }
    if let Some(bundle) = member(source, "clusterTrustBundle") {
        let name = member(bundle, "name").or_else(|| member(bundle, "signerName")).and_then(Value::as_str);
        let described = Source { kind: "ClusterTrustBundle", name: Some(name.unwrap_or_default()) };
        return vec![File { path: text(bundle, "path"), source: Some(described) }];
    }
    let Some(certificate) = member(source, "podCertificate") else { return Vec::new() };
    let parts = [
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    ];
    let all = parts.map(|(name, kind)| File { path: text(certificate, name), source: nameless(kind) });
    all.into_iter().filter(|file| !file.path.is_empty()).collect()
}
