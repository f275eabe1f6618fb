//! The types of expressions.

use std::fmt;
use std::sync::Arc;

use catalog::Name;

/// A type, cheap to clone. It prints as cel-go prints it (`list(string)`, `google.protobuf.Duration`); the checker's messages
/// use [`Type::checked_name`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// Anything: what it really is shows at run time.
    Dyn,
    /// `google.protobuf.Any`, which the checker treats like `dyn`.
    Any,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    List(Arc<Type>),
    /// Key and value.
    Map(Arc<[Type; 2]>),
    /// The type of a type; without a parameter, of any type.
    Type(Option<Arc<Type>>),
    /// A type with fields, or one of a library that is declared as an object (`kubernetes.Quantity`). A [`TypeProvider`] knows its fields.
    ///
    /// [`TypeProvider`]: crate::TypeProvider
    Object(Name),
    /// A type of a library, with parameters perhaps (`optional_type(int)`).
    Opaque(Name, Arc<[Type]>),
    /// A type parameter of an overload (`A`).
    Param(Name),
    /// A free variable of the checker.
    Var(u32),
    /// A primitive or null: `google.protobuf.Int64Value` and its like.
    Wrapper(Arc<Type>),
    /// What an expression with an error has, so that one mistake is reported once.
    Error,
}

impl Type {
    pub fn list(element: Type) -> Type {
        Type::List(Arc::new(element))
    }
    pub fn map(key: Type, value: Type) -> Type {
        Type::Map(Arc::new([key, value]))
    }
    pub fn optional(value: Type) -> Type {
        Type::opaque("optional_type", [value])
    }
    pub fn object(name: impl Into<Name>) -> Type {
        Type::Object(name.into())
    }
    pub fn opaque(name: impl Into<Name>, parameters: impl IntoIterator<Item = Type>) -> Type {
        Type::Opaque(name.into(), parameters.into_iter().collect())
    }
    pub fn param(name: &'static str) -> Type {
        Type::Param(Name::Static(name))
    }
    pub fn type_of(inner: Type) -> Type {
        Type::Type(Some(Arc::new(inner)))
    }

    /// The parameters in cel-go's order.
    pub fn parameters(&self) -> &[Type] {
        match self {
            Type::List(element) => std::slice::from_ref(element),
            Type::Map(entry) => &entry[..],
            Type::Type(Some(inner)) => std::slice::from_ref(inner),
            Type::Opaque(_, parameters) => parameters,
            _ => &[],
        }
    }

    /// The type with variables replaced where `replace` has an answer.
    pub(crate) fn map_variables(&self, replace: &mut dyn FnMut(&Type) -> Option<Type>) -> Type {
        if let Some(other) = replace(self) {
            return other;
        }
        match self {
            Type::List(element) => Type::list(element.map_variables(replace)),
            Type::Map(entry) => {
                let key = entry[0].map_variables(replace);
                Type::map(key, entry[1].map_variables(replace))
            }
            Type::Type(Some(inner)) => Type::type_of(inner.map_variables(replace)),
            Type::Opaque(name, parameters) if !parameters.is_empty() => Type::Opaque(
                name.clone(),
                parameters.iter().map(|parameter| parameter.map_variables(replace)).collect(),
            ),
            other => other.clone(),
        }
    }

    /// The value type of an optional type.
    pub fn as_optional(&self) -> Option<&Type> {
        match self {
            Type::Opaque(name, parameters) if *name == "optional_type" => parameters.first(),
            _ => None,
        }
    }

    /// What `type(x)` is called at run time.
    pub fn name(&self) -> &str {
        match self {
            Type::Dyn => "dyn",
            Type::Any => "google.protobuf.Any",
            Type::Null => "null_type",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Duration => "google.protobuf.Duration",
            Type::Timestamp => "google.protobuf.Timestamp",
            Type::List(_) => "list",
            Type::Map(_) => "map",
            Type::Type(_) => "type",
            Type::Object(name) | Type::Opaque(name, _) | Type::Param(name) => name,
            Type::Wrapper(inner) => inner.name(),
            Type::Var(_) => "",
            Type::Error => "error",
        }
    }

    /// How the checker's messages write it: `null`, `duration`, `timestamp` instead of the names of messages.
    pub fn checked_name(&self) -> String {
        struct Checked<'a>(&'a Type);
        impl fmt::Display for Checked<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.0 {
                    Type::Any => f.write_str("any"),
                    Type::Null => f.write_str("null"),
                    Type::Duration => f.write_str("duration"),
                    Type::Timestamp => f.write_str("timestamp"),
                    Type::Error => f.write_str("!error!"),
                    Type::Param(name) => f.write_str(name),
                    Type::Var(number) => write!(f, "_var{number}"),
                    Type::Wrapper(inner) => write!(f, "wrapper({})", inner.name()),
                    other => other.write_with(f, &|ty, f| Checked(ty).fmt(f)),
                }
            }
        }
        Checked(self).to_string()
    }

    fn write_with(
        &self,
        f: &mut fmt::Formatter<'_>,
        parameter: &dyn Fn(&Type, &mut fmt::Formatter<'_>) -> fmt::Result,
    ) -> fmt::Result {
        f.write_str(self.name())?;
        let parameters = self.parameters();
        for (i, inner) in parameters.iter().enumerate() {
            f.write_str(if i == 0 { "(" } else { ", " })?;
            parameter(inner, f)?;
        }
        if parameters.is_empty() { Ok(()) } else { f.write_str(")") }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Param(name) => write!(f, "<{name}>"),
            Type::Var(number) => write!(f, "<_var{number}>"),
            Type::Wrapper(inner) => write!(f, "wrapper({})", inner.name()),
            other => other.write_with(f, &|ty, f| ty.fmt(f)),
        }
    }
}
