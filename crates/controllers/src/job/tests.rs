//! Rules of the Job loop, one by one.
