//! Tests of tools that take long, through `mgp serve`, over stdio and HTTP in both eras.
//!
//! A second in these tests takes only 60 ms of real time, unless the environment variable `SECOND_MS` sets another
//! length, e.g. 1000.

use std::time::Duration;

use futures_util::future::join_all;
use mgp_client_sdk::{Client, EraChoice, Error};
use mgp_types::mcp::Era;
use mgp_types::{ErrorCode, RpcError};
use serde_json::json;
use tokio::time::Instant;

use crate::serving::Serving;
use crate::world::{ERAS, World};

/// Converts seconds of these tests to real milliseconds.
fn millis(seconds: u64) -> u64 {
    let second = std::env::var("SECOND_MS").ok().and_then(|set| set.parse().ok());
    seconds * second.unwrap_or(60_u64)
}

/// Calls a tool that runs for `seconds` and reports progress every ten seconds; the client requests the progress only
/// if `is_observed` is set.
async fn reports(client: &Client, seconds: u64, is_observed: bool) -> Result<(), RpcError> {
    let call = client.call("progress").arg("steps", seconds / 10).arg("delay_ms", millis(10));
    let call = if is_observed { call.progress(|_| ()) } else { call };
    refusal(call.await.map(drop))
}

async fn sleeps(client: &Client, seconds: u64) -> Result<(), RpcError> {
    refusal(client.call_tool("sleep", json!({ "ms": millis(seconds) })).await.map(drop))
}

fn refusal(result: Result<(), Error>) -> Result<(), RpcError> {
    result.map_err(RpcError::from)
}

#[track_caller]
fn ended(result: Result<(), RpcError>, after: Duration, seconds: u64, key: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.code(), ErrorCode::TIMEOUT, "{error}");
    assert!(error.message().contains(key) && error.message().contains("`bench`"), "{error}");
    assert!(after >= Duration::from_millis(millis(seconds)), "{after:?} of {seconds} s");
}

/// Checks that the kernel ends a call after a minute without progress, or after three minutes despite progress.
async fn check(client: &Client) {
    let begun = Instant::now();
    let cut = |key, seconds| move |result| ended(result, begun.elapsed(), seconds, key);
    let (short, observed, unobserved, (), ()) = tokio::join!(
        sleeps(client, 10),
        reports(client, 120, true),
        reports(client, 120, false),
        async { cut("`timeout`", 60)(sleeps(client, 1_000).await) },
        async { cut("`max_timeout`", 180)(reports(client, 1_000, true).await) },
    );
    short.unwrap();
    observed.unwrap();
    unobserved.unwrap();
}

#[tokio::test]
async fn a_long_call_ends_well_while_it_reports_progress_and_else_at_a_bound_that_it_names() {
    let world = World::new(&format!(
        "[kernel]\ntimeout = \"{}ms\"\nmax_timeout = \"{}ms\"\n[[servers]]\nid = \"bench\"\ncommand = \"{}\"\n\
         [servers.mgp]\ndefault_policy = \"opt-out\"\nrisk = {{ progress = \"safe\", sleep = \"safe\" }}\n",
        millis(60),
        millis(180),
        mgp_testkit::example("mgp-server-sdk", "workbench").display(),
    ));
    let serving = Serving::new(&world).await;
    let key = world.json(&["keys", "add", "ada"])["key"].as_str().unwrap().to_owned();
    serving.comes(&key).await.close().await;
    let mut clients = Vec::new();
    for era in ERAS {
        let choice = if era == Era::Legacy { EraChoice::Legacy } else { EraChoice::Modern };
        let limit = Duration::from_millis(millis(2_000));
        let builder = || Client::builder("host", "1").timeout(limit).max_timeout(limit);
        clients.push(builder().era(choice).bearer(&key).connect_url(&serving.url).await.unwrap());
        clients.push(world.host("ada", era, builder()).await);
    }
    join_all(clients.iter().map(check)).await;
}
