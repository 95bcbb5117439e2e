//! Tests of the registry.

use std::sync::Arc;

use mgp_types::method::{DiscoveryList, Request as _};
use mgp_types::mgp::{DiscoveryListResult, Permission, ServerState, ServerSummary};
use mgp_types::service::{
    Authority, Context, Hidden, Principal, ServerId, Stack, mock, visibility,
};

use super::*;

struct Three;

impl ServerCatalog for Three {
    fn known(&self) -> Vec<KnownServer> {
        let server = |id: &str, state, tools: &[&str], extensions: &[&str]| {
            let mut summary = ServerSummary::new(id, state);
            summary.tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
            summary.extensions = extensions.iter().map(|name| (*name).to_owned()).collect();
            summary
        };
        let files =
            server("files", ServerState::Connected, &["read", "write"], &["streaming", "audit"]);
        let web = server("web", ServerState::Registered, &["fetch"], &["audit"]);
        let secret = server("secret", ServerState::Connected, &["open"], &[]);
        vec![
            KnownServer::new(files, [Permission::FilesystemRead]),
            KnownServer::new(web, [Permission::NetworkOutbound]),
            KnownServer::new(secret, []),
        ]
    }
}

async fn listed(authority: Authority, params: &str) -> Vec<String> {
    let some = visibility(|_: &Context, server: Option<&ServerId>, tool: &str| {
        match (server.map(ServerId::as_str), tool) {
            (Some("files"), "read") | (Some("web"), _) => Ok(()),
            _ => Err(Hidden::new("not granted")),
        }
    });
    let mut client = mock::client(Stack::new(list_router(Arc::new(Three), Arc::new(some))));
    if authority == Authority::Operator {
        client.cx.principal = Principal::local().operator();
    }
    let answer = client.request(DiscoveryList::METHOD, params).await.unwrap();
    let result: DiscoveryListResult = serde_json::from_str(answer.as_str()).unwrap();
    let one = |server: &ServerSummary| format!("{}: {}", server.id, server.tools.join(" "));
    result.servers.iter().map(one).collect()
}

#[tokio::test]
async fn a_caller_sees_what_it_may_use_and_an_operator_all() {
    assert_eq!(listed(Authority::User, "{}").await, ["files: read", "web: fetch"]);
    let all = listed(Authority::Operator, "{}").await;
    assert_eq!(all, ["files: read write", "web: fetch", "secret: open"]);
}

#[tokio::test]
async fn a_server_must_match_all_words_of_a_filter() {
    for (filter, expected) in [
        (r#"{"status":"connected"}"#, &["files: read"][..]),
        (r#"{"status":"Connected"}"#, &["files: read"]),
        (r#"{"status":"registered"}"#, &["web: fetch"]),
        (r#"{"status":"all"}"#, &["files: read", "web: fetch"]),
        (r#"{"status":"unknown"}"#, &[]),
        (r#"{"extensions":["audit"]}"#, &["files: read", "web: fetch"]),
        (r#"{"extensions":["audit","streaming"]}"#, &["files: read"]),
        (r#"{"permissions":["network.outbound"]}"#, &["web: fetch"]),
        (r#"{"permissions":["network.outbound"],"status":"connected"}"#, &[]),
    ] {
        let params = format!(r#"{{"filter":{filter}}}"#);
        assert_eq!(listed(Authority::User, &params).await, expected, "{filter}");
    }
}

#[tokio::test]
async fn a_filter_matches_by_meaning_and_not_by_spelling() {
    struct Halves;
    impl ServerCatalog for Halves {
        fn known(&self) -> Vec<KnownServer> {
            let mut web = ServerSummary::new("web", ServerState::Connected);
            web.extensions = vec!["security".to_owned(), "events".to_owned()].into();
            vec![KnownServer::new(web, [Permission::NetworkOutbound, Permission::FilesystemRead])]
        }
    }
    let mut client = mock::client(Stack::new(list_router(
        Arc::new(Halves),
        Arc::new(mgp_types::service::AllVisible),
    )));
    client.cx.principal = Principal::local().operator();
    for (filter, found) in [
        (r#"{"extensions":["permissions"]}"#, true),
        (r#"{"extensions":["tool_security","bidirectional"]}"#, true),
        (r#"{"extensions":["callbacks"]}"#, false),
        (r#"{"permissions":["network"]}"#, true),
        (r#"{"permissions":["network","filesystem.read"]}"#, true),
        // `filesystem` means both reading and writing.
        (r#"{"permissions":["filesystem"]}"#, false),
    ] {
        let params = format!(r#"{{"filter":{filter}}}"#);
        let answer = client.request(DiscoveryList::METHOD, &params).await.unwrap();
        assert_eq!(answer.as_str().contains("web"), found, "{filter}: {answer:?}");
    }
}
