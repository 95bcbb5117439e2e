//! Retry hints in the errors of tools that can safely run twice (MGP §14.5: 3003, 5000, 5001).
//!
//! Applies to: inbound.

use std::error::Error as _;
use std::pin::Pin;
use std::task::{Context as Task, Poll, ready};

use mgp_lifecycle::{LifecycleError, RepeatPolicy, ToolRetryInfo};
use mgp_types::mcp;
use mgp_types::mgp::RiskLevel;
use mgp_types::service::{Call, MgpService, Reply, Target};
use mgp_types::{Lenient, Recovery, RpcError};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use super::Tools;

/// A layer that adds retry hints to the errors of read-only or idempotent tools, including time-outs of inner layers.
#[derive(Clone, Debug)]
pub(crate) struct RetryHintLayer(pub(crate) Tools);

impl<S> Layer<S> for RetryHintLayer {
    type Service = RetryHint<S>;

    fn layer(&self, inner: S) -> RetryHint<S> {
        RetryHint { inner, tools: self.0.clone() }
    }
}

/// Service of [`RetryHintLayer`].
#[derive(Clone, Debug)]
pub(crate) struct RetryHint<S> {
    inner: S,
    tools: Tools,
}

impl<S: MgpService> Service<Call> for RetryHint<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = ResponseFuture<S::Future>;
    mgp_types::always_ready!();

    fn call(&mut self, call: Call) -> Self::Future {
        // Only the name is stored; the tool is looked up only if the call fails.
        let tool = call.params().target().filter(|at| matches!(at, Target::Tool(_))).cloned();
        let tool = tool.map(|tool| (self.tools.clone(), tool));
        ResponseFuture { future: self.inner.call(call), tool }
    }
}

pin_project! {
    /// Response future of [`RetryHint`].
    pub(crate) struct ResponseFuture<F> {
        #[pin]
        future: F,
        tool: Option<(Tools, Target)>,
    }
}

impl<F: Future<Output = Result<Reply, RpcError>>> Future for ResponseFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.future.poll(task));
        let Some((tools, Target::Tool(name))) = this.tool.take() else {
            return Poll::Ready(answer);
        };
        Poll::Ready(answer.map_err(|error| {
            let error = name_limit(error, &name);
            if tools.is_repeatable(&name) { with_retry_hints(error) } else { error }
        }))
    }
}

/// Adds the tool and a note to the error of a call that exceeded the server's time limit. The note names the methods by
/// which the author sets this limit, because a caller knows only its own time limits.
fn name_limit(error: RpcError, tool: &str) -> RpcError {
    let refusal = error.source().and_then(|source| source.downcast_ref::<LifecycleError>());
    if !matches!(refusal, Some(LifecycleError::TimedOut(_))) {
        return error;
    }
    let message = error.message();
    let text = format!(
        "{message}; the server sets this limit in its code, with `Tool::timeout` or `Server::timeout`"
    );
    error.with_message(text).of_tool(tool)
}

/// Adds retry hints to the error of a tool that can safely run twice; hints that the author set are not changed.
fn with_retry_hints(error: RpcError) -> RpcError {
    let Some(usual) = Recovery::default_for(error.code()) else { return error };
    let (Some(said), Some(more)) = (error.as_recovery(), Recovery::for_repeatable(error.code()))
    else {
        return error;
    };
    let is_usual = said.retryable == usual.retryable
        && said.retry_strategy == usual.retry_strategy
        && said.retry_after_ms == usual.retry_after_ms
        && said.max_retries == usual.max_retries;
    if !is_usual || more == usual {
        return error;
    }
    let mut hints = said.clone();
    (hints.retryable, hints.retry_strategy) = (more.retryable, more.retry_strategy);
    (hints.retry_after_ms, hints.max_retries) = (more.retry_after_ms, more.max_retries);
    error.recovery(hints)
}

/// Returns whether the definition declares that a call can safely be repeated.
pub(super) fn is_repeatable(definition: &mcp::Tool) -> bool {
    let security = definition.find_security();
    let declared = security.as_ref().and_then(Lenient::valid);
    let risk = declared.map_or(RiskLevel::Moderate, |security| security.risk_level.clone());
    ToolRetryInfo::of(definition, risk).repeat == RepeatPolicy::Always
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mgp_lifecycle::TimeoutLayer;
    use mgp_types::ErrorCode;
    use mgp_types::mcp::ToolAnnotations;
    use mgp_types::service::{Stack, mock};

    use super::*;
    use crate::Tool;

    /// Runs the tool, which fails, and returns whether its error contains a retry hint.
    async fn invites(tool: Tool) -> bool {
        let tools = Tools::default();
        tools.add(tool);
        let below = tools.clone();
        let run = Stack::from_fn(move |call| {
            let below = below.clone();
            async move { below.call(call)?.await }
        });
        let bounded = TimeoutLayer::new(Duration::from_secs(1)).layer(run);
        let mut client = mock::client(Stack::new(RetryHintLayer(tools).layer(bounded)));
        let error = client.request("tools/call", r#"{"name":"t"}"#).await.unwrap_err();
        error.as_recovery().unwrap().is_retryable()
    }

    fn failing(code: ErrorCode) -> Tool {
        Tool::new(
            "t",
            "Fails",
            move || async move { Err::<String, _>(RpcError::new(code, "upstream")) },
        )
    }

    fn hinted(tool: Tool, set: impl FnOnce(&mut ToolAnnotations)) -> Tool {
        let mut hints = ToolAnnotations::new();
        set(&mut hints);
        tool.annotations(hints)
    }

    fn read_only(tool: Tool) -> Tool {
        hinted(tool, |hints| hints.read_only_hint = Some(true))
    }

    #[tokio::test(start_paused = true)]
    async fn only_tools_that_may_run_twice_get_retry_hints() {
        for code in [ErrorCode::UPSTREAM_ERROR, ErrorCode::UPSTREAM_TIMEOUT] {
            assert!(!invites(failing(code)).await);
            assert!(invites(read_only(failing(code))).await);
            assert!(
                invites(hinted(failing(code), |hints| hints.idempotent_hint = Some(true))).await
            );
        }
        assert!(!invites(read_only(failing(ErrorCode::ACCESS_DENIED))).await);
        let hangs = || Tool::new("t", "Hangs", std::future::pending::<String>);
        assert!(!invites(hangs()).await);
        assert!(invites(read_only(hangs())).await);
    }

    #[test]
    fn details_and_hints_of_the_author_stay() {
        let hints = Recovery::default_for(ErrorCode::UPSTREAM_ERROR).unwrap();
        let own = hints.clone().retry(mgp_types::RetryStrategy::FixedDelay, 7, 1);
        let error = RpcError::new(ErrorCode::UPSTREAM_ERROR, "no").recovery(own.clone());
        assert_eq!(with_retry_hints(error).as_recovery(), Some(&own));
        let details = mgp_types::Object::new().with("of", "weather");
        let error = RpcError::new(ErrorCode::UPSTREAM_ERROR, "no").recovery(hints.details(details));
        let hinted = with_retry_hints(error);
        let recovery = hinted.as_recovery().unwrap();
        assert!(
            recovery.is_retryable()
                && recovery.details.is_some()
                && recovery.max_retries == Some(3)
        );
    }
}
