//! Tests that the client passes on the schemas of tools unchanged, and never fetches what they refer to.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::script::{Script, plain};

#[tokio::test]
async fn a_schema_comes_back_byte_for_byte() {
    let (client, mut script) = Script::modern(plain(), json!({})).await;
    // The client must keep the order, numbers, escapes and white space of this schema.
    let schema = r##"{ "$schema":"https://json-schema.org/draft/2020-12/schema", "type":"object","$defs":{"address":{"$anchor":"addressDef","type":"object"}},
"properties":{"z":{"$ref":"#/$defs/address"},"a":{"minimum":1.50,"maximum":1e3,"pattern":"\u0041\/"}},"if":{"required":["z"]},"then":{"required":["a"]},"x-more":[ 1 ],"additionalProperties":false}"##;
    let one_line = schema.replace('\n', " ");
    let serve = async {
        let request = script.read().await.unwrap();
        script
            .line(&format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{{"tools":[{{"name":"t","inputSchema":{one_line}}}]}}}}"#,
                request["id"]
            ))
            .await;
        let call = script.read_line().await.unwrap();
        assert!(call.contains(&one_line), "{call}");
        let call: serde_json::Value = serde_json::from_str(&call).unwrap();
        script.answer(&call, json!({ "content": [] })).await;
    };
    let echo = async {
        let tools = client.tools().await.unwrap();
        assert_eq!(tools[0].input_schema.as_payload().as_str(), one_line);
        client.call("echo").arg("schema", &tools[0].input_schema).await.unwrap();
    };
    tokio::join!(echo, serve);
}

#[tokio::test]
async fn references_of_a_schema_are_not_fetched() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let fetched = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&fetched);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::Relaxed);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
        }
    });
    let (client, mut script) = Script::modern(plain(), json!({})).await;
    let canary = format!("http://{address}/schema.json");
    let schema = json!({
        "type": "object", "$schema": canary, "$id": canary, "properties": { "profile": { "$ref": canary } },
    });
    let serve = async {
        let tool = json!({ "name": "t", "inputSchema": schema, "outputSchema": schema });
        script.serve("tools/list", json!({ "tools": [tool], "ttlMs": 9000 })).await;
        script
            .serve("tools/call", json!({ "content": [], "structuredContent": { "profile": 1 } }))
            .await;
    };
    let call = async {
        client.tools().await.unwrap();
        client.call("t").arg("profile", 1).await.unwrap();
    };
    tokio::join!(call, serve);
    // Connections are accepted in order, so any connection of the client is counted before this one.
    tokio::net::TcpStream::connect(address).await.unwrap();
    while fetched.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(fetched.load(Ordering::Relaxed), 1, "only this test knocked");
}
