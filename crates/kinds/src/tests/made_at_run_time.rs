//! A kind that no row lists and the compiler does not know: what a custom resource definition will make.

use std::borrow::Cow;
use std::sync::Arc;

use catalog::{Catalog, Name};
use object::{Map, Value};

use super::{NOW, json, lines, storage, text};
use crate::columns::{Cell, Column, Printer, write_definitions};
use crate::{
    Context, Defaults, FieldPath, Generation, Kind, Rules, ScalePaths, ScaleSelector, StatusMeta,
    apply_scale, defaults, drop_disabled, prepare_create, prepare_update, to_scale, validate_create,
    warnings,
};

/// Everything in it is owned.
struct Made {
    rules: Rules,
    defaults: Box<Defaults>,
    printer: OneColumn,
    scale: ScalePaths,
}

struct OneColumn {
    name: String,
    path: Vec<String>,
}

impl Kind for Made {
    fn rules(&self) -> &Rules {
        &self.rules
    }
    fn defaults(&self, version: &str) -> Option<&Defaults> {
        (version == "v1").then_some(&*self.defaults)
    }
    fn printer(&self, _version: &str) -> &dyn Printer {
        &self.printer
    }
    fn scale_paths(&self, version: &str) -> Option<&ScalePaths> {
        (version == "v1").then_some(&self.scale)
    }
}

impl Printer for OneColumn {
    fn columns(&self) -> Cow<'_, [Column<'_>]> {
        let column = Column { name: &self.name, kind: "string", format: "", description: "", priority: 0 };
        Cow::Owned(vec![column])
    }
    fn cells(&self, object: &Value, _now: i64, out: &mut Vec<Cell>) {
        let found = self.path.iter().try_fold(object, |here, name| here.get(name));
        out.push(found.and_then(Value::as_str).map_or(Cell::Null, Cell::from));
    }
}

fn path(names: &str) -> FieldPath {
    names.split('.').map(|name| Name::from(name.to_owned())).collect::<Vec<_>>().into()
}

fn made(column: &str, default_color: &str) -> Arc<dyn Kind> {
    let color = default_color.to_owned();
    Arc::new(Made {
        rules: Rules::PLAIN.with_generation(Generation::SPEC).with_status(StatusMeta::Free),
        defaults: Box::new(move |object: &mut Map| {
            if !object.contains("color") {
                object.set("color", color.clone());
            }
        }),
        printer: OneColumn { name: column.to_owned(), path: vec!["color".to_owned()] },
        scale: ScalePaths {
            spec_replicas: path("spec.size.pods"),
            status_replicas: path("status.pods"),
            selector: path("spec.selector"),
            selector_form: ScaleSelector::LabelSelector,
            required: None,
        },
    })
}

#[test]
fn a_kind_made_at_run_time_works_like_a_built_in_one() {
    let catalog = Catalog::builtin();
    let storage = storage(&catalog, "deployments");
    let kind = made("Color", "red");
    let ctx = Context::plain(storage, NOW);

    let mut new =
        json(r#"{"metadata":{"name":"w","namespace":"n","uid":"u"},"spec":{},"status":{"pods":9}}"#);
    defaults::apply(&*kind, "v2", &mut new);
    assert_eq!(new.get("color"), None, "defaults are those of the version");
    defaults::apply(&*kind, "v1", &mut new);
    drop_disabled(&*kind, &mut new, None);
    prepare_create(&*kind, &mut new, &ctx);
    assert_eq!(lines(&validate_create(&*kind, storage, &new, &ctx)), Vec::<String>::new());
    assert_eq!(warnings::of(&*kind, &new, None, &ctx), Vec::<String>::new());
    let wanted = r#"{"metadata":{"name":"w","namespace":"n","uid":"u","generation":1},"spec":{},"status":{},"color":"red"}"#;
    assert_eq!(text(&new), wanted);

    let paths = kind.scale_paths("v1").unwrap();
    assert!(kind.scale_paths("v2").is_none());
    let mut scale = to_scale(paths, &new).unwrap();
    scale.map_at(&["spec"]).set("replicas", 3i64);
    let mut scaled = new.clone();
    apply_scale(paths, storage, &mut scaled, &scale).unwrap();
    assert_eq!(text(scaled.get("spec").unwrap()), r#"{"size":{"pods":3}}"#);
    prepare_update(&*kind, &mut scaled, &new, &ctx);
    assert_eq!(scaled.at(&["metadata", "generation"]), Some(&Value::Int(2)));

    let (mut cells, mut definitions) = (Vec::new(), Vec::new());
    kind.printer("v1").cells(&new, NOW, &mut cells);
    write_definitions(&kind.printer("v1").columns(), &mut definitions);
    assert_eq!(cells, [Cell::from("red")]);
    let wanted = r#"[{"name":"Color","type":"string","format":"","description":"","priority":0}]"#;
    assert_eq!(String::from_utf8(definitions).unwrap(), wanted);
}
