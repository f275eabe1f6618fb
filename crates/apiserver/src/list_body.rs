//! A list's body: written chunk by chunk while the client reads, never held as a whole.

use std::io::Write;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use codec::protobuf;
use flate2::write::GzEncoder;
use object::Obj;

use crate::flow_control::SeatGuard;
use crate::gzip;
use crate::metrics::ResponseSize;
use crate::run_queue::PermitPoller;

/// How much is handed to the connection at a time.
const CHUNK: usize = 128 * 1024;

/// How one item is written.
pub type WriteItem = Box<dyn Fn(&Obj, &mut Vec<u8>) + Send + Sync>;

/// What stands between the items and behind them.
#[derive(Clone, Copy)]
pub struct ListFormat {
    pub separator: &'static [u8],
    pub tail: &'static [u8],
}

impl ListFormat {
    pub const JSON: ListFormat = ListFormat { separator: b",", tail: b"]}\n" };
    /// Each item carries its own tag and length.
    pub const PROTOBUF: ListFormat = ListFormat { separator: b"", tail: protobuf::LIST_TAIL };
}

pub struct ListBody {
    head: Vec<u8>,
    items: std::vec::IntoIter<Arc<Obj>>,
    write_item: WriteItem,
    first: bool,
    format: ListFormat,
    gzip: bool,
    /// From the first chunk to the last: it takes a quarter of a megabyte.
    encoder: Option<GzEncoder<Vec<u8>>>,
    done: bool,
    /// Counts what goes out.
    size: Option<ResponseSize>,
    /// Until all is sent, or nobody fetches it.
    seats: Option<SeatGuard>,
    permit: Option<PermitPoller>,
}

impl ListBody {
    /// `head` ends right before the first item; in JSON with the `[`.
    pub fn new(
        head: Vec<u8>,
        items: Vec<Arc<Obj>>,
        write_item: WriteItem,
        format: ListFormat,
        gzip: bool,
    ) -> ListBody {
        ListBody {
            head,
            items: items.into_iter(),
            write_item,
            first: true,
            format,
            gzip,
            encoder: None,
            done: false,
            size: None,
            seats: None,
            permit: None,
        }
    }

    pub fn count_size(&mut self, size: ResponseSize) {
        self.size = Some(size);
    }

    pub fn hold_seats(&mut self, mut seats: SeatGuard) {
        // From now on it is its client who may keep it waiting.
        seats.sending();
        self.permit = Some(seats.poller());
        self.seats = Some(seats);
    }

    /// Ready when it is its turn to make a piece, which [`ListBody::release_permit`] ends.
    pub fn poll_permit(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.permit.as_mut().map_or(Poll::Ready(()), |permit| permit.poll(cx))
    }

    pub fn release_permit(&mut self) {
        if let Some(permit) = &mut self.permit {
            permit.release();
        }
    }

    pub fn next_chunk(&mut self) -> Option<Bytes> {
        self.chunk_of(CHUNK)
    }

    /// Nothing is left to be written.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// What it takes while it waits.
    pub fn weight(&self) -> usize {
        self.head.len() + self.items.len() * size_of::<Arc<Obj>>()
    }

    /// The next items, until there are so many bytes (before they are compressed).
    pub fn chunk_of(&mut self, bytes: usize) -> Option<Bytes> {
        let chunk = self.make_chunk(bytes.min(CHUNK))?;
        if let Some(size) = &mut self.size {
            size.sent(chunk.len());
        }
        if let Some(seats) = &mut self.seats {
            seats.sending();
        }
        Some(chunk)
    }

    fn make_chunk(&mut self, bytes: usize) -> Option<Bytes> {
        while !self.done {
            let chunk = self.plain_chunk(bytes);
            if !self.gzip {
                return Some(chunk.into());
            }
            let encoder = self.encoder.get_or_insert_with(|| gzip::encoder(chunk.len() / 4));
            // Writing into a Vec cannot fail.
            let _ = encoder.write_all(&chunk);
            if self.done {
                let _ = encoder.try_finish();
            }
            let compressed = std::mem::take(encoder.get_mut());
            if self.done {
                self.encoder = None;
            }
            if !compressed.is_empty() {
                return Some(compressed.into());
            }
        }
        None
    }

    fn plain_chunk(&mut self, bytes: usize) -> Vec<u8> {
        let mut out = std::mem::take(&mut self.head);
        out.reserve(bytes + bytes / 8);
        while out.len() < bytes {
            let Some(obj) = self.items.next() else {
                out.extend_from_slice(self.format.tail);
                self.done = true;
                break;
            };
            if !std::mem::take(&mut self.first) {
                out.extend_from_slice(self.format.separator);
            }
            (self.write_item)(&obj, &mut out);
        }
        out
    }
}
