//! Sequences of writes through the field manager, and the managers of a scale.

use managed_fields::{
    ApplyError, Converter, FieldManager, Filter, Managers, Matcher, PathElement, ReplicasPath, ScaleManagers,
    Set, TypeRef,
};
use object::{Map, Status, Value};

use super::{World, answer, error};

/// Versions that differ in the names of `spec`'s fields.
struct Versions<'a> {
    world: &'a World,
    case: &'a Value,
    kind: String,
}

impl Versions<'_> {
    fn rename(&self, version: &str, name: &str, back: bool) -> Option<String> {
        let names = self.case.get("rename")?.get(version)?.as_map()?;
        let pair = |(hub, own): (&catalog::Name, &Value)| (hub.to_string(), own.as_str().unwrap().to_owned());
        let pair = |entry| {
            if back {
                let (hub, own) = pair(entry);
                (own, hub)
            } else {
                pair(entry)
            }
        };
        names.iter().map(pair).find(|(from, _)| from == name).map(|(_, to)| to)
    }
}

impl Converter for Versions<'_> {
    fn type_of(&self, version: &str) -> Option<TypeRef<'_>> {
        let known = self.case.get("versions")?.as_list()?.iter().any(|known| known.as_str() == Some(version));
        let mut object = Map::default();
        object.set("apiVersion", version);
        object.set("kind", self.kind.as_str());
        known.then(|| self.world.type_of(self.case, &object.into())).flatten()
    }

    fn convert(&self, object: &Value, version: &str) -> Result<Value, String> {
        let from = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut object = object.clone();
        if let Some(Value::Map(spec)) = object.as_map_mut().unwrap().get_mut("spec") {
            for (name, _) in spec.entries_mut() {
                let hub = self.rename(&from, name, true).unwrap_or_else(|| name.to_string());
                *name = self.rename(version, &hub, false).unwrap_or(hub).into();
            }
        }
        object.as_map_mut().unwrap().set("apiVersion", version);
        Ok(object)
    }
}

fn filters(case: &Value) -> Vec<(catalog::Name, Filter)> {
    let of = |name| case.get(name).and_then(Value::as_map).into_iter().flat_map(Map::iter);
    let exclude = of("reset").map(|(version, set)| {
        (version.clone(), Filter::Exclude(Set::parse(set.as_str().unwrap().as_bytes()).unwrap()))
    });
    let include = of("include").map(|(version, prefixes)| {
        let prefix = |prefix: &Value| {
            let names: Vec<_> = prefix.as_list().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
            Matcher::prefix(names.into_iter().map(|name| (name != "*").then(|| PathElement::field(name))))
        };
        let all = prefixes.as_list().unwrap().iter().map(prefix).reduce(Matcher::or).unwrap();
        (version.clone(), Filter::Include(all))
    });
    exclude.chain(include).collect()
}

pub(super) fn run(world: &World, case: &Value) -> Value {
    let reset = filters(case);
    let mut live: Option<Value> = None;
    let mut results = Vec::new();
    for step in case.get("steps").unwrap().as_list().unwrap() {
        let text = |name| step.get(name).and_then(Value::as_str).unwrap_or_default();
        let object = step.get("object").unwrap();
        let of = |name| object.get(name).and_then(Value::as_str).unwrap_or_default();
        let mut empty = Map::default();
        empty.set("apiVersion", of("apiVersion"));
        empty.set("kind", of("kind"));
        let empty = Value::Map(empty);
        let converter = Versions { world, case, kind: of("kind").to_owned() };
        let Some(ty) = world.type_of(case, object) else {
            results.push(Value::Null);
            continue;
        };
        let field_manager = FieldManager {
            api_version: of("apiVersion"),
            kind: of("kind"),
            ty,
            subresource: text("subresource"),
            converter: &converter,
            reset: &reset,
            empty: &empty,
            now: step.get("time").unwrap().as_int().unwrap(),
        };
        // The server has the live object in the request's version.
        let before = match &live {
            Some(live) if live.get("apiVersion").and_then(Value::as_str) != Some(of("apiVersion")) => {
                converter.convert(live, of("apiVersion")).unwrap()
            }
            Some(live) => live.clone(),
            None => empty.clone(),
        };
        let outcome = if text("op") == "apply" {
            let force = step.get("force").is_some();
            field_manager.apply(&before, object, text("manager"), force)
        } else {
            let mut new = object.clone();
            let updated = field_manager.update(&before, &mut new, text("manager"));
            updated.map(|()| new).map_err(|why| ApplyError::Failed(why.to_string()))
        };
        results.push(match outcome {
            Ok(new) => {
                live = Some(new.clone());
                answer([("object", new)])
            }
            Err(why) => {
                let text = why.to_string();
                match why {
                    ApplyError::Failed(_) => error(text),
                    other => answer([("error", text.into()), ("status", status(other))]),
                }
            }
        });
    }
    let mut out = answer([("steps", results.into())]);
    to_hub(world, case, &mut out);
    out
}

/// Upstream's results are in whatever version the last conversion left them in.
pub(super) fn to_hub(world: &World, case: &Value, out: &mut Value) {
    let Some(Value::List(steps)) = out.as_map_mut().and_then(|out| out.get_mut("steps")) else { return };
    let hub = case.get("versions").unwrap().as_list().unwrap()[0].as_str().unwrap();
    let converter = Versions { world, case, kind: String::new() };
    for object in steps.iter_mut().filter_map(|step| step.as_map_mut()?.get_mut("object")) {
        *object = converter.convert(object, hub).unwrap();
    }
}

fn status(why: ApplyError) -> Value {
    let status = Status::from(why);
    let cause = |cause: &object::Cause| {
        answer([
            ("reason", cause.reason.into()),
            ("message", cause.message.as_str().into()),
            ("field", cause.field.as_str().into()),
        ])
    };
    let mut out = Map::default();
    out.set("metadata", Value::map());
    out.set("status", "Failure");
    out.set("message", status.message);
    out.set("reason", status.reason);
    if let Some(details) = status.details {
        let mut causes = details.causes;
        causes.sort_by(|a, b| a.message.cmp(&b.message));
        out.set("details", answer([("causes", causes.iter().map(cause).collect::<Vec<_>>().into())]));
    }
    out.set("code", i64::from(status.code));
    out.into()
}

pub(super) fn run_scale(case: &Value) -> Value {
    let paths = case.at(&["rename", "paths"]).and_then(Value::as_map).unwrap();
    let paths: Vec<(String, Vec<PathElement>)> = paths
        .iter()
        .map(|(version, path)| {
            (version.to_string(), path.as_str().unwrap().split('.').map(PathElement::field).collect())
        })
        .collect();
    let path = |version: &str| match paths.iter().find(|(known, _)| known == version) {
        Some((_, path)) => ReplicasPath::At(path),
        None => ReplicasPath::Unknown,
    };
    let managers = |name| match Managers::decode(case.get(name).cloned()) {
        Ok(managers) => managers,
        Err(why) => panic!("{why}"),
    };
    let version = case.get("versions").unwrap().as_list().unwrap()[0].as_str().unwrap().to_owned();
    let scale = ScaleManagers { parent: managers("value"), api_version: version.into(), paths: &path };
    let out = match case.get("new") {
        None => scale.to_scale(),
        Some(_) => scale.to_parent(managers("new")),
    };
    answer([("entries", out.encode().unwrap_or(Value::Null))])
}
