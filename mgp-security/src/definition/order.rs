//! Comparison of definitions that ignores the order of words in lists whose order has no meaning.
//!
//! Some servers write such words from an unordered set, e.g. `",".join(DEFAULT_FIELDS)` in Python, so that each of
//! their processes lists the same definition in another order.

use mgp_types::Payload;
use serde_json::Value;

/// Members of a schema that may be a list of words, or a text with words between commas.
const UNORDERED: [&str; 5] = ["default", "enum", "examples", "required", "type"];

/// The members of a definition that are schemas.
const SCHEMAS: [&str; 2] = ["inputSchema", "outputSchema"];

/// Returns whether two definitions in canonical JSON differ at most in the order of plain words in their schemas. Texts
/// with blanks are not plain words, because another order of their words can have another meaning.
pub(super) fn differ_only_in_order(one: &Payload, other: &Payload) -> bool {
    // The same words in another order are as long, so most changed definitions need not be parsed.
    if one.as_str().len() != other.as_str().len() {
        return false;
    }
    match (sorted(one), sorted(other)) {
        (Some(one), Some(other)) => one == other,
        _ => false,
    }
}

/// Returns a definition whose unordered words are sorted.
fn sorted(definition: &Payload) -> Option<Value> {
    let mut definition: Value = definition.get().ok()?;
    for name in SCHEMAS {
        if let Some(schema) = definition.get_mut(name) {
            sort(schema);
        }
    }
    Some(definition)
}

fn sort(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                if UNORDERED.contains(&name.as_str()) {
                    sort_words(member);
                }
                sort(member);
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(sort),
        _ => {}
    }
}

fn sort_words(value: &mut Value) {
    match value {
        Value::String(text) => {
            let mut words: Vec<&str> = text.split(',').map(str::trim).collect();
            if words.iter().all(|word| is_plain(word)) {
                words.sort_unstable();
                *text = words.join(",");
            }
        }
        Value::Array(words) if words.iter().all(|word| word.as_str().is_some_and(is_plain)) => {
            words.sort_unstable_by(|one, other| one.as_str().cmp(&other.as_str()));
        }
        _ => {}
    }
}

fn is_plain(word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '*');
    !word.is_empty() && word.chars().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether a tool with one parameter stays the same if the parameter's schema is replaced by another one.
    fn is_same(one: &str, other: &str) -> bool {
        let tool = |schema: &str| {
            let schema = format!(r#"{{"properties":{{"fields":{schema}}}}}"#);
            Payload::parse(format!(r#"{{"inputSchema":{schema},"name":"read"}}"#)).unwrap()
        };
        differ_only_in_order(&tool(one), &tool(other))
    }

    #[test]
    fn the_order_of_plain_words_in_a_schema_is_no_change() {
        for (one, other) in [
            (r#"{"default":"status,summary,*all"}"#, r#"{"default":"*all,status,summary"}"#),
            (r#"{"default":"status, due_date"}"#, r#"{"default":"due_date, status"}"#),
            (r#"{"default":["a","b"]}"#, r#"{"default":["b","a"]}"#),
            (r#"{"enum":["open","closed"]}"#, r#"{"enum":["closed","open"]}"#),
            (r#"{"anyOf":[{"required":["a","b"]}]}"#, r#"{"anyOf":[{"required":["b","a"]}]}"#),
        ] {
            assert!(is_same(one, other), "{one} {other}");
        }
    }

    #[test]
    fn other_words_sentences_and_texts_elsewhere_are_a_change() {
        for (one, other) in [
            (r#"{"default":"status,summary"}"#, r#"{"default":"status,content"}"#),
            (r#"{"default":"a,b"}"#, r#"{"default":"a,a"}"#),
            (r#"{"default":"never,ask me"}"#, r#"{"default":"ask me,never"}"#),
            (r#"{"description":"send,never"}"#, r#"{"description":"never,send"}"#),
            (r#"{"enum":["do not","stop"]}"#, r#"{"enum":["stop","do not"]}"#),
            (r#"{"prefixItems":["a","b"]}"#, r#"{"prefixItems":["b","a"]}"#),
        ] {
            assert!(!is_same(one, other), "{one} {other}");
        }
    }
}
