//! The members that MGP adds to messages of MCP, with the extension that each requires.

use crate::mgp::Extension;

/// A member that MGP adds to an MCP message, and the extension that a peer must have negotiated to receive it.
#[derive(Debug)]
#[non_exhaustive]
pub struct MemberInfo {
    /// The path of the member in the message, e.g. `params._mgp.stream`.
    pub path: &'static str,
    /// The method of the message; empty if messages of every method can have the member.
    pub method: &'static str,
    /// The section of MGP (e.g. `12.3`) or the proposal (e.g. `proposal 5`) that defines the member.
    pub section: &'static str,
    /// The extension that the peer must have negotiated; `None` if MGP itself is enough, or if the member is part of the
    /// negotiation.
    pub extension: Option<Extension>,
    /// `true` if the member is accepted but never sent.
    pub read_only: bool,
}

macro_rules! members {
    ($( $path:literal in $method:literal, $section:literal, $extension:expr $(, $read:ident)?; )+) => {
        /// All members that MGP adds to MCP messages.
        pub static MEMBERS: &[MemberInfo] = &[$(
            MemberInfo {
                path: $path,
                method: $method,
                section: $section,
                extension: $extension,
                read_only: members!(@read $($read)?),
            },
        )+];
    };
    (@read) => { false };
    (@read read) => { true };
}

members! {
    "params.capabilities.mgp" in "initialize", "2.2", None;
    "params.capabilities.extensions[\"dev.cloto/mgp\"]" in "initialize", "2.2", None, read;
    "params.capabilities.experimental.mgp" in "initialize", "2.2", None, read;
    "result.capabilities.mgp" in "initialize", "2.3", None;
    "result.capabilities.extensions[\"dev.cloto/mgp\"]" in "initialize", "2.3", None;
    "result.capabilities.experimental.mgp" in "initialize", "2.3", None;
    "result.capabilities.extensions[\"dev.cloto/mgp\"]" in "server/discover", "2.3", None;
    "params._meta[\"io.modelcontextprotocol/clientCapabilities\"].extensions[\"dev.cloto/mgp\"]" in "", "2.2", None;
    "params._meta[\"dev.cloto/mgp\"]" in "", "2.2", None;
    "params._meta[\"dev.cloto/mgp\"].grants" in "", "3.6", Some(Extension::Permissions);
    "params._meta[\"dev.cloto/mgp/grants\"]" in "", "3.6", Some(Extension::Permissions);
    "result.tools[].security" in "tools/list", "4.2", Some(Extension::ToolSecurity);
    "result.tools[]._meta[\"dev.cloto/mgp\"].security" in "tools/list", "4.2", Some(Extension::ToolSecurity);
    "params.trace_id" in "", "6.5", None;
    "params._mgp.trace_id" in "", "6.5", None, read;
    "params._meta.trace_id" in "", "6.5", None, read;
    "params._mgp.stream" in "tools/call", "12.3", Some(Extension::Streaming);
    "params.stream" in "tools/call", "12.3", Some(Extension::Streaming), read;
    "params._meta.mgp.stream" in "tools/call", "12.3", Some(Extension::Streaming), read;
    "params._mgp.server_id" in "tools/call", "16.5", Some(Extension::ToolDiscovery), read;
    "params._mgp.session_handle" in "tools/list", "16.7", Some(Extension::ToolDiscovery), read;
    "params._mgp.session_handle" in "tools/call", "16.7", Some(Extension::ToolDiscovery), read;
    "params._mgp.delegation" in "tools/call", "5.6", Some(Extension::Delegation), read;
    "result._mgp" in "tools/call", "12.5", Some(Extension::Streaming);
    "result._mgp.source" in "tools/call", "16.5", None;
    "params._mgp.seq" in "notifications/mgp.audit", "6.3", Some(Extension::Audit);
    "params._mgp.seq" in "notifications/mgp.event", "13.3", Some(Extension::Events);
    "params._mgp.depth" in "notifications/mgp.event", "13.3", Some(Extension::Events);
    "params._mgp.dropped" in "notifications/mgp.event", "13.3", Some(Extension::Events);
    "params._mgp.server_id" in "notifications/mgp.event", "13.3", Some(Extension::Events);
    "params._mgp.events" in "subscriptions/listen", "13.3", Some(Extension::Events);
    "params._mgp.attempt" in "notifications/mgp.callback.request", "13.4", Some(Extension::Callbacks);
    "error.data._mgp" in "", "14.4", None;
    "error.data.error" in "", "proposal 11", Some(Extension::StructuredErrors);
    "result.structuredContent.error" in "tools/call", "proposal 11", Some(Extension::StructuredErrors);
    "result._meta.cost" in "tools/call", "proposal 3", Some(Extension::CostHints);
    "result.tools[]._meta.cost" in "tools/list", "proposal 3", Some(Extension::CostHints);
    "result.tools[]._meta.latency" in "tools/list", "proposal 3", Some(Extension::CostHints);
    "result.tools[]._meta.quota" in "tools/list", "proposal 3", Some(Extension::CostHints);
    "result.tools[]._meta.required_scopes" in "tools/list", "proposal 4", Some(Extension::Scopes);
    "params._meta.session_token" in "tools/call", "proposal 4", Some(Extension::Scopes);
    "result.tools[]._meta.requires_confirmation" in "tools/list", "proposal 6", Some(Extension::HumanInTheLoop);
    "result.tools[]._meta.confirmation_message" in "tools/list", "proposal 6", Some(Extension::HumanInTheLoop);
    "result.tools[]._meta.risk_level" in "tools/list", "proposal 6", Some(Extension::HumanInTheLoop);
    "params._meta.confirmation_token" in "tools/call", "proposal 6", Some(Extension::HumanInTheLoop);
    "params._meta.user_confirmed" in "tools/call", "proposal 6", Some(Extension::HumanInTheLoop);
    "params._meta.intent" in "tools/call", "proposal 2", Some(Extension::IntentHints);
    "result._meta.suggestion" in "tools/call", "proposal 2", Some(Extension::IntentHints);
    "params._meta.idempotency_key" in "tools/call", "proposal 5", Some(Extension::Idempotency);
    "params._meta.idempotency_ttl_seconds" in "tools/call", "proposal 5", Some(Extension::Idempotency);
    "result._meta.idempotency_key" in "tools/call", "proposal 5", Some(Extension::Idempotency);
    "result._meta.was_replay" in "tools/call", "proposal 5", Some(Extension::Idempotency);
    "result._meta.original_timestamp" in "tools/call", "proposal 5", Some(Extension::Idempotency);
    "params._meta.transaction_id" in "tools/call", "proposal 5", Some(Extension::Transactions);
    "params._meta.step_id" in "tools/call", "proposal 5", Some(Extension::Transactions);
    "params._meta.compensation" in "tools/call", "proposal 5", Some(Extension::Transactions);
    "result._meta.transaction_id" in "tools/call", "proposal 5", Some(Extension::Transactions);
    "result._meta.step_id" in "tools/call", "proposal 5", Some(Extension::Transactions);
    "result._meta.compensation" in "tools/call", "proposal 5", Some(Extension::Transactions);
    "result._meta.provenance" in "tools/call", "proposal 7", Some(Extension::Provenance);
    "result._meta.provenance_hops" in "tools/call", "proposal 7", Some(Extension::Provenance);
    "result.tools[].input_types" in "tools/list", "proposal 10", Some(Extension::MultimodalSignatures);
    "result.tools[].output_types" in "tools/list", "proposal 10", Some(Extension::MultimodalSignatures);
    "result.tools[].max_input_size_bytes" in "tools/list", "proposal 10", Some(Extension::MultimodalSignatures);
    "result.tools[].binary_transport" in "tools/list", "proposal 10", Some(Extension::MultimodalSignatures);
    "result.recommendations" in "mgp/tools/request", "proposal 13", Some(Extension::ServerRecommendations);
    "params._meta.session_state" in "tools/call", "proposal 14", Some(Extension::SessionState);
    "result._meta.session_state" in "tools/call", "proposal 14", Some(Extension::SessionState);
    "result._meta.state_changed" in "tools/call", "proposal 14", Some(Extension::SessionState);
    "params._meta.checkpoints" in "tools/call", "proposal 8", Some(Extension::Checkpoint);
    "params._meta.resume" in "tools/call", "proposal 8", Some(Extension::Checkpoint);
    "params._meta.data_reference" in "tools/call", "proposal 9", Some(Extension::DataReferences);
    "result._meta.data_reference" in "tools/call", "proposal 9", Some(Extension::DataReferences);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_belong_to_known_methods() {
        for member in MEMBERS {
            assert!(
                member.method.is_empty() || crate::method::lookup(member.method).is_some(),
                "{}",
                member.path
            );
        }
    }
}
