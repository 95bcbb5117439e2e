//! Tests of the metadata that lists of tools show (MGP §4.2).

use mgp_types::Lenient;
use mgp_types::mcp::Tool;
use mgp_types::mgp::{RiskLevel, ToolSecurity, TrustLevel};

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

#[track_caller]
fn check(trust: &str, rest: &str, expected: Hints) -> ToolSecurity {
    let mut tool = tool(rest);
    let policy = ServerPolicy { trust: TrustLevel::from(trust), ..ServerPolicy::default() };
    let assessment = Assessment::of(&tool, &policy);
    assessment.annotate(&mut tool);
    assert_eq!(hints(&tool), expected);
    let Some(Lenient::Valid(security)) = tool.security.take() else { panic!("it must be shown") };
    assert_eq!(security.effective_risk_level.as_ref(), Some(&assessment.effective_risk));
    let Some(Lenient::Valid(mirror)) = tool.find_security() else { panic!("it must be mirrored") };
    assert_eq!(mirror, security);
    security
}

#[test]
fn a_list_shows_the_effective_risk_and_never_less_than_it() {
    let safe = r#","security":{"risk_level":"safe","effective_risk_level":"safe"}"#;
    check("standard", safe, (Some(true), Some(false), None));
    let shown = check("sandboxed", safe, (Some(false), Some(true), None));
    assert_eq!(shown.risk_level, RiskLevel::Safe, "what was declared stays beside it");
    let shown = check("standard", "", (Some(false), Some(true), None));
    assert_eq!(shown.risk_level, RiskLevel::Dangerous);
    let harmless =
        r#","annotations":{"readOnlyHint":true,"destructiveHint":false,"openWorldHint":false}"#;
    check("standard", harmless, (Some(true), Some(false), Some(false)));
    check("sandboxed", harmless, (Some(false), Some(true), Some(false)));
    let closed = r#","security":{"risk_level":"safe","side_effects":["network"]},"annotations":{"openWorldHint":false}"#;
    check("standard", closed, (Some(true), Some(false), Some(true)));
}

#[test]
fn other_members_of_the_mirror_stay() {
    let mut tool =
        tool(r#","_meta":{"a":1,"dev.cloto/mgp":{"b":2,"security":{"risk_level":"safe"}}}"#);
    Assessment::of(&tool, &ServerPolicy::default()).annotate(&mut tool);
    let meta = serde_json::to_value(&tool.meta).unwrap();
    assert_eq!(meta["a"], 1);
    assert_eq!(meta["dev.cloto/mgp"]["b"], 2);
    assert_eq!(meta["dev.cloto/mgp"]["security"]["effective_risk_level"], "safe");
}
