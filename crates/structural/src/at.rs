//! A field's path: borrowed steps on the stack, text only when something is wrong.

/// `spec.a[0].b[key]`.
#[derive(Clone, Copy)]
pub(crate) enum At<'p> {
    Root,
    /// A path that is text already.
    Text(&'p str),
    Child(&'p At<'p>, &'p str),
    Key(&'p At<'p>, &'p str),
    Index(&'p At<'p>, usize),
}

impl<'p> At<'p> {
    pub(crate) fn child(&'p self, name: &'p str) -> At<'p> {
        At::Child(self, name)
    }
    pub(crate) fn key(&'p self, key: &'p str) -> At<'p> {
        At::Key(self, key)
    }
    pub(crate) fn index(&'p self, index: usize) -> At<'p> {
        At::Index(self, index)
    }
}

impl std::fmt::Display for At<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not by recursion: a schema inside a schema may be thousands of steps down.
        let mut steps = vec![self];
        while let Some(At::Child(parent, _) | At::Key(parent, _) | At::Index(parent, _)) = steps.last() {
            steps.push(parent);
        }
        let alone = steps.len() == 1;
        let mut first = true;
        for step in steps.iter().rev() {
            match step {
                // Go's path to nowhere.
                At::Root if alone => f.write_str("<nil>")?,
                At::Root => continue,
                At::Text(text) => f.write_str(text)?,
                At::Child(_, name) if first => f.write_str(name)?,
                At::Child(_, name) => write!(f, ".{name}")?,
                At::Key(_, key) => write!(f, "[{key}]")?,
                At::Index(_, index) => write!(f, "[{index}]")?,
            }
            first = false;
        }
        Ok(())
    }
}
