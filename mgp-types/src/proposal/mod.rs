//! Proposals: extensions beyond the sections of MGP, and the members that they add to tool calls and results. Each
//! proposal applies only if both sides negotiated it.
//!
//! Each proposal has a module with its messages. A member that travels in the `_meta` of calls or results is a type
//! that implements [`Member`]; [`CallMembers`] and [`ResultMembers`] hold these members while a call passes the layers.
//! `docs/an-extension.md` explains how to add a proposal.

mod checkpoint;
mod confirmation;
mod cost;
mod data_reference;
mod idempotency;
mod intent;
mod manifest;
mod media;
#[cfg(feature = "service")]
mod members;
mod provenance;
mod recommendation;
mod scope;
mod session_state;
mod stream_terms;
mod structured_error;
mod tool_members;
mod transaction;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use checkpoint::{Checkpoint, WantsCheckpoints};
pub use confirmation::{
    ConfirmationRequired, ConfirmationRisk, ConfirmationStatus, ConfirmationToken,
    ToolConfirmation, UserConfirmed, fill_message,
};
pub use cost::{ActualCost, CostCategory, CostHints, LatencyClass, ToolCost, ToolQuota};
pub use data_reference::{Checksum, DataReference};
pub use idempotency::{
    IdempotencyHeader, IdempotencyKey, IdempotencyTtl, OriginalTimestamp, WasReplay,
};
pub use intent::{Intent, Suggestion};
pub use manifest::{
    ManifestAuth, ManifestParams, ManifestRateLimit, ManifestScope, ManifestServer, ManifestTool,
    ServiceManifest,
};
pub use media::{BinaryTransport, MediaSignature, check_input_size};
#[cfg(feature = "service")]
pub use members::{CallMembers, ResultMembers};
pub use provenance::{
    Confidence, Provenance, ProvenanceHop, ProvenanceHops, SourceLocation, Sources,
};
pub use recommendation::{
    MatchConfidence, MatchLevel, RecommendServersParams, RecommendServersResult,
    ServerRecommendation,
};
pub use scope::{
    CheckPermissionsParams, CheckPermissionsResult, DeniedScope, NegotiateScopesParams,
    NegotiateScopesResult, RevokeScopesParams, RevokeScopesResult, ScopeSession, SessionToken,
    required_scopes, temporary,
};
pub use session_state::{SessionState, StateChanged};
pub use stream_terms::{OperationChunk, OperationProgress};
pub use structured_error::{ErrorKind, StructuredError};
use tool_members::ToolMembers;
pub use tool_members::{copy_tool_members, hide_tool_members};
pub use transaction::{
    BeginTransactionParams, BeginTransactionResult, Compensation, EndTransactionParams,
    EndTransactionResult, ListTransactionsParams, ListTransactionsResult, SettleTransactionParams,
    StepId, StepRecord, StepResult, StepStatus, TransactionId, TransactionRecord,
    TransactionStatus,
};

use crate::RpcError;
use crate::mcp::Meta;
use crate::mgp::Extension;

/// A member that a proposal adds to the `_meta` of tool calls or of their results.
///
/// ```
/// use mgp_types::mcp::{CallToolResult, Meta};
/// use mgp_types::proposal::{Member, Suggestion};
///
/// let mut result = CallToolResult::text("3 issues");
/// let meta = result.meta.get_or_insert_with(Meta::new);
/// meta.encode(Suggestion::NAME, &Suggestion::new("recent_incidents")).unwrap();
///
/// let found = Suggestion::read(result.meta.as_ref()).unwrap().unwrap();
/// assert_eq!(found.recommended_tool, "recent_incidents");
/// ```
pub trait Member: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The extension that both sides must have negotiated for the member to be used.
    const EXTENSION: Extension;
    /// The name of the member in the `_meta` object.
    const NAME: &'static str;

    /// Reads this member from a `_meta` object; `None` if it is absent.
    ///
    /// # Errors
    /// Returns −32602 (invalid params) if the member has the wrong form.
    fn read(meta: Option<&Meta>) -> Result<Option<Self>, RpcError> {
        meta.map_or(Ok(None), |meta| meta.decode(Self::NAME))
    }
}
