//! What this crate's tests share: archives built by hand, with every lie an archive can tell, and images made of them.

pub mod registry;
pub mod tls;

use std::io::Write;

use crate::digest::Digest;

/// An archive in the making.
#[derive(Clone, Default)]
pub struct Tar(Vec<u8>);

/// A header's fields, as an archiver would fill them for a file of root.
#[derive(Clone)]
pub struct Header<'a> {
    pub kind: u8,
    pub path: &'a [u8],
    pub link: &'a [u8],
    pub mode: u32,
    pub uid: u64,
    pub gid: u64,
    pub size: u64,
    pub device: (u32, u32),
}

impl Default for Header<'_> {
    fn default() -> Self {
        Header { kind: b'0', path: b"", link: b"", mode: 0o644, uid: 0, gid: 0, size: 0, device: (0, 0) }
    }
}

pub const MTIME: i64 = 1_600_000_000;

impl Tar {
    pub fn entry(mut self, header: &Header<'_>, content: &[u8]) -> Tar {
        let mut block = [0u8; 512];
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, header.path);
        put(100, format!("{:07o}\0", header.mode).as_bytes());
        put(108, format!("{:07o}\0", header.uid).as_bytes());
        put(116, format!("{:07o}\0", header.gid).as_bytes());
        put(124, format!("{:011o}\0", header.size).as_bytes());
        put(136, format!("{MTIME:011o}\0").as_bytes());
        put(148, b"        ");
        put(156, &[header.kind]);
        put(157, header.link);
        put(257, b"ustar\x0000");
        put(329, format!("{:07o}\0", header.device.0).as_bytes());
        put(337, format!("{:07o}\0", header.device.1).as_bytes());
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.0.extend_from_slice(&block);
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    pub fn dir(self, path: &str, mode: u32) -> Tar {
        self.entry(&Header { kind: b'5', path: path.as_bytes(), mode, ..Header::default() }, b"")
    }

    pub fn file(self, path: &str, content: &[u8]) -> Tar {
        let size = content.len() as u64;
        self.entry(&Header { path: path.as_bytes(), size, ..Header::default() }, content)
    }

    pub fn symlink(self, path: &str, link: &str) -> Tar {
        let header = Header {
            kind: b'2',
            path: path.as_bytes(),
            link: link.as_bytes(),
            mode: 0o777,
            ..Header::default()
        };
        self.entry(&header, b"")
    }

    pub fn link(self, path: &str, link: &str) -> Tar {
        self.entry(
            &Header { kind: b'1', path: path.as_bytes(), link: link.as_bytes(), ..Header::default() },
            b"",
        )
    }

    /// An extended header for the entry that follows.
    pub fn pax(self, records: &[(&str, &[u8])]) -> Tar {
        let mut text = Vec::new();
        for (key, value) in records {
            let bare = key.len() + value.len() + 3;
            // The length counts its own digits.
            let length = (bare..).find(|length| bare + length.to_string().len() == *length).unwrap();
            text.extend_from_slice(format!("{length} {key}=").as_bytes());
            text.extend_from_slice(value);
            text.push(b'\n');
        }
        let size = text.len() as u64;
        self.entry(&Header { kind: b'x', path: b"PaxHeaders/x", size, ..Header::default() }, &text)
    }

    /// With the two blocks of zeros at the end.
    pub fn bytes(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }
}

pub fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

pub fn zstd(content: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(content, ruzstd::encoding::CompressionLevel::Fastest)
}

/// A config for layers, given as plain tars.
pub fn config(layers: &[&[u8]], entrypoint: &str) -> Vec<u8> {
    let diff_ids: Vec<Digest> = layers.iter().map(|layer| Digest::of(layer)).collect();
    serde_json::to_vec(&serde_json::json!({
        "architecture": crate::Platform::current().architecture, "os": "linux",
        "config": {"Entrypoint": [entrypoint], "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    }))
    .unwrap()
}

/// A folder for a store, in memory where there is such a place: stores sync a lot, and a test does not lose power.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Whether the test can make devices and owners; says so if not.
pub fn root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("\nskipped: {test} needs root");
    }
    root
}
