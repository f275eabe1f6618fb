//! Parses catalogue files into a [`Catalog`].
//!
//! The format is lines of words. `#` starts a comment line; blank lines are ignored; a line that starts in the first column
//! opens a block, an indented line adds to it.
//!
//! ```text
//! resource GROUP/VERSION PLURAL TYPE namespaced|cluster singular=NAME [short=A,B] [categories=A,B] verbs=all|create,get,...
//!     [deprecated=1.33 [instead=GROUP/VERSION/KIND]]
//!   sub NAME GROUP/VERSION/KIND TYPE VERBS          a subresource and the kind of its body
//!   unstored                                        served, never stored; or
//!   stored-as GROUP/VERSION PLURAL                  stored as another resource; or
//!   storage PREFIX/ [unconditional-update] [create-on-update] [returns-deleted] [orphan] [no-gc] [ttl=SECONDS]
//!   select NAME [path=A.B] [else=A.B] [absent=TEXT] [alias=NAME] [indexed]      a selectable field
//!   unknown-field TEXT                              error for any other field selector; `{}` or `{q}` (quoted) is its name
//!   label NAME SELECTABLE                           this resource's name of a selectable field of the one it is stored as
//!
//! internal GROUP/VERSION PLURAL TYPE namespaced|cluster PREFIX/      an internal object of the server, not served
//!
//! type PACKAGE.VERSION.NAME [gvk=GROUP/VERSION/KIND] [atomic] [open] [union=JSON]
//!   NUMBER NAME TYPE [required] [ptr] [omitempty] [omitzero] [value] [list=atomic|set|map:KEY,KEY] [map=atomic|granular]
//!                    [patch=merge|replace|retainKeys,...] [key=MERGEKEY] [enum=A|B_C] [default=JSON]
//! ```
//!
//! GROUP is `core` for the core group in `resource` and `sub` lines and empty in `gvk=`. NUMBER is the protobuf number, `-` for none,
//! `2.1` for number 1 inside the embedded message 2. TYPE is `[]TYPE`, `map[string]TYPE`, a scalar (`string bool int32 int64 double bytes
//! time micro-time duration quantity int-or-string any fields-v1 json schema-or-array schema-or-bool schema-or-strings`), or a type:
//! by its full name, or by its last part within the same package. In `enum=`, `_` is a space. Fields stand in the order Go declares them, which is the order they are encoded in.

mod line;
mod resources;
mod types;

use std::collections::HashMap;

use crate::{Catalog, Name, ResourceId, Schema, StorageId, TypeId, Types};
use line::{Line, lines};

/// The position of an error in a catalogue file, and the problem.
#[derive(Debug, thiserror::Error)]
#[error("{file}:{line}: {problem}")]
pub struct CatalogError {
    pub file: String,
    pub line: usize,
    pub problem: Problem,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("a block starts with `resource`, `internal` or `type`, not `{0}`")]
    UnknownBlock(String),
    #[error("indented line outside a block; start a `resource` or `type` first")]
    OutsideBlock,
    #[error("the line has no {0}")]
    Missing(&'static str),
    #[error("`{word}` is not {expected}")]
    Unexpected { word: String, expected: &'static str },
    #[error("duplicate {what} `{name}`")]
    Duplicate { what: &'static str, name: String },
    #[error("unknown type `{0}`; add `type {0}` or correct the name")]
    UnknownType(String),
    #[error("unknown stored resource `{0}`")]
    UnknownStorage(String),
    #[error("resource `{0}` has neither `storage`, `stored-as` nor `unstored`")]
    NoStorage(String),
    #[error("`{0}` is not selectable where this resource is stored")]
    UnknownSelectable(String),
    #[error("too many entries for the catalogue's index")]
    TooMany,
}

/// `schema` may have types already that those of the files refer to.
pub(crate) fn parse(files: &[(&str, &'static str)], mut schema: Schema) -> Result<Catalog, CatalogError> {
    // Types refer to types of later lines and files, so all names are taken before any field is read.
    let lines: Vec<Line> = lines(files).collect();
    for line in &lines {
        if line.opens("type") {
            types::declare(&mut schema, line)?;
        }
    }

    let mut block = Block::None;
    let mut draft = resources::Draft::default();
    for line in &lines {
        if !line.indented {
            block = match line.word() {
                Some("type") => Block::Type(types::open(&schema, line)?),
                Some("resource") => Block::Resource(draft.open(&schema, line)?),
                Some("internal") => {
                    draft.keep_only(&schema, line)?;
                    Block::None
                }
                other => return Err(line.error(Problem::UnknownBlock(other.unwrap_or_default().into()))),
            };
            continue;
        }
        match block {
            Block::None => return Err(line.error(Problem::OutsideBlock)),
            Block::Type(id) => types::field(&mut schema, id, line)?,
            Block::Resource(id) => draft.add(&schema, id, line)?,
        }
    }
    types::finish(&mut schema);
    let schema = Types::new(schema);
    let (resources, storages) = draft.finish(&schema)?;
    let next = (ResourceId(resources.len() as u32), StorageId(storages.len() as u32));
    let (groups, index) = Default::default();
    let built_in = resources.len();
    let mut catalog = Catalog { resources, storages, schema, groups, index, next, generation: 0, built_in };
    catalog.index_again();
    Ok(catalog)
}

/// The block that indented lines add to.
enum Block {
    None,
    Type(TypeId),
    Resource(ResourceId),
}

/// `GROUP/VERSION` with `core` for the core group.
fn group_version(line: &Line, word: &'static str) -> Result<(Name, Name), CatalogError> {
    match word.split_once('/') {
        Some((group, version)) if !version.is_empty() => Ok((group_name(group), Name::Static(version))),
        _ => Err(line.unexpected(word, "GROUP/VERSION")),
    }
}

fn group_name(word: &'static str) -> Name {
    if word == "core" { Name::EMPTY } else { Name::Static(word) }
}

/// Resources that are stored, by group, version and plural, while the catalogue is drawn up.
type StoredAs = HashMap<(Name, Name, Name), StorageId>;
