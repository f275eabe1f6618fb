//! The Swagger 2.0 document as JSON.

use std::collections::{BTreeMap, BTreeSet};

use catalog::Catalog;

use crate::Documents;
use crate::document::{self, Version, Writer};
use crate::json::Json;
use crate::paths::{self, Answer, Operation, Param, phrase};
use crate::schemas::{self, Definition, Target};

/// The content of the document beside its paths, for both encodings.
pub(crate) struct Parts {
    pub definitions: BTreeMap<String, Definition>,
    /// Parameters that operations refer to by name.
    pub shared: Vec<Param>,
}

/// Group versions that upstream does not serve but has types for: options of requests are kinds of them too.
const KNOWN: [(&str, &str); 38] = [
    ("admission.k8s.io", "v1"),
    ("admission.k8s.io", "v1beta1"),
    ("admissionregistration.k8s.io", "v1alpha1"),
    ("admissionregistration.k8s.io", "v1beta1"),
    ("apiextensions.k8s.io", "v1beta1"),
    ("apiregistration.k8s.io", "v1beta1"),
    ("apps", "v1beta1"),
    ("apps", "v1beta2"),
    ("authentication.k8s.io", "v1alpha1"),
    ("authentication.k8s.io", "v1beta1"),
    ("authorization.k8s.io", "v1beta1"),
    ("batch", "v1beta1"),
    ("certificates.k8s.io", "v1alpha1"),
    ("certificates.k8s.io", "v1beta1"),
    ("coordination.k8s.io", "v1alpha2"),
    ("coordination.k8s.io", "v1beta1"),
    ("discovery.k8s.io", "v1beta1"),
    ("events.k8s.io", "v1beta1"),
    ("extensions", "v1beta1"),
    ("flowcontrol.apiserver.k8s.io", "v1beta1"),
    ("flowcontrol.apiserver.k8s.io", "v1beta2"),
    ("flowcontrol.apiserver.k8s.io", "v1beta3"),
    ("imagepolicy.k8s.io", "v1alpha1"),
    ("internal.apiserver.k8s.io", "v1alpha1"),
    ("networking.k8s.io", "v1beta1"),
    ("node.k8s.io", "v1alpha1"),
    ("node.k8s.io", "v1beta1"),
    ("policy", "v1beta1"),
    ("rbac.authorization.k8s.io", "v1alpha1"),
    ("rbac.authorization.k8s.io", "v1beta1"),
    ("resource.k8s.io", "v1alpha3"),
    ("resource.k8s.io", "v1beta1"),
    ("resource.k8s.io", "v1beta2"),
    ("scheduling.k8s.io", "v1alpha2"),
    ("scheduling.k8s.io", "v1beta1"),
    ("storage.k8s.io", "v1alpha1"),
    ("storage.k8s.io", "v1beta1"),
    ("storagemigration.k8s.io", "v1beta1"),
];

const NOT_IN_CLIENTS: [&str; 4] =
    ["admission.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "imagepolicy.k8s.io"];

pub(crate) fn parts(catalog: &Catalog) -> Parts {
    let mut targets: Vec<Target> = Vec::new();
    let mut shared: Vec<Param> = Vec::new();
    paths::each(catalog, &mut |item| {
        let own = item.operations.iter().map(|(_, op)| &op.parameters);
        for p in own.chain([&item.parameters]).flatten() {
            if is_shared(p) && !shared.contains(p) {
                shared.push(*p);
            }
        }
        for target in item.operations.iter().flat_map(|(_, op)| op.targets()) {
            // Consecutive operations mostly refer to the same definitions.
            if !targets.iter().rev().take(4).any(|last| *last == target) {
                targets.push(target);
            }
        }
    });
    shared.sort_by_key(shared_name);
    let definitions = schemas::reachable(catalog, targets, &known_groups(catalog));
    Parts { definitions, shared }
}

/// Group versions of the options of requests.
fn known_groups(catalog: &Catalog) -> Vec<(String, String)> {
    let served = catalog.resources().iter().filter(|r| !r.custom);
    let served = served.map(|r| (r.group.to_string(), r.version.to_string()));
    let known = KNOWN.iter().map(|(group, version)| ((*group).to_owned(), (*version).to_owned()));
    let groups: BTreeSet<(String, String)> = served.chain(known).collect();
    groups.into_iter().collect()
}

/// The same in v3 documents of custom resources: those that client-go knows.
pub(crate) fn client_groups(catalog: &Catalog) -> Vec<(String, String)> {
    let mut groups = known_groups(catalog);
    groups.retain(|(group, _)| !NOT_IN_CLIENTS.contains(&group.as_str()));
    groups
}

/// Older clients look for `dryRun` and `fieldValidation` without following references, so these are written out.
pub(crate) fn is_shared(p: &Param) -> bool {
    !matches!(p.name, "dryRun" | "fieldValidation" | "name")
}

/// A shared parameter's name tells apart what only its location or type does.
pub(crate) fn shared_name(p: &Param) -> String {
    format!("{}-{}-{}", p.name, p.location.name(), p.ty)
}

pub(crate) fn json(of: Documents<'_>) -> Vec<u8> {
    let parts = parts(of.catalog);
    let writer = Writer { of, version: Version::V2 };
    let mut w = Json::new();
    w.object(|w| {
        writer.definitions(w.key("definitions"), &parts.definitions);
        document::info(w, document::INFO);
        w.key("parameters").object(|w| {
            for p in &parts.shared {
                parameter(w.key(&shared_name(p)), p);
            }
        });
        w.key("paths").object(|w| {
            paths::each(of.catalog, &mut |item| {
                let write = |w: &mut Json, op: &Operation| operation(w, &writer, op);
                document::path(w.key(&item.path), item, write, reference_or_parameter);
            });
        });
        w.key("security").array(|w| w.object(|w| w.key("BearerToken").array(|_| ())));
        document::security(w.key("securityDefinitions"));
        w.key("swagger").string("2.0");
    });
    w.finish()
}

fn operation(w: &mut Json, writer: &Writer<'_>, op: &Operation) {
    w.object(|w| {
        if !op.consumes.is_empty() {
            w.key("consumes").strings(op.consumes.iter().copied());
        }
        w.key("operationId").string(&op.id);
        if op.body.is_some() || !op.parameters.is_empty() {
            w.key("parameters").array(|w| {
                if let Some(body) = op.body {
                    w.object(|w| {
                        w.key("in").string("body");
                        w.key("name").string("body");
                        if body.required() {
                            w.key("required").bool(true);
                        }
                        w.key("schema").object(|w| writer.reference(w, body.target()));
                    });
                }
                op.parameters.iter().for_each(|p| reference_or_parameter(w, p));
            });
        }
        w.key("produces").strings(op.produces.types().iter().copied());
        w.key("responses").object(|w| {
            for (code, answer) in &op.answers {
                w.key(&code.to_string()).object(|w| {
                    w.key("description").string(phrase(*code));
                    w.key("schema").object(|w| match answer {
                        Answer::Is(target) => writer.reference(w, *target),
                        Answer::Text => w.key("type").string("string"),
                    });
                });
            }
            w.key("401").object(|w| w.key("description").string(phrase(401)));
        });
        w.key("schemes").strings(["https"]);
        w.key("tags").strings([op.tag.as_str()]);
        document::extensions(w, &op.extensions());
    });
}

fn reference_or_parameter(w: &mut Json, p: &Param) {
    if is_shared(p) {
        w.object(|w| w.key("$ref").string(&format!("#/parameters/{}", shared_name(p))));
    } else {
        parameter(w, p);
    }
}

fn parameter(w: &mut Json, p: &Param) {
    document::parameter(w, p, |w| document::parameter_type(w, p));
}
