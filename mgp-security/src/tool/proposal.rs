//! Proposes a risk for a tool whose server declares nothing: a lower one than the kernel assumes, for the operator to
//! confirm (MGP §4).

use mgp_types::mcp;
use mgp_types::mgp::RiskLevel;
use serde_json::Value;

use super::assessment::Assessment;
use super::words::{CHANGES, MAY_CHANGE, READS, any, words};
use crate::policy::ServerPolicy;

/// Verbs for reading or calculating, in addition to [`READS`], with which the name of a harmless tool can begin.
const HARMLESS: &[&str] = &[
    "analyse",
    "analyze",
    "browse",
    "calculate",
    "compare",
    "compute",
    "estimate",
    "explain",
    "inspect",
    "lookup",
    "summarize",
    "validate",
    "verify",
];

/// Verbs after which an argument `query` is the text to search for, and not a statement.
const SEARCHES: &[&str] = &["search", "find", "lookup", "list", "browse"];

/// Kinds of searches, which can precede the verb, as in `web_search`.
const KINDS: &[&str] = &["academic", "code", "image", "local", "news", "semantic", "video", "web"];

/// Words in the names of arguments whose value is a statement in a language that can also write, e.g. SQL.
const STATEMENTS: &[&str] = &[
    "sql",
    "cypher",
    "sparql",
    "graphql",
    "statement",
    "statements",
    "mutation",
    "expression",
    "pipeline",
];

/// Keywords of schemas by which a tool takes arguments without describing each of them.
const UNDESCRIBED: &[&str] =
    &["patternProperties", "dependentRequired", "dependentSchemas", "propertyNames"];

/// Returns the lower risk that a tool of this server would have if the server declared that the tool only reads.
///
/// Returns `None` if the risk would not be lower, if the tool requires a confirmation, if the server declares anything
/// about the effects of the tool, if the operator has set the risk, or if the name or the arguments of the tool suggest
/// that it does more than read.
pub(crate) fn proposed_risk(
    tool: &mcp::Tool,
    policy: &ServerPolicy,
    server: &str,
) -> Option<RiskLevel> {
    let hints = tool.annotations.as_ref();
    let has_hints = hints
        .is_some_and(|hints| hints.read_only_hint.is_some() || hints.destructive_hint.is_some());
    let declares = has_hints || tool.find_security().is_some();
    if declares
        || policy.risk.contains_key(&tool.name)
        || !reads(&tool.name, server)
        || arguments_can_write(tool)
    {
        return None;
    }
    let now = Assessment::of(tool, policy);
    let mut declared = tool.clone();
    declared.annotations.get_or_insert_default().read_only_hint = Some(true);
    let proposed = Assessment::of(&declared, policy).effective_risk;
    (!now.confirmation_required && proposed < now.effective_risk).then_some(proposed)
}

/// Returns whether a name begins with a verb for reading or calculating, possibly after the name of the server and a
/// kind of search, and contains no verb for writing. If the single word after the verb can be both a noun and a verb,
/// e.g. in `get_post`, `reads_by_name` decides. `query` does not count as a verb for reading, because queries of
/// databases can write.
fn reads(tool: &str, server: &str) -> bool {
    let (own, all) = (words(server), words(tool));
    let rest = all.iter().skip_while(|word| own.contains(word)).map(String::as_str);
    let mut rest = rest.skip_while(|word| KINDS.contains(word));
    let verb = rest.next().unwrap_or_default();
    let changes = |word: &str| CHANGES.contains(&word) || MAY_CHANGE.contains(&word);
    let things: Vec<&str> = rest.collect();
    (READS.contains(&verb) && verb != "query" || HARMLESS.contains(&verb))
        && (things.len() == 1 || !things.iter().any(|word| changes(word)))
        && mgp_validators::reads_by_name(tool)
}

/// Returns whether the arguments can make a tool with a harmless name do more than read: they contain a statement of a
/// query language, a value that is a verb for writing, or arguments that the schema does not describe.
fn arguments_can_write(tool: &mcp::Tool) -> bool {
    let searches = words(&tool.name).iter().any(|word| SEARCHES.contains(&word.as_str()));
    let Ok(schema) = tool.input_schema.get::<Value>() else { return true };
    let mut left = vec![&schema];
    while let Some(value) = left.pop() {
        match value {
            Value::Object(members) => {
                let names = members.get("properties").and_then(Value::as_object);
                let is_listed = |name: &Value| {
                    let name = name.as_str().unwrap_or_default();
                    names.is_some_and(|names| names.contains_key(name))
                };
                let required = members.get("required").and_then(Value::as_array);
                if UNDESCRIBED.iter().any(|keyword| members.contains_key(*keyword))
                    || required.is_some_and(|required| !required.iter().all(is_listed))
                {
                    return true;
                }
                let is_statement = |name: &String| {
                    any(&words(name), STATEMENTS) || !searches && any(&words(name), &["query"])
                };
                if names.is_some_and(|names| names.keys().any(is_statement)) {
                    return true;
                }
                let values = members.get("enum").and_then(Value::as_array).into_iter().flatten();
                let mut values = values.chain(members.get("const")).filter_map(Value::as_str);
                if values.any(mgp_validators::has_write_verb) {
                    return true;
                }
                left.extend(members.values());
            }
            Value::Array(items) => left.extend(items),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn proposed(definition: serde_json::Value, policy: &ServerPolicy) -> Option<String> {
        let tool: mcp::Tool = serde_json::from_value(definition).unwrap();
        proposed_risk(&tool, policy, "github").map(|risk| risk.to_string())
    }

    fn of(name: &str, properties: &serde_json::Value) -> Option<String> {
        let schema = json!({"type": "object", "properties": properties});
        proposed(json!({"name": name, "inputSchema": schema}), &ServerPolicy::default())
    }

    #[test]
    fn only_tools_that_read_by_name_and_arguments_get_a_proposal() {
        let id = json!({"id": {"type": "string"}});
        for name in ["get_time", "listIssues", "github_search_code", "compare_revisions"] {
            assert_eq!(of(name, &id).as_deref(), Some("safe"), "{name}");
        }
        let query = json!({"query": {"type": "string"}});
        assert_eq!(of("web_search", &query).as_deref(), Some("moderate"));
        assert_eq!(of("github_image_search", &query).as_deref(), Some("safe"));
        let path = json!({"path": {"type": "string"}});
        assert_eq!(of("read_file", &path).as_deref(), Some("moderate"));
        for name in [
            "create_issue",
            "web_save_search",
            "code_run",
            "get_or_create",
            "search_and_replace",
            "manage_view",
            "mark_read",
            "play_list",
            "run_query",
            "update_status",
            "gitlab_list_issues",
            "lese_datei",
            "frobnicate",
            "check_in",
            "list_add_item",
            "list_clear_all",
            "list_move_cards",
            "view_set_filter",
            "status_set_message",
            "query_cancel_job",
            "check_approve_request",
            "search_replace_text",
            "check_and_capture_payment",
            "get_and_wire_funds",
            "list_then_nuke",
            "query",
            "get_\u{4e00}",
        ] {
            assert_eq!(of(name, &id), None, "{name}");
        }
        for arguments in [
            json!({"sql": {}}),
            json!({"command": {}}),
            json!({"content": {}}),
            json!({"query": {"type": "string"}}),
            json!({"cypher": {"type": "string"}}),
            json!({"action": {"enum": ["show", "delete"]}}),
            json!({"options": {"patternProperties": {"": {}}}}),
        ] {
            assert_eq!(of("get_data", &arguments), None, "{arguments}");
        }
        assert_eq!(of("search_notes", &query).as_deref(), Some("safe"));
        assert_eq!(of("get_post", &id).as_deref(), Some("safe"));
        let hidden = json!({"name": "get_result", "inputSchema": {"type": "object", "required": ["command"]}});
        assert_eq!(proposed(hidden, &ServerPolicy::default()), None);
    }

    #[test]
    fn a_declaration_or_an_entry_ends_the_proposal() {
        let tool = |member: &str, value: serde_json::Value| json!({"name": "get_time", "inputSchema": {"type": "object"}, member: value});
        let policy = ServerPolicy::default();
        let titled = tool("annotations", json!({"title": "Time"}));
        assert_eq!(proposed(titled.clone(), &policy).as_deref(), Some("safe"));
        for declared in [
            tool("annotations", json!({"readOnlyHint": false})),
            tool("annotations", json!({"destructiveHint": true})),
            tool("security", json!({"risk_level": "moderate"})),
        ] {
            assert_eq!(proposed(declared.clone(), &policy), None, "{declared}");
        }
        let set = policy.clone().risk("get_time", RiskLevel::Dangerous);
        assert_eq!(proposed(titled.clone(), &set), None);
        let untrusted = policy.trust(mgp_types::mgp::TrustLevel::Untrusted);
        assert_eq!(proposed(titled, &untrusted), None);
    }
}
