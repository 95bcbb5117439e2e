//! Tests of the assessment that results from a definition and a policy, one row per case (MGP §4).

use mgp_types::mcp::Tool;
use mgp_types::mgp::{Permission, RiskLevel, TrustLevel, Validator};

use crate::{Assessment, ServerPolicy};

/// Creates a tool from a name, its arguments (each `NAME` or `NAME:FORMAT`), and further members of the definition.
fn tool(name: &str, arguments: &str, rest: &str) -> Tool {
    let properties: Vec<_> = arguments
        .split_whitespace()
        .map(|argument| match argument.split_once(':') {
            Some((name, format)) => format!(r#""{name}":{{"type":"string","format":"{format}"}}"#),
            None => format!(r#""{argument}":{{"type":"string"}}"#),
        })
        .collect();
    let properties = properties.join(",");
    serde_json::from_str(&format!(
        r#"{{"name":"{name}","inputSchema":{{"type":"object","properties":{{{properties}}}}}{rest}}}"#
    ))
    .unwrap()
}

fn policy(trust: &str) -> ServerPolicy {
    ServerPolicy { trust: TrustLevel::from(trust), ..ServerPolicy::default() }
}

/// Formats an assessment as `risk permissions validators`, each list joined by commas, or `-` if it is empty.
fn shown(assessment: &Assessment) -> String {
    let list = |words: Vec<&str>| if words.is_empty() { "-".to_owned() } else { words.join(",") };
    let permissions = assessment.permissions.iter().map(Permission::as_str).collect();
    let validators = assessment.validators.iter().map(Validator::as_str).collect();
    format!("{} {} {}", assessment.effective_risk, list(permissions), list(validators))
}

#[track_caller]
fn check(trust: &str, tool: &Tool, expected: &str) {
    assert_eq!(shown(&Assessment::of(tool, &policy(trust))), expected);
}

#[test]
fn a_plain_tool_is_dangerous_unless_uncontradicted_hints_of_a_trusted_server_say_less() {
    let read_only = r#","annotations":{"readOnlyHint":true}"#;
    let additive = r#","annotations":{"destructiveHint":false}"#;
    let rows = [
        ("echo", "message", "", "dangerous - -"),
        ("echo", "message", read_only, "safe - -"),
        ("echo", "message", additive, "moderate - -"),
        ("echo", "message", r#","annotations":{"destructiveHint":true}"#, "dangerous - -"),
        ("echo", "message", r#","annotations":{"readOnlyHint":false}"#, "dangerous - -"),
        (
            "echo",
            "message",
            r#","annotations":{"readOnlyHint":true,"destructiveHint":true}"#,
            "dangerous - -",
        ),
        // A `security` that cannot be read contradicts the hints.
        (
            "echo",
            "message",
            r#","annotations":{"readOnlyHint":true},"security":{"risk_level":5}"#,
            "dangerous - -",
        ),
        ("echo", "message", r#","annotations":{"readOnlyHint":true},"security":null"#, "safe - -"),
        ("read_file", "path", read_only, "moderate filesystem.read -"),
        // The name contradicts the hint, in whatever form the name is written.
        ("delete_note", "id", read_only, "dangerous - -"),
        ("deleteNote", "id", additive, "dangerous - -"),
        ("deleteuser", "id", additive, "dangerous - -"),
        ("notes.DELETE", "id", additive, "dangerous - -"),
        ("create_note", "title", read_only, "dangerous - -"),
        ("create_note", "title", additive, "moderate - -"),
        ("send_message", "text", additive, "moderate - -"),
        (r"d\u0435lete", "id", additive, "dangerous - -"),
        ("get_update", "id", read_only, "safe - -"),
        ("update_note", "id", read_only, "dangerous - -"),
        // These two tools change files of a repository.
        ("git_add", "repo_path files", additive, "dangerous filesystem.write -"),
        ("git_checkout", "repo_path branch_name", additive, "dangerous filesystem.write -"),
        ("get_checkout", "id", read_only, "safe - -"),
        // A prefix of the verb does not change its meaning.
        ("API-get-block-children", "block_id", read_only, "safe - -"),
        ("API-retrieve-a-block", "block_id", read_only, "safe - -"),
        ("API-retrieve-a-block", "block_id", "", "dangerous - -"),
        ("API-delete-a-block", "block_id", read_only, "dangerous - -"),
        ("API-post-page", "title", read_only, "dangerous - -"),
        ("start_search", "path", read_only, "moderate filesystem.read -"),
        ("start_process", "name", read_only, "dangerous shell.execute -"),
        // Opening data means reading it.
        ("open_nodes", "names", read_only, "safe - -"),
        ("openNodes", "names", "", "dangerous - -"),
        ("open_issue", "title", read_only, "dangerous - -"),
        ("open_nodes_and_delete", "names", read_only, "dangerous - -"),
        ("open_file", "content", read_only, "dangerous filesystem.write -"),
        ("open", "names", read_only, "dangerous - -"),
        // Arguments can contradict the hint, too.
        ("lookup", "sql", read_only, "dangerous - -"),
        ("lookup", "body", read_only, "dangerous - -"),
        ("lookup", "content_id body_type", read_only, "safe - -"),
        ("lookup", "content_id body_html", read_only, "dangerous - -"),
        ("lookup", "file_name content_id", read_only, "moderate filesystem.read -"),
        ("helper", "command", read_only, "dangerous shell.execute -"),
        ("helper", "code", additive, "dangerous code_execution -"),
        ("lookup", "country_code", read_only, "safe - -"),
        // If one hint is wrong, the other hints are not trusted.
        (
            "create_note",
            "title",
            r#","annotations":{"readOnlyHint":true,"destructiveHint":false}"#,
            "dangerous - -",
        ),
    ];
    for (name, arguments, rest, expected) in rows {
        check("standard", &tool(name, arguments, rest), expected);
        check("trusted", &tool(name, arguments, rest), expected);
    }
    for trust in ["sandboxed", "untrusted", "experimental", "root"] {
        check(trust, &tool("echo", "message", read_only), "dangerous - -");
        check(trust, &tool("echo", "message", additive), "dangerous - -");
    }
}

#[test]
fn only_definitions_that_a_schema_uses_describe_arguments() {
    let content = r#"{"properties":{"content":{"type":"string"}}}"#;
    for (properties, keyword, expected) in [
        ("", "$defs", "safe - -"),
        ("", "definitions", "safe - -"),
        (r##""a":{"$ref":"#/$defs/Id"}"##, "$defs", "safe - -"),
        (r##""a":{"$ref":"#/definitions/Page"}"##, "$defs", "safe - -"),
        (r##""a":{"$ref":"#/$defs/Page"}"##, "$defs", "dangerous - -"),
        (r##""a":{"$ref":"#/definitions/Page"}"##, "definitions", "dangerous - -"),
        (r##""a":{"$ref":"#/$defs/Page/properties/content"}"##, "$defs", "dangerous - -"),
        // The definition `Link` contains a reference to the definition `Page`.
        (r##""a":{"items":{"anyOf":[{"$ref":"#/$defs/Link"}]}}"##, "$defs", "dangerous - -"),
        // These references are not followed, so they count as leading to all definitions.
        (r##""a":{"$ref":"#"}"##, "$defs", "dangerous - -"),
        (r##""a":{"$ref":"#/$defs"}"##, "$defs", "dangerous - -"),
        (r##""a":{"$ref":"#/%24defs/Page"}"##, "$defs", "dangerous - -"),
        (r##""a":{"$ref":"#/$defs/~0Page"}"##, "$defs", "dangerous - -"),
        (r##""a":{"$ref":"#page"}"##, "$defs", "dangerous - -"),
        (r#""a":{"$ref":"https://example.com/page.json"}"#, "$defs", "dangerous - -"),
        (r##""a":{"$dynamicRef":"#page"}"##, "$defs", "dangerous - -"),
    ] {
        let tool: Tool = serde_json::from_str(&format!(
            r##"{{"name":"get_page","annotations":{{"readOnlyHint":true}},"inputSchema":{{"type":"object",
                "properties":{{{properties}}},"{keyword}":{{"Id":{{"type":"string"}},"Page":{content},
                "Link":{{"$ref":"#/{keyword}/Page"}}}}}}}}"##
        ))
        .unwrap();
        check("standard", &tool, expected);
    }
}

#[test]
fn an_argument_with_a_very_long_name_is_dangerous() {
    let read_only = r#","annotations":{"readOnlyHint":true}"#;
    let long = format!("{}_command", "a".repeat(1024));
    check("trusted", &tool("echo", &long, read_only), "dangerous - -");
    check("trusted", &tool("echo", &"a".repeat(1024), read_only), "safe - -");
}

#[test]
fn adding_numbers_changes_nothing_and_adding_a_user_does() {
    let add = |arguments: &str| -> Tool {
        serde_json::from_str(&format!(
            r#"{{"name":"add","inputSchema":{{"properties":{arguments}}},"annotations":{{"readOnlyHint":true}}}}"#
        ))
        .unwrap()
    };
    check("standard", &add(r#"{"a":{"type":"number"},"b":{"type":"integer"}}"#), "safe - -");
    check("standard", &add(r#"{"user":{"type":"string"}}"#), "dangerous - -");
}

#[test]
fn permissions_of_a_plain_tool_are_seen_in_its_name_and_arguments() {
    let rows = [
        ("echo", "message", "-"),
        ("add", "a b", "-"),
        ("get_time", "timezone", "-"),
        ("weather", "city", "-"),
        ("get_profile", "user_id", "-"),
        ("list_commands", "filter", "-"),
        ("read_file", "path", "filesystem.read"),
        ("readFile", "", "filesystem.read"),
        ("search", "filePath", "filesystem.read"),
        ("x", "target:path", "filesystem.read"),
        ("write_file", "path content", "filesystem.write"),
        ("file", "path content", "filesystem.write"),
        ("move_file", "source destination", "filesystem.write"),
        ("create-directory", "path", "filesystem.write"),
        ("fetch", "url", "network.outbound"),
        ("x", "target:uri", "network.outbound"),
        ("x", "target:hostname", "network.outbound"),
        ("web_search", "query", "network.outbound"),
        ("connect", "host port", "network.outbound"),
        ("listen", "port", "network.listen"),
        ("run_command", "", "shell.execute"),
        ("x", "cmd", "shell.execute"),
        ("bash", "input", "shell.execute"),
        ("start_process", "name", "shell.execute"),
        ("run_code", "language", "code_execution"),
        ("x", "python_code", "code_execution"),
        ("x", "script", "code_execution"),
        ("search_memory", "query", "memory.read"),
        ("recall", "query", "memory.read"),
        ("store_memory", "text", "memory.write"),
        ("add_knowledge", "text", "memory.write"),
        ("take_screenshot", "", "camera"),
        ("take_screenshot", "format fullPage", "-"),
        ("browser_take_screenshot", "type", "network.outbound"),
        ("webcam_screenshot", "page", "camera"),
        ("notify", "text", "notification"),
        ("get_env", "", "system.info"),
        ("download_file", "url path", "filesystem.write,network.outbound"),
    ];
    for (name, arguments, expected) in rows {
        for trust in ["standard", "sandboxed"] {
            check(trust, &tool(name, arguments, ""), &format!("dangerous {expected} -"));
        }
    }
    let open = tool("lookup", "query", r#","annotations":{"openWorldHint":true}"#);
    check("standard", &open, "dangerous network.outbound -");
    let nested: Tool = serde_json::from_str(
        r##"{"name":"x","inputSchema":{"$defs":{"job":{"properties":{"cmd":{}}}},"properties":{"job":{"$ref":"#/$defs/job"}}}}"##,
    )
    .unwrap();
    check("standard", &nested, "dangerous shell.execute -");
}

#[test]
fn a_boolean_argument_is_neither_a_file_nor_content() {
    let flags = |kind: &str| {
        let properties = format!(r#""include_files":{kind},"only_main_content":{kind}"#);
        let schema = format!(r#"{{"properties":{{{properties}}}}}"#);
        let hints = r#"{"readOnlyHint":true}"#;
        let text = format!(r#"{{"name":"x","inputSchema":{schema},"annotations":{hints}}}"#);
        serde_json::from_str::<Tool>(&text).unwrap()
    };
    for kind in [
        r#"{"type":"boolean"}"#,
        r#"{"type":["boolean","null"]}"#,
        r#"{"anyOf":[{"type":"boolean"},{"type":"null"}]}"#,
    ] {
        check("standard", &flags(kind), "safe - -");
    }
    for kind in ["{}", r#"{"type":"string"}"#, r#"{"type":["boolean","string"]}"#, r#"{"type":[]}"#]
    {
        check("standard", &flags(kind), "dangerous filesystem.write -");
    }
}

#[test]
fn declared_metadata_add_up() {
    let rows = [
        (r#"{"risk_level":"safe"}"#, "safe - -"),
        (r#"{"risk_level":"moderate"}"#, "moderate - -"),
        (r#"{"risk_level":"dangerous"}"#, "dangerous - -"),
        (r#"{"risk_level":"harmless"}"#, "dangerous - -"),
        (r#"{"risk_level":"safe","permissions_required":["memory.read"]}"#, "safe memory.read -"),
        (
            r#"{"risk_level":"safe","permissions_required":["network"]}"#,
            "moderate network.outbound -",
        ),
        (
            r#"{"risk_level":"safe","permissions_required":["filesystem","filesystem.read"]}"#,
            "dangerous filesystem.read,filesystem.write -",
        ),
        (
            r#"{"risk_level":"safe","permissions_required":["com.example.x"]}"#,
            "dangerous com.example.x -",
        ),
        (r#"{"risk_level":"safe","side_effects":["network"]}"#, "safe - network_restricted"),
        (
            r#"{"risk_level":"safe","side_effects":["network"],"validator":"none"}"#,
            "safe - network_restricted",
        ),
        (
            r#"{"risk_level":"safe","side_effects":["network"],"validator":"sandbox"}"#,
            "safe - sandbox,network_restricted",
        ),
        (
            r#"{"risk_level":"safe","side_effects":["network"],"validator":"network_restricted"}"#,
            "safe - network_restricted",
        ),
        (r#"{"risk_level":"safe","side_effects":["filesystem"]}"#, "moderate - -"),
        (r#"{"risk_level":"safe","side_effects":["database"]}"#, "moderate - -"),
        (r#"{"risk_level":"safe","side_effects":["process"]}"#, "moderate - -"),
        (r#"{"risk_level":"safe","side_effects":["notification"]}"#, "moderate - -"),
        (r#"{"risk_level":"safe","side_effects":["teleport"]}"#, "moderate - -"),
        (r#"{"risk_level":"moderate","reversible":true}"#, "moderate - -"),
        (r#"{"risk_level":"moderate","reversible":false}"#, "dangerous - -"),
        (r#"{"risk_level":"moderate","validator":"none"}"#, "moderate - -"),
        (r#"{"risk_level":"moderate","validator":"sandbx"}"#, "moderate - sandbx"),
        // A `security` of the wrong form counts as absent.
        (r"{}", "dangerous - -"),
        (r#"{"risk_level":"safe","permissions_required":"none"}"#, "dangerous - -"),
        (r#""safe""#, "dangerous - -"),
    ];
    for (security, expected) in rows {
        check("standard", &tool("t", "", &format!(r#","security":{security}"#)), expected);
        let mirror = format!(r#","_meta":{{"dev.cloto/mgp":{{"security":{security}}}}}"#);
        check("trusted", &tool("t", "", &mirror), expected);
    }
    let both = r#","security":{"risk_level":"safe"},"annotations":{"destructiveHint":true}"#;
    check("standard", &tool("t", "", both), "dangerous - -");
    let hinted = r#","security":{"risk_level":"moderate"},"annotations":{"readOnlyHint":true}"#;
    check("standard", &tool("t", "", hinted), "moderate - -");
}

#[test]
fn a_servers_word_alone_does_not_hide_what_a_tool_shows() {
    let claims = r#","security":{"risk_level":"safe","permissions_required":["memory.read"]}"#;
    let shell = tool("run_command", "command", claims);
    check("trusted", &shell, "safe memory.read -");
    for trust in ["standard", "experimental", "sandboxed"] {
        check(trust, &shell, "dangerous shell.execute,memory.read -");
    }
    let safe = r#","security":{"risk_level":"safe"}"#;
    for (name, arguments, expected) in [
        ("delete_everything", "path", "dangerous filesystem.write -"),
        ("wipe", "", "dangerous - -"),
        ("helper", "sql", "dangerous - -"),
        ("create_note", "title", "moderate - -"),
        // Neither the name nor the argument suggests a risk, so the declared risk counts.
        ("echo", "message", "safe - -"),
        ("get_profile", "user_id", "safe - -"),
    ] {
        check("standard", &tool(name, arguments, safe), expected);
        check("trusted", &tool(name, arguments, safe), "safe - -");
    }
    // A declaration may still raise the risk.
    let raised = tool("echo", "message", r#","security":{"risk_level":"dangerous"}"#);
    check("trusted", &raised, "dangerous - -");
    let open = r#","security":{"risk_level":"safe"},"annotations":{"openWorldHint":true}"#;
    check("standard", &tool("lookup", "query", open), "safe - -");
    let echo = tool("echo", "message", safe);
    check("experimental", &echo, "safe - -");
    check("sandboxed", &echo, "dangerous - -");
    check("untrusted", &echo, "dangerous - -");
    let own = Assessment::own(&shell, &policy("standard"));
    assert_eq!(shown(&own), "safe memory.read -");
}

#[test]
fn the_operators_entries_replace_what_is_found() {
    let tool = tool(
        "t",
        "",
        r#","security":{"risk_level":"dangerous","validator":"sandbox","side_effects":["network"],"confirmation_required":true}"#,
    );
    let mut policy = policy("sandboxed");
    policy.risk.insert("t".to_owned(), RiskLevel::Safe);
    policy.validators.insert("t".to_owned(), Validator::None);
    let assessment = Assessment::of(&tool, &policy);
    assert_eq!(shown(&assessment), "safe - -");
    assert_eq!(assessment.overrides, Some(RiskLevel::Dangerous));
    assert!(assessment.confirmation_required);
    policy.risk.insert("t".to_owned(), RiskLevel::from("harmless"));
    policy.validators.insert("t".to_owned(), Validator::Readonly);
    assert_eq!(shown(&Assessment::of(&tool, &policy)), "dangerous - readonly");
    policy.risk.clear();
    assert_eq!(Assessment::of(&tool, &policy).overrides, None);
}

#[test]
fn the_validators_that_fit_the_arguments_apply_if_the_policy_wants_them() {
    use Validator::{CodeSafety, NetworkRestricted, Sandbox};
    let policy = ServerPolicy::default().default_validators(true);
    let chosen = |name: &str, arguments: &[&str]| {
        let tool = tool(name, &arguments.join(" "), "");
        assert!(Assessment::of(&tool, &ServerPolicy::default()).validators.is_empty());
        Assessment::of(&tool, &policy).validators
    };
    assert_eq!(chosen("execute_command", &["command", "timeout"]), [Sandbox]);
    assert_eq!(chosen("shell", &["shell_command"]), [Sandbox]);
    assert_eq!(chosen("run_process", &["argv"]), [Sandbox]);
    assert_eq!(chosen("run_python", &["code"]), [CodeSafety]);
    assert_eq!(chosen("execute", &["script"]), [CodeSafety]);
    assert_eq!(chosen("fetch", &["url", "max_length"]), [NetworkRestricted]);
    assert_eq!(chosen("add_hook", &["webhookUrl"]), [NetworkRestricted]);
    assert_eq!(chosen("download", &["uri"]), [NetworkRestricted]);
    for (name, arguments) in [
        ("read_file", &["path"][..]),
        ("git_commit", &["repo_path", "message"]),
        ("hover", &["uri", "line"]),
        ("query", &["sql"]),
        ("get_current_time", &["timezone"]),
        ("find_country", &["country_code"]),
        ("format_code", &["code"]),
    ] {
        assert_eq!(chosen(name, arguments), [], "{name}");
    }
}

#[test]
fn an_argument_whose_schema_shows_a_place_is_checked_whatever_its_name() {
    let policy = ServerPolicy::default().default_validators(true);
    for (property, is_place) in [
        (r#""page":{"type":"string","format":"uri"}"#, true),
        (r#""node":{"type":"string","format":"hostname"}"#, true),
        (r#""page":{"type":"string","default":"https://example.com"}"#, true),
        (r#""page":{"type":"string","description":"The URL to read"}"#, true),
        (r#""uri":{"type":"string","format":"uri"}"#, false),
        (r#""day":{"type":"string","format":"date"}"#, false),
        (r#""text":{"type":"string","description":"A text, perhaps with a URL"}"#, false),
    ] {
        let text = format!(r#"{{"name":"look","inputSchema":{{"properties":{{{property}}}}}}}"#);
        let tool: Tool = serde_json::from_str(&text).unwrap();
        let chosen = Assessment::of(&tool, &policy).validators;
        assert_eq!(chosen.contains(&Validator::NetworkRestricted), is_place, "{property}");
    }
}

#[test]
fn an_operator_replaces_the_validators_and_a_server_adds_to_them() {
    let policy = ServerPolicy::default().default_validators(true);
    let security = r#","security":{"risk_level":"safe","validator":"readonly"}"#;
    let tool = tool("run", "command", security);
    let of = |policy: &ServerPolicy| Assessment::of(&tool, policy).validators;
    assert_eq!(of(&policy), [Validator::Readonly, Validator::Sandbox]);
    assert_eq!(of(&policy.clone().validator("run", Validator::None)), []);
    assert_eq!(of(&policy.validator("run", Validator::CodeSafety)), [Validator::CodeSafety]);
}

#[test]
fn each_risk_has_its_reason() {
    let policy = ServerPolicy::default();
    let reason = |name: &str, arguments: &str, rest: &str| {
        let tool = tool(name, arguments, rest);
        let assessment = Assessment::of(&tool, &policy);
        (assessment.effective_risk.clone(), assessment.risk_reason(name, Some(&tool), &policy))
    };
    let reads = r#","annotations":{"readOnlyHint":true}"#;
    let spares = r#","annotations":{"destructiveHint":false}"#;
    for (tool, risk, part) in [
        (reason("now", "", reads), RiskLevel::Safe, "declares that it only reads"),
        (
            reason("add_note", "id", spares),
            RiskLevel::Moderate,
            "declares that it is not destructive",
        ),
        (
            reason("read_file", "path", reads),
            RiskLevel::Moderate,
            "needs the permission filesystem.read",
        ),
        (
            reason("now", "", r#","annotations":{"readOnlyHint":false}"#),
            RiskLevel::Dangerous,
            "declares that it changes something",
        ),
        (reason("now", "", ""), RiskLevel::Dangerous, "declares nothing"),
        (reason("now", "", r#","security":{"risk_level":5}"#), RiskLevel::Dangerous, "be read"),
    ] {
        assert!(tool.0 == risk && tool.1.contains(part), "{tool:?}, expected {risk}: {part}");
    }
}
