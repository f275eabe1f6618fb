//! The names OpenAPI uses: of definitions, operations and tags.

/// `io.k8s.api.core.v1.Pod` of `core.v1.Pod`: Go's import path turned around, without the version of the module.
pub(crate) fn definition(type_name: &str) -> String {
    let package = type_name.split('.').next().unwrap_or_default();
    let root = match package {
        "meta" => "io.k8s.apimachinery.pkg.apis",
        "apiextensions" => "io.k8s.apiextensions-apiserver.pkg.apis",
        "apiregistration" => "io.k8s.kube-aggregator.pkg.apis",
        _ => "io.k8s.api",
    };
    format!("{root}.{type_name}")
}

/// `RbacAuthorizationV1` of `rbac.authorization.k8s.io` and `v1`: the middle of operation ids.
pub(crate) fn group_version(group: &str, version: &str) -> String {
    format!("{}{}", group_words(group), capital(version))
}

/// `RbacAuthorization`; `Core` for the core group.
pub(crate) fn group_words(group: &str) -> String {
    if group.is_empty() {
        return "Core".into();
    }
    group.strip_suffix(".k8s.io").unwrap_or(group).split('.').map(capital).collect()
}

/// `rbacAuthorization_v1`, or without a version `rbacAuthorization`.
pub(crate) fn tag(group: &str, version: Option<&str>) -> String {
    let words = group_words(group);
    let mut tag = words[..1].to_lowercase() + &words[1..];
    if let Some(version) = version {
        tag.push('_');
        tag.push_str(version);
    }
    tag
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
