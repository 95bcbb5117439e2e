//! The configuration of a supervisor: restart policy, limits and time-outs (MGP §11.5).

use std::time::Duration;

use mgp_types::mgp::{RestartConfig, RestartPolicy};

/// The upper limit of `max_restarts`. Each remembered restart takes 16 bytes, and a server that exceeds this number is
/// certainly in a crash loop.
const MAX_RESTARTS: u32 = 10_000;
/// Lower limit of the window for counting restarts. With an empty window, restarts would not be counted, and a crash
/// loop would never end.
const MIN_WINDOW: Duration = Duration::from_secs(1);
/// Upper limit of the window for counting restarts.
const MAX_WINDOW: Duration = Duration::from_hours(30 * 24);
const MAX_WAIT: Duration = Duration::from_hours(1);
const MIN_START_TIMEOUT: Duration = Duration::from_millis(1);
/// The number of times that the time limit of a start doubles after starts that exceeded it.
const MAX_DOUBLINGS: u32 = 2;

/// The configuration of a supervised server.
///
/// ```
/// use std::time::Duration;
/// use mgp_lifecycle::SuperviseConfig;
/// use mgp_types::mgp::{RestartConfig, RestartPolicy};
///
/// let file: RestartConfig =
///     serde_json::from_str(r#"{ "restart_policy": "always", "backoff_base_ms": 250 }"#).unwrap();
/// let config = SuperviseConfig::from(&file);
/// assert_eq!(config.policy, RestartPolicy::Always);
/// assert_eq!(config.backoff_base, Duration::from_millis(250));
/// assert_eq!(config.max_restarts, 5);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SuperviseConfig {
    /// The restart policy; an unknown policy counts as `never`. Default: `on_failure`.
    pub policy: RestartPolicy,
    /// Maximum number of restarts within the window; after one more failure the server stays in the state `error`.
    /// Default: 5, at most 10,000; with 0 there are no restarts.
    pub max_restarts: u32,
    /// If `false`, `max_restarts` does not apply, and the server is started again without limit. Default: `true`.
    pub gives_up: bool,
    /// Length of the window for counting restarts, measured in time that the server was connected. Default: 300 s; from
    /// 1 s to 30 days.
    ///
    /// The time for which the server waits, starts or stops does not count. So a crash loop ends in `error` however
    /// long its waits are.
    pub window: Duration,
    /// The wait before the first restart within the window; the wait doubles with each further restart. Default: 1 s,
    /// at most 1 h.
    pub backoff_base: Duration,
    /// The maximum wait before a restart, including the first restart. Default: 30 s, at most 1 h.
    pub backoff_max: Duration,
    /// The time limit of a start, handshake included. Default: 30 s, at most 1 h.
    ///
    /// After a start that exceeded the limit, the limit doubles, up to four times this value, until a start succeeds. A
    /// start that got too little of the processors, e.g. because many servers start at the same time, would otherwise
    /// fail again. Without `gives_up` the limit stays the same.
    pub start_timeout: Duration,
    /// The time limit of a stop, after which the server is killed. Default: 60 s, at most 1 h.
    pub stop_timeout: Duration,
}

impl Default for SuperviseConfig {
    fn default() -> Self {
        Self {
            policy: RestartPolicy::OnFailure,
            max_restarts: 5,
            gives_up: true,
            window: Duration::from_mins(5),
            backoff_base: Duration::from_secs(1),
            backoff_max: Duration::from_secs(30),
            start_timeout: Duration::from_secs(30),
            stop_timeout: Duration::from_mins(1),
        }
    }
}

impl From<&RestartConfig> for SuperviseConfig {
    fn from(file: &RestartConfig) -> Self {
        let default = Self::default();
        Self {
            policy: file.restart_policy.clone().unwrap_or(default.policy),
            max_restarts: file.max_restarts.unwrap_or(default.max_restarts),
            window: file.restart_window_secs.map_or(default.window, Duration::from_secs),
            backoff_base: file.backoff_base_ms.map_or(default.backoff_base, Duration::from_millis),
            backoff_max: file.backoff_max_ms.map_or(default.backoff_max, Duration::from_millis),
            ..default
        }
    }
}

impl SuperviseConfig {
    /// Returns the time limit of a start after many starts that exceeded theirs.
    #[must_use]
    pub fn longest_start(&self) -> Duration {
        self.start_limit(MAX_DOUBLINGS)
    }

    /// Returns the time limit of a start after this number of starts that exceeded theirs.
    pub(super) fn start_limit(&self, missed_starts: u32) -> Duration {
        let doublings = if self.gives_up { missed_starts.min(MAX_DOUBLINGS) } else { 0 };
        self.start_timeout.saturating_mul(1 << doublings).min(MAX_WAIT)
    }

    /// Replaces every value out of range by the nearest allowed value, and an unknown policy by `never`.
    pub(super) fn bounded(mut self) -> Self {
        if let RestartPolicy::Other(word) = &self.policy {
            tracing::warn!(
                policy = %word,
                "unknown restart policy, using `never`; known: never, on_failure, always"
            );
            self.policy = RestartPolicy::Never;
        }
        self.max_restarts = self.max_restarts.min(MAX_RESTARTS);
        self.window = self.window.clamp(MIN_WINDOW, MAX_WINDOW);
        self.backoff_max = self.backoff_max.min(MAX_WAIT);
        self.backoff_base = self.backoff_base.min(self.backoff_max);
        self.start_timeout = self.start_timeout.clamp(MIN_START_TIMEOUT, MAX_WAIT);
        self.stop_timeout = self.stop_timeout.min(MAX_WAIT);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_brought_within_their_bounds() {
        let mut config = SuperviseConfig::default();
        assert_eq!(config.clone().bounded(), config);
        config.policy = RestartPolicy::from("sometimes");
        (config.max_restarts, config.window) = (u32::MAX, Duration::ZERO);
        (config.backoff_base, config.backoff_max) = (Duration::MAX, Duration::from_secs(2));
        (config.start_timeout, config.stop_timeout) = (Duration::ZERO, Duration::MAX);
        let config = config.bounded();
        assert_eq!(config.policy, RestartPolicy::Never);
        assert_eq!((config.max_restarts, config.window), (MAX_RESTARTS, MIN_WINDOW));
        assert_eq!(
            (config.backoff_base, config.backoff_max),
            (config.backoff_max, Duration::from_secs(2))
        );
        assert_eq!((config.start_timeout, config.stop_timeout), (MIN_START_TIMEOUT, MAX_WAIT));
    }

    #[test]
    fn a_file_may_omit_all_members_and_may_have_unknown_ones() {
        let read =
            |text| SuperviseConfig::from(&serde_json::from_str::<RestartConfig>(text).unwrap());
        assert_eq!(read("{}"), SuperviseConfig::default());
        assert_eq!(read(r#"{"colour":"blue","max_restarts":null}"#), SuperviseConfig::default());
        assert_eq!(read(r#"{"restart_window_secs":7}"#).window, Duration::from_secs(7));
        assert_eq!(
            read(r#"{"backoff_max_ms":18446744073709551615}"#).bounded().backoff_max,
            MAX_WAIT
        );
    }
}
