//! The arguments that the input schema of a tool declares: whether it declares any arguments, and which arguments are
//! targets.
//!
//! Most tools ignore an argument that they do not declare. Such an argument is checked like any other, but does not
//! count as the target of a call. Otherwise, an allowed path in an ignored argument would satisfy a limit, while
//! another argument with an unknown name contains the real path.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::kinds::{About, words};

/// The maximum number of schemas in which a member is searched.
const SCHEMAS_MAX: usize = 1_000;

/// The schema of a value among the arguments.
#[derive(Clone, Debug)]
pub(super) enum Declared<'a> {
    /// There is no schema, or it allows members with any names.
    Any,
    /// The tool does not declare the value.
    Undeclared,
    /// The value has a schema, or several in combined schemas. All of them count, because it is unknown which one the
    /// tool applies. `is_declared` is `false` for a member whose declared name differs in case, because the tool may
    /// ignore this member.
    Schemas { root: &'a Value, own: Vec<&'a Value>, is_declared: bool },
}

impl<'a> Declared<'a> {
    /// Creates the schema of all arguments.
    pub(super) fn of(schema: &'a Value) -> Self {
        Self::Schemas { root: schema, own: vec![schema], is_declared: true }
    }

    pub(super) fn is_declared(&self) -> bool {
        !matches!(self, Self::Undeclared | Self::Schemas { is_declared: false, .. })
    }

    /// Returns the kinds of targets that the schema declares with formats, e.g. `uri`, whatever the name of the value.
    pub(super) fn targets(&self) -> Vec<About> {
        let mut found: Vec<About> = Vec::new();
        let Self::Schemas { root, own, .. } = self else { return found };
        CombinedSchemas::of(root).visit_all(own, &mut |schema| {
            let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
            found.extend(match format.to_ascii_lowercase().as_str() {
                "uri" | "url" | "iri" | "hostname" | "idn-hostname" | "ipv4" | "ipv6" => {
                    Some(About::Host)
                }
                "path" | "file-path" | "directory-path" => Some(About::Path),
                _ => None,
            });
        });
        found
    }

    /// Returns the schemas of a list together with the schemas of its items.
    pub(super) fn with(&self, items: &Self) -> Self {
        match (self, items) {
            (Self::Schemas { root, own, is_declared }, Self::Schemas { own: more, .. }) => {
                let own = own.iter().chain(more).copied().collect();
                Self::Schemas { root, own, is_declared: *is_declared }
            }
            (Self::Schemas { .. }, _) => self.clone(),
            _ => items.clone(),
        }
    }

    /// Returns whether the value may name a target although its name and format do not show it: its title or
    /// description has one of these words, or its schema has neither a description nor a list of values.
    pub(super) fn may_name(&self, target_words: &[&str]) -> bool {
        let Self::Schemas { root, own, .. } = self else { return true };
        let (mut is_fixed, mut is_described, mut has_word) = (false, false, false);
        let mut schemas = CombinedSchemas::of(root);
        schemas.visit_all(own, &mut |schema| {
            is_fixed |= ["enum", "const", "format"].iter().any(|key| schema.contains_key(*key));
            for key in ["title", "description"] {
                let text = schema.get(key).and_then(Value::as_str).unwrap_or_default();
                is_described |= key == "description" && !text.is_empty();
                has_word |= words(text).iter().any(|word| target_words.contains(&word.as_str()));
            }
        });
        has_word || !is_described && !is_fixed || schemas.is_cut
    }

    /// Returns the kinds of targets that the schema declares for the names of an object's members (`propertyNames`).
    pub(super) fn name_targets(&self) -> Vec<About> {
        let Self::Schemas { root, own, is_declared } = self else { return Vec::new() };
        let root = *root;
        let mut found: Vec<&'a Value> = Vec::new();
        CombinedSchemas::of(root).visit_all(own, &mut |schema| {
            found.extend(schema.get("propertyNames"));
        });
        Self::Schemas { root, own: found, is_declared: *is_declared }.targets()
    }

    /// Returns the schema of a member. If the declared name of the member differs in case, also returns the declared
    /// name: servers that ignore case, as many in Go and C# do, read the member as if it had the declared name.
    pub(super) fn member(&self, name: &str) -> (Self, Option<&'a str>) {
        let Self::Schemas { root, own, is_declared } = self else { return (self.clone(), None) };
        let (root, is_declared) = (*root, *is_declared);
        let (mut found, mut others): (Vec<&'a Value>, Vec<&'a Value>) = (Vec::new(), Vec::new());
        let (mut lists_members, mut any) = (false, false);
        let mut schemas = CombinedSchemas::of(root);
        schemas.visit_all(own, &mut |schema| {
            if let Some(listed) = schema.get("properties").and_then(Value::as_object) {
                lists_members = true;
                found.extend(listed.get(name));
            }
            // In schemas of tools that use only the listed members, `additionalProperties` is `false` or absent. Any
            // other value means that the tool may use further members.
            let open = ["additionalProperties", "unevaluatedProperties"];
            let open = open.iter().filter_map(|name| schema.get(*name));
            let patterns = schema.get("patternProperties");
            any |= open.clone().chain(patterns).any(|other| *other != Value::Bool(false));
            let patterns = patterns.and_then(Value::as_object).into_iter().flat_map(Map::values);
            others.extend(open.chain(patterns).filter(|other| other.is_object()));
        });
        let is_cut = schemas.is_cut;
        if !found.is_empty() {
            return (Self::Schemas { root, own: found, is_declared }, None);
        }
        if is_cut {
            others.clear();
        }
        let read = in_other_case(root, own, name);
        let known = read.first().map(|(known, _)| known.as_str());
        others.extend(read.into_iter().map(|(_, schema)| schema));
        let is_declared = is_declared && known.is_none();
        let schema = if !others.is_empty() {
            Self::Schemas { root, own: others, is_declared }
        } else if is_declared && (any || is_cut || !lists_members) {
            Self::Any
        } else {
            Self::Undeclared
        };
        (schema, known)
    }

    pub(super) fn item(&self) -> Self {
        let Self::Schemas { root, own, is_declared } = self else { return self.clone() };
        let (root, is_declared) = (*root, *is_declared);
        let mut found: Vec<&'a Value> = Vec::new();
        CombinedSchemas::of(root).visit_all(own, &mut |schema| {
            for name in ["items", "prefixItems", "additionalItems", "unevaluatedItems"] {
                match schema.get(name) {
                    // A tuple has a schema for each position, but each of these schemas counts for every item here.
                    Some(Value::Array(each)) => {
                        found.extend(each.iter().filter(|one| one.is_object()));
                    }
                    Some(one) if one.is_object() => found.push(one),
                    _ => {}
                }
            }
        });
        match (found.is_empty(), is_declared) {
            (false, _) => Self::Schemas { root, own: found, is_declared },
            (true, true) => Self::Any,
            (true, false) => Self::Undeclared,
        }
    }
}

/// Returns the declared members whose names differ from a name only in the case of letters.
fn in_other_case<'a>(
    root: &'a Value,
    own: &[&'a Value],
    name: &str,
) -> Vec<(&'a String, &'a Value)> {
    let mut found: Vec<(&'a String, &'a Value)> = Vec::new();
    CombinedSchemas::of(root).visit_all(own, &mut |schema| {
        let listed = schema.get("properties").and_then(Value::as_object);
        let members = listed.into_iter().flatten();
        found.extend(members.filter(|(known, _)| folded(known).eq(folded(name))));
    });
    found
}

/// Returns the letters of a name in one case. They are converted to upper case first, because `ſ` then becomes `S`.
pub(super) fn folded(name: &str) -> impl Iterator<Item = char> {
    name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase)
}

/// A walk through a schema and all schemas that it combines.
struct CombinedSchemas<'a> {
    root: &'a Value,
    /// `true` if some schemas were not visited: a reference has no known target, or there are too many schemas.
    is_cut: bool,
}

impl<'a> CombinedSchemas<'a> {
    fn of(root: &'a Value) -> Self {
        Self { root, is_cut: false }
    }

    /// Visits each schema once, even if several others combine it.
    fn visit_all(&mut self, schemas: &[&'a Value], each: &mut impl FnMut(&'a Map<String, Value>)) {
        let mut open = schemas.to_vec();
        let mut seen: HashSet<*const Map<String, Value>> = HashSet::new();
        while let Some(schema) = open.pop() {
            let Some(schema) = schema.as_object() else { continue };
            if !seen.insert(std::ptr::from_ref(schema)) {
                continue;
            }
            if seen.len() > SCHEMAS_MAX {
                self.is_cut = true;
                return;
            }
            each(schema);
            if let Some(reference) = schema.get("$ref") {
                let target = reference.as_str().and_then(|text| text.strip_prefix('#'));
                match target.and_then(|pointer| self.root.pointer(pointer)) {
                    Some(target) => open.push(target),
                    None => self.is_cut = true,
                }
            }
            self.is_cut |= schema.contains_key("$dynamicRef");
            let lists = ["allOf", "anyOf", "oneOf"].iter().filter_map(|name| schema.get(*name));
            open.extend(lists.filter_map(Value::as_array).flatten());
            open.extend(["then", "else"].iter().filter_map(|name| schema.get(*name)));
        }
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::mcp;
    use mgp_types::mgp::PermissionScope;

    use super::super::{check, doubt, is_like, like};

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

    /// Servers that ignore the case of names read such an argument as if it had the declared name.
    #[test]
    fn an_argument_that_is_declared_in_other_case_is_checked_like_the_declared_one() {
        let hosts = r#"{"hosts":["a.example"]}"#;
        let schema = r#"{"properties":{"host":{},"targetHost":{},"x":{"format":"hostname"}}}"#;
        for name in ["hOst", r"ho\u017ft", "targethost", "targetHOSt", "X"] {
            for (value, is_inside) in [("b.example", false), ("a.example", true)] {
                let arguments = format!(r#"{{"host":"a.example","{name}":"{value}"}}"#);
                check_declared(schema, hosts, &arguments, is_inside);
            }
            // The tool may ignore the argument, so the argument does not count as the target.
            let alone = format!(r#"{{"{name}":"a.example"}}"#);
            check_declared(schema, hosts, &alone, false);
        }
        let schema = r#"{"properties":{"host":{},"at":{"properties":{"x":{"format":"hostname"}}},"all":{"items":{"format":"hostname"}}}}"#;
        for (inner, is_inside) in [("b.example", false), ("a.example", true)] {
            for other in [format!(r#""At":{{"x":"{inner}"}}"#), format!(r#""ALL":["{inner}"]"#)] {
                let arguments = format!(r#"{{"host":"a.example",{other}}}"#);
                check_declared(schema, hosts, &arguments, is_inside);
                check_declared(schema, hosts, &format!("{{{other}}}"), false);
            }
        }
        let commands = r#"{"commands":["ls"]}"#;
        let schema = r#"{"properties":{"command":{}}}"#;
        check_declared(schema, commands, r#"{"command":"ls","cOmmand":"id"}"#, false);
        let time = r#"{"max_execution_time_ms":9}"#;
        let schema = r#"{"properties":{"timeoutMs":{}}}"#;
        check_declared(schema, time, r#"{"timeoutMs":1,"TIMEOUTMS":99}"#, false);
        let paths = r#"{"paths":["/srv"]}"#;
        let schema = r#"{"properties":{"path":{},"content":{}}}"#;
        check_declared(schema, paths, r#"{"path":"/srv/a","pAth":"notes.txt"}"#, false);
        check_declared(schema, paths, r#"{"path":"/srv/a","Content":"/etc"}"#, true);
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
            for either in [
                format!(r#"{{"anyOf":[{{"type":"string"}},{plain}]}}"#),
                r#"{"anyOf":[{"format":"uri"},{"format":"path"}]}"#.to_owned(),
                r#"{"anyOf":[{"format":"path"},{"format":"uri"}]}"#.to_owned(),
            ] {
                check_declared(&of(&either), limits, &arguments, false);
            }
            for items in [
                format!(r#"{{"items":{plain}}}"#),
                format!(r#"{{"anyOf":[{{"type":"array","items":{plain}}},{{"type":"null"}}]}}"#),
                format!(r#"{{"anyOf":[{{"items":{{"type":"string"}}}},{{"items":{plain}}}]}}"#),
                format!(
                    r##"{{"$ref":"#/properties/x/$defs/L","$defs":{{"L":{{"items":{plain}}}}}}}"##
                ),
                format!(r#"{{"prefixItems":[{{"type":"string"}},{plain}]}}"#),
                format!(r#"{{"items":[{plain}]}}"#),
                format!(r#"{{"items":[],"additionalItems":{plain}}}"#),
            ] {
                check_declared(&of(&items), limits, &list, false);
                let same = format!(r#"{{"{name}":"{allowed}","x":["{allowed}"]}}"#);
                check_declared(&of(&items), limits, &same, true);
            }
            for named in ["additionalProperties", "unevaluatedProperties", "patternProperties"] {
                let is_pattern = named == "patternProperties";
                let others =
                    if is_pattern { format!(r#"{{"^k":{plain}}}"#) } else { plain.clone() };
                let members = of(&format!(r#"{{"{named}":{others}}}"#));
                let with =
                    |value: &str| format!(r#"{{"{name}":"{allowed}","x":{{"k":"{value}"}}}}"#);
                check_declared(&members, limits, &with(other), false);
                check_declared(&members, limits, &with(allowed), true);
            }
            let names = of(&format!(r#"{{"propertyNames":{{"allOf":[{plain}]}}}}"#));
            let keyed = |value: &str| format!(r#"{{"{name}":"{allowed}","x":{{"{value}":true}}}}"#);
            check_declared(&names, limits, &keyed(other), false);
            check_declared(&names, limits, &keyed(allowed), true);
            let twice = format!(
                r#"{{"oneOf":[{{"properties":{{"{name}":{{}},"x":{{}}}}}},{{"properties":{{"x":{plain}}}}}]}}"#
            );
            check_declared(&twice, limits, &arguments, false);
            let same = format!(r#"{{"{name}":"{allowed}","x":"{allowed}"}}"#);
            check_declared(&of(&plain), limits, &same, true);
        }
    }

    #[test]
    fn a_bare_name_under_an_unknown_name_is_in_doubt_unless_its_description_is_about_something_else()
     {
        let hosts = (r#"{"hosts":["ok.example"]}"#, r#""url":"https://ok.example""#);
        let paths = (r#"{"paths":["/srv"]}"#, r#""path":"/srv/a""#);
        for ((limits, allowed), schema, other, is_in_doubt) in [
            (hosts, "{}", "evil.com", true),
            (hosts, r#"{"description":"The proxy to use."}"#, "evil.com", true),
            (hosts, r#"{"title":"Via"}"#, "evil.com", true),
            (hosts, r#"{"description":"A CSS selector."}"#, "div.title", false),
            (hosts, r#"{"enum":["a.rest","b.rest"]}"#, "a.rest", false),
            (hosts, "{}", "report.pdf", false),
            (hosts, "{}", "plain", false),
            (hosts, "{}", "v1.2", false),
            (paths, "{}", "notes.txt", true),
            (paths, "{}", ".env", true),
            (paths, r#"{"description":"The template file."}"#, "a.tpl", true),
            (paths, r#"{"description":"The symbol to rename."}"#, "os.walk", false),
            (paths, "{}", "1.5", false),
        ] {
            let schema = format!(r#"{{"properties":{{"url":{{}},"path":{{}},"x":{schema}}}}}"#);
            let tool = format!(r#"{{"name":"t","inputSchema":{schema}}}"#);
            let tool: mcp::Tool = serde_json::from_str(&tool).unwrap();
            for value in [format!(r#""{other}""#), format!(r#"["{other}"]"#)] {
                let arguments = format!(r#"{{{allowed},"x":{value}}}"#);
                let (limits, arguments) = (scope(limits), Some(arguments.as_str()));
                assert_eq!(check(&limits, arguments, Some(&tool)), Ok(()), "{arguments:?}");
                let doubt = doubt(&limits, arguments, Some(&tool));
                assert_eq!(doubt.is_some(), is_in_doubt, "{schema} {arguments:?}: {doubt:?}");
            }
            for known in [
                format!(r#"{{{allowed},"name":"x","content":"{other}","query":"{other}"}}"#),
                format!(r#"{{{allowed},"pattern":"{other}","excludeGlobs":["{other}"]}}"#),
                format!(r#"{{{allowed},"body":{{"a":"{other}","b":[{{"c":["{other}"]}}]}}}}"#),
            ] {
                assert_eq!(doubt(&scope(limits), Some(&known), Some(&tool)), None, "{known}");
            }
        }
        let page = like(r#"{"url":"https://ok.example/a"}"#).unwrap();
        let call = Some(r#"{"url":"https://ok.example/a","x":"evil.com"}"#);
        assert!(is_like(&page, call, None).is_err());
        let file = like(r#"{"path":"/srv/notes/a.txt"}"#).unwrap();
        let call = Some(r#"{"path":"/srv/notes/b.txt","x":"evil.com"}"#);
        assert!(is_like(&file, call, None).is_err(), "the approved call had no host");
    }

    #[test]
    fn a_path_where_a_path_or_a_url_is_declared_is_outside_no_limit_on_hosts() {
        let hosts = r#"{"hosts":["ok.example"]}"#;
        let tuple =
            r#"{"properties":{"pair":{"prefixItems":[{"format":"uri"},{"format":"path"}]}}}"#;
        for (first, second, is_inside) in [
            ("https://ok.example/x", "/srv/a", true),
            ("https://b.example/x", "/srv/a", false),
            ("https://ok.example/x", "b.example", false),
            ("https://ok.example/x", "//b.example/x", false),
            ("https://ok.example/x", "~x@b.example/a", false),
        ] {
            let pair = format!(r#"{{"pair":["{first}","{second}"]}}"#);
            check_declared(tuple, hosts, &pair, is_inside);
        }
        for (name, is_inside) in
            [("dest", true), ("place", true), ("file", true), ("query", true), ("endpoint", false)]
        {
            let union = r#"{"anyOf":[{"format":"path"},{"format":"uri"}]}"#;
            let schema = format!(r#"{{"properties":{{"url":{{}},"{name}":{union}}}}}"#);
            let with =
                |value: &str| format!(r#"{{"url":"https://ok.example/x","{name}":"{value}"}}"#);
            check_declared(&schema, hosts, &with("/srv/y"), is_inside);
            check_declared(&schema, hosts, &with("~x@b.example/a"), false);
            check_declared(&schema, hosts, &with("https://b.example/y"), false);
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
            (
                r#"{"properties":{"files":{"anyOf":[{"items":{"properties":{"depth":{}}}},{"type":"null"}]}}}"#,
                list,
                false,
            ),
            (
                r##"{"properties":{"files":{"$ref":"#/$defs/F"}},
                    "$defs":{"F":{"items":{"properties":{"path":{}}}}}}"##,
                list,
                true,
            ),
            (
                r##"{"properties":{"files":{"$ref":"#/$defs/F"}},
                    "$defs":{"F":{"items":{"properties":{"depth":{}}}}}}"##,
                list,
                false,
            ),
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
    fn an_ignored_argument_deep_in_a_union_that_contains_itself_is_not_declared() {
        let variant = |kind: &str| {
            format!(
                r##""{kind}":{{"properties":{{"kind":{{"const":"{kind}"}},
                    "args":{{"items":{{"$ref":"#/$defs/E"}}}}}}}}"##
            )
        };
        let schema = format!(
            r##"{{"properties":{{"note":{{}},"args":{{"items":{{"$ref":"#/$defs/E"}}}}}},"$defs":{{
                "E":{{"anyOf":[{{"$ref":"#/$defs/A"}},{{"$ref":"#/$defs/B"}},{{"$ref":"#/$defs/C"}}]}},
                {},{},{}}}}}"##,
            variant("A"),
            variant("B"),
            variant("C")
        );
        let inner = (0..8)
            .fold(r#"{"path":"/srv/a"}"#.to_owned(), |inner, _| format!(r#"{{"args":[{inner}]}}"#));
        let arguments = format!(r#"{{"note":"x",{}"#, &inner[1..]);
        check_declared(&schema, r#"{"paths":["/srv"]}"#, &arguments, false);
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
