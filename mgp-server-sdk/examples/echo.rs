//! A server with one tool that returns its argument; the benchmarks measure it.
//!
//! `cargo run -q --release -p mgp-server-sdk --example echo --
//! [--tools N] [--rt current|multi] [--http ADDR [--sse]] [--governed]`
//!
//! With `--governed`, the server grants the tool to all callers, and writes an audit log to a folder that is removed at
//! the end.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mgp_security::{AuditLog, Governance, LogConfig};
use mgp_server_sdk::AnswerMode;
use mgp_server_sdk::prelude::*;
use mgp_types::RawObject;
use mgp_types::mgp::{AccessGrantParams, AccessPermission, EntryType, RiskLevel};
use mgp_types::service::Principal;

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
    // Run the tool inline on the connection's task, because it takes only microseconds.
    let echo = echo.inline().risk(RiskLevel::Safe);
    let mut server = Server::new("echo", env!("CARGO_PKG_VERSION")).tool(echo);
    for number in 0..more {
        server = server.tool(filler(number)?);
    }
    Ok(server)
}

/// Returns an extra tool with a schema of typical size; such tools lengthen the list.
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

/// The path of a folder; the folder is removed when this value is dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // Ignore the error: nothing depends on the removal.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns the governance for `--governed`: every caller may call every tool, and each call is recorded in a log.
async fn governance(log: &Path) -> Result<Governance, Box<dyn std::error::Error>> {
    let log = AuditLog::open(LogConfig::new(log), None).await?;
    let governance = Governance::builder().audit(Arc::new(log)).build();
    let everyone =
        AccessGrantParams::new(EntryType::ServerGrant, "*", "echo", AccessPermission::Allow);
    governance.access().grant(&Principal::local().operator(), everyone).await?;
    Ok(governance)
}

struct Options {
    tools: usize,
    multi: bool,
    address: Option<String>,
    answers: AnswerMode,
    governed: bool,
}

const KNOWN: &str = "--tools N, --rt current|multi, --http ADDR, --sse, --governed";

fn options() -> Result<Options, Box<dyn std::error::Error>> {
    let mut options = Options {
        tools: 0,
        multi: false,
        address: None,
        answers: AnswerMode::AsNeeded,
        governed: false,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        match flag.as_str() {
            "--sse" => {
                options.answers = AnswerMode::Streams;
                continue;
            }
            "--governed" => {
                options.governed = true;
                continue;
            }
            _ => {}
        }
        match (flag.as_str(), arguments.next()) {
            ("--tools", Some(number)) => options.tools = number.parse()?,
            ("--rt", Some(kind)) if kind == "current" || kind == "multi" => {
                options.multi = kind == "multi";
            }
            ("--http", Some(address)) => options.address = Some(address),
            (flag, value) => {
                let given = value.unwrap_or_default();
                return Err(format!("`{flag} {given}` is not valid; known: {KNOWN}").into());
            }
        }
    }
    Ok(options)
}

#[expect(clippy::print_stderr, reason = "the caller needs the port that the system chose")]
async fn serve(options: Options) -> Result<(), Box<dyn std::error::Error>> {
    let mut server = server(options.tools)?;
    let log = Folder(std::env::temp_dir().join(format!("mgp-echo-{}", std::process::id())));
    if options.governed {
        server = server.governed(&governance(&log.0).await?, "echo");
    }
    let Some(address) = options.address else { return Ok(server.serve_stdio().await?) };
    let answers = options.answers;
    let bound = server.http(address).no_auth().config(|config| config.answer_mode = answers);
    let bound = bound.bind().await?;
    eprintln!("serving http://{}/mcp", bound.local_addr());
    bound.serve().await;
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
