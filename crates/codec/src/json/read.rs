//! The JSON reader: one pass from bytes to a tree, names interned by the schema on the way.

mod strings;

use std::borrow::Cow;

use catalog::{Name, Schema, Shape, StructType, TypeId};
use object::normalise::FieldMemo;
use object::{LEVELS_AT_ONCE, Map, Value, deep, discard};
use thiserror::Error;

/// Maximum nesting of objects and arrays: Go's limit.
pub const MAX_DEPTH: u32 = object::MAX_DEPTH as u32;

/// Why a text is not JSON, worded as Go's scanner; clients show and parse these messages.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParseError {
    #[error("unexpected end of JSON input")]
    UnexpectedEnd,
    /// The character as Go quotes it, and what the scanner was doing.
    #[error("invalid character {found} {doing}")]
    InvalidCharacter { found: String, doing: &'static str },
    #[error("json: cannot unmarshal number {0} into Go value of type float64")]
    NumberOutOfRange(String),
}

/// Parses exactly one value. With a hint, names of struct fields are clones of the
/// catalogue's (no allocation); the value itself is not checked against the schema.
pub fn parse(bytes: &[u8], hint: Option<(&Schema, TypeId)>) -> Result<Value, ParseError> {
    read(bytes, hint, false)
}

/// As [`parse`], of what the store holds: `fieldsV1` stay text. They are a third of most objects, and few writes look into them.
pub fn parse_stored(bytes: &[u8], hint: (&Schema, TypeId)) -> Result<Value, ParseError> {
    read(bytes, Some(hint), true)
}

/// The map that [`Value::Raw`] stands for.
pub fn expanded(text: &str) -> Value {
    parse(text.as_bytes(), None).unwrap_or_else(|_| Value::map())
}

fn read(bytes: &[u8], hint: Option<(&Schema, TypeId)>, keeps_fields: bool) -> Result<Value, ParseError> {
    let root;
    let (schema, shape) = match hint {
        Some((schema, ty)) => {
            root = Shape::Struct(ty);
            (Some(schema), Some(&root))
        }
        None => (None, None),
    };
    let mut reader = Reader {
        bytes,
        text: std::str::from_utf8(bytes).ok(),
        at: 0,
        depth: 0,
        look_at: LEVELS_AT_ONCE,
        schema,
        keeps_fields,
        out_of_range: None,
        memo: FieldMemo::new(),
        entries: Vec::new(),
        items: Vec::new(),
    };
    reader.skip_space();
    let read = reader.value(shape);
    // Iteratively: the part read before an error may be deep as well.
    reader.items.drain(..).for_each(discard);
    let value = read.map_err(|bad| *bad)?;
    reader.skip_space();
    let error = match (reader.peek(), reader.out_of_range) {
        (None, None) => return Ok(value),
        (Some(c), _) => *unexpected(c, "after top-level value"),
        (None, Some(number)) => ParseError::NumberOutOfRange(number),
    };
    discard(value);
    Err(error)
}

/// Boxed on the way up, so that the values that pass the same way stay small.
type Bad = Box<ParseError>;

struct Reader<'a> {
    bytes: &'a [u8],
    /// The same input when all of it is UTF-8, so that strings need no second check.
    text: Option<&'a str>,
    at: usize,
    depth: u32,
    /// The depth at which to check the stack next.
    look_at: u32,
    schema: Option<&'a Schema>,
    /// `fieldsV1` stay text.
    keeps_fields: bool,
    /// The first number that does not fit a float.
    out_of_range: Option<String>,
    memo: FieldMemo,
    /// Members and elements of all open containers; a closed one is moved out at its exact size.
    entries: Vec<(Name, Value)>,
    items: Vec<Value>,
}

impl<'a> Reader<'a> {
    #[inline(always)]
    fn value(&mut self, hint: Option<&Shape>) -> Result<Value, Bad> {
        if self.depth == self.look_at {
            return self.with_room(hint);
        }
        match self.peek() {
            None => Err(ended()),
            Some(b'"') => {
                self.at += 1;
                Ok(Value::Str(self.string()?.into_owned()))
            }
            Some(b'{') => self.object(hint),
            Some(b'[') => self.array(hint),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal(b"true", &TRUE, Value::Bool(true)),
            Some(b'f') => self.literal(b"false", &FALSE, Value::Bool(false)),
            Some(b'n') => self.literal(b"null", &NULL, Value::Null),
            Some(c) => Err(unexpected(c, "looking for beginning of value")),
        }
    }

    /// [`value`](Reader::value) after checking the stack.
    #[cold]
    #[inline(never)]
    fn with_room(&mut self, hint: Option<&Shape>) -> Result<Value, Bad> {
        self.look_at += LEVELS_AT_ONCE;
        let read = deep(|| self.value(hint));
        self.look_at -= LEVELS_AT_ONCE;
        read
    }

    fn object(&mut self, hint: Option<&Shape>) -> Result<Value, Bad> {
        self.enter(b'{')?;
        let start = self.entries.len();
        let mut names = Names::of(self.schema, hint);
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.leave();
            return Ok(Value::map());
        }
        loop {
            match self.peek() {
                Some(b'"') => self.at += 1,
                Some(c) => return Err(unexpected(c, "looking for beginning of object key string")),
                None => return Err(ended()),
            }
            let key = self.string()?;
            let (name, inner) = names.intern(&mut self.memo, key);
            self.skip_space();
            match self.peek() {
                Some(b':') => self.at += 1,
                Some(c) => return Err(unexpected(c, "after object key")),
                None => return Err(ended()),
            }
            self.skip_space();
            let text =
                if self.keeps_fields && name == "fieldsV1" { self.compact_object(inner) } else { None };
            let value = match text {
                Some(text) => Value::Raw(text.into()),
                None => self.value(inner)?,
            };
            self.entries.push((name, value));
            self.skip_space();
            match self.peek() {
                Some(b',') => {
                    self.at += 1;
                    self.skip_space();
                }
                Some(b'}') => break,
                Some(c) => return Err(unexpected(c, "after object key:value pair")),
                None => return Err(ended()),
            }
        }
        self.leave();
        let read = self.entries.len() - start;
        // Room for the fields that defaulting adds.
        let more = if matches!(names, Names::Struct(..)) { read / 2 + 2 } else { 0 };
        let mut map = Map::with_capacity(read + more);
        map.entries_mut().extend(self.entries.drain(start..));
        Ok(Value::Map(map))
    }

    /// The text of an object without white space, of a field that may be anything; otherwise it is read as any other.
    fn compact_object(&mut self, hint: Option<&Shape>) -> Option<&'a str> {
        let (text, start) = (self.text?, self.at);
        if self.peek() != Some(b'{') || hint != Some(&Shape::Any) {
            return None;
        }
        let (mut depth, mut at) = (0_usize, start);
        loop {
            match self.bytes.get(at)? {
                b'{' => depth += 1,
                b'}' => {
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                }
                b'"' => {
                    at += 1;
                    loop {
                        match self.bytes.get(at)? {
                            b'"' => break,
                            b'\\' => at += 2,
                            _ => at += 1,
                        }
                    }
                }
                b':' | b',' => {}
                _ => return None,
            }
            at += 1;
        }
        self.at = at + 1;
        text.get(start..=at)
    }

    fn array(&mut self, hint: Option<&Shape>) -> Result<Value, Bad> {
        self.enter(b'[')?;
        let start = self.items.len();
        let inner = match hint {
            Some(Shape::List(inner)) => Some(&**inner),
            _ => None,
        };
        self.skip_space();
        if self.peek() == Some(b']') {
            self.leave();
            return Ok(Value::List(Vec::new()));
        }
        loop {
            let value = self.value(inner)?;
            self.items.push(value);
            self.skip_space();
            match self.peek() {
                Some(b',') => {
                    self.at += 1;
                    self.skip_space();
                }
                Some(b']') => break,
                Some(c) => return Err(unexpected(c, "after array element")),
                None => return Err(ended()),
            }
        }
        self.leave();
        Ok(Value::List(self.items.split_off(start)))
    }

    fn enter(&mut self, bracket: u8) -> Result<(), Bad> {
        if self.depth == MAX_DEPTH {
            return Err(unexpected(bracket, "exceeded max depth"));
        }
        self.depth += 1;
        self.at += 1;
        Ok(())
    }

    fn leave(&mut self) {
        self.depth -= 1;
        self.at += 1;
    }

    /// An integer when the text has neither fraction nor exponent and fits; a float otherwise.
    fn number(&mut self) -> Result<Value, Bad> {
        let start = self.at;
        let negative = self.bytes[start] == b'-';
        if negative {
            self.at += 1;
        }
        let digits_start = self.at;
        let mut magnitude: i64 = 0;
        match self.current() {
            b'0' => self.at += 1,
            b'1'..=b'9' => {
                while let c @ b'0'..=b'9' = self.current() {
                    magnitude = magnitude.wrapping_mul(10).wrapping_add(i64::from(c - b'0'));
                    self.at += 1;
                }
            }
            c => return Err(unexpected(c, "in numeric literal")),
        }
        // 18 digits always fit.
        let short = self.at - digits_start <= 18;
        let mut integer = true;
        if self.current() == b'.' {
            integer = false;
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.current(), b'e' | b'E') {
            integer = false;
            self.at += 1;
            if matches!(self.current(), b'+' | b'-') {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        if integer && short {
            return Ok(Value::Int(if negative { -magnitude } else { magnitude }));
        }
        let text = self.piece(start, self.at);
        if integer && let Ok(i) = text.parse::<i64>() {
            return Ok(Value::Int(i));
        }
        match text.parse::<f64>() {
            Ok(f) if f.is_finite() => Ok(Value::Float(f)),
            // A later syntax error takes precedence, so this one waits.
            _ => {
                self.out_of_range.get_or_insert_with(|| text.into_owned());
                Ok(Value::Null)
            }
        }
    }

    fn digits(&mut self, doing: &'static str) -> Result<(), Bad> {
        if !self.current().is_ascii_digit() {
            return Err(unexpected(self.current(), doing));
        }
        while self.current().is_ascii_digit() {
            self.at += 1;
        }
        Ok(())
    }

    fn literal(&mut self, word: &[u8], doing: &[&'static str], value: Value) -> Result<Value, Bad> {
        self.at += 1;
        for (expected, doing) in word[1..].iter().zip(doing) {
            if self.current() != *expected {
                return Err(unexpected(self.current(), doing));
            }
            self.at += 1;
        }
        Ok(value)
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Inside a token the end of the input counts as a space: the character Go then reports.
    #[inline]
    fn current(&self) -> u8 {
        self.peek().unwrap_or(b' ')
    }

    #[inline]
    fn skip_space(&mut self) {
        // One comparison if there is none, as usual in generated JSON.
        while let Some(c) = self.peek()
            && c <= b' '
            && matches!(c, b' ' | b'\n' | b'\t' | b'\r')
        {
            self.at += 1;
        }
    }
}

/// Interns the keys of one object.
enum Names<'s> {
    /// Fields of a struct; documents tend to follow the declaration, so the next field is tried first.
    Struct(&'s StructType, usize),
    /// Keys of a map, all values of one shape.
    Map(Option<&'s Shape>),
}

impl<'s> Names<'s> {
    fn of(schema: Option<&'s Schema>, hint: Option<&'s Shape>) -> Names<'s> {
        match (schema, hint) {
            (Some(schema), Some(Shape::Struct(id))) => Names::Struct(schema.get(*id), 0),
            (_, Some(Shape::Map(inner))) => Names::Map(Some(inner)),
            _ => Names::Map(None),
        }
    }

    fn intern(&mut self, memo: &mut FieldMemo, key: Cow<'_, str>) -> (Name, Option<&'s Shape>) {
        match self {
            Names::Map(inner) => (Name::Shared(key.into()), *inner),
            Names::Struct(ty, next) => {
                let ty: &'s StructType = ty;
                match memo.find(ty, *next, &key) {
                    Some((at, field)) => {
                        *next = at + 1;
                        (field.name.clone(), Some(&field.shape))
                    }
                    None => (Name::Shared(key.into()), None),
                }
            }
        }
    }
}

const TRUE: [&str; 3] =
    ["in literal true (expecting 'r')", "in literal true (expecting 'u')", "in literal true (expecting 'e')"];
const FALSE: [&str; 4] = [
    "in literal false (expecting 'a')",
    "in literal false (expecting 'l')",
    "in literal false (expecting 's')",
    "in literal false (expecting 'e')",
];
const NULL: [&str; 3] =
    ["in literal null (expecting 'u')", "in literal null (expecting 'l')", "in literal null (expecting 'l')"];

#[cold]
fn unexpected(c: u8, doing: &'static str) -> Bad {
    Box::new(ParseError::InvalidCharacter { found: quote_byte(c), doing })
}

#[cold]
fn ended() -> Bad {
    Box::new(ParseError::UnexpectedEnd)
}

/// A byte as Go quotes it in an error.
fn quote_byte(c: u8) -> String {
    match c {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        0x07 => r"'\a'".to_owned(),
        0x08 => r"'\b'".to_owned(),
        0x0c => r"'\f'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        0x0b => r"'\v'".to_owned(),
        0x00..=0x1f | 0x7f => format!(r"'\x{c:02x}'"),
        0x80..=0xa0 | 0xad => format!(r"'\u{c:04x}'"),
        _ => format!("'{}'", c as char),
    }
}
