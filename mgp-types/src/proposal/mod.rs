//! Proposals.

mod confirmation;
mod cost;
#[cfg(feature = "service")]
mod reader;
mod scope;
mod structured_error;
mod subscribe;
mod tool_members;

pub use confirmation::{
    CallConfirmation, ConfirmationRequired, ConfirmationRisk, ConfirmationStatus, ToolConfirmation,
    fill_message,
};
pub use cost::{ActualCost, CostCategory, CostHints, LatencyClass, ToolCost, ToolQuota};
#[cfg(feature = "service")]
pub use reader::read_member;
pub use scope::{
    CheckPermissionsParams, CheckPermissionsResult, DeniedScope, NegotiateScopesParams,
    NegotiateScopesResult, RevokeScopesParams, RevokeScopesResult, ScopeSession, required_scopes,
    temporary,
};
pub use structured_error::{ErrorKind, StructuredError};
pub use subscribe::{
    ActionHint, NotifyEvent, NotifyKind, SUBSCRIPTION_TERMINATED, SubscribeParams,
    SubscribeResult, SubscribeStatus, passes_filter,
};
use tool_members::ToolMembers;
pub use tool_members::hide_tool_members;
