//! Tests of `[[servers]]`, and of the keys in `[servers.mgp]` that apply to starts, offered capabilities and restarts.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mgp_types::method::{HealthPing, HealthStatusGet};
use mgp_types::mgp::{
    DiscoveryFilter, DiscoveryListParams, PingParams, ServerState, ServerSummary, StatusParams,
    TrustLevel,
};
use mgp_types::service::ServerId;
use tokio::time::Instant;

use super::world::{World, until};

/// Starts a kernel with a server. Also returns the text in which the server describes how it was started.
async fn start(config: &str) -> (World, String) {
    let world = World::with_tools(config).await;
    let look = world.kernel.index().get("a", "look").unwrap();
    let text = look.description().unwrap().to_owned();
    (world, text)
}

#[tokio::test]
async fn a_program_is_started_as_configured() {
    // By default, servers start in the user's home folder, because the folder of the kernel depends on the host that
    // started it.
    let home = std::env::home_dir().unwrap();
    for (keys, expected) in [
        ("{SERVER}", format!("{}  ", home.display())),
        (
            "command = 'sh'\nargs = ['{DIR}/server.sh', 'first']",
            format!("{}  first", home.display()),
        ),
        ("{SERVER}\ncwd = 'below'", "below  ".to_owned()),
        ("{SERVER}\nenv = { VALUE = '${MGP_NO_SUCH_VARIABLE:-filled}' }", " filled ".to_owned()),
    ] {
        let (world, text) = start(&format!("[[servers]]\nid = 'a'\n{keys}")).await;
        assert!(text.ends_with(&expected), "{keys}: {text}");
        world.end().await;
    }
}

#[tokio::test]
async fn a_server_is_offered_what_is_configured() {
    for (keys, has, lacks) in [
        ("", "\"security\"", "\"no such\""),
        ("mgp = false", "\"initialize\"", "dev.cloto"),
        // The kernel must offer only capabilities that it handles.
        ("", "\"tool_security\"", "\"discovery\""),
        ("", "\"lifecycle\"", "\"code_safety\""),
        ("[servers.mgp]\nextensions = ['streaming']", "\"streaming\"", "\"security\""),
    ] {
        let (world, _) = start(&format!("[[servers]]\nid = 'a'\n{{SERVER}}\n{keys}")).await;
        let log = world.log("a");
        assert!(log.contains(has) && !log.contains(lacks), "{keys}: {log}");
        world.end().await;
    }
}

#[tokio::test]
async fn the_configured_era_is_used() {
    let entry = |era: &str| format!("[[servers]]\nid = 'a'\n{{SERVER}}\n{era}");
    for (era, probed) in [("", true), ("era = 'auto'", true), ("era = 'legacy'", false)] {
        let (world, _) = start(&entry(era)).await;
        assert_eq!(world.log("a").contains("server/discover"), probed, "{era}");
        world.end().await;
    }
    // The server supports only the legacy era, so a connection in the modern era fails.
    let world = World::new(&entry("era = 'modern'\n[servers.mgp]\nrestart_policy = 'never'")).await;
    until("the reason is shown", || world.server("a").error.is_some()).await;
    let error = world.server("a").error.unwrap();
    assert!(error.contains("does not speak revision `2026-07-28`"), "{error}");
    assert!(error.contains("the era `auto`"), "{error}");
    world.end().await;
}

/// Regression test: if a server exited because its handshake failed, the kernel started it again until no restarts were
/// left.
#[tokio::test]
async fn a_server_without_a_common_revision_is_not_started_again() {
    let world = World::new("[[servers]]\nid = 'a'\n{SERVER}\nera = 'modern'").await;
    until("the reason is shown", || world.server("a").error.is_some()).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let server = world.server("a");
    assert_eq!((server.restarts, server.status), (0, ServerState::Error), "{:?}", server.error);
    assert!(server.error.unwrap().contains("does not speak revision"));
    world.end().await;
}

#[tokio::test]
async fn a_url_is_reached_with_its_headers() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&seen);
    let app = axum::Router::new().fallback(move |headers: axum::http::HeaderMap| {
        let word = headers.get("x-word").map(|word| word.to_str().unwrap().to_owned());
        noted.lock().unwrap().extend(word);
        async { axum::http::StatusCode::NOT_FOUND }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    let world = World::new(&format!(
        "[[servers]]\nid = 'a'\ntransport = 'http'\nurl = 'http://{address}/mcp?key=secret'\n\
         headers = {{ x-word = 'hello' }}\n[servers.mgp]\nrestart_policy = 'never'"
    ))
    .await;
    until("the URL is requested", || !seen.lock().unwrap().is_empty()).await;
    assert_eq!(seen.lock().unwrap()[0], "hello");
    assert_eq!(world.server("a").reach, format!("http://{address}/mcp"), "no secret is shown");
    until("the reason is shown", || world.server("a").error.is_some()).await;
    world.end().await;
}

#[tokio::test]
async fn a_server_is_restarted_as_the_five_keys_configure() {
    let ends = "[[servers]]\nid = 'a'\ncommand = 'sh'\nargs = ['-c', 'exit 3']\n[servers.mgp]\n";
    for (keys, restarts) in [
        ("restart_policy = 'never'", 0),
        ("max_restarts = 0", 0),
        ("max_restarts = 2\nbackoff_base_ms = 1\nbackoff_max_ms = 2", 2),
        (
            "restart_policy = 'always'\nmax_restarts = 3\nbackoff_base_ms = 1\nrestart_window_secs = 60",
            3,
        ),
    ] {
        let world = World::new(&format!("{ends}{keys}")).await;
        let is_down = || {
            let server = world.server("a");
            server.restarts >= restarts && server.status == ServerState::Error
        };
        until("it is not restarted any more", is_down).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let server = world.server("a");
        assert_eq!((server.restarts, server.status), (restarts, ServerState::Error), "{keys}");
        assert!(server.error.unwrap().contains("code 3"), "{keys}");
        world.end().await;
    }
}

#[tokio::test]
async fn the_source_trust_and_tags_of_a_server_are_listed() {
    let (world, _) = start(
        "[[servers]]\nid = 'a'\n{SERVER}\n[servers.mgp]\ntrust_level = 'sandboxed'\n\
         tags = ['garden']\npermissions_required = ['camera']",
    )
    .await;
    let server = world.server("a");
    assert_eq!(server.trust_level, TrustLevel::Sandboxed);
    assert!(server.source.ends_with("mgp.toml"), "{}", server.source);
    assert!(server.reach.starts_with("sh /") && server.reach.ends_with("server.sh"));
    assert_eq!((server.tools, server.era.as_deref()), (3, Some("legacy")));
    assert_eq!(server.protocol_version.as_deref(), Some("2025-06-18"));
    assert!(server.pid.is_some() && server.since.is_some() && server.tokens > 0);
    let tool = world.kernel.index().get("a", "look").unwrap();
    assert!(tool.categories().any(|category| category == "garden"));

    assert_eq!(count_with_permission(&world, "camera").await, 1);
    world.end().await;
}

/// Returns the number of servers that need a permission.
async fn count_with_permission(world: &World, permission: &str) -> usize {
    let operator = world.operator().await;
    let mut params = DiscoveryListParams::new();
    let mut filter = DiscoveryFilter::new();
    filter.permissions = vec![permission.into()].into();
    params.filter = Some(filter);
    let listed = operator.mgp().discovery_list(&params).await.unwrap();
    operator.close().await;
    listed.servers.len()
}

#[tokio::test]
async fn no_more_than_eight_start_at_once() {
    let servers = (0..12).fold(String::new(), |servers, number| {
        servers + &format!("[[servers]]\nid = 's{number}'\ncommand = 'sleep'\nargs = ['30']\n")
    });
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let expected = (2 * processors).clamp(4, 8);
    let world = World::new(&servers).await;
    let starting = || {
        let all = world.kernel.servers();
        all.iter().filter(|server| server.status == ServerState::Connecting).count()
    };
    until("some are starting", || starting() == expected).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(starting(), expected, "the others wait");
    world.end().await;
}

/// Returns the entry of a server that requires a permission, announces its own MGP version, and answers with an
/// extension that the kernel did not offer.
fn needing_camera(keys: &str) -> String {
    let mgp = r#"{"version":"0.6.1","extensions":["permissions","lifecycle","audit"],"permissions_required":["camera"]}"#;
    format!(
        "[[servers]]\nid = 'a'\n{{SERVER}}\nera = 'legacy'\nenv = {{ CAPABILITY = ',\"mgp\":{mgp}' }}\n\
         [servers.mgp]\nrestart_policy = 'never'\n{keys}"
    )
}

async fn summary(world: &World) -> ServerSummary {
    let operator = world.operator().await;
    let list = operator.mgp().discovery_list(&DiscoveryListParams::default()).await.unwrap();
    operator.close().await;
    list.servers.into_iter().next().unwrap()
}

#[tokio::test]
async fn the_version_of_a_server_is_the_one_it_sent_also_while_it_rests() {
    let (world, _) = start(&needing_camera("")).await;
    for _ in 0..2 {
        let known = summary(&world).await;
        assert_eq!(known.mgp_version.unwrap().as_str(), "0.6.1");
        assert_eq!(known.extensions.join(" "), "lifecycle permissions");
        world.kernel.stop_server(&"a".into()).await.unwrap();
    }
    world.end().await;
    // A server without MGP has no MGP version.
    let (world, _) = start("[[servers]]\nid = 'a'\n{SERVER}").await;
    assert!(summary(&world).await.mgp_version.is_none());
    world.end().await;
}

#[tokio::test]
async fn a_server_is_found_by_the_permissions_in_its_handshake_also_while_it_rests() {
    let (world, _) = start(&needing_camera("")).await;
    for _ in 0..2 {
        assert_eq!(count_with_permission(&world, "camera").await, 1);
        assert_eq!(count_with_permission(&world, "network.listen").await, 0);
        world.kernel.stop_server(&"a".into()).await.unwrap();
    }
    world.end().await;
}

#[tokio::test]
async fn the_health_of_a_server_that_is_being_stopped_is_not_an_error() {
    // The program outlives its input, so it still runs for a while after its connection was closed.
    let program = "command = 'sh'\nargs = ['-c', 'sh {DIR}/server.sh; sleep 60']";
    let (world, _) = start(&format!("[[servers]]\nid = 'a'\n{program}")).await;
    let operator = world.operator().await;
    let (mut ping, mut status) = (PingParams::new(), StatusParams::new());
    ping.server_id = Some("a".to_owned());
    status.server_id.clone_from(&ping.server_id);
    let ask_until_stopped = async {
        loop {
            operator.request::<HealthPing>(&ping).await.unwrap();
            let answer = operator.request::<HealthStatusGet>(&status).await.unwrap();
            if answer.state == Some(ServerState::Disconnected) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let asked = tokio::time::timeout(Duration::from_mins(1), ask_until_stopped);
    let id = ServerId::from("a");
    let (stopped, asked) = tokio::join!(world.kernel.stop_server(&id), asked);
    stopped.unwrap();
    asked.unwrap();
    operator.close().await;
    world.end().await;
}

#[tokio::test]
async fn a_server_without_its_permissions_is_closed_if_the_file_says_so() {
    let deny = "permission_policy = 'deny_all'\n";
    for (keys, is_closed) in [
        (deny.to_owned(), false),
        (format!("{deny}on_ungranted = 'proceed'"), false),
        (format!("{deny}on_ungranted = 'close'"), true),
        // The request for the permission times out immediately, because its time limit is zero.
        ("permission_timeout_ms = 0\non_ungranted = 'close'".to_owned(), true),
        ("permissions = ['camera']\non_ungranted = 'close'".to_owned(), false),
    ] {
        let world = World::new(&needing_camera(&keys)).await;
        if is_closed {
            until("it is closed", || world.server("a").status == ServerState::Error).await;
            let error = world.server("a").error.unwrap();
            assert!(error.contains("camera"), "{keys}: {error}");
        } else {
            world.knows("a").await;
            assert_eq!(world.server("a").status, ServerState::Connected, "{keys}");
        }
        world.end().await;
    }
}

#[tokio::test]
async fn a_decision_about_permissions_may_take_longer_than_a_start() {
    let keys = "permission_policy = 'interactive'\npermission_timeout_ms = 7000";
    let entry = needing_camera(keys);
    let begun = Instant::now();
    let world = World::new(&entry.replace("era =", "start_timeout = '5s'\nera =")).await;
    until("it is connected", || world.server("a").status == ServerState::Connected).await;
    assert!(begun.elapsed() >= Duration::from_secs(7), "{:?}", begun.elapsed());
    assert_eq!(world.server("a").restarts, 0);
    world.end().await;
}

#[tokio::test]
async fn a_server_that_never_answers_fails_at_the_limit_of_its_start() {
    let world = World::new(
        "[[servers]]\nid = 'a'\ncommand = 'sleep'\nargs = ['600']\nstart_timeout = '1s'\n\
         [servers.mgp]\nrestart_policy = 'never'\npermission_timeout_ms = 3600000",
    )
    .await;
    until("it has failed", || world.server("a").status == ServerState::Error).await;
    world.end().await;
}
