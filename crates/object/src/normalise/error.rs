//! A value of the wrong type and its path, worded as Go's decoder.

use catalog::{Schema, Shape, StructType};
use thiserror::Error;

use super::go_names;
use crate::quantity::QuantityError;
use crate::time::{DurationError, TimeError};

/// Why a tree does not match its type. Clients see these messages after `X in version "v1" cannot be handled as a X: `.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TypeError {
    /// `found` is Go's word for the value (`array`, `number 5000000000`), `target` what it names as the target.
    #[error("json: cannot unmarshal {found} into Go {target} of type {wanted}")]
    Unmarshal { found: String, target: String, wanted: String },
    #[error("illegal base64 data at input byte {0}")]
    Base64(usize),
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    #[error(transparent)]
    Time(#[from] TimeError),
    #[error(transparent)]
    Duration(#[from] DurationError),
    #[error("exceeded max depth")]
    TooDeep,
}

impl TypeError {
    pub(super) fn unmarshal(found: String, here: &FieldPath<'_>, wanted: String) -> TypeError {
        TypeError::Unmarshal { found, target: here.go_target(), wanted }
    }
}

/// The path from the root to a value, kept on the stack; formatted only in an error.
pub(super) struct FieldPath<'p> {
    pub parent: Option<&'p FieldPath<'p>>,
    pub element: PathElement<'p>,
}

pub(super) enum PathElement<'p> {
    Root,
    Field(&'p StructType, &'p str),
    Key(&'p str),
    Index(usize),
}

impl FieldPath<'_> {
    pub const ROOT: FieldPath<'static> = FieldPath { parent: None, element: PathElement::Root };

    fn elements(&self) -> Vec<&PathElement<'_>> {
        let mut elements: Vec<_> =
            std::iter::successors(Some(self), |path| path.parent).map(|path| &path.element).collect();
        elements.reverse();
        elements
    }

    /// `spec.containers[0].name`, with one more name at its end.
    pub fn path_to(&self, name: &str) -> String {
        let mut out = String::new();
        for step in self.elements() {
            match step {
                PathElement::Root => {}
                PathElement::Index(i) => out.push_str(&format!("[{i}]")),
                PathElement::Field(_, name) | PathElement::Key(name) => push_name(&mut out, name),
            }
        }
        push_name(&mut out, name);
        out
    }

    /// `struct field Container.spec.containers.name`: the struct next to the value, then all field names from the root.
    fn go_target(&self) -> String {
        let mut holder = None;
        let mut path = String::new();
        for step in self.elements() {
            if let PathElement::Field(ty, name) = step {
                // Of a custom resource only the metadata is decoded into a Go type, by itself.
                if ty.open {
                    continue;
                }
                holder = Some(&ty.short);
                if ty.gvk.is_some() && matches!(*name, "kind" | "apiVersion") {
                    push_name(&mut path, "TypeMeta");
                }
                for embedded in go_names::embedded_in(&ty.short, name) {
                    push_name(&mut path, embedded);
                }
                push_name(&mut path, name);
            }
        }
        match holder {
            Some(holder) => format!("struct field {holder}.{path}"),
            None => "value".to_owned(),
        }
    }
}

fn push_name(out: &mut String, name: &str) {
    if !out.is_empty() {
        out.push('.');
    }
    out.push_str(name);
}

/// The Go type that holds a shape, when it has no name of its own.
pub(super) fn go_type(schema: &Schema, shape: &Shape) -> String {
    match shape {
        Shape::Struct(id) => schema.get(*id).go_name.to_string(),
        Shape::List(inner) => format!("[]{}", go_type(schema, inner)),
        Shape::Map(inner) => format!("map[string]{}", go_type(schema, inner)),
        Shape::Bool => "bool".to_owned(),
        Shape::Int32 => "int32".to_owned(),
        Shape::Int64 => "int64".to_owned(),
        Shape::Float64 => "float64".to_owned(),
        Shape::Bytes => "[]uint8".to_owned(),
        Shape::Quantity => "resource.Quantity".to_owned(),
        Shape::IntOrString => "intstr.IntOrString".to_owned(),
        Shape::Time => "v1.Time".to_owned(),
        Shape::MicroTime => "v1.MicroTime".to_owned(),
        Shape::Duration => "v1.Duration".to_owned(),
        Shape::String => "string".to_owned(),
        Shape::Any => "runtime.RawExtension".to_owned(),
    }
}
