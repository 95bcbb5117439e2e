//! Several approvers, one after the other (MGP §3.4, §4.4).
//!
//! Applies to: both.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mgp_types::mgp::Permission;
use mgp_types::service::{BoxFuture, Context, ServerId};
use mgp_types::{ErrorCode, RpcError};

use super::{Approver, Decision, Question};

/// Lets the first approver decide that can be asked.
///
/// One that was asked and said no, or nothing yet, has decided; the next one is not asked.
///
/// ```
/// use mgp_security::{Configured, Elicit, First};
///
/// let approver = First::of(Configured::new().tool("files", "write_file")).then(Elicit::everyone());
/// # drop(approver);
/// ```
#[derive(Clone)]
#[must_use]
pub struct First(Vec<Arc<dyn Approver>>);

impl First {
    /// Begins with one.
    pub fn of(approver: impl Approver + 'static) -> Self {
        Self(vec![Arc::new(approver)])
    }

    /// Goes on with another where those before cannot be asked.
    pub fn then(mut self, approver: impl Approver + 'static) -> Self {
        self.0.push(Arc::new(approver));
        self
    }
}

impl fmt::Debug for First {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "First({})", self.0.len())
    }
}

impl Approver for First {
    fn decide(
        &self,
        cx: &Context,
        question: Question,
    ) -> BoxFuture<'static, Result<Decision, RpcError>> {
        let (approvers, cx) = (self.0.clone(), cx.clone());
        Box::pin(async move {
            let mut last = RpcError::new(ErrorCode::PERMISSION_DENIED, "nobody can be asked");
            for approver in approvers {
                let deciding = approver.decide(&cx, question.clone());
                match tokio::time::timeout(approver.patience(), deciding).await {
                    Ok(Ok(decision)) => return Ok(decision),
                    Ok(Err(error)) => last = error,
                    // It may still decide; a second word would contradict it.
                    Err(_) => {
                        return Err(RpcError::new(ErrorCode::TIMEOUT, "nobody decided in time"));
                    }
                }
            }
            Err(last)
        })
    }

    fn grants(&self, server: Option<&ServerId>, permission: &Permission) -> bool {
        self.0.iter().any(|approver| approver.grants(server, permission))
    }

    /// As long as all of them together.
    fn patience(&self) -> Duration {
        self.0.iter().map(Approver::patience).fold(Duration::ZERO, Duration::saturating_add)
    }
}
