//! Tests that a server does not make its tools safer by hiding them from its list.

use mgp_types::mgp::{Permission, Validator};

use super::*;
use crate::tool::Assessment;

const RUN: &str = r#"{"name":"run","description":"Runs.","inputSchema":{"properties":{"command":{"type":"string"}}},"security":{"risk_level":"dangerous","permissions_required":["shell.execute","camera"]}}"#;

impl World {
    fn assessed(&self, tool: &str) -> Arc<Assessment> {
        self.definitions.assessment(Some(&files()), tool)
    }
}

fn policies() -> Policies {
    let mut policy = ServerPolicy::default();
    policy.validators.insert("run".to_owned(), Validator::Sandbox);
    policy.risk.insert("quiet".to_owned(), RiskLevel::Safe);
    Policies::with_default(policy)
}

#[track_caller]
fn strict(assessment: &Assessment) {
    assert_eq!(assessment.effective_risk, RiskLevel::Dangerous);
    assert_eq!(assessment.permissions, [Permission::ShellExecute]);
    assert_eq!(assessment.validators, [Validator::Sandbox]);
    assert!(assessment.confirmation_required, "an entry for the tool does not spare it");
}

#[tokio::test]
async fn a_tool_that_was_never_listed_keeps_the_operators_validator_and_needs_what_its_name_says() {
    let mut world = with(Liar::default(), MemoryStore::new(), policies());
    strict(&world.assessed("run"));
    world.call("run").await.unwrap();
    assert_eq!(world.liar.counted(), (1, 1));
    strict(&world.assessed("run"));
    world.liar.fails.lock().unwrap().replace(RpcError::internal("no list"));
    world.definitions.mark_stale(&files());
    world.call("run").await.unwrap();
    strict(&world.assessed("run"));
    assert!(world.told().is_empty());
}

#[tokio::test]
async fn a_pinned_tool_that_vanishes_from_the_list_needs_what_it_needed() {
    let store = MemoryStore::new();
    let mut world = with(Liar::default(), store.clone(), policies());
    world.liar.lists(&[RUN]);
    world.call("run").await.unwrap();
    let listed = world.assessed("run");
    assert_eq!(listed.permissions, [Permission::ShellExecute, Permission::Camera]);
    world.liar.lists(&[]);
    world.list().await;
    assert_eq!(*world.assessed("run"), *listed);
    world.call("run").await.unwrap();
    world.call("run").await.unwrap();
    assert_eq!(world.liar.counted().0, 2, "it is not listed again for each call");

    let mut later = with(Liar::default(), store, policies());
    later.definitions.open().await.unwrap();
    assert_eq!(*later.assessed("run"), *listed, "before anything was listed");
    later.liar.fails.lock().unwrap().replace(RpcError::internal("no list"));
    later.call("run").await.unwrap();
    assert_eq!(*later.assessed("run"), *listed, "after the server would not list");
}

#[tokio::test]
async fn a_pinned_tool_that_vanishes_from_the_list_keeps_the_checks_in_its_meta() {
    let meta = r#"{"_meta":{"required_scopes":["run"],"requires_confirmation":true},"#;
    let mut world = with(Liar::default(), MemoryStore::new(), policies());
    world.liar.lists(&[&RUN.replacen('{', meta, 1)]);
    world.call("run").await.unwrap();
    let listed = world.assessed("run");
    world.liar.lists(&[]);
    world.list().await;
    assert_eq!(world.assessed("run").required_scopes, ["run"]);
    assert!(world.assessed("run").confirmation_required);
    assert_eq!(*world.assessed("run"), *listed);
}

#[tokio::test]
async fn an_operators_word_on_an_unlisted_tool_holds_and_is_told_once() {
    let mut world = with(Liar::default(), MemoryStore::new(), policies());
    world.call("quiet").await.unwrap();
    world.call("quiet").await.unwrap();
    let quiet = world.assessed("quiet");
    assert_eq!((&quiet.effective_risk, quiet.confirmation_required), (&RiskLevel::Safe, false));
    assert_eq!(world.told(), ["RISK_LEVEL_OVERRIDE"]);
}

#[tokio::test]
async fn a_hidden_tool_of_a_server_that_is_not_let_in_stays_refused() {
    let mut world = with(Liar::default(), MemoryStore::new(), policies());
    let pinned = Payload::parse(READ.to_owned()).unwrap();
    world.definitions.observe(&files(), &[pinned]).await.unwrap();
    let stack = world.liar.stack();
    world.before("fi1es", stack);
    for tool in ["run", "quiet"] {
        assert_eq!(world.call(tool).await.unwrap_err().code(), ErrorCode::TOOL_DISABLED);
    }
}

#[cfg(feature = "validators")]
#[tokio::test]
async fn a_tool_that_its_server_has_not_listed_yet_is_reviewed_as_it_was_pinned() {
    let store = MemoryStore::new();
    let mut world = with(Liar::default(), store.clone(), Policies::default());
    world.liar.lists(&[READ]);
    world.list().await;
    let later = with(Liar::default(), store, Policies::default());
    later.definitions.open().await.unwrap();
    assert!(later.definitions.definition(Some(&files()), "read").is_none());
    let (tool, findings) = later.definitions.reviewed(&files(), "read").unwrap();
    assert_eq!((tool.description.as_deref(), findings.len()), (Some("Reads a file."), 0));
    assert!(later.definitions.reviewed(&files(), "other").is_none());
}

#[tokio::test]
async fn only_the_first_announcement_since_the_last_list_changes_the_table() {
    let mut world = world();
    for tools in [READ, READ_MORE] {
        world.liar.lists(&[tools]);
        world.list().await;
        let listed = world.definitions.0.table();
        world.definitions.mark_stale(&files());
        let outdated = world.definitions.0.table();
        assert!(!Arc::ptr_eq(&listed, &outdated), "the list is outdated now");
        world.definitions.mark_stale(&files());
        assert!(Arc::ptr_eq(&outdated, &world.definitions.0.table()), "nothing has changed since");
    }
    world.liar.lists(&[READ]);
    world.call("read").await.unwrap();
    assert_eq!(world.standing("read"), DefinitionState::Pinned);
}

#[tokio::test(start_paused = true)]
async fn a_restart_and_an_unanswered_list_end_a_row_of_false_announcements() {
    let mut world = world();
    world.liar.lists(&[READ]);
    let announce = async |world: &mut World| {
        for _ in 0..4 {
            world.list().await;
            world.definitions.mark_stale(&files());
        }
        let before = world.liar.counted().0;
        world.call("read").await.unwrap();
        assert_eq!(world.liar.counted().0, before, "false announcements do not count");
    };
    announce(&mut world).await;
    world.definitions.mark_restarted(&files());
    world.call("read").await.unwrap();
    assert_eq!(world.liar.counted().0, 5, "another version may run now");

    announce(&mut world).await;
    tokio::time::advance(Duration::from_secs(31)).await;
    *world.liar.fails.lock().unwrap() = Some(RpcError::internal("no"));
    world.call("unknown").await.unwrap();
    let error = world.call("read").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::SERVER_NOT_READY, "{error}");
}

#[tokio::test]
async fn unlisted_tools_of_a_full_server_do_not_count_as_wrong_definitions() {
    let definitions = Definitions::in_memory(Policies::default());
    definitions.open().await.unwrap();
    let server = files();
    let tool = |name: &str| {
        Payload::parse(format!(r#"{{"name":"{name}","description":"Adds.","inputSchema":{{}}}}"#))
            .unwrap()
    };
    let complete = ListExtent::Complete { announced: 0 };
    definitions.take(&server, &[tool("before")], complete).await.unwrap();
    definitions.take(&server, &[tool("now")], complete).await.unwrap();
    assert!(!definitions.is_full(&server));
    definitions.0.seen().get_mut(&Some(server.clone())).unwrap().crowded();
    definitions.0.publish();
    assert!(definitions.is_full(&server));
    assert!(matches!(definitions.state(Some(&server), "before"), DefinitionState::Refused(_)));
    assert_eq!(definitions.state(Some(&server), "now"), DefinitionState::Pinned);
    assert_eq!(definitions.refused(&server), 0);
}

#[tokio::test]
async fn refused_tools_do_not_count_after_their_server_has_left_them_out() {
    let definitions = Definitions::in_memory(Policies::default());
    definitions.open().await.unwrap();
    definitions.restrict(|_, raw| raw.as_str().contains("other").then(|| "it differs".to_owned()));
    let (server, complete) = (files(), ListExtent::Complete { announced: 0 });
    let tools = ["mgp.wrong", "other", "now"].map(|name| {
        Payload::parse(format!(r#"{{"name":"{name}","description":"Adds.","inputSchema":{{}}}}"#))
            .unwrap()
    });
    for (listed, refused, unlocked) in
        [(&tools[..], 2, 1), (&tools[2..], 0, 0), (&tools[1..], 1, 1)]
    {
        definitions.take(&server, listed, complete).await.unwrap();
        assert_eq!(definitions.refused(&server), refused);
        assert_eq!(definitions.unlocked_tools(&server).len(), unlocked);
        for name in ["mgp.wrong", "other"] {
            let state = definitions.state(Some(&server), name);
            assert!(matches!(state, DefinitionState::Refused(_)), "{name}: {state:?}");
        }
    }
}
