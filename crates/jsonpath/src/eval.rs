//! Nodes over a tree: a list of values in, a list of values out.

use std::cmp::Ordering;

use object::Value;

use super::{End, Filter, Node, Operator, Slice};

/// Values looked at in one evaluation. The largest object has fewer, and two recursive descents in one path would
/// look at their square.
const MAX_VISITS: usize = 1_000_000;

type Values<'a> = Vec<&'a Value>;
/// An error carries what a filter for existence still counts: upstream returns it beside the error.
type Outcome<'a> = Result<Values<'a>, Values<'a>>;

pub(super) fn find<'a>(blocks: &'a [Vec<Node>], object: &'a Value) -> Option<Values<'a>> {
    let mut eval = Eval { visits: 0 };
    let mut found = None;
    for block in blocks {
        let values = eval.list(vec![object], block).ok()?;
        found.get_or_insert(values);
    }
    found.filter(|_| !eval.is_exhausted())
}

struct Eval {
    visits: usize,
}

impl Eval {
    fn is_exhausted(&self) -> bool {
        self.visits > MAX_VISITS
    }

    /// Before so many values are looked at: whether they may be.
    fn spend(&mut self, visits: usize) -> bool {
        self.visits = self.visits.saturating_add(visits);
        !self.is_exhausted()
    }

    fn list<'a>(&mut self, input: Values<'a>, nodes: &'a [Node]) -> Outcome<'a> {
        nodes.iter().try_fold(input, |values, node| self.node(values, node))
    }

    fn node<'a>(&mut self, mut input: Values<'a>, node: &'a Node) -> Outcome<'a> {
        if !self.spend(input.len() + 1) {
            return Err(Vec::new());
        }
        match node {
            Node::Field(name) => {
                // A map is searched from end to end.
                if !self.spend(input.iter().map(|value| width(value)).sum()) {
                    return Err(Vec::new());
                }
                input.retain_mut(|value| value.get(name).map(|member| *value = member).is_some());
                Ok(input)
            }
            Node::Constant(text @ Value::Str(_)) => Ok(vec![text]),
            Node::Constant(constant) => Ok(vec![constant; input.len()]),
            Node::Slice(slice) => self.slice(input, *slice),
            Node::Wildcard => {
                let mut out = Vec::new();
                for value in input {
                    if !self.spend(width(value)) {
                        return Err(Vec::new());
                    }
                    children(value, &mut out);
                }
                Ok(out)
            }
            Node::Recursive => Ok(self.descend(input)),
            Node::Union(parts) => {
                let mut out = Vec::new();
                for part in parts {
                    match self.list(input.clone(), part) {
                        Ok(values) => out.extend(values),
                        Err(_) => return Err(input),
                    }
                }
                Ok(out)
            }
            Node::Filter(filter) => self.filter(input, filter),
            // Differs from kube-apiserver: `range` shows nothing. There it shows something in the first row only.
            Node::Identifier => Err(input),
        }
    }

    fn slice<'a>(&mut self, input: Values<'a>, slice: Slice) -> Outcome<'a> {
        let mut out = Vec::new();
        for value in &input {
            let list = match value {
                Value::Null => continue,
                Value::List(list) => list,
                _ => return Err(input),
            };
            let Some(range) = range_of(slice, list.len()) else { return Err(input) };
            if range.is_empty() {
                return Ok(out);
            }
            if !self.spend(range.len()) {
                return Err(Vec::new());
            }
            match slice.step.map_or(Some(1), |step| usize::try_from(step).ok().filter(|step| *step > 0)) {
                Some(step) => out.extend(list[range].iter().step_by(step)),
                None => return Err(input),
            }
        }
        Ok(out)
    }

    /// Every value that has something inside, from the outside in. A text has its bytes inside.
    // Differs from kube-apiserver: those bytes are no values themselves, here and for wildcards.
    fn descend<'a>(&mut self, input: Values<'a>) -> Values<'a> {
        let (mut out, mut open) = (Vec::new(), input);
        open.reverse();
        while let Some(value) = open.pop() {
            if !self.spend(width(value) + 1) {
                break;
            }
            let before = open.len();
            children(value, &mut open);
            open[before..].reverse();
            if open.len() > before || value.as_str().is_some_and(|text| !text.is_empty()) {
                out.push(value);
            }
        }
        out
    }

    fn filter<'a>(&mut self, input: Values<'a>, filter: &'a Filter) -> Outcome<'a> {
        let mut out = Vec::new();
        for value in &input {
            let Value::List(list) = value else { return Err(input) };
            for item in list {
                let left = self.list(vec![item], &filter.left);
                let passes = match &filter.comparison {
                    None => Ok(!left.unwrap_or_else(|values| values).is_empty()),
                    Some((operator, right)) => match left {
                        Ok(left) if left.is_empty() => Ok(false),
                        Ok(left) => self.compare(&left, *operator, item, right),
                        Err(_) => Err(()),
                    },
                };
                match passes {
                    Ok(true) => out.push(item),
                    Ok(false) => {}
                    Err(()) => return Err(input),
                }
            }
        }
        Ok(out)
    }

    fn compare<'a>(
        &mut self,
        left: &[&Value],
        operator: Operator,
        item: &'a Value,
        right: &'a [Node],
    ) -> Result<bool, ()> {
        let [left] = left else { return Err(()) };
        let right = self.list(vec![item], right).map_err(|_| ())?;
        let right = match right[..] {
            [] => return Ok(false),
            [right] => right,
            _ => return Err(()),
        };
        let ordering = order(left, right).ok_or(())?;
        // Booleans have no order.
        let ordered = matches!(operator, Operator::Equal | Operator::NotEqual);
        if !ordered && matches!(left, Value::Bool(_)) {
            return Err(());
        }
        match operator {
            Operator::Equal => Ok(ordering.is_eq()),
            Operator::NotEqual => Ok(ordering.is_ne()),
            Operator::Less => Ok(ordering.is_lt()),
            Operator::LessEqual => Ok(ordering.is_le()),
            Operator::Greater => Ok(ordering.is_gt()),
            Operator::GreaterEqual => Ok(ordering.is_ge()),
            Operator::Unknown => Err(()),
        }
    }
}

/// Only values of one kind compare; `None` for others. Whole numbers and floats are two kinds.
fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Str(a), Value::Str(b)) => Some(a.cmp(b)),
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

fn children<'a>(value: &'a Value, out: &mut Values<'a>) {
    match value {
        Value::List(list) => out.extend(list),
        Value::Map(map) => out.extend(map.iter().map(|(_, member)| member)),
        _ => {}
    }
}

fn width(value: &Value) -> usize {
    match value {
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        _ => 0,
    }
}

/// The indices of a slice; `None` if they are out of bounds.
fn range_of(slice: Slice, len: usize) -> Option<std::ops::Range<usize>> {
    let length = i64::try_from(len).ok()?;
    let given = slice.start.unwrap_or(0);
    let start = if given < 0 { given.saturating_add(length) } else { given };
    let end = match slice.end {
        End::Open => length,
        End::At(end) if end < 0 => end.saturating_add(length),
        End::At(end) => end,
        End::AfterStart if given < 0 => given.saturating_add(1).saturating_add(length),
        End::AfterStart => given.saturating_add(1),
    };
    // Nothing is asked for: no bound is checked.
    if start == end {
        return Some(0..0);
    }
    let (start, end) = (usize::try_from(start).ok()?, usize::try_from(end).ok()?);
    (start < len && end <= len && start <= end).then_some(start..end)
}
