//! Tests of reloading the configuration, and of servers whose tools the kernel knows without starting them.

use mgp_security::AuditQuery;
use mgp_types::method::KernelInfo;
use mgp_types::mgp::{KernelFinding, KernelInfoParams, ServerState};

use super::world::{World, until};
use crate::route::world::{recorded, wait_for_tasks};

const A: &str = "[[servers]]\nid = 'a'\n{SERVER}\n[servers.mgp]\ndefault_policy = 'opt-out'\n\
    risk = { look = 'safe' }\n";
const B: &str = "[[servers]]\nid = 'b'\n{SERVER}\n";

#[tokio::test]
async fn a_change_of_the_file_touches_only_what_changed() {
    let world = World::with_tools(A).await;
    let pid = world.server("a").pid.unwrap();
    let agent = world.agent("ada").await;
    assert!(agent.call("look").await.is_ok());

    // The new file adds a second server. It also changes the rules of the first server, which must keep running.
    world.write(&format!("{}{B}", A.replace("opt-out", "opt-in")));
    until("the new server is there", || world.kernel.servers().len() == 2).await;
    world.knows("b").await;
    assert_eq!(agent.call("a.look").await.unwrap_err().code().0, 1001, "in force at once");
    assert_eq!(world.server("a").pid, Some(pid));

    // An invalid configuration file must not change anything.
    world.write("[[servers\n");
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert_eq!((world.kernel.servers().len(), world.server("a").pid), (2, Some(pid)));

    // The new file changes the command of the first server, and removes the second server.
    world.write(&A.replace("{SERVER}", "command = 'sh'\nargs = ['{DIR}/server.sh', 'second']"));
    until("one server is left", || world.kernel.servers().len() == 1).await;
    until("the new command is used", || {
        let look = world.kernel.index().get("a", "look");
        look.is_some_and(|look| look.description().unwrap().ends_with("second"))
            || !world.kernel.governance().definitions().waiting().unwrap().is_empty()
    })
    .await;
    assert_ne!(world.server("a").pid, Some(pid));
    assert!(world.kernel.index().tools_of("b").is_empty(), "its tools are not found");

    let query = AuditQuery::new().event_type("dev.cloto.policy_changed");
    let events = recorded(&world.kernel, query).await;
    assert!(events.contains(r#""id":"configuration""#), "{events}");
    world.end().await;
}

#[tokio::test]
async fn a_manifest_cannot_replace_the_definitions_of_a_server_that_has_listed_its_tools() {
    let mut world = World::with_tools(A).await;
    let manifest = serde_json::json!({
        "manifest_version": "0.1.0",
        "server": {"name": "a", "version": "1.0.0"},
        "tools": [
            {"name": "look", "description": "Looks around in another way"},
            {"name": "listen", "description": "Listens to the sound"},
        ],
    });
    std::fs::write(world.folder().join("tools.json"), manifest.to_string()).unwrap();
    // Change the entry so that the server cannot start and never lists its tools.
    let changed = "command = '/nowhere/a'\nmanifest = '{DIR}/tools.json'";
    world.write(&A.replace("{SERVER}", changed));
    world.restart().await;
    let tools = world.kernel.index().tools_of("a");
    let descriptions: Vec<_> =
        tools.iter().map(|tool| tool.description().unwrap().to_owned()).collect();
    assert_eq!(tools.len(), 3, "{descriptions:?}");
    assert!(descriptions.iter().all(|text| !text.contains("another way")), "{descriptions:?}");
    world.end().await;
}

#[tokio::test]
async fn a_known_server_is_not_started_before_its_first_call() {
    let mut world = World::with_tools(A).await;
    until("the server is connected", || world.server("a").status == ServerState::Connected).await;
    wait_for_tasks().await;

    world.restart().await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(world.server("a").status, ServerState::Registered, "known, not started");
    assert_eq!(world.server("a").tools, 3);
    let agent = world.agent("ada").await;
    agent.call("look").await.unwrap();
    assert_eq!(world.server("a").status, ServerState::Connected);
    agent.close().await;

    // With the changed entry, the server may have other tools. So the kernel starts the server to read them.
    world.write(&A.replace("{SERVER}", "{SERVER}\nenv = { VALUE = 'new' }"));
    world.restart().await;
    until("it is started to read its tools again", || {
        world.server("a").status == ServerState::Connected
    })
    .await;
    world.end().await;
}

#[tokio::test]
async fn a_known_server_that_an_operator_stops_before_its_first_call_is_listed_as_disconnected() {
    let mut world = World::with_tools(A).await;
    until("the server is connected", || world.server("a").status == ServerState::Connected).await;
    wait_for_tasks().await;
    world.restart().await;
    assert_eq!(world.server("a").status, ServerState::Registered, "known, not started");
    let stopped = world.kernel.stop_server(&"a".into()).await;
    assert_eq!(stopped, Some(ServerState::Disconnected));
    assert_eq!(world.server("a").status, ServerState::Disconnected);
    world.end().await;
}

/// Writes a configuration, and checks that it restarts the server `a`.
async fn restarts_the_server(config: &str) {
    let world = World::with_tools(A).await;
    let agent = world.agent("ada").await;
    let pid = world.server("a").pid.unwrap();
    world.write(config);
    until("the server was replaced", || world.kernel.servers().iter().any(|a| a.pid != Some(pid)))
        .await;
    agent.call("look").await.unwrap();
    assert_ne!(world.server("a").pid.unwrap(), pid);
    world.end().await;
}

#[tokio::test]
async fn a_changed_limit_of_messages_restarts_the_server() {
    restarts_the_server(&format!("{A}[servers.limits]\nmax_message = 65536\n")).await;
}

#[tokio::test]
async fn changed_variables_of_all_programs_restart_them() {
    restarts_the_server(&format!("[kernel]\npass_env = ['NO_SUCH_VARIABLE']\n{A}")).await;
}

#[tokio::test]
async fn a_changed_file_that_could_not_be_applied_is_a_finding() {
    let world = World::with_tools(A).await;
    let operator = world.operator().await;
    // Close the log, so that the kernel cannot record a change of a policy from now on.
    world.kernel.governance().log().unwrap().clone().close().await.unwrap();
    world.write(&A.replace("opt-out", "opt-in"));
    world.kernel.reload().await.unwrap_err();
    let is_reported = |finding: &KernelFinding| finding.message.contains("run `mgp reload`");
    // Wait, because the watcher of the file also tries to apply the change, and may replace the findings meanwhile.
    mgp_testkit::until("it is reported", async || {
        let status = operator.request::<KernelInfo>(&KernelInfoParams::new()).await.unwrap();
        status.findings.iter().any(is_reported)
    })
    .await;
    world.end().await;
}

#[tokio::test]
async fn a_kernel_that_waits_for_its_last_calls_starts_no_server_that_a_file_adds() {
    let world = World::with_tools(A).await;
    world.kernel.ignore_files();
    world.write(&format!("{A}{B}"));
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert_eq!(world.kernel.servers().len(), 1);
    world.kernel.reload().await.unwrap();
    assert_eq!(world.kernel.servers().len(), 2, "an operator can still apply the change");
    world.end().await;
}

/// Returns whether a server is listed and is neither draining nor stopped.
fn is_up(world: &World, id: &str) -> bool {
    use ServerState::{Disconnected, Draining};
    let servers = world.kernel.servers();
    let server = servers.iter().find(|server| server.id == id);
    server.is_some_and(|server| ![Draining, Disconnected].contains(&server.status))
}

#[tokio::test]
async fn a_reload_completes_even_if_the_caller_disconnects() {
    // The script runs for three more seconds after its standard input is closed, so the stop of the server is slow.
    let slow =
        A.replace("{SERVER}", "command = 'sh'\nargs = ['-c', 'sh {DIR}/server.sh; sleep 3']");
    let world = World::with_tools(&slow).await;
    let pid = world.server("a").pid.unwrap();
    world.write(&slow.replace("sleep 3", "sleep 0"));
    {
        let reload = world.kernel.reload();
        tokio::pin!(reload);
        let is_out = until("the server drains", || !is_up(&world, "a"));
        tokio::select! {
            reloaded = &mut reload => panic!("it stops slowly: {reloaded:?}"),
            () = is_out => {}
        }
    }
    until("the server runs again", || {
        world.kernel.servers().iter().any(|a| a.pid.is_some_and(|new| new != pid))
    })
    .await;
    world.end().await;
}

#[tokio::test]
async fn a_new_server_does_not_wait_for_one_that_drains() {
    // The script ignores SIGTERM, so the stop of the server takes five seconds.
    let script = "trap \"\" TERM; sh {DIR}/server.sh; sleep 5";
    let slow = A.replace("{SERVER}", &format!("command = 'sh'\nargs = ['-c', '{script}']"));
    let world = World::with_tools(&slow).await;
    world.write(&format!("{}{B}", slow.replace("sleep 5", "sleep 0")));
    let (reloaded, ()) = tokio::join!(world.kernel.reload(), async {
        world.knows("b").await;
        assert!(!is_up(&world, "a"), "it is still stopping");
    });
    reloaded.unwrap();
    assert!(is_up(&world, "a") && is_up(&world, "b"));
    world.end().await;
}
