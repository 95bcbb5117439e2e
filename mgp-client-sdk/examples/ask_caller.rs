//! A tool that asks its caller a question, in either era, with `RoundsLayer` on a server (MCP elicitation).
//!
//! `cargo run -q -p mgp-client-sdk --example ask_caller`

#![expect(clippy::print_stdout, reason = "it is a program for a terminal")]

use mgp_client_sdk::prelude::*;
use mgp_lifecycle::{HandshakeLayer, RoundsLayer, ServerOffer};
use mgp_transport::{Connection, duplex};
use mgp_types::mcp::{ElicitResult, Implementation};
use mgp_types::method::{ElicitationCreate, Request as _};
use mgp_types::service::{Call, CallerRequest, Reply, Stack};
use mgp_types::{Payload, Sealer};
use serde_json::json;
use tower_layer::Layer;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The tool itself does not depend on the era: `RoundsLayer` sends its question in the form that the era of the
    // caller requires.
    let greet = Stack::from_fn(|call: Call| async move {
        let form = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
        let question = json!({ "message": "Who are you?", "requestedSchema": form });
        let ask = CallerRequest::new(ElicitationCreate::METHOD, Payload::of(&question)?);
        let answer: ElicitResult = call.cx().ask("name", ask).await?.get()?;
        let content = answer.content.unwrap_or_default();
        let name: String = content.get("name").map_or(Ok(String::new()), Payload::get)?;
        let result = json!({ "content": [{ "type": "text", "text": format!("Hello, {name}!") }] });
        Ok(Reply::raw(Payload::of(&result)?))
    });
    let rounds = RoundsLayer::new(Sealer::random()?);
    let offer = ServerOffer::new(Implementation::new("greeter", "1.0"));
    let stack = Stack::new(HandshakeLayer::new(offer).layer(rounds.layer(greet)));

    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let (here, there) = duplex();
        tokio::spawn(Connection::new(there.reader, there.writer, stack.clone()).run());
        let client = Client::builder("ask_caller", "1.0")
            .era(era)
            .on_elicitation(|asked| async move {
                println!("{}", asked.message);
                asked.accept_with(&json!({ "name": "Ann" }))
            })
            .connect(here.reader, here.writer)
            .await?;
        let greeting = client.call("greet").await?.to_text();
        println!("{era:?}: {greeting}");
        assert_eq!(greeting, "Hello, Ann!");
    }
    Ok(())
}
