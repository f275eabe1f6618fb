use kinds::columns::{Printer, write_cells, write_definitions};
use object::{Value, time};

use super::Columns;
use crate::tests::json;

fn version(columns: &[(&str, &str)]) -> Value {
    let columns: Vec<String> = columns
        .iter()
        .map(|(kind, path)| format!(r#"{{"name":"C","type":"{kind}","jsonPath":"{path}"}}"#))
        .collect();
    json(&format!(r#"{{"name":"v1","additionalPrinterColumns":[{}]}}"#, columns.join(",")))
}

fn row(columns: &Columns, object: &Value) -> String {
    let (now, _) = time::parse("2026-01-02T00:00:00Z").expect("a time");
    let (mut cells, mut out) = (Vec::new(), Vec::new());
    columns.cells(object, now, &mut cells);
    write_cells(&cells, &mut out);
    String::from_utf8(out).expect("JSON is text")
}

fn definitions(columns: &Columns) -> String {
    let mut out = Vec::new();
    write_definitions(&columns.columns(), &mut out);
    String::from_utf8(out).expect("JSON is text")
}

#[test]
fn cells_are_made_by_type() {
    let object = json(
        r#"{"metadata":{"name":"n"},"a":{"int":7,"float":2.75,"small":0.00001,"large":1e30,"flag":true,"null":null,"text":"t",
           "map":{"k":"<v>"},"list":[1,"x"],"day":"2026-01-01T00:00:00Z","later":"2026-01-03T00:00:00Z","no":"tomorrow","empty":"",
           "zero":"0001-01-01T00:00:00Z"}}"#,
    );
    let fields = "int float small large flag null text map list day later no empty zero missing int[0] list[0,1] list[1]";
    for (kind, cells) in [
        (
            "string",
            r#""7","2.75","1e-05","1e+30","true","\u003cno value\u003e","t","{\"k\":\"\\u003cv\\u003e\"}","[1,\"x\"]","2026-01-01T00:00:00Z","2026-01-03T00:00:00Z","tomorrow","","0001-01-01T00:00:00Z",null,null,"1","x""#,
        ),
        (
            "integer",
            "7,2,0,-9223372036854775808,null,null,null,null,null,null,null,null,null,null,null,null,1,null",
        ),
        ("number", "7,2.75,0.00001,1e+30,null,null,null,null,null,null,null,null,null,null,null,null,1,null"),
        (
            "boolean",
            "null,null,null,null,true,null,null,null,null,null,null,null,null,null,null,null,null,null",
        ),
        (
            "date",
            r#"null,null,null,null,null,null,"\u003cinvalid\u003e",null,null,"24h","\u003cinvalid\u003e","\u003cinvalid\u003e","\u003cunknown\u003e","\u003cunknown\u003e",null,null,null,"\u003cinvalid\u003e""#,
        ),
        (
            "array",
            "null,null,null,null,null,null,null,null,null,null,null,null,null,null,null,null,null,null",
        ),
    ] {
        let paths: Vec<String> = fields.split(' ').map(|field| format!(".a.{field}")).collect();
        let columns: Vec<(&str, &str)> = paths.iter().map(|path| (kind, path.as_str())).collect();
        let columns = Columns::of_version(&version(&columns));
        assert_eq!(row(&columns, &object), format!("\"n\",{cells}"), "{kind}");
    }
}

#[test]
fn without_columns_the_age_is_shown() {
    let columns = Columns::of_version(&json(r#"{"name":"v1"}"#));
    let object = json(r#"{"metadata":{"name":"n","creationTimestamp":"2026-01-01T23:59:00Z"}}"#);
    assert_eq!(row(&columns, &object), r#""n","60s""#);
    let kinds: Vec<(String, String)> =
        columns.columns().iter().map(|c| (c.name.to_owned(), c.kind.to_owned())).collect();
    assert_eq!(kinds, [("Name".into(), "string".into()), ("Age".into(), "date".into())]);
    assert_eq!(row(&Columns::of_version(&version(&[("string", ".b")])), &object), r#""n",null"#);
}

#[test]
fn definitions_say_what_was_given_and_end_before_an_invalid_path() {
    let version = json(
        r#"{"additionalPrinterColumns":[{"name":"A","type":"integer","format":"int32","priority":-3,"jsonPath":".a","description":"D"},
            {"name":"B","type":"string","jsonPath":".b"},{"name":"Bad","type":"string","jsonPath":".c["},{"name":"D","type":"string","jsonPath":".d"}]}"#,
    );
    let text = definitions(&Columns::of_version(&version));
    let (_, own) = text.split_once("},").expect("the name comes first");
    assert_eq!(
        own,
        concat!(
            r#"{"name":"A","type":"integer","format":"int32","description":"D","priority":-3},"#,
            r#"{"name":"B","type":"string","format":"","description":"Custom resource definition column (in JSONPath format): .b","priority":0}]"#
        )
    );
}

#[test]
fn a_scale_shows_its_replicas() {
    let scale = json(r#"{"metadata":{"name":"n"},"spec":{"replicas":3},"status":{"replicas":2}}"#);
    assert_eq!(row(&Columns::of_scale(), &scale), r#""n",3,2,null"#);
}
