//! Differences between kinds that can be expressed as data: names, status, generation.

use catalog::Storage;
use object::Value;
use object::validate_text;

use crate::equal::FieldType;

/// One kind's row. `Rules::PLAIN` with a few fields changed describes most of them.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub name: NameRule,
    /// The rules of its strategy for finalizers, beyond those of every object.
    pub finalizers: Finalizers,
    /// The kind's strategy leaves the metadata to the rules of every object.
    pub skip_metadata: bool,
    /// The kind's strategy does not apply the name rule to `generateName` (only to the generated name).
    pub skip_generate_name: bool,
    /// `status` is the server's: dropped on create, preserved on updates of the object itself.
    /// Nodes are the exception that may be created with one.
    pub wipe_status_on_create: bool,
    pub keep_status_on_update: bool,
    /// What a write to `/status` may change of the metadata.
    pub status_meta: StatusMeta,
    pub generation: Generation,
}

impl Rules {
    /// Neither status nor generation; a DNS subdomain as name.
    pub const PLAIN: Rules = Rules {
        name: NameRule::Subdomain,
        finalizers: Finalizers::Kubernetes,
        skip_metadata: false,
        skip_generate_name: false,
        wipe_status_on_create: false,
        keep_status_on_update: false,
        status_meta: StatusMeta::Free,
        generation: Generation::Never,
    };
    pub const fn with_name(mut self, name: NameRule) -> Rules {
        self.name = name;
        self
    }
    /// The kind has a status, and it is the server's.
    pub const fn with_status(mut self, meta: StatusMeta) -> Rules {
        self.wipe_status_on_create = true;
        self.keep_status_on_update = true;
        self.status_meta = meta;
        self
    }
    pub const fn with_generation(mut self, generation: Generation) -> Rules {
        self.generation = generation;
        self
    }
    pub const fn with_finalizers(mut self, finalizers: Finalizers) -> Rules {
        self.finalizers = finalizers;
        self
    }
    pub const fn without_metadata(mut self) -> Rules {
        self.skip_metadata = true;
        self
    }
    pub const fn without_generate_name(mut self) -> Rules {
        self.skip_generate_name = true;
        self
    }
}

/// What a name may be. Beyond this, no name may hold `/` or `%`, or be `.` or `..`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    Subdomain,
    /// A subdomain, with the messages of upstream's declarative rules.
    LongName,
    Label,
    /// Anything that can stand in a URL path.
    PathSegment,
    /// No rule beyond those of every name.
    Unchecked,
    /// `spec.version` + "." + `spec.group`.
    VersionAndGroup,
    /// `spec.names.plural` + "." + `spec.group`.
    PluralAndGroup,
    /// An address in its one canonical form.
    IpAddress,
}

impl NameRule {
    /// Whether random letters behind `generateName` can be such a name: no address is made so.
    pub fn takes_a_suffix(self) -> bool {
        self != NameRule::IpAddress
    }

    /// What is wrong with `name`; `prefix` says that something will be appended to it (`generateName`).
    pub fn problems(self, name: &str, prefix: bool, object: &Value) -> Vec<String> {
        match self {
            NameRule::Subdomain => validate_text::dns1123_subdomain(&without_last_dash(name, prefix)),
            NameRule::LongName => validate_text::long_name(&without_last_dash(name, prefix)),
            NameRule::Label => validate_text::dns1123_label(&without_last_dash(name, prefix)),
            NameRule::PathSegment => validate_text::path_segment_name(name),
            NameRule::Unchecked => Vec::new(),
            NameRule::VersionAndGroup => {
                let problems = validate_text::path_segment_name(name);
                let wanted = joined(object, &["spec", "version"], &["spec", "group"]);
                if problems.is_empty() && name != wanted {
                    let wanted = object::quote(&wanted);
                    return vec![format!("must be `spec.version+\".\"+spec.group`: {wanted}")];
                }
                problems
            }
            NameRule::PluralAndGroup => {
                let mut problems = validate_text::dns1123_subdomain(&without_last_dash(name, prefix));
                if name != joined(object, &["spec", "names", "plural"], &["spec", "group"]) {
                    problems.push("must be spec.names.plural+\".\"+spec.group".to_owned());
                }
                problems
            }
            NameRule::IpAddress => crate::ipaddress::problems(name),
        }
    }
}

/// A prefix may end in a dash. Upstream masks that dash together with the character before it.
fn without_last_dash(name: &str, prefix: bool) -> std::borrow::Cow<'_, str> {
    if prefix && name.len() > 1 && name.ends_with('-') {
        // Bytes in Go: cutting a character in two leaves something no rule accepts, as the whole one would.
        let cut = name.len() - 2;
        let head = if name.is_char_boundary(cut) { &name[..cut] } else { &name[..name.len() - 1] };
        return format!("{head}a").into();
    }
    name.into()
}

fn joined(object: &Value, left: &[&str], right: &[&str]) -> String {
    format!("{}.{}", object.str_at(left).unwrap_or_default(), object.str_at(right).unwrap_or_default())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finalizers {
    /// Without a `/` only Kubernetes' own three are allowed.
    Kubernetes,
    /// Any qualified name.
    Qualified,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusMeta {
    /// Labels, annotations, finalizers and owners may change along with the status.
    Free,
    /// Labels stay.
    KeepLabels,
    /// Owners stay, and no time of deletion is taken.
    KeepOwners,
    /// Labels, annotations, finalizers, owners and the time of deletion stay.
    KeepAll,
    /// Nothing but managedFields changes.
    KeepWhole,
}

/// When `metadata.generation` changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    Never,
    /// Starts at 1, +1 when that member changes.
    Of(&'static str),
    /// As `Of("spec")`, as it was sent: what features that are off drop counts.
    SpecAsSent,
    /// As `Of`, where upstream tells what is empty from what is absent: a list or map that is written as empty counts as a
    /// change each time, since none is stored.
    Exactly(&'static str),
    /// As `Of("spec")`, and when annotations change.
    SpecOrAnnotations,
    /// Starts at 1, +1 when labels or anything outside the metadata changes, as it was sent: what the kind then drops counts.
    Content,
    /// Starts at 1 and stays.
    Once,
    /// Is not set on create; +1 when the spec changes.
    SpecFromNothing,
}

impl Generation {
    pub const SPEC: Generation = Generation::Of("spec");

    pub(crate) fn starts_at_one(self) -> bool {
        !matches!(self, Generation::Never | Generation::SpecFromNothing)
    }

    pub(crate) fn is_of_what_was_sent(self) -> bool {
        matches!(self, Generation::Content | Generation::SpecAsSent)
    }

    pub(crate) fn moved(self, storage: &Storage, new: &Value, old: &Value) -> bool {
        let differs = |path: &[&str]| !FieldType::of(storage, path).same(new.at(path), old.at(path));
        match self {
            Generation::Never | Generation::Once => false,
            Generation::Of(member) => differs(&[member]),
            Generation::Exactly(member) => {
                !FieldType::of(storage, &[member]).identical(new.get(member), old.get(member))
            }
            Generation::SpecFromNothing | Generation::SpecAsSent => differs(&["spec"]),
            Generation::SpecOrAnnotations => differs(&["spec"]) || differs(&["metadata", "annotations"]),
            Generation::Content => {
                differs(&["metadata", "labels"])
                    || !FieldType::of(storage, &[]).same_but(new, old, &["metadata", "apiVersion", "kind"])
            }
        }
    }
}
