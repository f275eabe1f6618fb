//! The names OpenAPI uses: of definitions, operations and tags.

/// `io.k8s.api.core.v1.Pod` of `core.v1.Pod`: Go's import path turned around, without the version of the module.
pub(crate) fn definition(type_name: &str) -> String {
    let package = type_name.split('.').next().unwrap_or_default();
    let root = match package {
        "meta" => "io.k8s.apimachinery.pkg.apis",
        "apiextensions" => "io.k8s.apiextensions-apiserver.pkg.apis",
        "apiregistration" => "io.k8s.kube-aggregator.pkg.apis",
        "metrics" => "io.k8s.metrics.pkg.apis",
        _ => "io.k8s.api",
    };
    format!("{root}.{type_name}")
}

/// `io.example.v1.Widget`: of a custom resource, whose group is the package.
pub(crate) fn custom_definition(group: &str, version: &str, kind: &str) -> String {
    let mut parts: Vec<&str> = group.split('.').collect();
    parts.reverse();
    format!("{}.{version}.{kind}", parts.join("."))
}

/// `RbacAuthorizationV1` of `rbac.authorization.k8s.io` and `v1`: the middle of operation ids.
pub(crate) fn group_version(group: &str, version: &str) -> String {
    format!("{}{}", group_words(group), identifier(version, true))
}

/// `RbacAuthorization`; `Core` for the core group.
pub(crate) fn group_words(group: &str) -> String {
    identifier(trimmed(group), true)
}

/// `rbacAuthorization_v1`, or without a version `rbacAuthorization`.
pub(crate) fn tag(group: &str, version: Option<&str>) -> String {
    let mut tag = identifier(trimmed(group), false);
    if let Some(version) = version {
        tag.push('_');
        tag.push_str(&identifier(version, false));
    }
    tag
}

fn trimmed(group: &str) -> &str {
    if group.is_empty() { "core" } else { group.strip_suffix(".k8s.io").unwrap_or(group) }
}

/// The words of a name without what stands between them, in camel case.
pub(crate) fn identifier(name: &str, mut capitalize: bool) -> String {
    let mut out = String::with_capacity(name.len());
    for (i, c) in name.char_indices() {
        if !(c.is_alphabetic() || c == '_' || i != 0 && c.is_numeric()) {
            capitalize = true;
        } else if std::mem::take(&mut capitalize) {
            out.extend(c.to_uppercase());
        } else {
            out.push(c);
        }
    }
    out
}

/// With its first letter in upper case.
pub(crate) fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

/// `api/v1` or `apis/apps/v1`, as the index and the URL call a group version.
pub(crate) fn path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}
