//! Another configuration while the kernel runs, and servers that are known without being started.

use mgp_security::AuditQuery;
use mgp_types::method::{KernelReload, ToolsSession};
use mgp_types::mgp::{KernelReloadParams, ServerState, SessionParams};

use crate::world::{World, until};

const A: &str = "[[servers]]\nid = 'a'\n{SERVER}\n[servers.mgp]\ndefault_policy = 'opt-out'\n\
    risk = { look = 'safe' }\n";
const B: &str = "[[servers]]\nid = 'b'\n{SERVER}\n";

#[tokio::test]
async fn a_file_that_changes_touches_only_what_changed() {
    let world = World::new(A).await;
    world.knows("a").await;
    let pid = world.server("a").pid.unwrap();
    let agent = world.agent("ada").await;
    assert!(agent.call("look").await.is_ok());

    // A server more, and other rules for the first: it runs on.
    world.write(&format!("{}{B}", A.replace("opt-out", "opt-in")));
    until("the file is read again", || world.kernel.servers().len() == 2).await;
    world.knows("b").await;
    assert_eq!(agent.call("a.look").await.unwrap_err().code().0, 1001, "in force at once");
    assert_eq!(world.server("a").pid, Some(pid));

    // A broken file changes nothing.
    world.write("[[servers\n");
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert_eq!((world.kernel.servers().len(), world.server("a").pid), (2, Some(pid)));

    // Another program takes the place of the first, and the second goes.
    world.write(&A.replace("{SERVER}", "command = 'sh'\nargs = ['{DIR}/server.sh', 'second']"));
    until("one is left", || world.kernel.servers().len() == 1).await;
    until("the other program is known", || {
        let look = world.kernel.index().get("a", "look");
        look.is_some_and(|look| look.description().unwrap().ends_with("second"))
            || !world.kernel.governance().definitions().waiting().unwrap().is_empty()
    })
    .await;
    assert_ne!(world.server("a").pid, Some(pid));
    assert!(world.kernel.index().tools_of("b").is_empty(), "nothing of it is found");

    let log = world.kernel.governance().log().unwrap();
    log.flush().await.unwrap();
    let told = log.query(AuditQuery::new().event_type("dev.cloto.policy_changed")).await.unwrap();
    assert!(told.events.iter().any(|event| event.actor.id == "configuration"));
    world.end().await;
}

#[tokio::test]
async fn an_operator_has_it_read_again_at_once_and_is_told_what_changed() {
    let world = World::new(A).await;
    let operator = world.operator().await;
    world.write(&format!("{A}[agents.ada]\nbudget = 2000\n[[servers]]\nid = 'c'\ncomand = 'x'\n"));
    let told = operator.request::<KernelReload>(&KernelReloadParams::new()).await.unwrap();
    let changed: Vec<_> =
        told.changed.iter().map(|one| (one.kind.as_str(), one.id.as_deref())).collect();
    assert_eq!(changed, [("agent", Some("ada"))], "{told:?}");
    assert!(told.findings.iter().any(|finding| finding.message.contains("did you mean `command`")));
    let agent = world.agent("ada").await;
    let session = agent.request::<ToolsSession>(&SessionParams::new()).await.unwrap();
    assert_eq!(session.max_tokens, Some(2000));

    world.write("[[servers\n");
    let error = operator.request::<KernelReload>(&KernelReloadParams::new()).await.unwrap_err();
    assert!(error.to_string().contains("mgp.toml:1:"), "{error}");
    assert_eq!(world.kernel.servers().len(), 1);
    world.end().await;
}

#[tokio::test]
async fn what_is_known_is_not_started_until_it_is_called() {
    let mut world = World::new(A).await;
    world.knows("a").await;
    until("it is met", || world.server("a").status == ServerState::Connected).await;
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;

    world.again().await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(world.server("a").status, ServerState::Registered, "known, not started");
    assert_eq!(world.server("a").tools, 3);
    let agent = world.agent("ada").await;
    agent.call("look").await.unwrap();
    assert_eq!(world.server("a").status, ServerState::Connected);
    agent.close().await;

    // Another entry may have other tools.
    world.write(&A.replace("{SERVER}", "{SERVER}\nenv = { VALUE = 'new' }"));
    world.again().await;
    until("it is started to learn anew", || world.server("a").status == ServerState::Connected)
        .await;
    world.end().await;
}

#[tokio::test]
async fn a_reload_that_nobody_waits_for_is_seen_through() {
    // It takes its time to leave.
    let slow =
        A.replace("{SERVER}", "command = 'sh'\nargs = ['-c', 'sh {DIR}/server.sh; sleep 1']");
    let world = World::new(&slow).await;
    world.knows("a").await;
    let pid = world.server("a").pid.unwrap();
    world.write(&slow.replace("sleep 1", "sleep 0"));
    {
        let reload = world.kernel.reload();
        tokio::pin!(reload);
        let is_out = async {
            until("it is taken out", || world.kernel.servers().is_empty()).await;
        };
        tokio::select! {
            told = &mut reload => panic!("it leaves slowly: {told:?}"),
            () = is_out => {}
        }
    }
    until("it is back", || {
        world.kernel.servers().iter().any(|a| a.pid.is_some_and(|new| new != pid))
    })
    .await;
    world.end().await;
}

#[tokio::test]
async fn what_is_new_waits_for_nobody_who_leaves() {
    let slow =
        A.replace("{SERVER}", "command = 'sh'\nargs = ['-c', 'sh {DIR}/server.sh; sleep 2']");
    let world = World::new(&slow).await;
    world.knows("a").await;
    world.write(&format!("{}{B}", slow.replace("sleep 2", "sleep 0")));
    let is_there = |id: &str| world.kernel.servers().iter().any(|server| server.id == id);
    let (reloaded, ()) = tokio::join!(world.kernel.reload(), async {
        world.knows("b").await;
        assert!(!is_there("a"), "it leaves still");
    });
    reloaded.unwrap();
    assert!(is_there("a") && is_there("b"));
    world.end().await;
}
