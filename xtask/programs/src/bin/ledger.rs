//! A server that writes what it did to a file: `ledger FILE`, with the tools `make` and `remove`.
//!
//! Tests kill it and the kernel in front of it, and compare the file with the answers they received.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use mgp_server_sdk::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Thing {
    name: String,
}

/// Returns a tool that appends its name and its argument to the file.
fn tool(name: &'static str, file: &Arc<str>) -> Tool {
    let file = Arc::clone(file);
    Tool::new(name, "Writes a line to the ledger", move |thing: Args<Thing>| {
        let file = Arc::clone(&file);
        async move {
            tokio::time::sleep(Duration::from_millis(2)).await;
            let line = format!("{name} {}\n", thing.0.name);
            let opened = OpenOptions::new().create(true).append(true).open(&*file);
            let written = opened.and_then(|mut ledger| ledger.write_all(line.as_bytes()));
            written.map_err(|error| ToolError(error.to_string()))?;
            tokio::time::sleep(Duration::from_millis(2)).await;
            Ok::<_, ToolError>("done")
        }
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file: Arc<str> = std::env::args().nth(1).ok_or("usage: ledger FILE")?.into();
    let server = Server::new("ledger", "1").tool(tool("make", &file)).tool(tool("remove", &file));
    server.serve_stdio().await?;
    Ok(())
}
