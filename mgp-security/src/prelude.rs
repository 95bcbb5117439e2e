//! The types that most programs with governance need.

pub use crate::{
    AccessLayer, Approver, AuditLayer, Decision, ElicitApprover, Governance, PermissionChange,
    Policies, Question, ServerPolicy,
};
pub use mgp_types::mgp::{
    AccessGrantParams, AccessRevokeParams, DefaultPolicy, Permission, PermissionScope, RiskLevel,
    TrustLevel,
};
pub use mgp_types::service::{Principal, ServerId};
