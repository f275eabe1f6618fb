//! Images from files: what `docker save` writes, and tars of OCI layouts.
//!
//! ```text
//! FILE ── members (name -> place in the file) ─┬─ index.json ── OCI: index ── manifest ── config, layers
//!                                              └─ manifest.json ── Docker: config, layers, names
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use serde::Deserialize;

use crate::config::or_default;
use crate::digest::Digest;
use crate::manifest::{self, Descriptor, Document, MAX_DOCUMENT, Manifest, Platform};
use crate::reference::Reference;
use crate::store::{Image, NewImage, Store, StoreError, at, parse_config};
use crate::tar::{Archive, Kind};
use crate::unpack::Decoder;

/// Files in an archive of images, not in the images themselves.
const MAX_MEMBERS: usize = 100_000;
/// Names under which archives say what their images are called.
const CONTAINERD_NAME: &str = "io.containerd.image.name";
const OCI_NAME: &str = "org.opencontainers.image.ref.name";

/// How to import.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// The name of images that have none, or only a tag, in the archive.
    pub name: Option<Reference>,
    pub platform: Platform,
}

/// Imports all images of an archive that run on the platform. They are everybody's: no credentials were needed for them.
pub fn import(store: &Store, file: &Path, options: &ImportOptions) -> Result<Vec<Image>, StoreError> {
    let mut members = Members::open(store, file)?;
    let has = |name: &str| members.places.contains_key(name);
    let images = if has("index.json") && has("oci-layout") {
        import_layout(store, &mut members, options)?
    } else if has("manifest.json") {
        import_docker(store, &mut members, options)?
    } else {
        return Err(StoreError::Archive(format!(
            "{} is neither a docker archive nor an OCI layout: it holds no manifest.json and no index.json",
            file.display()
        )));
    };
    // No registry brings them back after a power cut.
    store.sync_layers()?;
    Ok(images)
}

fn import_layout(
    store: &Store,
    members: &mut Members,
    options: &ImportOptions,
) -> Result<Vec<Image>, StoreError> {
    let Document::Index(entries) = manifest::parse(&members.read("index.json")?, manifest::OCI_INDEX)? else {
        return Err(StoreError::Archive("index.json is no index".to_owned()));
    };
    let mut images = Vec::new();
    for entry in &entries {
        // Attestations and images of other platforms may lie beside what is wanted.
        if manifest::choose(std::slice::from_ref(entry), &options.platform).is_err() {
            continue;
        }
        let mut names = names_of(entry, options)?;
        let Some((digest, content, manifest)) = find_manifest(members, entry, &options.platform)? else {
            continue;
        };
        let repositories: Vec<Reference> = names.iter().map(|name| name.at(&entry.digest)).collect();
        names.extend(repositories);
        let config = members.read_digest(&manifest.config.digest)?;
        let diff_ids = parse_config(&config)?.rootfs.diff_ids;
        if diff_ids.len() != manifest.layers.len() {
            return Err(StoreError::Layers { layers: manifest.layers.len(), diff_ids: diff_ids.len() });
        }
        for (at, layer) in manifest.layers.iter().enumerate() {
            let member = blob_member(&layer.digest);
            members.unpack(store, &member, &diff_ids[..at], &diff_ids[at])?;
        }
        store.put_blob(&content)?;
        let layers = manifest.layers.iter().map(|layer| layer.size);
        let content_bytes = layers.fold(manifest.config.size, u64::saturating_add);
        let new = NewImage {
            config_blob: &config,
            manifest: Some(&digest),
            names: &names,
            content_bytes,
            pulled_by: None,
        };
        images.push(store.enter(new)?);
    }
    if images.is_empty() {
        return Err(manifest::ManifestError::Platform.into());
    }
    Ok(images)
}

/// The manifest an entry means; nothing if it is none of this platform.
fn find_manifest(
    members: &mut Members,
    entry: &Descriptor,
    platform: &Platform,
) -> Result<Option<(Digest, Vec<u8>, Manifest)>, StoreError> {
    let (mut digest, mut media_type) = (entry.digest.clone(), entry.media_type.clone());
    // An index of an index is as deep as anybody goes.
    for _ in 0..4 {
        let content = members.read_digest(&digest)?;
        match manifest::parse(&content, &media_type)? {
            Document::Manifest(manifest) => return Ok(Some((digest, content, manifest))),
            Document::Index(entries) => match manifest::choose(&entries, platform) {
                Ok(chosen) => (digest, media_type) = (chosen.digest.clone(), chosen.media_type.clone()),
                Err(_) => return Ok(None),
            },
        }
    }
    Err(StoreError::Archive("its indexes are nested too deep".to_owned()))
}

fn names_of(entry: &Descriptor, options: &ImportOptions) -> Result<Vec<Reference>, StoreError> {
    if let Some(name) = entry.annotations.get(CONTAINERD_NAME) {
        return Ok(vec![Reference::parse(name)?]);
    }
    Ok(match (entry.annotations.get(OCI_NAME), &options.name) {
        // Some tools write the whole name there, and others the tag alone.
        (Some(name), _) if name.contains(['/', ':']) => vec![Reference::parse(name)?],
        (Some(tag), Some(base)) => vec![Reference::parse(&format!("{}:{tag}", base.name()))?],
        (None, Some(base)) => vec![base.clone()],
        (_, None) => Vec::new(),
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerImage {
    config: String,
    #[serde(default, deserialize_with = "or_default")]
    repo_tags: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    layers: Vec<String>,
}

fn import_docker(
    store: &Store,
    members: &mut Members,
    options: &ImportOptions,
) -> Result<Vec<Image>, StoreError> {
    let text = members.read("manifest.json")?;
    let listed: Vec<DockerImage> = serde_json::from_slice(&text)
        .map_err(|error| StoreError::Archive(format!("manifest.json cannot be read: {error}")))?;
    let mut images = Vec::new();
    for image in listed {
        let mut names: Vec<Reference> =
            image.repo_tags.iter().map(|name| Reference::parse(name)).collect::<Result<_, _>>()?;
        if names.is_empty() {
            names.extend(options.name.clone());
        }
        let config = members.read(&image.config)?;
        let diff_ids = parse_config(&config)?.rootfs.diff_ids;
        if diff_ids.len() != image.layers.len() {
            return Err(StoreError::Layers { layers: image.layers.len(), diff_ids: diff_ids.len() });
        }
        let mut content_bytes = config.len() as u64;
        for (at, layer) in image.layers.iter().enumerate() {
            let bytes = members.unpack(store, layer, &diff_ids[..at], &diff_ids[at])?;
            content_bytes = content_bytes.saturating_add(bytes);
        }
        let new =
            NewImage { config_blob: &config, manifest: None, names: &names, content_bytes, pulled_by: None };
        images.push(store.enter(new)?);
    }
    Ok(images)
}

fn blob_member(digest: &Digest) -> String {
    format!("blobs/{}/{}", digest.algorithm(), digest.hex())
}

/// The files of an archive, by where they are in it.
struct Members {
    file: File,
    places: BTreeMap<String, Place>,
}

enum Place {
    At {
        offset: u64,
        size: u64,
    },
    /// Older `docker save` wrote a layer that several images share once, and links to it.
    Link(String),
}

impl Members {
    fn open(store: &Store, path: &Path) -> Result<Members, StoreError> {
        let file = plain(store, path)?;
        let mut archive = Archive::new(BufReader::with_capacity(128 << 10, &file));
        let broken =
            |error: crate::tar::TarError| StoreError::Archive(format!("{}: {error}", path.display()));
        let mut places = BTreeMap::new();
        while let Some(entry) = archive.next().map_err(broken)? {
            let Some(name) = normal("", &String::from_utf8_lossy(&entry.path)) else { continue };
            let link = String::from_utf8_lossy(&entry.link);
            let place = match entry.kind {
                Kind::File => Some(Place::At { offset: archive.position(), size: entry.size }),
                Kind::Link => normal("", &link).map(Place::Link),
                Kind::Symlink => {
                    normal(name.rsplit_once('/').map_or("", |(folder, _)| folder), &link).map(Place::Link)
                }
                _ => None,
            };
            if let Some(place) = place {
                places.insert(name, place);
            }
            if places.len() > MAX_MEMBERS {
                return Err(StoreError::Archive(format!("{}: it holds too many files", path.display())));
            }
        }
        drop(archive);
        Ok(Members { file, places })
    }

    fn place(&self, name: &str) -> Result<(u64, u64), StoreError> {
        let missing = || StoreError::Archive(format!("the archive holds no {name}"));
        let mut place = self.places.get(&normal("", name).ok_or_else(missing)?);
        for _ in 0..8 {
            match place {
                Some(Place::At { offset, size }) => return Ok((*offset, *size)),
                Some(Place::Link(target)) => place = self.places.get(target),
                None => break,
            }
        }
        Err(missing())
    }

    fn section(&self, name: &str) -> Result<(impl Read + '_, u64), StoreError> {
        let (offset, size) = self.place(name)?;
        let mut file = &self.file;
        file.seek(SeekFrom::Start(offset)).map_err(at(Path::new(name)))?;
        Ok((file.take(size), size))
    }

    fn read(&mut self, name: &str) -> Result<Vec<u8>, StoreError> {
        let (mut section, size) = self.section(name)?;
        if size > MAX_DOCUMENT {
            return Err(StoreError::Archive(format!("{name} is too large")));
        }
        let mut content = Vec::new();
        section.read_to_end(&mut content).map_err(at(Path::new(name)))?;
        Ok(content)
    }

    fn read_digest(&mut self, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        let content = self.read(&blob_member(digest))?;
        if digest.matches(&content) { Ok(content) } else { Err(StoreError::Digest(digest.clone())) }
    }

    /// Unpacks a layer; its size in the archive. The diff id tells whether it is the right one.
    fn unpack(
        &mut self,
        store: &Store,
        name: &str,
        below: &[Digest],
        diff_id: &Digest,
    ) -> Result<u64, StoreError> {
        let (section, size) = self.section(name)?;
        store.unpack_layer(below, diff_id, section, size)?;
        Ok(size)
    }
}

/// A path in the archive, from a folder in it, without `.` and `..`. Nothing if it leads out.
fn normal(folder: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The archive as plain tar: a compressed one (`docker save | gzip`) is written out first, as its members are read in any order.
fn plain(store: &Store, path: &Path) -> Result<File, StoreError> {
    let open = || File::open(path).map_err(at(path));
    let mut decoder = match Decoder::new(BufReader::new(open()?)).map_err(at(path))? {
        Decoder::Plain(_) => return open(),
        compressed => compressed,
    };
    let mut file = store.scratch()?;
    let most = store.limits().bytes;
    let written = io::copy(&mut decoder.by_ref().take(most), &mut file).map_err(at(path))?;
    if written == most {
        return Err(StoreError::Archive(format!("{} is larger than {most} bytes", path.display())));
    }
    file.rewind().map_err(at(path))?;
    Ok(file)
}

#[cfg(test)]
mod tests;
