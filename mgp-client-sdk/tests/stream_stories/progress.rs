//! Tests of progress in the forms of MCP and of MGP (MGP §12.6).

use std::time::Duration;

use mgp_server_sdk::prelude::{Context, Server, Tool};
use mgp_types::service::{Progress, keep_alive};
use serde_json::json;
use tokio::time::sleep;

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
    assert_eq!(units, [(json!(3), json!(null)), (json!(5), json!(10)), (json!(7), json!(null))]);
    let shares: Vec<_> = shares.iter().map(|share| share.as_f64().unwrap()).collect();
    assert_eq!(shares, [0.0, 0.5, 0.5]);
}

#[tokio::test(start_paused = true)]
async fn progress_increases_although_a_tool_waits_or_begins_again() {
    let again = Tool::new("again", "Begins again", |cx: Context| async move {
        let outlet = &cx.outlet;
        let _ = outlet.progress(5.0, 10.0).await;
        keep_alive(outlet, "waiting", sleep(Duration::from_secs(11))).await;
        let _ = outlet.progress(6.0, 10.0).await;
        let _ = outlet.progress(1.0, 10.0).await;
        let _ = outlet.progress(1.0, 3.0).await;
        let _ = outlet.progress(7.0, 10.0).await;
        "done"
    });
    let mut raw = Raw::client(Server::new("s", "1").tool(again)).await;
    raw.send(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"again","_meta":{"progressToken":"p"}}}"#)
        .await;
    let mut steps = Vec::new();
    loop {
        let message = raw.read().await;
        let params = &message["params"];
        match message["method"].as_str() {
            Some("notifications/progress") => {
                steps.push((params["progress"].as_f64().unwrap(), params["total"].as_f64()));
            }
            Some(_) => {}
            None => break,
        }
    }
    assert!(steps.is_sorted_by(|before, next| before.0 < next.0), "{steps:?}");
    assert_eq!((steps.len(), steps[0]), (7, (5.0, Some(10.0))), "{steps:?}");
    let of_ten = Some(10.0);
    let totals: Vec<_> = steps.iter().map(|(_, total)| *total).collect();
    assert_eq!(totals, [of_ten, of_ten, of_ten, of_ten, of_ten, None, of_ten]);
    assert_eq!((steps[3].0, steps[6].0), (6.0, 7.0), "{steps:?}");
}
