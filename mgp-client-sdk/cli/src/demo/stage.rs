//! What the demonstration plays on: a kernel over a folder of its own, an agent, and an operator.
//!
//! Applies to: both.

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

use crate::exit::{Ended, Failure};

/// How long anything may take to come about.
pub(super) const SOON: Duration = Duration::from_secs(20);

pub(super) struct Stage {
    folder: PathBuf,
    pub(super) kernel: Kernel,
    /// The person who decides.
    pub(super) operator: Principal,
    stack: Stack,
    pub(super) agent: Client,
}

impl Stage {
    /// Starts everything.
    pub(super) async fn open() -> Ended<Self> {
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

    /// Somebody else who talks to the kernel.
    pub(super) async fn join(&self, principal: Principal) -> Result<Client, String> {
        connect(&self.stack, principal).await.map_err(|failure| failure.to_string())
    }

    /// Calls a tool by the agent.
    pub(super) async fn call(&self, tool: &str, arguments: Value) -> Result<CallToolResult, Error> {
        self.agent.call(tool).args(arguments).await
    }

    /// Ends everything, and leaves nothing behind.
    pub(super) async fn close(self) {
        self.agent.close().await;
        self.kernel.stop().await;
        // A log that cannot be closed is gone with its folder.
        if let Some(log) = self.kernel.governance().log() {
            let _ = log.clone().close().await;
        }
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            tracing::warn!(folder = %self.folder.display(), %error, "the folder is left behind");
        }
    }
}

/// A connection to the kernel in this process, as a host has one over its streams.
async fn connect(stack: &Stack, principal: Principal) -> Ended<Client> {
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
    // As JSON a text is a text of TOML too.
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
