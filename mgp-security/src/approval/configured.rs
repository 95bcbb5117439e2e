//! An approver that answers from a list (MGP §3.3, §4.4).

use std::collections::BTreeSet;

use async_trait::async_trait;
use mgp_types::mgp::{GrantDecision, Permission};
use mgp_types::service::{Context, ServerId};
use mgp_types::{ErrorCode, RpcError};

use super::{Approver, Decision, Question, QuestionSubject};

/// An approver that approves what the operator listed, and is unavailable for anything else.
///
/// In an [`ApproverChain`](super::ApproverChain), the next approver is asked about everything that is not listed.
///
/// ```
/// use mgp_security::ConfiguredApprover;
/// use mgp_types::mgp::Permission;
///
/// let configured = ConfiguredApprover::new().permissions([Permission::FilesystemRead]).tool("files", "write_file");
/// # drop(configured);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct ConfiguredApprover {
    permissions: BTreeSet<Permission>,
    tools: BTreeSet<(ServerId, String)>,
}

impl ConfiguredApprover {
    /// Creates an approver whose list is empty.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds permissions to the list: this approver grants them to every server whose policy is `interactive`. A short
    /// name is replaced by the standard permissions that it represents.
    ///
    /// A permission is granted as long as the configuration lists it. Decisions of operators and persons take
    /// precedence.
    pub fn permissions(mut self, permissions: impl IntoIterator<Item = Permission>) -> Self {
        self.permissions.extend(permissions.into_iter().flat_map(|name| name.expand()));
        self
    }

    /// Adds a tool of a server to the list: this approver confirms every call of the tool.
    pub fn tool(mut self, server: impl Into<ServerId>, tool: impl Into<String>) -> Self {
        self.tools.insert((server.into(), tool.into()));
        self
    }

    fn confirms(&self, question: &Question) -> bool {
        match (&question.about, &question.server) {
            (QuestionSubject::Call { tool, .. }, Some(server)) => {
                self.tools.contains(&(server.clone(), tool.clone()))
            }
            _ => false,
        }
    }
}

#[async_trait]
impl Approver for ConfiguredApprover {
    /// Confirms calls of listed tools. Questions about listed permissions do not arrive here, because these permissions
    /// are granted without a question.
    async fn decide(&self, _cx: &Context, question: Question) -> Result<Decision, RpcError> {
        if self.confirms(&question) {
            Ok(Decision::configured(GrantDecision::Approved))
        } else {
            Err(RpcError::new(
                ErrorCode::PERMISSION_DENIED,
                "no approver is available: the configuration does not list it",
            ))
        }
    }

    fn grants(&self, _: Option<&ServerId>, permission: &Permission) -> bool {
        self.permissions.contains(permission)
    }
}
