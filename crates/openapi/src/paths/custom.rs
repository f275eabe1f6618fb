//! The paths of one custom resource. They differ from those of built-in ones as upstream's do: every verb is listed, there are
//! no watch paths, and parameters and media types are others.

use catalog::{Catalog, Resource, Subresource};

use super::operation::CUSTOM_PATCHES;
use super::parameters::{self, DELETE, GET, LIST, NAME, NAMESPACE, PATCH, PRETTY, Param, WRITE};
use super::{Answer, Body, Method, Operation, PathItem, Produces, target};
use crate::names;
use crate::schemas::{Custom, Special, Target};

pub(super) struct Draft<'a> {
    pub catalog: &'a Catalog,
    pub r: &'a Resource,
    /// Its index among the resources of the catalogue.
    pub i: usize,
    pub root: &'a str,
    pub gv: &'a str,
}

impl Draft<'_> {
    pub(super) fn resource(&self, items: &mut Vec<PathItem>) {
        let plural = &self.r.plural;
        let (space, scope) =
            if self.r.namespaced { ("/namespaces/{namespace}", vec![NAMESPACE]) } else { ("", vec![]) };
        let collection = format!("{}{space}/{plural}", self.root);
        let (shared, named) =
            (parameters::sorted(&[PRETTY], &scope), parameters::sorted(&[NAME, PRETTY], &scope));
        let own = self.target(false);
        if self.r.namespaced {
            // It is the only operation on its path, so its parameters are the path's.
            let mut list = self.list(format!("list{}{}ForAllNamespaces", self.gv, self.kind()));
            let parameters = parameters::sorted(&std::mem::take(&mut list.parameters), &[PRETTY]);
            items.push(item(format!("{}/{plural}", self.root), parameters, vec![(Method::Get, list)]));
        }
        let operations = vec![
            (Method::Get, self.list(self.id("list", ""))),
            (Method::Post, self.create(own)),
            (Method::Delete, self.delete_collection()),
        ];
        items.push(item(collection.clone(), shared, operations));
        let mut operations = self.object_verbs("", own);
        operations.push((Method::Delete, self.delete()));
        items.push(item(format!("{collection}/{{name}}"), named.clone(), operations));
        for sub in &self.r.subresources {
            let operations = self.object_verbs(&names::capital(&sub.name), self.body_of(sub));
            items.push(item(format!("{collection}/{{name}}/{}", sub.name), named.clone(), operations));
        }
    }

    /// The status subresource is the whole object; scale is an object of its own.
    fn body_of(&self, sub: &Subresource) -> Target {
        match sub.ty {
            Some(ty) if sub.kind != self.r.kind || sub.group != self.r.group => Target::Type(ty),
            _ => self.target(false),
        }
    }

    fn object_verbs(&self, suffix: &str, body: Target) -> Vec<(Method, Operation)> {
        let answer = Answer::Is(body);
        let get = Operation {
            parameters: GET.to_vec(),
            answers: vec![(200, answer)],
            ..self.operation(self.id("read", suffix), "get")
        };
        let put = Operation {
            parameters: WRITE.to_vec(),
            body: Some(Body::Object(body)),
            answers: vec![(200, answer), (201, answer)],
            ..self.operation(self.id("replace", suffix), "put")
        };
        let patch = Operation {
            parameters: PATCH.to_vec(),
            consumes: CUSTOM_PATCHES,
            body: Some(Body::Patch),
            answers: vec![(200, answer)],
            ..self.operation(self.id("patch", suffix), "patch")
        };
        vec![(Method::Get, get), (Method::Put, put), (Method::Patch, patch)]
    }

    fn list(&self, id: String) -> Operation {
        Operation {
            parameters: LIST.to_vec(),
            answers: vec![(200, Answer::Is(self.target(true)))],
            ..self.operation(id, "list")
        }
    }

    fn create(&self, body: Target) -> Operation {
        Operation {
            parameters: WRITE.to_vec(),
            body: Some(Body::Object(body)),
            answers: [200, 201, 202].map(|code| (code, Answer::Is(body))).to_vec(),
            ..self.operation(self.id("create", ""), "post")
        }
    }

    fn delete(&self) -> Operation {
        let options = match target(self.catalog, "meta.v1.DeleteOptions") {
            Answer::Is(target) => target,
            Answer::Text => Target::Special(Special::RawExtension),
        };
        let status = target(self.catalog, "meta.v1.Status");
        Operation {
            parameters: DELETE.to_vec(),
            body: Some(Body::Options(options)),
            answers: vec![(200, status), (202, status)],
            ..self.operation(self.id("delete", ""), "delete")
        }
    }

    /// Upstream documents the parameters of a list, and no options.
    fn delete_collection(&self) -> Operation {
        let id = format!("delete{}Collection{}{}", self.gv, self.spaced(), self.kind());
        Operation {
            parameters: LIST.to_vec(),
            answers: vec![(200, target(self.catalog, "meta.v1.Status"))],
            ..self.operation(id, "deletecollection")
        }
    }

    fn operation(&self, id: String, action: &'static str) -> Operation {
        Operation {
            id,
            tag: names::tag(&self.r.group, Some(&self.r.version)),
            action: Some(action),
            // Also for the scale subresource.
            gvk: Some([self.r.group.to_string(), self.r.version.to_string(), self.r.kind.to_string()]),
            parameters: Vec::new(),
            consumes: Produces::Custom.types(),
            body: None,
            produces: Produces::Custom,
            answers: Vec::new(),
        }
    }

    fn target(&self, list: bool) -> Target {
        Target::Custom(Custom { resource: self.i, list })
    }

    fn id(&self, verb: &str, suffix: &str) -> String {
        format!("{verb}{}{}{}{suffix}", self.gv, self.spaced(), self.kind())
    }

    fn kind(&self) -> String {
        names::identifier(&self.r.kind, true)
    }

    fn spaced(&self) -> &'static str {
        if self.r.namespaced { "Namespaced" } else { "" }
    }
}

fn item(path: String, parameters: Vec<Param>, operations: Vec<(Method, Operation)>) -> PathItem {
    PathItem { path, parameters, operations }
}
