//! What an expression may cost at least and at most, from its types and the sizes its variables may have.

use std::collections::HashMap;
use std::sync::Arc;

use super::{
    CREATE_LIST, CREATE_MAP, CREATE_OBJECT, CallEstimate, CostEstimate, EstimatedCall, Node, REGEX_LENGTH,
    Range, SELECT, STRING_TRAVERSAL, SizeEstimate, SizeEstimator,
};
use crate::ast::{Call, Comprehension, Element, Entry, Expr, Id, Kind};
use crate::check::Checked;
use crate::environment::Environment;
use crate::types::Type;
use crate::value::Val;

/// Estimates a checked expression.
pub fn estimate(env: &Environment, checked: &Checked, sizes: &dyn SizeEstimator) -> CostEstimate {
    let mut estimator = Estimator {
        env,
        checked,
        sizes,
        paths: HashMap::new(),
        locals: Vec::new(),
        computed: HashMap::new(),
        entries: HashMap::new(),
    };
    estimator.cost(&checked.ast.root)
}

type Path = Vec<Arc<str>>;

/// Sizes of what a list or map holds.
#[derive(Clone, Copy)]
struct EntrySize {
    list: bool,
    key: SizeEstimate,
    value: SizeEstimate,
}

impl EntrySize {
    fn union(a: Option<EntrySize>, b: Option<EntrySize>) -> Option<EntrySize> {
        let (a, b) = (a?, b?);
        Some(EntrySize { list: a.list, key: a.key.union(b.key), value: a.value.union(b.value) })
    }
}

struct Local {
    name: Arc<str>,
    path: Path,
    size: Option<SizeEstimate>,
    entry: Option<EntrySize>,
}

struct Estimator<'e> {
    env: &'e Environment,
    checked: &'e Checked,
    sizes: &'e dyn SizeEstimator,
    /// Which variable's member a node reads.
    paths: HashMap<Id, Path>,
    locals: Vec<Local>,
    computed: HashMap<Id, SizeEstimate>,
    entries: HashMap<Id, EntrySize>,
}

fn items() -> Arc<str> {
    Arc::from("@items")
}
fn values() -> Arc<str> {
    Arc::from("@values")
}

impl Estimator<'_> {
    fn cost(&mut self, expr: &Expr) -> CostEstimate {
        object::deep(|| match &expr.kind {
            Kind::Unspecified | Kind::Literal(_) => Range::ZERO,
            Kind::Ident(name) => {
                let path = match self.local(name) {
                    Some(local) => local.path.clone(),
                    None => vec![Arc::clone(name)],
                };
                self.paths.insert(expr.id, path);
                Range::fixed(SELECT)
            }
            // A presence test costs what its operand costs.
            Kind::Select(select) if select.test => self.cost(&select.operand),
            Kind::Select(select) => {
                let mut sum = self.cost(&select.operand);
                if let Type::Map(_) | Type::Object(_) | Type::Param(_) | Type::Var(_) =
                    self.checked.type_of(select.operand.id)
                {
                    sum = sum + Range::fixed(SELECT);
                }
                let mut path = self.path(&select.operand);
                path.push(Arc::clone(&select.field));
                self.paths.insert(expr.id, path);
                sum
            }
            Kind::Call(call) => self.call(expr, call),
            Kind::List(elements) => self.list(expr.id, elements),
            Kind::Map(entries) => self.map(expr.id, entries),
            Kind::Struct(object) => object
                .fields
                .iter()
                .fold(Range::ZERO, |sum, field| sum + self.cost(&field.value))
                .add_fixed(CREATE_OBJECT),
            Kind::Comprehension(c) if is_bind(c) => self.bind(expr.id, c),
            Kind::Comprehension(c) => self.comprehension(expr.id, c),
        })
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| *local.name == *name)
    }
    fn path(&self, expr: &Expr) -> Path {
        if let Kind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expr.id).cloned().unwrap_or_default()
    }

    /// The size of a node's value, from what is known of it or its variable.
    fn size(&mut self, expr: &Expr) -> Option<SizeEstimate> {
        if let Some(size) = self.computed.get(&expr.id) {
            return Some(*size);
        }
        if let Some(size) = literal_size(expr) {
            return Some(size);
        }
        let path = self.path(expr);
        let ty = self.checked.type_of(expr.id);
        let node = Node { path: path.iter().map(|step| &**step).collect(), ty, size: None, literal: None };
        if let Some(size) = self.sizes.size(&node) {
            self.computed.insert(expr.id, size);
            return Some(size);
        }
        if is_scalar(ty) {
            return Some(Range::fixed(1));
        }
        match &expr.kind {
            Kind::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }
    fn size_or_unknown(&mut self, expr: &Expr) -> SizeEstimate {
        self.size(expr).unwrap_or(Range::UNKNOWN)
    }
    fn entry_size(&self, expr: &Expr) -> Option<EntrySize> {
        if let Some(entry) = self.entries.get(&expr.id) {
            return Some(*entry);
        }
        match &expr.kind {
            Kind::Ident(name) => self.local(name)?.entry,
            _ => None,
        }
    }
    fn set_size(&mut self, id: Id, size: Option<SizeEstimate>) {
        if let Some(size) = size {
            self.computed.insert(id, size);
        }
    }
    fn set_entry_size(&mut self, id: Id, entry: Option<EntrySize>) {
        if let Some(entry) = entry {
            self.entries.insert(id, entry);
        }
    }
    fn copy_sizes(&mut self, to: Id, from: &Expr) {
        let size = self.size(from);
        self.set_size(to, size);
        self.set_entry_size(to, self.entry_size(from));
    }

    fn list(&mut self, id: Id, elements: &[Element]) -> CostEstimate {
        let mut sum = Range::ZERO;
        let mut value = Range { min: if elements.is_empty() { 0 } else { u64::MAX }, max: 0 };
        for element in elements {
            sum = sum + self.cost(&element.value);
            value = value.union(self.size_or_unknown(&element.value));
        }
        self.entries.insert(id, EntrySize { list: true, key: Range::fixed(1), value });
        sum.add_fixed(CREATE_LIST)
    }

    fn map(&mut self, id: Id, entries: &[Entry]) -> CostEstimate {
        let mut sum = Range::ZERO;
        let nothing = Range { min: if entries.is_empty() { 0 } else { u64::MAX }, max: 0 };
        let (mut key, mut value) = (nothing, nothing);
        for entry in entries {
            sum = sum + self.cost(&entry.key);
            sum = sum + self.cost(&entry.value);
            key = key.union(self.size_or_unknown(&entry.key));
            value = value.union(self.size_or_unknown(&entry.value));
        }
        self.entries.insert(id, EntrySize { list: false, key, value });
        sum.add_fixed(CREATE_MAP)
    }

    fn push(&mut self, name: &Arc<str>, path: Path, size: Option<SizeEstimate>, entry: Option<EntrySize>) {
        self.locals.push(Local { name: Arc::clone(name), path, size, entry });
    }
    fn push_accumulator(&mut self, name: &Arc<str>, init: &Expr) {
        let path = self.path(init);
        let size = self.size(init);
        let entry = self.entry_size(init);
        self.push(name, path, size, entry);
    }

    fn comprehension(&mut self, id: Id, c: &Comprehension) -> CostEstimate {
        let mut sum = self.cost(&c.range) + self.cost(&c.init);
        let outer = self.locals.len();
        self.push_accumulator(&c.accumulator, &c.init);
        let inner = self.locals.len();
        let entry = self.entry_size(&c.range);
        let is_list = match entry {
            Some(entry) => entry.list,
            None => matches!(self.checked.type_of(c.range.id), Type::List(_)),
        };
        let path = self.path(&c.range);
        let step_into = |estimator: &mut Self, name: &Arc<str>, step: &str, value: bool| {
            let mut path = path.clone();
            path.push(Arc::from(step));
            let size = entry.map(|entry| if value { entry.value } else { entry.key });
            estimator.push(name, path, size, None);
        };
        match &c.second {
            Some(second) => {
                step_into(self, &c.variable, if is_list { "@indices" } else { "@keys" }, false);
                step_into(self, second, if is_list { "@items" } else { "@values" }, true);
            }
            None => step_into(self, &c.variable, if is_list { "@items" } else { "@keys" }, is_list),
        }
        let condition = self.cost(&c.condition);
        let step = self.cost(&c.step);
        self.locals.truncate(inner);
        sum = sum + self.cost(&c.result);
        self.locals.truncate(outer);
        let count = self.size_or_unknown(&c.range);
        sum = sum + count * (step + condition);
        match &c.init.kind {
            Kind::Literal(_) => {
                let size = self.size(&c.init);
                self.set_size(id, size);
            }
            Kind::List(_) | Kind::Map(_) => {
                self.set_size(id, Some(count));
                self.set_entry_size(id, self.entry_size(&c.step));
            }
            _ => {}
        }
        sum
    }

    fn bind(&mut self, id: Id, c: &Comprehension) -> CostEstimate {
        let sum = self.cost(&c.range) + self.cost(&c.init);
        let outer = self.locals.len();
        self.push_accumulator(&c.accumulator, &c.init);
        let sum = sum + self.cost(&c.result);
        self.locals.truncate(outer);
        self.copy_sizes(id, &c.result);
        sum
    }

    fn call(&mut self, expr: &Expr, call: &Call) -> CostEstimate {
        if &*call.function == "dyn"
            && let [arg] = &call.args[..]
        {
            let cost = self.cost(arg);
            self.copy_sizes(expr.id, arg);
            return cost.add_fixed(1);
        }
        let costs: Vec<CostEstimate> = call.args.iter().map(|arg| self.cost(arg)).collect();
        let overloads = self.checked.overloads(expr.id);
        if overloads.is_empty() {
            return Range::ZERO;
        }
        let mut sum = Range::ZERO;
        if let Some(target) = &call.target {
            sum = self.cost(target);
        }
        let paths: Vec<Path> = call.args.iter().chain(&call.target).map(|arg| self.node_path(arg)).collect();
        let sizes: Vec<Option<SizeEstimate>> =
            call.args.iter().chain(&call.target).map(|arg| self.size(arg)).collect();
        let checked = self.checked;
        let mut nodes: Vec<Node<'_>> = call
            .args
            .iter()
            .chain(&call.target)
            .zip(&paths)
            .zip(&sizes)
            .map(|((arg, path), size)| Node {
                path: path.iter().map(|step| &**step).collect(),
                ty: checked.type_of(arg.id),
                size: *size,
                literal: match &arg.kind {
                    Kind::Literal(value) => Some(value),
                    _ => None,
                },
            })
            .collect();
        let target = if call.target.is_some() { nodes.pop() } else { None };
        let mut cost = Range { min: u64::MAX, max: 0 };
        let mut size: Option<SizeEstimate> = None;
        for overload in overloads {
            let estimated = EstimatedCall {
                function: &call.function,
                overload,
                target: target.as_ref(),
                args: &nodes,
                sizes: self.sizes,
            };
            let one = self.overload(expr, call, &estimated, &costs);
            cost = cost.union(one.cost);
            if let Some(own) = one.result_size {
                size = Some(size.map_or(own, |size| size.union(own)));
            }
            let selected = match *overload {
                "index_list" => Some(items()),
                "index_map" => Some(values()),
                _ => None,
            };
            if let (Some(step), Some(operand)) = (selected, call.args.first()) {
                size = self.entry_size(operand).map(|entry| entry.value);
                let mut path = self.path(operand);
                path.push(step);
                self.paths.insert(expr.id, path);
            }
            if size.is_none() {
                size = self.size(expr);
            }
        }
        self.set_size(expr.id, size);
        sum + cost
    }

    /// The path estimators see: none through an accumulator.
    fn node_path(&self, expr: &Expr) -> Path {
        let path = self.path(expr);
        if path.first().is_some_and(|first| matches!(&**first, "@result" | "__result__")) {
            return Vec::new();
        }
        path
    }

    /// What one signature costs with its arguments.
    fn overload(
        &mut self,
        expr: &Expr,
        call: &Call,
        estimated: &EstimatedCall<'_>,
        costs: &[CostEstimate],
    ) -> CallEstimate {
        let args = costs.iter().fold(Range::ZERO, |sum, cost| sum + *cost);
        let function = self.env.function(&call.function);
        let of_overload = function
            .and_then(|function| function.overloads.iter().find(|own| own.id == estimated.overload))
            .and_then(|own| own.cost);
        for cost in [of_overload, function.and_then(|function| function.cost)].into_iter().flatten() {
            if let Some(own) = (cost.estimate)(estimated) {
                return CallEstimate { cost: own.cost + args, ..own };
            }
        }
        if let Some(cost) = opaque_equality(estimated) {
            return CallEstimate::from(cost + args);
        }
        let known = |node: Option<&Node<'_>>| node.and_then(|node| node.size).unwrap_or(Range::UNKNOWN);
        let arg = |index: usize| known(estimated.args.get(index));
        let target = known(estimated.target);
        let sized = |cost: CostEstimate, size: SizeEstimate| CallEstimate {
            cost: cost + args,
            result_size: Some(size),
        };
        match estimated.overload {
            "string_format" if estimated.target.is_some() => {
                CallEstimate::from(target.scale(STRING_TRAVERSAL) + args)
            }
            "string_to_bytes" => {
                let size = arg(0);
                sized(size.scale(STRING_TRAVERSAL), Range { min: size.min, max: size.max.wrapping_mul(4) })
            }
            "bytes_to_string" => {
                let size = arg(0);
                sized(size.scale(STRING_TRAVERSAL), Range { min: size.min / 4, max: size.max })
            }
            "strings_quote" => {
                let size = arg(0);
                let quoted =
                    Range { min: size.min.wrapping_add(2), max: size.max.wrapping_mul(2).wrapping_add(2) };
                sized(size.scale(STRING_TRAVERSAL), quoted)
            }
            "starts_with_string" | "ends_with_string" => {
                CallEstimate::from(arg(0).scale(STRING_TRAVERSAL) + args)
            }
            "in_list" => CallEstimate::from(arg(1).scale(1.0) + args),
            "matches_string" => {
                let text = (target + Range::fixed(1)).scale(STRING_TRAVERSAL);
                CallEstimate::from(text * arg(0).scale(REGEX_LENGTH) + args)
            }
            "contains_string" => {
                let cost = target.scale(STRING_TRAVERSAL) * arg(0).scale(STRING_TRAVERSAL);
                CallEstimate::from(cost + args)
            }
            "logical_or" | "logical_and" => {
                let (left, right) = (costs[0], costs[1]);
                CallEstimate::from(Range { min: left.min, max: (left + right).max })
            }
            "conditional" => {
                let size = arg(1).union(arg(2));
                let entry = EntrySize::union(self.entry_size(&call.args[1]), self.entry_size(&call.args[2]));
                self.set_entry_size(expr.id, entry);
                CallEstimate { cost: costs[0] + costs[1].union(costs[2]), result_size: Some(size) }
            }
            "add_string" | "add_bytes" | "add_list" => {
                let size = arg(0) + arg(1);
                let entry = EntrySize::union(self.entry_size(&call.args[0]), self.entry_size(&call.args[1]));
                self.set_entry_size(expr.id, entry);
                match estimated.overload {
                    "add_list" => sized(Range::fixed(1), size),
                    _ => sized(size.scale(STRING_TRAVERSAL), size),
                }
            }
            "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes"
            | "equals"
            | "not_equals" => {
                let max = arg(0).max.min(arg(1).max);
                let cost = Range { min: u64::from(max > 0), max }.scale(STRING_TRAVERSAL);
                CallEstimate::from(cost + args)
            }
            _ => CallEstimate::from(Range::fixed(1) + args),
        }
    }
}

/// `==` between values of the libraries' types.
fn opaque_equality(call: &EstimatedCall<'_>) -> Option<CostEstimate> {
    let [left, right] = call.args else { return None };
    if call.function != "_==_" || left.ty.name() != right.ty.name() {
        return None;
    }
    match left.ty {
        Type::Opaque(name, _) => matches!(name.as_str(), "net.IP" | "net.CIDR").then_some(Range::fixed(1)),
        Type::Object(name) => match name.as_str() {
            "kubernetes.Quantity"
            | "kubernetes.Semver"
            | "kubernetes.authorization.Authorizer"
            | "kubernetes.authorization.PathCheck"
            | "kubernetes.authorization.GroupCheck"
            | "kubernetes.authorization.ResourceCheck"
            | "kubernetes.authorization.Decision" => Some(Range::fixed(1)),
            "kubernetes.NamedFormat" => Some(Range { min: 1, max: 64 }.scale(STRING_TRAVERSAL)),
            "kubernetes.URL" => {
                let size = right.size.unwrap_or(Range::fixed(1));
                Some(Range { min: 1, max: size.max }.scale(STRING_TRAVERSAL))
            }
            _ => None,
        },
        _ => None,
    }
}

/// A loop that never runs, for the variable it declares.
fn is_bind(c: &Comprehension) -> bool {
    matches!(&c.range.kind, Kind::List(elements) if elements.is_empty())
        && matches!(&c.condition.kind, Kind::Literal(Val::Bool(false)))
        && &*c.accumulator != "__result__"
}

fn literal_size(expr: &Expr) -> Option<SizeEstimate> {
    Some(Range::fixed(match &expr.kind {
        Kind::Literal(value) => value.cost_size(),
        Kind::List(elements) => elements.len() as u64,
        Kind::Map(entries) => entries.len() as u64,
        _ => return None,
    }))
}

fn is_scalar(ty: &Type) -> bool {
    match ty {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Wrapper(inner) => is_scalar(inner),
        other => other.as_optional().is_some_and(is_scalar),
    }
}
