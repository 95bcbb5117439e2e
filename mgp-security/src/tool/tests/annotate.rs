//! Tests of the hints that are derived from the metadata of tools (MGP §4.2).

use mgp_types::mcp::Tool;
use mgp_types::mgp::RiskLevel;

use crate::{Assessment, ServerPolicy, derive_hints};

type Hints = (Option<bool>, Option<bool>, Option<bool>);

fn tool(rest: &str) -> Tool {
    serde_json::from_str(&format!(r#"{{"name":"t","inputSchema":{{}}{rest}}}"#)).unwrap()
}

fn hints(tool: &Tool) -> Hints {
    let hints = tool.annotations.clone().unwrap_or_default();
    (hints.read_only_hint, hints.destructive_hint, hints.open_world_hint)
}

#[test]
fn hints_follow_the_metadata_unless_the_author_gave_them() {
    let rows = [
        ("", (None, None, None)),
        (r#","security":{"risk_level":"safe"}"#, (Some(true), Some(false), None)),
        (r#","security":{"risk_level":"moderate"}"#, (Some(false), Some(false), None)),
        (
            r#","security":{"risk_level":"moderate","reversible":false}"#,
            (Some(false), Some(true), None),
        ),
        (
            r#","security":{"risk_level":"dangerous","reversible":true}"#,
            (Some(false), Some(true), None),
        ),
        (r#","security":{"risk_level":"odd"}"#, (Some(false), Some(true), None)),
        (
            r#","security":{"risk_level":"safe","side_effects":["network"]}"#,
            (Some(true), Some(false), Some(true)),
        ),
        (
            r#","security":{"risk_level":"dangerous"},"annotations":{"readOnlyHint":true}"#,
            (Some(true), Some(false), None),
        ),
    ];
    for (rest, expected) in rows {
        let mut tool = tool(rest);
        derive_hints(&mut tool);
        assert_eq!(hints(&tool), expected, "{rest}");
    }
}

#[test]
fn a_moderate_tool_of_our_own_is_not_called_dangerous_elsewhere() {
    for (risk, reversible) in
        [("safe", ""), ("moderate", ""), ("moderate", r#","reversible":true"#)]
    {
        let mut tool = tool(&format!(r#","security":{{"risk_level":"{risk}"{reversible}}}"#));
        derive_hints(&mut tool);
        let assessment = Assessment::of(&tool, &ServerPolicy::default());
        assert_eq!(assessment.effective_risk, RiskLevel::from(risk));
        // A client that reads only the hints arrives at the same risk.
        tool.security = None;
        assert_eq!(Assessment::of(&tool, &ServerPolicy::default()).effective_risk.as_str(), risk);
    }
}
