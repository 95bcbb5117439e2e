//! The arguments that the input schema of a tool declares: whether it has them at all, and which ones are targets.
//!
//! Most tools ignore an argument that they do not declare. Such an argument is checked like any other, but it does not
//! show what a call accesses: otherwise, an allowed path in an ignored argument would satisfy a limit while another
//! argument, whose name is not recognised, names the real file.

use serde_json::{Map, Value};

use super::finding::About;

/// The maximum number of references and combined schemas that lead from a schema to a member.
const DEPTH_MAX: usize = 8;

/// The maximum number of schemas in which a member is searched.
const SCHEMAS_MAX: usize = 1_000;

/// The schema of a value among the arguments.
#[derive(Clone, Copy, Debug)]
pub(super) enum Declared<'a> {
    /// There is no schema, or it allows members with any names.
    Any,
    /// The tool does not declare the value.
    Undeclared,
    /// The value has a schema.
    Schema { root: &'a Value, own: &'a Value },
}

impl<'a> Declared<'a> {
    /// Creates the schema of all arguments.
    pub(super) fn of(schema: &'a Value) -> Self {
        Self::Schema { root: schema, own: schema }
    }

    pub(super) fn is_declared(self) -> bool {
        !matches!(self, Self::Undeclared)
    }

    /// Returns the kind of target that the schema declares with a format, e.g. `uri`, whatever the name of the value.
    pub(super) fn target(self) -> Option<About> {
        let Self::Schema { root, own } = self else { return None };
        let mut found = None;
        CombinedSchemas::of(root).visit(own, 0, &mut |schema| {
            let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
            found = found.or(match format.to_ascii_lowercase().as_str() {
                "uri" | "url" | "iri" | "hostname" | "idn-hostname" | "ipv4" | "ipv6" => {
                    Some(About::Host)
                }
                "path" | "file-path" | "directory-path" => Some(About::Path),
                _ => None,
            });
        });
        found
    }

    /// Returns the schema of a member of an object.
    pub(super) fn member(self, name: &str) -> Self {
        let Self::Schema { root, own } = self else { return self };
        let (mut found, mut lists_members, mut any) = (None, false, false);
        let mut schemas = CombinedSchemas::of(root);
        schemas.visit(own, 0, &mut |schema| {
            if let Some(listed) = schema.get("properties").and_then(Value::as_object) {
                lists_members = true;
                found = found.or_else(|| listed.get(name));
            }
            // `additionalProperties` is `false`, or absent, in schemas of tools that use only the listed members.
            let others = ["patternProperties", "additionalProperties", "unevaluatedProperties"];
            any |= others
                .iter()
                .any(|name| schema.get(*name).is_some_and(|other| *other != Value::Bool(false)));
        });
        match found {
            Some(own) => Self::Schema { root, own },
            None if any || schemas.is_cut || !lists_members => Self::Any,
            None => Self::Undeclared,
        }
    }

    /// Returns the schema of the items of an array.
    pub(super) fn item(self) -> Self {
        let Self::Schema { root, own } = self else { return self };
        own.get("items").map_or(Self::Any, |own| Self::Schema { root, own })
    }
}

/// A walk through a schema and all schemas that it combines.
struct CombinedSchemas<'a> {
    root: &'a Value,
    /// The number of schemas that may still be visited.
    left: usize,
    /// `true` if a schema was not visited, because it cannot be found or there are too many.
    is_cut: bool,
}

impl<'a> CombinedSchemas<'a> {
    fn of(root: &'a Value) -> Self {
        Self { root, left: SCHEMAS_MAX, is_cut: false }
    }

    fn visit(
        &mut self,
        schema: &'a Value,
        depth: usize,
        each: &mut impl FnMut(&'a Map<String, Value>),
    ) {
        let Some(schema) = schema.as_object() else { return };
        if depth == DEPTH_MAX || self.left == 0 {
            self.is_cut = true;
            return;
        }
        self.left -= 1;
        each(schema);
        if let Some(reference) = schema.get("$ref") {
            let target = reference.as_str().and_then(|text| text.strip_prefix('#'));
            match target.and_then(|pointer| self.root.pointer(pointer)) {
                Some(target) => self.visit(target, depth + 1, each),
                None => self.is_cut = true,
            }
        }
        self.is_cut |= schema.contains_key("$dynamicRef");
        let lists = ["allOf", "anyOf", "oneOf"].iter().filter_map(|name| schema.get(*name));
        let listed = lists.filter_map(Value::as_array).flatten();
        for combined in listed.chain(["then", "else"].iter().filter_map(|name| schema.get(*name))) {
            self.visit(combined, depth + 1, each);
        }
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::mcp;
    use mgp_types::mgp::PermissionScope;

    use super::super::{check, is_like, like};

    fn scope(json: &str) -> PermissionScope {
        serde_json::from_str(json).unwrap()
    }

    /// Checks a call of a tool with this input schema.
    #[track_caller]
    fn check_declared(schema: &str, limits: &str, arguments: &str, is_inside: bool) {
        let tool = format!(r#"{{"name":"t","inputSchema":{schema}}}"#);
        let tool: mcp::Tool = serde_json::from_str(&tool).unwrap();
        let checked = check(&scope(limits), Some(arguments), Some(&tool));
        assert_eq!(checked.is_ok(), is_inside, "{schema} {limits} {arguments}: {checked:?}");
    }

    #[test]
    fn an_argument_that_the_tool_ignores_does_not_name_what_it_accesses() {
        let paths = r#"{"paths":["/srv"]}"#;
        let note = r#"{"type":"object","properties":{"note":{"type":"string"}}}"#;
        let decoy = r#"{"note":"passwd","path":"/srv/a"}"#;
        check_declared(note, paths, decoy, false);
        check_declared(r#"{"type":"object","properties":{"path":{}}}"#, paths, decoy, true);
        // An ignored argument is checked nevertheless.
        check_declared(
            r#"{"properties":{"path":{}}}"#,
            paths,
            r#"{"path":"/srv/a","file":"/etc/passwd"}"#,
            false,
        );
        for (limits, decoy) in [
            (r#"{"hosts":["a.example"]}"#, r#"{"note":"x","url":"https://a.example"}"#),
            (r#"{"commands":["ls"]}"#, r#"{"note":"x","command":"ls"}"#),
            (r#"{"commands":["ls"]}"#, r#"{"note":"x","argv":["ls"]}"#),
            (r#"{"languages":["python"]}"#, r#"{"note":"x","language":"python"}"#),
            (r#"{"max_execution_time_ms":9}"#, r#"{"note":"x","timeout_ms":1}"#),
        ] {
            check_declared(note, limits, decoy, false);
            check_declared(r#"{"type":"object"}"#, limits, decoy, true);
        }
    }

    #[test]
    fn an_argument_with_the_format_of_a_target_is_one_under_any_name() {
        for (limits, allowed, format, other) in [
            (r#"{"hosts":["a.example"]}"#, "https://a.example/x", "hostname", "b.example"),
            (r#"{"hosts":["a.example"]}"#, "https://a.example/x", "uri", "b.example"),
            (r#"{"paths":["/srv"]}"#, "/srv/a", "file-path", "passwd"),
        ] {
            let name = if format == "file-path" { "path" } else { "url" };
            let arguments = format!(r#"{{"{name}":"{allowed}","x":"{other}"}}"#);
            let list = format!(r#"{{"{name}":"{allowed}","x":["{other}"]}}"#);
            let plain = format!(r#"{{"format":"{format}"}}"#);
            let nullable = format!(r#"{{"anyOf":[{{"type":"null"}},{plain}]}}"#);
            let of = |schema: &str| format!(r#"{{"properties":{{"{name}":{{}},"x":{schema}}}}}"#);
            check_declared(&of("{}"), limits, &arguments, true);
            check_declared(&of(r#"{"format":"date"}"#), limits, &arguments, true);
            check_declared(&of(&plain), limits, &arguments, false);
            check_declared(&of(&nullable), limits, &arguments, false);
            check_declared(&of(&format!(r#"{{"items":{plain}}}"#)), limits, &list, false);
            let same = format!(r#"{{"{name}":"{allowed}","x":"{allowed}"}}"#);
            check_declared(&of(&plain), limits, &same, true);
        }
    }

    #[test]
    fn arguments_are_declared_in_combined_nested_and_open_schemas() {
        let paths = r#"{"paths":["/srv"]}"#;
        let nested = r#"{"note":"x","options":{"path":"/srv/a"}}"#;
        let list = r#"{"note":"x","files":[{"path":"/srv/a"}]}"#;
        let flat = r#"{"note":"x","path":"/srv/a"}"#;
        for (schema, arguments, is_inside) in [
            (r#"{"properties":{"options":{"properties":{"path":{}}}}}"#, nested, true),
            (r#"{"properties":{"options":{"properties":{"depth":{}}}}}"#, nested, false),
            (r#"{"properties":{"options":{"type":"object"}}}"#, nested, true),
            (
                r##"{"properties":{"options":{"anyOf":[{"$ref":"#/$defs/O"},{"type":"null"}]}},
                    "$defs":{"O":{"properties":{"path":{}}}}}"##,
                nested,
                true,
            ),
            (
                r##"{"properties":{"options":{"$ref":"#/$defs/O"}},
                    "$defs":{"O":{"properties":{"depth":{}}}}}"##,
                nested,
                false,
            ),
            (r#"{"properties":{"options":{"$ref":"https://other.example/o"}}}"#, nested, true),
            (r##"{"properties":{"options":{"$ref":"#/properties/options"}}}"##, nested, true),
            (r#"{"properties":{"files":{"items":{"properties":{"path":{}}}}}}"#, list, true),
            (r#"{"properties":{"files":{"items":{"properties":{"depth":{}}}}}}"#, list, false),
            (r#"{"properties":{"note":{}},"additionalProperties":false}"#, flat, false),
            (r#"{"properties":{"note":{}},"additionalProperties":true}"#, flat, true),
            (r#"{"properties":{"note":{}},"additionalProperties":{"type":"string"}}"#, flat, true),
            (r#"{"properties":{"note":{}},"patternProperties":{"^p":{}}}"#, flat, true),
            (r#"{"properties":{"note":{}},"anyOf":[{"required":["note"]}]}"#, flat, false),
            (r#"{"oneOf":[{"properties":{"note":{}}},{"properties":{"path":{}}}]}"#, flat, true),
        ] {
            check_declared(schema, paths, arguments, is_inside);
        }
    }

    #[test]
    fn schemas_that_refer_to_each_other_are_searched_in_bounded_time() {
        let all = vec![r##"{"$ref":"#"}"##; 3_000].join(",");
        let schema = format!(r#"{{"properties":{{"note":{{}}}},"allOf":[{all}]}}"#);
        check_declared(&schema, r#"{"paths":["/srv"]}"#, r#"{"path":"/srv/a"}"#, true);
    }

    #[test]
    fn calls_like_one_with_an_ignored_argument_are_not_approved() {
        let approved = like(r#"{"note":"a","path":"/srv/notes/a.txt"}"#).unwrap();
        let call = Some(r#"{"note":"passwd","path":"/srv/notes/a.txt"}"#);
        let tool = |schema: &str| -> mcp::Tool {
            serde_json::from_str(&format!(r#"{{"name":"t","inputSchema":{schema}}}"#)).unwrap()
        };
        let ignored = tool(r#"{"properties":{"note":{}}}"#);
        let declared = tool(r#"{"properties":{"note":{},"path":{}}}"#);
        assert!(is_like(&approved, call, Some(&ignored)).is_err());
        assert!(is_like(&approved, call, Some(&declared)).is_ok());
    }
}
