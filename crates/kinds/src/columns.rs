//! What `kubectl get` shows of each kind: the columns of its Table and the cells of an object.
//!
//! ```text
//! Kind ─ printer(version) ─> Printer ─┬─ columns ─ write_definitions ─> columnDefinitions
//!   object (storage version) + now ───┴─ cells ─── write_cells ───────> rows[].cells
//! ```
//!
//! A kind's printer is in its folder; a kind without one shows its name and when it was created, as upstream's
//! default does. Cells are always the wide ones: a client hides columns of priority 1 by itself.

mod duration;
pub(crate) mod row;
pub(crate) mod selector;
pub(crate) mod volume;
pub(crate) mod workload;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use codec::json::write_string;
use object::Value;

pub use duration::{age, human_duration};
use row::{Row, seconds_of};

/// One column of a Table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column<'a> {
    pub name: &'a str,
    /// `string`, `integer`, `number`, `boolean` or `date`: the `type` of the column definition.
    pub kind: &'a str,
    pub format: &'a str,
    pub description: &'a str,
    /// 0: always shown; others: only with `-o wide`.
    pub priority: i32,
}

/// One value of a row. A cell's type is not always its column's: upstream has numbers in string columns.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Str(String),
    Int(i64),
    Float(f64),
    Bool(bool),
    Null,
}

/// How objects of one kind are shown. Look it up once per request, not per row.
pub trait Printer: Send + Sync {
    /// Borrowed by printers of built-in kinds; a printer made at run time puts them together from what it owns.
    fn columns(&self) -> Cow<'_, [Column<'_>]>;

    /// Appends the cells of an object, one for each column. The object is in its storage version, whatever version
    /// the client asked through: upstream prints its internal version, which ours comes nearest to.
    fn cells(&self, object: &Value, now: i64, out: &mut Vec<Cell>);

    /// The row's `conditions` as JSON: kubectl dims pods that have ended.
    fn conditions(&self, _object: &Value) -> Option<&'static str> {
        None
    }

    /// The kind shows nothing but its name and when it was created.
    fn is_generic(&self) -> bool {
        false
    }

    /// Rows of a list come sorted by this number before their name; `None`: by name alone.
    fn order(&self) -> Option<fn(&Value) -> i64> {
        None
    }
}

/// The printer of kinds without columns of their own.
pub fn generic_printer() -> &'static dyn Printer {
    &GENERIC
}

/// The printer of the `scale` subresource.
pub fn scale_printer() -> &'static dyn Printer {
    &crate::scale::columns::PRINTER
}

/// `["web-0","1/1",3]` without the brackets.
pub fn write_cells(cells: &[Cell], out: &mut Vec<u8>) {
    for (i, cell) in cells.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        match cell {
            Cell::Str(text) => write_string(text, out),
            Cell::Int(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Cell::Float(number) => codec::json::write(&Value::Float(*number), out),
            Cell::Bool(flag) => out.extend_from_slice(if *flag { b"true" } else { b"false" }),
            Cell::Null => out.extend_from_slice(b"null"),
        }
    }
}

/// The `columnDefinitions` of a Table, brackets and all.
pub fn write_definitions(columns: &[Column<'_>], out: &mut Vec<u8>) {
    out.push(b'[');
    for (i, column) in columns.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        for (before, text) in [
            ("{\"name\":", column.name),
            (",\"type\":", column.kind),
            (",\"format\":", column.format),
            (",\"description\":", column.description),
        ] {
            out.extend_from_slice(before.as_bytes());
            write_string(text, out);
        }
        out.extend_from_slice(format!(",\"priority\":{}}}", column.priority).as_bytes());
    }
    out.push(b']');
}

/// The printer of a built-in kind.
#[derive(Debug)]
pub(crate) struct StaticPrinter {
    columns: &'static [Column<'static>],
    cells: fn(&Row<'_>, &mut Vec<Cell>),
    conditions: fn(&Value) -> Option<&'static str>,
    order: Option<fn(&Value) -> i64>,
}

/// Of kinds without columns of their own.
pub(crate) static GENERIC: StaticPrinter =
    StaticPrinter::new(&[Column::NAME, Column::CREATED], |row, out| {
        let created = seconds_of(row.at(&["metadata", "creationTimestamp"]));
        let created = created.unwrap_or(object::time::ZERO_SECONDS);
        out.extend([row.name(), object::time::format_seconds(created).into()]);
    });

/// Of kinds that show no more than their age.
pub(crate) static NAME_AND_AGE: StaticPrinter =
    StaticPrinter::new(&[Column::NAME, Column::AGE], |row, out| out.extend([row.name(), row.age()]));

impl StaticPrinter {
    pub(crate) const fn new(
        columns: &'static [Column<'static>],
        cells: fn(&Row<'_>, &mut Vec<Cell>),
    ) -> StaticPrinter {
        StaticPrinter { columns, cells, conditions: |_| None, order: None }
    }
    pub(crate) const fn with_conditions(
        self,
        conditions: fn(&Value) -> Option<&'static str>,
    ) -> StaticPrinter {
        StaticPrinter { conditions, ..self }
    }
    pub(crate) const fn with_order(self, order: fn(&Value) -> i64) -> StaticPrinter {
        StaticPrinter { order: Some(order), ..self }
    }
}

impl Printer for StaticPrinter {
    fn columns(&self) -> Cow<'_, [Column<'_>]> {
        Cow::Borrowed(self.columns)
    }
    fn cells(&self, object: &Value, now: i64, out: &mut Vec<Cell>) {
        (self.cells)(&Row { object, now }, out);
    }
    fn conditions(&self, object: &Value) -> Option<&'static str> {
        (self.conditions)(object)
    }
    fn is_generic(&self) -> bool {
        self.columns.contains(&Column::CREATED)
    }
    fn order(&self) -> Option<fn(&Value) -> i64> {
        self.order
    }
}

impl Column<'static> {
    pub const NAME: Column<'static> =
        Column { format: "name", ..Column::text("Name", "Name of the object.") };
    pub const AGE: Column<'static> = Column::text("Age", "Time since the object was created.");
    pub(crate) const CREATED: Column<'static> =
        Column { kind: "date", ..Column::text("Created At", "When the object was created.") };
    pub(crate) const CONTAINERS: Column<'static> =
        Column::text("Containers", "Names of the template's containers.").wide();
    pub(crate) const IMAGES: Column<'static> =
        Column::text("Images", "Images of the template's containers.").wide();
    pub(crate) const SELECTOR: Column<'static> =
        Column::text("Selector", "Labels of the pods that belong to the object.").wide();

    pub(crate) const fn text(name: &'static str, description: &'static str) -> Column<'static> {
        Column { name, kind: "string", format: "", description, priority: 0 }
    }
    pub(crate) const fn integer(name: &'static str, description: &'static str) -> Column<'static> {
        Column { kind: "integer", ..Column::text(name, description) }
    }
    pub(crate) const fn boolean(name: &'static str, description: &'static str) -> Column<'static> {
        Column { kind: "boolean", ..Column::text(name, description) }
    }
    pub(crate) const fn wide(self) -> Column<'static> {
        Column { priority: 1, ..self }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Str(text.to_owned())
    }
}
impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Str(text)
    }
}
impl From<i64> for Cell {
    fn from(number: i64) -> Cell {
        Cell::Int(number)
    }
}
impl From<bool> for Cell {
    fn from(flag: bool) -> Cell {
        Cell::Bool(flag)
    }
}
