//! The acceptance check `core.spec`: the Rust type of each example message of the specification accepts the example,
//! and refuses damaged copies of it.

use super::{Verdict, shared};
use crate::{
    run::{Context, Outcome},
    spec::{self, check_example},
};
use serde_json::{Value, json};

/// The number of examples in the specification.
const EXAMPLES: usize = 50;

/// The members of each example that are required, and those whose JSON type is checked.
const MEMBERS: &str = include_str!("members.txt");

/// The members of one example that are required, and further members whose JSON type is checked; as JSON pointers.
struct Members {
    required: Vec<&'static str>,
    typed: Vec<&'static str>,
}

impl Members {
    /// Returns the members that `members.txt` lists for an example, if any.
    fn of(file: &str) -> Option<Self> {
        let line = MEMBERS.lines().filter(|line| !line.starts_with('#')).find(|line| {
            line.split(' ').next().is_some_and(|name| !name.is_empty() && file.starts_with(name))
        })?;
        let (required, typed) = line.split_once('|')?;
        let required = required.split_whitespace().skip(1).collect();
        Some(Self { required, typed: typed.split_whitespace().collect() })
    }
}

/// Reads each example, then copies of it that lack a required member or have a value of the wrong JSON type.
pub(super) fn core_spec() -> Outcome<Verdict> {
    let folder = shared("spec/mgp-examples").context("the examples of the specification")?;
    let count = spec::folder_of_examples(&folder)?;
    let mut tried = 0;
    let mut accepted = Vec::new();
    for (file, text) in spec::examples(&folder)? {
        let original: Value = serde_json::from_str(&text).context(&file)?;
        for (what, copy) in damaged(&file, &original) {
            tried += 1;
            if let Ok(name) = check_example(&file, &copy.to_string()) {
                accepted.push(format!("{file}: {name} accepts a copy with {what}"));
            }
        }
    }
    for line in &accepted {
        println!("{line}");
    }
    Ok(Verdict {
        pass: count == EXAMPLES && accepted.is_empty() && tried > 0,
        figure: format!(
            "{count} read, {} of {tried} damaged copies refused",
            tried - accepted.len()
        ),
        bound: format!("{EXAMPLES} read, all refused"),
    })
}

/// Returns every damaged copy of an example, each with a description of its defect.
fn damaged(file: &str, original: &Value) -> Vec<(String, Value)> {
    let Some(members) = Members::of(file) else { return Vec::new() };
    let envelope: &[&str] = match original {
        Value::Object(top) if !top.contains_key("jsonrpc") => &[],
        Value::Object(top) if top.contains_key("result") => &["/jsonrpc", "/id", "/result"],
        Value::Object(top) if top.contains_key("error") => &["/jsonrpc", "/id", "/error"],
        Value::Object(top) if top.contains_key("id") => &["/jsonrpc", "/id", "/method"],
        _ => &["/jsonrpc", "/method"],
    };
    let mut copies = Vec::new();
    for pointer in envelope.iter().chain(&members.required) {
        if let Some(copy) = without(original, pointer) {
            copies.push((format!("no {pointer}"), copy));
        }
    }
    for pointer in envelope.iter().chain(&members.required).chain(&members.typed) {
        if let Some(copy) = mistyped(original, pointer) {
            copies.push((format!("a mistyped {pointer}"), copy));
        }
    }
    copies
}

fn without(original: &Value, pointer: &str) -> Option<Value> {
    let mut copy = original.clone();
    let (parent, name) = pointer.rsplit_once('/')?;
    copy.pointer_mut(parent)?.as_object_mut()?.remove(name)?;
    Some(copy)
}

/// Returns a copy of an example in which one member has the wrong type: a number instead of an object, or an object
/// instead of another value.
fn mistyped(original: &Value, pointer: &str) -> Option<Value> {
    let mut copy = original.clone();
    let member = copy.pointer_mut(pointer)?;
    *member = if member.is_object() { json!(7) } else { json!({"not": "this kind"}) };
    Some(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_damaged_one_member_at_a_time() {
        let original = json!({"jsonrpc": "2.0", "id": 1, "method": "m",
            "params": {"request_id": 20, "reason": "r"}});
        let copies = damaged("12.7-1-cancellation.json", &original);
        // Four required members are removed (three of the envelope, one listed); these and one typed member get a wrong
        // type.
        assert_eq!(copies.len(), 4 + 5);
        assert!(copies.iter().all(|(_, copy)| *copy != original));
    }

    #[test]
    fn each_listed_member_is_in_its_example() {
        let Some(folder) = shared("spec/mgp-examples") else { return };
        for (file, text) in spec::examples(&folder).unwrap() {
            let original: Value = serde_json::from_str(&text).unwrap();
            let members = Members::of(&file).expect(&file);
            for pointer in members.required.iter().chain(&members.typed) {
                assert!(original.pointer(pointer).is_some(), "{file} {pointer}");
            }
        }
    }
}
