//! Each filter and score by itself, through the engine; all of them against a naive evaluator; and their speed.

mod devices;
mod filters;
mod naive;
mod preemption;
mod scores;
mod shared;
mod speed;
mod volumes;
mod wakes;
