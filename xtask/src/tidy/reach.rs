//! The rule of `tidy` about configuration types of layer crates: users must be able to set each of them, and a test
//! must show its effect.

use super::{Violation, source::Source};

/// The folders of the crates to which the rule applies.
const CRATES: [&str; 6] = [
    "mgp-transport/src/",
    "mgp-lifecycle/src/",
    "mgp-stream/src/",
    "mgp-security/src/",
    "mgp-toolindex/src/",
    "mgp-discovery/src/",
];

/// The endings by which the rule recognises the names of configuration types.
const ENDS: [&str; 6] = ["Config", "Limits", "Limit", "Budget", "Quota", "Timeouts"];

/// The configuration types, each with the configuration key, flag or builder call that sets it, and a test of its
/// effect.
#[rustfmt::skip]
const REACHED: [(&str, &str, &str); 62] = [
    ("AgentConfig", "[agents.NAME]", "a_reload_changes_the_pinned_tools_the_surface_and_the_budget_of_an_agent"),
    ("AuditConfig", "kernel.audit.arguments", "a_reload_names_the_changed_audit_log_and_a_restart_applies_it"),
    ("AuditLogConfig", "[kernel.audit]", "a_reload_names_the_changed_audit_log_and_a_restart_applies_it"),
    ("AuditSinkConfig", "kernel.audit.sinks", "a_reload_names_the_changed_audit_log_and_a_restart_applies_it"),
    ("AuthConfig", "[servers.auth]", "a_reload_gives_a_kernel_credentials_of_its_own_and_takes_them_away"),
    ("CallLimits", "[limits]", "limits_hold_across_a_reload_a_restart_and_a_kill"),
    ("CallTimeouts", "servers.timeout", "a_reload_changes_the_timeout_of_a_running_server"),
    ("CircuitConfig", "ClientBuilder::retry", "a_restarted_server_does_not_inherit_an_open_circuit"),
    ("Config", "mgp.toml", "a_reload_starts_a_changed_server_again_and_leaves_the_others_running"),
    ("ConfineConfig", "[servers.confine]", "a_confined_server_reads_writes_and_connects_only_where_it_may"),
    ("ConnectConfig", "servers.mgp.on_ungranted", "a_reload_decides_whether_a_server_without_its_permissions_is_closed"),
    ("ConnectionLimits", "HttpServer::connections", "over_http_connections_are_counted"),
    ("DrainConfig", "Server::drain_handle", "running_calls_finish_before_a_server_is_stopped"),
    ("EventLimits", "EventHub::with_limits", "subscriptions_end_with_their_scope_and_are_bounded"),
    ("GovernanceConfig", "[servers.mgp]", "a_reload_changes_access_risk_trust_and_permissions_of_a_server_that_keeps_running"),
    ("HealthConfig", "Server::health", "a_status_has_real_figures_and_the_checks_of_its_author"),
    ("HistoryConfig", "[kernel.search]", "a_reload_names_the_search_that_learns_and_a_restart_begins_it"),
    ("HttpAccessConfig", "[kernel.http]", "a_reload_names_tokens_and_tls_of_http_and_a_restart_applies_them"),
    ("HttpClientConfig", "ClientBuilder::http", "an_oversized_message_fails_its_own_call_only"),
    ("HttpConfig", "HttpServer::config", "stored_events_are_bounded_and_their_ids_show_the_gap"),
    ("IdempotencyLimits", "Idempotency::with_limits", "keys_and_results_are_bounded"),
    ("InboxConfig", "kernel.approval_timeout", "the_time_of_an_approval_follows_a_reload"),
    ("KernelConfig", "[kernel]", "a_reload_changes_access_risk_trust_and_permissions_of_a_server_that_keeps_running"),
    ("LimitConfig", "limits.running", "a_reload_changes_how_many_calls_of_an_agent_run_at_once"),
    ("LoadedConfig", "mgp.toml", "a_reload_starts_a_changed_server_again_and_leaves_the_others_running"),
    ("LogConfig", "kernel.audit.dir", "a_reload_names_the_changed_audit_log_and_a_restart_applies_it"),
    ("MonitorConfig", "servers.health_interval", "a_reload_begins_the_health_checks_of_a_server"),
    ("ParsedConfig", "mgp.toml", "a_reload_starts_a_changed_server_again_and_leaves_the_others_running"),
    ("ProxyConfig", "kernel.proxy", "a_reload_changes_the_proxy_to_servers_elsewhere"),
    ("Quota", "Server::quota", "a_call_that_asks_counts_once_on_either_side"),
    ("RateLimit", "limits.calls_per_minute", "limits_hold_across_a_reload_a_restart_and_a_kill"),
    ("ReferencesConfig", "[kernel.references]", "a_change_of_the_references_is_logged_and_waits_for_a_restart"),
    ("RegistrationConfig", "KernelBuilder::registration", "pending_registrations_and_their_rate_are_bounded"),
    ("RestartConfig", "servers.mgp.restart_policy", "a_reload_changes_whether_a_server_that_ended_is_restarted"),
    ("ResultLimits", "[servers.results]", "a_reload_changes_how_much_of_a_result_reaches_an_agent"),
    ("ResultsConfig", "[kernel.results]", "a_reload_changes_how_much_of_a_result_reaches_an_agent"),
    ("RetryBudget", "ClientBuilder::retry", "ten_thousand_failing_calls_make_a_tenth_more_traffic"),
    ("RetryCallsConfig", "[servers.mgp.retry]", "failed_calls_are_repeated_as_the_table_says_before_and_after_a_reload"),
    ("RetryConfig", "ClientBuilder::retry", "ten_thousand_failing_calls_make_a_tenth_more_traffic"),
    ("RoundsConfig", "Server::rounds", "state_that_expired_is_refused"),
    ("SearchConfig", "[kernel.search]", "a_reload_names_the_search_that_learns_and_a_restart_begins_it"),
    ("ServerConfig", "[[servers]]", "a_reload_changes_the_variables_that_a_program_gets"),
    ("ServerLimits", "[servers.limits]", "limits_hold_across_a_reload_a_restart_and_a_kill"),
    ("SizeConfig", "limits.max_arguments", "limits_hold_across_a_reload_a_restart_and_a_kill"),
    ("SuperviseConfig", "servers.mgp.restart_policy", "a_reload_changes_whether_a_server_that_ended_is_restarted"),
    ("TargetConfig", "servers.command", "a_reload_starts_a_changed_server_again_and_leaves_the_others_running"),
    ("TelemetryConfig", "[kernel.telemetry]", "a_reload_names_the_collector_and_a_restart_sends_to_it"),
    ("TokenConfig", "[kernel.http.tokens]", "a_reload_names_tokens_and_tls_of_http_and_a_restart_applies_them"),
    ("ToolBudgetConfig", "[kernel.tool_context_budget]", "a_reload_changes_the_pinned_tools_the_surface_and_the_budget_of_an_agent"),
    ("EmailConfig", "kernel.notify.NAME.email", "a_reload_changes_the_places_where_a_person_learns_that_decisions_wait"),
    ("NotifyConfig", "[kernel.notify.NAME]", "a_reload_changes_the_places_where_a_person_learns_that_decisions_wait"),
    ("ConfirmConfig", "Confirmations::config", "a_person_is_not_asked_about_arguments_that_are_too_long_to_read"),
    ("IndexLimits", "ToolIndexBuilder::limits", "a_full_index_refuses_tools"),
    ("Limits", "servers.limits.max_message", "a_message_of_a_server_is_as_long_as_its_key_allows"),
    ("SentencesConfig", "kernel.search.encoder_library", "an_encoder_that_cannot_be_used_is_reported_and_search_goes_on"),
    ("SessionLimits", "Sessions::with_plan", "a_flood_of_one_principal_removes_only_its_own_sessions"),
    ("StderrLimits", "ChildCommand::stderr_cap", "stderr_becomes_capped_events"),
    ("TasksConfig", "Server::tasks", "a_server_keeps_no_more_tasks_than_its_configuration_allows"),
    ("Timeouts", "Server::timeouts", "a_routed_tool_call_keeps_the_time_limit_of_its_server"),
    ("WebhookConfig", "[kernel.webhooks.NAME]", "webhooks_are_added_changed_and_removed_while_the_kernel_runs"),
    ("ToolLimit", "mgp import", "an_agent_of_two_hosts_gets_what_one_of_them_offers"),
    ("ToolCreationConfig", "[tool_creation]", "no_tool_is_created_and_the_answer_has_the_reason"),
];

/// Refuses configuration types that are not in [`REACHED`], and entries of [`REACHED`] whose type or test does not
/// exist.
pub(super) fn configurations(sources: &[Source]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut names = Vec::new();
    for source in
        sources.iter().filter(|source| CRATES.iter().any(|of| source.path.starts_with(of)))
    {
        for (at, line) in source.text.lines().enumerate() {
            let Some(name) = configuration(line) else { continue };
            let is_listed = REACHED.iter().any(|(row, ..)| *row == name);
            if !is_listed {
                let what = format!(
                    "add `{name}` to the table in xtask/src/tidy/reach.rs, with the key that reaches it and a test"
                );
                found.push(Violation::new(format!("{}:{}", source.path, at + 1), what));
            }
            names.push(name);
        }
    }
    for (name, _, test) in REACHED {
        let place = format!("xtask/src/tidy/reach.rs: {name}");
        if !names.contains(&name) {
            found.push(Violation::new(place, "there is no such configuration"));
        } else if !sources.iter().any(|source| source.text.contains(&format!("fn {test}("))) {
            found.push(Violation::new(place, format!("there is no test `{test}`")));
        }
    }
    found
}

/// Returns the name of the configuration type that a line declares, if any.
fn configuration(line: &str) -> Option<&str> {
    let declared = line.strip_prefix("pub struct ").or(line.strip_prefix("pub enum "))?;
    let end = declared.find(|c: char| !c.is_alphanumeric()).unwrap_or(declared.len());
    Some(&declared[..end]).filter(|name| ENDS.iter().any(|end| name.ends_with(end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unlisted_configuration_and_a_missing_test_are_refused() {
        let source = |path: &str, text: &str| Source::new(path.to_owned(), text.to_owned());
        let layer = source("mgp-stream/src/new.rs", "//! A.\npub struct NewLimits {}\n");
        let found = configurations(&[layer]);
        assert_eq!(found[0].place, "mgp-stream/src/new.rs:2");
        assert!(found.iter().any(|one| one.what == "there is no such configuration"));
        let listed = source("mgp-stream/src/new.rs", "pub struct RestartConfig {}\n");
        let found = configurations(&[listed]);
        assert!(found.iter().any(|one| one.what.starts_with("there is no test")), "{found:?}");
    }
}
