//! Tests that the era of a server at a URL is probed only once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use mgp_client_sdk::EraCache;
use mgp_types::mcp::Era;

use crate::script::{Received, Response, Server, Step, client, refused, status};

#[tokio::test]
async fn a_known_server_is_not_probed() {
    let server = Server::legacy(|_| None).await;
    let eras = EraCache::new();
    for connections in 1..=3 {
        let own = eras.clone();
        let client = client().http(|http| http.eras = own).connect_url(&server.url).await.unwrap();
        assert_eq!(client.server().era, Era::Legacy);
        client.close().await;
        assert_eq!((server.count("server/discover"), server.count("initialize")), (1, connections));
    }
}

#[tokio::test]
async fn a_server_that_became_modern_is_recognised() {
    let is_modern = Arc::new(AtomicBool::new(false));
    let own = Arc::clone(&is_modern);
    let modern = Server::modern(move |seen| match seen.method() {
        _ if seen.verb != "POST" => Some(status(405)),
        "initialize" if own.load(Ordering::SeqCst) => Some(refused(404, seen, -32601)),
        "initialize" => Some(crate::script::initialized(seen, "s-1")),
        "server/discover" if !own.load(Ordering::SeqCst) => Some(status(400)),
        "notifications/initialized" => Some(status(202)),
        _ => None,
    })
    .await;
    let eras = EraCache::new();
    for (now, era) in [(false, Era::Legacy), (true, Era::Modern), (true, Era::Modern)] {
        is_modern.store(now, Ordering::SeqCst);
        let own = eras.clone();
        let client = client().http(|http| http.eras = own).connect_url(&modern.url).await.unwrap();
        assert_eq!(client.server().era, era);
    }
    assert_eq!(modern.count("initialize"), 2);
}

#[tokio::test]
async fn a_failed_probe_does_not_mark_a_server_as_legacy() {
    // Starts a server of both eras that answers the first probe with `failure`.
    let server = |failure: fn(&Received) -> Response| async move {
        let probes = AtomicUsize::new(0);
        Server::modern(move |seen| match seen.method() {
            "server/discover" if probes.fetch_add(1, Ordering::SeqCst) == 0 => Some(failure(seen)),
            "initialize" => Some(crate::script::initialized(seen, "s-1")),
            "notifications/initialized" => Some(status(202)),
            _ if seen.verb != "POST" => Some(status(405)),
            _ => None,
        })
        .await
    };
    for busy in [
        (|_| status(503)) as fn(&Received) -> Response,
        |_| status(429),
        |_| status(408),
        |seen| refused(503, seen, -32000),
    ] {
        let server = server(busy).await;
        let eras = EraCache::new();
        let connect = || {
            let own = eras.clone();
            client().http(|http| http.eras = own).connect_url(&server.url)
        };
        connect().await.unwrap_err();
        assert_eq!(connect().await.unwrap().server().era, Era::Modern);
        assert_eq!(server.count("initialize"), 0);
    }
    for broken in [
        (|_| status(500)) as fn(&Received) -> Response,
        |_| status(502),
        |_| crate::script::events([Step::Break]),
        |_| crate::script::events([Step::Hold]),
    ] {
        let server = server(broken).await;
        let eras = EraCache::new();
        let connect = || {
            let own = eras.clone();
            client()
                .http(|http| http.eras = own)
                .timeout(Duration::from_secs(2))
                .connect_url(&server.url)
        };
        assert_eq!(connect().await.unwrap().server().era, Era::Legacy);
        assert_eq!(connect().await.unwrap().server().era, Era::Modern);
    }
}

#[tokio::test]
async fn a_refusal_only_a_modern_server_gives_keeps_the_client_modern() {
    let server = Server::modern(|seen| {
        let is_unknown = matches!(seen.method(), "server/discover" | "initialize");
        is_unknown.then(|| refused(404, seen, -32601))
    })
    .await;
    let client = client().connect_url(&server.url).await.unwrap();
    assert_eq!(client.server().era, Era::Modern);
    client.call("t").await.unwrap();
    assert_eq!(server.count("initialize"), 1, "a legacy server could refuse the probe like this");
}

#[tokio::test]
async fn other_refusals_of_the_probe_lead_to_initialize() {
    for code in [400, 404, 405, 406, 500] {
        let server =
            Server::legacy(move |seen| (seen.method() == "server/discover").then(|| status(code)))
                .await;
        let client = client().connect_url(&server.url).await.unwrap();
        assert_eq!(client.server().era, Era::Legacy, "{code}");
    }
    // A legacy server without sessions answers an unknown method with status 200; others use the status of an error.
    for code in [200, 400, 404] {
        let server = Server::legacy(move |seen| {
            (seen.method() == "server/discover").then(|| refused(code, seen, -32601))
        })
        .await;
        let client = client().connect_url(&server.url).await.unwrap();
        assert_eq!(client.server().era, Era::Legacy, "{code}");
    }
}
