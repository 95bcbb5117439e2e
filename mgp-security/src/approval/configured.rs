//! Answers from a list, without asking anybody (MGP §3.3, §4.4).
//!
//! Applies to: both.

use std::collections::BTreeSet;

use mgp_types::mgp::{GrantDecision, Permission};
use mgp_types::service::{BoxFuture, Context, ServerId};
use mgp_types::{ErrorCode, RpcError};

use super::{About, Approver, Decision, Question};

/// Approves what the operator listed, and knows nothing of the rest.
///
/// In a [`First`](super::First) the next one is asked about the rest.
///
/// ```
/// use mgp_security::Configured;
/// use mgp_types::mgp::Permission;
///
/// let configured = Configured::new().permissions([Permission::FilesystemRead]).tool("files", "write_file");
/// # drop(configured);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Configured {
    permissions: BTreeSet<Permission>,
    tools: BTreeSet<(ServerId, String)>,
}

impl Configured {
    /// Lists nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lists permissions, for every server that asks (`interactive`); a short name stands for standard ones.
    ///
    /// They are granted as long as this is the configuration; what an operator or a person decided comes first.
    pub fn permissions(mut self, permissions: impl IntoIterator<Item = Permission>) -> Self {
        self.permissions.extend(permissions.into_iter().flat_map(|name| name.expand()));
        self
    }

    /// Lists a tool of a server: its calls are confirmed.
    pub fn tool(mut self, server: impl Into<ServerId>, tool: impl Into<String>) -> Self {
        self.tools.insert((server.into(), tool.into()));
        self
    }

    fn confirms(&self, question: &Question) -> bool {
        match (&question.about, &question.server) {
            (About::Call { tool, .. }, Some(server)) => {
                self.tools.contains(&(server.clone(), tool.clone()))
            }
            _ => false,
        }
    }
}

impl Approver for Configured {
    /// Confirms the calls it lists; the permissions it lists need no question.
    fn decide(
        &self,
        _cx: &Context,
        question: Question,
    ) -> BoxFuture<'static, Result<Decision, RpcError>> {
        let decided = if self.confirms(&question) {
            Ok(Decision::configured(GrantDecision::Approved))
        } else {
            Err(RpcError::new(
                ErrorCode::PERMISSION_DENIED,
                "nobody can be asked: the configuration does not list it",
            ))
        };
        Box::pin(std::future::ready(decided))
    }

    fn grants(&self, _: Option<&ServerId>, permission: &Permission) -> bool {
        self.permissions.contains(permission)
    }
}
