//! Lists: of the expression, of the object, and mixtures.

use std::sync::Arc;

use crate::error::Error;
use crate::schema::{ListKind, Schema, Shape};
use crate::value::Val;

#[derive(Clone, Debug)]
pub enum List<'a> {
    /// Made by the expression.
    Owned(Arc<Vec<Val<'a>>>),
    /// A list of the object. Without a schema its elements are what JSON makes of them.
    View { items: &'a [object::Value], schema: Option<&'a dyn Schema> },
    /// A list of the object after `+`: it keeps the schema, which says what `==` and `+` mean.
    Merged { items: Arc<Vec<Val<'a>>>, schema: &'a dyn Schema },
}

impl<'a> List<'a> {
    pub fn len(&self) -> usize {
        match self {
            List::Owned(items) | List::Merged { items, .. } => items.len(),
            List::View { items, .. } => items.len(),
        }
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// An element. Reading one of the object fails if it does not fit its schema.
    pub fn get(&self, index: usize) -> Option<Result<Val<'a>, Error>> {
        match self {
            List::Owned(items) | List::Merged { items, .. } => items.get(index).cloned().map(Ok),
            List::View { items, schema } => {
                let item = items.get(index)?;
                Some(match schema.map(Schema::shape) {
                    Some(Shape::List(element, _)) => Val::view(item, element),
                    _ => Ok(Val::dynamic(item)),
                })
            }
        }
    }
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Result<Val<'a>, Error>> + '_ {
        (0..self.len()).map(|i| self.get(i).unwrap_or(Ok(Val::Null)))
    }
    /// All elements.
    pub fn to_vec(&self) -> Result<Vec<Val<'a>>, Error> {
        self.iter().collect()
    }
    pub(crate) fn kind(&self) -> Option<(&'a dyn Schema, ListKind<'a>)> {
        let schema: &'a dyn Schema = match self {
            List::Owned(_) => return None,
            List::View { schema, .. } => (*schema)?,
            List::Merged { schema, .. } => *schema,
        };
        match schema.shape() {
            Shape::List(_, kind) => Some((schema, kind)),
            _ => None,
        }
    }
}
