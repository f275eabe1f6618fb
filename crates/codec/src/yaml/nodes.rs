//! The parser's events as nodes that aliases can point to.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

use super::brackets::{Cuts, MAX_CUTS, Piece};
use super::{MAX_DEPTH, YamlError};

/// One document. Nodes refer to each other by position; the root is the first.
#[derive(Debug)]
pub(super) struct Nodes<'a> {
    nodes: Vec<Node<'a>>,
    lines: Vec<u32>,
    /// Where the resulting JSON would be too deep; other errors are reported first.
    too_deep: Option<YamlError>,
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

/// Where a piece of a text comes from.
#[derive(Clone, Copy)]
struct Origin {
    /// The line it starts in, from 1.
    line: usize,
    /// Collections around it, and how many of them are flow collections.
    open: usize,
    flow: usize,
}

/// Why parsing stopped.
enum Stop {
    /// At a bracket that is too deep, by its position.
    Bracket(usize),
    Error(YamlError),
}

impl From<YamlError> for Stop {
    fn from(error: YamlError) -> Stop {
        Stop::Error(error)
    }
}

impl<'a> Nodes<'a> {
    /// Reads up to the end of the first document and ignores the rest, as upstream does.
    pub fn read(text: &'a str) -> Result<Nodes<'a>, YamlError> {
        let mut out = Nodes { nodes: Vec::new(), lines: Vec::new(), too_deep: None };
        out.document(text, Origin { line: 1, open: 0, flow: 0 })?;
        out.too_deep.take().map_or(Ok(out), Err)
    }

    /// A whole text, or a piece of one. It recurses once per 255 levels of flow collections.
    fn document(&mut self, text: &'a str, origin: Origin) -> Result<(), YamlError> {
        let (nodes, mut cuts) = (self.nodes.len(), Cuts::none(text));
        let mut stop = self.events(text, &BTreeMap::new(), origin, &|text| text);
        for _ in 0..MAX_CUTS {
            let at = match stop {
                Ok(()) => return Ok(()),
                Err(Stop::Error(error)) => return Err(error),
                Err(Stop::Bracket(at)) => at,
            };
            // Lines are relative to the piece until its origin is added.
            cuts.add(at, origin.flow).map_err(|error| error.further_down(origin.line - 1))?;
            self.nodes.truncate(nodes);
            self.lines.truncate(nodes);
            let rest = cuts.rest();
            stop = self.events(&rest.text, &rest.pieces, origin, &|text| Cow::Owned(text.into_owned()));
        }
        match stop {
            Ok(()) => Ok(()),
            Err(Stop::Error(error)) => Err(error),
            Err(Stop::Bracket(_)) => Err(YamlError::TooManyBrackets { line: origin.line }),
        }
    }

    /// One run of the parser over a text, with the pieces put back.
    fn events<'t>(
        &mut self,
        text: &'t str,
        pieces: &BTreeMap<usize, Piece<'a>>,
        origin: Origin,
        keep: &dyn Fn(Cow<'t, str>) -> Cow<'a, str>,
    ) -> Result<(), Stop> {
        // Open collections, and which of them are flow collections.
        let mut open: Vec<(NodeId, bool)> = Vec::new();
        let mut anchors: HashMap<usize, NodeId> = HashMap::new();
        let mut source = Source { rest: text.chars(), next: 0 };
        let mut flow = origin.flow;
        let mut parser = Parser::new_from_str(text);
        while let Some(event) = parser.next_event() {
            let (event, span) = event.map_err(|error| match (error.marker().line(), error.info()) {
                (_, TOO_MANY_BRACKETS) => Stop::Bracket(error.marker().index()),
                (line, problem) => {
                    let line = origin.line + line.saturating_sub(1);
                    Stop::Error(YamlError::Syntax { line, problem: problem.to_owned() })
                }
            })?;
            let line = origin.line + span.start.line().saturating_sub(1);
            let id = self.nodes.len();
            let parent = open.last().map(|(parent, _)| *parent);
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
                        return Err(YamlError::Syntax { line, problem }.into());
                    }
                },
                Event::Scalar(text, style, anchor, tag) => {
                    if let Some(piece) = pieces.get(&span.start.index()) {
                        self.adopt(parent, id);
                        let line = origin.line + piece.line - 1;
                        self.document(piece.text, Origin { line, open: origin.open + open.len(), flow })?;
                        continue;
                    }
                    let tag = tag.and_then(|tag| name_of(&tag));
                    (Node::Scalar { text: keep(text), plain: style == ScalarStyle::Plain, tag }, anchor)
                }
                Event::SequenceStart(anchor, _) => (Node::List(Vec::new()), anchor),
                Event::MappingStart(anchor, _) => (Node::Map(Vec::new()), anchor),
            };
            let opens = matches!(node, Node::List(_) | Node::Map(_));
            self.nodes.push(node);
            self.lines.push(u32::try_from(line).unwrap_or(u32::MAX));
            self.adopt(parent, id);
            if anchor > 0 {
                anchors.insert(anchor, id);
            }
            if opens {
                let in_brackets = flow > 0 || matches!(source.at(span.start.index()), Some('[' | '{'));
                flow += usize::from(in_brackets);
                let depth = origin.open + open.len();
                if flow.max(depth + 1 - flow) > MAX_DEPTH {
                    return Err(YamlError::TooDeep { line: (line > 1).then_some(line) }.into());
                }
                if depth == MAX_DEPTH {
                    let bracket = if matches!(self.nodes[id], Node::List(_)) { '[' } else { '{' };
                    self.too_deep.get_or_insert(YamlError::TooDeepForJson { bracket });
                }
                open.push((id, in_brackets));
            }
        }
        Ok(())
    }

    fn adopt(&mut self, parent: Option<NodeId>, child: NodeId) {
        if let Some(Node::List(children) | Node::Map(children)) = parent.map(|parent| &mut self.nodes[parent])
        {
            children.push(child);
        }
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
