//! Tests that the check of examples refuses damaged copies of the golden messages (MGP §2 to §16).

use std::path::PathBuf;

use mgp_types::spec::check_example;
use serde_json::{Value, json};

/// Checks that the golden message `name` is refused if this member is missing, or has a value of the wrong type.
fn check(name: &str, member: &str) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let text = std::fs::read_to_string(folder.join(name)).unwrap();
    let message: Value = serde_json::from_str(&text).unwrap();
    let mut copy = message.clone();
    let (parent, last) = member.rsplit_once('/').unwrap();
    let parent = copy.pointer_mut(parent).unwrap();
    assert!(parent.as_object_mut().unwrap().remove(last).is_some(), "{name} has no {member}");
    assert!(check_example(name, &copy.to_string()).is_err(), "{name} without {member}");

    let mut copy = message;
    let member_of_copy = copy.pointer_mut(member).unwrap();
    *member_of_copy = if member_of_copy.is_object() { json!(7) } else { json!({"a": "b"}) };
    assert!(check_example(name, &copy.to_string()).is_err(), "{name} with a wrong {member}");
}

/// Golden messages, each with members that are required.
const MEMBERS: &str = "\
# Envelopes
s11_3_health_ping.json /jsonrpc /id /method
s11_3_health_ping_result.json /jsonrpc /id /result
s12_6_stream_progress.json /jsonrpc /method
s14_4_extended_error.json /jsonrpc /error
# Handshake
s2_2_client_capability.json /params/capabilities/mgp/version /params/capabilities/mgp/extensions
s2_2_client_capability.json /params/protocolVersion /params/clientInfo/name
s2_2_client_capability.json /params/capabilities /params/clientInfo /params/clientInfo/version
s2_3_server_capability.json /result/capabilities/mgp/version /result/capabilities/mgp/extensions
s2_3_server_capability.json /result/protocolVersion /result/capabilities
s2_3_server_capability.json /result/serverInfo /result/serverInfo/name /result/serverInfo/version
s12_2_mgp_declaration.json /mgp /mgp/version /mgp/extensions
# Security
s3_5_permission_request.json /params/request_id /params/permissions /params/policy /params/message
s3_6_permission_decision.json /result/request_id /result/grants /result/approved_by /result/expires_at
s4_2_tool.json /name /inputSchema /security /security/risk_level
s5_4_access_query.json /params/agent_id /params/server_id /params/tool_name
s5_4_access_query_result.json /result/permission
s5_4_access_grant.json /params/entry_type /params/permission /params/expires_at
s5_4_access_grant.json /params/agent_id /params/server_id
s5_4_access_revoke.json /params/agent_id /params/server_id /params/entry_type
s6_3_audit_notification.json /params/timestamp /params/trace_id /params/event_type /params/actor
s6_3_audit_notification.json /params/actor/type /params/actor/id /params/result
s7_3_tool_declaration.json /name /security/risk_level /security/code_safety/level
s7_4_code_rejection.json /status /reason /violations /hints
# Communication
s11_3_health_ping_result.json /result/status /result/timestamp /result/uptime_secs /result/server_id
s11_4_lifecycle_shutdown.json /params/reason /params/timeout_ms
s11_4_lifecycle_shutdown_result.json /result/accepted
s11_4_lifecycle_notification.json /params/server_id /params/previous_state /params/new_state /params/timestamp
s11_5_restart_config.json /restart_policy /max_restarts /backoff_max_ms
s12_3_stream_call.json /params/name
s12_4_stream_chunk.json /params/request_id /params/index /params/content
s12_5_stream_result.json /result/content
s12_6_stream_progress.json /params/request_id /params/progress
s12_7_stream_cancel.json /params/request_id /params/reason
s12_7_stream_cancel_result.json /result/cancelled
s13_2_events_subscribe.json /params/channels
s13_2_events_subscribe_result.json /result/subscribed /result/subscription_id
s13_2_events_unsubscribe.json /params/subscription_id
s13_3_event_notification.json /params/subscription_id /params/channel /params/data
s13_4_callback_request.json /params/callback_id /params/type /params/options
s13_4_callback_respond.json /params/callback_id
s14_4_extended_error.json /error/code /error/message /error/data/_mgp/category
# Discovery
s15_2_discovery_list_result.json /result/servers /result/servers/0/id /result/servers/0/status
s15_4_discovery_register.json /params/id /params/command /params/created_by
s15_5_discovery_deregister.json /params/id
s16_4_index_entry.json /tool_id /server_id /name /security/risk_level
s16_5_tools_discover.json /params/query
s16_5_tools_discover_result.json /result/tools /result/tools/0/name /result/tools/0/security/risk_level
s16_5_tools_discover_result.json /result/tools/0/inputSchema /result/tools/0/security /result/total_available
s16_6_tools_request.json /params/reason /params/requirements
s16_6_tools_request_result.json /result/status
s16_7_tools_session_result.json /result/pinned /result/cached
s16_7_tools_session_evict.json /params/tools
s16_8_context_budget.json /tool_context_budget /tool_context_budget/cache_limit
s16_8_context_budget.json /tool_context_budget/max_tokens
";

#[test]
fn a_message_that_lacks_a_member_or_has_one_of_the_wrong_type_is_refused() {
    for line in MEMBERS.lines().filter(|line| !line.starts_with('#')) {
        let (name, members) = line.split_once(' ').unwrap();
        for member in members.split(' ') {
            check(name, member);
        }
    }
}

#[test]
fn the_type_is_found_without_a_descriptive_name() {
    for (golden, expected) in [
        ("s3_6_permission_decision", "PermissionDecision"),
        ("s4_2_tool", "Tool"),
        ("s7_3_tool_declaration", "ToolDeclaration"),
        ("s7_4_code_rejection", "CodeRejection"),
        ("s11_3_health_ping_result", "PingResult"),
        ("s12_5_stream_result", "CallToolResult"),
        ("s16_4_index_entry", "IndexEntry"),
        ("s16_5_tools_discover_result", "DiscoverToolsResult"),
        ("mcp_input_required", "InputRequiredResult"),
    ] {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let text = std::fs::read_to_string(folder.join(format!("{golden}.json"))).unwrap();
        assert_eq!(check_example("message.json", &text).unwrap(), expected);
    }
}

#[test]
fn values_that_are_not_messages_are_refused() {
    for text in ["", "7", "[]", "{}", r#"{"jsonrpc":"2.0"}"#, r#"{"jsonrpc":"2.0","method":"x/y"}"#]
    {
        assert!(check_example("message.json", text).is_err(), "{text}");
    }
    assert!(check_example("message.json", r#"{"jsonrpc":"2.0","id":1,"method":"x/y"}"#).is_ok());
}
