//! Shortens structured content to JSON of the same shape, so that it still fits the output schema of its tool. Clients
//! refuse content that does not fit the schema.

use mgp_types::Members;
use serde_json::value::RawValue;

use super::cut_position::cut_plain;

/// The depth of nesting beyond which a value that is too long is left out.
const MAX_DEPTH: usize = 16;

/// The minimum space for each value in an object, in bytes.
const MIN_VALUE: usize = 8;

/// The character that ends a text that was cut.
const ELLIPSIS: &str = "…";

/// The name of the member for a note in structured content.
const NOTE: &str = "mgp_note";

/// Returns [shorter JSON](shrink_json), with a note as the first member if the JSON is an object and fits its schema
/// with the note. The note is useful, because many hosts show a model only the structured content of a result.
pub(super) fn shrink_with_note(
    text: &str,
    max: usize,
    note: &str,
    fits: impl Fn(&str) -> bool,
) -> Option<String> {
    let noted = || {
        let note = serde_json::to_string(note).ok()?;
        let shorter = shrink_json(text, max.checked_sub(note.len() + NOTE.len() + 4)?)?;
        let members = shorter.strip_prefix('{')?;
        let comma = if members.trim_start().starts_with('}') { "" } else { "," };
        let is_free = !members.contains(&format!(r#""{NOTE}""#));
        Some(format!(r#"{{"{NOTE}":{note}{comma}{members}"#)).filter(|noted| is_free && fits(noted))
    };
    noted().or_else(|| shrink_json(text, max))
}

/// Returns JSON of about `max` bytes: removes the last elements of long lists and the end of long texts, and keeps the
/// members of objects if they have room. Returns `None` if the text is not a JSON list or object.
pub(super) fn shrink_json(text: &str, max: usize) -> Option<String> {
    let value: &RawValue = serde_json::from_str(text).ok()?;
    value.get().starts_with(['[', '{']).then(|| shrink(value.get(), max, 0))
}

fn shrink(value: &str, max: usize, depth: usize) -> String {
    if value.len() <= max {
        return value.to_owned();
    }
    let shorter = match value.as_bytes() {
        [b'"', ..] => shrink_text(value, max),
        [b'[', ..] => shrink_list(value, max, depth),
        [b'{', ..] => shrink_object(value, max, depth),
        // Keep a value that has no shorter form, e.g. a number.
        _ => None,
    };
    shorter.unwrap_or_else(|| value.to_owned())
}

fn shrink_text(value: &str, max: usize) -> Option<String> {
    let text: String = serde_json::from_str(value).ok()?;
    let mut room = max.saturating_sub(ELLIPSIS.len() + 2);
    loop {
        let shown = &text[..cut_plain(&text, room.max(1))];
        let shorter = serde_json::to_string(&format!("{shown}{ELLIPSIS}")).ok()?;
        if shorter.len() <= max || room <= 1 {
            return Some(shorter);
        }
        // Try half the length while the shortened text is still too long, because escaped characters need more space.
        room /= 2;
    }
}

fn shrink_list(value: &str, max: usize, depth: usize) -> Option<String> {
    let elements: Vec<&RawValue> = serde_json::from_str(value).ok()?;
    let mut shown = String::from("[");
    for element in elements {
        let element = element.get();
        if shown.len() + element.len() + 2 > max {
            if shown.len() == 1 && depth < MAX_DEPTH {
                shown += &shrink(element, max.saturating_sub(2), depth + 1);
            }
            break;
        }
        if shown.len() > 1 {
            shown.push(',');
        }
        shown += element;
    }
    shown.push(']');
    Some(shown)
}

/// Shortens an object. Short members get the space that they need; the other members divide the remaining space.
fn shrink_object(value: &str, max: usize, depth: usize) -> Option<String> {
    if depth >= MAX_DEPTH {
        return Some("{}".to_owned());
    }
    let Members(mut members) = serde_json::from_str(value).ok()?;
    // Leave members out only if not even the shortest forms of all members fit.
    let (mut names, mut shortest) = (2, 0);
    let fits = members.iter().take_while(|(name, value)| {
        shortest += value.get().len().min(MIN_VALUE);
        names += name.len() + 4;
        names + shortest <= max
    });
    let count = fits.count();
    members.truncate(count);
    let names: usize = members.iter().map(|(name, _)| name.len() + 4).sum();
    let mut room = max.saturating_sub(names + 2);
    let mut by_length: Vec<usize> = (0..count).collect();
    by_length.sort_by_key(|at| members[*at].1.get().len());
    let mut shares = vec![0; count];
    for (done, at) in by_length.into_iter().enumerate() {
        shares[at] = members[at].1.get().len().min(room / (count - done));
        room -= shares[at];
    }
    let mut shown = String::from("{");
    for ((name, value), share) in members.iter().zip(shares) {
        if shown.len() > 1 {
            shown.push(',');
        }
        shown += &serde_json::to_string(name).ok()?;
        shown.push(':');
        shown += &shrink(value.get(), share.max(2), depth + 1);
    }
    shown.push('}');
    Some(shown)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn shrunk(value: &Value, max: usize) -> Value {
        serde_json::from_str(&shrink_json(&value.to_string(), max).unwrap()).unwrap()
    }

    #[test]
    fn a_required_member_behind_a_long_list_stays() {
        let rows: Vec<u32> = (0..60_000).collect();
        let cut = shrunk(&json!({"items": rows, "total": 60_000, "next": "abc"}), 4096);
        assert_eq!((&cut["total"], &cut["next"]), (&json!(60_000), &json!("abc")));
        let items = cut["items"].as_array().unwrap();
        assert!(items.len() > 500 && *items.last().unwrap() == json!(items.len() - 1), "{cut}");
    }

    #[test]
    fn a_long_text_stays_a_text() {
        let cut = shrunk(&json!({"result": "wörter und \"mehr\"\u{1} ".repeat(5_000)}), 1_000);
        let text = cut["result"].as_str().unwrap();
        assert!(text.starts_with("wörter und \"mehr\"\u{1}") && text.ends_with('…'), "{text}");
        assert!(cut.to_string().len() <= 1_010, "{}", cut.to_string().len());
    }

    #[test]
    fn every_kind_of_value_becomes_short() {
        let deep = (0..40).fold(json!("x".repeat(9_000)), |inner, _| json!({"a": [inner]}));
        let wide: Value = (0..9_000)
            .map(|n| (format!("k{n}"), json!(n)))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let nested = json!([{"page": {"rows": vec![json!({"a": 1, "b": "two"}); 9_000]}, "n": 7}]);
        for (value, max) in [(deep, 400), (wide, 900), (nested.clone(), 900)] {
            let cut = shrunk(&value, max);
            assert!(cut.to_string().len() <= max + 40, "{} {cut}", cut.to_string().len());
        }
        let cut = shrunk(&nested, 900);
        assert!(cut[0]["n"] == 7 && cut[0]["page"]["rows"].as_array().unwrap().len() > 20, "{cut}");
        assert!(shrink_json("plain", 3).is_none() && shrink_json("12345", 3).is_none());
    }
}
