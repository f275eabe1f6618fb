//! Rules of pod garbage, one by one.
