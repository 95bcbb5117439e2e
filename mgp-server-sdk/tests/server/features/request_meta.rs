//! Tests of the member `_meta`: handlers read the `_meta` of a request, and authors set the `_meta` of a resource.

use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{Prompt, RequestMeta, Resource};
use mgp_types::mcp::{Meta, PromptArgument};
use mgp_types::service::gate;
use serde_json::{Value, json};

use super::wire::{ERAS, Wire};

const LANGUAGE: &str = "com.example/language";

async fn language(meta: RequestMeta) -> Result<String, RpcError> {
    Ok(meta.decode(LANGUAGE)?.unwrap_or_else(|| "none".to_owned()))
}

/// Returns the language of the caller.
#[tool]
async fn spoken(meta: RequestMeta) -> Result<String, RpcError> {
    language(meta).await
}

fn server() -> Server {
    let propose = |meta: RequestMeta| async move { language(meta).await.map(|one| vec![one]) };
    let prompt = Prompt::new("greet", "Greets", language)
        .argument(PromptArgument::new("to"))
        .complete("to", propose);
    let layered =
        Tool::new("layered", "The same, inside a layer", language).layer(gate(|_| Ok(())));
    Server::new("polyglot", "1")
        .tool(spoken())
        .tool(layered)
        .prompt(prompt)
        .resource(Resource::new("test://language", "language", language))
}

/// Sends a request with the language in `_meta`.
async fn ask(wire: &mut Wire, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({ LANGUAGE: "de" });
    // A modern peer writes `_meta` itself, so pass it these members.
    wire.meta = params["_meta"].clone();
    wire.ask(method, params).await.unwrap()
}

#[tokio::test]
async fn every_handler_reads_the_meta_of_its_request() {
    for era in ERAS {
        let mut wire = Wire::join(server(), era).await;
        let absent = wire.ask("tools/call", json!({ "name": "spoken" })).await.unwrap();
        assert_eq!(absent["content"][0]["text"], "none");
        for tool in ["spoken", "layered"] {
            let result = ask(&mut wire, "tools/call", json!({ "name": tool })).await;
            assert_eq!(result["content"][0]["text"], "de", "{tool}");
        }
        let prompt = ask(&mut wire, "prompts/get", json!({ "name": "greet" })).await;
        assert_eq!(prompt["messages"][0]["content"]["text"], "de");
        let read = ask(&mut wire, "resources/read", json!({ "uri": "test://language" })).await;
        assert_eq!(read["contents"][0]["text"], "de");
        let reference = json!({ "type": "ref/prompt", "name": "greet" });
        let params = json!({ "ref": reference, "argument": { "name": "to", "value": "" } });
        let completed = ask(&mut wire, "completion/complete", params).await;
        assert_eq!(completed["completion"]["values"], json!(["de"]));
    }
}

#[tokio::test]
async fn resources_and_templates_are_listed_with_their_meta() {
    let mut meta = Meta::new();
    meta.encode("com.example/owner", "ann").unwrap();
    let fixed = Resource::text("test://a", "a", "A").meta(meta.clone());
    let family = Resource::template("test://{id}", "one", || async { "B" }).meta(meta);
    let expected = json!({ "com.example/owner": "ann" });
    for era in ERAS {
        let server = Server::new("s", "1").resource(fixed.clone()).resource(family.clone());
        let mut wire = Wire::join(server, era).await;
        let list = wire.ask("resources/list", json!({})).await.unwrap();
        assert_eq!(list["resources"][0]["_meta"], expected);
        let list = wire.ask("resources/templates/list", json!({})).await.unwrap();
        assert_eq!(list["resourceTemplates"][0]["_meta"], expected);
    }
}
