//! Writes YAML like `kubectl get -o yaml`: block style, sorted names, as few quotes as possible,
//! lines folded after 80 characters.

use object::{Map, Value};

use super::order;
use super::scalar::{Scalar, is_base_60, print_float, whole};
use crate::json;

/// Lines end at the first space after this column.
const WIDTH: usize = 80;
const INDENT: usize = 2;
/// Levels that are indented.
const MAX_INDENTED: usize = 128;
/// Longer names are written with an explicit `? `.
const SIMPLE_KEY_BYTES: usize = 128;

/// Appends the value as one document.
///
/// Reading it back gives the same value, but for floats without a fraction: they are written, and read, as integers.
pub fn write(value: &Value, out: &mut Vec<u8>) {
    let mut emitter = Emitter { out, column: 0, indent: None, at_space: true, at_indent: true };
    emitter.node(value, Context::Root);
    if emitter.column > 0 {
        emitter.line_break();
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Context {
    Root,
    Item,
    Value,
    /// A name before its colon, on one line.
    SimpleKey,
}

#[derive(Clone, Copy, PartialEq)]
enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

struct Emitter<'a> {
    out: &'a mut Vec<u8>,
    /// Characters written on this line.
    column: usize,
    /// `None` before the first collection.
    indent: Option<usize>,
    /// The last thing written was white space, so an indicator needs none before it.
    at_space: bool,
    /// This line has only indentation and indicators such as `- ` so far.
    at_indent: bool,
}

impl Emitter<'_> {
    fn node(&mut self, value: &Value, context: Context) {
        match value {
            Value::Null => self.scalar("null", Style::Plain, context),
            Value::Bool(b) => self.scalar(if *b { "true" } else { "false" }, Style::Plain, context),
            Value::Int(i) => self.scalar(&i.to_string(), Style::Plain, context),
            Value::Float(f) => self.scalar(&number(*f), Style::Plain, context),
            Value::Str(text) => self.scalar(text, style_of(text, context), context),
            Value::List(list) if list.is_empty() => self.indicator("[]", true, false),
            Value::Map(_) | Value::List(_) if self.indent >= Some(INDENT * MAX_INDENTED) => self.flow(value),
            Value::List(list) => self.list(list, context),
            Value::Map(map) if map.is_empty() => self.indicator("{}", true, false),
            Value::Map(map) => self.map(map),
            Value::Raw(text) => self.node(&json::expanded(text), context),
        }
    }

    /// Flow style (JSON, which is YAML too) on the current line.
    // Differs from kube-apiserver, for the sake of size, as indented JSON does.
    fn flow(&mut self, value: &Value) {
        let mut text = Vec::new();
        json::write(value, &mut text);
        self.indicator(&String::from_utf8_lossy(&text), true, false);
    }

    /// Items of a list that is a member are not indented below its name.
    fn list(&mut self, list: &[Value], context: Context) {
        let outer = self.indent;
        let flush = context == Context::Value && !self.at_indent;
        self.indent = Some(match outer {
            None => 0,
            Some(indent) if flush => indent,
            Some(indent) => indent + INDENT,
        });
        for item in list {
            self.new_line();
            self.indicator("-", true, true);
            self.node(item, Context::Item);
        }
        self.indent = outer;
    }

    fn map(&mut self, map: &Map) {
        let outer = self.indent;
        self.indent = Some(outer.map_or(0, |indent| indent + INDENT));
        let mut members: Vec<_> = map.iter().collect();
        order::sort(&mut members, |(name, _)| name.as_str());
        for (name, value) in members {
            self.new_line();
            if name.len() <= SIMPLE_KEY_BYTES && !name.contains(is_break) {
                self.scalar(name, style_of(name, Context::SimpleKey), Context::SimpleKey);
                self.indicator(":", false, false);
            } else {
                self.indicator("?", true, true);
                self.scalar(name, style_of(name, Context::Value), Context::Value);
                self.new_line();
                self.indicator(":", true, true);
            }
            self.node(value, Context::Value);
        }
        self.indent = outer;
    }

    fn scalar(&mut self, text: &str, style: Style, context: Context) {
        let outer = self.indent;
        self.indent = Some(outer.map_or(INDENT, |indent| indent + INDENT));
        let folds = context != Context::SimpleKey;
        match style {
            Style::Plain => self.plain(text, folds),
            Style::Single => self.single_quoted(text, folds),
            Style::Double => self.double_quoted(text, folds),
            Style::Literal => self.literal(text),
        }
        self.indent = outer;
    }

    fn plain(&mut self, text: &str, folds: bool) {
        if !self.at_space {
            self.put(' ');
        }
        self.folded(text, folds, |this, c| this.put(c));
    }

    fn single_quoted(&mut self, text: &str, folds: bool) {
        self.indicator("'", true, false);
        self.folded(text, folds, |this, c| {
            if c == '\'' {
                this.put('\'');
            }
            this.put(c);
        });
        self.indicator("'", false, false);
    }

    /// Writes text, breaking lines that are too long at single spaces inside it.
    fn folded(&mut self, text: &str, folds: bool, put: impl Fn(&mut Self, char)) {
        let mut after_space = false;
        let mut chars = text.char_indices().peekable();
        while let Some((i, c)) = chars.next() {
            if c == ' ' {
                let inside = i > 0 && chars.peek().is_some_and(|(_, next)| *next != ' ');
                if folds && !after_space && self.column > WIDTH && inside {
                    self.new_line();
                } else {
                    self.put(' ');
                }
                after_space = true;
            } else {
                put(self, c);
                self.at_indent = false;
                after_space = false;
            }
        }
        self.at_space = false;
        self.at_indent = false;
    }

    fn double_quoted(&mut self, text: &str, folds: bool) {
        self.indicator("\"", true, false);
        let mut after_space = false;
        let mut chars = text.char_indices().peekable();
        while let Some((i, c)) = chars.next() {
            if c == ' ' {
                if folds && !after_space && self.column > WIDTH && i > 0 && chars.peek().is_some() {
                    self.new_line();
                    if chars.peek().is_some_and(|(_, next)| *next == ' ') {
                        self.put('\\');
                    }
                } else {
                    self.put(' ');
                }
                after_space = true;
                continue;
            }
            if c == '"' || c == '\\' || !is_printable(c) || is_break(c) {
                self.escape(c);
            } else {
                self.put(c);
            }
            after_space = false;
        }
        self.indicator("\"", false, false);
    }

    fn escape(&mut self, c: char) {
        let short = match c {
            '\0' => "0",
            '\u{7}' => "a",
            '\u{8}' => "b",
            '\t' => "t",
            '\n' => "n",
            '\u{b}' => "v",
            '\u{c}' => "f",
            '\r' => "r",
            '\u{1b}' => "e",
            '"' => "\"",
            '\\' => "\\",
            '\u{85}' => "N",
            '\u{2028}' => "L",
            '\u{2029}' => "P",
            _ => "",
        };
        let code = c as u32;
        let long = match code {
            _ if !short.is_empty() => short.to_owned(),
            0..=0xff => format!("x{code:02X}"),
            0x100..=0xffff => format!("u{code:04X}"),
            _ => format!("U{code:08X}"),
        };
        self.put('\\');
        long.chars().for_each(|c| self.put(c));
    }

    /// `|` and the lines as they are. The hints say how much is indentation where the text starts with a space,
    /// and what becomes of line breaks at the end.
    fn literal(&mut self, text: &str) {
        self.indicator("|", true, false);
        if text.starts_with([' ', '\n']) {
            self.indicator("2", false, false);
        }
        if !text.ends_with('\n') {
            self.indicator("-", false, false);
        } else if text == "\n" || text.ends_with("\n\n") {
            self.indicator("+", false, false);
        }
        self.line_break();
        self.at_space = true;
        let mut fresh = true;
        for c in text.chars() {
            if c == '\n' {
                self.line_break();
                fresh = true;
                continue;
            }
            if fresh {
                self.new_line();
            }
            self.put(c);
            self.at_indent = false;
            fresh = false;
        }
    }

    fn indicator(&mut self, text: &str, needs_space: bool, indents: bool) {
        if needs_space && !self.at_space {
            self.put(' ');
        }
        text.chars().for_each(|c| self.put(c));
        self.at_space = false;
        self.at_indent = self.at_indent && indents;
    }

    /// To the indentation of the next line, unless this one has nothing else yet.
    fn new_line(&mut self) {
        let indent = self.indent.unwrap_or(0);
        if !self.at_indent || self.column > indent || (self.column == indent && !self.at_space) {
            self.line_break();
        }
        while self.column < indent {
            self.put(' ');
        }
        self.at_space = true;
        self.at_indent = true;
    }

    fn line_break(&mut self) {
        self.out.push(b'\n');
        self.column = 0;
        self.at_indent = true;
    }

    fn put(&mut self, c: char) {
        self.out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        self.column += 1;
    }
}

/// The simplest style that can represent the text.
fn style_of(text: &str, context: Context) -> Style {
    let shape = Shape::of(text);
    if text.contains('\n') {
        return if shape.literal && context != Context::SimpleKey { Style::Literal } else { Style::Double };
    }
    // Differs from kube-apiserver: it writes the name `<<` without quotes, and reads it back as a merge.
    if Scalar::resolve(text) != Scalar::Text || is_base_60(text) || text == "<<" || !shape.single {
        return Style::Double;
    }
    if shape.plain { Style::Plain } else { Style::Single }
}

/// The styles in which a text can be written.
struct Shape {
    plain: bool,
    single: bool,
    literal: bool,
}

impl Shape {
    fn of(text: &str) -> Shape {
        let mut out = Shape { plain: true, single: true, literal: true };
        if text.starts_with("---") || text.starts_with("...") || text.starts_with(' ') || text.ends_with(' ')
        {
            out.plain = false;
        }
        if text.ends_with(' ') {
            out.literal = false;
        }
        let mut before = '\n';
        let mut chars = text.chars().peekable();
        let mut first = true;
        while let Some(c) = chars.next() {
            let ends_word = chars.peek().is_none_or(|next| {
                matches!(next, ' ' | '\t' | '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
            });
            let indicates = match c {
                '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@'
                | '`'
                    if first =>
                {
                    true
                }
                '?' | '-' if first => ends_word,
                ':' => ends_word,
                '#' => matches!(before, ' ' | '\t' | '\n'),
                _ => false,
            };
            if indicates {
                out.plain = false;
            }
            // Differs from kube-apiserver: it takes the separators of YAML 1.1 for line breaks and cannot read back
            // what it then writes; we escape them.
            let special = !is_printable(c) || (is_break(c) && c != '\n');
            if special || (c == '\n' && before == ' ') {
                out = Shape { plain: false, single: false, literal: false };
            }
            if c == ' ' && before == '\n' && !first {
                out.plain = false;
                out.single = false;
            }
            before = c;
            first = false;
        }
        out
    }
}

fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// What upstream's library writes unescaped: the basic plane without controls.
fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{fffd}') && c != '\u{feff}'
}

/// A float as its JSON text reads in YAML.
fn number(f: f64) -> String {
    match whole(f) {
        Some(i) => i.to_string(),
        None => print_float(f),
    }
}
