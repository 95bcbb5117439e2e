//! Tests of `[agents.NAME]`, and of the budget in `[kernel]`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_client_sdk::Client;
use mgp_types::mcp::{ElicitAction, ElicitResult};
use mgp_types::method::{KernelSessions, KernelToolsTokens, ToolsSession};
use mgp_types::mgp::{AccessGrantParams, KernelSessionsParams, KernelTokensParams, SessionParams};
use mgp_types::service::Principal;
use tokio::time::timeout;

use crate::world::{CALL_TIMEOUT, World};

const OPEN: &str = "[[servers]]\nid = 'a'\n{SERVER}\n[servers.mgp]\ndefault_policy = 'opt-out'\n\
    risk = { look = 'safe' }\n";

#[tokio::test]
async fn pinned_tools_are_in_the_list_of_that_agent_only() {
    let world =
        World::new(&format!("{OPEN}[kernel]\nsurface = 'search'\n[agents.ada]\npinned = ['look']"))
            .await;
    world.knows("a").await;
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
    world.end().await;
}

#[tokio::test]
async fn an_agent_may_have_a_budget_other_than_that_of_the_kernel() {
    let world = World::new(&format!(
        "{OPEN}[kernel.tool_context_budget]\nmax_tokens = 6000\npinned_reserve = 1000\n\
         discovery_reserve = 1000\ncache_limit = 1000\n[agents.ada]\nbudget = 3000"
    ))
    .await;
    for (agent, expected) in [("ada", 3000), ("bob", 6000)] {
        let client = world.agent(agent).await;
        let session = client.request::<ToolsSession>(&SessionParams::new()).await.unwrap();
        assert_eq!(session.max_tokens, Some(expected), "{agent}");
    }
    world.end().await;
}

#[tokio::test]
async fn an_agent_has_the_access_of_its_groups() {
    let closed = OPEN.replace("opt-out", "opt-in");
    let world = World::new(&format!("{closed}[agents.ada]\ngroups = ['gardeners']")).await;
    world.knows("a").await;
    let operator = Principal::local().operator();
    let grant = AccessGrantParams::allow("group:gardeners", "a");
    world.kernel.governance().access().grant(&operator, grant).await.unwrap();
    for (agent, expected) in [("ada", true), ("bob", false)] {
        let called = world.agent(agent).await.call("look").await;
        assert_eq!(called.is_ok(), expected, "{agent}: {called:?}");
    }
    world.end().await;
}

#[tokio::test]
async fn only_an_interactive_agent_is_asked_to_confirm() {
    let world = World::new(&format!(
        "{OPEN}permission_policy = 'auto_approve'\n[kernel]\nauto_approve_except = []\n[agents.ada]\ninteractive = true"))
    .await;
    world.knows("a").await;
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
