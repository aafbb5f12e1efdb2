//! A serde deserializer over a tree that knows the place of every value.

use std::fmt;

use serde::de::{self, Deserializer, IntoDeserializer, Visitor};

use super::{
    fault::{Fault, FaultKind},
    scalar::{self, Plain},
    tree::{Entry, Node, Value},
};
use crate::diagnostic::Span;

/// Deserializes one node.
#[derive(Clone, Copy)]
pub(crate) struct De<'t, 's>(pub(crate) &'t Node<'s>);

/// Guesses for a text that was wrong and has been reported: a name and a length of time; an instant; a time of day.
const TEXT_GUESSES: [&str; 3] = ["1s", "2000-01-01T00:00:00Z", "00:00"];

impl De<'_, '_> {
    fn wrong(self, wanted: &dyn de::Expected) -> Fault {
        let kind = match &self.0.value {
            Value::Plain(text) => match scalar::plain(text) {
                Plain::Null => FaultKind::Null { wanted: wanted.to_string() },
                Plain::Text => {
                    FaultKind::WrongType { found: format!("the text `{text}`"), wanted: wanted.to_string() }
                }
                other => {
                    FaultKind::WrongType { found: scalar::describe(text, other), wanted: wanted.to_string() }
                }
            },
            Value::Text(text) => FaultKind::WrongType {
                found: format!("the quoted text {}", scalar::quoted(text)),
                wanted: wanted.to_string(),
            },
            Value::List(_) | Value::Map(_) | Value::Absent(_) => {
                FaultKind::WrongType { found: self.0.noun().to_owned(), wanted: wanted.to_string() }
            }
        };
        Fault::new(kind).at(self.0.span)
    }

    /// An unquoted scalar that is no text, where text is wanted.
    fn not_text(self, text: &str, plain: Plain, wanted: &dyn de::Expected) -> Fault {
        let wanted = wanted.to_string();
        let kind = match plain {
            Plain::Null => {
                FaultKind::Null { wanted: if wanted == "a string" { "text".to_owned() } else { wanted } }
            }
            _ if wanted == "a string" || wanted.starts_with("text") => {
                FaultKind::Quote { text: text.to_owned(), read_as: scalar::describe(text, plain) }
            }
            // Lengths of time and their like have texts of their own; quoting a number wouldn't make it one.
            _ => FaultKind::WrongType { found: scalar::describe(text, plain), wanted },
        };
        Fault::new(kind).at(self.0.span)
    }

    fn number<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let result = match &self.0.value {
            Value::Absent(_) => visitor.visit_u64(1),
            Value::Plain(text) => match scalar::plain(text) {
                Plain::Unsigned(n) => visitor.visit_u64(n),
                Plain::Signed(n) => visitor.visit_i64(n),
                Plain::Float(n) => visitor.visit_f64(n),
                Plain::Null | Plain::Bool(_) | Plain::Text | Plain::Old(_) => {
                    return Err(self.wrong(&visitor));
                }
            },
            Value::Text(_) | Value::List(_) | Value::Map(_) => return Err(self.wrong(&visitor)),
        };
        result.map_err(|fault: Fault| fault.at(self.0.span))
    }
}

macro_rules! numbers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            self.number(visitor)
        }
    )*};
}

impl<'de> Deserializer<'de> for De<'_, '_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let wanted = Wanted::of(&visitor);
        let result = match &self.0.value {
            Value::Absent(0) => visitor.visit_u64(1),
            Value::Absent(_) => visitor.visit_str(TEXT_GUESSES[0]),
            Value::Text(text) => visitor.visit_str(text),
            Value::List(_) => return self.deserialize_seq(visitor),
            Value::Map(_) => return self.deserialize_map(visitor),
            Value::Plain(text) => match scalar::plain(text) {
                Plain::Text => visitor.visit_str(text),
                Plain::Null => visitor.visit_unit(),
                Plain::Bool(b) => visitor.visit_bool(b),
                Plain::Unsigned(n) => visitor.visit_u64(n),
                Plain::Signed(n) => visitor.visit_i64(n),
                Plain::Float(n) => visitor.visit_f64(n),
                plain @ Plain::Old(_) => return Err(self.not_text(text, plain, &wanted)),
            },
        };
        result.map_err(|fault: Fault| match (&self.0.value, &*fault.kind) {
            (Value::Plain(text), FaultKind::WrongType { .. }) if fault.at.is_none() => {
                self.not_text(text, scalar::plain(text), &wanted)
            }
            _ => fault.at(self.0.span),
        })
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.0.value {
            Value::Absent(_) => visitor.visit_bool(false),
            Value::Plain(text) => match scalar::plain(text) {
                Plain::Bool(b) => visitor.visit_bool(b),
                _ => Err(self.wrong(&visitor)),
            },
            Value::Text(_) | Value::List(_) | Value::Map(_) => Err(self.wrong(&visitor)),
        }
    }

    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let result = match &self.0.value {
            Value::Text(text) => visitor.visit_str(text),
            Value::Plain(text) => match scalar::plain(text) {
                Plain::Text => visitor.visit_str(text),
                plain => return Err(self.not_text(text, plain, &visitor)),
            },
            Value::Absent(guess) => {
                let last = TEXT_GUESSES.len() - 1;
                visitor.visit_str(TEXT_GUESSES[usize::from(*guess).min(last)])
            }
            Value::List(_) | Value::Map(_) => return Err(self.wrong(&visitor)),
        };
        result.map_err(|fault: Fault| fault.at(self.0.span))
    }
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }
    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }
    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        Err(self.wrong(&visitor))
    }
    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        Err(self.wrong(&visitor))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.0.value {
            Value::Absent(_) => visitor.visit_none(),
            Value::Plain(text) if scalar::plain(text) == Plain::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }
    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.0.value {
            Value::Absent(_) => visitor.visit_unit(),
            Value::Plain(text) if scalar::plain(text) == Plain::Null => visitor.visit_unit(),
            _ => Err(self.wrong(&visitor)),
        }
    }
    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_unit(visitor)
    }
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self).map_err(|fault: Fault| fault.at(self.0.span))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let items = match &self.0.value {
            Value::List(items) => items.as_slice(),
            Value::Absent(_) => &[],
            Value::Plain(_) | Value::Text(_) | Value::Map(_) => return Err(self.wrong(&visitor)),
        };
        visitor.visit_seq(Items { items, next: 0 }).map_err(|fault| fault.at(self.0.span))
    }
    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_seq(visitor)
    }
    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let entries = match &self.0.value {
            Value::Map(entries) => entries.as_slice(),
            Value::Absent(_) => &[],
            Value::Plain(_) | Value::Text(_) | Value::List(_) => return Err(self.wrong(&visitor)),
        };
        // A fault without a place is about the mapping as a whole (a missing field): the key above it is the place.
        visitor.visit_map(Entries { entries, next: 0 })
    }
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match &self.0.value {
            Value::Absent(_) => visitor.visit_map(Guessed { fields, next: 0, node: absent(self.0.span) }),
            _ => self.deserialize_map(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match &self.0.value {
            Value::Plain(text) if scalar::plain(text) == Plain::Null => {
                Err(Fault::new(FaultKind::Null { wanted: format!("one of {}", known.join(", ")) })
                    .at(self.0.span))
            }
            // The words are known, so no generation of YAML makes another one of them.
            Value::Plain(text) | Value::Text(text) => {
                let bare = Node { span: self.0.span, value: Value::Map(Vec::new()) };
                visitor
                    .visit_enum(Choice { word: text, span: self.0.span, node: &bare, bare: true })
                    .map_err(|fault| fault.at(self.0.span))
            }
            Value::Map(entries) => match entries.as_slice() {
                [Entry { key, key_span, value }] => visitor
                    .visit_enum(Choice { word: key, span: *key_span, node: value, bare: false })
                    .map_err(|fault: Fault| fault.at(*key_span)),
                many => Err(Fault::new(FaultKind::OneOf { count: many.len(), known }).at(self.0.span)),
            },
            Value::Absent(_) => {
                let node = absent(self.0.span);
                let word = known.first().copied().unwrap_or("");
                visitor.visit_enum(Choice { word, span: self.0.span, node: &node, bare: true })
            }
            Value::List(_) => Err(self.wrong(&visitor)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }
}

fn absent<'s>(span: Span) -> Node<'s> {
    Node { span, value: Value::Absent(0) }
}

/// What a visitor expects, kept past the visitor's end.
struct Wanted(String);
impl Wanted {
    fn of<'de>(visitor: &impl Visitor<'de>) -> Self {
        Self((visitor as &dyn de::Expected).to_string())
    }
}
impl de::Expected for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

struct Items<'t, 's> {
    items: &'t [Node<'s>],
    next: usize,
}

impl<'de> de::SeqAccess<'de> for Items<'_, '_> {
    type Error = Fault;
    fn next_element_seed<T: de::DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        let Some(item) = self.items.get(self.next) else { return Ok(None) };
        let index = self.next;
        self.next += 1;
        seed.deserialize(De(item)).map(Some).map_err(|fault| fault.at(item.span).step(index))
    }
    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len() - self.next)
    }
}

struct Entries<'t, 's> {
    entries: &'t [Entry<'s>],
    next: usize,
}

impl<'de> de::MapAccess<'de> for Entries<'_, '_> {
    type Error = Fault;
    fn next_key_seed<K: de::DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        let Some(entry) = self.entries.get(self.next) else { return Ok(None) };
        let key: de::value::StrDeserializer<'_, Fault> = (&*entry.key).into_deserializer();
        seed.deserialize(key).map(Some).map_err(|fault| {
            let mut fault = fault.at(entry.key_span).step(self.next);
            fault.on_key = true;
            fault
        })
    }
    fn next_value_seed<T: de::DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Fault> {
        let Some(entry) = self.entries.get(self.next) else {
            return Err(Fault::new(FaultKind::Refused("a value was asked for twice".to_owned())));
        };
        let index = self.next;
        self.next += 1;
        seed.deserialize(De(&entry.value)).map_err(|fault| {
            let place = match *fault.kind {
                FaultKind::MissingField(_) => entry.key_span,
                _ => entry.value.span,
            };
            let mut fault = fault.at(place).step(index);
            fault.field.get_or_insert_with(|| entry.key.to_string());
            fault
        })
    }
}

/// All fields of a struct that isn't there, each to be guessed.
struct Guessed<'s> {
    fields: &'static [&'static str],
    next: usize,
    node: Node<'s>,
}

impl<'de> de::MapAccess<'de> for Guessed<'_> {
    type Error = Fault;
    fn next_key_seed<K: de::DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        let Some(&field) = self.fields.get(self.next) else { return Ok(None) };
        self.next += 1;
        let key: de::value::StrDeserializer<'_, Fault> = field.into_deserializer();
        seed.deserialize(key).map(Some)
    }
    fn next_value_seed<T: de::DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Fault> {
        seed.deserialize(De(&self.node))
    }
}

/// One of several forms: `word` alone, or a mapping of the word to its content.
struct Choice<'t, 's> {
    word: &'t str,
    span: Span,
    node: &'t Node<'s>,
    /// Only the word was written.
    bare: bool,
}

impl<'t, 'de, 's> de::EnumAccess<'de> for Choice<'t, 's> {
    type Error = Fault;
    type Variant = Content<'t, 's>;
    fn variant_seed<T: de::DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<(T::Value, Content<'t, 's>), Fault> {
        let word: de::value::StrDeserializer<'_, Fault> = self.word.into_deserializer();
        let value = seed.deserialize(word).map_err(|fault| fault.at(self.span))?;
        Ok((value, Content { word: self.word, node: self.node, key_span: self.span, bare: self.bare }))
    }
}

/// What stands under the word.
struct Content<'t, 's> {
    word: &'t str,
    node: &'t Node<'s>,
    key_span: Span,
    bare: bool,
}

impl Content<'_, '_> {
    /// Refuses a word alone where something belongs under it, as the schema and every other reader would.
    fn has_content(&self) -> Result<(), Fault> {
        match self.node.value {
            Value::Absent(_) => Ok(()),
            _ if self.bare => {
                Err(Fault::new(FaultKind::Bare { word: self.word.to_owned() }).at(self.key_span))
            }
            _ => Ok(()),
        }
    }
    fn locate(&self, fault: Fault) -> Fault {
        let place = match *fault.kind {
            FaultKind::MissingField(_) => self.key_span,
            _ => self.node.span,
        };
        let fault = fault.at(place);
        // A bare word has nothing under it that could be mended: the whole value is replaced.
        if self.bare { Fault { path: Vec::new(), ..fault } } else { fault.step(0) }
    }
}

impl<'de> de::VariantAccess<'de> for Content<'_, '_> {
    type Error = Fault;
    fn unit_variant(self) -> Result<(), Fault> {
        match &self.node.value {
            Value::Absent(_) => Ok(()),
            Value::Map(entries) if entries.is_empty() => Ok(()),
            Value::Plain(text) if scalar::plain(text) == Plain::Null => Ok(()),
            _ => {
                let fault = Fault::new(FaultKind::WrongType {
                    found: self.node.noun().to_owned(),
                    wanted: "nothing under this word".to_owned(),
                });
                Err(self.locate(fault))
            }
        }
    }
    fn newtype_variant_seed<T: de::DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Fault> {
        self.has_content()?;
        seed.deserialize(De(self.node)).map_err(|fault| self.locate(fault))
    }
    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        De(self.node).deserialize_seq(visitor).map_err(|fault| self.locate(fault))
    }
    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.has_content()?;
        De(self.node).deserialize_struct("", fields, visitor).map_err(|fault| self.locate(fault))
    }
}
