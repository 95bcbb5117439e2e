//! Tests of a caller that sets the rate of the chunks, and asks for chunks that it misses (MGP §12.8, §12.9).

use std::time::Duration;

use futures_util::StreamExt as _;
use mgp_client_sdk::StreamItem;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::world::{Alive, Carrier, Raw, Received, cells, server, words};

#[tokio::test]
async fn a_paused_stream_stops_and_goes_on_in_every_cell() {
    for cell in cells() {
        let connected = cell.connect(server(&Alive::default())).await;
        let call = connected.client.call("words").args(json!({ "n": 40, "every_ms": 5 }));
        let (mut stream, mut received) = (call.stream(), Received::default());
        received.add(stream.next().await.unwrap());
        stream.pace(0).await.unwrap();
        // Read the chunks that were already sent before the pause.
        while let Ok(Some(item)) = timeout(Duration::from_millis(150), stream.next()).await {
            received.add(item);
        }
        assert!(received.result.is_none(), "{cell:?}: {:?}", received.text());
        assert!(received.blocks.len() < 40, "{cell:?}");
        stream.pace(1_000).await.unwrap();
        while let Some(item) = stream.next().await {
            received.add(item);
        }
        assert_eq!(received.text(), words(40), "{cell:?}");
    }
}

#[tokio::test]
async fn a_rate_is_kept() {
    let mut raw = Raw::client(server(&Alive::default())).await;
    raw.call("2", "words", r#"{"n":8,"every_ms":1}"#).await;
    raw.notify("notifications/mgp.stream.pace", r#"{"request_id":2,"max_chunks_per_second":50}"#)
        .await;
    let begun = Instant::now();
    raw.read_answer().await;
    assert!(begun.elapsed() >= Duration::from_millis(80), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn missing_chunks_are_sent_again_or_reported_lost() {
    let mut raw = Raw::client(server(&Alive::default())).await;
    raw.call("2", "endless", "{}").await;
    let mut last = 0;
    while last < 100 {
        last = raw.read().await["params"]["index"].as_u64().unwrap();
    }
    // The server must ignore requests for chunks of an unknown call, and for chunks that it has not sent yet.
    for params in [
        r#"{"request_id":3,"missing_indices":[0]}"#,
        r#"{"request_id":2,"missing_indices":[18446744073709551615,"x"]}"#,
        r#"{"request_id":2,"missing_indices":[18446744073709551615]}"#,
        r#"{"request_id":2}"#,
    ] {
        raw.notify("notifications/mgp.stream.gap", params).await;
    }
    raw.notify("notifications/mgp.stream.pace", r#"{"request_id":2,"max_chunks_per_second":0}"#)
        .await;
    raw.send(r#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#).await;
    let (chunks, pong) = raw.read_answer().await;
    assert_eq!(pong["id"], 9);
    let last = chunks.last().map_or(last, |chunk| chunk["index"].as_u64().unwrap());
    raw.notify(
        "notifications/mgp.stream.gap",
        &format!(r#"{{"request_id":2,"missing_indices":[0,{last}]}}"#),
    )
    .await;
    let lost = raw.read().await["params"].clone();
    assert_eq!((&lost["index"], &lost["gap_unrecoverable"]), (&json!(0), &json!(true)));
    let also = raw.read().await;
    assert_eq!(also["method"], "notifications/mgp.stream.gap_unrecoverable");
    assert_eq!(also["params"]["missing_index"], 0);
    let again = raw.read().await["params"].clone();
    assert_eq!((&again["index"], &again["_mgp"]["retransmit"]), (&json!(last), &json!(true)));
    assert_eq!(again["content"]["text"], format!("{last} "));
}

/// Writes a chunk of the foreign server's only call.
async fn chunk(raw: &mut Raw, id: &Value, index: u64, more: &str) {
    let text = if more.contains("gap_unrecoverable") { String::new() } else { index.to_string() };
    raw.notify(
        "notifications/mgp.stream.chunk",
        &format!(
            r#"{{"request_id":{id},"index":{index},"content":{{"type":"text","text":"{text}"}}{more}}}"#
        ),
    )
    .await;
}

#[tokio::test]
async fn a_client_asks_for_the_chunks_it_misses() {
    for is_lost in [false, true] {
        let streaming = r#"{"mgp":{"version":"0.3.0","extensions":["streaming"]}}"#;
        let (client, mut raw) = Raw::server(streaming).await;
        let reading = tokio::spawn(Received::all(client.call("t").stream()));
        let id = raw.read().await["id"].clone();
        for index in [0, 1, 1, 4, 5, 0] {
            chunk(&mut raw, &id, index, "").await;
        }
        let gap = raw.read().await;
        assert_eq!(gap["method"], "notifications/mgp.stream.gap", "{gap}");
        assert_eq!(gap["params"]["missing_indices"], json!([2, 3]));
        let more =
            if is_lost { r#","gap_unrecoverable":true"# } else { r#","_mgp":{"retransmit":true}"# };
        chunk(&mut raw, &id, 2, more).await;
        chunk(&mut raw, &id, 3, "").await;
        raw.send(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"012345"}}]}}}}"#
        ))
        .await;
        let received = reading.await.unwrap();
        assert_eq!(received.text(), if is_lost { "01" } else { "012345" });
        assert_eq!(received.result_text(), "012345");
        assert_eq!(received.result()["_mgp"]["dropped"].is_u64(), is_lost, "{received:?}");
    }
}

#[tokio::test]
async fn a_slow_reader_has_a_prefix_and_the_whole_result() {
    for cell in cells() {
        let connected = cell.connect(server(&Alive::default())).await;
        let mut stream = connected.client.call("words").args(json!({ "n": 6_000 })).stream();
        let mut received = Received::default();
        while let Some(item) = stream.next().await {
            if matches!(item, Ok(StreamItem::Chunk(_))) && received.blocks.len() < 20 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            received.add(item);
        }
        let whole = words(6_000);
        assert!(whole.starts_with(&received.text()), "{cell:?}");
        assert_eq!(received.result_text(), whole, "{cell:?}");
        let dropped = received.result()["_mgp"]["dropped"].as_u64().unwrap_or(0);
        assert_eq!(dropped > 0, received.text() != whole, "{cell:?} {dropped}");
        assert_eq!(connected.client.monitor().inbox_bytes(), 0);
    }
}

#[tokio::test]
async fn a_reader_that_pauses_slows_down_its_server_and_loses_nothing() {
    // This is more than the maximum of 4,096 chunks that wait for a reader.
    const WORDS: usize = 6_000;
    for cell in cells() {
        let alive = Alive::default();
        let connected = cell.connect(server(&alive)).await;
        let call = connected.client.call("words").args(json!({ "n": WORDS, "yields": true }));
        let (mut stream, mut received) = (call.stream(), Received::default());
        received.add(stream.next().await.unwrap());
        tokio::time::sleep(Duration::from_millis(500)).await;
        // Check this only in memory, because over HTTP the buffers of the system may hold all chunks.
        if cell.carrier == Carrier::Memory {
            assert_eq!(alive.now(), 1, "{cell:?}: the server waits");
        }
        while let Some(item) = stream.next().await {
            received.add(item);
        }
        assert!(received.text() == words(WORDS), "{cell:?}: {} chunks", received.blocks.len());
        assert!(received.result()["_mgp"]["dropped"].is_null(), "{cell:?}");
        assert_eq!(connected.client.monitor().inbox_bytes(), 0);
    }
}
