//! Tests of questions to the user and to the model, and of requests for roots, in both eras.

use std::time::Duration;

use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{ContextExt, Elicited, Prompt, Resource, UrlElicited};
use mgp_types::mcp::Era;
use mgp_types::service::{Call, Stack, around};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::wire::{ERAS, Wire, code};

#[derive(Debug, Deserialize, JsonSchema)]
struct Guest {
    /// The name of the guest.
    name: String,
    age: Option<u8>,
}

fn guest(name: &str) -> Tool {
    Tool::new(name, "Asks who comes", |cx: Context| async move {
        Ok::<_, RpcError>(match cx.elicit::<Guest>("Who comes?").await? {
            Elicited::Accepted(guest) => format!("{} {:?}", guest.name, guest.age),
            Elicited::Declined => "declined".to_owned(),
            Elicited::Cancelled => "cancelled".to_owned(),
        })
    })
}

fn server() -> Server {
    let twice = Tool::new(
        "twice",
        "Asks twice in a row, then two things at once",
        |cx: Context| async move {
            let first = cx.elicit::<Guest>("First?").await?.accepted();
            let second = cx.elicit::<Guest>("Second?").await?.accepted();
            let (output, roots) = tokio::join!(
                cx.sample("Capital?").max_tokens(100).system("Be short.").into_future(),
                cx.roots().into_future(),
            );
            let names = [first, second].map(|guest| guest.map(|guest| guest.name));
            Ok::<_, RpcError>(format!("{names:?} {:?} {}", output?.model, roots?[0].uri))
        },
    );
    let keyed = Tool::new("keyed", "Asks under a key of its own", |cx: Context| async move {
        let guest = cx.elicit::<Guest>("Who?").key("user_name").await?;
        Ok::<_, RpcError>(format!("{:?}", guest.accepted().map(|guest| guest.name)))
    });
    let visit = Tool::new("visit", "Sends the person to a page", |cx: Context| async move {
        let visited = cx.elicit_url("Sign in", "https://example.com/in").id("e1").await?;
        Ok::<_, RpcError>(if visited == UrlElicited::Agreed { "agreed" } else { "no" })
    });
    let tools =
        Tool::new("with_tools", "Asks a model that may use tools", |cx: Context| async move {
            let choice = mgp_types::mcp::ToolChoice::new();
            cx.sample("Go").define(|params| params.tool_choice = Some(choice)).await?;
            Ok::<_, RpcError>("done")
        });
    let nested = Tool::new("nested", "Asks with a form that is none", |cx: Context| async move {
        #[derive(Deserialize, JsonSchema)]
        struct Nested {
            inner: Guest,
        }
        let nested = cx.elicit::<Nested>("?").await?.accepted();
        Ok::<_, RpcError>(format!("{:?}", nested.map(|nested| nested.inner)))
    });
    let prompt = Prompt::new("ask", "Asks while it is filled in", |cx: Context| async move {
        let guest = cx.elicit::<Guest>("Who?").await?.accepted();
        Ok::<_, RpcError>(format!("{:?}", guest.map(|guest| guest.name)))
    });
    let resource = Resource::new("test://ask", "ask", |cx: Context| async move {
        let guest = cx.elicit::<Guest>("Who?").await?.accepted();
        Ok::<_, RpcError>(format!("{:?}", guest.map(|guest| guest.name)))
    });
    let server = Server::new("asks", "1").prompt(prompt).resource(resource);
    let guests = [guest("guest"), guest("guest_blocking").on_blocking_pool()];
    let others = [twice, keyed, visit, tools, nested];
    guests.into_iter().chain(others).fold(server, Server::tool)
}

fn everything() -> Value {
    json!({ "elicitation": { "form": {}, "url": {} }, "sampling": { "tools": {} }, "roots": {} })
}

fn accept(name: &str) -> Value {
    json!({ "action": "accept", "content": { "name": name } })
}

async fn call(wire: &mut Wire, tool: &str, answers: &[Value]) -> Result<Value, Value> {
    wire.answers = answers.iter().cloned().collect();
    wire.asked.clear();
    let result = wire.ask("tools/call", json!({ "name": tool, "arguments": {} })).await?;
    assert!(wire.answers.is_empty(), "an answer was not used");
    Ok(result)
}

#[tokio::test]
async fn a_form_is_accepted_declined_or_dismissed() {
    for era in ERAS {
        let mut wire = Wire::offering(server(), era, everything()).await;
        for (answer, text) in [
            (json!({ "action": "accept", "content": { "name": "Ann", "age": 7 } }), "Ann Some(7)"),
            (json!({ "action": "accept", "content": { "name": "Cy", "age": 7.0 } }), "Cy Some(7)"),
            (accept("Bo"), "Bo None"),
            (json!({ "action": "decline" }), "declined"),
            (json!({ "action": "cancel" }), "cancelled"),
        ] {
            for tool in ["guest", "guest_blocking"] {
                let asking = call(&mut wire, tool, std::slice::from_ref(&answer));
                let result = timeout(Duration::from_secs(5), asking).await.unwrap().unwrap();
                assert_eq!(result["content"][0]["text"], text, "{tool}");
            }
        }
        let asked = &wire.asked[0];
        assert_eq!(asked["method"], "elicitation/create");
        assert_eq!(
            asked["params"],
            json!({
                "message": "Who comes?",
                "requestedSchema": {
                    "type": "object",
                    "properties": {
                        "name": { "type": "string", "description": "The name of the guest." },
                        "age": { "type": "integer", "minimum": 0, "maximum": 255 },
                    },
                    "required": ["name"],
                },
            })
        );
        for wrong in [
            json!({ "action": "accept", "content": { "name": 7 } }),
            json!({ "action": "accept" }),
            json!({ "action": "shrug" }),
            json!({ "answer": "yes" }),
            json!("yes"),
        ] {
            let answer = call(&mut wire, "guest", std::slice::from_ref(&wrong)).await;
            assert_eq!(code(&answer), -32602, "{wrong}");
        }
    }
}

#[tokio::test]
async fn questions_have_the_same_key_in_each_round() {
    let answers = [
        accept("Ann"),
        accept("Bo"),
        json!({ "roots": [{ "uri": "file:///home" }] }),
        json!({ "role": "assistant", "content": { "type": "text", "text": "Paris" }, "model": "m" }),
    ];
    for era in ERAS {
        let mut wire = Wire::offering(server(), era, everything()).await;
        let mut answers = answers.clone();
        if era == Era::Legacy {
            answers.swap(2, 3);
        }
        let result = call(&mut wire, "twice", &answers).await.unwrap();
        let expected = "[Some(\"Ann\"), Some(\"Bo\")] \"m\" file:///home";
        assert_eq!(result["content"][0]["text"], expected);
        if era == Era::Modern {
            assert_eq!(wire.rounds, 4, "two in a row, then two at once");
            let keys: Vec<_> =
                wire.asked.iter().map(|asked| asked["key"].as_str().unwrap()).collect();
            assert_eq!(keys, ["elicitation-1", "elicitation-2", "roots-4", "sampling-3"]);
        }
        let sampled = wire.asked.iter().find(|asked| asked["method"] == "sampling/createMessage");
        assert_eq!(
            sampled.unwrap()["params"],
            json!({
                "messages": [{ "role": "user", "content": { "type": "text", "text": "Capital?" } }],
                "systemPrompt": "Be short.",
                "maxTokens": 100,
            })
        );
        call(&mut wire, "keyed", &[accept("Cy")]).await.unwrap();
        if era == Era::Modern {
            assert_eq!(wire.asked[0]["key"], "user_name");
        }
    }
}

#[tokio::test]
async fn prompts_and_resources_may_ask_too() {
    for era in ERAS {
        let mut wire = Wire::offering(server(), era, everything()).await;
        wire.answers = [accept("Ann"), accept("Bo")].into();
        let prompt = wire.ask("prompts/get", json!({ "name": "ask" })).await.unwrap();
        assert_eq!(prompt["messages"][0]["content"]["text"], "Some(\"Ann\")");
        let read = wire.ask("resources/read", json!({ "uri": "test://ask" })).await.unwrap();
        assert_eq!(read["contents"][0]["text"], "Some(\"Bo\")");
    }
}

#[tokio::test]
async fn a_page_to_visit_is_agreed_to() {
    for era in ERAS {
        let mut wire = Wire::offering(server(), era, everything()).await;
        let result = call(&mut wire, "visit", &[json!({ "action": "accept" })]).await.unwrap();
        assert_eq!(result["content"][0]["text"], "agreed");
        let mut params =
            json!({ "mode": "url", "message": "Sign in", "url": "https://example.com/in" });
        if era == Era::Legacy {
            params["elicitationId"] = json!("e1");
        }
        assert_eq!(wire.asked[0]["params"], params);
    }
}

#[tokio::test]
async fn a_client_that_offers_too_little_learns_what_is_missing() {
    for era in ERAS {
        for (offers, tool, needed, name) in [
            (json!({}), "guest", json!({ "elicitation": {} }), "`elicitation`"),
            (json!({}), "twice", json!({ "elicitation": {} }), "`elicitation`"),
            (
                json!({ "elicitation": { "url": {} } }),
                "guest",
                json!({ "elicitation": { "form": {} } }),
                "`elicitation.form`",
            ),
            (
                json!({ "elicitation": {} }),
                "visit",
                json!({ "elicitation": { "url": {} } }),
                "`elicitation.url`",
            ),
            (
                json!({ "sampling": {} }),
                "with_tools",
                json!({ "sampling": { "tools": {} } }),
                "`sampling.tools`",
            ),
        ] {
            let mut wire = Wire::offering(server(), era, offers).await;
            let answer = call(&mut wire, tool, &[]).await;
            if era == Era::Modern {
                assert_eq!(code(&answer), -32021);
                assert_eq!(answer.unwrap_err()["data"], json!({ "requiredCapabilities": needed }));
                continue;
            }
            let refused = answer.unwrap();
            assert_eq!(refused["structuredContent"]["code"], 1000);
            let text = refused["content"][0]["text"].as_str().unwrap();
            assert!(text.contains(name), "{text}");
        }
    }
}

#[tokio::test]
async fn a_form_that_is_not_flat_is_an_error_of_the_server() {
    let mut wire = Wire::offering(server(), Era::Legacy, everything()).await;
    let answer = call(&mut wire, "nested", &[]).await;
    assert_eq!(code(&answer), -32603);
    assert!(answer.unwrap_err()["message"].as_str().unwrap().contains("`inner`"));
}

#[tokio::test]
async fn gates_and_tools_ask_in_one_order() {
    let confirmed = |call: Call, next: Stack| async move {
        if call.tool().is_some() {
            let cx = call.cx().clone();
            if cx.elicit::<Guest>("Really?").await?.accepted().is_none() {
                return Err(RpcError::new(ErrorCode::PERMISSION_DENIED, "not confirmed"));
            }
        }
        next.send(call).await
    };
    for era in ERAS {
        let gated = server().layer(around(confirmed));
        let mut wire = Wire::offering(gated, era, everything()).await;
        let result = call(&mut wire, "guest", &[accept("Gate"), accept("Tool")]).await.unwrap();
        assert_eq!(result["content"][0]["text"], "Tool None");
        let refused = call(&mut wire, "guest", &[json!({ "action": "decline" })]).await.unwrap();
        assert_eq!(refused["structuredContent"]["reason"], "not confirmed");
    }
}
