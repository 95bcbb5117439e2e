//! The review of schemas: finds schemas that cannot be checked, or that refer to other documents (MGP §4).

use serde_json::{Map, Value};

use super::finding::Finding;
use super::rule::Rule;

/// The maximum nesting depth of a schema. Models and validators already have problems at much smaller depths.
const DEPTH_MAX: usize = 48;

/// The maximum number of values of a tool's schema that the review reads.
const VALUES_MAX: usize = 20_000;

/// The maximum length of a chain of references in a tool's schema.
const CHAIN_MAX: usize = 16;

/// The types of JSON Schema.
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// Members whose values are data and not schemas, so they are not reviewed as schemas.
const DATA: [&str; 6] = ["const", "default", "enum", "examples", "example", "required"];

/// Members whose values are objects that map names to schemas.
const NAMED: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// The member with the schema of the arguments. This schema must describe an object; the schema of results may describe
/// any type.
const INPUT: &str = "inputSchema";

pub(super) fn review(schema: &Value, member: &str, findings: &mut Vec<Finding>) {
    let mut add = |rule, what: &str, evidence: &str| {
        findings.push(Finding::about(rule, &format!("/{member}"), what, evidence));
    };
    let mut look = Look { root: schema, values: 0, flaw: None };
    if member == INPUT
        && !matches!(schema.get("type"), None | Some(Value::Null))
        && schema.get("type") != Some(&Value::from("object"))
    {
        add(Rule::Schema, "the schema is not one of an object", &schema["type"].to_string());
    }
    look.schema(schema, 0);
    if let Some((rule, what, evidence)) = look.flaw {
        add(rule, what, &evidence);
    }
}

struct Look<'a> {
    root: &'a Value,
    values: usize,
    flaw: Option<(Rule, &'static str, String)>,
}

impl Look<'_> {
    fn found(&mut self, rule: Rule, what: &'static str, evidence: &str) {
        if self.flaw.as_ref().is_none_or(|(known, ..)| known.severity() < rule.severity()) {
            self.flaw = Some((rule, what, evidence.to_owned()));
        }
    }

    fn schema(&mut self, schema: &Value, depth: usize) {
        self.values += 1;
        if depth > DEPTH_MAX || self.values > VALUES_MAX {
            return self.found(Rule::Schema, "the schema is too large or nested too deep", "");
        }
        match schema {
            Value::Object(members) => self.object(members, depth),
            Value::Array(items) => items.iter().for_each(|item| self.schema(item, depth + 1)),
            _ => {}
        }
    }

    fn object(&mut self, members: &Map<String, Value>, depth: usize) {
        for (name, value) in members {
            match name.as_str() {
                "$ref" | "$dynamicRef" | "$recursiveRef" => self.reference(value),
                "$id" | "id" | "$schema" if value.as_str().is_some_and(is_local_file) => {
                    self.found(Rule::Schema, "the schema names a local file", &value.to_string());
                }
                "type" => self.kind(value),
                "pattern" => {
                    if value.as_str().is_some_and(explodes) {
                        let what = "a pattern takes forever on some texts";
                        self.found(Rule::Pattern, what, &value.to_string());
                    }
                }
                name if !is_possible(name, value) => {
                    let evidence = format!("{name}: {value}");
                    self.found(Rule::Schema, "a value in the schema is invalid", &evidence);
                }
                name if DATA.contains(&name) => self.data(value, depth + 1),
                name if NAMED.contains(&name) => {
                    if let Value::Object(named) = value {
                        named.values().for_each(|value| self.schema(value, depth + 1));
                    } else if !is_absent(value) {
                        self.found(Rule::Schema, "a member of the schema has the wrong type", name);
                    }
                }
                _ => self.schema(value, depth + 1),
            }
        }
    }

    /// Counts the values inside a member that is data, and checks the nesting depth. Data is not reviewed as a schema.
    fn data(&mut self, value: &Value, depth: usize) {
        self.values += 1;
        if depth > DEPTH_MAX || self.values > VALUES_MAX {
            return self.found(Rule::Schema, "the schema is too large or nested too deep", "");
        }
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.data(item, depth + 1)),
            Value::Object(members) => {
                members.values().for_each(|value| self.data(value, depth + 1));
            }
            _ => {}
        }
    }

    fn kind(&mut self, value: &Value) {
        let known = |value: &Value| value.as_str().is_some_and(|kind| TYPES.contains(&kind));
        let fits = match value {
            Value::Array(kinds) => !kinds.is_empty() && kinds.iter().all(known),
            value => known(value),
        };
        if !fits {
            self.found(Rule::Schema, "the schema has an unknown type", &value.to_string());
        }
    }

    /// Checks a reference: it must point to an existing part of the same schema.
    fn reference(&mut self, value: &Value) {
        let Some(mut to) = value.as_str().map(str::to_owned) else {
            return self.found(Rule::Schema, "a reference is not a text", &value.to_string());
        };
        for _ in 0..CHAIN_MAX {
            let Some(pointer) = to.strip_prefix('#') else {
                return self.found(Rule::Schema, "the schema refers to another document", &to);
            };
            if !pointer.is_empty() && !pointer.starts_with('/') {
                // The reference is an anchor within the same schema. The target of the anchor is reviewed anyway, so do
                // not follow it.
                return;
            }
            match self.root.pointer(pointer) {
                None => return self.found(Rule::Reference, "a reference leads nowhere", &to),
                Some(target) => match target.get("$ref").and_then(Value::as_str) {
                    Some(next) => to = next.to_owned(),
                    None => return,
                },
            }
        }
        self.found(Rule::Schema, "references lead in a circle", &to);
    }
}

fn is_local_file(id: &str) -> bool {
    id.starts_with("file:")
}

/// Returns whether a value means the same as an absent object: `null`, as Java writes it, or an empty list, as PHP
/// does.
fn is_absent(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

/// Returns whether a member of a schema has a value that validators can read. Some servers write `null` for a member
/// that is absent, and `true` for a property that is required, as in draft 3 of JSON Schema.
fn is_possible(name: &str, value: &Value) -> bool {
    let is_text = |value: &Value| value.is_string();
    match name {
        _ if value.is_null() => true,
        "required" => {
            value.is_boolean() || value.as_array().is_some_and(|names| names.iter().all(is_text))
        }
        "enum" => value.is_array(),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            value.as_f64().is_none_or(|bound| bound >= 0.0)
        }
        "minimum" | "maximum" | "multipleOf" => {
            value.is_number() || value.as_str().is_some_and(|bound| bound.parse::<f64>().is_ok())
        }
        _ => true,
    }
}

/// Returns whether a regular expression contains a nested repetition such as `(a+)+`, which takes exponential time
/// in backtracking engines.
fn explodes(pattern: &str) -> bool {
    /// The state of an open group: whether it contains a repetition, and whether it contains a part that cannot be
    /// empty.
    #[derive(Default)]
    struct Group {
        repeats: bool,
        anchored: bool,
    }
    let mut open = vec![Group::default()];
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        let mut inner = None;
        match c {
            '\\' => {
                chars.next();
            }
            '[' => while chars.next().is_some_and(|c| c != ']') {},
            '(' => {
                open.push(Group::default());
                continue;
            }
            ')' => inner = if open.len() > 1 { open.pop() } else { None },
            // A plain `.` matches any character, so it does not separate two repetitions from each other.
            '.' if !matches!(chars.peek(), Some('+' | '*')) => continue,
            '|' | '?' | '*' | '+' | '^' | '$' | ':' => continue,
            _ => {}
        }
        let repeated = matches!(chars.peek(), Some('+' | '*'));
        let quantified = repeated || matches!(chars.peek(), Some('?' | '{'));
        if repeated && inner.as_ref().is_some_and(|group| group.repeats && !group.anchored) {
            return true;
        }
        if let Some(group) = open.last_mut() {
            group.repeats |= repeated || inner.as_ref().is_some_and(|inner| inner.repeats);
            group.anchored |= !quantified && inner.is_none_or(|inner| inner.anchored);
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;

    #[track_caller]
    fn check(schema: &str, expected: Option<Severity>) {
        let mut findings = Vec::new();
        review(&serde_json::from_str(schema).unwrap(), "inputSchema", &mut findings);
        assert_eq!(findings.first().map(|finding| finding.severity), expected, "{findings:?}");
    }

    #[test]
    fn schemas_of_every_day_pass() {
        check("{}", None);
        check(
            r##"{"type":"object","properties":{"type":{"type":["string","null"]},"next":{"$ref":"#/$defs/a"}},"$defs":{"a":{"properties":{"a":{"$ref":"#/$defs/a"}}}}}"##,
            None,
        );
        check(
            r#"{"required":["minimum"],"properties":{"minimum":{"enum":[1],"minimum":null,"required":true}}}"#,
            None,
        );
        check(
            r#"{"type":"object","properties":{"s":{"pattern":"^[a-z0-9]+(-[a-z0-9]+)*$","default":{"type":"x","$ref":"y"}}}}"#,
            None,
        );
    }

    #[test]
    fn an_empty_list_or_null_in_place_of_an_object_passes() {
        check(r#"{"type":"object","properties":[],"required":[]}"#, None);
        check(r#"{"type":"object","properties":{"a":null},"$defs":null,"definitions":null}"#, None);
        check(r#"{"type":"object","properties":{"a":{"properties":[]}},"$defs":[]}"#, None);
    }

    #[test]
    fn schemas_that_cannot_be_checked_do_not() {
        let refused = Some(Severity::Refused);
        check(r#"{"properties":["a"]}"#, refused);
        check(r#"{"$ref":"https://a.example/s.json"}"#, refused);
        check(r#"{"properties":{"a":{"$ref":"file:///etc/passwd"}}}"#, refused);
        check(r##"{"$ref":"#"}"##, refused);
        check(r##"{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}"##, refused);
        check(r#"{"type":"strnig"}"#, refused);
        check(r#"{"type":"string"}"#, refused);
        check(r#"{"required":"s"}"#, refused);
        check(r#"{"properties":{"s":{"enum":"a"}}}"#, refused);
        check(r#"{"properties":{"s":{"minLength":-1}}}"#, refused);
        check(r#"{"properties":{"n":{"minimum":"a"}}}"#, refused);
        check(r#"{"$schema":"file:///tmp/s.json"}"#, refused);
        check(&format!("{}{}", r#"{"not":"#.repeat(60) + "{}", "}".repeat(60)), refused);
        check(r##"{"$ref":"#/$defs/a"}"##, Some(Severity::Held));
        check(r#"{"properties":{"s":{"pattern":"^(a+)+$"}}}"#, Some(Severity::Held));
    }

    #[test]
    fn a_result_may_be_of_any_type_that_exists() {
        for (schema, is_refused) in [
            (r#"{"type":"array","items":{"type":"string"}}"#, false),
            (r#"{"type":"string"}"#, false),
            (r#"{"type":["object","null"]}"#, false),
            (r#"{"type":"strnig"}"#, true),
        ] {
            let mut findings = Vec::new();
            review(&serde_json::from_str(schema).unwrap(), "outputSchema", &mut findings);
            assert_eq!(!findings.is_empty(), is_refused, "{schema}: {findings:?}");
        }
    }
}
