//! Which members the examples of the specification cannot do without, and which have a type.
//!
//! Written from the specification, not from our types: this is what the types are checked against.
//! Members of the JSON-RPC envelope are known without a list.

/// The members of one example, as JSON pointers.
pub(super) struct Members {
    /// How the name of the file begins.
    pub(super) file: &'static str,
    /// A copy without one of them is refused.
    pub(super) required: &'static [&'static str],
    /// A copy with one of them of the wrong kind is refused, and so is one of the above.
    pub(super) typed: &'static [&'static str],
}

/// The members of each example.
pub(super) const MEMBERS: &[Members] = &[
    Members { file: "01.5-1", required: &[], typed: &[] },
    Members {
        file: "02.2-1",
        required: &[
            "/params/protocolVersion",
            "/params/capabilities",
            "/params/clientInfo",
            "/params/clientInfo/name",
            "/params/clientInfo/version",
            "/params/capabilities/mgp/version",
            "/params/capabilities/mgp/extensions",
        ],
        typed: &[],
    },
    Members {
        file: "02.3-1",
        required: &[
            "/result/protocolVersion",
            "/result/capabilities",
            "/result/serverInfo",
            "/result/serverInfo/name",
            "/result/serverInfo/version",
            "/result/capabilities/mgp/version",
            "/result/capabilities/mgp/extensions",
        ],
        typed: &[
            "/result/capabilities/mgp/permissions_required",
            "/result/capabilities/mgp/server_id",
            "/result/capabilities/mgp/trust_level",
        ],
    },
    Members {
        file: "03.5-1",
        required: &["/params/request_id", "/params/permissions", "/params/policy"],
        typed: &["/params/message"],
    },
    Members {
        file: "03.6-1",
        required: &["/result/request_id", "/result/grants"],
        typed: &["/result/approved_by", "/result/expires_at"],
    },
    Members {
        file: "04.2-1",
        required: &["/name", "/inputSchema", "/security/risk_level"],
        typed: &[
            "/description",
            "/security/permissions_required",
            "/security/side_effects",
            "/security/validator",
            "/security/reversible",
            "/security/confirmation_required",
        ],
    },
    Members {
        file: "05.4-1",
        required: &["/params/agent_id", "/params/server_id"],
        typed: &["/params/tool_name"],
    },
    Members {
        file: "05.4-2",
        required: &["/result/permission"],
        typed: &["/result/source", "/result/granted_by", "/result/granted_at"],
    },
    Members {
        file: "05.4-3",
        required: &[
            "/params/entry_type",
            "/params/agent_id",
            "/params/server_id",
            "/params/permission",
        ],
        typed: &["/params/granted_by", "/params/justification"],
    },
    Members {
        file: "05.4-4",
        required: &["/params/agent_id", "/params/server_id", "/params/entry_type"],
        typed: &[],
    },
    Members {
        file: "06.3-1",
        required: &[
            "/params/timestamp",
            "/params/event_type",
            "/params/actor",
            "/params/actor/type",
            "/params/actor/id",
            "/params/result",
        ],
        typed: &[
            "/params/trace_id",
            "/params/target",
            "/params/target/server_id",
            "/params/target/tool_name",
        ],
    },
    Members {
        file: "07.3-1",
        required: &["/name", "/security/risk_level"],
        typed: &[
            "/security/permissions_required",
            "/security/validator",
            "/security/code_safety/level",
            "/security/code_safety/language",
            "/security/code_safety/max_code_size_bytes",
            "/security/code_safety/blocked_imports",
            "/security/code_safety/blocked_patterns",
            "/security/code_safety/allowed_imports",
        ],
    },
    Members {
        file: "07.4-1",
        required: &["/status"],
        typed: &[
            "/reason",
            "/violations",
            "/hints/blocked_imports",
            "/hints/allowed_imports",
            "/hints/max_code_size_bytes",
        ],
    },
    Members { file: "11.3-1", required: &[], typed: &["/params/timestamp"] },
    Members {
        file: "11.3-2",
        required: &["/result/status"],
        typed: &["/result/timestamp", "/result/uptime_secs", "/result/server_id"],
    },
    Members { file: "11.3-3", required: &[], typed: &[] },
    Members {
        file: "11.3-4",
        required: &["/result/status"],
        typed: &[
            "/result/uptime_secs",
            "/result/tools_available",
            "/result/tools_total",
            "/result/pending_requests",
        ],
    },
    Members { file: "11.4-1", required: &[], typed: &["/params/reason", "/params/timeout_ms"] },
    Members {
        file: "11.4-2",
        required: &["/result/accepted"],
        typed: &["/result/pending_requests", "/result/estimated_drain_ms"],
    },
    Members {
        file: "11.4-3",
        required: &["/params/server_id", "/params/previous_state", "/params/new_state"],
        typed: &["/params/reason", "/params/timestamp"],
    },
    Members {
        file: "11.5-1",
        required: &["/restart_policy"],
        typed: &["/max_restarts", "/restart_window_secs", "/backoff_base_ms", "/backoff_max_ms"],
    },
    Members { file: "12.2-1", required: &["/mgp/version", "/mgp/extensions"], typed: &[] },
    Members {
        file: "12.3-1",
        required: &["/params/name"],
        typed: &["/params/arguments", "/params/_mgp/stream"],
    },
    Members {
        file: "12.4-1",
        required: &["/params/request_id", "/params/index", "/params/content"],
        typed: &["/params/done"],
    },
    Members {
        file: "12.4-2",
        required: &["/params/request_id", "/params/index", "/params/content"],
        typed: &["/params/done"],
    },
    Members {
        file: "12.5-1",
        required: &["/result/content"],
        typed: &["/result/_mgp/streamed", "/result/_mgp/chunks_sent", "/result/_mgp/duration_ms"],
    },
    Members {
        file: "12.6-1",
        required: &["/params/request_id", "/params/progress"],
        typed: &["/params/message", "/params/estimated_remaining_ms"],
    },
    Members { file: "12.7-1", required: &["/params/request_id"], typed: &["/params/reason"] },
    Members {
        file: "12.7-2",
        required: &["/result/cancelled"],
        typed: &["/result/partial_result"],
    },
    Members { file: "13.2-1", required: &["/params/channels"], typed: &[] },
    Members {
        file: "13.2-2",
        required: &["/result/subscribed", "/result/subscription_id"],
        typed: &["/result/unsupported"],
    },
    Members { file: "13.2-3", required: &["/params/subscription_id"], typed: &[] },
    Members {
        file: "13.3-1",
        required: &["/params/subscription_id", "/params/channel"],
        typed: &["/params/timestamp"],
    },
    Members {
        file: "13.4-1",
        required: &["/params/callback_id", "/params/type"],
        typed: &["/params/request_id", "/params/message", "/params/options", "/params/timeout_ms"],
    },
    Members { file: "13.4-2", required: &["/params/callback_id"], typed: &[] },
    Members {
        file: "14.4-1",
        required: &["/error/code", "/error/message"],
        typed: &[
            "/error/data/_mgp/category",
            "/error/data/_mgp/retryable",
            "/error/data/_mgp/retry_after_ms",
            "/error/data/_mgp/retry_strategy",
            "/error/data/_mgp/max_retries",
        ],
    },
    Members {
        file: "15.2-1",
        required: &[],
        typed: &[
            "/params/filter/extensions",
            "/params/filter/permissions",
            "/params/filter/status",
        ],
    },
    Members {
        file: "15.2-2",
        required: &["/result/servers", "/result/servers/0/id", "/result/servers/0/status"],
        typed: &[
            "/result/servers/0/mgp_version",
            "/result/servers/0/extensions",
            "/result/servers/0/tools",
            "/result/servers/0/trust_level",
        ],
    },
    Members {
        file: "15.4-1",
        required: &["/params/id"],
        typed: &[
            "/params/command",
            "/params/args",
            "/params/transport",
            "/params/mgp/extensions",
            "/params/mgp/permissions_required",
            "/params/mgp/trust_level",
            "/params/created_by",
            "/params/justification",
        ],
    },
    Members { file: "15.5-1", required: &["/params/id"], typed: &["/params/reason"] },
    Members { file: "16.2-1", required: &["/mgp/version", "/mgp/extensions"], typed: &[] },
    Members {
        file: "16.4-1",
        required: &["/tool_id", "/server_id", "/name", "/security/risk_level"],
        typed: &["/description", "/categories", "/keywords"],
    },
    Members {
        file: "16.5-1",
        required: &["/params/query"],
        typed: &[
            "/params/strategy",
            "/params/max_results",
            "/params/filter/categories",
            "/params/filter/risk_level_max",
            "/params/filter/status",
        ],
    },
    Members {
        file: "16.5-2",
        required: &["/result/tools", "/result/tools/0/name", "/result/tools/0/security/risk_level"],
        typed: &[
            "/result/tools/0/server_id",
            "/result/tools/0/description",
            "/result/tools/0/relevance_score",
            "/result/total_available",
            "/result/search_strategy",
            "/result/query_time_ms",
        ],
    },
    Members {
        file: "16.6-1",
        required: &["/params/reason"],
        typed: &[
            "/params/context",
            "/params/requirements/capabilities",
            "/params/requirements/input_types",
            "/params/requirements/output_types",
            "/params/requirements/preferred_risk_level",
            "/params/task_trace_id",
        ],
    },
    Members {
        file: "16.6-2",
        required: &["/result/status"],
        typed: &[
            "/result/tools_loaded",
            "/result/tools_unavailable",
            "/result/session_tools_count",
            "/result/context_tokens_added",
        ],
    },
    Members { file: "16.7-1", required: &[], typed: &[] },
    Members {
        file: "16.7-2",
        required: &["/result/pinned", "/result/cached"],
        typed: &["/result/total_tokens", "/result/max_tokens"],
    },
    Members { file: "16.7-3", required: &["/params/tools"], typed: &["/params/reason"] },
    Members {
        file: "16.8-1",
        required: &["/tool_context_budget/max_tokens"],
        typed: &[
            "/tool_context_budget/pinned_reserve",
            "/tool_context_budget/discovery_reserve",
            "/tool_context_budget/cache_limit",
        ],
    },
];
