//! Tests of explanations by layers that apply only some of the rules: the last step must explain the refusal.

use mgp_types::Payload;
use mgp_types::mgp::Permission;
use mgp_types::service::{Call, Context, Method, Params, Peer, Principal, Scope, ScopeKind};

use super::*;
use crate::access::Moment;
use crate::definition::Definitions;
use crate::permission::Permissions;
use crate::policy::{Policies, ServerPolicy};
use crate::scope::{HeldScopes, SessionEnded};

const TOOL: &str = r#"{"name":"read_file","inputSchema":{"properties":{"path":{},"x":{}}},
    "security":{"risk_level":"safe","permissions_required":["filesystem.read"]},"required_scopes":["write","read:a"]}"#;

/// Creates the sources of a layer that knows the definition of the tool.
fn sources(policy: ServerPolicy) -> Sources {
    let policies = Policies::with_default(policy);
    let definitions = Definitions::in_memory(policies.clone());
    definitions.learn(None, &[serde_json::from_str(TOOL).unwrap()]);
    Sources { definitions: Some(definitions), ..Sources::new(policies) }
}

/// Returns the steps that explain the refusal of a call of the tool; panics if the call is not refused.
fn refused_by(sources: &Sources, held: Option<HeldScopes>) -> Vec<String> {
    let principal = Principal::local();
    let mut cx = Context::new(Peer::none(), Scope::new(ScopeKind::Request), principal.clone());
    if let Some(held) = held {
        cx.extensions.insert(held);
    }
    let arguments = Payload::from_trusted(r#"{"path":"/srv/a","x":"notes.txt"}"#);
    let call = Call::request(Method::of("tools/call"), Params::tool("read_file", &arguments), cx);
    let clock = || sources.now();
    let facts = CallFacts {
        call: &call,
        server: None,
        tool: "read_file",
        arguments: Some(arguments.as_str()),
        at: &Moment::of(&clock),
        preparations: &CallPreparations::default(),
    };
    let verdict = explain(&facts, &Snapshot::of(sources, &principal, None));
    assert!(verdict.refusal().is_some(), "{verdict:?}");
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
        refused_by(&sources, None),
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
    let steps = refused_by(&sources, Some(held));
    assert_eq!(steps, ["scopes passed: read:a", "scopes refused: write"]);
    let steps = refused_by(&sources, Some(HeldScopes(Err(SessionEnded::Revoked))));
    assert_eq!(steps, [format!("scopes refused: {}", SessionEnded::Revoked)]);
}
