//! An image of busybox under all its names, as `docker save` writes one.

use std::path::{Path, PathBuf};

use image::Digest;

pub const BUSYBOX: &str = "/bin/busybox";
pub const NAME: &str = "registry.test/busybox:1";

const LINKS: [&str; 34] = [
    "sh", "cat", "echo", "id", "sleep", "hostname", "ls", "touch", "tty", "stty", "true", "false", "ps",
    "mount", "mknod", "readlink", "head", "tail", "wc", "env", "pwd", "kill", "mkdir", "httpd", "nc", "test",
    "trap", "grep", "unshare", "dd", "chmod", "ping", "rm", "date",
];

/// An archive in a folder.
pub fn archive(folder: &Path) -> PathBuf {
    let mut layer = Vec::new();
    for directory in ["bin", "etc", "www", "tmp", "work"] {
        entry(&mut layer, directory, b'5', 0o755, "", b"");
    }
    entry(&mut layer, "work/volume", b'5', 0o1777, "", b"");
    entry(&mut layer, "bin/busybox", b'0', 0o755, "", &std::fs::read(BUSYBOX).unwrap());
    for name in LINKS {
        entry(&mut layer, &format!("bin/{name}"), b'2', 0o777, "busybox", b"");
    }
    entry(
        &mut layer,
        "etc/passwd",
        b'0',
        0o644,
        "",
        b"root:x:0:0::/root:/bin/sh\nweb:x:33:34::/srv:/bin/sh\n",
    );
    entry(&mut layer, "etc/group", b'0', 0o644, "", b"www:x:34:\nmedia:x:50:web\n");
    entry(&mut layer, "www/index.html", b'0', 0o644, "", b"below\n");
    entry(&mut layer, "www/old.html", b'0', 0o644, "", b"below\n");
    layer.resize(layer.len() + 1024, 0);
    // Another on top: it replaces a file, and hides one.
    let mut top = Vec::new();
    entry(&mut top, "www/index.html", b'0', 0o644, "", b"from the pod\n");
    entry(&mut top, "www/.wh.old.html", b'0', 0o644, "", b"");
    top.resize(top.len() + 1024, 0);
    let config = serde_json::json!({
        "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
        "os": "linux",
        "config": {
            "Entrypoint": ["/bin/sh", "-c"], "Cmd": ["echo from the image; pwd; echo $VARIABLE"],
            "Env": ["PATH=/bin", "VARIABLE=image"], "WorkingDir": "/work", "User": "web", "Volumes": {"/work/volume": {}}, "StopSignal": "SIGUSR1",
        },
        "rootfs": {"type": "layers", "diff_ids": [Digest::of(&layer), Digest::of(&top)]},
    });
    let manifest = serde_json::json!([{"Config": "config.json", "RepoTags": [NAME], "Layers": ["layer.tar", "top.tar"]}]);
    let mut all = Vec::new();
    entry(&mut all, "layer.tar", b'0', 0o644, "", &layer);
    entry(&mut all, "top.tar", b'0', 0o644, "", &top);
    entry(&mut all, "config.json", b'0', 0o644, "", config.to_string().as_bytes());
    entry(&mut all, "manifest.json", b'0', 0o644, "", manifest.to_string().as_bytes());
    all.resize(all.len() + 1024, 0);
    let path = folder.join("image.tar");
    std::fs::write(&path, all).unwrap();
    path
}

/// One file of a tar.
fn entry(tar: &mut Vec<u8>, name: &str, kind: u8, mode: u32, link: &str, content: &[u8]) {
    let mut header = [0; 512];
    let mut put = |at: usize, text: &[u8]| header[at..at + text.len()].copy_from_slice(text);
    put(0, name.as_bytes());
    put(100, format!("{mode:07o}").as_bytes());
    put(108, b"0000000");
    put(116, b"0000000");
    put(124, format!("{:011o}", content.len()).as_bytes());
    put(136, b"00000000000");
    put(148, b"        ");
    put(156, &[kind]);
    put(157, link.as_bytes());
    put(257, b"ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    tar.extend_from_slice(&header);
    tar.extend_from_slice(content);
    tar.resize(tar.len().next_multiple_of(512), 0);
}
