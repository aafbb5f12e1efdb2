use std::{fmt, ops::Deref, sync::Arc};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Number, Value};

/// A free mapping in the words of Kubernetes: a pod template (`metadata` and `spec`), or the fields of another
/// object's `spec`. drydock reads of it only what it has to set itself; everything else is handed on as it is written.
/// Numbers stay numbers and text stays text.
///
/// Cheap to clone: checks carry theirs in every order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Template(Arc<Map<String, Value>>);

impl Template {
    /// From its content.
    #[must_use]
    pub fn new(content: Map<String, Value>) -> Self {
        Self(Arc::new(content))
    }
    /// The mapping under a key; `None` when it isn't there or no mapping.
    #[must_use]
    pub fn mapping(&self, key: &str) -> Option<&Map<String, Value>> {
        self.0.get(key).and_then(Value::as_object)
    }
}

impl Deref for Template {
    type Target = Map<String, Value>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Template;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping")
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Template, A::Error> {
                entries(map).map(Template::new)
            }
        }
        d.deserialize_map(Visitor)
    }
}

impl JsonSchema for Template {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Template".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object"})
    }
}

fn entries<'de, A: de::MapAccess<'de>>(mut map: A) -> Result<Map<String, Value>, A::Error> {
    let mut content = Map::new();
    while let Some((key, Free(value))) = map.next_entry::<String, Free>()? {
        content.insert(key, value);
    }
    Ok(content)
}

/// Any value but nothing at all. A key without a value means "take the default" to one reader and "take it away" to
/// another, so it isn't handed on; neither are numbers that JSON can't write.
struct Free(Value);

impl<'de> Deserialize<'de> for Free {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Free;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }
            fn visit_bool<E>(self, value: bool) -> Result<Free, E> {
                Ok(Free(Value::Bool(value)))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Free, E> {
                Ok(Free(value.into()))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Free, E> {
                Ok(Free(value.into()))
            }
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Free, E> {
                let number = Number::from_f64(value);
                number.map(|n| Free(Value::Number(n))).ok_or_else(|| E::custom("no number that JSON knows"))
            }
            fn visit_str<E>(self, value: &str) -> Result<Free, E> {
                Ok(Free(Value::String(value.to_owned())))
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Free, A::Error> {
                let mut items = Vec::new();
                while let Some(Free(item)) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Free(Value::Array(items)))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Free, A::Error> {
                entries(map).map(|content| Free(Value::Object(content)))
            }
        }
        d.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn values_come_through_as_they_are() {
        let text = r#"{"spec":{"cpu":0.5,"hostPID":true,"items":[1,-2,"3",{}],"name":"x"}}"#;
        let template: Template = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&template).unwrap(), text);
        assert_eq!(template.mapping("spec").unwrap().len(), 4);
        assert_eq!(template.mapping("metadata"), None);
    }

    #[test]
    fn only_a_mapping_without_gaps_is_one() {
        for text in ["[]", "1", "\"x\"", "null", r#"{"a":null}"#, r#"{"a":[null]}"#] {
            assert!(serde_json::from_str::<Template>(text).is_err(), "{text}");
        }
    }
}
