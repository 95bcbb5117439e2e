//! The environment of the demo: a kernel with a temporary state folder, an agent that calls tools, and an operator.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mgp_client_sdk::{Client, Error};
use mgp_discovery::Config;
use mgp_kernel::Kernel;
use mgp_security::Governance;
use mgp_transport::{Connection, duplex};
use mgp_types::RpcError;
use mgp_types::mcp::CallToolResult;
use mgp_types::service::{Principal, Stack};
use serde_json::Value;

use crate::exit::{CliResult, Failure};

/// The time limit of each wait in the demo.
pub(super) const TIMEOUT: Duration = Duration::from_secs(20);

pub(super) struct DemoKernel {
    folder: PathBuf,
    pub(super) kernel: Kernel,
    pub(super) operator: Principal,
    stack: Stack,
    pub(super) agent: Client,
}

impl DemoKernel {
    pub(super) async fn open() -> CliResult<Self> {
        let folder = std::env::temp_dir().join(format!("mgp-demo-{}", std::process::id()));
        let program = std::env::current_exe()?;
        let config = Config::parse("demo.toml", &config(&program))?.config;
        let kernel = Kernel::builder().config(config).in_folder(&folder).await?;
        let stack = kernel.server().into_stack().map_err(|error| failed(&error))?;
        let agent = connect(&stack, Principal::local().agent("demo")).await?;
        let operator = Principal::local().operator();
        Ok(Self { folder, kernel, operator, stack, agent })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn governance(&self) -> &Governance {
        self.kernel.governance()
    }

    /// Connects a further client, with the given principal, to the demo's kernel.
    pub(super) async fn connect(&self, principal: Principal) -> Result<Client, String> {
        connect(&self.stack, principal).await.map_err(|failure| failure.to_string())
    }

    /// Calls a tool as the demo's agent.
    pub(super) async fn call(&self, tool: &str, arguments: Value) -> Result<CallToolResult, Error> {
        self.agent.call(tool).args(arguments).await
    }

    /// Stops the kernel and removes its state folder.
    pub(super) async fn close(self) {
        self.agent.close().await;
        self.kernel.stop().await;
        // Ignore an error of closing the log, because the log is removed with the folder.
        if let Some(log) = self.kernel.governance().log() {
            let _ = log.clone().close().await;
        }
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            tracing::warn!(folder = %self.folder.display(), %error, "cannot remove the folder of the demo");
        }
    }
}

/// Connects a client to the kernel in this process over an in-memory stream, as a host connects over stdio.
async fn connect(stack: &Stack, principal: Principal) -> CliResult<Client> {
    let (here, there) = duplex();
    let connection =
        Connection::new(there.reader, there.writer, stack.clone()).principal(principal);
    tokio::spawn(connection.run());
    Ok(Client::builder("demo", env!("CARGO_PKG_VERSION")).connect(here.reader, here.writer).await?)
}

fn failed(error: &RpcError) -> Failure {
    Failure::failed(error.message())
}

fn config(program: &Path) -> String {
    // The path is formatted as a JSON string, because every JSON string is also a valid TOML string.
    let program = Value::from(program.to_string_lossy().into_owned());
    format!(
        r#"
[[servers]]
id = "notes"
command = {program}
args = ["__example", "notes"]

[servers.mgp]
tags = ["notes"]

[[servers]]
id = "unruly"
command = {program}
args = ["__example", "unruly"]

[servers.mgp]
tags = ["testing"]
backoff_base_ms = 100
"#
    )
}
