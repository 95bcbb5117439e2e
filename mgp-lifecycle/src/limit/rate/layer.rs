//! The layer that refuses tool calls above a rate.
//!
//! Applies to: inbound and outbound.

use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, ready as ready_or_return};
use std::time::Duration;

use mgp_types::RpcError;
use mgp_types::service::{Call, Either, MgpService, Reply};
use mgp_types::sync::Mutex;
use pin_project_lite::pin_project;
use tokio::time::Instant;
use tower_service::Service;

use super::super::open_calls::OpenCalls;
use super::bucket::{BucketParams, nanos};
use super::keys::CountedCall;
use super::round::Round;
use super::table::{BucketTable, LimitReached};
use super::{RateKey, RateLimit, RateLimited, RateUse, whole_ms};
use crate::error::LifecycleError;

/// The maximum number of rate keys, such as principals, whose calls are counted separately.
const MAX_KEYS: usize = 65_536;

/// Layer that refuses tool calls with code 3000 (rate limited) if they exceed a rate, and passes on all other methods.
/// The refusal contains the time until the next call is allowed.
///
/// If there are several limits, an admitted call counts towards all of them, and a refused call towards none. Each
/// round of a call that asks its caller questions counts, unless [`count_rounds_once`](Self::count_rounds_once) is set.
///
/// The layer counts up to 65,536 keys separately, and forgets a key once its bucket is full again. While the table is
/// full, all new keys of a caller share one bucket, and several callers can share that bucket.
///
/// ```
/// use mgp_lifecycle::{RateKey, RateLayer, RateLimit};
/// use mgp_types::service::{Reply, Stack, mock};
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
/// let rate = RateLayer::new(RateLimit::per_minute(60).burst(1).by(RateKey::Tool))
///     .and(RateLimit::per_hour(1_000).by(RateKey::Agent));
/// let mut client = mock::client(Stack::new(rate.layer(Stack::from_fn(|_| async { Ok(Reply::empty()) }))));
/// assert!(client.request("tools/call", r#"{"name":"a"}"#).await.is_ok());
/// assert!(client.request("tools/call", r#"{"name":"b"}"#).await.is_ok());
///
/// let refused = client.request("tools/call", r#"{"name":"a"}"#).await.unwrap_err();
/// assert_eq!(refused.code().0, 3000);
/// assert_eq!(refused.as_recovery().unwrap().retry_after_ms, Some(1_000));
/// # });
/// ```
#[derive(Clone)]
#[must_use]
pub struct RateLayer {
    state: Arc<RateState>,
    /// The calls whose further rounds do not count towards the limit; `None` if each round counts.
    open_calls: Option<Arc<Mutex<OpenCalls>>>,
}

type IsTool = Arc<dyn Fn(&str) -> bool + Send + Sync>;

struct RateState {
    limits: Vec<RateLimit>,
    params: Vec<BucketParams>,
    /// Function that returns whether a name is that of a tool; `None` if the tools are not known.
    is_tool: Option<IsTool>,
    start: Instant,
    /// The hash function of the keys, with secrets of this process.
    hash: ahash::RandomState,
    table: Mutex<BucketTable>,
}

impl RateLayer {
    /// Creates a layer with one limit. All stacks that are built with it share the counts.
    pub fn new(limit: RateLimit) -> Self {
        Self::of([limit])
    }

    /// Creates a layer with several limits.
    pub fn of(limits: impl IntoIterator<Item = RateLimit>) -> Self {
        Self::with_max_keys(limits.into_iter().collect(), MAX_KEYS, None)
    }

    /// Adds a limit; this resets all counts.
    pub fn and(self, limit: RateLimit) -> Self {
        let limits = self.state.limits.iter().copied().chain([limit]).collect();
        let layer = Self::with_max_keys(limits, MAX_KEYS, self.state.is_tool.clone());
        Self { open_calls: self.open_calls, ..layer }
    }

    /// Counts all rounds of a call that asks its caller questions as one call, so that no answer is refused. If a
    /// caller sends a round a second time, that round counts as a new call.
    pub fn count_rounds_once(self) -> Self {
        Self { open_calls: Some(Arc::default()), ..self }
    }

    /// Sets the function that returns whether a tool with a name exists. With [`RateKey::Tool`], all other names count
    /// as the same tool, so that a caller cannot get a new bucket by inventing a name. This resets all counts.
    pub fn tools(self, is_tool: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        let limits = self.state.limits.clone();
        let layer = Self::with_max_keys(limits, MAX_KEYS, Some(Arc::new(is_tool)));
        Self { open_calls: self.open_calls, ..layer }
    }

    /// Returns the current use of each limit by calls with the same keys as this call. The call itself is not counted.
    #[must_use]
    pub fn used(&self, call: &Call) -> Vec<RateUse> {
        let state = &*self.state;
        let now = nanos(state.start.elapsed());
        let keys = state.counted(call, call.tool().map(|tool| tool.name));
        let table = state.table.lock();
        let limits = state.limits.iter().zip(&state.params).enumerate();
        let uses = limits.map(|(index, (limit, params))| {
            let full_at = table.full_at(index, &keys);
            let free_in = Duration::from_nanos(full_at.saturating_sub(now));
            let next_in = match params.next_full_at(full_at, now) {
                Ok(_) => Some(Duration::ZERO),
                Err(soon) => soon
                    .wait
                    .map(|wait| Duration::from_millis(whole_ms(Duration::from_nanos(wait)))),
            };
            RateUse { limit: limit.calls, used: params.used(full_at, now), free_in, next_in }
        });
        uses.collect()
    }

    fn with_max_keys(limits: Vec<RateLimit>, keys: usize, is_tool: Option<IsTool>) -> Self {
        let state = RateState {
            is_tool,
            params: limits.iter().map(BucketParams::of).collect(),
            start: Instant::now(),
            hash: ahash::RandomState::new(),
            table: Mutex::new(BucketTable::new(keys, limits.len())),
            limits,
        };
        Self { state: Arc::new(state), open_calls: None }
    }
}

impl RateState {
    /// Counts a tool call towards each limit, or towards none if one of them refuses it.
    fn count(&self, call: &Call) -> Result<(), LifecycleError> {
        let Some(tool) = call.tool() else { return Ok(()) };
        let now = nanos(self.start.elapsed());
        let keys = self.counted(call, Some(tool.name));
        let mut table = self.table.lock();
        let counted = table.count(&self.params, &keys, now);
        drop(table);
        counted.map_err(|LimitReached { index, soon }| {
            let wait = soon.wait.map(Duration::from_nanos);
            RateLimited { limit: self.limits[index], current: soon.current, wait }.into()
        })
    }

    /// Prepares a call for the hashes of its keys. The table must not be locked, because `is_tool` can be slow, or can
    /// use the layer itself.
    fn counted<'a>(&'a self, call: &'a Call, tool: Option<&'a str>) -> CountedCall<'a> {
        let is_by_tool = || self.limits.iter().any(|limit| limit.keys.has(RateKey::Tool));
        let is_tool = self.is_tool.as_ref().filter(|_| is_by_tool());
        let tool = tool.filter(|&name| is_tool.is_none_or(|is_tool| is_tool(name)));
        CountedCall { limits: &self.limits, hash: &self.hash, call, tool }
    }
}

mgp_types::opaque_debug!(RateLayer);

mgp_types::layer_service! {
    /// The service that [`RateLayer`] creates.
    pub RateService for RateLayer
}

impl<S: MgpService> Service<Call> for RateService<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<ResponseFuture<S::Future>, Ready<Result<Reply, RpcError>>>;

    mgp_types::always_ready!();

    fn call(&mut self, call: Call) -> Self::Future {
        let open = self.layer.open_calls.as_ref().filter(|_| call.tool().is_some());
        let round = open.map(|open| Round::begin(open, call.cx()));
        let is_later = round.as_ref().is_some_and(Round::is_later);
        let counted = if is_later { Ok(()) } else { self.layer.state.count(&call) };
        match counted {
            Ok(()) => {
                Either::Left { future: ResponseFuture { future: self.inner.call(call), round } }
            }
            Err(refused) => Either::Right { future: ready(Err(refused.into())) },
        }
    }
}

pin_project! {
    /// Response future of [`RateService`].
    pub struct ResponseFuture<F> {
        #[pin]
        future: F,
        // `None` if every round counts, if the request is not a tool call, and after completion.
        round: Option<Round>,
    }
}

mgp_types::opaque_debug!(ResponseFuture<F>);

impl<F: Future<Output = Result<Reply, RpcError>>> Future for ResponseFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<F::Output> {
        let this = self.project();
        let outcome = ready_or_return!(this.future.poll(task));
        if let Some(round) = this.round.take() {
            round.end(&outcome);
        }
        Poll::Ready(outcome)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{OnceLock, mpsc};
    use std::thread;

    use mgp_types::ErrorCode;
    use mgp_types::service::{
        Context, InputRequired, Method, Params, Peer, Principal, Scope, ScopeKind, Stack, mock,
    };
    use tokio::time::advance;
    use tower_layer::Layer;

    use super::*;

    fn client(layer: &RateLayer) -> mock::Client {
        mock::client(Stack::new(layer.layer(Stack::from_fn(|_| async { Ok(Reply::empty()) }))))
    }

    async fn code(client: &mut mock::Client, tool: &str) -> i32 {
        let call = client.request("tools/call", &format!(r#"{{"name":"{tool}"}}"#)).await;
        call.map_or_else(|error| error.code().0, |_| 0)
    }

    #[tokio::test(start_paused = true)]
    async fn the_refusal_contains_wait_and_limit() {
        let layer = RateLayer::new(RateLimit::per_minute(10).by(RateKey::Agent));
        let mut client = client(&layer);
        for _ in 0..10 {
            assert_eq!(code(&mut client, "a").await, 0);
        }
        advance(Duration::from_micros(999_500)).await;
        let error = client.request("tools/call", r#"{"name":"a"}"#).await.unwrap_err();
        assert_eq!(
            serde_json::to_string(&error).unwrap(),
            r#"{"code":3000,"message":"rate limited: more than 10 calls a minute by agent; try again in 5.001 s","data":{"_mgp":{"category":"resource","retryable":true,"retry_after_ms":5001,"retry_strategy":"exponential_backoff","max_retries":3,"details":{"limit":10,"window_secs":60,"burst":10,"current":10,"by":"agent"}}}}"#
        );
        assert!(client.request("tools/list", "{}").await.is_ok(), "lists are not bounded");
        advance(Duration::from_millis(5001)).await;
        assert_eq!((code(&mut client, "a").await, code(&mut client, "a").await), (0, 3000));
    }

    #[tokio::test(start_paused = true)]
    async fn each_key_counts_apart_and_the_tenant_always() {
        let ann = |tenant: &str| Principal::new(tenant, "ann");
        let others = [
            ("other tenant", ann("u"), None, "a"),
            ("other subject", Principal::new("t", "bob").agent("x"), None, "a"),
            ("other agent", ann("t").agent("y"), None, "a"),
            ("other tool", ann("t").agent("x"), None, "b"),
            ("other server", ann("t").agent("x"), Some("s".into()), "a"),
        ];
        let apart = |by: Option<RateKey>, name: &str| match by {
            _ if name == "other tenant" => true,
            Some(RateKey::Agent) => name == "other subject" || name == "other agent",
            Some(RateKey::AgentName) => name == "other agent",
            Some(RateKey::Subject) => name == "other subject",
            Some(RateKey::Tool) => name == "other tool",
            Some(RateKey::Server) => name == "other server",
            None => false,
        };
        for by in RateKey::ALL.map(Some).into_iter().chain([None]) {
            for (name, principal, server, tool) in others.clone() {
                let limit = RateLimit::per_minute(1);
                let layer = RateLayer::new(by.map_or(limit, |by| limit.by(by)));
                let mut client = client(&layer);
                client.cx.principal = ann("t").agent("x");
                assert_eq!(code(&mut client, "a").await, 0);
                assert_eq!(code(&mut client, "a").await, 3000);
                (client.cx.principal, client.cx.server) = (principal, server);
                let expected = if apart(by, name) { 0 } else { 3000 };
                assert_eq!(code(&mut client, tool).await, expected, "{by:?}, {name}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_tenants_share_a_limit_that_is_across_tenants() {
        for by in [RateKey::Server, RateKey::Tool] {
            let layer = RateLayer::new(RateLimit::per_minute(1).by(by).across_tenants());
            let mut client = client(&layer);
            client.cx.principal = Principal::new("t", "ann");
            assert_eq!(code(&mut client, "a").await, 0, "{by:?}");
            client.cx.principal = Principal::new("u", "bob").agent("x");
            assert_eq!(code(&mut client, "a").await, 3000, "{by:?}");
            client.cx.server = Some("s".into());
            assert_eq!(code(&mut client, "b").await, 0, "{by:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_users_of_an_agent_share_its_limit_and_callers_without_one_have_their_own() {
        let mut client = client(&RateLayer::new(RateLimit::per_minute(1).by(RateKey::AgentName)));
        let (ann, bob) = (Principal::new("t", "ann"), Principal::new("t", "bob"));
        let calls = [
            (ann.agent("x"), 0),
            (bob.agent("x"), 3000),
            (bob.agent("y"), 0),
            (Principal::new("u", "bob").agent("x"), 0),
            (ann.clone(), 0),
            (bob, 0),
            (ann, 3000),
        ];
        for (principal, expected) in calls {
            client.cx.principal = principal.clone();
            assert_eq!(code(&mut client, "a").await, expected, "{principal:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_rounds_of_a_call_count_once_and_a_repeated_round_is_a_new_call() {
        let tools = Stack::from_fn(|call: Call| async move {
            match call.tool().map(|tool| tool.name) {
                Some("ask") => {
                    Ok(Reply::InputRequired(InputRequired { asks: Vec::new(), state: None }))
                }
                Some("refuse") => Err(RpcError::new(ErrorCode::RESOURCE_EXHAUSTED, "later")),
                _ => Ok(Reply::empty()),
            }
        });
        let layer = RateLayer::new(RateLimit::per_hour(2)).count_rounds_once();
        let mut client = mock::client(Stack::new(layer.tools(|_| true).layer(tools)));
        client.cx.logical = Some("one".into());
        let (ask, refuse) = (r#"{"name":"ask"}"#, r#"{"name":"refuse"}"#);
        for _ in 0..5 {
            client.call("tools/call", ask).await.unwrap();
        }
        let refused = client.call("tools/call", refuse).await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::RESOURCE_EXHAUSTED);
        let end = r#"{"name":"end"}"#;
        client.call("tools/call", end).await.unwrap();
        client.call("tools/call", end).await.unwrap();
        let refused = client.call("tools/call", end).await.unwrap_err();
        assert_eq!(
            refused.code(),
            ErrorCode::RATE_LIMITED,
            "two calls in six rounds, and one more"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_operator_has_no_second_share() {
        let layer = RateLayer::new(RateLimit::per_minute(1).by(RateKey::Agent));
        let mut client = client(&layer);
        assert_eq!(code(&mut client, "a").await, 0);
        client.cx.principal = Principal::local().operator();
        assert_eq!(code(&mut client, "a").await, 3000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_invents_names_uses_up_its_own_buckets_and_not_those_of_others() {
        let by = RateLimit::per_hour(5).by(RateKey::Agent).by(RateKey::Tool);
        let mut client = client(&RateLayer::with_max_keys(vec![by], 8, None));
        for name in 0..100 {
            code(&mut client, &name.to_string()).await;
        }
        assert_eq!(code(&mut client, "new").await, 3000, "its shared bucket is used up");
        let mut admitted = 0;
        for name in 0..20 {
            client.cx.principal = Principal::new("t", format!("s{name}"));
            admitted += usize::from(code(&mut client, "a").await == 0);
        }
        // A few of these callers might share the bucket of the first caller.
        assert!(admitted > 15, "{admitted}");
    }

    #[tokio::test(start_paused = true)]
    async fn names_that_are_not_tools_count_as_one() {
        let layer = RateLayer::new(RateLimit::per_minute(1).by(RateKey::Tool));
        let mut client = client(&layer.tools(|name| name.starts_with('a')));
        let mut codes = Vec::new();
        for name in ["a1", "a2", "x", "y", "a3"] {
            codes.push(code(&mut client, name).await);
        }
        assert_eq!(codes, [0, 0, 0, 3000, 0]);
    }

    /// Regression test: the function for tools was called while the table was locked, so this test never ended.
    #[test]
    fn the_function_for_tools_can_ask_the_same_layer_for_its_counts() {
        let request = |method: &str, params: &str| {
            let scope = Scope::new(ScopeKind::Connection);
            let cx = Context::new(Peer::none(), scope, Principal::local());
            Call::request(Method::of(method), Params::split(method, params.into()).unwrap(), cx)
        };
        let (own, list) = (Arc::new(OnceLock::<RateLayer>::new()), request("tools/list", "{}"));
        let layer = RateLayer::new(RateLimit::per_minute(1).by(RateKey::Tool)).tools({
            let own = Arc::clone(&own);
            move |_: &str| own.get().is_some_and(|own| own.used(&list).len() == 1)
        });
        assert!(own.set(layer.clone()).is_ok());
        let call = request("tools/call", r#"{"name":"a"}"#);
        let (done, result) = mpsc::channel();
        thread::spawn(move || {
            let is_admitted = layer.state.count(&call).is_ok();
            done.send((is_admitted, layer.used(&call)[0].used))
        });
        let result = result.recv_timeout(Duration::from_secs(20));
        assert_eq!(result, Ok((true, 1)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_of_zero_refuses_all_calls_for_ever() {
        let mut client = client(&RateLayer::new(RateLimit::per_hour(0)));
        let error = client.request("tools/call", r#"{"name":"a"}"#).await.unwrap_err();
        assert!(!error.as_recovery().unwrap().is_retryable());
        assert_eq!(
            error.message(),
            "rate limited: more than 0 calls an hour by tenant; no call is allowed"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_minute_and_an_hour_limit_hold_together() {
        let layer = RateLayer::of([RateLimit::per_minute(2), RateLimit::per_hour(5)]);
        let mut client = client(&layer);
        let mut admitted = 0;
        for _ in 0..10 {
            for _ in 0..3 {
                admitted += usize::from(code(&mut client, "a").await == 0);
            }
            advance(Duration::from_secs(30)).await;
        }
        // Five calls are allowed immediately, and the next call of the hour after twelve minutes.
        assert_eq!(admitted, 5);
        let error = client.request("tools/call", r#"{"name":"a"}"#).await.unwrap_err();
        assert!(error.message().contains("5 calls an hour"), "{error}");
    }
}
