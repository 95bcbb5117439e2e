//! Tests that callers who share a connection, a name or a tenant can neither see nor change each other's sessions.

use mgp_toolindex::{AllTools, Session, Sessions, ToolIndex};
use mgp_types::service::{Context, Peer, Principal, Scope, ScopeKind};

use super::setting;
use super::tools::server;

/// The number of steps of the test by default.
const STEPS: u64 = 200;

/// The number of tools of each caller; two callers never share a tool.
const TOOLS: u64 = 5;

/// Returns principals that share some parts but are all different.
fn callers() -> Vec<Principal> {
    let ann = Principal::new("acme", "ann");
    vec![
        ann.agent("coder"),
        ann.agent("writer"),
        ann,
        Principal::new("acme", "bob"),
        Principal::new("umbrella", "ann"),
        Principal::new("umbrella", "ann").agent("coder"),
    ]
}

/// A caller with its connection, legacy session or handle.
struct Caller {
    cx: Context,
    /// The server with the tools that only this caller uses.
    server: String,
    /// The handle of its session, for requests without a connection.
    handle: Option<String>,
    /// The names of the tools that are in its session.
    uses: Vec<String>,
}

impl Caller {
    fn session(&self, sessions: &Sessions) -> Session {
        sessions.open(&self.cx, self.handle.as_deref()).unwrap()
    }

    /// Returns the names of the tools in its session.
    fn sees(&self, sessions: &Sessions, index: &ToolIndex) -> Vec<String> {
        let session = self.session(sessions);
        let view = sessions.view(&self.cx.principal, Some(&session), index, &AllTools);
        view.tools().map(|held| held.tool.name().to_owned()).collect()
    }
}

#[test]
fn a_caller_never_sees_the_session_of_another() {
    let index = ToolIndex::new();
    let sessions = Sessions::new();
    // The callers of the first round share one connection, and the callers of the second round share a legacy session.
    // In the third round, each caller makes stateless requests.
    let shared = [Scope::new(ScopeKind::Connection), Scope::new(ScopeKind::Session)];
    let mut all = Vec::new();
    for place in 0..3 {
        for principal in callers() {
            let number = all.len();
            let id = format!("server-{number}");
            index.put(server(&id, &format!("caller{number}x"), TOOLS)).unwrap();
            let scope = shared.get(place).cloned();
            let scope = scope.unwrap_or_else(|| Scope::new(ScopeKind::Request));
            let mut caller = Caller {
                cx: Context::new(Peer::none(), scope, principal),
                server: id,
                handle: None,
                uses: Vec::new(),
            };
            caller.handle = caller.session(&sessions).handle().map(str::to_owned);
            assert_eq!(caller.handle.is_some(), place == 2);
            all.push(caller);
        }
    }
    let steps = setting("STEPS", STEPS);
    let mut number = 1_u64;
    for step in 0..steps {
        number =
            number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = usize::try_from(number >> 33).unwrap() % all.len();
        take(&mut all[at], number >> 20, &sessions, &index);
        let other = usize::try_from(step).unwrap() % all.len();
        for seen in [at, other] {
            let mut sees = all[seen].sees(&sessions, &index);
            sees.sort();
            assert_eq!(
                sees, all[seen].uses,
                "{:?} after a step of {:?}",
                all[seen].cx.principal, all[at].cx.principal
            );
        }
        check_foreign_handles(&all[at], &all[other], &sessions);
    }
    println!("tough: {} callers, {steps} steps, no caller saw the session of another", all.len());
}

/// Uses a tool of the caller, or evicts some of its tools. Some evictions also name the tools of other callers, which
/// has no effect.
fn take(caller: &mut Caller, number: u64, sessions: &Sessions, index: &ToolIndex) {
    let session = caller.session(sessions);
    let tools = index.tools_of(&caller.server);
    let tool = &tools[usize::try_from(number).unwrap() % tools.len()];
    if number.is_multiple_of(3) {
        // The names of the tools of all callers.
        let names: Vec<_> = index.entries().into_iter().map(|entry| entry.name).collect();
        let names = if number.is_multiple_of(2) { names } else { vec![tool.name().to_owned()] };
        let gone = sessions.evict(&caller.cx.principal, Some(&session), &names, index, &AllTools);
        let before = caller.uses.len();
        caller.uses.retain(|name| !names.contains(name));
        assert_eq!(gone.evicted, u64::try_from(before - caller.uses.len()).unwrap());
    } else {
        sessions.record_use(&session, tool);
        caller.uses.push(tool.name().to_owned());
        caller.uses.sort();
        caller.uses.dedup();
    }
}

/// Checks that a caller can use neither the handle of another caller nor a guessed handle.
fn check_foreign_handles(one: &Caller, other: &Caller, sessions: &Sessions) {
    if let Some(handle) = &other.handle
        && one.cx.principal != other.cx.principal
    {
        assert!(sessions.open(&one.cx, Some(handle)).is_err());
    }
    assert!(sessions.open(&one.cx, Some("00000000000000000000000000000000")).is_err());
}
