//! Tests of explanations by layers that apply only some of the rules.

use mgp_types::Payload;
use mgp_types::mgp::{Permission, RiskLevel};
use mgp_types::service::{Call, Context, Method, Params, Peer, Principal, Scope, ScopeKind};

use super::*;
use crate::approval::ElicitApprover;
use crate::definition::Definitions;
use crate::permission::Permissions;
use crate::policy::{Policies, ServerPolicy};
use crate::scope::{HeldScopes, SessionEnded};
use crate::tool::Confirmations;

const TOOL: &str = r#"{"name":"read_file","inputSchema":{"properties":{"path":{},"x":{}}},
    "security":{"risk_level":"safe","permissions_required":["filesystem.read"]},"required_scopes":["write","read:a"]}"#;

/// Creates the sources of a layer that knows the definition of the tool.
fn sources(policy: ServerPolicy) -> Sources {
    let policies = Policies::with_default(policy);
    let definitions = Definitions::in_memory(policies.clone());
    definitions.learn(None, &[serde_json::from_str(TOOL).unwrap()]);
    Sources { definitions: Some(definitions), ..Sources::new(policies) }
}

/// Returns the steps that explain the decision about a call of the tool.
fn steps_of(sources: &Sources, held: Option<HeldScopes>) -> Vec<String> {
    let scope = Scope::new(ScopeKind::Request);
    let mut cx = Context::new(Peer::none(), scope, Principal::local());
    if let Some(held) = held {
        cx.extensions.insert(held);
    }
    let arguments = Payload::from_trusted(r#"{"path":"/srv/a","x":"notes.txt"}"#);
    let call = Call::request(Method::of("tools/call"), Params::tool("read_file", &arguments), cx);
    let verdict = explain(sources, &call, &CallPreparations::default());
    let words = |step: &Step| format!("{} {}: {}", step.stage, step.result, step.rule);
    verdict.steps().iter().map(words).collect()
}

/// Regression test: no step explained this refusal.
#[test]
fn a_call_in_doubt_that_no_layer_can_confirm_is_refused_by_its_last_step() {
    let limits = serde_json::from_str(r#"{"paths":["/srv"]}"#).unwrap();
    let listed = ServerPolicy::default().permissions([Permission::FilesystemRead]);
    let mut sources = sources(listed.permission_limits(limits));
    sources.permissions = Some(Permissions::in_memory(sources.policies.clone()));
    assert_eq!(
        steps_of(&sources, None),
        [
            "permissions passed: filesystem.read",
            "confirmation refused: filesystem.read: the argument `x` may be the name of another file",
        ]
    );
}

#[test]
fn a_call_without_a_required_scope_is_refused_by_its_last_step() {
    let sources = sources(ServerPolicy::default());
    let held = HeldScopes(Ok(["read:*".to_owned()].into()));
    let steps = steps_of(&sources, Some(held));
    assert_eq!(steps, ["scopes passed: read:a", "scopes refused: write"]);
    let steps = steps_of(&sources, Some(HeldScopes(Err(SessionEnded::Revoked))));
    assert_eq!(steps, [format!("scopes refused: {}", SessionEnded::Revoked)]);
}

/// Regression test: these checks recorded no step if they passed.
#[test]
fn a_safe_call_with_valid_arguments_is_explained_by_the_checks_that_it_passed() {
    let policy = ServerPolicy::default().check_schemas(true).risk("read_file", RiskLevel::Safe);
    let mut sources = sources(policy);
    let policies = sources.policies.clone();
    sources.confirmations = Some(Confirmations::new(policies, ElicitApprover::everyone()));
    let expected =
        ["schema passed: no argument violates the schema", "confirmation passed: safe risk"];
    assert_eq!(steps_of(&sources, None), expected);
}

#[test]
fn a_schema_that_cannot_be_used_is_not_explained_as_a_passed_check() {
    let sources = sources(ServerPolicy::default().check_schemas(true));
    assert_eq!(steps_of(&sources, None), ["schema passed: no argument violates the schema"]);
    let with_id = TOOL.replacen(r#""properties""#, r#""$id":"other.json","properties""#, 1);
    let definitions = sources.definitions.as_ref().unwrap();
    definitions.learn(None, &[serde_json::from_str(&with_id).unwrap()]);
    assert_eq!(steps_of(&sources, None), [""; 0]);
}
