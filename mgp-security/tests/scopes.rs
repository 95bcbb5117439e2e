//! Scopes: the answer before a call agrees with the call, for random callers, tools and sessions (proposal 4).

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_security::{CallOutcome, Governance, Policies, Scopes, ServerPolicy};
use mgp_types::mgp::ExtensionSet;
use mgp_types::mgp::{AccessGrantParams, AccessPermission, DefaultPolicy, EntryType, Extension};
use mgp_types::proposal::NegotiateScopesParams;
use mgp_types::service::{MemoryAudit, PeerInfo, Principal, Reply, ServerId, Stack, mock};
use mgp_types::store::MemoryStore;
use mgp_types::{Payload, RpcError};
use tower_layer::Layer;

const SCOPES: [&str; 4] = ["read:a", "read:b", "write", "delete"];
const TOOLS: usize = 16;

/// Returns the list of tools: each needs the scopes of its number's bits, and every fifth must be confirmed.
fn tools() -> String {
    let tool = |number: usize| {
        let needs: Vec<_> =
            (0..4).filter(|bit| number >> bit & 1 == 1).map(|bit| SCOPES[bit]).collect();
        let risk = if number % 5 == 4 { "dangerous" } else { "safe" };
        format!(
            r#"{{"name":"t{number}","inputSchema":{{}},"security":{{"risk_level":"{risk}"}},"required_scopes":{needs:?}}}"#
        )
    };
    format!(r#"{{"tools":[{}]}}"#, (0..TOOLS).map(tool).collect::<Vec<_>>().join(","))
}

fn allowed(by: &Principal) -> Option<Arc<[String]>> {
    let list: &[&str] = match by.as_agent()?.as_str() {
        "ann" => &["read:*", "write", "delete"],
        "bob" => &["read:a", "delete"],
        "eve" => &[],
        _ => return None,
    };
    Some(list.iter().map(|scope| (*scope).to_owned()).collect())
}

/// A world with a governed server, its callers' scopes, and the question about a call beside the calls.
struct World {
    governance: Governance,
    scopes: Scopes,
    stack: Stack,
    ran: Arc<AtomicUsize>,
}

fn world() -> World {
    let policies = Policies::default();
    policies.set("disk", ServerPolicy::default().default_policy(DefaultPolicy::OptOut));
    let governance = Governance::builder().policies(policies).build();
    let scopes = Scopes::new(Arc::new(MemoryStore::new()), Arc::new(MemoryAudit::new()), allowed);
    let ran = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ran);
    let server = Stack::from_fn(move |call| {
        let is_list = call.method().as_str() == "tools/list";
        count.fetch_add(usize::from(!is_list), Ordering::Relaxed);
        let answer = if is_list { Payload::from_trusted(tools()) } else { Payload::empty_object() };
        async { Ok(Reply::raw(answer)) }
    });
    let governed = Stack::new(governance.layer("disk").layer(server));
    let asked = governance.clone();
    let beside = Stack::from_fn(move |call| {
        let (governed, governance) = (governed.clone(), asked.clone());
        async move {
            if call.method().as_str() != "mgp/permissions/check" {
                return governed.send(call).await;
            }
            let tool: String = call.params().get::<mgp_types::Object>()?.decode("tool")?.unwrap();
            let disk = ServerId::from("disk");
            let verdict =
                governance.explain_for(call.cx(), &disk, &tool, Some(&Payload::empty_object()));
            match verdict.outcome() {
                CallOutcome::Refuse(refusal) => Err(RpcError::from(refusal.clone())),
                outcome => Reply::of(&format!("{outcome:?}")),
            }
        }
    });
    let stack = Stack::new(scopes.layer().layer(beside));
    World { governance, scopes, stack, ran }
}

#[tokio::test]
async fn the_answer_before_a_call_is_what_the_call_gets() {
    let world = world();
    let operator = Principal::local().operator();
    let mut random = fastrand::Rng::with_seed(7);
    let (mut outcomes, mut sessions) = ([0; 3], 0);
    for round in 0..1000 {
        let agent = random.choice(["ann", "bob", "eve", "free"]).unwrap();
        let who = Principal::local().agent(agent);
        if round % 20 == 0 {
            let tool = format!("t{}", random.usize(..TOOLS));
            let effect =
                if random.bool() { AccessPermission::Deny } else { AccessPermission::Allow };
            let mut grant = AccessGrantParams::new(EntryType::ToolGrant, agent, "disk", effect);
            grant.tool_name = Some(tool);
            world.governance.access().grant(&operator, grant).await.unwrap();
        }
        let mut client = mock::client(world.stack.clone());
        client.cx.principal = who.clone();
        if random.bool() {
            let mut caller = PeerInfo::default();
            caller.mgp = Some(ExtensionSet::EMPTY.with(Extension::Scopes));
            client.cx.caller = Arc::new(caller);
        }
        let mut token = None;
        if random.bool() {
            let mut wanted = NegotiateScopesParams::new();
            wanted.requested_scopes =
                SCOPES.iter().filter(|_| random.bool()).map(|scope| (*scope).to_owned()).collect();
            let granted = world.scopes.negotiate(&who, wanted).await;
            token = granted.ok().and_then(|granted| granted.session).map(|session| session.token);
            if let Some(token) =
                token.as_ref().filter(|_| random.u8(..) % 4 == 0 || sessions % 8 == 7)
            {
                world.scopes.revoke(&who, token).await.unwrap();
            }
            sessions += usize::from(token.is_some());
        }
        let meta = token
            .as_ref()
            .map_or_else(String::new, |token| format!(r#","_meta":{{"session_token":"{token}"}}"#));
        let tool = random.usize(..TOOLS);
        let before = world.ran.load(Ordering::Relaxed);
        let params = format!(r#"{{"tool":"t{tool}"{meta}}}"#);
        let told = client.request("mgp/permissions/check", &params).await;
        assert_eq!(world.ran.load(Ordering::Relaxed), before, "the question runs nothing");
        let params = format!(r#"{{"name":"t{tool}","arguments":{{}}{meta}}}"#);
        let got = client.request("tools/call", &params).await;
        match (told, got) {
            (Ok(told), Ok(_)) => {
                outcomes[0] += 1;
                // The first call of all lists the tools first.
                assert!(told.as_str().contains("Allow") || round == 0, "{agent} t{tool}: {told:?}");
            }
            // The call needs a confirmation, and nobody is there to give it.
            (Ok(told), Err(got)) => {
                outcomes[1] += 1;
                assert!(told.as_str().contains("Confirmation") || round == 0, "{told:?}: {got}");
            }
            (Err(told), got) => {
                outcomes[2] += 1;
                let got = got.unwrap_err();
                assert_eq!((told.code(), told.message()), (got.code(), got.message()));
            }
        }
        if let Some(token) = token.filter(|_| sessions % 8 == 0) {
            world.scopes.revoke(&who, &token).await.unwrap();
        }
    }
    assert!(outcomes.iter().all(|count| *count > 40), "{outcomes:?}");
}

#[tokio::test]
async fn a_call_without_a_scope_names_the_missing_ones() {
    let world = world();
    let who = Principal::local().agent("bob");
    let mut client = mock::client(world.stack.clone());
    client.cx.principal = who.clone();
    let call = r#"{"name":"t6","arguments":{}}"#;
    let refused = client.request("tools/call", call).await.unwrap_err();
    assert_eq!(refused.code().0, 1000);
    let details = refused.as_recovery().unwrap().details.clone().unwrap();
    assert_eq!(details.get("missing_scopes").unwrap().as_str(), r#"["read:b","write"]"#);
    // A caller that does not know the extension holds what the operator allows to it.
    client.request("tools/call", r#"{"name":"t1","arguments":{}}"#).await.unwrap();
    let revoked = r#"{"name":"t0","arguments":{},"_meta":{"session_token":"made-up"}}"#;
    assert_eq!(client.request("tools/call", revoked).await.unwrap_err().code().0, 1003);
}
