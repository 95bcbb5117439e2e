//! The output schemas of tools whose structured content may have the form of the other era.

use mgp_types::{Object, RawObject};

/// Returns whether a schema requires a member other than this one at its root.
pub(super) fn requires_other(schema: &RawObject, member: &str) -> bool {
    let members = schema.get::<Object>().ok();
    let names = members.and_then(|members| members.decode::<Vec<String>>("required").ok()?);
    names.is_some_and(|names| names.iter().any(|name| name != member))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_other_required_members_show_that_content_is_wrapped() {
        for (required, expected) in [
            (json!(["kids"]), true),
            (json!(["result", "kids"]), true),
            (json!(["result"]), false),
            (json!([]), false),
            (json!(null), false),
        ] {
            let schema = RawObject::of(&json!({ "required": required })).unwrap();
            assert_eq!(requires_other(&schema, "result"), expected, "{required}");
        }
        assert!(!requires_other(&RawObject::empty(), "result"));
    }
}
