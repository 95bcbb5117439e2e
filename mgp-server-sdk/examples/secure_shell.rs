//! Tools that affect the system and declare their effects: MGP clients check, confirm and refuse calls by these
//! declarations.
//!
//! A plain MCP client sees the hints that follow from the declarations (`readOnlyHint`, `destructiveHint`,
//! `openWorldHint`). The MGP client performs the checks; the server itself only refuses calls whose permissions the
//! client has denied to it.

use std::process::Stdio;

use mgp_server_sdk::Grants;
use mgp_server_sdk::prelude::*;
use mgp_types::mgp::Permission;
use tokio::process::Command;

/// The outcome of a command.
#[derive(Serialize, JsonSchema)]
struct Outcome {
    /// The output, standard error included.
    output: String,
    /// The exit code; `None` if a signal ended the process.
    code: Option<i32>,
}

/// Runs a shell command, after the user confirmed it.
#[tool(
    title = "Shell",
    timeout = "10s",
    security(
        risk = "dangerous",
        permissions("shell.execute"),
        side_effects("process", "filesystem"),
        validator = "sandbox",
        confirmation,
        reversible = false
    )
)]
async fn shell(
    /// The command line, for `sh -c`.
    command: String,
) -> Result<Json<Outcome>, ToolError> {
    run("sh", &["-c", &command]).await
}

/// Calculates with Python: only `math` may be imported, and nothing may be written.
#[tool(
    timeout = "10s",
    security(
        risk = "moderate",
        permissions("code_execution"),
        side_effects("process"),
        validator = "code_safety",
        code_safety(
            level = "readonly",
            language = "python",
            max_code_size_bytes = 10_000,
            allowed_imports("math")
        ),
        reversible
    )
)]
async fn calculate(
    /// An expression or a program that prints its result.
    code: String,
) -> Result<Json<Outcome>, ToolError> {
    run("python3", &["-I", "-c", &code]).await
}

/// Returns the state of this server's permissions.
#[tool(security(risk = "safe"))]
async fn permissions(grants: Grants) -> String {
    let needed = [Permission::ShellExecute, Permission::CodeExecution];
    let lines =
        needed.map(|permission| format!("{permission}: {}", grants.standing(&permission).as_str()));
    lines.join("\n")
}

async fn run(program: &str, arguments: &[&str]) -> Result<Json<Outcome>, ToolError> {
    let mut command = Command::new(program);
    // A call that is cancelled or times out also ends its process.
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let done = command.output().await?;
    let output = [done.stdout, done.stderr].concat();
    Ok(Json(Outcome {
        output: String::from_utf8_lossy(&output).into_owned(),
        code: done.status.code(),
    }))
}

#[tokio::main]
async fn main() -> Result<(), ServeError> {
    Server::new("secure-shell", env!("CARGO_PKG_VERSION"))
        .instructions("Prefer `calculate` to `shell` where possible.")
        .tool(shell())
        .tool(calculate())
        .tool(permissions())
        .serve_stdio()
        .await
}
