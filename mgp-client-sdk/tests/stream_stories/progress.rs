//! Progress in MCP's form and in MGP's (MGP §12.6).

use mgp_types::service::Progress;
use serde_json::json;

use crate::world::{Alive, Raw, Received, cells, server};

#[tokio::test]
async fn units_and_the_remaining_time_arrive_in_every_cell() {
    for cell in cells() {
        let connected = cell.connect(server(&Alive::default())).await;
        let received = Received::all(connected.client.call("steps").stream()).await;
        let step = |progress: f64, total, estimated_remaining_ms| Progress {
            progress,
            total,
            message: Some(format!("step {progress}")),
            estimated_remaining_ms,
        };
        let steps =
            [step(3.0, None, None), step(5.0, Some(10.0), Some(4_500)), step(7.0, None, None)];
        assert_eq!(received.steps, steps, "{cell:?}");
    }
}

#[tokio::test]
async fn a_step_without_a_total_is_no_share() {
    let mut raw = Raw::client(server(&Alive::default())).await;
    raw.send(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"steps","_meta":{"progressToken":"p"}}}"#)
        .await;
    let (mut shares, mut units) = (Vec::new(), Vec::new());
    loop {
        let message = raw.read().await;
        let params = &message["params"];
        match message["method"].as_str() {
            Some("notifications/mgp.stream.progress") => shares.push(params["progress"].clone()),
            Some(_) => units.push((params["progress"].clone(), params["total"].clone())),
            None => break,
        }
    }
    assert_eq!(
        units,
        [(json!(3.0), json!(null)), (json!(5.0), json!(10.0)), (json!(7.0), json!(null))]
    );
    let shares: Vec<_> = shares.iter().map(|share| share.as_f64().unwrap()).collect();
    assert_eq!(shares, [0.0, 0.5, 0.5]);
}
