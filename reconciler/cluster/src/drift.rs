//! What differs between what drydock states about an object and what is there.
//!
//! Only stated fields are compared, after the API server's defaulting: what others add beside them isn't drift. Lists of
//! things with names (containers, environment, volumes) are compared by name, other lists as a whole, but longer live
//! lists are fine where the API server or a webhook has appended.

use serde_json::Value;

/// Differences that are told; more don't help anybody.
const TOLD_MAX: usize = 20;

/// Paths of stated fields that are missing or have another value.
#[must_use]
pub fn differences(stated: &Value, live: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk(stated, live, &mut String::new(), &mut found);
    found
}

fn walk(stated: &Value, live: &Value, path: &mut String, found: &mut Vec<String>) {
    if found.len() >= TOLD_MAX {
        return;
    }
    match (stated, live) {
        (Value::Object(stated), Value::Object(live)) => {
            for (key, value) in stated {
                let length = path.len();
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
                match live.get(key) {
                    Some(live) => walk(value, live, path, found),
                    None if empty(value) => {}
                    None => found.push(path.clone()),
                }
                path.truncate(length);
            }
        }
        (Value::Array(stated), Value::Array(live)) => {
            for (index, value) in stated.iter().enumerate() {
                let length = path.len();
                let name = value.get("name").and_then(Value::as_str);
                let other = match name {
                    Some(name) => {
                        path.push_str(&format!("[{name}]"));
                        live.iter().find(|l| l.get("name").and_then(Value::as_str) == Some(name))
                    }
                    None => {
                        path.push_str(&format!("[{index}]"));
                        live.get(index)
                            .filter(|l| same(value, l))
                            .or_else(|| live.iter().find(|l| same(value, l)))
                    }
                };
                match (other, name) {
                    (Some(other), Some(_)) => walk(value, other, path, found),
                    (Some(_), None) => {}
                    (None, _) => found.push(path.clone()),
                }
                path.truncate(length);
            }
        }
        (stated, live) if same(stated, live) => {}
        _ => found.push(path.clone()),
    }
}

/// The API server drops empty maps and lists, false and empty text.
fn empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Number(_) => false,
    }
}

fn same(stated: &Value, live: &Value) -> bool {
    match (stated, live) {
        // Quantities: the API server writes `"4"` for 4 and `1Gi` as it was written.
        (Value::Number(n), Value::String(s)) | (Value::String(s), Value::Number(n)) => n.to_string() == *s,
        (Value::Object(stated), Value::Object(live)) => {
            stated.iter().all(|(key, value)| live.get(key).map_or(empty(value), |live| same(value, live)))
        }
        (Value::Array(stated), Value::Array(live)) => {
            stated.len() == live.len() && stated.iter().zip(live).all(|(s, l)| same(s, l))
        }
        (stated, live) => stated == live,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_stated_fields_count() {
        let stated = json!({"spec": {"hostPID": true, "containers": [{"name": "a", "image": "x:1", "env": [{"name": "V", "value": "1"}]}],
            "tolerations": [{"key": "k", "operator": "Exists"}], "volumes": []}});
        let live = json!({"spec": {"hostPID": true, "dnsPolicy": "ClusterFirst",
            "containers": [{"name": "b", "image": "side"}, {"name": "a", "image": "x:1", "env": [{"name": "V", "value": "1"}, {"name": "W"}], "terminationMessagePath": "/dev/termination-log"}],
            "tolerations": [{"key": "other"}, {"key": "k", "operator": "Exists"}]}});
        assert_eq!(differences(&stated, &live), Vec::<String>::new());
        let mut edited = live.clone();
        edited["spec"]["containers"][1]["image"] = json!("x:2");
        assert_eq!(differences(&stated, &edited), ["spec.containers[a].image"]);
        edited["spec"]["tolerations"] = json!([]);
        assert_eq!(differences(&stated, &edited).len(), 2);
    }
}
