//! Callers who share a connection, a name or a tenant: nobody sees or changes what is in another's session.
//!
//! Applies to: inbound.

use mgp_toolindex::{Everything, Session, Sessions, ToolIndex};
use mgp_types::service::{Context, Peer, Principal, Scope, ScopeKind};

use crate::tools::server;
use crate::wanted;

/// How many steps are taken, unless the environment says otherwise.
const STEPS: u64 = 200;

/// How many tools each caller uses; no two use the same ones.
const TOOLS: u64 = 5;

/// Who calls: what two of them have in common does not make them one.
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

/// One caller in one place.
struct Caller {
    cx: Context,
    /// Its server, which only it uses.
    server: String,
    /// Where requests stand alone: the handle.
    handle: Option<String>,
    /// What it used and did not take out again.
    uses: Vec<String>,
}

impl Caller {
    fn session(&self, sessions: &Sessions) -> Session {
        sessions.open(&self.cx, self.handle.as_deref()).unwrap()
    }

    /// The names of the tools in its session.
    fn sees(&self, sessions: &Sessions, index: &ToolIndex) -> Vec<String> {
        let session = self.session(sessions);
        let view = sessions.view(&self.cx.principal, Some(&session), index, &Everything);
        view.tools().map(|held| held.tool.name().to_owned()).collect()
    }
}

#[test]
fn what_one_uses_no_other_sees() {
    let index = ToolIndex::new();
    let sessions = Sessions::new();
    // All share one connection, and one legacy session; and each has requests of its own.
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
    let steps = wanted("STEPS", STEPS);
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
        foreign(&all[at], &all[other], &sessions);
    }
    println!("tough: {} callers, {steps} steps, nobody saw another's session", all.len());
}

/// A caller uses one of its tools, or takes one out, and names those of others in vain.
fn take(caller: &mut Caller, number: u64, sessions: &Sessions, index: &ToolIndex) {
    let session = caller.session(sessions);
    let tools = index.tools_of(&caller.server);
    let tool = &tools[usize::try_from(number).unwrap() % tools.len()];
    if number.is_multiple_of(3) {
        // Whatever it names, what others have stays.
        let names: Vec<_> = index.entries().into_iter().map(|entry| entry.name).collect();
        let names = if number.is_multiple_of(2) { names } else { vec![tool.name().to_owned()] };
        let gone = sessions.evict(&caller.cx.principal, Some(&session), &names, index, &Everything);
        let before = caller.uses.len();
        caller.uses.retain(|name| !names.contains(name));
        assert_eq!(gone.evicted, u64::try_from(before - caller.uses.len()).unwrap());
    } else {
        sessions.used(&session, tool);
        caller.uses.push(tool.name().to_owned());
        caller.uses.sort();
        caller.uses.dedup();
    }
}

/// The handle of one is worth nothing to another, nor is one that was guessed.
fn foreign(one: &Caller, other: &Caller, sessions: &Sessions) {
    if let Some(handle) = &other.handle
        && one.cx.principal != other.cx.principal
    {
        assert!(sessions.open(&one.cx, Some(handle)).is_err());
    }
    assert!(sessions.open(&one.cx, Some("00000000000000000000000000000000")).is_err());
}
