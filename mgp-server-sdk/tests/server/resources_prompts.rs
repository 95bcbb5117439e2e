//! Tests of the example `resources_prompts`, as its callers see it.

#[path = "../../examples/resources_prompts.rs"]
#[expect(dead_code, reason = "only its server is looked at")]
mod example;

use mgp_types::mcp::Era;
use serde_json::{Value, json};

use super::features::wire::{ERAS, Wire, code};

async fn write(wire: &mut Wire, text: &str) -> Value {
    let arguments = json!({ "name": "groceries", "text": text });
    let params = json!({ "name": "write", "arguments": arguments });
    wire.ask("tools/call", params).await.unwrap()["content"][0]["text"].clone()
}

#[tokio::test]
async fn notes_are_written_subscribed_read_and_summed_up() {
    for era in ERAS {
        let offers = json!({ "elicitation": {} });
        let mut wire = Wire::offering(example::server(), era, offers).await;
        wire.meta = json!({ "io.modelcontextprotocol/logLevel": "info" });
        let note = json!({ "uri": "note://groceries" });
        if era == Era::Legacy {
            wire.ask("resources/subscribe", note.clone()).await.unwrap();
        }
        wire.answers.push_back(json!({ "action": "decline" }));
        assert_eq!(write(&mut wire, "Tea.").await, "kept the old text");
        wire.answers.push_back(json!({ "action": "accept", "content": { "sure": true } }));
        assert_eq!(write(&mut wire, "Tea.").await, "written");
        let messages = wire.notices().await;
        assert_eq!(messages[0]["params"]["data"], "`groceries` was written");
        assert_eq!(messages.len(), if era == Era::Legacy { 2 } else { 1 });

        let read = wire.ask("resources/read", note.clone()).await.unwrap();
        let expected =
            json!([{ "uri": "note://groceries", "mimeType": "text/plain", "text": "Tea." }]);
        assert_eq!(read["contents"], expected);
        let unknown = wire.ask("resources/read", json!({ "uri": "note://none" })).await;
        assert!([-32002, -32602].contains(&code(&unknown)));
        let params = json!({ "name": "summarize", "arguments": { "name": "groceries" } });
        let prompt = wire.ask("prompts/get", params).await.unwrap();
        assert_eq!(prompt["messages"][0]["content"]["text"], "Sum up in a word: Tea.");
        for reference in [
            json!({ "type": "ref/prompt", "name": "summarize" }),
            json!({ "type": "ref/resource", "uri": "note://{name}" }),
        ] {
            let argument = json!({ "name": "name", "value": "gro" });
            let params = json!({ "ref": reference, "argument": argument });
            let result = wire.ask("completion/complete", params).await.unwrap();
            assert_eq!(result["completion"]["values"], json!(["groceries"]));
        }
    }
}
