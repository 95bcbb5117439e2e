//! References within a document: `{"$ref": "#/components/…"}`.

use serde_json::Value;

/// The maximum number of references in a chain, in which each reference points to the next.
const MAX_STEPS: usize = 16;

/// Returns the value itself or, if it is a reference, the value in the document to which it points.
///
/// References to other documents are not followed, because those documents could change from one start to the next.
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
