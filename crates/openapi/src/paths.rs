//! Paths and operations of the served resources, the same for every dialect.

mod custom;
mod operation;
mod parameters;

use catalog::{Catalog, Resource, Subresource, Verbs};

use crate::names;
use crate::schemas::{Special, Target};
use operation::PATCHES;
pub(crate) use operation::{Answer, Body, Method, Operation, Produces, in_order, phrase};
use parameters::{DELETE, LIST, NAME, NAMESPACE, PATCH, PATH, PRETTY, WATCH, WRITE, of_options};
pub(crate) use parameters::{Param, ParamIn};

pub(crate) struct PathItem {
    pub path: String,
    /// Parameters of every operation on the path.
    pub parameters: Vec<Param>,
    /// In alphabetical order of the methods.
    pub operations: Vec<(Method, Operation)>,
}

/// Paths outside of groups: discovery, health, metrics and version.
pub(crate) const ROOTS: [&str; 5] =
    [".well-known/openid-configuration", "api", "apis", "openid/v1/jwks", "version"];

/// Every path of one group version, sorted. As upstream, there is no discovery path if all its resources are custom.
pub(crate) fn of_group_version(catalog: &Catalog, group: &str, version: &str) -> Vec<PathItem> {
    let root = format!("/{}", names::path(group, version));
    let gv = names::group_version(group, version);
    let mut items = Vec::new();
    let mut discovery = false;
    let all = catalog.resources().iter().enumerate();
    for (i, r) in all.filter(|(_, r)| r.group == *group && r.version == *version) {
        if r.custom {
            custom::Draft { catalog, r, i, root: &root, gv: &gv }.resource(&mut items);
        } else {
            Draft { catalog, r, root: &root, gv: &gv }.resource(&mut items);
            discovery = true;
        }
    }
    if discovery {
        let answer = target(catalog, "meta.v1.APIResourceList");
        let operation = plain(format!("get{gv}APIResources"), names::tag(group, Some(version)), answer);
        items.push(one(&names::path(group, version), operation));
    }
    sorted(items)
}

/// Whether a group has built-in resources.
pub(crate) fn has_builtin(catalog: &Catalog, group: &str) -> bool {
    catalog.resources().iter().any(|r| r.group == *group && !r.custom)
}

/// One of [`ROOTS`], or the discovery document of a group.
pub(crate) fn of_discovery(catalog: &Catalog, path: &str) -> Option<Vec<PathItem>> {
    let text = |id: &str, tag: &str, produces| {
        let operation = Operation { consumes: &[], produces, ..plain(id.into(), tag.into(), Answer::Text) };
        Some(vec![one(path, operation)])
    };
    let (id, tag, kind) = match path {
        ".well-known/openid-configuration" => {
            return text("getServiceAccountIssuerOpenIDConfiguration", "WellKnown", Produces::Json);
        }
        "openid/v1/jwks" => return text("getServiceAccountIssuerOpenIDKeyset", "openid", Produces::Keys),
        "version" => {
            let info = Answer::Is(Target::Special(Special::VersionInfo));
            let operation = Operation {
                consumes: Produces::Json.types(),
                produces: Produces::Json,
                ..plain("getCodeVersion".into(), "version".into(), info)
            };
            return Some(vec![one(path, operation)]);
        }
        "api" => ("getCoreAPIVersions".into(), "core".into(), "meta.v1.APIVersions"),
        "apis" => ("getAPIVersions".into(), "apis".into(), "meta.v1.APIGroupList"),
        _ => {
            let group = path.strip_prefix("apis/")?;
            if group.is_empty() || !has_builtin(catalog, group) {
                return None;
            }
            (format!("get{}APIGroup", names::group_words(group)), names::tag(group, None), "meta.v1.APIGroup")
        }
    };
    Some(vec![one(path, plain(id, tag, target(catalog, kind)))])
}

/// Calls `visit` with every path of the server, in order. Only the paths of one group version are in memory at a time.
pub(crate) fn each(catalog: &Catalog, visit: &mut dyn FnMut(&PathItem)) {
    // The prefix of the paths of each part. Because prefixes end in a slash, sorting them sorts the paths.
    let mut parts: Vec<(String, Option<(&str, &str)>)> =
        ROOTS.iter().map(|path| (format!("/{path}/"), None)).collect();
    for g in catalog.groups() {
        if !g.name.is_empty() {
            parts.push((format!("/apis/{}/", g.name), None));
        }
        let version = |v| (format!("/{}/", names::path(&g.name, v)), Some((g.name.as_str(), v)));
        parts.extend(g.versions.iter().map(|v| version(v.as_str())));
    }
    parts.sort();
    for (prefix, group_version) in parts {
        let items = match group_version {
            Some((group, version)) => of_group_version(catalog, group, version),
            None => of_discovery(catalog, prefix.trim_matches('/')).unwrap_or_default(),
        };
        items.iter().for_each(&mut *visit);
    }
}

fn sorted(mut items: Vec<PathItem>) -> Vec<PathItem> {
    items.sort_by(|a, b| a.path.cmp(&b.path));
    for item in &mut items {
        item.operations.sort_by_key(|(method, _)| *method);
    }
    items
}

/// A GET of discovery: without a kind and without parameters.
fn plain(id: String, tag: String, answer: Answer) -> Operation {
    Operation {
        id,
        tag,
        action: None,
        gvk: None,
        parameters: Vec::new(),
        consumes: Produces::Objects.types(),
        body: None,
        produces: Produces::Objects,
        answers: vec![(200, answer)],
    }
}

/// The path with a slash at its end, which can only be read.
fn one(path: &str, operation: Operation) -> PathItem {
    PathItem { path: format!("/{path}/"), parameters: Vec::new(), operations: vec![(Method::Get, operation)] }
}

/// A built-in type; a catalogue without it (in tests) gets the empty object instead.
fn target(catalog: &Catalog, kind: &str) -> Answer {
    let found = catalog.schema().find(kind);
    Answer::Is(found.map_or(Target::Special(Special::RawExtension), Target::Type))
}

/// The paths of one resource, under construction.
struct Draft<'a> {
    catalog: &'a Catalog,
    r: &'a Resource,
    root: &'a str,
    gv: &'a str,
}

impl Draft<'_> {
    fn resource(&self, items: &mut Vec<PathItem>) {
        let r = self.r;
        let (space, scope) =
            if r.namespaced { ("/namespaces/{namespace}", vec![NAMESPACE]) } else { ("", vec![]) };
        let watched = r.verbs.contains(Verbs::WATCH);
        let plural = &r.plural;
        let with = |extra: &[Param]| parameters::sorted(extra, &scope);

        self.push(items, format!("{}{space}/{plural}", self.root), with(&[PRETTY]), self.collection());
        self.push(
            items,
            format!("{}{space}/{plural}/{{name}}", self.root),
            with(&[NAME, PRETTY]),
            self.item(),
        );
        if r.namespaced && r.verbs.contains(Verbs::LIST) {
            let list = self.list("ForAllNamespaces", "");
            self.push(items, format!("{}/{plural}", self.root), vec![PRETTY], vec![(Method::Get, list)]);
        }
        if watched {
            let (one, list) =
                (self.watch("", self.spaced(), "watch"), self.watch("List", self.spaced(), "watchlist"));
            let parameters = parameters::sorted(WATCH, &with(&[PRETTY]));
            self.push(
                items,
                format!("{}/watch{space}/{plural}", self.root),
                parameters,
                vec![(Method::Get, list)],
            );
            let parameters = parameters::sorted(WATCH, &with(&[NAME, PRETTY]));
            let path = format!("{}/watch{space}/{plural}/{{name}}", self.root);
            self.push(items, path, parameters, vec![(Method::Get, one)]);
            if r.namespaced {
                let list = self.watch("ListForAllNamespaces", "", "watchlist");
                let parameters = parameters::sorted(WATCH, &[PRETTY]);
                self.push(
                    items,
                    format!("{}/watch/{plural}", self.root),
                    parameters,
                    vec![(Method::Get, list)],
                );
            }
        }
        for sub in &r.subresources {
            self.subresource(items, space, &with(&[NAME]), sub);
        }
    }

    fn push(
        &self,
        items: &mut Vec<PathItem>,
        path: String,
        parameters: Vec<Param>,
        ops: Vec<(Method, Operation)>,
    ) {
        if !ops.is_empty() {
            items.push(PathItem { path, parameters, operations: ops });
        }
    }

    fn collection(&self) -> Vec<(Method, Operation)> {
        let mut ops = Vec::new();
        if self.r.verbs.contains(Verbs::CREATE) {
            ops.push((Method::Post, self.create("", self.own_gvk(), self.own())));
        }
        if self.r.verbs.contains(Verbs::LIST) {
            ops.push((Method::Get, self.list("", self.spaced())));
        }
        if self.r.verbs.contains(Verbs::DELETE_COLLECTION) {
            let mut op =
                self.operation(format!("delete{}Collection{}{}", self.gv, self.spaced(), self.r.kind));
            op.action = Some("deletecollection");
            op.parameters = parameters::collection_delete();
            op.body = Some(Body::Options(self.options()));
            op.answers = vec![(200, target(self.catalog, "meta.v1.Status"))];
            ops.push((Method::Delete, op));
        }
        ops
    }

    fn item(&self) -> Vec<(Method, Operation)> {
        let (verbs, own) = (self.r.verbs, self.own());
        let mut ops = self.object_verbs(verbs, "", self.own_gvk(), own);
        if verbs.contains(Verbs::DELETE) {
            let mut op = self.operation(format!("delete{}{}{}", self.gv, self.spaced(), self.r.kind));
            op.action = Some("delete");
            op.parameters = DELETE.to_vec();
            op.body = Some(Body::Options(self.options()));
            let returned = self.r.storage.as_ref().is_some_and(|storage| storage.returns_deleted);
            // Upstream's document does not mention that DELETE of a kind with finalizers returns the object.
            let returned = returned && !self.r.subresources.iter().any(|sub| sub.name == "finalize");
            let answer = if returned { Answer::Is(own) } else { target(self.catalog, "meta.v1.Status") };
            op.answers = vec![(200, answer), (202, answer)];
            ops.push((Method::Delete, op));
        }
        ops
    }

    fn subresource(&self, items: &mut Vec<PathItem>, space: &str, named: &[Param], sub: &Subresource) {
        let path = format!("{}{space}/{}/{{name}}/{}", self.root, self.r.plural, sub.name);
        let gvk = [sub.group.to_string(), sub.version.to_string(), sub.kind.to_string()];
        let suffix = names::capital(&sub.name);
        let Some(ty) = sub.ty.filter(|ty| self.catalog.schema().contains(*ty)) else { return };
        let body = Target::Type(ty);
        let pretty = parameters::sorted(&[PRETTY], named);
        // Options as a body kind mean a stream: the connection is handed over, and options come in the query.
        if sub.kind.ends_with("Options") {
            let options = of_options(self.catalog, ty);
            let parameters = parameters::sorted(&options, named);
            self.push(items, path.clone(), parameters.clone(), self.connect(sub, &suffix, &gvk));
            if sub.name == "proxy" {
                let suffix = format!("{suffix}WithPath");
                let parameters = parameters::sorted(&[PATH], &parameters);
                self.push(items, format!("{path}/{{path}}"), parameters, self.connect(sub, &suffix, &gvk));
            }
            return;
        }
        let mut ops = self.object_verbs(sub.verbs, &suffix, gvk.clone(), body);
        if sub.verbs.contains(Verbs::CREATE) {
            ops.push((Method::Post, self.create(&suffix, gvk, body)));
        }
        let mut parameters = pretty;
        if sub.name == "log" {
            let options = self.catalog.schema().find("core.v1.PodLogOptions");
            let options = options.map(|id| of_options(self.catalog, id)).unwrap_or_default();
            parameters = parameters::sorted(&options, &parameters);
            for (_, op) in &mut ops {
                op.produces = Produces::Log;
                op.answers = vec![(200, Answer::Text)];
            }
        }
        self.push(items, path, parameters, ops);
    }

    /// Get, update and patch of one object.
    fn object_verbs(
        &self,
        verbs: Verbs,
        suffix: &str,
        gvk: [String; 3],
        body: Target,
    ) -> Vec<(Method, Operation)> {
        let named = |verb: &str| format!("{verb}{}{}{}{suffix}", self.gv, self.spaced(), self.r.kind);
        let answer = Answer::Is(body);
        let mut ops = Vec::new();
        if verbs.contains(Verbs::GET) {
            let mut op = self.operation(named("read"));
            (op.action, op.gvk, op.answers) = (Some("get"), Some(gvk.clone()), vec![(200, answer)]);
            ops.push((Method::Get, op));
        }
        if verbs.contains(Verbs::UPDATE) {
            let mut op = self.operation(named("replace"));
            (op.action, op.gvk, op.answers) =
                (Some("put"), Some(gvk.clone()), vec![(200, answer), (201, answer)]);
            op.parameters = WRITE.to_vec();
            op.body = Some(Body::Object(body));
            ops.push((Method::Put, op));
        }
        if verbs.contains(Verbs::PATCH) {
            let mut op = self.operation(named("patch"));
            (op.action, op.gvk, op.answers) = (Some("patch"), Some(gvk), vec![(200, answer), (201, answer)]);
            op.parameters = PATCH.to_vec();
            op.consumes = PATCHES;
            op.body = Some(Body::Patch);
            ops.push((Method::Patch, op));
        }
        ops
    }

    fn create(&self, suffix: &str, gvk: [String; 3], body: Target) -> Operation {
        let mut op = self.operation(format!("create{}{}{}{suffix}", self.gv, self.spaced(), self.r.kind));
        op.action = Some("post");
        op.gvk = Some(gvk);
        op.parameters = WRITE.to_vec();
        op.body = Some(Body::Object(body));
        op.answers = [200, 201, 202].map(|code| (code, Answer::Is(body))).to_vec();
        op
    }

    fn list(&self, suffix: &str, spaced: &str) -> Operation {
        let mut op = self.operation(format!("list{}{spaced}{}{suffix}", self.gv, self.r.kind));
        op.action = Some("list");
        op.parameters = LIST.to_vec();
        op.produces = Produces::Streams;
        let list = self.catalog.find_type(&self.r.group, &self.r.version, &self.r.list_kind);
        let list = list.map(|ty| Answer::Is(Target::Type(ty)));
        op.answers = vec![(200, list.unwrap_or(Answer::Text))];
        op
    }

    fn watch(&self, suffix: &str, spaced: &str, action: &'static str) -> Operation {
        let mut op = self.operation(format!("watch{}{spaced}{}{suffix}", self.gv, self.r.kind));
        op.action = Some(action);
        op.produces = Produces::Streams;
        op.answers = vec![(200, target(self.catalog, "meta.v1.WatchEvent"))];
        op
    }

    fn connect(&self, sub: &Subresource, suffix: &str, gvk: &[String; 3]) -> Vec<(Method, Operation)> {
        // A proxied connection takes every method; discovery has no verbs for two of them.
        let all = Method::ALL.iter().filter(|m| match m.verb() {
            Some(verb) => sub.verbs.contains(verb),
            None => sub.name == "proxy",
        });
        all.map(|method| {
            let verb = names::capital(method.name());
            let mut op =
                self.operation(format!("connect{}{verb}{}{}{suffix}", self.gv, self.spaced(), self.r.kind));
            op.action = Some("connect");
            op.gvk = Some(gvk.clone());
            op.produces = Produces::Anything;
            op.answers = vec![(200, Answer::Text)];
            (*method, op)
        })
        .collect()
    }

    fn operation(&self, id: String) -> Operation {
        Operation {
            id,
            tag: names::tag(&self.r.group, Some(&self.r.version)),
            action: None,
            gvk: Some(self.own_gvk()),
            parameters: Vec::new(),
            consumes: &["*/*"],
            body: None,
            produces: Produces::Objects,
            answers: Vec::new(),
        }
    }

    fn own(&self) -> Target {
        if !self.catalog.schema().contains(self.r.ty) {
            // A type of a definition that brought its own, which documents do not describe.
            return Target::Special(Special::RawExtension);
        }
        Target::Type(self.r.ty)
    }

    fn own_gvk(&self) -> [String; 3] {
        [self.r.group.to_string(), self.r.version.to_string(), self.r.kind.to_string()]
    }

    fn options(&self) -> Target {
        match target(self.catalog, "meta.v1.DeleteOptions") {
            Answer::Is(target) => target,
            Answer::Text => Target::Special(Special::RawExtension),
        }
    }

    fn spaced(&self) -> &'static str {
        if self.r.namespaced { "Namespaced" } else { "" }
    }
}
