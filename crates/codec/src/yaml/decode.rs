//! Nodes to a value: resolves scalars, converts names to strings, expands merge keys and aliases within limits.

use std::collections::{HashMap, HashSet};

use catalog::Name;
use object::{Map, Value, deep, quote};

use super::nodes::{Node, NodeId, Nodes};
use super::scalar::{Scalar, print_float_32};
use super::{Document, MAX_DEPTH, YamlError};

/// Limit for the bytes of text repeated by aliases. Upstream only limits the number of nodes, and a long text repeated
/// that often would exhaust memory.
const MAX_ALIASED_BYTES: usize = 16 * 1024 * 1024;
/// Maximum reported duplicates.
const MAX_DUPLICATES: usize = 100;

pub(super) fn decode(nodes: &Nodes<'_>) -> Result<Document, YamlError> {
    let mut decoder = Decoder {
        nodes,
        decoded: 0,
        decoded_by_alias: 0,
        aliased_bytes: 0,
        open_aliases: HashSet::new(),
        depth: 0,
        duplicates: Vec::new(),
    };
    let value = match nodes.root() {
        Some(root) => decoder.value(root)?,
        None => Value::Null,
    };
    let duplicates = decoder.duplicates;
    let duplicates =
        (!duplicates.is_empty()).then(|| format!("yaml: unmarshal errors:\n  {}", duplicates.join("\n  ")));
    Ok(Document { value, duplicates })
}

struct Decoder<'n, 'a> {
    nodes: &'n Nodes<'a>,
    /// Nodes decoded, counting repetitions by aliases.
    decoded: usize,
    decoded_by_alias: usize,
    aliased_bytes: usize,
    /// Aliases being expanded: one found again contains itself.
    open_aliases: HashSet<NodeId>,
    depth: usize,
    duplicates: Vec<String>,
}

/// A name as YAML sees it. `1` and `"1"` differ to YAML, but are one name to JSON.
struct Key {
    text: String,
    kind: KeyKind,
}

#[derive(Clone, Copy, PartialEq)]
enum KeyKind {
    Text,
    Int,
    Float,
    Bool,
}

/// A map under construction.
#[derive(Default)]
struct Building {
    map: Map,
    positions: HashMap<Name, (usize, KeyKind)>,
}

impl Building {
    /// Sets a member, and returns whether it replaced one.
    fn set(&mut self, key: Key, value: Value) -> bool {
        let name = Name::from(key.text);
        if let Some((at, kind)) = self.positions.get_mut(&name) {
            self.map.entries_mut()[*at].1 = value;
            let again = *kind == key.kind;
            *kind = key.kind;
            return again;
        }
        self.positions.insert(name.clone(), (self.map.len(), key.kind));
        self.map.push(name, value);
        false
    }
}

impl<'n> Decoder<'n, '_> {
    fn value(&mut self, id: NodeId) -> Result<Value, YamlError> {
        self.count()?;
        let nodes = self.nodes;
        match nodes.get(id) {
            Node::Alias(target) => self.through_alias(id, |this| this.value(*target)),
            Node::Scalar { text, .. } => self.scalar(id)?.into_value(text),
            Node::List(children) => {
                self.enter()?;
                let list =
                    deep(|| children.iter().map(|child| self.value(*child)).collect::<Result<_, _>>())?;
                self.depth -= 1;
                Ok(Value::List(list))
            }
            Node::Map(children) => {
                let mut building = Building::default();
                deep(|| self.map(children, &mut building))?;
                Ok(Value::Map(building.map))
            }
        }
    }

    /// As many nodes by alias as upstream allows: nearly all of a small document, few of a large one.
    fn count(&mut self) -> Result<(), YamlError> {
        const LOW: f64 = 400_000.0;
        const HIGH: f64 = 4_000_000.0;
        self.decoded += 1;
        if !self.open_aliases.is_empty() {
            self.decoded_by_alias += 1;
        }
        if self.decoded_by_alias > 100 && self.decoded > 1000 {
            let all = self.decoded as f64;
            let allowed = 0.99 - 0.89 * ((all - LOW) / (HIGH - LOW)).clamp(0.0, 1.0);
            if self.decoded_by_alias as f64 / all > allowed {
                return Err(YamlError::ExcessiveAliasing);
            }
        }
        Ok(())
    }

    fn enter(&mut self) -> Result<(), YamlError> {
        self.depth += 1;
        // Only aliases can be deeper than the document itself.
        if self.depth > MAX_DEPTH { Err(YamlError::TooDeepForJson { bracket: '{' }) } else { Ok(()) }
    }

    fn through_alias<T>(
        &mut self,
        alias: NodeId,
        decode: impl FnOnce(&mut Self) -> Result<T, YamlError>,
    ) -> Result<T, YamlError> {
        if !self.open_aliases.insert(alias) {
            return Err(YamlError::SelfReference { line: self.nodes.line(alias) });
        }
        let out = decode(self)?;
        self.open_aliases.remove(&alias);
        Ok(out)
    }

    /// What a scalar node is; `Text` for anything quoted.
    fn scalar(&mut self, id: NodeId) -> Result<Scalar, YamlError> {
        let Node::Scalar { text, plain, tag } = self.nodes.get(id) else {
            return Ok(Scalar::Text);
        };
        if !self.open_aliases.is_empty() {
            self.aliased_bytes += text.len();
            if self.aliased_bytes > MAX_ALIASED_BYTES {
                return Err(YamlError::ExcessiveAliasing);
            }
        }
        match tag.as_deref() {
            None if *plain => Ok(Scalar::resolve(text)),
            None => Ok(Scalar::Text),
            // Differs from kube-apiserver: it decodes the bytes and replaces invalid UTF-8 in them.
            Some("binary") => Err(YamlError::Binary { line: self.nodes.line(id) }),
            Some(tag) => Scalar::resolve_tagged(text, tag),
        }
    }

    fn map(&mut self, children: &'n [NodeId], out: &mut Building) -> Result<(), YamlError> {
        self.enter()?;
        for pair in children.chunks_exact(2) {
            let (name, value) = (pair[0], pair[1]);
            if self.is_merge(name) {
                self.merge(value, out)?;
                continue;
            }
            let key = self.key(name)?;
            let decoded = self.value(value)?;
            let printed = if key.kind == KeyKind::Text { quote(&key.text) } else { key.text.clone() };
            if out.set(key, decoded) && self.duplicates.len() < MAX_DUPLICATES {
                let line = self.nodes.line(value);
                self.duplicates.push(format!("line {line}: key {printed} already set in map"));
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn key(&mut self, id: NodeId) -> Result<Key, YamlError> {
        self.count()?;
        let nodes = self.nodes;
        let text = match nodes.get(id) {
            Node::Alias(target) => return self.through_alias(id, |this| this.key(*target)),
            Node::Scalar { text, .. } => text,
            _ => return Err(YamlError::CompositeKey { line: nodes.line(id) }),
        };
        let line = nodes.line(id);
        let (text, kind) = match self.scalar(id)? {
            Scalar::Text | Scalar::Timestamp => (text.to_string(), KeyKind::Text),
            Scalar::Int(i) => (i.to_string(), KeyKind::Int),
            Scalar::Float(f) => (print_float_32(f), KeyKind::Float),
            Scalar::Bool(b) => (b.to_string(), KeyKind::Bool),
            Scalar::Null => return Err(YamlError::UnsupportedKey { line, go_type: "%!s(<nil>)" }),
            Scalar::Uint(_) => return Err(YamlError::UnsupportedKey { line, go_type: "uint64" }),
        };
        Ok(Key { text, kind })
    }

    /// An unquoted `<<`.
    fn is_merge(&self, id: NodeId) -> bool {
        match self.nodes.get(id) {
            Node::Scalar { text, plain, tag } => {
                text == "<<" && (*plain && tag.is_none() || tag.as_deref() == Some("merge"))
            }
            _ => false,
        }
    }

    /// Merges a map, or several (the first wins), at the position of `<<`: later members replace them.
    fn merge(&mut self, id: NodeId, out: &mut Building) -> Result<(), YamlError> {
        let nodes = self.nodes;
        match nodes.get(id) {
            Node::List(children) => children.iter().rev().try_for_each(|child| self.merge_one(*child, out)),
            _ => self.merge_one(id, out),
        }
    }

    fn merge_one(&mut self, id: NodeId, out: &mut Building) -> Result<(), YamlError> {
        let nodes = self.nodes;
        match nodes.get(id) {
            Node::Map(children) => {
                self.count()?;
                deep(|| self.map(children, out))
            }
            Node::Alias(target) if matches!(nodes.get(*target), Node::Map(_)) => {
                self.count()?;
                self.through_alias(id, |this| this.merge_one(*target, out))
            }
            _ => Err(YamlError::BadMerge),
        }
    }
}
