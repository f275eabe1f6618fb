//! Stack space for recursion over client input: documents nested up to ten thousand levels deep, as upstream accepts them.
//!
//! A level costs a few hundred bytes of stack in an optimised build and some thousand in others, and a thread has 2 MiB.
//! So every function that recurses once per level does so within [`deep`], which allocates a new stack segment
//! when the current one runs out. Otherwise it costs one comparison, and flat objects never need more.

/// Maximum nesting of maps and lists: what Go's JSON and YAML decoders accept. Readers stop there, and no patch
/// makes a deeper document.
pub const MAX_DEPTH: usize = 10_000;

/// Stack space for what happens between two levels, in unoptimised builds too.
const RED_ZONE: usize = 128 * 1024;
/// Large, so that few segments are needed; untouched pages take no memory.
const PIECE: usize = 8 * 1024 * 1024;

/// Runs `f` with enough stack.
#[inline]
pub fn deep<R>(f: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(RED_ZONE, PIECE, f)
}

/// Passes that count their levels check the stack once in so many, and never for flat objects: together these levels
/// fit into the red zone, at 4 KiB each.
pub const LEVELS_AT_ONCE: u32 = 32;

/// Whether the stack has space for one more level.
#[inline]
pub(crate) fn has_room() -> bool {
    stacker::remaining_stack().is_some_and(|bytes| bytes > RED_ZONE)
}

#[cfg(test)]
mod tests;
