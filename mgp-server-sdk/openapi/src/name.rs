//! Names for tools and arguments: the names in the document, limited to the characters that hosts accept.

use std::collections::HashSet;

/// The maximum length of a tool's name, because hosts refuse longer names.
const MAX_NAME: usize = 64;

/// Returns a name that is not in use yet, and records that it is in use.
pub(crate) fn unique(text: &str, used: &mut HashSet<String>) -> String {
    let plain = plain(text);
    let mut name = plain.clone();
    let mut number = 2_u32;
    while !used.insert(name.clone()) {
        let end = format!("_{number}");
        name = format!("{}{end}", &plain[..plain.len().min(MAX_NAME - end.len())]);
        number += 1;
    }
    name
}

/// Replaces each run of characters other than ASCII letters, digits and `-` by one `_`, and limits the length.
fn plain(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars() {
        let is_plain = c.is_ascii_alphanumeric() || c == '-';
        if is_plain {
            name.push(c);
        } else if !name.ends_with('_') {
            name.push('_');
        }
        if name.len() >= MAX_NAME {
            break;
        }
    }
    let name = name.trim_matches('_');
    if name.is_empty() { "operation".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_short_and_unique() {
        let mut used = HashSet::new();
        for (text, expected) in [
            ("getPet", "getPet"),
            ("getPet", "getPet_2"),
            ("get /pets/{petId}", "get_pets_petId"),
            ("filter[name]", "filter_name"),
            ("größe", "gr_e"),
            ("名前", "operation"),
        ] {
            assert_eq!(unique(text, &mut used), expected);
        }
        let long = "a".repeat(200);
        assert_eq!(unique(&long, &mut used).len(), 64);
        assert_eq!(unique(&long, &mut used).len(), 64);
    }
}
