//! Health, shutdown, states, restarts (MGP §11).

use crate::Timestamp;
use crate::record::{Number, Object, open_enum, record};

open_enum! {
    /// The state of a server (§11.2).
    pub enum ServerState {
        /// The server is configured but was not started.
        Registered = "registered" | "Registered",
        /// The server is starting.
        Connecting = "connecting" | "Connecting",
        /// The server is running.
        Connected = "connected" | "Connected",
        /// The server finishes its running requests and accepts no new requests.
        Draining = "draining" | "Draining",
        /// The server has stopped.
        Disconnected = "disconnected" | "Disconnected",
        /// The server failed.
        Error = "error" | "Error",
        /// The server is being restarted.
        Restarting = "restarting" | "Restarting",
    }

    /// The health of a server (§11.3).
    pub enum HealthStatus {
        /// The server works normally.
        Healthy = "healthy",
        /// The server works with limitations.
        Degraded = "degraded",
        /// The server fails, but still answers health requests.
        Unhealthy = "unhealthy",
    }

    /// The reason for a shutdown (§11.4).
    pub enum ShutdownReason {
        /// An operator stops the server.
        OperatorRequest = "operator_request",
        /// The configuration changed.
        ConfigurationChange = "configuration_change",
        /// The server exceeds a resource limit.
        ResourceLimit = "resource_limit",
        /// The server was idle for too long.
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
    /// Returns the known state whose name equals this name without regard to upper and lower case. An unknown name is
    /// returned unchanged.
    #[must_use]
    pub fn in_any_case(self) -> Self {
        let known =
            Self::KNOWN.iter().find(|state| state.as_str().eq_ignore_ascii_case(self.as_str()));
        known.cloned().unwrap_or(self)
    }

    /// Returns whether a server can change from this state to `next`: the changes of §11.2, and further changes for a
    /// crash, a retry and a second start.
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
        /// The time at which the ping was sent.
        opt timestamp: Option<Timestamp>,
        /// The id of the server to ask about; only in a request to a kernel.
        opt server_id: Option<String>,
    }

    /// Result of `mgp/health/ping`.
    pub struct PingResult {
        /// The health of the server.
        req status: HealthStatus,
        /// The time of the answer.
        opt timestamp: Option<Timestamp>,
        /// The time since the server started, in seconds.
        opt uptime_secs: Option<Number>,
        /// The id the server claims.
        opt server_id: Option<String>,
        /// The state of the server, if a kernel answers for a server that is not connected.
        opt state: Option<ServerState>,
    }

    /// Parameters of `mgp/health/status`.
    pub struct StatusParams {
        /// The id of the server to ask about; only in a request to a kernel.
        opt server_id: Option<String>,
    }

    /// Result of `mgp/health/status`.
    pub struct StatusResult {
        /// The health of the server.
        req status: HealthStatus,
        /// The id of the server, in an answer of a kernel.
        opt server_id: Option<String>,
        /// The state of the server, if a kernel answers for a server that cannot report its health.
        opt state: Option<ServerState>,
        /// The time since the server started, in seconds.
        opt uptime_secs: Option<Number>,
        /// The number of usable tools.
        opt tools_available read whole: Option<u64>,
        /// The number of all tools.
        opt tools_total read whole: Option<u64>,
        /// The number of running requests.
        opt pending_requests read whole: Option<u64>,
        /// Resource usage; the members are defined by the server.
        opt resources: Option<Object>,
        /// Results of health checks; the members are defined by the server.
        opt checks: Option<Object>,
    }

    /// Parameters of `mgp/lifecycle/shutdown`.
    pub struct ShutdownParams {
        /// The reason for the shutdown.
        opt reason: Option<ShutdownReason>,
        /// The time for which the server waits for running requests, in milliseconds.
        opt timeout_ms read rounded: Option<u64>,
        /// The id of the server to stop, in a request to a kernel; if absent, the receiver itself stops.
        opt server_id: Option<String>,
    }

    /// Result of `mgp/lifecycle/shutdown`.
    pub struct ShutdownResult {
        /// `true` if the server will stop.
        req accepted: bool,
        /// The number of running requests.
        opt pending_requests read whole: Option<u64>,
        /// The expected time until the running requests end, in milliseconds.
        opt estimated_drain_ms read rounded: Option<u64>,
        /// The id of the requested server, if the kernel did not find it.
        opt server_id: Option<String>,
        /// `not_found`, if the kernel did not find the requested server.
        opt status: Option<String>,
    }

    /// Parameters of `notifications/mgp.lifecycle`.
    pub struct LifecycleParams {
        /// The id of the server.
        opt server_id: Option<String>,
        /// The state that the server leaves.
        opt previous_state: Option<ServerState>,
        /// The state that the server enters.
        req new_state: ServerState,
        /// The reason for the change.
        opt reason: Option<String>,
        /// The time of the change.
        opt timestamp: Option<Timestamp>,
    }

    /// The restart settings of a server (§11.5).
    pub struct RestartConfig {
        /// The conditions for a restart.
        opt restart_policy: Option<RestartPolicy>,
        /// The maximum number of restarts within `restart_window_secs`.
        opt max_restarts: Option<u32>,
        /// The window in which restarts are counted, in seconds.
        opt restart_window_secs: Option<u64>,
        /// The delay before the first restart, in milliseconds.
        opt backoff_base_ms: Option<u64>,
        /// The maximum delay before a restart, in milliseconds.
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
