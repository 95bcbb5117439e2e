//! How long a request may take: a time-out on every one, which progress extends up to a cap (MGP §14.3: 3003; MCP time-outs).
//!
//! Applies to: outbound.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as Task, Poll, ready};
use std::time::Duration;

use mgp_lifecycle::Refusal;
use mgp_types::RpcError;
use mgp_types::method::SubscriptionsListen;
use mgp_types::service::{
    BoxFuture, Call, Deadline, Gone, Item, ItemKind, Kind, MgpService, Outlet, Progress, Reply,
    Sink,
};
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};
use tower_layer::Layer;
use tower_service::Service;

/// How long one request may take; in the extensions of a call it replaces the client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    /// Without a sign of life.
    pub(crate) timeout: Duration,
    /// In all.
    pub(crate) max: Duration,
}

/// Is told about every step of every tool call.
pub(crate) type ProgressHook = Arc<dyn Fn(&str, &Progress) + Send + Sync>;

/// Ends requests that take too long with 3003; giving one up cancels it at the server.
///
/// Tool calls ask for progress, because each step of it proves that somebody works: it starts the time anew.
#[derive(Clone)]
pub(crate) struct PatienceLayer {
    allowance: Allowance,
    progress: Option<ProgressHook>,
}

impl PatienceLayer {
    pub(crate) fn new(allowance: Allowance, progress: Option<ProgressHook>) -> Self {
        Self { allowance, progress }
    }
}

impl<S> Layer<S> for PatienceLayer {
    type Service = Patience<S>;

    fn layer(&self, inner: S) -> Patience<S> {
        Patience { inner, layer: self.clone() }
    }
}

/// Service of [`PatienceLayer`].
#[derive(Clone)]
pub(crate) struct Patience<S> {
    inner: S,
    layer: PatienceLayer,
}

impl<S: MgpService> Service<Call> for Patience<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, mut call: Call) -> Self::Future {
        let bounded = call.kind() == Kind::Request && !call.is::<SubscriptionsListen>();
        let own = call.cx().extensions.get::<Allowance>().copied();
        let allowance = own.unwrap_or(self.layer.allowance);
        let mut future = Wait {
            timeout: allowance.timeout,
            began: Instant::now(),
            deadline: Deadline::none(),
            cap: Deadline::none(),
            watch: None,
        };
        if bounded {
            future.cap = Deadline::after(allowance.max).earlier(call.cx().deadline);
            future.deadline = Deadline::after(allowance.timeout).earlier(future.cap);
            call.cx_mut().deadline = future.cap;
            future.watch = self.watch(&mut call);
        }
        ResponseFuture { future: self.inner.call(call), wait: future, sleep: None }
    }
}

impl<S> Patience<S> {
    /// Puts a look-out into the outlet of a tool call.
    fn watch(&self, call: &mut Call) -> Option<Arc<Watch>> {
        let tool = call.tool()?.name.to_owned();
        let hook = self.layer.progress.clone().map(|hook| (tool, hook));
        let inner = std::mem::take(&mut call.cx_mut().outlet);
        let watch = Arc::new(Watch { inner, seen: Mutex::default(), hook });
        call.cx_mut().outlet = Outlet::new(Arc::clone(&watch) as Arc<dyn Sink>);
        Some(watch)
    }
}

struct Wait {
    timeout: Duration,
    began: Instant,
    deadline: Deadline,
    cap: Deadline,
    watch: Option<Arc<Watch>>,
}

impl Wait {
    /// The deadline as the last sign of life leaves it.
    fn extended(&self) -> Option<Instant> {
        let last = self.watch.as_ref()?.last()?;
        let next = last.checked_add(self.timeout)?;
        Some(self.cap.instant().map_or(next, |cap| next.min(cap)))
    }
}

pin_project! {
    /// Response future of [`Patience`].
    pub(crate) struct ResponseFuture<F> {
        #[pin]
        future: F,
        wait: Wait,
        // Made when the call does not complete at once: a timer costs more than a short call.
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
        let Some(deadline) = this.wait.deadline.instant() else { return Poll::Pending };
        let sleep = this.sleep.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        loop {
            ready!(sleep.as_mut().poll(task));
            let now = Instant::now();
            match this.wait.extended() {
                Some(later) if later > now => sleep.as_mut().reset(later),
                _ => {
                    let waited = now.duration_since(this.wait.began);
                    let waited = Duration::from_millis(
                        u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
                    );
                    return Poll::Ready(Err(Refusal::TimedOut(waited).into()));
                }
            }
        }
    }
}

// === The look-out ===

/// Notes every item of a call on its way to the caller.
struct Watch {
    inner: Outlet,
    seen: Mutex<Seen>,
    hook: Option<(String, ProgressHook)>,
}

#[derive(Default)]
struct Seen {
    last: Option<Instant>,
    step: Option<Progress>,
}

impl Watch {
    fn last(&self) -> Option<Instant> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).last
    }

    /// Notes an item; `false` when it says what the one before said.
    ///
    /// A peer that negotiated MGP tells each step twice, in MCP's form and in its own (§12.6).
    fn note(&self, item: &Item) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.last = Some(Instant::now());
        let Item::Progress(step) = item else { return true };
        let news = !seen.step.as_ref().is_some_and(|before| is_twin(before, step));
        seen.step = Some(step.clone());
        news
    }
}

fn is_twin(before: &Progress, step: &Progress) -> bool {
    let share = |step: &Progress| (step.progress / step.total.unwrap_or(1.0)).clamp(0.0, 1.0);
    step.total == Some(1.0)
        && step.estimated_remaining_ms.is_none()
        && (share(before) - share(step)).abs() < 1e-9
        && before.message == step.message
}

impl Sink for Watch {
    fn send(&self, item: Item) -> BoxFuture<'_, Result<(), Gone>> {
        let news = self.note(&item);
        if let (true, Item::Progress(step), Some((tool, hook))) = (news, &item, &self.hook) {
            hook(tool, step);
        }
        if news && self.inner.wants(item.kind()) {
            Box::pin(self.inner.send(item))
        } else {
            Box::pin(std::future::ready(Ok(())))
        }
    }

    fn wants(&self, kind: ItemKind) -> bool {
        kind == ItemKind::Progress || self.inner.wants(kind)
    }
}

impl fmt::Debug for PatienceLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.allowance.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::service::{Stack, mock};
    use tokio::time::sleep;

    use super::*;

    const ALLOWANCE: Allowance =
        Allowance { timeout: Duration::from_secs(10), max: Duration::from_secs(35) };

    /// Takes this long, with a step every so often.
    fn steps(every: Duration, count: u32) -> Stack {
        Stack::from_fn(move |call: Call| async move {
            for number in 0..count {
                sleep(every).await;
                let progress = f64::from(number);
                let step = Progress { progress, ..Progress::default() };
                let _ = call.cx().outlet.send(Item::Progress(step)).await;
            }
            Ok(Reply::empty())
        })
    }

    fn client(stack: Stack) -> mock::Client {
        mock::client(Stack::new(PatienceLayer::new(ALLOWANCE, None).layer(stack)))
    }

    #[tokio::test(start_paused = true)]
    async fn every_request_is_bounded() {
        let mut client = client(Stack::from_fn(|_| std::future::pending()));
        for method in ["tools/call", "tools/list", "mgp/health/ping"] {
            let error = client.request(method, r#"{"name":"t"}"#).await.unwrap_err();
            assert_eq!(
                error.to_string(),
                "no answer within 10s; it may have run: call again only if that does no harm (3003)"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn progress_extends_up_to_the_cap() {
        let call = r#"{"name":"t"}"#;
        let mut patient = client(steps(Duration::from_secs(8), 3));
        assert!(patient.request("tools/call", call).await.is_ok());
        let mut capped = client(steps(Duration::from_secs(8), 9));
        let error = capped.request("tools/call", call).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "no answer within 35s; it may have run: call again only if that does no harm (3003)"
        );
        let mut silent = client(steps(Duration::from_secs(11), 1));
        let error = silent.request("tools/call", call).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "no answer within 10s; it may have run: call again only if that does no harm (3003)"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_of_notifications_has_no_end() {
        let mut client = client(Stack::from_fn(|_| async {
            sleep(Duration::from_secs(100_000)).await;
            Ok(Reply::empty())
        }));
        assert!(client.request("subscriptions/listen", "{}").await.is_ok());
    }
}
