//! The schema in memory: nodes in one slice that refer to each other by position.
//!
//! Descriptions, titles and examples are not kept: publishing reads them from the definition itself. What is left repeats a
//! lot (ten probes, thirty selectors), and equal nodes are one, so that the tree is a graph without cycles.

use catalog::Name;
use object::Value;

use crate::check::Check;

/// A parsed schema.
#[derive(Debug)]
pub struct Structural {
    pub(crate) nodes: Box<[NodeData]>,
    /// The properties of all nodes, those of each sorted by name.
    pub(crate) properties: Box<[(Name, NodeId)]>,
    /// The value validations of all nodes, those of each in the order they are made.
    pub(crate) checks: Box<[Check]>,
    pub(crate) root: NodeId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeId(pub(crate) u32);

impl NodeId {
    pub(crate) const NONE: NodeId = NodeId(u32::MAX);
    /// As additional properties: any, and none.
    pub(crate) const ALLOWED: NodeId = NodeId(u32::MAX - 1);
    pub(crate) const DENIED: NodeId = NodeId(u32::MAX - 2);

    /// The most nodes a schema can have.
    pub(crate) const MAX: usize = u32::MAX as usize - 2;

    pub(crate) fn some(self) -> Option<NodeId> {
        (self.0 < NodeId::DENIED.0).then_some(self)
    }
}

/// A part of one of the slices.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

impl Span {
    pub(crate) fn of<T>(self, all: &[T]) -> &[T] {
        &all[self.start as usize..][..self.len as usize]
    }
}

#[derive(Debug)]
pub(crate) struct NodeData {
    pub(crate) properties: Span,
    pub(crate) checks: Span,
    pub(crate) items: NodeId,
    pub(crate) additional: NodeId,
    pub(crate) flags: Flags,
    pub(crate) ty: Type,
    pub(crate) list: ListType,
    pub(crate) map: MapType,
    /// What few nodes have.
    pub(crate) extra: Option<Box<Extra>>,
}

#[derive(Debug, Default)]
pub(crate) struct Extra {
    pub(crate) default: Option<Value>,
    pub(crate) keys: Box<[Name]>,
    pub(crate) rules: Box<[Rule]>,
    /// A type that does not exist; nothing is of it.
    pub(crate) odd_type: Option<Box<str>>,
    /// As written, whether it is checked or not.
    pub(crate) format: Option<Box<str>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(pub(crate) u16);

impl Flags {
    pub(crate) const NULLABLE: Flags = Flags(1);
    pub(crate) const INT_OR_STRING: Flags = Flags(1 << 1);
    pub(crate) const PRESERVE: Flags = Flags(1 << 2);
    pub(crate) const EMBEDDED: Flags = Flags(1 << 3);
    /// The node itself has a default.
    pub(crate) const DEFAULT: Flags = Flags(1 << 4);
    /// It has a format that is checked, of a string or a number.
    pub(crate) const FORMAT: Flags = Flags(1 << 5);
    /// Here or further down are defaults, embedded resources, sets or maps, CEL rules: passes skip what has none.
    pub(crate) const DEFAULTS_BELOW: Flags = Flags(1 << 8);
    pub(crate) const EMBEDDED_BELOW: Flags = Flags(1 << 9);
    pub(crate) const LISTS_BELOW: Flags = Flags(1 << 10);
    pub(crate) const RULES_BELOW: Flags = Flags(1 << 11);
    pub(crate) const BELOW: Flags = Flags(0xff00);

    pub(crate) fn has(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }
    pub(crate) fn add(&mut self, other: Flags) {
        self.0 |= other.0;
    }
    pub(crate) fn and(self, other: Flags) -> Flags {
        Flags(self.0 & other.0)
    }
}

/// `type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Type {
    /// None is written: any, or an integer or string.
    #[default]
    None,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    /// One that does not exist.
    Odd,
}

impl Type {
    pub(crate) fn parse(text: &str) -> Type {
        match text {
            "" => Type::None,
            "object" => Type::Object,
            "array" => Type::Array,
            "string" => Type::String,
            "integer" => Type::Integer,
            "number" => Type::Number,
            "boolean" => Type::Boolean,
            _ => Type::Odd,
        }
    }
    /// As it is written in a schema; empty for the two that are not in this list.
    pub fn as_str(self) -> &'static str {
        match self {
            Type::None | Type::Odd => "",
            Type::Object => "object",
            Type::Array => "array",
            Type::String => "string",
            Type::Integer => "integer",
            Type::Number => "number",
            Type::Boolean => "boolean",
        }
    }
}

/// `x-kubernetes-list-type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    #[default]
    None,
    Atomic,
    Set,
    Map,
}

/// `x-kubernetes-map-type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MapType {
    #[default]
    None,
    Atomic,
    Granular,
}

/// One of `x-kubernetes-validations`, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub rule: Box<str>,
    pub message: Box<str>,
    pub message_expression: Box<str>,
    /// Empty when absent.
    pub reason: Box<str>,
    pub field_path: Box<str>,
    pub optional_old_self: Option<bool>,
}

/// `additionalProperties`.
#[derive(Clone, Copy)]
pub enum Additional<'s> {
    None,
    Allowed(bool),
    Schema(Node<'s>),
}

/// One node of a schema, to walk it.
#[derive(Clone, Copy)]
pub struct Node<'s> {
    schema: &'s Structural,
    id: NodeId,
}

impl Structural {
    pub fn root(&self) -> Node<'_> {
        self.at(self.root)
    }
    /// How many different nodes there are; [`Node::index`] is below.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
    /// Whether [`Structural::default`] can change an object at all: what is read from the store need not be parsed otherwise.
    pub fn has_defaults(&self) -> bool {
        self.node(self.root).flags.has(Flags::DEFAULTS_BELOW)
    }
    /// Whether there are CEL rules.
    pub fn has_rules(&self) -> bool {
        self.node(self.root).flags.has(Flags::RULES_BELOW)
    }
    /// Bytes in memory, for the limits on what a definition may cost.
    pub fn size_bytes(&self) -> usize {
        let extras = self.nodes.iter().filter_map(|node| node.extra.as_deref());
        size_of_val(&*self.nodes)
            + size_of_val(&*self.properties)
            + size_of_val(&*self.checks)
            + extras.map(|extra| size_of_val(extra) + size_of_val(&*extra.rules)).sum::<usize>()
    }

    pub(crate) fn at(&self, id: NodeId) -> Node<'_> {
        Node { schema: self, id }
    }
    pub(crate) fn node(&self, id: NodeId) -> &NodeData {
        &self.nodes[id.0 as usize]
    }
    pub(crate) fn checks_of(&self, node: &NodeData) -> &[Check] {
        node.checks.of(&self.checks)
    }
    pub(crate) fn properties_of(&self, node: &NodeData) -> &[(Name, NodeId)] {
        node.properties.of(&self.properties)
    }

    /// The schema of a property. Members mostly come sorted, as properties are: `next` is where the next one probably is.
    #[inline]
    pub(crate) fn property(&self, node: &NodeData, name: &str, next: &mut usize) -> Option<NodeId> {
        let all = self.properties_of(node);
        if let Some((own, id)) = all.get(*next)
            && *own == *name
        {
            *next += 1;
            return Some(*id);
        }
        let at = all.binary_search_by(|(own, _)| own.as_str().cmp(name)).ok()?;
        *next = at + 1;
        Some(all[at].1)
    }

    /// The schema of a member: a property, or an additional one that has a schema.
    #[inline]
    pub(crate) fn member(&self, node: &NodeData, name: &str, next: &mut usize) -> Option<NodeId> {
        self.property(node, name, next).or_else(|| node.additional.some())
    }
}

impl NodeData {
    pub(crate) fn default(&self) -> Option<&Value> {
        self.extra.as_ref()?.default.as_ref()
    }
    pub(crate) fn keys(&self) -> &[Name] {
        self.extra.as_ref().map_or(&[], |extra| &extra.keys)
    }
    /// Null is neither a value nor a default here.
    pub(crate) fn refuses_null(&self) -> bool {
        !self.flags.has(Flags::NULLABLE)
    }
}

impl<'s> Node<'s> {
    pub(crate) fn with_index(schema: &'s Structural, index: usize) -> Option<Node<'s>> {
        (index < schema.len()).then_some(Node { schema, id: NodeId(index as u32) })
    }
    pub(crate) fn schema(self) -> &'s Structural {
        self.schema
    }
    pub(crate) fn id(self) -> NodeId {
        self.id
    }
    fn data(self) -> &'s NodeData {
        self.schema.node(self.id)
    }
    fn at(self, id: NodeId) -> Option<Node<'s>> {
        id.some().map(|id| Node { schema: self.schema, id })
    }
    fn check<R>(self, pick: impl Fn(&'s Check) -> Option<R>) -> Option<R> {
        self.schema.checks_of(self.data()).iter().find_map(pick)
    }
    fn parts(self, pick: impl Fn(&'s Check) -> Option<&'s [NodeId]>) -> impl Iterator<Item = Node<'s>> {
        let schema = self.schema;
        self.check(pick).unwrap_or_default().iter().map(move |id| Node { schema, id: *id })
    }

    /// Different for nodes that differ; equal ones may share it.
    pub fn index(self) -> usize {
        self.id.0 as usize
    }
    pub fn ty(self) -> Type {
        self.data().ty
    }
    /// `type` as written; empty when absent.
    pub fn type_name(self) -> &'s str {
        let odd = self.data().extra.as_ref().and_then(|extra| extra.odd_type.as_deref());
        odd.unwrap_or(self.ty().as_str())
    }
    pub fn is_nullable(self) -> bool {
        self.data().flags.has(Flags::NULLABLE)
    }
    pub fn is_int_or_string(self) -> bool {
        self.data().flags.has(Flags::INT_OR_STRING)
    }
    pub fn preserves_unknown_fields(self) -> bool {
        self.data().flags.has(Flags::PRESERVE)
    }
    pub fn is_embedded_resource(self) -> bool {
        self.data().flags.has(Flags::EMBEDDED)
    }
    pub fn list_type(self) -> ListType {
        self.data().list
    }
    pub fn list_map_keys(self) -> &'s [Name] {
        self.data().keys()
    }
    pub fn map_type(self) -> MapType {
        self.data().map
    }
    pub fn default(self) -> Option<&'s Value> {
        self.data().default()
    }
    pub fn rules(self) -> &'s [Rule] {
        self.data().extra.as_ref().map_or(&[], |extra| &extra.rules)
    }
    /// Whether it or a node below it has rules.
    pub fn has_rules(self) -> bool {
        self.data().flags.has(Flags::RULES_BELOW)
    }
    /// As written; empty when absent.
    pub fn format(self) -> &'s str {
        self.data().extra.as_ref().and_then(|extra| extra.format.as_deref()).unwrap_or_default()
    }
    pub fn property(self, name: &str) -> Option<Node<'s>> {
        self.at(self.schema.property(self.data(), name, &mut 0)?)
    }
    /// Sorted by name.
    pub fn properties(self) -> impl ExactSizeIterator<Item = (&'s Name, Node<'s>)> {
        let schema = self.schema;
        schema.properties_of(self.data()).iter().map(move |(name, id)| (name, Node { schema, id: *id }))
    }
    pub fn items(self) -> Option<Node<'s>> {
        self.at(self.data().items)
    }
    pub fn additional_properties(self) -> Additional<'s> {
        match self.data().additional {
            NodeId::NONE => Additional::None,
            NodeId::ALLOWED => Additional::Allowed(true),
            NodeId::DENIED => Additional::Allowed(false),
            id => Additional::Schema(Node { schema: self.schema, id }),
        }
    }
    pub fn required(self) -> &'s [Name] {
        self.check(|c| if let Check::Required(names) = c { Some(&**names) } else { None }).unwrap_or_default()
    }
    pub fn enumeration(self) -> &'s [Value] {
        self.check(|c| if let Check::Enum(values) = c { Some(&**values) } else { None }).unwrap_or_default()
    }
    pub fn max_length(self) -> Option<i64> {
        self.check(|c| if let Check::MaxLength(n) = c { Some(*n) } else { None })
    }
    pub fn min_length(self) -> Option<i64> {
        self.check(|c| if let Check::MinLength(n) = c { Some(*n) } else { None })
    }
    pub fn max_items(self) -> Option<i64> {
        self.check(|c| if let Check::MaxItems(n) = c { Some(*n) } else { None })
    }
    pub fn min_items(self) -> Option<i64> {
        self.check(|c| if let Check::MinItems(n) = c { Some(*n) } else { None })
    }
    pub fn max_properties(self) -> Option<i64> {
        self.check(|c| if let Check::MaxProperties(n) = c { Some(*n) } else { None })
    }
    pub fn min_properties(self) -> Option<i64> {
        self.check(|c| if let Check::MinProperties(n) = c { Some(*n) } else { None })
    }
    pub fn all_of(self) -> impl Iterator<Item = Node<'s>> {
        self.parts(|c| if let Check::AllOf(parts) = c { Some(parts) } else { None })
    }
    pub fn any_of(self) -> impl Iterator<Item = Node<'s>> {
        self.parts(|c| if let Check::AnyOf(parts) = c { Some(parts) } else { None })
    }
    pub fn one_of(self) -> impl Iterator<Item = Node<'s>> {
        self.parts(|c| if let Check::OneOf(parts) = c { Some(parts) } else { None })
    }
    pub fn negation(self) -> Option<Node<'s>> {
        self.at(self.check(|c| if let Check::Not(part) = c { Some(*part) } else { None })?)
    }
}
