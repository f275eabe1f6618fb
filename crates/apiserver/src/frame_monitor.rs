//! Inspects the frames a client sends over HTTP/2: incomplete heads, and floods of control frames.
//!
//! h2 answers pings and settings, and opens and closes streams, as fast as they come; each costs next to nothing, but hundreds of
//! thousands of them a core. No client needs more than a few a second.

use env::Env;
use tokio::time::Instant;

const PREFACE: usize = 24;
const HEADER: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Control frames: clients that measure their bandwidth send the most, a ping for each round trip.
const CONTROL: Rate = Rate { burst: 10_000, per_second: 1_000 };
/// A client that gives up cancels all its watches at once.
const RESETS: Rate = Rate { burst: 5_000, per_second: 500 };
/// Window updates are sent as answers are read, by some clients for every few bytes.
const BYTES_PER_UPDATE: usize = 64;

/// The client sent more of these frames than any well-behaved one.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many control frames")]
pub struct Flood;

/// Parses the bytes received.
pub struct FrameMonitor {
    /// Bytes of the preface that are still to come.
    preface: usize,
    header: [u8; HEADER],
    header_read: usize,
    payload_left: usize,
    /// Bytes of an incomplete head.
    head: usize,
    control: Bucket,
    resets: Bucket,
    /// Window updates that the bytes sent allow for.
    updates: usize,
    sent: usize,
}

struct Rate {
    burst: u32,
    per_second: u32,
}

struct Bucket {
    rate: &'static Rate,
    left: u32,
    filled: Instant,
}

impl Bucket {
    fn new(rate: &'static Rate, now: Instant) -> Bucket {
        Bucket { rate, left: rate.burst, filled: now }
    }

    /// Reads the clock only when the bucket seems empty.
    fn take(&mut self, env: &Env) -> Result<(), Flood> {
        if self.left == 0 {
            let now = env.monotonic();
            let new = now.duration_since(self.filled).as_millis() * u128::from(self.rate.per_second) / 1000;
            self.left = u32::try_from(new).unwrap_or(u32::MAX).min(self.rate.burst);
            self.filled = now;
        }
        self.left = self.left.checked_sub(1).ok_or(Flood)?;
        Ok(())
    }
}

impl FrameMonitor {
    pub fn new(env: &Env) -> FrameMonitor {
        let now = env.monotonic();
        FrameMonitor {
            preface: PREFACE,
            header: [0; HEADER],
            header_read: 0,
            payload_left: 0,
            head: 0,
            control: Bucket::new(&CONTROL, now),
            resets: Bucket::new(&RESETS, now),
            updates: 0,
            sent: 0,
        }
    }

    /// Bytes were sent.
    pub fn sent(&mut self, bytes: usize) {
        self.sent += bytes;
        self.updates += self.sent / BYTES_PER_UPDATE;
        self.sent %= BYTES_PER_UPDATE;
    }

    /// Bytes were received. Returns the bytes of an incomplete head.
    pub fn received(&mut self, mut bytes: &[u8], env: &Env) -> Result<usize, Flood> {
        let skipped = self.preface.min(bytes.len());
        self.preface -= skipped;
        bytes = &bytes[skipped..];
        while !bytes.is_empty() {
            if self.payload_left > 0 {
                let skipped = self.payload_left.min(bytes.len());
                self.payload_left -= skipped;
                bytes = &bytes[skipped..];
            } else {
                let taken = (HEADER - self.header_read).min(bytes.len());
                self.header[self.header_read..][..taken].copy_from_slice(&bytes[..taken]);
                self.header_read += taken;
                bytes = &bytes[taken..];
                if self.header_read == HEADER {
                    self.header_read = 0;
                    self.frame(env)?;
                }
            }
        }
        Ok(if self.payload_left == 0 && self.ends_head() { 0 } else { self.head })
    }

    fn ends_head(&self) -> bool {
        !matches!(self.header[3], HEADERS | CONTINUATION) || self.header[4] & END_HEADERS != 0
    }

    fn frame(&mut self, env: &Env) -> Result<(), Flood> {
        let [a, b, c, kind, flags, ..] = self.header;
        self.payload_left = u32::from_be_bytes([0, a, b, c]) as usize;
        if !matches!(kind, HEADERS | CONTINUATION) {
            self.head = 0;
        }
        match kind {
            HEADERS => {
                self.head = self.payload_left;
                Ok(())
            }
            CONTINUATION => {
                self.head += self.payload_left;
                if self.payload_left == 0 { self.control.take(env) } else { Ok(()) }
            }
            DATA if self.payload_left > 0 || flags & END_STREAM != 0 => Ok(()),
            RST_STREAM => self.resets.take(env),
            WINDOW_UPDATE if self.updates > 0 => {
                self.updates -= 1;
                Ok(())
            }
            // PING, SETTINGS, PRIORITY, empty DATA, unknown types.
            _ => self.control.take(env),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, length: usize) -> Vec<u8> {
        let mut frame = vec![0, (length >> 8) as u8, length as u8, kind, flags, 0, 0, 0, 1];
        frame.resize(HEADER + length, 0);
        frame
    }

    fn after_preface(env: &Env) -> FrameMonitor {
        let mut frames = FrameMonitor::new(env);
        assert_eq!(frames.received(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", env), Ok(0));
        frames
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_control_frames_is_seen_in_pieces_of_any_size() {
        let env = Env::simulated(1);
        const PING: u8 = 6;
        const SETTINGS: u8 = 4;
        const PRIORITY: u8 = 2;
        for (kind, length, most) in [
            (PING, 8, 10_000),
            (SETTINGS, 0, 10_000),
            (PRIORITY, 5, 10_000),
            (DATA, 0, 10_000),
            (RST_STREAM, 4, 5_000),
        ] {
            let flood = frame(kind, 0, length).repeat(most + 1);
            for size in [1, 7, 4096, flood.len()] {
                let mut frames = after_preface(&env);
                let (honest, last) = flood.split_at(flood.len() - HEADER - length);
                for piece in honest.chunks(size) {
                    assert_eq!(frames.received(piece, &env), Ok(0), "kind {kind}");
                }
                assert_eq!(frames.received(last, &env), Err(Flood), "kind {kind}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_incomplete_body_is_no_incomplete_head() {
        let env = Env::simulated(1);
        let mut frames = after_preface(&env);
        let head = frame(HEADERS, END_HEADERS, 40);
        assert_eq!(frames.received(&head[..20], &env), Ok(40));
        assert_eq!(frames.received(&head[20..], &env), Ok(0));
        assert_eq!(frames.received(&frame(DATA, 0, 1000)[..500], &env), Ok(0));
    }

    #[tokio::test(start_paused = true)]
    async fn well_behaved_clients_never_count_as_a_flood() {
        let env = Env::simulated(1);
        let mut frames = after_preface(&env);
        // An hour of a hundred pings a second.
        for _ in 0..3600 {
            frames.received(&frame(6, 0, 8).repeat(100), &env).unwrap();
            env.sleep(std::time::Duration::from_secs(1)).await;
        }
        // Requests, and windows opened for every piece of their answers.
        for _ in 0..50_000 {
            frames.sent(500);
            frames.received(&frame(HEADERS, END_HEADERS | END_STREAM, 40), &env).unwrap();
            frames.received(&frame(WINDOW_UPDATE, 0, 4).repeat(2), &env).unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_counts_until_it_ends() {
        let env = Env::simulated(1);
        let mut frames = after_preface(&env);
        assert_eq!(frames.received(&frame(HEADERS, 0, 1000), &env), Ok(1000));
        assert_eq!(frames.received(&frame(CONTINUATION, 0, 1000), &env), Ok(2000));
        assert_eq!(frames.received(&frame(CONTINUATION, END_HEADERS, 1000), &env), Ok(0));
        assert_eq!(frames.received(&frame(HEADERS, END_HEADERS, 1000)[..500], &env), Ok(1000));
    }
}
