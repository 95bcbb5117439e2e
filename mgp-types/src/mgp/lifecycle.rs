//! Health, shutdown, states, restarts (MGP §11).
//!
//! Applies to: both.

use crate::Timestamp;
use crate::record::{Number, Object, open_enum, record};

open_enum! {
    /// The state of a server (§11.2).
    pub enum ServerState {
        /// Configured, not started.
        Registered = "registered" | "Registered",
        /// Starting.
        Connecting = "connecting" | "Connecting",
        /// At work.
        Connected = "connected" | "Connected",
        /// Finishing what it has.
        Draining = "draining" | "Draining",
        /// Stopped.
        Disconnected = "disconnected" | "Disconnected",
        /// Failed.
        Error = "error" | "Error",
        /// Being restarted.
        Restarting = "restarting" | "Restarting",
    }

    /// How well a server is (§11.3).
    pub enum HealthStatus {
        /// Well.
        Healthy = "healthy",
        /// Limited.
        Degraded = "degraded",
        /// Failing, but answering.
        Unhealthy = "unhealthy",
    }

    /// Why a server stops (§11.4).
    pub enum ShutdownReason {
        /// A person wants it.
        OperatorRequest = "operator_request",
        /// The configuration changed.
        ConfigurationChange = "configuration_change",
        /// It uses too much.
        ResourceLimit = "resource_limit",
        /// Nobody uses it.
        IdleTimeout = "idle_timeout",
        /// The kernel stops.
        KernelShutdown = "kernel_shutdown",
    }

    /// When a server is restarted (§11.5).
    pub enum RestartPolicy {
        /// Never.
        Never = "never",
        /// After a failure.
        OnFailure = "on_failure",
        /// After any exit.
        Always = "always",
    }
}

impl ServerState {
    /// The state that a word means in whatever case it is written; words nobody knows stay as they are.
    #[must_use]
    pub fn in_any_case(self) -> Self {
        let known =
            Self::KNOWN.iter().find(|state| state.as_str().eq_ignore_ascii_case(self.as_str()));
        known.cloned().unwrap_or(self)
    }

    /// Whether a server may go from this state to another: the edges of §11.2, and those a crash,
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
        /// When it was sent.
        opt timestamp: Option<Timestamp>,
        /// The server that is meant, where one asks a kernel.
        opt server_id: Option<String>,
    }

    /// Result of `mgp/health/ping`.
    pub struct PingResult {
        /// How well the server is.
        req status: HealthStatus,
        /// When it answered.
        opt timestamp: Option<Timestamp>,
        /// How long it runs.
        opt uptime_secs: Option<Number>,
        /// The id the server claims.
        opt server_id: Option<String>,
    }

    /// Parameters of `mgp/health/status`.
    pub struct StatusParams {
        /// The server that is meant, where one asks a kernel.
        opt server_id: Option<String>,
    }

    /// Result of `mgp/health/status`.
    pub struct StatusResult {
        /// How well the server is.
        req status: HealthStatus,
        /// The server, where a kernel was asked for one.
        opt server_id: Option<String>,
        /// How long it runs.
        opt uptime_secs: Option<Number>,
        /// How many tools work.
        opt tools_available: Option<u64>,
        /// How many there are.
        opt tools_total: Option<u64>,
        /// How many requests are running.
        opt pending_requests: Option<u64>,
        /// What it uses; any names.
        opt resources: Option<Object>,
        /// What it checked; any names.
        opt checks: Option<Object>,
    }

    /// Parameters of `mgp/lifecycle/shutdown`.
    pub struct ShutdownParams {
        /// Why.
        opt reason: Option<ShutdownReason>,
        /// How long running requests may take.
        opt timeout_ms: Option<u64>,
        /// The server behind this one that is meant; this one without it.
        opt server_id: Option<String>,
    }

    /// Result of `mgp/lifecycle/shutdown`.
    pub struct ShutdownResult {
        /// Whether it will.
        req accepted: bool,
        /// How many requests are running.
        opt pending_requests: Option<u64>,
        /// How long they may take.
        opt estimated_drain_ms: Option<u64>,
        /// The server that was named, where it was not found.
        opt server_id: Option<String>,
        /// `not_found`, where it was not.
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
        /// Why.
        opt reason: Option<String>,
        /// When.
        opt timestamp: Option<Timestamp>,
    }

    /// When and how a server is restarted (§11.5).
    pub struct RestartConfig {
        /// When.
        opt restart_policy: Option<RestartPolicy>,
        /// How often within the window.
        opt max_restarts: Option<u32>,
        /// The window.
        opt restart_window_secs: Option<u64>,
        /// The first wait.
        opt backoff_base_ms: Option<u64>,
        /// The longest wait.
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
