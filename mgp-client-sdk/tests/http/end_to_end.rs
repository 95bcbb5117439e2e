//! Tests of our client and our server over HTTP, in both eras.

use futures_util::StreamExt as _;
use mgp_client_sdk::{Client, EraCache, EraChoice, StreamItem, ToolResult as _};
use mgp_server_sdk::prelude::*;
use mgp_testkit::{Alive, until};
use mgp_types::Payload;
use mgp_types::mcp::{ContentBlock, ElicitAction, ElicitResult, Era};
use mgp_types::service::CallerRequest;
use serde_json::json;

fn server(hanging: &Alive) -> Server {
    let hanging = hanging.clone();
    let echo = Tool::new("echo", "Echoes", || async { "hi" });
    let talk = Tool::new("talk", "Talks", |outlet: Outlet| async move {
        for number in 0..300 {
            let chunk = Payload::of(&ContentBlock::text(format!("{number} ")))?;
            let _ = outlet.send(OutletItem::chunk(chunk)).await;
        }
        let step = Progress { progress: 1.0, total: Some(2.0), ..Progress::default() };
        let _ = outlet.send(OutletItem::Progress(step)).await;
        Ok::<_, RpcError>("done")
    });
    let ask = Tool::new("ask", "Asks", |cx: Context| async move {
        let form = r#"{"message":"sure?","requestedSchema":{"type":"object","properties":{}}}"#;
        let response =
            cx.ask("sure", CallerRequest::new("elicitation/create", Payload::parse(form)?)).await?;
        Ok::<_, RpcError>(response.as_str().to_owned())
    });
    let hang = Tool::new("hang", "Hangs", move |outlet: Outlet| {
        let guard = hanging.begin();
        async move {
            let _guard = guard;
            let _ = outlet.send(OutletItem::chunk(Payload::of(&ContentBlock::text("x"))?)).await;
            std::future::pending::<Result<&str, RpcError>>().await
        }
    });
    Server::new("ours", "1").tool(echo).tool(talk).tool(ask).tool(hang)
}

/// Returns a client of an era, connected to a new server; `hanging` counts the calls of the tool `hang`.
async fn connected(era: EraChoice, hanging: &Alive) -> Client {
    let bound = server(hanging).http("127.0.0.1:0").no_auth().bind().await.unwrap();
    let url = format!("http://{}/mcp", bound.local_addr());
    tokio::spawn(bound.run());
    Client::builder("c", "1")
        .era(era)
        .http(|http| http.eras = EraCache::new())
        .on_elicitation(|_| async { Ok(ElicitResult::new(ElicitAction::Accept)) })
        .connect_url(url)
        .await
        .unwrap()
}

#[tokio::test]
async fn tools_streams_questions_and_cancellation_work_in_both_eras() {
    for (choice, era) in [
        (EraChoice::Legacy, Era::Legacy),
        (EraChoice::Modern, Era::Modern),
        (EraChoice::Auto, Era::Modern),
    ] {
        let hanging = Alive::default();
        let client = connected(choice, &hanging).await;
        assert_eq!(client.server().era, era);
        assert_eq!(client.tools().await.unwrap().len(), 4);
        assert_eq!(client.call("echo").await.unwrap().to_text(), "hi");
        let results = client.call_many((0..50).map(|_| client.call("echo")), 20).await;
        assert!(results.into_iter().all(|result| result.unwrap().to_text() == "hi"));

        let (mut chunks, mut text) = (String::new(), String::new());
        let mut stream = client.call("talk").stream();
        while let Some(item) = stream.next().await {
            match item.unwrap() {
                StreamItem::Chunk(block) => chunks += block.as_text().unwrap(),
                StreamItem::Result(result) => text = result.to_text(),
                _ => {}
            }
        }
        let all = (0..300).fold(String::new(), |all, number| all + &format!("{number} "));
        // The text that the tool returned follows what it streamed.
        let all = all + "done";
        assert_eq!((chunks, text), (all.clone(), all), "{era:?}");

        let response = client.call("ask").args(json!({})).await.unwrap().to_text();
        assert!(response.contains("accept"), "{response}");

        let mut stream = client.call("hang").stream();
        assert!(matches!(stream.next().await, Some(Ok(StreamItem::Chunk(_)))));
        drop(stream);
        until("the call is dropped", async || hanging.ended() == 1).await;
        assert_eq!(client.monitor().pending(), 0);
    }
}
