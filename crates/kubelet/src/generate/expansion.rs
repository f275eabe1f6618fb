//! `$(NAME)` in the values of variables, in commands and arguments, and in the sub-paths of mounts.
//!
//! `$$` is a dollar that begins nothing. What is not a reference, or one that is not closed, stays as it is.

/// As much as a runtime can be told of a container at all. References multiply: a few dozen variables, each naming the one
/// before it twice, would fill any memory.
const MAX_BYTES: usize = 16 << 20;

/// What may still be made of references and other sources.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    used: usize,
    most: usize,
}

/// In the words of the protocol that a container is sent over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("trying to send message larger than max ({bytes} vs. {most})")]
pub struct TooLarge {
    bytes: usize,
    most: usize,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::of(MAX_BYTES)
    }
}

impl Budget {
    pub fn of(most: usize) -> Budget {
        Budget { used: 0, most }
    }

    pub fn take(&mut self, bytes: usize) -> Result<(), TooLarge> {
        self.used = self.used.saturating_add(bytes);
        if self.used > self.most {
            return Err(TooLarge { bytes: self.used, most: self.most });
        }
        Ok(())
    }
}

/// Replaces every reference by what `lookup` makes of its name. Bytes: a secret need not be text.
pub fn expand(
    input: &[u8],
    budget: &mut Budget,
    mut lookup: impl FnMut(&[u8]) -> Vec<u8>,
) -> Result<Vec<u8>, TooLarge> {
    budget.take(input.len())?;
    let mut out = Vec::with_capacity(input.len());
    let mut rest = input;
    // Once one reference is not closed, none behind it is: looking again for each would cost the square of the length.
    let mut closed = true;
    while let Some(at) = rest.iter().position(|byte| *byte == b'$') {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        let Some(next) = rest.first() else {
            out.push(b'$');
            break;
        };
        let end = if *next == b'(' && closed { rest.iter().position(|byte| *byte == b')') } else { None };
        if let Some(end) = end {
            let value = lookup(&rest[1..end]);
            budget.take(value.len())?;
            out.extend(value);
            rest = &rest[end + 1..];
            continue;
        }
        closed &= *next != b'(';
        out.push(b'$');
        // What follows goes with the dollar, whatever it is.
        if *next != b'$' {
            out.push(*next);
        }
        rest = &rest[1..];
    }
    out.extend_from_slice(rest);
    Ok(out)
}

/// A reference to something unknown, as it was written.
pub fn unresolved(name: &[u8]) -> Vec<u8> {
    [b"$(", name, b")"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(input: &str) -> String {
        let known = |name: &[u8]| match name {
            b"VAR_A" => b"A".to_vec(),
            b"VAR_B" => b"B".to_vec(),
            b"VAR_C" => b"C".to_vec(),
            b"VAR_REF" => b"$(VAR_A)".to_vec(),
            b"VAR_EMPTY" => Vec::new(),
            _ => unresolved(name),
        };
        String::from_utf8(expand(input.as_bytes(), &mut Budget::default(), known).unwrap()).unwrap()
    }

    #[test]
    fn references_do_not_multiply_without_end() {
        let mut budget = Budget::default();
        let large = |_: &[u8]| vec![b'x'; 6 << 20];
        assert_eq!(expand(b"$(A)", &mut budget, large).map(|value| value.len()), Ok(6 << 20));
        let error = expand(b"$(A)$(A)$(A)", &mut budget, large).unwrap_err();
        assert_eq!(error.to_string(), "trying to send message larger than max (18874384 vs. 16777216)");
    }

    #[test]
    fn references_are_replaced() {
        for (input, output) in [
            ("$(VAR_A)", "A"),
            ("___$(VAR_B)___", "___B___"),
            ("___$(VAR_C)", "___C"),
            ("$(VAR_A)-$(VAR_A)", "A-A"),
            ("$(VAR_A)-1", "A-1"),
            ("$$(VAR_B)_$(VAR_A)", "$(VAR_B)_A"),
            ("$$(VAR_A)_$$(VAR_B)", "$(VAR_A)_$(VAR_B)"),
            ("f000-$$VAR_A", "f000-$VAR_A"),
            ("foo\\$(VAR_C)bar", "foo\\Cbar"),
            ("$(VAR_A$(VAR_B))", "$(VAR_A$(VAR_B))"),
            ("$(VAR_A$(VAR_B)", "$(VAR_A$(VAR_B)"),
            ("$(VAR_REF)", "$(VAR_A)"),
            ("%%$(VAR_REF)--$(VAR_REF)%%", "%%$(VAR_A)--$(VAR_A)%%"),
            ("foo$(VAR_EMPTY)bar", "foobar"),
            ("foo$(VAR_Awhoops!", "foo$(VAR_Awhoops!"),
            ("f00__(VAR_A)__", "f00__(VAR_A)__"),
            ("$?_boo_$!", "$?_boo_$!"),
            ("$VAR_A", "$VAR_A"),
            ("$(VAR_DNE)", "$(VAR_DNE)"),
            ("$$$$$$(BIG_MONEY)", "$$$(BIG_MONEY)"),
            ("$$$$$$(VAR_A)", "$$$(VAR_A)"),
            ("$$$$$$$(GOOD_ODDS)", "$$$$(GOOD_ODDS)"),
            ("$$$$$$$(VAR_A)", "$$$A"),
            ("$VAR_A)", "$VAR_A)"),
            ("${VAR_A}", "${VAR_A}"),
            ("$(VAR_B)_______$(A", "B_______$(A"),
            ("$(VAR_C)_______$(", "C_______$("),
            ("$(VAR_A)foobarzab$", "Afoobarzab$"),
            ("foo-\\$(VAR_A", "foo-\\$(VAR_A"),
            ("--$($($($($--", "--$($($($($--"),
            ("$($($($($--foo$(", "$($($($($--foo$("),
            ("foo0--$($($($(", "foo0--$($($($("),
            ("$(foo$$var)", "$(foo$$var)"),
            ("$()", "$()"),
            ("$", "$"),
            ("", ""),
            ("$a$(VAR_A)", "$aA"),
            ("$ä$(VAR_A)", "$äA"),
        ] {
            assert_eq!(expanded(input), output, "{input}");
        }
    }
}
