//! Tests of the tables `[agents.NAME]`, and of the token budget in `[kernel]`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_client_sdk::{Client, ServerChange};
use mgp_toolindex::TokenCounter;
use mgp_types::mcp::{ElicitAction, ElicitResult};
use mgp_types::method::{KernelExplain, KernelSessions, KernelToolsTokens, ToolsSession};
use mgp_types::mgp::{
    AccessGrantParams, KernelExplainParams, KernelSessionsParams, KernelTokensParams, SessionParams,
};
use mgp_types::service::Principal;
use tokio::time::timeout;

use super::world::{CALL_TIMEOUT, World, until};
use crate::route::world::grant;

const OPEN: &str = "[[servers]]\nid = 'a'\n{SERVER}\n[servers.mgp]\ndefault_policy = 'opt-out'\n\
    risk = { look = 'safe' }\n";

#[tokio::test]
async fn pinned_tools_are_in_the_list_of_that_agent_only() {
    let world = World::with_tools(&format!(
        "{OPEN}[kernel]\nsurface = 'search'\n[agents.ada]\npinned = ['look']"
    ))
    .await;
    let mut clients = Vec::new();
    for (agent, expected) in [("ada", true), ("bob", false)] {
        clients.push(world.agent(agent).await);
        let tools = clients.last().unwrap().tools().await.unwrap();
        assert_eq!(tools.iter().any(|tool| tool.name == "look"), expected, "{agent}");
    }
    let operator = world.operator().await;
    let sessions = operator.request::<KernelSessions>(&KernelSessionsParams::new()).await.unwrap();
    let of_ada = sessions.sessions.iter().find(|one| one.agent_id.as_deref() == Some("ada"));
    assert_eq!(of_ada.unwrap().pinned, ["look"]);
    let mut params = KernelTokensParams::new();
    params.agent_id = Some("bob".to_owned());
    let tokens = operator.request::<KernelToolsTokens>(&params).await.unwrap();
    assert!(tokens.listed > 0 && tokens.all > 0 && tokens.servers[0].tools == 3, "{tokens:?}");
    // The kernel's count of a server's tokens must equal the count of its tools' definitions here.
    let (counter, tools) = (TokenCounter::new(), world.kernel.index().tools_of("a"));
    let counts = tools.iter().map(|tool| u64::from(counter.count_definition(tool.definition())));
    assert_eq!(tokens.servers[0].tokens, counts.sum::<u64>());
    world.end().await;
}

#[tokio::test]
async fn pinned_tools_and_budget_of_an_agent_are_not_those_of_another_tenant() {
    let agent = "[kernel]\nsurface = 'search'\n[agents.ada]\npinned = ['look']\nbudget = 3000";
    let world = World::with_tools(&format!("{OPEN}{agent}")).await;
    let local = Principal::local().agent("ada");
    let other = Principal::new("acme", "ann").agent("ada");
    for (principal, is_pinned, budget) in [(local, true, 3000), (other, false, 8000)] {
        let client = world.connect(principal.clone(), Client::builder("host", "1")).await;
        let tools = client.tools().await.unwrap();
        let has_pinned = tools.iter().any(|tool| tool.name == "look");
        assert_eq!(has_pinned, is_pinned, "{principal:?}");
        let session = client.request::<ToolsSession>(&SessionParams::new()).await.unwrap();
        assert_eq!(session.max_tokens, Some(budget), "{principal:?}");
    }
    world.end().await;
}

#[tokio::test]
async fn limits_of_an_agent_count_all_its_users() {
    let server = "[[servers]]\nid = 'a'\n{SERVER}\nenv = { STEPS = '1 2 3 4 5 6 7 8 9 10 11 12' }\n[servers.mgp]\n";
    let rules = "default_policy = 'opt-out'\nrisk = { look = 'safe' }\n";
    let limits = "[agents.ada.limits]\ncalls_per_minute = 2\nrunning = 1";
    let world = World::with_tools(&format!("{server}{rules}{limits}")).await;
    let connect = async |subject: &str| {
        let principal = Principal::new(Principal::local().tenant().clone(), subject).agent("ada");
        world.connect(principal, Client::builder("host", "1")).await
    };
    let (ann, bob) = (connect("ann").await, connect("bob").await);
    let operator = world.operator().await;
    let running = tokio::spawn(async move { ann.call("look").await });
    mgp_testkit::until("the call of one user counts for the agent", async || {
        let why = KernelExplainParams::new("ada", "a.look");
        let why = operator.request::<KernelExplain>(&why).await.unwrap();
        why.steps.iter().any(|step| step.rule.starts_with("1 of 1 at once"))
    })
    .await;
    running.await.unwrap().unwrap();
    bob.call("look").await.unwrap();
    let refused = bob.call("look").await.unwrap_err();
    assert_eq!(refused.code().0, 3000, "{refused}");
    world.end().await;
}

#[tokio::test]
async fn limits_of_a_server_count_the_calls_of_all_tenants() {
    for limits in ["calls_per_minute = 1", "tool_calls_per_minute = { look = 1 }"] {
        let world = World::with_tools(&format!("{OPEN}[servers.limits]\n{limits}")).await;
        world.agent("ada").await.call("look").await.unwrap();
        let other = Principal::new("acme", "ann").agent("ada");
        let other = world.connect(other, Client::builder("host", "1")).await;
        let refused = other.call("look").await.unwrap_err();
        assert_eq!(refused.code().0, 3000, "{limits}: {refused}");
        world.end().await;
    }
}

#[tokio::test]
async fn other_pinned_tools_and_budgets_are_announced_to_agents() {
    let search = |more: &str| format!("{OPEN}[kernel]\nsurface = 'search'\n{more}");
    let world = World::with_tools(&search("")).await;
    let changes = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&changes);
    let builder = Client::builder("host", "1").on_change(move |what| {
        counts.fetch_add(usize::from(*what == ServerChange::Tools), Ordering::SeqCst);
    });
    let ada = world.connect(Principal::local().agent("ada"), builder).await;
    ada.tools().await.unwrap();
    let budget = "[kernel.tool_context_budget]\nmax_tokens = 6000\npinned_reserve = 2000\n\
        discovery_reserve = 1000\ncache_limit = 1000\n";
    for more in [
        "[agents.ada]\npinned = ['look']",
        "[agents.ada]\npinned = ['look']\nbudget = 3000",
        &format!("{budget}[agents.ada]\npinned = ['look']\nbudget = 3000"),
    ] {
        // Wait until all earlier changes are announced, because only later announcements count.
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        let before = changes.load(Ordering::SeqCst);
        world.write(&search(more));
        world.kernel.reload().await.unwrap();
        until(more, || changes.load(Ordering::SeqCst) > before).await;
    }
    assert!(ada.tools().await.unwrap().iter().any(|tool| tool.name == "look"));
    world.end().await;
}

#[tokio::test]
async fn an_agent_has_the_access_of_its_groups() {
    let closed = OPEN.replace("opt-out", "opt-in");
    let world = World::with_tools(&format!("{closed}[agents.ada]\ngroups = ['gardeners']")).await;
    grant(&world.kernel, AccessGrantParams::allow("group:gardeners", "a")).await;
    for (agent, expected) in [("ada", true), ("bob", false)] {
        let called = world.agent(agent).await.call("look").await;
        assert_eq!(called.is_ok(), expected, "{agent}: {called:?}");
    }
    world.end().await;
}

#[tokio::test]
async fn only_an_interactive_agent_is_asked_to_confirm() {
    let world = World::with_tools(&format!(
        "{OPEN}permission_policy = 'auto_approve'\n[kernel]\nauto_approve_except = []\n[agents.ada]\ninteractive = true"))
    .await;
    let local = |name: &str| Principal::local().agent(name);
    // `[agents.ada]` configures the local user's agent `ada`, not an agent of another tenant with the same name.
    let other = Principal::new("acme", "ann").agent("ada");
    for (agent, expected) in [(local("ada"), 1), (local("bob"), 0), (other, 0)] {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let builder = Client::builder("host", "1").on_elicitation(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            async { Ok(ElicitResult::new(ElicitAction::Decline)) }
        });
        let client = world.connect(agent.clone(), builder).await;
        let called = timeout(CALL_TIMEOUT, async { client.call("wipe_disk").await }).await;
        assert!(!called.is_ok_and(|called| called.is_ok()), "{agent:?}");
        assert_eq!(asked.load(Ordering::Relaxed), expected, "{agent:?}");
    }
    world.end().await;
}
