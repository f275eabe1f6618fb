//! exec: how long `true` takes in a container that runs, from the connection to its exit status, over a WebSocket as kubectl's.

use std::io;
use std::net::TcpStream;
use std::time::Instant;

use super::containers::{TIME_LIMIT, is_running, pod};
use super::{Scenario, Settings};
use crate::client::Client;
use crate::error::BenchError;
use crate::meters::thread_cpu;
use crate::request::Template;
use crate::site::Site;
use crate::tally::Tally;
use crate::wire::{ReadState, Wire};

/// One after the other.
const EXECS: usize = 200;
const NAME: &str = "exec";
const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\
                       Origin: http://localhost\r\n";
/// The channel that ends with how it went.
const ERROR: u8 = 3;
const CLOSE: u8 = 8;

pub struct Exec;

impl Scenario for Exec {
    fn measure(&self, site: &mut Site<'_>, settings: &Settings) -> Result<Tally, BenchError> {
        let pods = site.path("pods");
        site.create_one("pods", &pod(NAME, &settings.image))?;
        let path = format!("{pods}/{NAME}");
        let begun = Instant::now();
        while !is_running(&site.get(&path)?) {
            if begun.elapsed() > TIME_LIMIT {
                return Err(site.too_slow(format!("waiting for pod {NAME} to run"), TIME_LIMIT));
            }
            std::thread::sleep(super::containers::LOOK);
        }
        let mut request = Vec::new();
        let exec = format!("{path}/exec?command=true&stdout=true&stderr=true");
        Template::with_headers(site.endpoint(), "GET", &exec, UPGRADE, None, 1).fill(0, 0, &mut request);
        let mut tally = Tally::new();
        let (began, cpu, own) = (Instant::now(), site.cpu()?, thread_cpu());
        for _ in 0..EXECS {
            let asked = Instant::now();
            run(site, &request, &exec)?;
            tally.latency.record(u64::try_from(asked.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
        tally.seconds = began.elapsed().as_secs_f64();
        tally.requests = EXECS as u64;
        tally.server_rss_peak = site.rss()?;
        tally.server_cpu = site.cpu()?.zip(cpu).map(|(after, before)| after - before);
        tally.generator_cpu = thread_cpu() - own;
        site.delete(&format!("{path}?gracePeriodSeconds=0"))?;
        Ok(tally)
    }
}

/// One command, on a connection of its own.
fn run(site: &Site<'_>, request: &[u8], path: &str) -> Result<(), BenchError> {
    let endpoint = site.endpoint();
    let mut wire = Client::connect(endpoint)?;
    let failed = |source| BenchError::Connection {
        server: endpoint.server.clone(),
        doing: format!("it answered GET {path}"),
        source,
    };
    converse(&mut wire, request).map_err(failed)
}

fn converse(wire: &mut Wire<TcpStream>, request: &[u8]) -> io::Result<()> {
    wire.send(request)?;
    let (mut received, mut frames_at) = (Vec::new(), None);
    loop {
        let state = wire.read(&mut |bytes| received.extend_from_slice(bytes))?;
        if frames_at.is_none() {
            frames_at = head_end(&received)?;
        }
        if let Some(at) = frames_at
            && let Some(said) = outcome(&received[at..])?
        {
            return said;
        }
        match state {
            ReadState::Nothing => return Err(io::ErrorKind::TimedOut.into()),
            ReadState::Closed => return Err(io::ErrorKind::UnexpectedEof.into()),
            ReadState::Drained | ReadState::More => {}
        }
    }
}

/// Where the frames begin, once the answer's head is there.
fn head_end(received: &[u8]) -> io::Result<Option<usize>> {
    let Some(end) = memchr::memmem::find(received, b"\r\n\r\n") else { return Ok(None) };
    if received.starts_with(b"HTTP/1.1 101 ") {
        return Ok(Some(end + 4));
    }
    Err(io::Error::other(String::from_utf8_lossy(received).into_owned()))
}

/// How the command ended, if that was said in these frames.
fn outcome(mut frames: &[u8]) -> io::Result<Option<io::Result<()>>> {
    while let Some((opcode, payload, rest)) = frame(frames) {
        match payload.split_first() {
            Some((&ERROR, status)) if opcode != CLOSE => {
                let ok = memchr::memmem::find(status, b"\"Success\"").is_some();
                let said = || io::Error::other(String::from_utf8_lossy(status).into_owned());
                return Ok(Some(if ok { Ok(()) } else { Err(said()) }));
            }
            _ if opcode == CLOSE => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ => frames = rest,
        }
    }
    Ok(None)
}

/// Opcode, payload and what follows of a whole frame; servers do not mask.
fn frame(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let (&short, rest) = rest.split_first()?;
    let (length, rest) = match short & 0x7f {
        126 => {
            let (length, rest) = rest.split_first_chunk::<2>()?;
            (usize::from(u16::from_be_bytes(*length)), rest)
        }
        127 => {
            let (length, rest) = rest.split_first_chunk::<8>()?;
            (usize::try_from(u64::from_be_bytes(*length)).ok()?, rest)
        }
        short => (usize::from(short), rest),
    };
    (rest.len() >= length).then(|| (first & 0x0f, &rest[..length], &rest[length..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_command_is_what_its_status_says() {
        let mut frames = b"\x82\x01\x01\x82\x03\x01hi".to_vec();
        assert!(outcome(&frames).unwrap().is_none(), "only output");
        frames.extend(b"\x82\x15\x03{\"status\":\"Success\"}");
        assert!(outcome(&frames[..frames.len() - 1]).unwrap().is_none(), "not all of it");
        assert!(outcome(&frames).unwrap().unwrap().is_ok());
        assert!(outcome(b"\x82\x09\x03Failure").unwrap().is_none(), "a frame that is cut");
        assert!(outcome(b"\x82\x08\x03Failure").unwrap().unwrap().is_err());
        assert!(outcome(b"\x88\x02\x03\xe8").is_err(), "closed without a word");
    }

    #[test]
    fn a_refusal_is_told() {
        assert_eq!(head_end(b"HTTP/1.1 101 Switching").unwrap(), None);
        assert_eq!(head_end(b"HTTP/1.1 101 S\r\n\r\nx").unwrap(), Some(18));
        assert!(head_end(b"HTTP/1.1 403 Forbidden\r\n\r\n").is_err());
    }
}
