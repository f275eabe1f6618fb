//! To `metadata.managedFields`.

use catalog::Name;
use object::{Map, Value, time};

use super::{Manager, Managers};

impl Managers {
    /// The list for an object, sorted as upstream sorts it; `None` if there is nobody.
    pub fn encode(mut self) -> Option<Value> {
        if self.0.is_empty() {
            return None;
        }
        self.0.sort_by(|a, b| {
            let seconds = |manager: &Manager| manager.time.unwrap_or(0);
            let (a, b, seconds_a, seconds_b) = (&a.id, &b.id, seconds(a), seconds(b));
            a.operation
                .cmp(&b.operation)
                .then_with(|| seconds_a.cmp(&seconds_b))
                .then_with(|| a.name.cmp(&b.name))
                .then_with(|| a.api_version.cmp(&b.api_version))
                .then_with(|| a.subresource.cmp(&b.subresource))
        });
        Some(Value::List(self.0.into_iter().map(entry).collect()))
    }
}

fn entry(manager: Manager) -> Value {
    let Manager { id, time, set, text: fields } = manager;
    let text = |name: Name| Value::Str(name.as_str().to_owned());
    let mut map = Map::with_capacity(7);
    if !id.name.is_empty() {
        map.push(Name::Static("manager"), text(id.name));
    }
    map.push(Name::Static("operation"), id.operation.as_str().into());
    map.push(Name::Static("apiVersion"), text(id.api_version));
    if let Some(seconds) = time {
        map.push(Name::Static("time"), time::format_seconds(seconds).into());
    }
    map.push(Name::Static("fieldsType"), "FieldsV1".into());
    map.push(Name::Static("fieldsV1"), Value::Raw(fields.unwrap_or_else(|| set.to_raw())));
    if !id.subresource.is_empty() {
        map.push(Name::Static("subresource"), text(id.subresource));
    }
    Value::Map(map)
}
