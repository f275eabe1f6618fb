//! One operation: a method on a path.

use catalog::Verbs;

use super::Param;
use crate::json::{group_version_kind, quoted};
use crate::schemas::{Special, Target};

#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub id: String,
    pub tag: String,
    /// `x-kubernetes-action`; discovery has none.
    pub action: Option<&'static str>,
    /// Group, version and kind of what the operation is about.
    pub gvk: Option<[String; 3]>,
    pub parameters: Vec<Param>,
    /// Media types of the body; v2 lists them for operations without a body too.
    pub consumes: &'static [&'static str],
    pub body: Option<Body>,
    pub produces: Produces,
    /// Status codes and what comes with them; 401 is always added.
    pub answers: Vec<(u16, Answer)>,
}

impl Operation {
    /// The definitions the operation refers to.
    pub(crate) fn targets(&self) -> impl Iterator<Item = Target> + '_ {
        let body = self.body.map(Body::target);
        body.into_iter().chain(self.answers.iter().filter_map(|(_, a)| match a {
            Answer::Is(target) => Some(*target),
            Answer::Text => None,
        }))
    }

    /// What Kubernetes' clients look for, with values as JSON text.
    pub(crate) fn extensions(&self) -> Vec<(&'static str, String)> {
        let action = self.action.map(|action| ("x-kubernetes-action", quoted(action)));
        let gvk = self.gvk.as_ref().map(|[group, version, kind]| {
            ("x-kubernetes-group-version-kind", group_version_kind(group, version, kind))
        });
        action.into_iter().chain(gvk).collect()
    }
}

/// Media types as names of members, which v3 writes in order.
pub(crate) fn in_order(types: &'static [&'static str]) -> Vec<&'static str> {
    let mut all = types.to_vec();
    all.sort_unstable();
    all
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Body {
    Object(Target),
    /// Delete options: may be left out.
    Options(Target),
    Patch,
}

impl Body {
    pub(crate) fn target(self) -> Target {
        match self {
            Body::Object(target) | Body::Options(target) => target,
            Body::Patch => Target::Special(Special::Patch),
        }
    }

    pub(crate) fn required(self) -> bool {
        !matches!(self, Body::Options(_))
    }
}

/// Media types of patches. Custom resources have no patch keys, and so no strategic merge patches.
pub(crate) const PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
pub(crate) const CUSTOM_PATCHES: &[&str] =
    &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    Is(Target),
    Text,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Produces {
    Objects,
    /// Objects of custom resources, which have no protobuf.
    Custom,
    /// Objects, or a watch stream of them.
    Streams,
    Log,
    Anything,
    Json,
    /// The public keys of service account tokens (JWKS).
    Keys,
}

impl Produces {
    // Differs from kube-apiserver: it also lists CBOR, which we do not support.
    pub(crate) fn types(self) -> &'static [&'static str] {
        match self {
            Produces::Objects => {
                &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"]
            }
            Produces::Custom => &["application/json", "application/yaml"],
            Produces::Streams => &[
                "application/json",
                "application/yaml",
                "application/vnd.kubernetes.protobuf",
                "application/json;stream=watch",
                "application/vnd.kubernetes.protobuf;stream=watch",
            ],
            Produces::Log => {
                &["text/plain", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"]
            }
            Produces::Anything => &["*/*"],
            Produces::Json => &["application/json"],
            Produces::Keys => &["application/jwk-set+json"],
        }
    }
}

/// In alphabetical order, as documents list them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Method {
    Delete,
    Get,
    Head,
    Options,
    Patch,
    Post,
    Put,
}

impl Method {
    pub(crate) const ALL: [Method; 7] = [
        Method::Delete,
        Method::Get,
        Method::Head,
        Method::Options,
        Method::Patch,
        Method::Post,
        Method::Put,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Method::Delete => "delete",
            Method::Get => "get",
            Method::Head => "head",
            Method::Options => "options",
            Method::Patch => "patch",
            Method::Post => "post",
            Method::Put => "put",
        }
    }

    /// The verb discovery shows for a connection by this method.
    pub(crate) fn verb(self) -> Option<Verbs> {
        match self {
            Method::Delete => Some(Verbs::DELETE),
            Method::Get => Some(Verbs::GET),
            Method::Head | Method::Options => None,
            Method::Patch => Some(Verbs::PATCH),
            Method::Post => Some(Verbs::CREATE),
            Method::Put => Some(Verbs::UPDATE),
        }
    }
}

/// The reason phrase of a status code.
pub(crate) fn phrase(code: u16) -> &'static str {
    match code {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        _ => "Unauthorized",
    }
}
