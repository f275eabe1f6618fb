//! The columns of custom resources: what `additionalPrinterColumns` say, evaluated for each object.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use kinds::columns::{Cell, Column, Printer, age};
use object::{Value, time};

use jsonpath::JsonPath;

/// The printer of one version.
#[derive(Debug)]
pub struct Columns {
    columns: Vec<OwnColumn>,
}

#[derive(Debug)]
struct OwnColumn {
    name: String,
    kind: String,
    format: String,
    description: String,
    priority: i32,
    path: JsonPath,
}

impl Columns {
    /// Of an entry of `spec.versions`. A column whose path is not valid ends the list: upstream shows those before it.
    pub fn of_version(version: &Value) -> Columns {
        let given = version.get("additionalPrinterColumns").and_then(Value::as_list).unwrap_or_default();
        if given.is_empty() {
            return Columns { columns: OwnColumn::age().into_iter().collect() };
        }
        Columns { columns: given.iter().map_while(OwnColumn::of).collect() }
    }

    /// Of the Scale objects of an entry of `spec.versions`.
    pub fn of_scale() -> Columns {
        let columns = [
            OwnColumn::new("Desired", "integer", "Number of desired replicas", ".spec.replicas"),
            OwnColumn::new("Available", "integer", "Number of actual replicas", ".status.replicas"),
            OwnColumn::age(),
        ];
        Columns { columns: columns.into_iter().flatten().collect() }
    }
}

impl Printer for Columns {
    fn columns(&self) -> Cow<'_, [Column<'_>]> {
        let own = self.columns.iter().map(|own| Column {
            name: &own.name,
            kind: &own.kind,
            format: &own.format,
            description: &own.description,
            priority: own.priority,
        });
        Cow::Owned(std::iter::once(Column::NAME).chain(own).collect())
    }

    fn cells(&self, object: &Value, now: i64, out: &mut Vec<Cell>) {
        out.push(object.str_at(&["metadata", "name"]).unwrap_or_default().into());
        out.extend(self.columns.iter().map(|column| {
            let found = column.path.find(object);
            // Upstream shows the first of several results.
            let first = found.and_then(|values| values.first().copied());
            first.map_or(Cell::Null, |value| cell(&column.kind, value, now))
        }));
    }
}

impl OwnColumn {
    fn of(definition: &Value) -> Option<OwnColumn> {
        let text = |name| definition.get(name).and_then(Value::as_str).unwrap_or_default();
        let path = text("jsonPath");
        let shown = format!("Custom resource definition column (in JSONPath format): {path}");
        let description = Some(text("description")).filter(|text| !text.is_empty());
        let priority = definition.get("priority").and_then(Value::as_int);
        Some(OwnColumn {
            format: text("format").to_owned(),
            priority: priority.and_then(|n| i32::try_from(n).ok()).unwrap_or(0),
            ..OwnColumn::new(text("name"), text("type"), description.unwrap_or(&shown), path)?
        })
    }

    fn new(name: &str, kind: &str, description: &str, path: &str) -> Option<OwnColumn> {
        Some(OwnColumn {
            name: name.to_owned(),
            kind: kind.to_owned(),
            format: String::new(),
            description: description.to_owned(),
            priority: 0,
            path: JsonPath::parse(path).ok()?,
        })
    }

    fn age() -> Option<OwnColumn> {
        OwnColumn::new("Age", "date", Column::AGE.description, ".metadata.creationTimestamp")
    }
}

/// A value in a column of this type; what has another type is not shown, but anything is in a column of strings.
fn cell(kind: &str, value: &Value, now: i64) -> Cell {
    match (kind, value) {
        ("string", value) => Cell::Str(text(value)),
        ("integer", Value::Int(n)) => Cell::Int(*n),
        // What does not fit is what amd64 makes of it.
        ("integer", Value::Float(f)) if (-9.2e18..9.2e18).contains(f) => Cell::Int(*f as i64),
        ("integer", Value::Float(_)) => Cell::Int(i64::MIN),
        ("number", Value::Int(n)) => Cell::Float(*n as f64),
        ("number", Value::Float(f)) => Cell::Float(*f),
        ("boolean", Value::Bool(b)) => Cell::Bool(*b),
        ("date", Value::Str(text)) => Cell::Str(date(text, now)),
        _ => Cell::Null,
    }
}

fn date(text: &str, now: i64) -> String {
    match time::parse(text) {
        _ if text.is_empty() || text == "null" => "<unknown>".to_owned(),
        Some((time::ZERO_SECONDS, _)) => "<unknown>".to_owned(),
        Some((then, _)) => age(then, now),
        None => "<invalid>".to_owned(),
    }
}

/// What Go prints of a value; JSON of what has something inside.
fn text(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Int(n) => n.to_string(),
        Value::Float(f) => print_float(*f),
        Value::Str(text) => text.clone(),
        Value::List(_) | Value::Map(_) | Value::Raw(_) => {
            String::from_utf8(codec::json::to_vec(value)).unwrap_or_default()
        }
    }
}

/// Go's `%v`: an exponent, of two digits or more, below 1e-4 and from 1e21 on.
fn print_float(f: f64) -> String {
    if f == 0.0 || (1e-4..1e21).contains(&f.abs()) {
        return f.to_string();
    }
    let text = format!("{f:e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |e| ('-', e));
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => text,
    }
}
