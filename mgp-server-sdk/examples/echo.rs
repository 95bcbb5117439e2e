//! A server with one tool that repeats what it is told, and what the benches measure.
//!
//! `cargo run -q --release -p mgp-server-sdk --example echo -- [--tools N] [--rt current|multi] [--http ADDR [--sse]]`

use mgp_server_sdk::Answers;
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

/// What was asked for on the command line.
struct Options {
    tools: usize,
    multi: bool,
    address: Option<String>,
    answers: Answers,
}

const KNOWN: &str = "--tools N, --rt current|multi, --http ADDR, --sse";

fn options() -> Result<Options, Box<dyn std::error::Error>> {
    let mut options = Options { tools: 0, multi: false, address: None, answers: Answers::AsNeeded };
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        if flag == "--sse" {
            options.answers = Answers::Streams;
            continue;
        }
        match (flag.as_str(), arguments.next()) {
            ("--tools", Some(number)) => options.tools = number.parse()?,
            ("--rt", Some(kind)) if kind == "current" || kind == "multi" => {
                options.multi = kind == "multi";
            }
            ("--http", Some(address)) => options.address = Some(address),
            (flag, _) => return Err(format!("unknown flag `{flag}`; known: {KNOWN}").into()),
        }
    }
    Ok(options)
}

#[expect(clippy::print_stderr, reason = "whoever lets the system choose a port must learn which")]
async fn serve(options: Options) -> Result<(), Box<dyn std::error::Error>> {
    let server = server(options.tools)?;
    let Some(address) = options.address else { return Ok(server.serve_stdio().await?) };
    let answers = options.answers;
    let bound = server.http(address).no_auth().config(|config| config.answers = answers);
    let bound = bound.bind().await?;
    eprintln!("serving http://{}/mcp", bound.local_addr());
    bound.run().await;
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = options()?;
    let mut runtime = if options.multi {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    runtime.enable_all().build()?.block_on(serve(options))
}
