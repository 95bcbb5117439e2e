//! Asks the user before a tool deletes something: by an MGP callback, or by a form for hosts of plain MCP.
//!
//! `cargo run -q -p mgp-client-sdk --example answer_callbacks -- target/debug/examples/confirm` answers in the terminal.

use std::time::Duration;

use mgp_server_sdk::ContextExt as _;
use mgp_server_sdk::prelude::*;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), ServeError> {
    let clean = Tool::new("clean", "Deletes old files", |cx: Context| async move {
        let age = cx.select("Delete files of which age?", ["a month", "a year"]).await?;
        // `confirm` returns `true` only if the user clearly agrees. Without an answer in time, the call fails, and
        // nothing is deleted.
        if !cx.confirm(format!("Delete 3 files older than {age}?")).await? {
            return Ok("nothing was deleted".to_owned());
        }
        cx.inform("deleting").await;
        Ok::<_, RpcError>(format!("3 files older than {age} were deleted"))
    })
    // The time limit of a call, 30 s by default, includes the time in which a person answers. So set a longer limit.
    .timeout(Duration::from_mins(10));
    Server::new("confirm", "1.0").tool(clean).logging().serve_stdio().await
}
