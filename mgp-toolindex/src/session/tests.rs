//! Tests of sessions (MGP §16.7, §16.8).

use mgp_types::RawObject;
use mgp_types::mcp::Tool;
use mgp_types::mgp::ContextBudget;
use mgp_types::service::{Context, Peer, Principal, Scope, ScopeKind};

use super::*;
use crate::{AllTools, BudgetError, ServerEntry, ToolIndex};

fn cx(kind: ScopeKind, who: &str) -> Context {
    Context::new(Peer::none(), Scope::new(kind), Principal::new("here", who))
}

fn tool(name: &str, words: usize) -> Tool {
    let mut tool = Tool::new(name.to_owned(), RawObject::empty());
    tool.description = Some("read ".repeat(words));
    tool
}

/// Returns an index with the tools `t0` to `t9` of 100 words each, and a huge tool.
fn index() -> ToolIndex {
    let index = ToolIndex::new();
    let tools = (0..10).map(|number| tool(&format!("t{number}"), 100));
    index.put(ServerEntry::new("s").tools(tools).tool(tool("huge", 9000))).unwrap();
    index
}

fn names(held: &[SessionTool]) -> Vec<&str> {
    held.iter().map(|held| held.tool.name()).collect()
}

#[test]
fn the_least_recently_used_tools_are_evicted_first() {
    let index = index();
    let sessions = Sessions::with_budget(
        ContextBudget::new(8000_u64, 2000_u64, 3000_u64, 400_u64),
        Pins::new(),
        SessionLimits::default(),
    );
    let cx = cx(ScopeKind::Connection, "ann");
    let session = sessions.open(&cx, None).unwrap();
    assert_eq!(session.handle(), None);
    for name in ["t0", "t1", "t2", "t0", "t3"] {
        sessions.record_use(&session, &index.get("s", name).unwrap());
    }
    let view = sessions.view(&cx.principal, Some(&session), &index, &AllTools);
    assert_eq!(names(&view.cached), ["t3", "t0", "t2"]);
    assert!(view.total_tokens <= 400 + 450, "{}", view.total_tokens);
    assert_eq!(view.max_tokens, 8000);
}

#[test]
fn a_tool_larger_than_its_room_is_trimmed() {
    let (index, sessions) = (index(), Sessions::new());
    let cx = cx(ScopeKind::Connection, "ann");
    let session = sessions.open(&cx, None).unwrap();
    sessions.record_use(&session, &index.get("s", "huge").unwrap());
    let view = sessions.view(&cx.principal, Some(&session), &index, &AllTools);
    assert!(view.cached[0].is_trimmed() && view.cached[0].tokens <= 3000);
    assert!(view.cached[0].text().len() < 1200);
}

#[test]
fn pinned_tools_are_always_present_and_never_evicted() {
    let index = index();
    let pins = Pins::new().agent("bot", ["t0", "gone", "s.t1", "t0"]);
    let sessions = Sessions::with_budget(default_budget(), pins, SessionLimits::default());
    let mut cx = cx(ScopeKind::Connection, "ann");
    cx.principal = Principal::local().agent("bot");
    let session = sessions.open(&cx, None).unwrap();
    for name in ["t0", "t5", "t6"] {
        sessions.record_use(&session, &index.get("s", name).unwrap());
    }
    let view = sessions.view(&cx.principal, Some(&session), &index, &AllTools);
    assert_eq!(names(&view.pinned), ["t0", "t1"]);
    assert_eq!(names(&view.cached), ["t6", "t5"]);
    let told = view.result(|tool| tool.name().to_owned());
    assert_eq!((told.pinned.len(), told.total_tokens), (2, Some(view.total_tokens)));

    let freed = view.cached[1].tokens;
    let which = ["t0".to_owned(), "s.t5".to_owned(), "t9".to_owned(), "other.t6".to_owned()];
    let result = sessions.evict(&cx.principal, Some(&session), &which, &index, &AllTools);
    assert_eq!((result.evicted, result.freed_tokens), (1, freed.into()));
    assert_eq!(*result.not_evicted, ["t0"]);
    // The view must agree with the result of the eviction: the pinned tool `t0` does not count as a cached tool.
    let view = sessions.view(&cx.principal, Some(&session), &index, &AllTools);
    assert_eq!(names(&view.cached), ["t6"]);
    assert_eq!(result.remaining_count, 1);
}

#[test]
fn a_session_shows_only_current_tools_that_can_be_called() {
    struct But(&'static str);
    impl crate::Allowed for But {
        fn allows(&self, _: &str, tool: &str) -> bool {
            tool != self.0
        }
    }

    let (index, sessions) = (index(), Sessions::new());
    let cx = cx(ScopeKind::Connection, "ann");
    let session = sessions.open(&cx, None).unwrap();
    for name in ["t0", "t1", "t2"] {
        sessions.record_use(&session, &index.get("s", name).unwrap());
    }
    let view = sessions.view(&cx.principal, Some(&session), &index, &But("t1"));
    assert_eq!(names(&view.cached), ["t2", "t0"]);
    index.put(ServerEntry::new("s").tool(tool("t0", 5))).unwrap();
    let view = sessions.view(&cx.principal, Some(&session), &index, &AllTools);
    assert_eq!(names(&view.cached), ["t0"]);
    assert!(view.cached[0].tokens < 40, "{}", view.cached[0].tokens);
    index.remove("s").unwrap();
    assert!(sessions.view(&cx.principal, Some(&session), &index, &AllTools).cached.is_empty());
}

#[test]
fn requested_tools_are_counted_exactly_and_once() {
    let (index, sessions) = (index(), Sessions::new());
    let cx = cx(ScopeKind::Connection, "ann");
    let session = sessions.open(&cx, None).unwrap();
    let tools = [index.get("s", "t0").unwrap(), index.get("s", "huge").unwrap()];
    let request = |tools| sessions.request(&cx.principal, &session, tools, &index, &AllTools);
    let loaded = request(&tools[..]);
    assert_eq!(loaded.is_in, [true, true]);
    let counter = crate::TokenCounter::new();
    let view = sessions.view(&cx.principal, Some(&session), &index, &AllTools);
    let exact: u32 = view.cached.iter().map(|held| counter.count(&held.text())).sum();
    assert_eq!(loaded.tokens, u64::from(exact));
    assert_eq!(view.total_tokens, 450 + u64::from(exact));
    assert_eq!(request(&tools[..1]).tokens, 0);
}

#[test]
fn a_shortened_tool_that_is_requested_again_adds_the_tokens_of_its_full_definition() {
    let (index, _, _) = index_with_large();
    index.count_tokens();
    let tools = ["large", "pin"].map(|name| index.get("s", name).unwrap());
    let both: u64 = tools.iter().map(|tool| u64::from(tool.tokens())).sum();
    let budget = ContextBudget::new(3000 + 450 + both, 2000_u64, 3000_u64, both - 200);
    let sessions = Sessions::with_budget(budget, Pins::new(), SessionLimits::default());
    let cx = cx(ScopeKind::Connection, "ann");
    let session = sessions.open(&cx, None).unwrap();
    let request = |tools| sessions.request(&cx.principal, &session, tools, &index, &AllTools);
    let view = || sessions.view(&cx.principal, Some(&session), &index, &AllTools);
    request(&tools[..]);
    let before = view();
    assert_eq!(names(&before.cached), ["pin", "large"]);
    assert!(before.cached[1].is_trimmed());
    let added = request(&tools[..1]).tokens;
    let after = view();
    assert_eq!(names(&after.cached), ["large"]);
    assert_eq!(added, u64::from(after.cached[0].tokens - before.cached[1].tokens));
}

#[test]
fn an_invalid_budget_names_what_does_not_fit() {
    let index = index();
    let pins = [index.get("s", "huge").unwrap(), index.get("s", "t0").unwrap()];
    let error = check_budget(&default_budget(), &pins).unwrap_err();
    let BudgetError::Pins { largest: Some((largest, _)), .. } = &error else { panic!("{error}") };
    assert_eq!(largest, "s.huge");
    assert!(
        error.to_string().contains("`pinned_reserve` is 2000; raise it or unpin tools"),
        "{error}"
    );
    assert!(check_budget(&default_budget(), &pins[1..]).is_ok());
    // An invalid budget can still be used: pinned tools are present, and the sum stays below the maximum.
    let pins = Pins::new().agent("bot", ["huge", "t0"]);
    let sessions = Sessions::with_budget(default_budget(), pins, SessionLimits::default());
    let who = Principal::local().agent("bot");
    let view = sessions.view(&who, None, &index, &AllTools);
    assert_eq!(names(&view.pinned), ["huge", "t0"]);
    assert!(view.total_tokens + 3000 <= 8000);
}

#[test]
fn a_new_plan_applies_to_the_next_call_and_sessions_stay() {
    let (index, sessions) = (index(), Sessions::new());
    let mut cx = cx(ScopeKind::Connection, "ann");
    cx.principal = Principal::local().agent("bot");
    let session = sessions.open(&cx, None).unwrap();
    for name in ["t0", "t1", "t2"] {
        sessions.record_use(&session, &index.get("s", name).unwrap());
    }
    let view = || {
        let session = sessions.find(&cx, None).unwrap();
        sessions.view(&cx.principal, session.as_ref(), &index, &AllTools)
    };
    assert_eq!(names(&view().cached), ["t2", "t1", "t0"]);

    sessions.set_plan(ContextPlan::new(default_budget(), Pins::new().agent("bot", ["t2"])));
    assert_eq!((names(&view().pinned), names(&view().cached)), (vec!["t2"], vec!["t1", "t0"]));

    sessions.set_plan(ContextPlan::new(default_budget(), Pins::new()).agent("bot", 1100));
    assert_eq!((view().max_tokens, view().cached.len()), (1100, 2), "what does not fit goes");
}

#[test]
fn pins_and_budgets_of_agents_are_those_of_the_local_tenant() {
    let pins = Pins::new().agent("bot", ["t1"]);
    let plan = ContextPlan::new(default_budget(), pins).agent("bot", 1100);
    let (own, other) =
        (Principal::local().agent("bot"), Principal::new("there", "bob").agent("bot"));
    for (principal, pinned, budget) in [(own, &["t1"][..], 1100), (other, &[][..], 8000)] {
        assert_eq!(plan.pins().of(&principal).collect::<Vec<_>>(), pinned, "{principal:?}");
        assert_eq!(plan.budget_of(&principal).max_tokens, budget, "{principal:?}");
    }
}

/// Returns an index with six tools of 100 words, one tool of 1,000 words that tests pin, and one of 1,500 words. Also
/// returns the number of tokens of the six tools together, and of the tool that tests pin.
fn index_with_large() -> (ToolIndex, u64, u64) {
    let index = ToolIndex::new();
    let small = (0..6).map(|number| tool(&format!("t{number}"), 100));
    let server = ServerEntry::new("s").tools(small);
    index.put(server.tool(tool("pin", 1000)).tool(tool("large", 1500))).unwrap();
    let tokens = |name: &str| u64::from(index.get("s", name).unwrap().tokens());
    let six = (0..6).map(|number| tokens(&format!("t{number}"))).sum::<u64>();
    let pin = tokens("pin");
    (index, six, pin)
}

/// Regression test for a bug: if the pinned tools left less room than a large tool needs, each call of this tool
/// evicted all other tools.
#[test]
fn a_tool_larger_than_the_room_beside_pinned_tools_evicts_no_others() {
    let (index, six, pin) = index_with_large();
    let budget = ContextBudget::new(3000 + 450 + pin + six + 500, 2000_u64, 3000_u64, 3000_u64);
    let pins = Pins::new().agent("bot", ["pin"]);
    let sessions = Sessions::with_budget(budget, pins, SessionLimits::default());
    let mut cx = cx(ScopeKind::Connection, "ann");
    cx.principal = Principal::local().agent("bot");
    let session = sessions.open(&cx, None).unwrap();
    let view = || sessions.view(&cx.principal, Some(&session), &index, &AllTools);
    assert_eq!(names(&view().pinned), ["pin"]);
    for name in ["t0", "t1", "t2", "t3", "t4", "t5", "large"] {
        assert!(sessions.record_use(&session, &index.get("s", name).unwrap()), "{name}");
    }
    assert_eq!(names(&view().cached), ["large", "t5", "t4", "t3", "t2", "t1", "t0"]);
    assert!(view().cached[0].is_trimmed());
    assert!(!sessions.record_use(&session, &index.get("s", "large").unwrap()), "it is known");
}

#[test]
fn a_lower_budget_shortens_a_large_tool_before_it_evicts_others() {
    let (index, six, _) = index_with_large();
    let sessions = Sessions::new();
    let cx = cx(ScopeKind::Connection, "ann");
    let session = sessions.open(&cx, None).unwrap();
    for name in ["t0", "t1", "large"] {
        sessions.record_use(&session, &index.get("s", name).unwrap());
    }
    let budget = ContextBudget::new(8000_u64, 2000_u64, 3000_u64, six / 3 + 500);
    sessions.set_plan(ContextPlan::new(budget, Pins::new()));
    let view = sessions.view(&cx.principal, Some(&session), &index, &AllTools);
    assert_eq!(names(&view.cached), ["large", "t1", "t0"]);
}

#[test]
fn a_use_of_a_tool_for_which_there_is_no_room_changes_no_session() {
    let index = index();
    let plan = ContextPlan::new(default_budget(), Pins::new()).agent("bot", 700);
    let sessions = Sessions::with_plan(plan, SessionLimits::default());
    let mut cx = cx(ScopeKind::Connection, "ann");
    cx.principal = Principal::local().agent("bot");
    let session = sessions.open(&cx, None).unwrap();
    assert!(!sessions.record_use(&session, &index.get("s", "t0").unwrap()));
}
