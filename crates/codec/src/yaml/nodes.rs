//! The parser's events as nodes that aliases can point to.

use std::borrow::Cow;
use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

use super::{MAX_DEPTH, YamlError};

/// One document. Nodes refer to each other by position; the root is the first.
#[derive(Debug)]
pub(super) struct Nodes<'a> {
    nodes: Vec<Node<'a>>,
    lines: Vec<u32>,
}

pub(super) type NodeId = usize;

#[derive(Debug)]
pub(super) enum Node<'a> {
    Scalar {
        text: Cow<'a, str>,
        plain: bool,
        tag: Option<Box<str>>,
    },
    List(Vec<NodeId>),
    /// Names and values in turn.
    Map(Vec<NodeId>),
    Alias(NodeId),
}

impl<'a> Nodes<'a> {
    /// Reads up to the end of the first document; what follows is not looked at, as upstream does.
    pub fn read(text: &'a str) -> Result<Nodes<'a>, YamlError> {
        let mut out = Nodes { nodes: Vec::new(), lines: Vec::new() };
        // Those that are not ended, and which of them stand in brackets.
        let mut open: Vec<(NodeId, bool)> = Vec::new();
        let mut anchors: HashMap<usize, NodeId> = HashMap::new();
        let mut source = Source { rest: text.chars(), next: 0 };
        let mut flow = 0;
        let mut too_deep = None;
        let mut parser = Parser::new_from_str(text);
        while let Some(event) = parser.next_event() {
            let (event, span) = event.map_err(|error| match (error.marker().line(), error.info()) {
                (line, TOO_MANY_BRACKETS) => too_many_brackets(text, error.marker().index(), line),
                (line, problem) => YamlError::Syntax { line, problem: problem.to_owned() },
            })?;
            let (node, anchor) = match event {
                Event::Nothing | Event::StreamStart | Event::DocumentStart(_) => continue,
                Event::StreamEnd | Event::DocumentEnd => break,
                Event::SequenceEnd | Event::MappingEnd => {
                    flow -= usize::from(open.pop().is_some_and(|(_, in_brackets)| in_brackets));
                    continue;
                }
                Event::Alias(anchor) => match anchors.get(&anchor) {
                    Some(target) => (Node::Alias(*target), 0),
                    None => {
                        let problem = "unknown anchor referenced".to_owned();
                        return Err(YamlError::Syntax { line: span.start.line(), problem });
                    }
                },
                Event::Scalar(text, style, anchor, tag) => {
                    let tag = tag.and_then(|tag| name_of(&tag));
                    (Node::Scalar { text, plain: style == ScalarStyle::Plain, tag }, anchor)
                }
                Event::SequenceStart(anchor, _) => (Node::List(Vec::new()), anchor),
                Event::MappingStart(anchor, _) => (Node::Map(Vec::new()), anchor),
            };
            let id = out.nodes.len();
            let opens = matches!(node, Node::List(_) | Node::Map(_));
            out.nodes.push(node);
            out.lines.push(u32::try_from(span.start.line()).unwrap_or(u32::MAX));
            if let Some(Node::List(children) | Node::Map(children)) =
                open.last().map(|(parent, _)| &mut out.nodes[*parent])
            {
                children.push(id);
            }
            if anchor > 0 {
                anchors.insert(anchor, id);
            }
            if opens {
                let in_brackets = flow > 0 || matches!(source.at(span.start.index()), Some('[' | '{'));
                flow += usize::from(in_brackets);
                if flow.max(open.len() + 1 - flow) > MAX_DEPTH {
                    let line = span.start.line();
                    return Err(YamlError::TooDeep { line: (line > 1).then_some(line) });
                }
                if open.len() == MAX_DEPTH {
                    let bracket = if matches!(out.nodes[id], Node::List(_)) { '[' } else { '{' };
                    too_deep.get_or_insert(YamlError::TooDeepForJson { bracket });
                }
                open.push((id, in_brackets));
            }
        }
        too_deep.map_or(Ok(out), Err)
    }

    pub fn root(&self) -> Option<NodeId> {
        (!self.nodes.is_empty()).then_some(0)
    }
    pub fn get(&self, id: NodeId) -> &Node<'a> {
        &self.nodes[id]
    }
    pub fn line(&self, id: NodeId) -> usize {
        self.lines[id] as usize
    }
}

/// What the parser says of the 256th open bracket.
const TOO_MANY_BRACKETS: &str = "recursion limit exceeded";

/// Upstream's own bound, as far as the brackets that follow can tell without reading what stands between them.
fn too_many_brackets(text: &str, from: usize, line: usize) -> YamlError {
    let mut open = usize::from(u8::MAX);
    let mut here = line;
    for c in text.chars().skip(from) {
        match c {
            '[' | '{' => open += 1,
            ']' | '}' => open = open.saturating_sub(1),
            '\n' => here += 1,
            _ => {}
        }
        if open > MAX_DEPTH {
            return YamlError::TooDeep { line: (here > 1).then_some(here) };
        }
    }
    YamlError::TooManyBrackets { line }
}

/// Characters by their position, which only grows.
struct Source<'a> {
    rest: std::str::Chars<'a>,
    next: usize,
}

impl Source<'_> {
    fn at(&mut self, index: usize) -> Option<char> {
        let skipped = index.checked_sub(self.next)?;
        self.next = index + 1;
        self.rest.nth(skipped)
    }
}

/// `str` of `!!str`, `!x` of another; none for the bare `!`.
fn name_of(tag: &Tag) -> Option<Box<str>> {
    let full = format!("{}{}", tag.handle, tag.suffix);
    match full.strip_prefix("tag:yaml.org,2002:") {
        Some(name) => Some(name.into()),
        None if full == "!" => None,
        None => Some(full.into()),
    }
}
