//! Health, shutdown, states, restarts (MGP §11).

use crate::Timestamp;
use crate::record::{Number, Object, open_enum, record};

open_enum! {
    /// The state of a server (§11.2).
    pub enum ServerState {
        /// Configured, not started.
        Registered = "registered" | "Registered",
        /// Starting.
        Connecting = "connecting" | "Connecting",
        /// Running.
        Connected = "connected" | "Connected",
        /// Finishing its running requests.
        Draining = "draining" | "Draining",
        /// Stopped.
        Disconnected = "disconnected" | "Disconnected",
        /// Failed.
        Error = "error" | "Error",
        /// Restarting.
        Restarting = "restarting" | "Restarting",
    }

    /// The health of a server (§11.3).
    pub enum HealthStatus {
        /// Healthy.
        Healthy = "healthy",
        /// Degraded.
        Degraded = "degraded",
        /// Failing, but answering.
        Unhealthy = "unhealthy",
    }

    /// The reason for a shutdown (§11.4).
    pub enum ShutdownReason {
        /// An operator stops it.
        OperatorRequest = "operator_request",
        /// The configuration changed.
        ConfigurationChange = "configuration_change",
        /// The server exceeds a resource limit.
        ResourceLimit = "resource_limit",
        /// The server is idle.
        IdleTimeout = "idle_timeout",
        /// The kernel stops.
        KernelShutdown = "kernel_shutdown",
    }

    /// The conditions for a restart (§11.5).
    pub enum RestartPolicy {
        /// Never restart.
        Never = "never",
        /// Restart after a failure.
        OnFailure = "on_failure",
        /// Restart after any exit.
        Always = "always",
    }
}

impl ServerState {
    /// Returns the state whose name matches without regard to case; unknown names stay unchanged.
    #[must_use]
    pub fn in_any_case(self) -> Self {
        let known =
            Self::KNOWN.iter().find(|state| state.as_str().eq_ignore_ascii_case(self.as_str()));
        known.cloned().unwrap_or(self)
    }

    /// Returns whether a server may change from this state to another: the edges of §11.2, and those that a crash,
    /// a retry and a second start need.
    #[must_use]
    pub fn can_become(&self, next: &Self) -> bool {
        use ServerState::{
            Connected, Connecting, Disconnected, Draining, Error, Registered, Restarting,
        };
        matches!(
            (self, next),
            (Registered | Disconnected, Connecting)
                | (Connecting, Connected | Error | Disconnected)
                | (Connected, Draining | Error | Disconnected)
                | (Draining, Disconnected | Restarting)
                | (Error, Restarting)
                | (Restarting, Connected | Connecting | Error)
        )
    }
}

record! {
    /// Parameters of `mgp/health/ping`.
    pub struct PingParams {
        /// The time of sending.
        opt timestamp: Option<Timestamp>,
        /// The server to ask about, in a request to a kernel.
        opt server_id: Option<String>,
    }

    /// Result of `mgp/health/ping`.
    pub struct PingResult {
        /// The health.
        req status: HealthStatus,
        /// The time of the answer.
        opt timestamp: Option<Timestamp>,
        /// The uptime in seconds.
        opt uptime_secs: Option<Number>,
        /// The id the server claims.
        opt server_id: Option<String>,
        /// The state of a server that is not connected, in an answer of a kernel.
        opt state: Option<ServerState>,
    }

    /// Parameters of `mgp/health/status`.
    pub struct StatusParams {
        /// The server to ask about, in a request to a kernel.
        opt server_id: Option<String>,
    }

    /// Result of `mgp/health/status`.
    pub struct StatusResult {
        /// The health.
        req status: HealthStatus,
        /// The server, in an answer of a kernel.
        opt server_id: Option<String>,
        /// The state of a server that cannot report its health, in an answer of a kernel.
        opt state: Option<ServerState>,
        /// The uptime in seconds.
        opt uptime_secs: Option<Number>,
        /// The number of usable tools.
        opt tools_available: Option<u64>,
        /// The total number.
        opt tools_total: Option<u64>,
        /// The number of running requests.
        opt pending_requests: Option<u64>,
        /// Resource usage; any members.
        opt resources: Option<Object>,
        /// Results of checks; any members.
        opt checks: Option<Object>,
    }

    /// Parameters of `mgp/lifecycle/shutdown`.
    pub struct ShutdownParams {
        /// The reason.
        opt reason: Option<ShutdownReason>,
        /// The time for running requests to end, in milliseconds.
        opt timeout_ms: Option<u64>,
        /// The server to stop, in a request to a kernel; if absent, the receiver stops.
        opt server_id: Option<String>,
    }

    /// Result of `mgp/lifecycle/shutdown`.
    pub struct ShutdownResult {
        /// `true` if the server will stop.
        req accepted: bool,
        /// The number of running requests.
        opt pending_requests: Option<u64>,
        /// The expected time until they end, in milliseconds.
        opt estimated_drain_ms: Option<u64>,
        /// The requested server, if it was not found.
        opt server_id: Option<String>,
        /// `not_found`, if it was not found.
        opt status: Option<String>,
    }

    /// Parameters of `notifications/mgp.lifecycle`.
    pub struct LifecycleParams {
        /// The server.
        opt server_id: Option<String>,
        /// The state it leaves.
        opt previous_state: Option<ServerState>,
        /// The state it enters.
        req new_state: ServerState,
        /// The reason.
        opt reason: Option<String>,
        /// The time.
        opt timestamp: Option<Timestamp>,
    }

    /// The restart settings of a server (§11.5).
    pub struct RestartConfig {
        /// The conditions for a restart.
        opt restart_policy: Option<RestartPolicy>,
        /// The maximum number of restarts within the window.
        opt max_restarts: Option<u32>,
        /// The window in seconds.
        opt restart_window_secs: Option<u64>,
        /// The first delay between restarts, in milliseconds.
        opt backoff_base_ms: Option<u64>,
        /// The longest delay between restarts, in milliseconds.
        opt backoff_max_ms: Option<u64>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_of_the_specification_and_no_others() {
        let edges: usize = ServerState::KNOWN
            .iter()
            .map(|from| ServerState::KNOWN.iter().filter(|to| from.can_become(to)).count())
            .sum();
        assert_eq!(edges, 8 + 6);
        assert!(!ServerState::Registered.can_become(&ServerState::Connected));
        assert_eq!(ServerState::from("Connected"), ServerState::Connected);
        assert_eq!(ServerState::from("DRAINING").in_any_case(), ServerState::Draining);
        assert_eq!(ServerState::from("Reconnecting").in_any_case().as_str(), "Reconnecting");
        assert!(!ServerState::from("reconnecting").can_become(&ServerState::Connected));
    }
}
