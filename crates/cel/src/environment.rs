//! What expressions may use: functions, variables, types and parts of the language.
//!
//! ```text
//! LIBRARIES ──by version──> Base (shared by all)
//!                             └─ extended ─> Environment: variables and types of one place expressions are in
//! ```

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use catalog::Name;

use crate::check::{self, Checked};
use crate::error::Error;
use crate::function::Function;
use crate::issue::Issues;
use crate::library::{LIBRARIES, Library};
use crate::messages;
use crate::parse::{Syntax, parse};
use crate::program::{self, Program};
use crate::types::Type;
use crate::value::Val;

/// A version of Kubernetes: major and minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32);

impl Version {
    const LATEST: Version = Version(u32::MAX, u32::MAX);
}

/// Parts of the language that came later, or that Kubernetes switches on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// `1 < 2.0`.
    CrossTypeNumericComparisons,
    /// `a.?b`, `a[?k]`, `[?x]`, `{?k: v}` and the macros of optional values.
    OptionalSyntax,
    /// `all`, `exists` and `existsOne` with two variables, `transformList`, `transformMap`, `transformMapEntry`.
    TwoVariableComprehensions,
    /// `list.sortBy(x, key)`.
    SortBy,
    /// Constant durations, timestamps and patterns are validated with the expression.
    LiteralValidation,
}

/// Knows the types with fields, and makes values of them.
pub trait TypeProvider: Send + Sync {
    fn is_object(&self, name: &str) -> bool;
    /// The type of a field, by its escaped name.
    fn field(&self, object: &str, field: &str) -> Option<Type>;
    /// `Name{field: value}`.
    fn construct<'a>(&self, object: &str, fields: Vec<(&'a str, Val<'a>)>) -> Result<Val<'a>, Error> {
        let _ = fields;
        Err(Error::new(format!("unknown type '{object}'")))
    }
}

/// The libraries of a version, made once.
#[derive(Clone)]
struct Base {
    functions: HashMap<&'static str, Function>,
    /// Names of types.
    types: HashMap<Name, Type>,
    syntax: Syntax,
    cross_type: bool,
    validates_literals: bool,
    /// `self.namespace` finds the field that is declared as `__namespace__`.
    keyword_fields: bool,
}

/// What an expression is compiled against. Cheap to extend and to clone.
#[derive(Clone)]
pub struct Environment {
    base: Arc<Base>,
    variables: Arc<HashMap<Name, Type>>,
    provider: Option<Arc<dyn TypeProvider>>,
    /// Has `cel.bind`, whatever the libraries have.
    bindings: bool,
}

/// The two environments of one place: for expressions a client writes, and for those already stored.
#[derive(Clone)]
pub struct EnvironmentSet {
    /// Has only what the version an installation may be rolled back to has.
    pub new_expressions: Environment,
    /// Has everything.
    pub stored_expressions: Environment,
}

static STORED: LazyLock<Arc<Base>> = LazyLock::new(|| Arc::new(Base::of(Version::LATEST)));

impl EnvironmentSet {
    /// Kubernetes' base environments, new expressions being compatible with `version`.
    pub fn of(version: Version) -> EnvironmentSet {
        EnvironmentSet {
            new_expressions: Environment::plain(Arc::new(Base::of(version))),
            stored_expressions: Environment::plain(Arc::clone(&STORED)),
        }
    }
    /// With variables and types in both.
    pub fn extend(
        &self,
        variables: impl IntoIterator<Item = (Name, Type)>,
        provider: Option<Arc<dyn TypeProvider>>,
    ) -> EnvironmentSet {
        let variables: Vec<_> = variables.into_iter().collect();
        EnvironmentSet {
            new_expressions: self.new_expressions.extend(variables.clone(), provider.clone()),
            stored_expressions: self.stored_expressions.extend(variables, provider),
        }
    }
}

impl Environment {
    fn plain(base: Arc<Base>) -> Environment {
        Environment { base, variables: Arc::default(), provider: None, bindings: false }
    }
    /// With more variables, and with the types of `provider` if there is one.
    pub fn extend(
        &self,
        variables: impl IntoIterator<Item = (Name, Type)>,
        provider: Option<Arc<dyn TypeProvider>>,
    ) -> Environment {
        let mut all = (*self.variables).clone();
        all.extend(variables);
        Environment {
            base: Arc::clone(&self.base),
            variables: Arc::new(all),
            provider: provider.or_else(|| self.provider.clone()),
            bindings: self.bindings,
        }
    }
    /// With a library that no version has for all expressions. Copies what there is: not for every expression.
    #[must_use]
    pub fn with_library(&self, library: Library) -> Environment {
        let mut base = (*self.base).clone();
        base.add(library);
        Environment { base: Arc::new(base), ..self.clone() }
    }
    /// With `cel.bind`.
    #[must_use]
    pub fn with_bindings(&self) -> Environment {
        Environment { bindings: true, ..self.clone() }
    }

    /// Parses and checks an expression.
    pub fn compile(&self, text: &str) -> Result<Checked, Issues> {
        let syntax = Syntax { bindings: self.bindings, ..self.base.syntax };
        let ast = parse(text, syntax)?;
        check::check(self, ast)
    }

    /// Makes an expression ready to run. Fails where a constant part of it fails.
    pub fn program(&self, checked: &Checked) -> Result<Program, Error> {
        program::plan(self, checked)
    }

    pub(crate) fn function(&self, name: &str) -> Option<&Function> {
        self.base.functions.get(name)
    }
    pub(crate) fn variable(&self, name: &str) -> Option<&Type> {
        self.variables.get(name)
    }
    /// The type a name stands for: one of the language, of a library, or with fields.
    pub(crate) fn named_type(&self, name: &str) -> Option<Type> {
        if let Some(ty) = self.base.types.get(name) {
            return Some(ty.clone());
        }
        if let Some(ty) = messages::message_type(name) {
            return Some(ty);
        }
        let provider = self.provider.as_ref()?;
        match name {
            // Upstream's provider of declared types knows these two by their short names.
            "duration" => Some(Type::Duration),
            "timestamp" => Some(Type::Timestamp),
            _ => provider.is_object(name).then(|| Type::object(name.to_owned())),
        }
    }
    /// Whether a name of a type is also one at run time.
    pub(crate) fn type_value(&self, name: &str) -> Option<Type> {
        self.base.types.get(name).map(|ty| match ty {
            Type::List(_) => Type::list(Type::Dyn),
            Type::Map(_) => Type::map(Type::Dyn, Type::Dyn),
            other => other.clone(),
        })
    }
    pub(crate) fn provider(&self) -> Option<&Arc<dyn TypeProvider>> {
        self.provider.as_ref()
    }
    pub(crate) fn keyword_fields(&self) -> bool {
        self.base.keyword_fields
    }
    pub(crate) fn cross_type(&self) -> bool {
        self.base.cross_type
    }
    pub(crate) fn validates_literals(&self) -> bool {
        self.base.validates_literals
    }
}

impl Base {
    fn of(version: Version) -> Base {
        let rows = LIBRARIES
            .iter()
            .filter(|row| row.introduced <= version && row.removed.is_none_or(|removed| version < removed));
        let mut base = Base {
            functions: HashMap::new(),
            types: HashMap::new(),
            syntax: Syntax::default(),
            cross_type: false,
            validates_literals: false,
            keyword_fields: version >= Version(1, 31),
        };
        rows.for_each(|row| base.add((row.library)()));
        base
    }

    fn add(&mut self, library: Library) {
        for function in library.functions {
            match self.functions.get_mut(function.name) {
                Some(own) => own.merge(function),
                None => {
                    self.functions.insert(function.name, function);
                }
            }
        }
        for ty in library.types {
            self.types.insert(Name::from(ty.name().to_owned()), ty);
        }
        for feature in library.features {
            match feature {
                Feature::CrossTypeNumericComparisons => self.cross_type = true,
                Feature::OptionalSyntax => self.syntax.optional = true,
                Feature::TwoVariableComprehensions => self.syntax.two_variables = true,
                Feature::SortBy => self.syntax.sort_by = true,
                Feature::LiteralValidation => self.validates_literals = true,
            }
        }
    }
}
