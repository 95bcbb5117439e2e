//! Tests of the keys that limit how long calls may take.

use mgp_client_sdk::ToolResult as _;

use super::world::World;

/// Returns a configuration with a server that needs six seconds for a call. `entry` has further keys of the server's
/// table, and `env` further environment variables.
fn slow(entry: &str, env: &str) -> String {
    format!(
        "[kernel]\ntimeout = '4s'\nmax_timeout = '30s'\n\
         [[servers]]\nid = 'a'\n{{SERVER}}\n{entry}\n\
         env = {{ STEPS = '1 2 3 4 5 6 7 8 9 10 11 12 13 14 15', {env} }}\n\
         [servers.mgp]\ndefault_policy = 'opt-out'\nrisk = {{ look = 'safe' }}"
    )
}

/// Calls the tool; returns the text of the result or of the error.
async fn call(world: &World) -> String {
    world.knows("a").await;
    match world.agent("ada").await.call("look").await {
        Ok(result) => result.to_text(),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn a_silent_call_ends_at_the_timeout_and_the_error_names_the_key() {
    let world = World::new(&slow("", "")).await;
    let error = call(&world).await;
    assert!(error.starts_with("no answer within 4 s; it may have run"), "{error}");
    assert!(error.contains("raise `timeout` of server `a`"), "{error}");
    world.end().await;
}

#[tokio::test]
async fn progress_extends_a_call_up_to_the_maximum() {
    let world = World::new(&slow("", "PROGRESS = '1'")).await;
    assert_eq!(call(&world).await, "done");
    world.end().await;
    let world = World::new(&slow("max_timeout = '5s'", "PROGRESS = '1'")).await;
    let error = call(&world).await;
    assert!(error.starts_with("not finished within 5 s, although it reported progress"), "{error}");
    assert!(error.contains("raise `max_timeout` of server `a`"), "{error}");
    world.end().await;
}

#[tokio::test]
async fn a_server_and_a_tool_have_their_own_timeout() {
    for entry in ["timeout = '15s'", "tool_timeouts = { look = '20s' }"] {
        let world = World::new(&slow(entry, "")).await;
        assert_eq!(call(&world).await, "done", "{entry}");
        world.end().await;
    }
}

#[tokio::test]
async fn a_reload_changes_the_timeout_of_a_running_server() {
    let world = World::new(&slow("", "")).await;
    assert_ne!(call(&world).await, "done");
    let starts = world.log("a").matches("begins as").count();
    world.write(&slow("timeout = '15s'", ""));
    world.kernel.reload().await.unwrap();
    assert_eq!(call(&world).await, "done");
    assert_eq!(world.log("a").matches("begins as").count(), starts, "the server was restarted");
    world.end().await;
}
