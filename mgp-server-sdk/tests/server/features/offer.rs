//! Tests that a server offers exactly the features that its author has added.

use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{Prompt, Resource};
use mgp_types::mcp::{Era, ListChanged, PromptArgument};
use serde_json::{Value, json};

use super::wire::{ERAS, Wire, code};

async fn offered(server: Server, era: Era) -> Value {
    Wire::join(server.without_mgp(), era).await.hello["capabilities"].clone()
}

fn tool() -> Tool {
    Tool::new("t", "A tool", || async { "" })
}

fn prompt() -> Prompt {
    Prompt::new("p", "A prompt", || async { "" })
}

fn resource() -> Resource {
    Resource::text("test://r", "r", "")
}

#[tokio::test]
async fn capabilities_are_those_of_what_is_registered() {
    let new = || Server::new("s", "1");
    let messages = json!({ "listChanged": true });
    let resources = json!({ "subscribe": true, "listChanged": true });
    for era in ERAS {
        assert_eq!(offered(new(), era).await, json!({}));
        assert_eq!(offered(new().tool(tool()), era).await, json!({ "tools": messages }));
        assert_eq!(offered(new().prompt(prompt()), era).await, json!({ "prompts": messages }));
        assert_eq!(
            offered(new().resource(resource()), era).await,
            json!({ "resources": resources })
        );
        let completed =
            prompt().argument(PromptArgument::new("x")).complete("x", || async { ["y"] });
        assert_eq!(
            offered(new().prompt(completed), era).await,
            json!({ "completions": {}, "prompts": messages })
        );
        assert_eq!(offered(new().logging(), era).await, json!({ "logging": {} }));
        // The server does not change a capability that the author has set in the offer.
        let quiet = new().tool(tool()).offer(|offer| {
            offer.capabilities.tools = Some(ListChanged::new());
        });
        assert_eq!(offered(quiet, era).await, json!({ "tools": {} }));
    }
}

#[tokio::test]
async fn what_is_not_registered_is_unknown() {
    for era in ERAS {
        let mut wire = Wire::join(Server::new("bare", "1"), era).await;
        for method in [
            "resources/list",
            "resources/templates/list",
            "resources/read",
            "resources/subscribe",
            "resources/unsubscribe",
            "prompts/list",
            "prompts/get",
            "completion/complete",
            "logging/setLevel",
            "subscriptions/listen",
        ] {
            assert_eq!(code(&wire.ask(method, json!({})).await), -32601, "{method}");
        }
    }
}

#[tokio::test]
async fn what_belongs_to_the_other_era_is_unknown() {
    let server = || Server::new("s", "1").resource(resource()).logging();
    let mut modern = Wire::join(server(), Era::Modern).await;
    for method in ["resources/subscribe", "resources/unsubscribe", "logging/setLevel"] {
        let params = json!({ "uri": "test://r", "level": "info" });
        assert_eq!(code(&modern.ask(method, params).await), -32601, "{method}");
    }
    let mut legacy = Wire::join(server(), Era::Legacy).await;
    assert_eq!(
        code(&legacy.ask("subscriptions/listen", json!({ "notifications": {} })).await),
        -32601
    );
}

#[tokio::test]
async fn a_capability_in_the_offer_is_served_before_there_is_anything() {
    let server = Server::new("later", "1").offer(|offer| {
        offer.capabilities.prompts = Some(ListChanged::new());
    });
    let prompts = server.prompts();
    let mut wire = Wire::join(server, Era::Legacy).await;
    let list = wire.ask("prompts/list", json!({})).await.unwrap();
    assert_eq!(list, json!({ "prompts": [] }));
    prompts.add(prompt());
    let list = wire.ask("prompts/list", json!({})).await.unwrap();
    assert_eq!(list["prompts"][0]["name"], "p");
    assert!(wire.notices().await.is_empty(), "changes of this list were not offered");
}

#[tokio::test]
async fn all_build_errors_are_reported_at_once() {
    let lacking = |State(count): State<u64>| async move { count.to_string() };
    let completing = |State(count): State<u64>| async move { vec![count.to_string()] };
    let server = || {
        Server::new("s", "1")
            .prompt(Prompt::new("p", "A prompt", lacking))
            .resource(Resource::new("test://r", "r", lacking))
            .resource(
                Resource::template("test://{x}/r", "x", || async { "" }).complete("x", completing),
            )
    };
    let wrong = server().prompt(prompt()).resource(resource()).resource(Resource::template(
        "test://{?q}",
        "q",
        || async { "" },
    ));
    let error = wrong.into_stack().unwrap_err();
    for expected in [
        "the prompt `p` takes `State<u64>`",
        "the resource `test://r` takes `State<u64>`",
        "the URI template `test://{x}/r` takes `State<u64>`",
        "the prompt `p` is defined twice",
        "the resource `test://r` is defined twice",
        "the URI template `test://{?q}` has an expression",
    ] {
        assert!(error.message().contains(expected), "{expected}: {error}");
    }
    let mut wire = Wire::join(server().state(7_u64), Era::Legacy).await;
    let prompt = wire.ask("prompts/get", json!({ "name": "p" })).await.unwrap();
    assert_eq!(prompt["messages"][0]["content"]["text"], "7");
    let read = wire.ask("resources/read", json!({ "uri": "test://r" })).await.unwrap();
    assert_eq!(read["contents"][0]["text"], "7");
}
