//! References within a document: `{"$ref": "#/components/…"}`.

use percent_encoding::percent_decode_str;
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
        value = target(root, reference)?;
    }
    None
}

/// Returns the value in the document to which a reference points. A reference is a URI, so its pointer can be
/// percent-encoded (RFC 6901 §6).
pub(crate) fn target<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    root.pointer(&percent_decode_str(reference.strip_prefix('#')?).decode_utf8().ok()?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_are_followed_within_the_document_and_in_no_circle() {
        let root = json!({
            "a": {"$ref": "#/b~1c"}, "b/c": 1, "d": {"$ref": "#/e"}, "e": {"$ref": "#/d"},
            "f": {"$ref": "#/paths/~1pets~1%7Bid%7D"}, "paths": {"/pets/{id}": 2},
        });
        assert_eq!(resolve(&root, &root["a"]), Some(&json!(1)));
        assert_eq!(resolve(&root, &root["f"]), Some(&json!(2)));
        assert_eq!(resolve(&root, &root["d"]), None);
        assert_eq!(resolve(&root, &json!({"$ref": "other.yaml#/x"})), None);
        assert_eq!(resolve(&root, &json!({"$ref": "#/none"})), None);
    }
}
