//! Tests that compare each event type with a golden file, and with the page that documents the events.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use mgp_types::mcp::Revision;
use mgp_types::mgp::{
    AccessEntry, AccessPermission, Actor, AuditEvent, AuditResult, CallbackType, EntryType,
    Extension, ExtensionSet, Permission, PermissionScope, RiskLevel,
};
use mgp_types::service::{PeerInfo, PeerProcess, Principal, Rule, ServerId};
use mgp_types::{ErrorCode, RpcError, Sha256Hash, Timestamp};
use serde_json::Value;

use super::{DefinitionFlag, Event};

/// Event types that the audit layer writes; the tests of the layer cover them with real calls.
const OF_CALLS: [&str; 2] = ["TOOL_EXECUTED", "TOOL_BLOCKED"];

fn path(event: &AuditEvent) -> PathBuf {
    let name = event.event_type.as_str().rsplit('.').next().unwrap().to_lowercase();
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/audit");
    folder.join(format!("{name}.json"))
}

/// Compares an event with the golden file of its type.
#[track_caller]
pub(crate) fn check(event: &AuditEvent) {
    let text = serde_json::to_string_pretty(event).unwrap() + "\n";
    let path = path(event);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &text).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap_or_default(), text, "{}", path.display());
}

fn at_noon(event: Event) -> AuditEvent {
    let noon = SystemTime::UNIX_EPOCH + Duration::from_millis(1_772_600_767_089);
    event.at(noon).build()
}

/// Returns one event of each type, except the types of calls.
fn all() -> Vec<AuditEvent> {
    let garden: ServerId = "garden".into();
    let on = Some(&garden);
    let ada = Principal::new("acme", "ada").operator();
    let agent = Principal::new("acme", "ada").agent("agent.one");
    let mut process = PeerProcess::new(4242);
    process.program = Some("/usr/bin/mgp".to_owned());
    process.parent = Some("/usr/bin/bash".to_owned());
    let through = ada.through(process);
    let (old, new) = (Sha256Hash::digest(b"old"), Sha256Hash::digest(b"new"));
    let dusk = Timestamp::from("2026-03-04T18:00:00.000Z");
    let outbound = &Permission::NetworkOutbound;
    let mut entry =
        AccessEntry::new(EntryType::ToolGrant, "agent.one", "garden", AccessPermission::Allow);
    entry.tool_name = Some("water".to_owned());
    entry.justification = Some("it is dry".to_owned());
    entry.expires_at = Some(dusk.clone());
    let mut scope = PermissionScope::default();
    scope.hosts = vec!["weather.example".to_owned()].into();
    let mut facts = PeerInfo::new(Revision::V2025_11_25);
    facts.mgp = Some(ExtensionSet::EMPTY.with(Extension::Audit).with(Extension::Streaming));
    facts.claimed_server_id = Some("best.garden".to_owned());
    let refused = RpcError::new(ErrorCode::PERMISSION_DENIED, "not the text")
        .because(Rule::new("operators only"));
    let events = [
        Event::permission_granted(&ada, on, outbound)
            .tool("water")
            .scope(&scope)
            .justification("for the forecast")
            .expires_at(&dusk),
        Event::administration_refused(&agent, on, "grant", &refused).trace(Some("trace-77")),
        Event::permission_revoked(Actor::kernel(), on, outbound)
            .before("approved")
            .cause("expired"),
        Event::access_granted(&ada, &crate::Entry::new("acme", entry.clone())),
        Event::access_revoked(&ada, &crate::Entry::new("acme", entry)),
        Event::server_connected(&garden, &facts),
        Event::server_lost(&garden, "exited with 1")
            .restart_limit_exceeded(5, Duration::from_mins(5)),
        Event::validation_failed(&agent, on, "water")
            .rule(Some(&Rule::new("validator network")))
            .trace(Some("trace-77")),
        Event::code_rejected(&agent, on, "grow")
            .rule(Some(&Rule::new("code_safety strict")))
            .trace(Some("trace-77")),
        Event::risk_overridden(
            Actor::user("ada"),
            on,
            "water",
            &RiskLevel::Dangerous,
            &RiskLevel::Safe,
        ),
        Event::policy_changed(&ada, on).before("interactive").after("config_only"),
        Event::key_added(&ada, "k1", &agent).expires_at(&dusk),
        Event::key_revoked(&ada, "k1", &agent).justification("the laptop is lost"),
        // `mgp-discovery` writes the events of projects and of registrations.
        Event::own("project_approved", &ada, AuditResult::Success)
            .detail("file", "/home/ada/plot/mgp.toml")
            .detail("sha256", &new.to_string())
            .detail("replaces", &["garden"]),
        Event::own("project_revoked", &ada, AuditResult::Success)
            .detail("file", "/home/ada/plot/mgp.toml")
            .detail("sha256", &old.to_string()),
        Event::approval_requested(&agent, "a1", Some(&dusk)).server(on).tool("mow"),
        Event::approval_decided(&ada, "a1", "approved")
            .server(on)
            .tool("mow")
            .via(Some("page"))
            .trace(Some("trace-77")),
        Event::confirmation_given(&ada, on, "mow", &RiskLevel::Dangerous, &new)
            .trace(Some("trace-77")),
        Event::confirmation_denied(Actor::kernel(), on, "mow", &RiskLevel::Dangerous, &new)
            .cause("expired")
            .trace(Some("trace-77")),
        Event::callback_unanswered(&agent, on, &CallbackType::Confirmation).trace(Some("trace-77")),
        Event::definition_pinned(&garden, "water", &old),
        Event::definition_changed(&garden, "water", &old, &new, &["description"]),
        Event::definition_approved(&ada, &garden, "water", &new).before(&old.to_string()),
        Event::definition_rejected(&ada, &garden, "water", &new).justification("too much"),
        Event::definitions_forgotten(Actor::kernel(), &garden, 7).cause("deregistered"),
        Event::definition_flagged(
            &garden,
            Some("weed"),
            DefinitionFlag::Refused,
            "invisible characters in `description`",
        ),
        Event::own("server_registered", &ada, AuditResult::Success)
            .server(on)
            .detail("trust", "sandboxed")
            .justification("try it"),
        Event::own("server_deregistered", &ada, AuditResult::Success).server(on),
        Event::administered(&through, on, "mgp/kernel/servers/restart"),
        Event::records_rejected("audit", 2, 711),
        Event::records_lost("audit", 3),
        Event::changes_lost("audit", 2),
        Event::events_dropped(&garden, 12, "more than 50 events a second"),
    ];
    events.into_iter().map(at_noon).collect()
}

#[test]
fn each_type_has_its_golden_file() {
    for event in all() {
        check(&event);
    }
}

#[test]
fn every_type_of_the_specification_can_be_written() {
    let written = all();
    let mut types: Vec<_> = written.iter().map(|event| event.event_type.as_str()).collect();
    types.extend(OF_CALLS);
    for expected in [
        "TOOL_EXECUTED",
        "TOOL_BLOCKED",
        "PERMISSION_GRANTED",
        "PERMISSION_DENIED",
        "PERMISSION_REVOKED",
        "ACCESS_GRANTED",
        "ACCESS_REVOKED",
        "SERVER_CONNECTED",
        "SERVER_DISCONNECTED",
        "VALIDATION_FAILED",
        "CODE_REJECTED",
        "RISK_LEVEL_OVERRIDE",
    ] {
        assert!(types.contains(&expected), "{expected}");
    }
    let custom = types.iter().filter(|name| name.contains('.'));
    assert!(custom.clone().all(|name| name.starts_with("dev.cloto.")));
    assert_eq!(custom.count(), 23);
}

/// The documentation page must name each event type and each member of its details, because log readers rely on it.
#[test]
fn the_page_names_every_type_and_member() {
    let page = include_str!("../../../../docs/audit.md");
    let mut sections = BTreeMap::new();
    for section in page.split("\n### ").skip(1) {
        let (title, text) = section.split_once('\n').unwrap();
        sections.insert(title.trim_matches('`'), text);
    }
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/audit");
    let mut count = 0;
    for file in fs::read_dir(folder).unwrap() {
        let event: Value =
            serde_json::from_str(&fs::read_to_string(file.unwrap().path()).unwrap()).unwrap();
        let name = event["event_type"].as_str().unwrap();
        let text = sections.get(name).unwrap_or_else(|| panic!("no section `{name}`"));
        assert!(text.contains(event["result"].as_str().unwrap()), "the result of {name}");
        assert!(text.contains(event["actor"]["type"].as_str().unwrap()), "the actor of {name}");
        for member in event["details"].as_object().into_iter().flat_map(|all| all.keys()) {
            assert!(page.contains(&format!("`{member}`")), "`{member}` of {name}");
        }
        count += 1;
    }
    assert_eq!(count, sections.len(), "a section has no golden file");
}

#[test]
fn the_process_of_an_operator_is_recorded_with_short_paths() {
    let mut process = PeerProcess::new(4242);
    process.program = Some("/p".repeat(400));
    let operator = Principal::local().operator().through(process);
    let event = Event::administered(&operator, None, "approvals.decide").build();
    let process: Value = event.details.unwrap().decode("process").unwrap().unwrap();
    assert_eq!(process["pid"], 4242);
    let program = process["program"].as_str().unwrap();
    assert!(program.len() < 300 && program.ends_with('…') && process.get("parent").is_none());
}

#[test]
fn long_words_are_cut_at_a_character() {
    let long = "é".repeat(2000);
    let event = Event::key_added(Actor::kernel(), &long, &Principal::local()).build();
    let kept: String = event.details.unwrap().decode("key_id").unwrap().unwrap();
    assert_eq!(kept.len(), 1024 + '…'.len_utf8());
    assert!(kept.ends_with("é…"));
}
