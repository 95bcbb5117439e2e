//! Translates settings in `mgp.toml` to settings of the layers (MGP §15.2).

use std::time::Duration;

use mgp_discovery::{
    ApprovedRegistration, ConfirmLevel, KernelConfig, OnUngranted, RestartConfig, ServerConfig,
    TargetConfig,
};
use mgp_lifecycle::{
    FallbackPolicy, KeyPolicy, MonitorConfig, RetryConfig, RoundsConfig, SuperviseConfig,
    UngrantedPolicy,
};
use mgp_security::{ConfirmFrom, ServerPolicy};

/// Returns the policy of a configured server. Without `[servers.mgp]`, it consists of the defaults and the general
/// settings of the kernel.
pub(super) fn policy(kernel: &KernelConfig, server: &ServerConfig) -> ServerPolicy {
    let general = kernel.permission_policy.clone();
    let mut defaults = ServerPolicy::default()
        .auto_approve_except(kernel.auto_approve_except.clone())
        .check_schemas(server.check_arguments)
        .default_validators(true);
    if let Some(tenants) = &server.tenants {
        defaults = defaults.tenants(tenants);
    }
    let Some(mgp) = &server.mgp else {
        return defaults.permission_policy(general);
    };
    let mut policy = defaults
        .trust(mgp.trust_level.clone())
        .default_policy(mgp.default_policy)
        .permission_policy(mgp.permission_policy.clone().unwrap_or(general))
        .permissions(mgp.permissions.iter().cloned())
        .permissions_required(mgp.permissions_required.iter().cloned())
        .permission_limits(mgp.permission_limits.clone())
        .local_hosts(mgp.local_hosts.iter().cloned())
        .confirm(match mgp.confirm {
            ConfirmLevel::Moderate => ConfirmFrom::Moderate,
            _ => ConfirmFrom::Dangerous,
        });
    for (tool, risk) in &mgp.risk {
        policy = policy.risk(tool.as_str(), risk.clone());
    }
    for (tool, validator) in &mgp.validators {
        policy = policy.validator(tool.as_str(), validator.clone());
    }
    policy
}

/// Returns the policy of a server that was registered at run time.
pub(super) fn registered_policy(
    kernel: &KernelConfig,
    approved: &ApprovedRegistration,
) -> ServerPolicy {
    policy(kernel, &approved.server).deny(approved.denied.iter().cloned())
}

/// Returns the time for which a connection waits for decisions about permissions, and what happens if a permission is
/// still missing after it.
pub(super) fn permission_flow(server: &ServerConfig) -> (Duration, UngrantedPolicy) {
    let mgp = server.mgp.clone().unwrap_or_default();
    let ungranted = match mgp.on_ungranted {
        OnUngranted::Close => UngrantedPolicy::Close,
        _ => UngrantedPolicy::Proceed,
    };
    (mgp.permission_timeout, ungranted)
}

/// Returns whether a server is reached at a URL, i.e. is not a process that the kernel starts.
pub(super) fn is_remote(server: &ServerConfig) -> bool {
    matches!(server.target, TargetConfig::Url { .. })
}

/// Returns the limits for repeating calls of a server, if the configuration allows it.
pub(super) fn retries(server: &ServerConfig) -> Option<RetryConfig> {
    let retry = server.mgp.as_ref()?.retry.as_ref()?;
    let mut config = RetryConfig::default();
    config.max_retries = retry.attempts.saturating_sub(1);
    config.max_wait = retry.max_wait;
    config.total_timeout = retry.total_timeout;
    config.budget.percent = retry.budget_percent;
    config.circuit.failures = retry.circuit_failures;
    config.circuit.open_for = retry.circuit_open;
    if !retry.fallback {
        config.fallback = FallbackPolicy::Never;
    }
    if retry.keys {
        config.keys = KeyPolicy::Added;
    }
    Some(config)
}

/// Returns the intervals and limits of a server's health checks, if they are configured.
pub(super) fn health_checks(server: &ServerConfig) -> Option<MonitorConfig> {
    let mut config = MonitorConfig::default();
    config.interval = server.health_interval?;
    config.timeout = config.timeout.min(config.interval);
    Some(config)
}

/// The maximum size, in bytes, of the state of a call while its caller answers questions. The state contains the
/// questions, the state of the server and, for a legacy server, all answers. So it can be larger than the state that a
/// tool may keep.
const MAX_ROUND_STATE_BYTES: usize = 4 * 1024 * 1024;

/// Returns the limits of calls that callers repeat with answers to questions. The state of such a call stays valid for
/// at least a minute longer than a person has time to answer a form.
pub(super) fn round_limits(form_timeout: Duration) -> RoundsConfig {
    let mut limits = RoundsConfig::default();
    limits.ttl = limits.ttl.max(form_timeout.saturating_add(Duration::from_mins(1)));
    limits.state_bytes = MAX_ROUND_STATE_BYTES;
    limits
}

/// Returns the conditions and delays for restarting a server.
pub(super) fn supervision(server: &ServerConfig) -> SuperviseConfig {
    let RestartConfig { policy, max, window, backoff_base, backoff_max, .. } =
        server.mgp.as_ref().map(|mgp| mgp.restart.clone()).unwrap_or_default();
    let mut config = SuperviseConfig::default();
    config.policy = policy;
    config.max_restarts = max;
    config.window = window;
    config.backoff_base = backoff_base;
    config.backoff_max = backoff_max;
    config.start_timeout = server.start_timeout();
    // Never stop trying to connect to a server at a URL, because it runs elsewhere and can return at any time.
    config.gives_up = !is_remote(server);
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_modern_host_can_answer_a_form_for_as_long_as_it_waits() {
        let ttl = |minutes: u64| round_limits(Duration::from_mins(minutes)).ttl;
        assert_eq!((ttl(10), ttl(60)), (Duration::from_mins(15), Duration::from_mins(61)));
    }
}
