//! Shrinks a failing input: removes pieces, and simplifies the rest.

/// Attempts: the result should be readable, not minimal.
const ATTEMPTS: usize = 2000;

pub fn shrink(input: &[u8], fails: &mut dyn FnMut(&[u8]) -> bool) -> Vec<u8> {
    let mut best = input.to_vec();
    let mut left = ATTEMPTS;
    let mut try_it = |candidate: &[u8]| {
        left = left.saturating_sub(1);
        left > 0 && fails(candidate)
    };
    let mut piece = best.len().div_ceil(2);
    while piece > 0 {
        let mut at = 0;
        while at < best.len() {
            let end = (at + piece).min(best.len());
            let mut candidate = best.clone();
            candidate.drain(at..end);
            if try_it(&candidate) {
                best = candidate;
            } else {
                at = end;
            }
        }
        piece /= 2;
    }
    for at in 0..best.len() {
        let mut candidate = best.clone();
        candidate[at] = b'a';
        if best[at] != b'a' && try_it(&candidate) {
            best = candidate;
        }
    }
    best
}
