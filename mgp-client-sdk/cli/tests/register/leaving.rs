//! Tests of deregistration: running calls finish, and a later server with the same id inherits nothing.

use std::fs;
use std::process::{Command, Stdio};

use mgp_security::AuditQuery;
use mgp_toolindex::History;
use mgp_types::ErrorCode;
use mgp_types::method::ToolsSession;
use mgp_types::mgp::{
    AccessQueryParams, DeregisterParams, Permission, RegistrationStatus, SessionParams,
};
use mgp_types::service::Principal;
use mgp_types::store::Db;

use mgp_testkit::until;

use crate::world::{World, patient, register, text};

#[tokio::test]
async fn a_running_call_finishes_and_then_everything_of_the_server_is_removed() {
    let world = World::new("").await;
    let (ada, operator) = (world.registrar().await, Principal::local().operator());
    let governance = world.kernel.governance();
    world.add(&ada, "made").await;
    for tool in ["say", "hold"] {
        world.grant("ada", "made", tool).await;
    }
    let change = mgp_security::PermissionChange::of("made", [Permission::SystemInfo]);
    governance.permissions().approve(&operator, change).await.unwrap();
    assert_eq!(text(&ada, "say").await.as_deref(), Ok("said"));
    let session = ada.request::<ToolsSession>(&SessionParams::new()).await.unwrap();
    assert_eq!(session.cached.len(), 1);
    let holding = {
        let ada = ada.clone();
        tokio::spawn(async move { text(&ada, "hold").await })
    };
    until("the call runs", async || world.folder.join("made.holds").exists()).await;

    let reply = ada.mgp().discovery_deregister(&DeregisterParams::new("made")).await.unwrap();
    assert_eq!(reply.status.as_str(), "draining");
    assert_eq!(text(&ada, "say").await, Err(ErrorCode::TOOL_NOT_FOUND.0), "no new call");
    std::fs::write(world.folder.join("go"), "").unwrap();
    assert_eq!(holding.await.unwrap().as_deref(), Ok("held"), "the running call finishes");
    until("the server is removed", async || {
        world.kernel.registrations().fleet().known().is_empty()
    })
    .await;

    assert!(world.kernel.index().tools_of("made").is_empty());
    let mine = AccessQueryParams::new("ada", "made");
    let entries = governance.access().query(&operator, mine.clone()).await.unwrap().entries;
    assert!(entries.is_empty(), "{entries:?}");
    assert!(governance.permissions().list(&operator, None).await.unwrap().is_empty());
    let session = ada.request::<ToolsSession>(&SessionParams::new()).await.unwrap();
    assert_eq!(session.cached.len(), 0);

    // The next server with this id has no grants, and its tool definitions count as new.
    world.add(&ada, "made").await;
    assert_eq!(text(&ada, "say").await, Err(ErrorCode::ACCESS_DENIED.0));
    let log = world.kernel.governance().log().unwrap();
    let mut reply = Vec::new();
    until("all is recorded", async || {
        log.flush().await.unwrap();
        reply = log.query(AuditQuery::new().server("made")).await.unwrap().events;
        let is = |word: &str| reply.iter().filter(|one| one.event_type.as_str() == word).count();
        is("dev.cloto.definition_pinned") == 4 && is("dev.cloto.server_deregistered") == 1
    })
    .await;
    let is = |word: &str| reply.iter().filter(|one| one.event_type.as_str() == word).count();
    assert_eq!(
        is("dev.cloto.definition_pinned"),
        4,
        "two tools, each recorded twice as new: {reply:?}"
    );
    assert_eq!((is("ACCESS_REVOKED"), is("PERMISSION_REVOKED")), (2, 1), "{reply:?}");
    assert_eq!(is("dev.cloto.server_deregistered"), 1);
    world.end().await;
}

#[tokio::test]
async fn only_the_registering_agent_and_operators_can_deregister() {
    let world = World::with("", patient).await;
    let (ada, operator) = (world.registrar().await, world.operator().await);
    world.add(&ada, "made").await;
    world.grant("bob", "mgp", "mgp.discovery.deregister").await;
    let bob = world.agent("bob").await;
    let params = DeregisterParams::new("made");
    let unknown = bob.mgp().discovery_deregister(&params).await.unwrap_err();
    assert_eq!(unknown.code(), ErrorCode::RESOURCE_NOT_FOUND, "the server is hidden from him");
    world.grant("bob", "made", "say").await;
    let refused = bob.mgp().discovery_deregister(&params).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::PERMISSION_DENIED);
    assert!(world.server("made").is_some());
    let reply = operator.mgp().discovery_deregister(&params).await.unwrap();
    assert_eq!(reply.status, RegistrationStatus::Deregistered);
    assert!(world.server("made").is_none());
    // The second deregistration fails, because the kernel no longer finds the server.
    let gone = operator.mgp().discovery_deregister(&params).await.unwrap_err();
    assert_eq!(gone.code(), ErrorCode::RESOURCE_NOT_FOUND);
    world.end().await;
}

#[tokio::test]
async fn a_removed_server_takes_no_searches_of_a_registered_one_with_it() {
    let mut world = World::new("[[servers]]\nid = 'files'\ncommand = 'no-such-program'\n").await;
    let operator = world.operator().await;
    register(&operator, &world.asks("files.x")).await.unwrap();
    drop(operator);
    world.stop().await;
    let open = async || {
        let db = Db::open(world.folder.join("state/state.db")).await.unwrap();
        (History::open(db.clone(), mgp_toolindex::HistoryConfig::new()).await.unwrap(), db)
    };
    let (history, db) = open().await;
    for tool in ["files.read", "files.x.say"] {
        history.record(&Principal::local(), "a word of wisdom", tool);
    }
    history.flush().await.unwrap();
    drop(history);
    db.close().await;

    let mut remove = Command::new(env!("CARGO_BIN_EXE_mgp"));
    remove.arg("--state").arg(world.folder.join("state")).args(["servers", "rm", "files"]);
    remove.arg("--config").arg(world.folder.join("mgp.toml"));
    remove.env("HOME", &world.folder).env_remove("XDG_CONFIG_HOME").stdin(Stdio::null());
    // The command waits until the tasks of the kernel have ended and the state is free, so it must not block this
    // thread, which runs these tasks.
    let removed = tokio::task::spawn_blocking(move || remove.output()).await.unwrap().unwrap();
    assert!(removed.status.success(), "{removed:?}");
    let left = fs::read_to_string(world.folder.join("mgp.toml")).unwrap();
    assert!(!left.contains("'files'"), "{left}");
    let (history, _db) = open().await;
    assert_eq!(history.called_tools("files", |_| false).await.unwrap(), ["files.x.say"]);
}
