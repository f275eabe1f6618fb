//! Columns against the recorded ones, cells against tables of cases, and sweeps over every kind.

use catalog::{Catalog, Field, Resource, Schema, Shape, TypeId, Verbs};
use object::Value;

use super::{Cell, Column, Printer, human_duration, write_cells, write_definitions};
use crate::kind_of_resource;
use crate::tests::{NOW, NOW_TEXT, json};

/// What upstream v1.36.4 answered.
const COLUMNS: &str = include_str!("../../tests/golden/columns.tsv");
/// One case a line: an object and the cells upstream's printers make of it at [`NOW`].
const CELLS: &str = include_str!("../../tests/golden/cells.jsonl");
/// The same for objects made at random, which upstream's printers were given by hand.
const RANDOM_CELLS: &str = include_str!("../../tests/golden/cells_random.jsonl");

fn golden_columns() -> impl Iterator<Item = (&'static str, &'static str, &'static str, &'static str)> {
    COLUMNS.lines().filter(|l| !l.starts_with('#')).map(|line| {
        let parts: Vec<&str> = line.split('\t').collect();
        let [group, version, plural, columns] = parts[..] else { panic!("four columns: {line}") };
        (if group == "core" { "" } else { group }, version, plural, columns)
    })
}

fn column_text(column: &Column<'_>) -> String {
    let format = if column.format.is_empty() { String::new() } else { format!(":{}", column.format) };
    format!("{}:{}{format}:{}", column.name, column.kind, column.priority)
}

fn printer(resource: &Resource) -> &dyn Printer {
    kind_of_resource(resource).printer(&resource.version)
}

fn row_of(printer: &dyn Printer, object: &Value) -> Vec<Cell> {
    let mut out = Vec::new();
    printer.cells(object, NOW, &mut out);
    out
}

fn cells_text(cells: &[Cell]) -> String {
    let mut out = Vec::new();
    write_cells(cells, &mut out);
    format!("[{}]", String::from_utf8(out).expect("JSON is text"))
}

#[test]
fn columns_of_every_kind_are_upstreams() {
    let catalog = Catalog::builtin();
    let mut seen = 0;
    for (group, version, plural, expected) in golden_columns() {
        let resource = catalog.find(group, version, plural).unwrap_or_else(|| panic!("no {group}/{plural}"));
        let ours: Vec<String> = printer(resource).columns().iter().map(column_text).collect();
        assert_eq!(ours.join(" | "), expected, "{group}/{plural}");
        seen += 1;
    }
    let listed = catalog.resources().iter().filter(|r| r.verbs.contains(Verbs::LIST)).count();
    assert_eq!(seen, listed, "every kind that can be listed is in columns.tsv");
}

#[test]
fn every_column_has_a_one_sentence_description() {
    let catalog = Catalog::builtin();
    for resource in catalog.resources() {
        for Column { name, description, .. } in printer(resource).columns().iter() {
            let dots = description.matches('.').count();
            assert!(description.ends_with('.') && dots == 1, "{}: {name}: {description}", resource.plural);
        }
    }
}

#[test]
fn cells_are_upstreams() {
    let catalog = Catalog::builtin();
    let mut shown = Vec::new();
    for line in CELLS.lines().chain(RANDOM_CELLS.lines()) {
        let case = json(line);
        let fact = case.str_at(&["fact"]).expect("a case has a fact");
        let name = case.str_at(&["resource"]).expect("a case has a resource");
        let (group, plural) = name.split_once('/').unwrap_or(("", name));
        let mut resources = catalog.resources().iter();
        let resource = resources
            .find(|r| r.group == *group && r.plural == *plural)
            .unwrap_or_else(|| panic!("no {name}"));
        let object = case.get("object").expect("a case has an object");
        let expected = String::from_utf8(codec::json::to_vec(&case.get("cells").cloned().expect("cells")));
        let printer = printer(resource);
        let ours = row_of(printer, object);
        assert_eq!(cells_text(&ours), expected.expect("JSON is text"), "{name}: {fact}");
        assert_eq!(ours.len(), cell_count(printer, resource), "{name}: {fact}");
        let conditions = printer.conditions(object).map(json);
        let reason = conditions.as_ref().and_then(|c| c.as_list()?.first()?.str_at(&["reason"]));
        assert_eq!(reason, case.str_at(&["completed"]), "{name}: {fact}");
        shown.push((group.to_owned(), plural.to_owned()));
    }
    for (group, _, plural, _) in golden_columns() {
        let has = shown.iter().any(|(g, p)| g == group && p == plural);
        assert!(has, "no case for {group}/{plural}");
    }
}

#[test]
fn durations_have_two_or_three_figures() {
    const M: i64 = 60;
    const H: i64 = 60 * M;
    const D: i64 = 24 * H;
    const Y: i64 = 365 * D;
    for (seconds, expected) in [
        (i64::MIN, "<invalid>"),
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (1, "1s"),
        (119, "119s"),
        (2 * M, "2m"),
        (2 * M + 1, "2m1s"),
        (10 * M - 1, "9m59s"),
        (10 * M, "10m"),
        (10 * M + 59, "10m"),
        (3 * H - 1, "179m"),
        (3 * H, "3h"),
        (3 * H + 59, "3h"),
        (3 * H + M, "3h1m"),
        (8 * H - 1, "7h59m"),
        (8 * H, "8h"),
        (2 * D - 1, "47h"),
        (2 * D, "2d"),
        (2 * D + H - 1, "2d"),
        (2 * D + H, "2d1h"),
        (8 * D - 1, "7d23h"),
        (8 * D, "8d"),
        (2 * Y - 1, "729d"),
        (2 * Y, "2y"),
        (2 * Y + D - 1, "2y"),
        (2 * Y + D, "2y1d"),
        (8 * Y - 1, "7y364d"),
        (8 * Y, "8y"),
        (100 * Y, "100y"),
    ] {
        assert_eq!(human_duration(seconds), expected, "{seconds}");
    }
    // Neither end of the range overflows.
    assert!(human_duration(i64::MAX).ends_with('y'));
}

#[test]
fn flow_schemas_come_in_the_order_they_are_tried() {
    let catalog = Catalog::builtin();
    for resource in catalog.resources() {
        let order = printer(resource).order();
        assert_eq!(order.is_some(), resource.plural == *"flowschemas", "{}", resource.plural);
        if let Some(order) = order {
            assert_eq!(order(&json(r#"{"spec":{"matchingPrecedence":500}}"#)), 500);
        }
    }
}

#[test]
fn definitions_and_cells_are_written_as_json() {
    let mut out = Vec::new();
    write_definitions(&[Column::NAME, Column::integer("A \"b\"", "C.").wide()], &mut out);
    assert_eq!(
        String::from_utf8(out).expect("JSON is text"),
        r#"[{"name":"Name","type":"string","format":"name","description":"Name of the object.","priority":0},{"name":"A \"b\"","type":"integer","format":"","description":"C.","priority":1}]"#
    );
    let cells = [Cell::Str("a\"b".into()), Cell::Int(-3), Cell::Bool(true), Cell::Bool(false), Cell::Null];
    assert_eq!(cells_text(&cells), r#"["a\"b",-3,true,false,null]"#);
}

/// One for each column; upstream shows the age of addresses too, without a column for it.
fn cell_count(printer: &dyn Printer, resource: &Resource) -> usize {
    printer.columns().len() + usize::from(resource.plural == "ipaddresses")
}

#[test]
fn every_kind_has_a_cell_for_each_column() {
    let catalog = Catalog::builtin();
    for resource in catalog.resources() {
        let full = full(catalog.schema(), resource.ty, 12);
        for object in [Value::Null, Value::map(), full] {
            let printer = printer(resource);
            let count = row_of(printer, &object).len();
            assert_eq!(count, cell_count(printer, resource), "{} of {object:?}", resource.plural);
        }
    }
}

/// Trees that no normaliser would let pass: every kind reads what it knows and takes the rest for absent.
#[test]
fn no_tree_makes_a_printer_panic() {
    let catalog = Catalog::builtin();
    for seed in 0..60u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for resource in catalog.resources() {
            let mut tree = full(catalog.schema(), resource.ty, 12);
            let changes = 1 + random.below(60);
            for _ in 0..changes {
                disturb(&mut tree, &mut random);
            }
            let now = [NOW, 0, i64::MIN, i64::MAX][random.below(4)];
            let mut out = Vec::new();
            println!("seed {seed} {}", resource.plural);
            let printer = printer(resource);
            printer.cells(&tree, now, &mut out);
            assert_eq!(out.len(), cell_count(printer, resource));
            if let Some(order) = printer.order() {
                order(&tree);
            }
            printer.conditions(&tree);
        }
    }
}

/// A value of a type with every field there, twice in lists.
fn full(schema: &Schema, ty: TypeId, depth: usize) -> Value {
    let fields = schema.get(ty).fields.iter();
    Value::Map(fields.map(|f: &Field| (f.name.clone(), of_shape(schema, &f.shape, depth))).collect())
}

fn of_shape(schema: &Schema, shape: &Shape, depth: usize) -> Value {
    if depth == 0 {
        return Value::Null;
    }
    match shape {
        Shape::Struct(ty) => full(schema, *ty, depth - 1),
        // Wide types nest deeply (schemas within schemas): only the upper levels are doubled.
        Shape::List(inner) => {
            let item = of_shape(schema, inner, depth.min(7) - 1);
            Value::List(if depth > 9 { vec![item.clone(), item] } else { vec![item] })
        }
        Shape::Map(inner) => {
            Value::Map([("k".into(), of_shape(schema, inner, depth.min(7) - 1))].into_iter().collect())
        }
        Shape::Bool => Value::Bool(true),
        Shape::Int32 | Shape::Int64 | Shape::IntOrString => Value::Int(3),
        Shape::Float64 => Value::Float(1.5),
        Shape::Time | Shape::MicroTime => Value::from(NOW_TEXT),
        Shape::Duration => Value::from("1s"),
        Shape::Quantity => Value::from("2Gi"),
        Shape::String | Shape::Bytes => Value::from("text"),
        Shape::Any => Value::map(),
    }
}

/// xorshift64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
    fn value(&mut self) -> Value {
        match self.below(12) {
            0 => Value::Null,
            1 => Value::Bool(self.below(2) == 0),
            2 => Value::Int(i64::MAX),
            3 => Value::Int(i64::MIN),
            4 => Value::Float(-0.5),
            5 => Value::from(["", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "ü€ \u{0}"][self.below(4)]),
            6 => Value::from(["True", "Ready", "Always", "Completed", "LoadBalancer", "In"][self.below(6)]),
            7 => Value::List(Vec::new()),
            8 => Value::List((0..5).map(|_| self.value()).collect()),
            9 => Value::map(),
            10 => Value::from(NOW_TEXT),
            _ => Value::Int(0),
        }
    }
}

/// Replaces, drops or doubles something somewhere in the tree.
fn disturb(tree: &mut Value, random: &mut Random) {
    let deeper = random.below(6) != 0;
    match tree {
        Value::Map(map) if deeper && !map.is_empty() => {
            let at = random.below(map.len());
            let (_, value) = &mut map.entries_mut()[at];
            disturb(value, random);
        }
        Value::List(items) if deeper && !items.is_empty() => {
            let at = random.below(items.len());
            if random.below(4) == 0 {
                let again = items[at].clone();
                items.push(again);
            } else {
                disturb(&mut items[at], random);
            }
        }
        _ => *tree = random.value(),
    }
}
