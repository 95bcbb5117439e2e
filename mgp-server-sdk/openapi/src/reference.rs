//! References within a document: `{"$ref": "#/components/…"}`.

use serde_json::Value;

/// The maximum number of references that lead to each other.
const MAX_STEPS: usize = 16;

/// Returns a value itself, or the one in the document that it refers to.
///
/// References to other documents are not followed, because what they contain could change with each start.
pub(crate) fn resolve<'a>(root: &'a Value, value: &'a Value) -> Option<&'a Value> {
    let mut value = value;
    for _ in 0..MAX_STEPS {
        let Some(reference) = value.get("$ref").and_then(Value::as_str) else { return Some(value) };
        value = root.pointer(reference.strip_prefix('#')?)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_are_followed_within_the_document_and_in_no_circle() {
        let root =
            json!({"a": {"$ref": "#/b~1c"}, "b/c": 1, "d": {"$ref": "#/e"}, "e": {"$ref": "#/d"}});
        assert_eq!(resolve(&root, &root["a"]), Some(&json!(1)));
        assert_eq!(resolve(&root, &root["d"]), None);
        assert_eq!(resolve(&root, &json!({"$ref": "other.yaml#/x"})), None);
        assert_eq!(resolve(&root, &json!({"$ref": "#/none"})), None);
    }
}
