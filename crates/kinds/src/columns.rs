//! What `kubectl get` shows of each kind: the columns of its Table and the cells of an object.
//!
//! ```text
//! catalog::Resource ─ printer ─> Printer { columns, cells } ─┬─ write_definitions ─> columnDefinitions
//!                 object (storage version) + now ────────────┴─ cells ─ write_cells ─> rows[].cells
//! ```
//!
//! A kind is one row in [`list`]; a kind without a row shows its name and when it was created, as upstream's
//! default does. Cells are always the wide ones: a client hides columns of priority 1 by itself.

mod admissionregistration;
mod apps;
mod autoscaling;
mod batch;
mod certificates;
mod core;
mod duration;
mod endpoints;
mod event;
mod flowcontrol;
mod list;
mod networking;
mod node;
mod pod;
mod rbac;
mod resource;
mod row;
mod selector;
mod service;
mod single;
mod storage;
mod volume;

#[cfg(test)]
mod tests;

use catalog::Resource;
use codec::json::write_string;
use object::Value;

pub use duration::human_duration;
use row::Row;

/// One column of a Table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    /// `string`, `integer`, `boolean` or `date`: the `type` of the column definition.
    pub kind: &'static str,
    pub format: &'static str,
    pub description: &'static str,
    /// 0: always shown; 1: only with `-o wide`.
    pub priority: u8,
}

/// One value of a row. A cell's type is not always its column's: upstream has numbers in string columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    Str(String),
    Int(i64),
    Bool(bool),
    Null,
}

/// How one kind is shown.
#[derive(Debug)]
pub struct Printer {
    pub columns: &'static [Column],
    cells: fn(&Row<'_>, &mut Vec<Cell>),
    conditions: fn(&Value) -> Option<&'static str>,
    order: Option<fn(&Value) -> i64>,
}

/// The printer of a resource: look it up once per request, not per row.
pub fn printer(resource: &Resource) -> &'static Printer {
    list::find(&resource.group, &resource.plural)
}

/// Can the status of this resource be shown as a table? Upstream's storage of a few cannot.
pub fn status_has_table(resource: &Resource) -> bool {
    !list::WITHOUT_STATUS_TABLE.contains(&(&*resource.group, &*resource.plural))
}

/// The printer of the `scale` subresource: a kind of its own that no resource serves.
pub fn scale_printer() -> &'static Printer {
    &apps::SCALE
}

pub fn definitions(resource: &Resource) -> &'static [Column] {
    printer(resource).columns
}

/// Appends the cells of an object, one for each column. The object is in its storage version, whatever version
/// the client asked through: upstream prints its internal version, which ours comes nearest to.
pub fn cells(resource: &Resource, object: &Value, now: i64, out: &mut Vec<Cell>) {
    printer(resource).cells(object, now, out);
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
            Cell::Bool(flag) => out.extend_from_slice(if *flag { b"true" } else { b"false" }),
            Cell::Null => out.extend_from_slice(b"null"),
        }
    }
}

/// The `columnDefinitions` of a Table, brackets and all.
pub fn write_definitions(columns: &[Column], out: &mut Vec<u8>) {
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

impl Printer {
    const fn new(columns: &'static [Column], cells: fn(&Row<'_>, &mut Vec<Cell>)) -> Printer {
        Printer { columns, cells, conditions: |_| None, order: None }
    }
    const fn with_conditions(self, conditions: fn(&Value) -> Option<&'static str>) -> Printer {
        Printer { conditions, ..self }
    }
    const fn with_order(self, order: fn(&Value) -> i64) -> Printer {
        Printer { order: Some(order), ..self }
    }

    /// As [`cells`].
    pub fn cells(&self, object: &Value, now: i64, out: &mut Vec<Cell>) {
        (self.cells)(&Row { object, now }, out);
    }

    /// The row's `conditions` as JSON: kubectl dims pods that have ended.
    pub fn conditions(&self, object: &Value) -> Option<&'static str> {
        (self.conditions)(object)
    }

    /// The kind shows nothing but its name and birth.
    pub fn is_generic(&self) -> bool {
        self.columns.iter().any(|column| column.name == Column::CREATED.name)
    }

    /// Rows of a list come sorted by this number before their name; `None`: by name alone.
    pub fn order(&self) -> Option<fn(&Value) -> i64> {
        self.order
    }
}

impl Column {
    const NAME: Column = Column { format: "name", ..Column::text("Name", "Name of the object.") };
    const AGE: Column = Column::text("Age", "Time since the object was created.");
    const CREATED: Column =
        Column { kind: "date", ..Column::text("Created At", "When the object was created.") };
    const CONTAINERS: Column = Column::text("Containers", "Names of the template's containers.").wide();
    const IMAGES: Column = Column::text("Images", "Images of the template's containers.").wide();
    const SELECTOR: Column = Column::text("Selector", "Labels of the pods that belong to the object.").wide();

    const fn text(name: &'static str, description: &'static str) -> Column {
        Column { name, kind: "string", format: "", description, priority: 0 }
    }
    const fn integer(name: &'static str, description: &'static str) -> Column {
        Column { kind: "integer", ..Column::text(name, description) }
    }
    const fn boolean(name: &'static str, description: &'static str) -> Column {
        Column { kind: "boolean", ..Column::text(name, description) }
    }
    const fn wide(self) -> Column {
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
