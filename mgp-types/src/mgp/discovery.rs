//! Which servers there are, and how they come and go (MGP §15).
//!
//! Applies to: both.

use std::collections::BTreeMap;

use super::{DefaultPolicy, MgpVersion, Permission, RestartPolicy, ServerState, TrustLevel};
use crate::record::{List, open_enum, record};

open_enum! {
    /// How a server is reached.
    pub enum Transport {
        /// A child process.
        Stdio = "stdio",
        /// Streamable HTTP.
        Http = "http" | "streamable-http" | "streamable_http",
        /// HTTP with a separate event stream (2024-11-05).
        Sse = "sse",
    }

    /// What became of a registration.
    pub enum RegistrationStatus {
        /// It runs.
        Connected = "connected",
        /// An operator must agree.
        PendingApproval = "pending_approval",
        /// An operator said no.
        Rejected = "rejected",
        /// It did not start.
        Error = "error",
        /// It is gone.
        Deregistered = "deregistered",
    }
}

record! {
    /// `[servers.mgp]` (§15.2).
    pub struct ServerMgpConfig {
        /// The extensions to offer.
        list extensions: List<String>,
        /// The permissions it needs.
        list permissions_required: List<Permission>,
        /// How far it is trusted.
        opt trust_level: Option<TrustLevel>,
        /// When it is restarted.
        opt restart_policy: Option<RestartPolicy>,
        /// How often within the window.
        opt max_restarts: Option<u32>,
        /// The window.
        opt restart_window_secs: Option<u64>,
        /// The first wait.
        opt backoff_base_ms: Option<u64>,
        /// The longest wait.
        opt backoff_max_ms: Option<u64>,
        /// What holds for agents without an entry (§5.5).
        opt default_policy: Option<DefaultPolicy>,
    }

    /// One entry of `[[servers]]` in `mgp.toml` (§15.2).
    pub struct ServerEntry {
        /// The server's identity everywhere.
        req id: String,
        /// The program.
        opt command: Option<String>,
        /// Its arguments.
        list args: List<String>,
        /// Where it is, instead of a program.
        opt url: Option<String>,
        /// How it is reached.
        opt transport: Option<Transport>,
        /// MGP settings; without them MGP is still offered.
        opt mgp: Option<ServerMgpConfig>,
        /// Environment; `${VAR}` is expanded.
        opt env: Option<BTreeMap<String, String>>,
    }

    /// A file `mgp.toml` (§15.2).
    pub struct ServerConfig {
        /// The servers.
        list servers: List<ServerEntry>,
    }

    /// Which servers to list.
    pub struct DiscoveryFilter {
        /// They have all of these.
        list extensions: List<String>,
        /// They need all of these.
        list permissions: List<Permission>,
        /// They are in this state; `all` for any.
        opt status: Option<ServerState>,
    }

    /// Parameters of `mgp/discovery/list`.
    pub struct DiscoveryListParams {
        /// Which servers.
        opt filter: Option<DiscoveryFilter>,
    }

    /// A server in a list.
    pub struct ServerSummary {
        /// The server.
        req id: String,
        /// Its state.
        req status: ServerState,
        /// The version of MGP it speaks; absent for plain MCP.
        opt mgp_version: Option<MgpVersion>,
        /// The extensions in use.
        list extensions: List<String>,
        /// The names of its tools.
        list tools: List<String>,
        /// How far it is trusted.
        opt trust_level: Option<TrustLevel>,
    }

    /// Result of `mgp/discovery/list`.
    pub struct DiscoveryListResult {
        /// The servers.
        req servers: Vec<ServerSummary>,
    }

    /// Parameters of `mgp/discovery/register` (§15.4).
    pub struct RegisterParams {
        /// The server's identity.
        req id: String,
        /// The program.
        opt command: Option<String>,
        /// Its arguments.
        list args: List<String>,
        /// How it is reached.
        opt transport: Option<Transport>,
        /// MGP settings.
        opt mgp: Option<ServerMgpConfig>,
        /// Environment.
        opt env: Option<BTreeMap<String, String>>,
        /// Its folder.
        opt cwd: Option<String>,
        /// The script itself, where it is in no file: `command` runs it, `args` are its arguments.
        opt source: Option<String>,
        /// Who made it, as claimed; the authenticated caller counts.
        opt created_by: Option<String>,
        /// Why.
        opt justification: Option<String>,
    }

    /// Result of `mgp/discovery/register`.
    pub struct RegisterResult {
        /// The server.
        req id: String,
        /// What became of it.
        req status: RegistrationStatus,
        /// The same for people.
        opt message: Option<String>,
    }

    /// Parameters of `mgp/discovery/deregister` (§15.5).
    pub struct DeregisterParams {
        /// The server.
        req id: String,
        /// Why.
        opt reason: Option<String>,
    }

    /// Result of `mgp/discovery/deregister`.
    pub struct DeregisterResult {
        /// The server.
        req id: String,
        /// `deregistered`.
        req status: RegistrationStatus,
        /// The same for people.
        opt message: Option<String>,
    }
}
