//! Which objects a list or a watch is about.

use catalog::{Resource, Storage};
use object::Obj;
use object::selector::{FieldSelector, LabelSelector};

/// The part of the key space asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    All,
    Namespace(String),
}

impl Scope {
    /// What all keys of the scope begin with.
    pub fn prefix(&self, storage: &Storage) -> String {
        match self {
            Scope::All => storage.prefix.to_string(),
            Scope::Namespace(namespace) => format!("{}{namespace}/", storage.prefix),
        }
    }
}

/// Scope, labels and fields: compiled once per request.
pub struct Selection {
    pub scope: Scope,
    labels: Option<LabelSelector>,
    fields: Vec<FieldTest>,
}

#[derive(Clone)]
struct FieldTest {
    which: Which,
    equal: bool,
    value: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Name,
    Namespace,
    Field(usize),
}

impl Selection {
    pub fn everything(scope: Scope) -> Selection {
        Selection { scope, labels: None, fields: Vec::new() }
    }

    /// Objects of one name, wherever they are.
    pub fn named(scope: Scope, name: &str) -> Selection {
        let test = FieldTest { which: Which::Name, equal: true, value: name.to_owned() };
        Selection { scope, labels: None, fields: vec![test] }
    }

    /// `Err` with the label a selector named that this resource cannot select by.
    pub fn new(
        resource: &Resource,
        scope: Scope,
        labels: Option<LabelSelector>,
        fields: Option<&FieldSelector>,
    ) -> Result<Selection, String> {
        let mut tests = Vec::new();
        for requirement in fields.iter().flat_map(|f| f.requirements()) {
            let which = match requirement.field.as_str() {
                "metadata.name" => Which::Name,
                // Kinds outside namespaces that list their fields leave it out.
                "metadata.namespace" if resource.namespaced || resource.unknown_field.is_empty() => {
                    Which::Namespace
                }
                other => {
                    let (at, _) = resource.selectable(other).ok_or_else(|| other.to_owned())?;
                    Which::Field(at)
                }
            };
            tests.push(FieldTest { which, equal: requirement.equal, value: requirement.value.clone() });
        }
        Ok(Selection { scope, labels: labels.filter(|l| !l.is_everything()), fields: tests })
    }

    pub fn matches(&self, obj: &Obj) -> bool {
        let in_scope = match &self.scope {
            Scope::All => true,
            Scope::Namespace(namespace) => obj.namespace() == namespace,
        };
        in_scope && self.matches_selectors(obj)
    }

    /// Like `matches`, for objects known to be in scope.
    pub fn matches_selectors(&self, obj: &Obj) -> bool {
        self.fields.iter().all(|test| {
            let value = match test.which {
                Which::Name => obj.name(),
                Which::Namespace => obj.namespace(),
                Which::Field(i) => obj.field(i),
            };
            (value == test.value) == test.equal
        }) && self.labels.as_ref().is_none_or(|l| l.matches(&|name| obj.label(name)))
    }

    /// Whether it depends on what objects hold, and not only on their place and name.
    pub fn looks_inside(&self) -> bool {
        self.labels.is_some() || self.fields.iter().any(|test| matches!(test.which, Which::Field(_)))
    }

    /// The same without what depends on that.
    pub fn outside(&self) -> Selection {
        let outside = |test: &&FieldTest| !matches!(test.which, Which::Field(_));
        let fields = self.fields.iter().filter(outside).cloned().collect();
        Selection { scope: self.scope.clone(), labels: None, fields }
    }

    /// No selector narrows the scope.
    pub fn is_whole_scope(&self) -> bool {
        self.labels.is_none() && self.fields.is_empty()
    }

    /// The one name asked for.
    pub fn exact_name(&self) -> Option<&str> {
        self.exact(Which::Name)
    }

    /// The key of the one object that can match, if name and place leave no other.
    pub fn exact_key(&self, storage: &Storage) -> Option<String> {
        let name = self.exact_name()?;
        match &self.scope {
            Scope::Namespace(namespace) => Some(storage.key(namespace, name)),
            Scope::All if !storage.namespaced => Some(storage.key("", name)),
            Scope::All => None,
        }
    }

    /// The one namespace asked for.
    pub fn exact_namespace(&self) -> Option<&str> {
        self.exact(Which::Namespace)
    }

    /// The value the storage's indexed field must have.
    pub fn exact_indexed(&self, storage: &Storage) -> Option<&str> {
        let name = storage.indexed.as_ref()?;
        let at = storage.selectable_at(name)?;
        self.exact(Which::Field(at))
    }

    /// Selectable fields, by their position, and the values they must have.
    pub(crate) fn exact_fields(&self) -> impl Iterator<Item = (usize, &str)> {
        self.fields.iter().filter(|test| test.equal).filter_map(|test| match test.which {
            Which::Field(at) => Some((at, test.value.as_str())),
            Which::Name | Which::Namespace => None,
        })
    }

    /// Nothing is asked of the storage's indexed field, or the object has it so.
    pub fn matches_index(&self, storage: &Storage, obj: &Obj) -> bool {
        let at = storage.indexed.as_ref().and_then(|name| storage.selectable_at(name));
        at.is_none_or(|at| self.exact(Which::Field(at)).is_none_or(|value| obj.field(at) == value))
    }

    fn exact(&self, which: Which) -> Option<&str> {
        self.fields.iter().find(|t| t.equal && t.which == which).map(|t| t.value.as_str())
    }
}
