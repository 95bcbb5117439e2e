//! Discovery and registration of servers (MGP §15).

use std::collections::BTreeMap;

use super::{DefaultPolicy, MgpVersion, Permission, RestartPolicy, ServerState, TrustLevel};
use crate::record::{List, open_enum, record};

open_enum! {
    /// The transport of a server.
    pub enum Transport {
        /// A child process.
        Stdio = "stdio",
        /// Streamable HTTP.
        Http = "http" | "streamable-http" | "streamable_http",
        /// HTTP with a separate event stream (MCP 2024-11-05).
        Sse = "sse",
    }

    /// The outcome of a registration.
    pub enum RegistrationStatus {
        /// The server is registered and running.
        Connected = "connected",
        /// The registration waits for an operator's approval.
        PendingApproval = "pending_approval",
        /// An operator rejected the registration.
        Rejected = "rejected",
        /// The server is not running, e.g. because it did not start.
        Error = "error",
        /// The server is removed.
        Deregistered = "deregistered",
    }
}

record! {
    /// The MGP settings of a server: `[servers.mgp]` in `mgp.toml` (§15.2).
    pub struct ServerMgpConfig {
        /// The MGP extensions to offer to the server.
        list extensions: List<String>,
        /// The permissions that the server needs.
        list permissions_required: List<Permission>,
        /// The trust level of the server.
        opt trust_level: Option<TrustLevel>,
        /// The conditions for a restart of the server.
        opt restart_policy: Option<RestartPolicy>,
        /// The maximum number of restarts within `restart_window_secs`.
        opt max_restarts: Option<u32>,
        /// The window in which restarts are counted, in seconds.
        opt restart_window_secs: Option<u64>,
        /// The first delay between restarts, in milliseconds.
        opt backoff_base_ms: Option<u64>,
        /// The longest delay between restarts, in milliseconds.
        opt backoff_max_ms: Option<u64>,
        /// The decision about agents without an access entry (§5.5).
        opt default_policy: Option<DefaultPolicy>,
    }

    /// An entry of `[[servers]]` in `mgp.toml` (§15.2).
    pub struct ServerEntry {
        /// The id that identifies the server everywhere.
        req id: String,
        /// The program to start.
        opt command: Option<String>,
        /// The arguments of the program.
        list args: List<String>,
        /// The URL of the server, instead of a program.
        opt url: Option<String>,
        /// The transport of the server.
        opt transport: Option<Transport>,
        /// The MGP settings of the server. Without them, the kernel still offers MGP to the server.
        opt mgp: Option<ServerMgpConfig>,
        /// The environment variables of the program; `${VAR}` is expanded.
        opt env: Option<BTreeMap<String, String>>,
    }

    /// The content of a file `mgp.toml` (§15.2).
    pub struct ServerConfig {
        /// The servers.
        list servers: List<ServerEntry>,
    }

    /// A filter on servers.
    pub struct DiscoveryFilter {
        /// The extensions that a returned server must have, all of them.
        list extensions: List<String>,
        /// The permissions that a returned server must need, all of them.
        list permissions: List<Permission>,
        /// The state that the returned servers must have; `all` for servers in any state.
        opt status: Option<ServerState>,
    }

    /// Parameters of `mgp/discovery/list`.
    pub struct DiscoveryListParams {
        /// The conditions that the returned servers must meet.
        opt filter: Option<DiscoveryFilter>,
    }

    /// A server in a list.
    pub struct ServerSummary {
        /// The id of the server.
        req id: String,
        /// The state of the server.
        req status: ServerState,
        /// The version of MGP that the server speaks; absent for plain MCP.
        opt mgp_version: Option<MgpVersion>,
        /// The MGP extensions in use with the server. If the server is not connected: the extensions of its last
        /// connection, or else the extensions in its configuration.
        list extensions: List<String>,
        /// The names of the server's tools.
        list tools: List<String>,
        /// The trust level of the server.
        opt trust_level: Option<TrustLevel>,
    }

    /// Result of `mgp/discovery/list`.
    pub struct DiscoveryListResult {
        /// The servers.
        req servers: Vec<ServerSummary>,
    }

    /// Parameters of `mgp/discovery/register` (§15.4).
    pub struct RegisterParams {
        /// The id that identifies the server everywhere.
        req id: String,
        /// The program to start.
        opt command: Option<String>,
        /// The arguments of the program.
        list args: List<String>,
        /// The transport of the server.
        opt transport: Option<Transport>,
        /// The MGP settings of the server.
        opt mgp: Option<ServerMgpConfig>,
        /// Environment variables of the program.
        opt env: Option<BTreeMap<String, String>>,
        /// The working directory of the program.
        opt cwd: Option<String>,
        /// The source code of a script that is not in a file. `command` is the program that runs it, and `args` are the
        /// arguments of the script.
        opt source: Option<String>,
        /// The name of a server in the kernel's registry, as `NAME` or `NAME@VERSION`, instead of `command`. `env` then
        /// contains the values that the registry entry requires.
        opt published: Option<String>,
        /// The author that the caller claims; the kernel records the authenticated caller instead.
        opt created_by: Option<String>,
        /// The reason for the registration.
        opt justification: Option<String>,
    }

    /// Result of `mgp/discovery/register`.
    pub struct RegisterResult {
        /// The id of the server.
        req id: String,
        /// The outcome of the registration.
        req status: RegistrationStatus,
        /// A message for display.
        opt message: Option<String>,
    }

    /// Parameters of `mgp/discovery/deregister` (§15.5).
    pub struct DeregisterParams {
        /// The id of the server.
        req id: String,
        /// The reason for the removal.
        opt reason: Option<String>,
    }

    /// Result of `mgp/discovery/deregister`.
    pub struct DeregisterResult {
        /// The id of the server.
        req id: String,
        /// `deregistered`, or `draining` while calls of the server are still running.
        req status: RegistrationStatus,
        /// A message for display.
        opt message: Option<String>,
    }
}
