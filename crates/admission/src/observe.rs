//! Who is told how long plugins take.

use std::time::Duration;

use crate::Operation;

/// The two times plugins are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Admit,
    Validate,
}

/// Told after each plugin that takes part in a phase, and after each phase. Must be quick: a write waits for it.
pub trait Observer: Send + Sync {
    /// `at`: its position in the chain.
    fn plugin(&self, at: usize, phase: Phase, operation: Operation, took: Duration, refused: bool);
    fn step(&self, phase: Phase, operation: Operation, took: Duration, refused: bool);
}
