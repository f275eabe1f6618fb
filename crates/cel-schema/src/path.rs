//! Where in an object something is, built while walking down and written only for an error.

use std::fmt;

#[derive(Clone, Copy)]
pub(crate) enum Path<'p> {
    /// Empty for a whole object.
    Root(&'p str),
    Child(&'p Path<'p>, &'p str),
    Key(&'p Path<'p>, &'p str),
    Index(&'p Path<'p>, usize),
}

impl Path<'_> {
    fn is_empty(&self) -> bool {
        matches!(self, Path::Root(""))
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root(prefix) => f.write_str(prefix),
            Path::Child(parent, name) => {
                object::deep(|| parent.write(f))?;
                f.write_str(if parent.is_empty() { "" } else { "." })?;
                f.write_str(name)
            }
            Path::Key(parent, name) => {
                object::deep(|| parent.write(f))?;
                write!(f, "[{name}]")
            }
            Path::Index(parent, i) => {
                object::deep(|| parent.write(f))?;
                write!(f, "[{i}]")
            }
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() { f.write_str("<nil>") } else { self.write(f) }
    }
}
