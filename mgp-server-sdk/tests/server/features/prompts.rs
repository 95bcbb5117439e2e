//! Tests of the lists and results of prompts.

use mgp_server_sdk::Prompt;
use mgp_server_sdk::prelude::*;
use mgp_types::mcp::{ContentBlock, Era, PromptArgument, PromptMessage, Role};
use serde_json::json;

use super::wire::{ERAS, Wire, code};

#[derive(Deserialize, JsonSchema)]
struct Greet {
    /// The person to greet.
    name: String,
    /// The number of greetings.
    times: Option<u8>,
    #[serde(default)]
    loud: bool,
}

fn server() -> Server {
    let free = Prompt::new("free", "Takes what it is given", |cx: Context| async move {
        drop(cx);
        vec![
            PromptMessage::new(Role::User, ContentBlock::text("a")),
            PromptMessage::new(Role::Assistant, ContentBlock::text("b")),
        ]
    })
    .argument({
        let mut argument = PromptArgument::new("topic");
        argument.required = Some(true);
        argument
    });
    Server::new("prompts", "1")
        .prompt(Prompt::new("simple", "Is simple", || async { "Simple." }).title("Simple one"))
        .prompt(Prompt::new("greet", "Greets", |Args(greet): Args<Greet>| async move {
            let text = format!("Hello, {}", greet.name).repeat(greet.times.unwrap_or(1).into());
            if greet.loud { text.to_uppercase() } else { text }
        }))
        .prompt(free)
        .prompt(Prompt::new("fail", "Fails", || async {
            Err::<String, _>(RpcError::internal("no such luck"))
        }))
        .prompt(Prompt::new("boom", "Panics", || async { panic!("inside") as String }))
}

#[tokio::test]
async fn a_list_names_the_arguments_in_the_order_of_the_type() {
    for era in ERAS {
        let mut wire = Wire::join(server(), era).await;
        let list = wire.ask("prompts/list", json!({})).await.unwrap();
        assert_eq!(
            list["prompts"][0],
            json!({ "name": "simple", "title": "Simple one", "description": "Is simple" })
        );
        assert_eq!(
            list["prompts"][1]["arguments"],
            json!([
                { "name": "name", "description": "The person to greet.", "required": true },
                { "name": "times", "description": "The number of greetings.", "required": false },
                { "name": "loud", "required": false },
            ])
        );
        assert_eq!(list["prompts"][2]["arguments"], json!([{ "name": "topic", "required": true }]));
        assert_eq!(list.get("ttlMs").is_some(), era == Era::Modern);
        assert_eq!(list.get("resultType").is_some(), era == Era::Modern);
    }
}

#[tokio::test]
async fn arguments_are_texts_read_as_their_types() {
    for era in ERAS {
        let mut wire = Wire::join(server(), era).await;
        let simple = wire.ask("prompts/get", json!({ "name": "simple" })).await.unwrap();
        assert_eq!(simple["description"], "Is simple");
        assert_eq!(
            simple["messages"],
            json!([{ "role": "user", "content": { "type": "text", "text": "Simple." } }])
        );
        assert_eq!(simple.get("resultType").is_some(), era == Era::Modern);
        let params = json!({ "name": "greet", "arguments": { "name": "Bo", "times": "2", "loud": "true", "x": "y" } });
        let greet = wire.ask("prompts/get", params).await.unwrap();
        assert_eq!(greet["messages"][0]["content"]["text"], "HELLO, BOHELLO, BO");
        let params = json!({ "name": "free", "arguments": { "topic": "t" } });
        let free = wire.ask("prompts/get", params).await.unwrap();
        assert_eq!(free["messages"][1]["role"], "assistant");
    }
}

#[tokio::test]
async fn wrong_arguments_are_refused_by_name() {
    for era in ERAS {
        let mut wire = Wire::join(server(), era).await;
        for (params, word) in [
            (json!({ "name": "gret" }), "`gret`"),
            (json!({}), "`name`"),
            (json!({ "name": 1 }), "`name`"),
            (json!({ "name": "greet" }), "`name` is required"),
            (json!({ "name": "free", "arguments": {} }), "`topic` is required"),
            (json!({ "name": "greet", "arguments": { "name": 1 } }), "`name` must be a string"),
            (json!({ "name": "greet", "arguments": [7] }), "expected an object"),
            (
                json!({ "name": "greet", "arguments": { "name": "x", "times": "many" } }),
                "`times`: `many` is not an integer from 0 to 255",
            ),
        ] {
            let answer = wire.ask("prompts/get", params.clone()).await;
            assert_eq!(code(&answer), -32602, "{params}");
            let message = answer.unwrap_err()["message"].as_str().unwrap().to_owned();
            assert!(message.contains(word), "{message}");
        }
        for name in ["fail", "boom"] {
            assert_eq!(code(&wire.ask("prompts/get", json!({ "name": name })).await), -32603);
        }
        let bad = wire.ask("prompts/list", json!({ "cursor": "p1.0" })).await;
        assert_eq!(code(&bad), -32602);
    }
}

#[tokio::test]
async fn long_lists_have_pages() {
    let prompt = |number: usize| Prompt::new(format!("p{number}"), "One of many", || async { "" });
    let server = (0..5).fold(Server::new("many", "1").page_size(2), |server, number| {
        server.prompt(prompt(number))
    });
    let prompts = server.prompts();
    let mut wire = Wire::join(server, Era::Modern).await;
    let first = wire.ask("prompts/list", json!({})).await.unwrap();
    assert_eq!(first["prompts"].as_array().unwrap().len(), 2);
    let params = json!({ "cursor": first["nextCursor"] });
    let second = wire.ask("prompts/list", params.clone()).await.unwrap();
    assert_eq!(second["prompts"][0]["name"], "p2");
    let last = wire.ask("prompts/list", json!({ "cursor": second["nextCursor"] })).await.unwrap();
    assert_eq!(last["prompts"].as_array().unwrap().len(), 1);
    assert!(last.get("nextCursor").is_none());
    assert!(prompts.remove("p4") && !prompts.remove("p4"));
    assert_eq!(code(&wire.ask("prompts/list", params).await), -32602);
}
