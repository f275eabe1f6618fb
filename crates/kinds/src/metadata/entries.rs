//! Labels, annotations and managedFields.

use object::{FieldError, Value, quote, validate_text};

use super::meta;

/// All keys and values together.
const ANNOTATIONS_MAX_BYTES: usize = 256 * 1024;
const MANAGER_MAX_BYTES: usize = 128;
const SUBRESOURCE_MAX_BYTES: usize = 256;

pub(super) fn check_labels(new: &Value, errors: &mut Vec<FieldError>) {
    let Some(labels) = meta(new, "labels").and_then(Value::as_map) else { return };
    for (key, value) in labels.iter() {
        for problem in validate_text::qualified_name(key) {
            errors.push(FieldError::invalid("metadata.labels", quote(key), problem));
        }
        let value = value.as_str().unwrap_or_default();
        for problem in validate_text::label_value(value) {
            errors.push(FieldError::invalid("metadata.labels", quote(value), problem));
        }
    }
}

pub(super) fn check_annotations(new: &Value, errors: &mut Vec<FieldError>) {
    let Some(annotations) = meta(new, "annotations").and_then(Value::as_map) else { return };
    let mut bytes = 0;
    for (key, value) in annotations.iter() {
        bytes += key.len() + value.as_str().map_or(0, str::len);
        for problem in validate_text::qualified_name(&key.to_lowercase()) {
            errors.push(FieldError::invalid("metadata.annotations", quote(key), problem));
        }
    }
    if bytes > ANNOTATIONS_MAX_BYTES {
        errors.push(FieldError::too_long("metadata.annotations", ANNOTATIONS_MAX_BYTES));
    }
}

pub(super) fn check_managed_fields(new: &Value, errors: &mut Vec<FieldError>) {
    let entries = meta(new, "managedFields").and_then(Value::as_list).unwrap_or_default();
    for (i, entry) in entries.iter().enumerate() {
        let text = |member| entry.get(member).and_then(Value::as_str).unwrap_or_default();
        let field = |member| format!("metadata.managedFields[{i}].{member}");
        if !["Apply", "Update"].contains(&text("operation")) {
            let shown = quote(text("operation"));
            errors.push(FieldError::invalid(field("operation"), shown, "must be `Apply` or `Update`"));
        }
        if !["", "FieldsV1"].contains(&text("fieldsType")) {
            let shown = quote(text("fieldsType"));
            errors.push(FieldError::invalid(field("fieldsType"), shown, "must be `FieldsV1`"));
        }
        check_field_manager(text("manager"), &field("manager"), errors);
        if text("subresource").len() > SUBRESOURCE_MAX_BYTES {
            errors.push(FieldError::too_long(field("subresource"), SUBRESOURCE_MAX_BYTES));
        }
    }
}

/// A manager's name is short and printable.
pub(crate) fn check_field_manager(manager: &str, field: &str, errors: &mut Vec<FieldError>) {
    if manager.len() > MANAGER_MAX_BYTES {
        errors.push(FieldError::too_long(field, MANAGER_MAX_BYTES));
    }
    for (at, c) in manager.char_indices().filter(|(_, c)| !is_printable(*c)) {
        let detail = format!("invalid character U+{:04X} (at position {at})", c as u32);
        errors.push(FieldError::invalid(field, quote(manager), detail));
    }
}

/// Go's `unicode.IsPrint`, near enough: no controls, no space but the plain one, no invisible or private characters.
fn is_printable(c: char) -> bool {
    let invisible = matches!(c as u32,
        0xAD | 0x600..=0x605 | 0x61C | 0x6DD | 0x70F | 0x180E | 0x200B..=0x200F | 0x202A..=0x202E | 0x2060..=0x206F
        | 0xE000..=0xF8FF | 0xFEFF | 0xFFF0..=0xFFFB | 0xFFFE | 0xFFFF | 0xE0000..=0x10FFFF);
    c == ' ' || !(c.is_control() || c.is_whitespace() || invisible)
}
