//! Tests of sessions with scopes.

use mgp_testkit::FaultyStore;
use mgp_types::service::{Call, MemoryAudit, Reply, Stack, mock};
use mgp_types::store::MemoryStore;
use tower_layer::Layer as _;

use super::*;
use crate::{DefinitionLayer, Definitions, Policies};

fn scopes(store: &Arc<MemoryStore>) -> Scopes {
    scopes_in(Arc::clone(store) as _)
}

fn scopes_in(store: Arc<dyn Store>) -> Scopes {
    let allowed = |by: &Principal| {
        let agent = by.as_agent()?;
        (agent.as_str() != "free").then(|| ["read:*".to_owned(), "delete".to_owned()].into())
    };
    Scopes::new(store, Arc::new(MemoryAudit::new()), allowed)
}

async fn session(scopes: &Scopes, by: &Principal, wanted: &[&str]) -> ScopeSession {
    let mut params = NegotiateScopesParams::new();
    params.requested_scopes = wanted.iter().map(|scope| (*scope).to_owned()).collect();
    scopes.negotiate(by, params).await.unwrap().session.unwrap()
}

fn missing(scopes: &Scopes, by: &Principal, token: &str) -> Result<Vec<String>, SessionEnded> {
    let held = scopes.held(by, Some(token)).unwrap().0?;
    let all = ["read:a", "read:b", "delete"].map(str::to_owned);
    Ok(all.into_iter().filter(|scope| !covers(&held, scope)).collect())
}

#[tokio::test]
async fn a_session_holds_its_scopes_until_it_is_revoked_and_belongs_to_its_caller() {
    let store = Arc::new(MemoryStore::new());
    let ann = Principal::local().agent("ann");
    let one = scopes(&store);
    let token = session(&one, &ann, &["read:a", "temp:1h"]).await.token;
    let held = |scopes: &Scopes| missing(scopes, &ann, &token);
    assert_eq!(held(&one), Ok(vec!["read:b".to_owned(), "delete".to_owned()]));
    assert_eq!(missing(&one, &Principal::local().agent("bob"), &token), Err(SessionEnded::Unknown));
    let stored = store.load(SPACE).await.unwrap().records;
    assert!(stored.iter().all(|one| !format!("{one:?}").contains(&token)), "{stored:?}");

    let next = scopes(&store);
    next.open().await.unwrap();
    assert!(held(&next).is_ok(), "sessions outlive the process");
    assert!(!next.revoke(&Principal::local().agent("bob"), &token).await.unwrap());
    assert!(next.revoke(&ann, &token).await.unwrap());
    assert_eq!(held(&next), Err(SessionEnded::Revoked));
    let last = scopes(&store);
    last.open().await.unwrap();
    assert_eq!(held(&last), Err(SessionEnded::Revoked));
}

#[tokio::test]
async fn a_session_ends_by_its_duration_or_by_inactivity_and_a_refresh_token_extends_it() {
    let scopes = scopes(&Arc::default());
    let ann = Principal::local().agent("ann");
    let first = session(&scopes, &ann, &["read:a", "delete"]).await;
    let age = |by: u64, ends: bool| {
        for session in scopes.0.sessions.lock().values_mut() {
            session.used -= by;
            session.ends -= if ends { by } else { 0 };
        }
    };
    age(millis(INACTIVITY_TIMEOUT), false);
    assert_eq!(missing(&scopes, &ann, &first.token), Err(SessionEnded::Inactive));
    age(millis(DEFAULT_TTL), true);
    assert_eq!(missing(&scopes, &ann, &first.token), Err(SessionEnded::Expired));
    let mut params = NegotiateScopesParams::new();
    params.refresh_token = first.refresh_token;
    let second = scopes.negotiate(&ann, params.clone()).await.unwrap().session.unwrap();
    assert_eq!(missing(&scopes, &ann, &second.token), Ok(vec!["read:b".to_owned()]));
    assert_eq!(missing(&scopes, &ann, &first.token), Err(SessionEnded::Unknown));
    let again = scopes.negotiate(&ann, params).await.unwrap_err();
    assert_eq!(again.code(), ErrorCode::AUTH_EXPIRED, "a refresh token is used once");
}

#[tokio::test]
async fn the_operator_decides_what_is_granted_and_sessions_are_bounded() {
    let scopes = scopes(&Arc::default());
    let free = Principal::local().agent("free");
    assert!(scopes.held(&free, None).is_none(), "its calls need no scopes");
    let mut params = NegotiateScopesParams::new();
    params.requested_scopes = vec!["read:a".to_owned()].into();
    let nothing = scopes.negotiate(&free, params.clone()).await.unwrap();
    assert!(nothing.session.is_none() && nothing.denied_scopes.len() == 1);

    let ann = Principal::local().agent("ann");
    params.requested_scopes = vec!["*".to_owned(), "write".to_owned()].into();
    assert!(scopes.negotiate(&ann, params.clone()).await.unwrap().session.is_none());
    for _ in 0..MAX_SESSIONS_EACH {
        session(&scopes, &ann, &["delete"]).await;
    }
    params.requested_scopes = vec!["delete".to_owned()].into();
    let full = scopes.negotiate(&ann, params).await.unwrap_err();
    assert_eq!(full.code(), ErrorCode::RESOURCE_EXHAUSTED);
}

#[tokio::test]
async fn sessions_that_have_ended_do_not_lock_their_caller_out() {
    let store = Arc::new(MemoryStore::new());
    let scopes = scopes(&store);
    let ann = Principal::local().agent("ann");
    let first = session(&scopes, &ann, &["delete"]).await;
    let second = session(&scopes, &ann, &["delete"]).await;
    for _ in 2..MAX_SESSIONS_EACH {
        session(&scopes, &ann, &["delete"]).await;
    }
    for one in scopes.0.sessions.lock().values_mut() {
        one.ends -= millis(DEFAULT_TTL);
    }
    scopes.0.sessions.lock().get_mut(&hash(&first.token)).unwrap().ends -= 1;
    let next = session(&scopes, &ann, &["delete"]).await;
    assert!(missing(&scopes, &ann, &next.token).is_ok());
    // Only the session that ended first is removed, also from the store.
    assert_eq!(missing(&scopes, &ann, &first.token), Err(SessionEnded::Unknown));
    assert_eq!(missing(&scopes, &ann, &second.token), Err(SessionEnded::Expired));
    let again = Scopes::new(store, Arc::new(MemoryAudit::new()), |_| None);
    again.open().await.unwrap();
    assert_eq!(again.0.sessions.lock().len(), MAX_SESSIONS_EACH);
}

/// Regression test: calls passed without a scope if no layer checked permissions, arguments or confirmations.
#[tokio::test]
async fn scopes_are_required_also_if_definitions_are_the_only_other_check() {
    const TOOLS: &str = r#"{"tools":[
        {"name":"find","description":"Finds a row.","inputSchema":{},"required_scopes":["read:a"]},
        {"name":"drop","description":"Drops a row.","inputSchema":{},"required_scopes":["write"]}]}"#;
    let server = Stack::from_fn(|call: Call| async move {
        let is_list = call.method().as_str() == "tools/list";
        Ok(if is_list { Reply::raw(Payload::from_trusted(TOOLS)) } else { Reply::empty() })
    });
    let definitions = Definitions::in_memory(Policies::default());
    let checked = Stack::new(DefinitionLayer::new(definitions).server("rows").layer(server));
    let mut client = mock::client(Stack::new(scopes(&Arc::default()).layer().layer(checked)));
    client.cx.principal = Principal::local().agent("ann");
    client.request("tools/call", r#"{"name":"find"}"#).await.unwrap();
    let refused = client.request("tools/call", r#"{"name":"drop"}"#).await.unwrap_err();
    assert!(refused.message().contains("requires the scope `write`"), "{refused}");
}

#[tokio::test]
async fn a_session_that_cannot_be_stored_changes_nothing() {
    let store = Arc::new(FaultyStore::of_space(SPACE));
    let scopes = scopes_in(Arc::clone(&store) as _);
    let ann = Principal::local().agent("ann");
    let mut params = NegotiateScopesParams::new();
    params.requested_scopes = vec!["read:a".to_owned()].into();
    store.set_failing(true);
    scopes.negotiate(&ann, params).await.unwrap_err();
    assert!(!scopes.has_session(&owner(&ann)), "a caller without a token has no session");

    store.set_failing(false);
    let first = session(&scopes, &ann, &["read:a"]).await;
    let mut params = NegotiateScopesParams::new();
    params.refresh_token = first.refresh_token;
    store.set_failing(true);
    scopes.negotiate(&ann, params.clone()).await.unwrap_err();
    assert!(missing(&scopes, &ann, &first.token).is_ok(), "the old session goes on");
    assert_eq!(scopes.0.sessions.lock().len(), 1);
    store.set_failing(false);
    assert!(scopes.negotiate(&ann, params).await.unwrap().session.is_some());
}
