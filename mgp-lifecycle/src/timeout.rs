//! Time limits for tool calls, and for requests about the discovery of tools and servers (MGP §14.3: 3003).
//!
//! The servers of `mgp-server-sdk` use this layer for the calls that they receive. The time limits of the requests that
//! a client or the kernel sends are in `src/wire/request_timeout.rs` of `mgp-client-sdk`.
//!
//! Applies to: inbound and outbound.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};
use std::time::Duration;

use mgp_types::RpcError;
use mgp_types::method::{
    DiscoveryDeregister, DiscoveryList, DiscoveryRegister, ToolsDiscover, ToolsRequest,
    ToolsSession, ToolsSessionEvict,
};
use mgp_types::service::{Call, Deadline, MgpService, Reply};
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};
use tower_service::Service;

use crate::error::LifecycleError;
use crate::tasks::TaskTicket;

const TOOL_TIMEOUT: Duration = Duration::from_secs(30);
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(2);

/// Time limits per kind of call, with conservative defaults.
///
/// ```
/// use mgp_lifecycle::Timeouts;
/// use std::time::Duration;
///
/// let mut timeouts = Timeouts::default();
/// timeouts.tool = Duration::from_secs(120);
/// assert_eq!(timeouts.discovery, Duration::from_secs(2));
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Timeouts {
    /// The time limit of a tool call, counted from the time when it gets a permit to run. Default: 30 s.
    pub tool: Duration,
    /// The time limit of a discovery request: `mgp/tools/*` or `mgp/discovery/*`. Default: 2 s.
    pub discovery: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { tool: TOOL_TIMEOUT, discovery: DISCOVERY_TIMEOUT }
    }
}

/// Layer that ends tool calls and discovery requests with code 3003 (timeout) if they take too long, and passes on all
/// other methods.
///
/// Calls that can become tasks have only their [own limit](Self::per_call), because the task's time to live replaces
/// the general limit. The earlier of the limit and the caller's deadline applies, and becomes the deadline of the call
/// for inner layers and handlers.
///
/// ```
/// use std::time::Duration;
/// use mgp_lifecycle::TimeoutLayer;
/// use mgp_types::service::{Stack, mock};
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
/// let hangs = Stack::from_fn(|_| std::future::pending());
/// let mut client = mock::client(Stack::new(TimeoutLayer::new(Duration::from_secs(30)).layer(hangs)));
/// let error = client.request("tools/call", r#"{"name":"a"}"#).await.unwrap_err();
/// assert_eq!(error.to_string(), "no answer within 30 s; it may have run: call again only if that does no harm (3003)");
/// # });
/// ```
#[derive(Clone)]
#[must_use]
pub struct TimeoutLayer {
    timeouts: Timeouts,
    per_call: Option<PerCallLimit>,
}

/// A function that returns a call's own limit, if it has one.
type PerCallLimit = Arc<dyn Fn(&Call) -> Option<Duration> + Send + Sync>;

impl TimeoutLayer {
    /// Creates a layer with one limit for all tools, and the default limit for discovery requests.
    pub const fn new(after: Duration) -> Self {
        Self::with_timeouts(Timeouts { tool: after, discovery: DISCOVERY_TIMEOUT })
    }

    /// Creates a layer with these limits.
    pub const fn with_timeouts(timeouts: Timeouts) -> Self {
        Self { timeouts, per_call: None }
    }

    /// Sets a function that returns a call's own limit. If it returns `None`, the general limit applies.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mgp_lifecycle::TimeoutLayer;
    /// use mgp_types::service::{Stack, mock};
    /// use tower_layer::Layer;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
    /// let slow = |name: &str| (name == "slow").then_some(Duration::from_secs(300));
    /// let layer = TimeoutLayer::default().per_call(move |call| call.tool().and_then(|tool| slow(tool.name)));
    /// let mut client = mock::client(Stack::new(layer.layer(Stack::from_fn(|_| std::future::pending()))));
    /// let error = client.request("tools/call", r#"{"name":"slow"}"#).await.unwrap_err();
    /// assert_eq!(error.to_string(), "no answer within 300 s; it may have run: call again only if that does no harm (3003)");
    /// # });
    /// ```
    pub fn per_call(
        mut self,
        limit: impl Fn(&Call) -> Option<Duration> + Send + Sync + 'static,
    ) -> Self {
        self.per_call = Some(Arc::new(limit));
        self
    }

    /// Returns the limit of a call; `None` if this layer does not limit it.
    fn limit(&self, call: &Call) -> Option<Duration> {
        if call.tool().is_none() {
            return is_discovery(call).then_some(self.timeouts.discovery);
        }
        let own = self.per_call.as_ref().and_then(|limit| limit(call));
        // The time to live of a task replaces the general limit. The caller chooses that time, so it does not replace a
        // limit of the tool.
        if own.is_none() && TaskTicket::of(call.cx()).is_some() {
            return None;
        }
        Some(own.unwrap_or(self.timeouts.tool))
    }
}

fn is_discovery(call: &Call) -> bool {
    call.is::<ToolsDiscover>()
        || call.is::<ToolsRequest>()
        || call.is::<ToolsSession>()
        || call.is::<ToolsSessionEvict>()
        || call.is::<DiscoveryList>()
        || call.is::<DiscoveryRegister>()
        || call.is::<DiscoveryDeregister>()
}

mgp_types::opaque_debug!(TimeoutLayer { timeouts });

impl Default for TimeoutLayer {
    fn default() -> Self {
        Self::with_timeouts(Timeouts::default())
    }
}

mgp_types::layer_service! {
    /// The service that [`TimeoutLayer`] creates.
    pub Timeout for TimeoutLayer
}

impl<S: MgpService> Service<Call> for Timeout<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = ResponseFuture<S::Future>;

    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> Self::Future {
        let limit = self.layer.limit(&call);
        let expiry = limit.and_then(|limit| Expiry::set(&mut call, limit));
        ResponseFuture { future: self.inner.call(call), expiry, sleep: None }
    }
}

/// The time when a call ends with an error, and the limit that the error names.
#[derive(Clone, Copy, Debug)]
struct Expiry {
    at: Instant,
    limit: Duration,
}

impl Expiry {
    /// Sets the call's deadline to the end of the limit, unless the caller's deadline is earlier. Returns `None` if the
    /// call has no deadline, because the limit is practically endless.
    fn set(call: &mut Call, limit: Duration) -> Option<Self> {
        let callers = call.cx().deadline;
        let deadline = Deadline::after(limit).earlier(callers);
        call.cx_mut().deadline = deadline;
        let at = deadline.instant()?;
        // If the caller's deadline applies, the error names the time that is left until it.
        let limit = if deadline == callers { deadline.remaining()? } else { limit };
        Some(Self { at, limit })
    }
}

pin_project! {
    /// Response future of [`Timeout`].
    #[derive(Debug)]
    pub struct ResponseFuture<F> {
        #[pin]
        future: F,
        expiry: Option<Expiry>,
        // Created only if the call does not complete at its first poll, because a timer costs more than a short call.
        sleep: Option<Pin<Box<Sleep>>>,
    }
}

impl<F: Future<Output = Result<Reply, RpcError>>> Future for ResponseFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<F::Output> {
        let this = self.project();
        if let Poll::Ready(outcome) = this.future.poll(task) {
            return Poll::Ready(outcome);
        }
        let Some(Expiry { at, limit }) = *this.expiry else { return Poll::Pending };
        let sleep = this.sleep.get_or_insert_with(|| Box::pin(sleep_until(at)));
        sleep.as_mut().poll(task).map(|()| Err(LifecycleError::TimedOut(limit).into()))
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::method::{Request, ToolsCall, ToolsList};
    use mgp_types::service::{Stack, mock};

    use tower_layer::Layer;

    use super::*;

    fn client(layer: &TimeoutLayer) -> mock::Client {
        mock::client(Stack::new(layer.layer(Stack::from_fn(|_| std::future::pending()))))
    }

    async fn check(client: &mut mock::Client, method: &str, expected: &str) {
        let params = r#"{"name":"t"}"#;
        let longest = Duration::from_hours(1);
        let call = tokio::time::timeout(longest, client.request(method, params)).await;
        let message =
            call.map_or_else(|_| "for ever".to_owned(), |answer| answer.unwrap_err().to_string());
        assert_eq!(message, expected, "{method}");
    }

    #[tokio::test(start_paused = true)]
    async fn each_kind_of_call_has_its_limit() {
        let timed_out = |limit: &str| {
            format!(
                "no answer within {limit}; it may have run: call again only if that does no harm (3003)"
            )
        };
        let mut client = client(&TimeoutLayer::default());
        check(&mut client, ToolsCall::METHOD, &timed_out("30 s")).await;
        for method in [
            ToolsDiscover::METHOD,
            ToolsRequest::METHOD,
            ToolsSession::METHOD,
            ToolsSessionEvict::METHOD,
            DiscoveryList::METHOD,
            DiscoveryRegister::METHOD,
            DiscoveryDeregister::METHOD,
        ] {
            check(&mut client, method, &timed_out("2 s")).await;
        }
        check(&mut client, ToolsList::METHOD, "for ever").await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_caller_s_deadline_applies_if_it_is_earlier() {
        let timeouts = Timeouts { discovery: Duration::from_secs(9), ..Timeouts::default() };
        let mut client = client(&TimeoutLayer::with_timeouts(timeouts));
        client.cx.deadline = Deadline::after(Duration::from_secs(5));
        let start = Instant::now();
        let error = client.request(ToolsDiscover::METHOD, "{}").await.unwrap_err();
        assert!(error.message().starts_with("no answer within 5 s"), "{error}");
        assert_eq!(start.elapsed().as_secs(), 5);
        client.cx.deadline = Deadline::none();
        client.request(ToolsDiscover::METHOD, "{}").await.unwrap_err();
        assert_eq!(start.elapsed().as_secs(), 14);
    }
}
