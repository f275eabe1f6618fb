//! Counts the allocations of a thread: a measure of work and leaks that does not depend on the machine.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The allocator of every program that links this crate.
#[global_allocator]
static COUNTING: Counting = Counting;

struct Counting;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
    static HELD: Cell<isize> = const { Cell::new(0) };
}

fn count(grown: usize, held: isize) {
    // A thread that is exiting has no counters any more.
    let _ = ALLOCATED.try_with(|all| all.set(all.get().wrapping_add(grown)));
    let _ = HELD.try_with(|all| all.set(all.get().wrapping_add(held)));
}

#[allow(unsafe_code, reason = "an allocator is unsafe by its nature; this one only counts and passes on")]
// SAFETY: every call is forwarded to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), layout.size() as isize);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(0, -(layout.size() as isize));
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), layout.size() as isize);
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // It may have to copy everything, so all of it counts as work.
        count(size, size as isize - layout.size() as isize);
        unsafe { System.realloc(at, layout, size) }
    }
}

/// The memory used by a call, on its own thread.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Bytes allocated in total, freed or not.
    pub allocated: usize,
    /// Bytes still held: allocated minus freed, so it may be negative.
    pub held: isize,
}

pub fn measure<R>(work: impl FnOnce() -> R) -> (R, Usage) {
    let (allocated, held) = (ALLOCATED.get(), HELD.get());
    let result = work();
    let used = Usage { allocated: ALLOCATED.get().wrapping_sub(allocated), held: HELD.get() - held };
    (result, used)
}
