//! A server with one tool that repeats what it is told, and what the benches measure.
//!
//! `cargo run -q --release -p mgp-server-sdk --example echo -- [--tools N] [--rt current|multi]`

use mgp_server_sdk::prelude::*;
use mgp_types::RawObject;

#[derive(Deserialize, JsonSchema)]
struct Echo {
    /// Text to echo.
    message: String,
}

fn server(more: usize) -> Result<Server, RpcError> {
    let echo =
        Tool::new(
            "echo",
            "Echo the message back",
            |Args(echo): Args<Echo>| async move { echo.message },
        );
    // It takes microseconds, so it needs no task of its own.
    let mut server = Server::new("echo", env!("CARGO_PKG_VERSION")).tool(echo.inline());
    for number in 0..more {
        server = server.tool(filler(number)?);
    }
    Ok(server)
}

/// A tool with a schema of the usual size, to make the list long.
fn filler(number: usize) -> Result<Tool, RpcError> {
    let schema = serde_json::json!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "description": "Absolute path of the file to operate on" },
            "mode": { "type": "string", "enum": ["read", "write", "append"], "description": "How to open the file" },
            "limit": { "type": "integer", "minimum": 0, "maximum": 10000, "description": "Maximum number of lines" },
        },
        "required": ["path"],
    });
    let description = format!(
        "Tool number {number}: performs an operation on a file and returns the result as text."
    );
    let tool = Tool::new(format!("tool_{number:05}"), description, || async { "ok" });
    Ok(tool.input_schema(RawObject::of(&schema)?))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut more = 0;
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        match (flag.as_str(), arguments.next().as_deref()) {
            ("--tools", Some(number)) => more = number.parse()?,
            ("--rt", Some("current")) => {}
            ("--rt", Some("multi")) => runtime = tokio::runtime::Builder::new_multi_thread(),
            (flag, _) => {
                return Err(
                    format!("unknown flag `{flag}`; known: --tools N, --rt current|multi").into()
                );
            }
        }
    }
    runtime.enable_all().build()?.block_on(server(more)?.serve_stdio())?;
    Ok(())
}
