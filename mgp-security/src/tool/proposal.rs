//! The lower risk that an operator might want to set for a tool whose server declares nothing (MGP §4).

use mgp_types::mcp;
use mgp_types::mgp::RiskLevel;

use super::assessment::Assessment;
use super::words::{READS, words};
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

/// Returns the risk that a tool of this server would have if the server declared that the tool only reads.
///
/// Returns `None` if the server declares anything about the effects of the tool, if the operator has set the risk, or
/// if the name or the arguments of the tool suggest that it does more than read.
pub(crate) fn proposed_risk(
    tool: &mcp::Tool,
    policy: &ServerPolicy,
    server: &str,
) -> Option<RiskLevel> {
    let hints = tool.annotations.as_ref();
    let has_hints = hints
        .is_some_and(|hints| hints.read_only_hint.is_some() || hints.destructive_hint.is_some());
    let declares = has_hints || tool.find_security().is_some();
    if declares || policy.risk.contains_key(&tool.name) || !reads(&tool.name, server) {
        return None;
    }
    let now = Assessment::of(tool, policy);
    let mut declared = tool.clone();
    declared.annotations.get_or_insert_default().read_only_hint = Some(true);
    let proposed = Assessment::of(&declared, policy).effective_risk;
    (!now.confirmation_required && proposed < now.effective_risk).then_some(proposed)
}

/// Returns whether a name begins with a verb for reading, possibly after the name of the server, and contains no verb
/// for writing.
fn reads(tool: &str, server: &str) -> bool {
    let (own, all) = (words(server), words(tool));
    let first = all.iter().find(|word| !own.contains(word)).map(String::as_str);
    first.is_some_and(|word| READS.contains(&word) || HARMLESS.contains(&word))
        && mgp_validators::reads_by_name(tool)
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
        let path = json!({"path": {"type": "string"}});
        assert_eq!(of("read_file", &path).as_deref(), Some("moderate"));
        for name in [
            "create_issue",
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
            "get_\u{4e00}",
        ] {
            assert_eq!(of(name, &id), None, "{name}");
        }
        for arguments in [json!({"sql": {}}), json!({"command": {}}), json!({"content": {}})] {
            assert_eq!(of("get_data", &arguments), None, "{arguments}");
        }
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
