//! Names of revisions: the owner's name and a hash of what the revision holds.

/// A longer owner's name is cut.
const LONGEST_PREFIX: usize = 223;

/// Characters a hash is written in: no vowels, no look-alikes.
const SAFE: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// FNV-1 of 32 bits over the data and the number of collisions there were, written in safe characters.
pub(crate) fn hash(data: &[u8], collisions: i64) -> String {
    let digits = collisions.to_string();
    let bytes = data.iter().chain(digits.as_bytes());
    let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| hash.wrapping_mul(0x0100_0193) ^ u32::from(*byte));
    hash.to_string().bytes().map(|digit| SAFE[usize::from(digit) % SAFE.len()] as char).collect()
}

pub(crate) fn name(owner: &str, hash: &str) -> String {
    let mut end = owner.len().min(LONGEST_PREFIX);
    while !owner.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}-{hash}", &owner[..end])
}
