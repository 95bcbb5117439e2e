//! Tests of the completion of prompt arguments and template variables.

use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{PartialArgument, Prompt, Resource};
use serde_json::{Value, json};

use super::wire::{ERAS, Wire, code};

#[derive(Deserialize, JsonSchema)]
struct Code {
    language: String,
    framework: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Known {
    language: Option<String>,
}

fn server() -> Server {
    let prompt = Prompt::new("code", "Writes code", |Args(code): Args<Code>| async move {
        format!("{} {:?}", code.language, code.framework)
    })
    .complete("language", |typed: PartialArgument| async move {
        typed.matching(["Python", "pascal", "rust"])
    })
    .complete("framework", |Args(known): Args<Known>| async move {
        match known.language.as_deref() {
            Some("rust") => vec!["axum", "tower"],
            _ => vec!["flask"],
        }
    });
    let family = Resource::template("db://{table}/{row}", "row", || async { "" })
        .complete("table", || async { (0..250).map(|n| n.to_string()).collect::<Vec<_>>() });
    Server::new("complete", "1").prompt(prompt).resource(family)
}

fn params(reference: &Value, name: &str, value: &str) -> Value {
    json!({ "ref": reference, "argument": { "name": name, "value": value } })
}

#[tokio::test]
async fn proposals_use_the_typed_text_and_the_known_arguments() {
    let prompt = json!({ "type": "ref/prompt", "name": "code" });
    for era in ERAS {
        let mut wire = Wire::join(server(), era).await;
        let result =
            wire.ask("completion/complete", params(&prompt, "language", "p")).await.unwrap();
        assert_eq!(result["completion"], json!({ "values": ["Python", "pascal"] }));
        let mut with = params(&prompt, "framework", "");
        with["context"] = json!({ "arguments": { "language": "rust" } });
        let result = wire.ask("completion/complete", with).await.unwrap();
        assert_eq!(result["completion"]["values"], json!(["axum", "tower"]));
    }
}

#[tokio::test]
async fn at_most_a_hundred_proposals_are_sent_and_the_others_counted() {
    let template = json!({ "type": "ref/resource", "uri": "db://{table}/{row}" });
    for era in ERAS {
        let mut wire = Wire::join(server(), era).await;
        let result = wire.ask("completion/complete", params(&template, "table", "")).await.unwrap();
        let completion = &result["completion"];
        assert_eq!(completion["values"].as_array().unwrap().len(), 100);
        assert_eq!((&completion["total"], &completion["hasMore"]), (&json!(250), &json!(true)));
        let result = wire.ask("completion/complete", params(&template, "row", "")).await.unwrap();
        assert_eq!(result["completion"], json!({ "values": [] }));
    }
}

#[tokio::test]
async fn an_argument_without_completion_is_refused() {
    for era in ERAS {
        let mut wire = Wire::join(server(), era).await;
        for reference in [
            json!({ "type": "ref/prompt", "name": "cod" }),
            json!({ "type": "ref/resource", "uri": "x://{y}" }),
            json!({ "type": "ref/tool", "name": "code" }),
            json!({ "name": "code" }),
            json!(7),
        ] {
            let answer = wire.ask("completion/complete", params(&reference, "language", "")).await;
            assert_eq!(code(&answer), -32602, "{reference}");
        }
        for (reference, name) in [
            (json!({ "type": "ref/prompt", "name": "code" }), "lang"),
            (json!({ "type": "ref/resource", "uri": "db://{table}/{row}" }), "rows"),
        ] {
            let answer = wire.ask("completion/complete", params(&reference, name, "")).await;
            assert_eq!(code(&answer), -32602, "{name}");
            let message = answer.unwrap_err()["message"].as_str().unwrap().to_owned();
            assert!(message.contains(&format!("no argument `{name}`")), "{message}");
        }
        let bare = json!({ "ref": { "type": "ref/prompt", "name": "code" } });
        assert_eq!(code(&wire.ask("completion/complete", bare).await), -32602);
    }
}

#[tokio::test]
async fn one_function_may_propose_for_all_arguments() {
    let server = Server::new("all", "1")
        .prompt(Prompt::new("p", "A prompt", |Args(_): Args<Code>| async { "" }))
        .complete(|typed: PartialArgument| async move { vec![format!("{}!", typed.argument)] });
    let mut wire = Wire::join(server, ERAS[0]).await;
    let reference = json!({ "type": "ref/prompt", "name": "p" });
    let result =
        wire.ask("completion/complete", params(&reference, "framework", "")).await.unwrap();
    assert_eq!(result["completion"]["values"], json!(["framework!"]));
}

#[tokio::test]
async fn a_completion_of_an_unknown_argument_stops_the_server_from_being_built() {
    let prompt = Prompt::new("p", "A prompt", || async { "" }).complete("x", || async { ["y"] });
    let error = Server::new("s", "1").prompt(prompt).into_stack().unwrap_err();
    assert_eq!(error.message(), "the prompt `p` has no argument `x` to complete");
}
