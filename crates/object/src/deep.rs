//! Room for recursion over what clients send: ten thousand maps and lists inside each other, as upstream takes them.
//!
//! A level costs a few hundred bytes of stack in an optimised build and some thousand in others, and a thread has two
//! mebibytes. So every function that calls itself once a level does so within [`deep`], which goes on with a new piece
//! of stack where the present one ends. While there is room it costs a comparison, and flat objects never need more.

/// Maps and lists inside each other, at most: what Go's JSON and YAML readers accept. Readers stop there, and no patch
/// makes a document that is deeper.
pub const MAX_DEPTH: usize = 10_000;

/// So much must be left for what happens between two levels, in builds without optimisation too.
const RED_ZONE: usize = 128 * 1024;
/// Large, so that few pieces are needed; pages that nobody touches take no memory.
const PIECE: usize = 8 * 1024 * 1024;

/// Runs `f` with room on the stack.
#[inline]
pub fn deep<R>(f: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(RED_ZONE, PIECE, f)
}

/// Passes that count their levels look at the stack once in so many, and never where an object is flat: together these levels
/// fit into the red zone, at 4 KiB each.
pub const LEVELS_AT_ONCE: u32 = 32;

/// Whether the stack has room for one more level.
#[inline]
pub(crate) fn has_room() -> bool {
    stacker::remaining_stack().is_some_and(|bytes| bytes > RED_ZONE)
}

#[cfg(test)]
mod tests;
