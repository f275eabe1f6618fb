//! A registry with one image, for those who know its password.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use image::Digest;

const AUTHORIZATION: &str = "authorization: basic dxnlcjpwyxnz";

pub struct Registry {
    pub port: u16,
    /// How often the layer was downloaded.
    pub downloads: Arc<AtomicUsize>,
}

/// With the image `own:1` of one layer, which is an empty tar.
pub fn serve() -> Registry {
    let layer = vec![0; 1024];
    let config = serde_json::json!({
        "architecture": image::Platform::current().architecture, "os": "linux",
        "config": {"Cmd": ["/bin/true"]}, "rootfs": {"type": "layers", "diff_ids": [Digest::of(&layer)]},
    })
    .to_string();
    let describe = |kind: &str, content: &[u8]| {
        serde_json::json!({
            "mediaType": format!("application/vnd.oci.image.{kind}"), "digest": Digest::of(content), "size": content.len(),
        })
    };
    let manifest = serde_json::json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": describe("config.v1+json", config.as_bytes()),
        "layers": [describe("layer.v1.tar", &layer)],
    })
    .to_string();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let downloads = Arc::new(AtomicUsize::new(0));
    let counted = downloads.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let files = [
                (format!("/v2/own/blobs/{}", Digest::of(&layer)), layer.clone()),
                (format!("/v2/own/blobs/{}", Digest::of(config.as_bytes())), config.clone().into_bytes()),
                ("/v2/own/manifests/1".to_owned(), manifest.clone().into_bytes()),
                (
                    format!("/v2/own/manifests/{}", Digest::of(manifest.as_bytes())),
                    manifest.clone().into_bytes(),
                ),
            ];
            let counted = counted.clone();
            std::thread::spawn(move || answer(&stream, &files, &counted));
        }
    });
    Registry { port, downloads }
}

fn answer(mut stream: &std::net::TcpStream, files: &[(String, Vec<u8>)], downloads: &AtomicUsize) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let request = lines.next().unwrap_or_default();
    let headers: Vec<String> =
        lines.take_while(|line| !line.is_empty()).map(|line| line.to_lowercase()).collect();
    let path = request.split(' ').nth(1).unwrap_or_default();
    let found = files.iter().find(|(name, _)| *name == path);
    let (status, content) = match found {
        _ if !headers.iter().any(|line| line == AUTHORIZATION) => ("401 Unauthorized", &[][..]),
        Some((_, content)) => ("200 OK", &content[..]),
        None => ("404 Not Found", &[][..]),
    };
    if found.is_some_and(|(_, content)| content.len() == 1024) && status == "200 OK" {
        downloads.fetch_add(1, Ordering::Relaxed);
    }
    let head = format!(
        "HTTP/1.1 {status}\r\nWWW-Authenticate: Basic realm=\"test\"\r\nContent-Length: {}\r\n\
         Content-Type: application/vnd.oci.image.manifest.v1+json\r\nConnection: close\r\n\r\n",
        content.len()
    );
    let _ = stream
        .write_all(head.as_bytes())
        .and_then(|()| if request.starts_with("HEAD") { Ok(()) } else { stream.write_all(content) });
}
