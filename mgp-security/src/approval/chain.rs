//! A chain of approvers (MGP §3.4, §4.4).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mgp_types::mgp::Permission;
use mgp_types::service::{Context, ServerId};
use mgp_types::{ErrorCode, RpcError};

use super::{Approver, Decision, Question};

/// An approver that asks several approvers in order. The first available approver decides.
///
/// A denial or a deferral is a decision, too: the next approver is not asked after it.
///
/// ```
/// use mgp_security::{ConfiguredApprover, ElicitApprover, ApproverChain};
///
/// let approver = ApproverChain::new(ConfiguredApprover::new().tool("files", "write_file")).then(ElicitApprover::everyone());
/// # drop(approver);
/// ```
#[derive(Clone)]
#[must_use]
pub struct ApproverChain(Vec<Arc<dyn Approver>>);

impl ApproverChain {
    /// Creates a chain with its first approver.
    pub fn new(approver: impl Approver + 'static) -> Self {
        Self(vec![Arc::new(approver)])
    }

    /// Adds an approver that is asked if all approvers before it are unavailable.
    pub fn then(mut self, approver: impl Approver + 'static) -> Self {
        self.0.push(Arc::new(approver));
        self
    }
}

mgp_types::opaque_debug!(ApproverChain);

#[async_trait]
impl Approver for ApproverChain {
    async fn decide(&self, cx: &Context, question: Question) -> Result<Decision, RpcError> {
        let mut last = RpcError::new(ErrorCode::PERMISSION_DENIED, "no approver is available");
        for approver in &self.0 {
            let deciding = approver.decide(cx, question.clone());
            match tokio::time::timeout(approver.timeout(), deciding).await {
                Ok(Ok(decision)) => return Ok(decision),
                Ok(Err(error)) => last = error,
                // The approver might still decide later. Do not ask the next approver now, because its decision could
                // contradict that later decision.
                Err(_) => {
                    return Err(RpcError::new(ErrorCode::TIMEOUT, "no decision in time"));
                }
            }
        }
        Err(last)
    }

    fn grants(&self, server: Option<&ServerId>, permission: &Permission) -> bool {
        self.0.iter().any(|approver| approver.grants(server, permission))
    }

    /// Returns the sum of the time limits of all approvers in the chain.
    fn timeout(&self) -> Duration {
        self.0.iter().map(Approver::timeout).fold(Duration::ZERO, Duration::saturating_add)
    }
}
