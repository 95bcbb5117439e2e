//! The task that keeps the stream of changes open.
//!
//! A stream that ends is opened again after a delay, and all of its lists and resources are reported as
//! changed. When subscriptions change, the new stream is opened before the old one is closed, so that nothing
//! is missed.

use std::future::pending;

use futures_util::future::{Either, select};
use mgp_types::mcp::{ListenParams, SubscriptionFilter};
use mgp_types::method::SubscriptionsListen;
use mgp_types::service::{BoxFuture, Call, CallKey, HttpFailure, Reply};
use mgp_types::{ErrorCode, RpcError};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::StreamContext;
use super::acknowledge::AcknowledgeSender;
use super::retry_delay::RetryDelay;
use super::subscriptions::{Agreement, Reportable, Subscriptions, keep_requested};
use crate::handler::ServerChange;

pub(super) struct Listener {
    context: StreamContext,
    reportable: Reportable,
    subscription_changes: watch::Receiver<Subscriptions>,
    agreement_sender: watch::Sender<Agreement>,
    retry_delay: RetryDelay,
    stream: Option<Stream>,
    /// `true` if the server has accepted a stream since the client last needed no stream. Then a refusal does not count
    /// as permanent, because the server can accept a stream again.
    has_lived: bool,
    /// `true` if changes may have been missed.
    may_have_missed: bool,
    /// The last subscription filter that the server permanently refused, with its error.
    refusal: Option<(SubscriptionFilter, RpcError)>,
}

/// A stream of changes that the server has accepted.
struct Stream {
    running: Running,
    wanted: SubscriptionFilter,
    agreed: SubscriptionFilter,
    since: Instant,
}

type Running = BoxFuture<'static, Result<Reply, RpcError>>;

impl Listener {
    pub(super) fn new(
        context: StreamContext,
        reportable: Reportable,
        subscription_changes: watch::Receiver<Subscriptions>,
        agreement_sender: watch::Sender<Agreement>,
    ) -> Self {
        let retry_delay = RetryDelay::new(context.config.clone());
        Self {
            context,
            reportable,
            subscription_changes,
            agreement_sender,
            retry_delay,
            stream: None,
            has_lived: false,
            may_have_missed: false,
            refusal: None,
        }
    }

    pub(super) async fn run(self: Box<Self>) {
        let liveness = self.context.liveness.clone();
        // Listen until the connection ends. If the client is dropped, this task is aborted.
        select(Box::pin(self.listen()), Box::pin(liveness.ended())).await;
    }

    async fn listen(mut self: Box<Self>) {
        loop {
            let subscriptions = self.subscription_changes.borrow_and_update().clone();
            let wanted = self.reportable.filter(&subscriptions);
            let retry = match self.update(wanted).await {
                Ok(agreed) => {
                    self.publish(subscriptions.generation, Ok(agreed));
                    None
                }
                Err(error) => {
                    let is_new = self.publish(subscriptions.generation, Err(error.clone()));
                    if self.stream.is_some() {
                        // Keep the old stream, which still works. Only the caller that requested the change receives
                        // the error.
                        None
                    } else if self.is_final(&error) {
                        tracing::debug!(%error, "server does not report changes");
                        None
                    } else {
                        if is_new {
                            self.retry_delay.reset();
                        }
                        Some(self.schedule_retry(Some(&error)))
                    }
                }
            };
            self.wait(retry).await;
        }
    }

    /// Opens, keeps or closes the stream, as the subscriptions require. Returns the filter that the server
    /// accepted.
    async fn update(
        &mut self,
        wanted: Option<SubscriptionFilter>,
    ) -> Result<SubscriptionFilter, RpcError> {
        let Some(wanted) = wanted else {
            (self.stream, self.has_lived) = (None, false);
            // No stream is needed now. Forget that the server refused the filter, so that it is tried again later,
            // unless the server does not support streams at all.
            self.refusal.take_if(|(_, error)| error.code() != ErrorCode::METHOD_NOT_FOUND);
            return Ok(SubscriptionFilter::new());
        };
        if let Some(stream) = self.stream.as_ref().filter(|stream| stream.wanted == wanted) {
            return Ok(stream.agreed.clone());
        }
        match &self.refusal {
            Some((filter, error))
                if *filter == wanted || error.code() == ErrorCode::METHOD_NOT_FOUND =>
            {
                return Err(error.clone());
            }
            _ => {}
        }
        match self.open(&wanted).await {
            Ok((running, mut agreed)) => {
                keep_requested(&mut agreed, &wanted);
                let since = Instant::now();
                self.stream = Some(Stream { running, wanted, agreed: agreed.clone(), since });
                (self.refusal, self.has_lived) = (None, true);
                if std::mem::take(&mut self.may_have_missed) {
                    self.report_all(&agreed);
                }
                Ok(agreed)
            }
            Err(error) => {
                if self.stream.is_none() {
                    if self.is_final(&error) {
                        self.refusal = Some((wanted, error.clone()));
                    } else {
                        // The caller may have read the lists already, and no stream reports their changes. So report
                        // them as changed once a stream is open.
                        self.may_have_missed = true;
                    }
                }
                Err(error)
            }
        }
    }

    /// Opens a stream and waits until the server accepts it; fails after the time limit of the context. Meanwhile, the
    /// old stream is still read.
    async fn open(
        &mut self,
        wanted: &SubscriptionFilter,
    ) -> Result<(Running, SubscriptionFilter), RpcError> {
        let (acknowledge, agreed) = AcknowledgeSender::new();
        let mut cx = self.context.cx.clone();
        cx.key = CallKey::next();
        cx.extensions.insert(acknowledge);
        let call = Call::ask::<SubscriptionsListen>(&ListenParams::new(wanted.clone()), cx)?;
        let running = self.context.stack.send(call);
        let acknowledge_timeout = self.context.acknowledge_timeout;
        let opening = async move {
            match timeout(acknowledge_timeout, select(running, agreed)).await {
                Ok(Either::Left((ended, _))) => {
                    let early = "the server ended the stream before it agreed to it";
                    Err(ended
                        .err()
                        .unwrap_or_else(|| RpcError::new(ErrorCode::UPSTREAM_ERROR, early)))
                }
                Ok(Either::Right((Ok(agreed), running))) => Ok((running, agreed)),
                // The call ended before the acknowledgement arrived, so return the error of the call.
                Ok(Either::Right((Err(_), running))) => Err(running
                    .await
                    .err()
                    .unwrap_or_else(|| RpcError::internal("the acknowledgement was lost"))),
                Err(_) => Err(RpcError::new(
                    ErrorCode::TIMEOUT,
                    format!(
                        "the server did not agree to report changes within {}",
                        mgp_types::duration_words(acknowledge_timeout)
                    ),
                )),
            }
        };
        let opening = Box::pin(opening);
        let Some(old) = &mut self.stream else { return opening.await };
        match select(opening, &mut old.running).await {
            Either::Left((opened, _)) => opened,
            Either::Right((_, opening)) => {
                (self.stream, self.may_have_missed) = (None, true);
                opening.await
            }
        }
    }

    /// Waits for a change of the subscriptions, the end of the stream, or the end of the retry delay.
    async fn wait(&mut self, retry: Option<Sleep>) {
        let retry = match &mut self.stream {
            Some(stream) => {
                let changed = Box::pin(changed(&mut self.subscription_changes));
                let ended = match select(changed, &mut stream.running).await {
                    Either::Left(_) => return,
                    Either::Right((ended, _)) => ended,
                };
                tracing::debug!(?ended, "stream of changes ended");
                self.retry_delay.stream_ended(stream.since.elapsed());
                (self.stream, self.may_have_missed) = (None, true);
                Some(self.schedule_retry(ended.as_ref().err()))
            }
            None => retry,
        };
        let changed = Box::pin(changed(&mut self.subscription_changes));
        match retry {
            Some(retry) => {
                select(changed, Box::pin(retry)).await;
            }
            None => changed.await,
        }
    }

    /// Returns whether an error is permanent, so that the same request would be refused again.
    fn is_final(&self, error: &RpcError) -> bool {
        let failure = HttpFailure::from_error(error);
        if failure.is_some_and(|failure| !matches!(failure, HttpFailure::StatusWithError(_))) {
            // The answer did not come from the server, e.g. a proxy sent it while the server restarts. So it is not
            // permanent.
            return false;
        }
        // A refusal by this process, e.g. because no login is stored, is permanent: further attempts would ask a person
        // to log in again and again. A refusal by the server may be temporary if the stream was open before.
        let is_own = failure.is_none() && std::error::Error::source(error).is_some();
        let is_refusal = matches!(
            error.code(),
            ErrorCode::METHOD_NOT_FOUND
                | ErrorCode::INVALID_REQUEST
                | ErrorCode::INVALID_PARAMS
                | ErrorCode::PERMISSION_DENIED
                | ErrorCode::AUTH_REQUIRED
                | ErrorCode::AUTH_EXPIRED
        );
        is_refusal && (is_own || !self.has_lived)
    }

    /// Returns a timer for the next attempt after a failure, and warns once after too many failures.
    fn schedule_retry(&mut self, error: Option<&RpcError>) -> Sleep {
        if self.retry_delay.is_at_limit() {
            let why = error.map(ToString::to_string);
            tracing::warn!(
                error = why,
                "stream of changes lost: until it is open again, changes of the server are not reported"
            );
        }
        sleep(self.retry_delay.next(error))
    }

    /// Publishes the result for a generation of subscriptions; returns whether that generation is new.
    fn publish(&self, generation: u64, outcome: Result<SubscriptionFilter, RpcError>) -> bool {
        let (mut is_new, has_stream) = (false, self.stream.is_some());
        self.agreement_sender.send_modify(|agreement| {
            is_new = agreement.generation < generation;
            *agreement = Agreement { generation, outcome, has_stream };
        });
        is_new
    }

    /// Reports all lists and resources of the stream as changed.
    fn report_all(&self, agreed: &SubscriptionFilter) {
        let lists = [
            (agreed.tools_list_changed, ServerChange::Tools),
            (agreed.prompts_list_changed, ServerChange::Prompts),
            (agreed.resources_list_changed, ServerChange::Resources),
        ];
        let lists = lists
            .into_iter()
            .filter(|(is_agreed, _)| *is_agreed == Some(true))
            .map(|(_, what)| what);
        let resources = agreed.resource_subscriptions.iter().cloned().map(ServerChange::Resource);
        for what in lists.chain(resources) {
            self.context.lists.invalidate(&what);
            self.context.hooks.notify_change(&what);
        }
    }
}

/// Waits for a change of the subscriptions; never returns after the client was dropped.
async fn changed(subscription_changes: &mut watch::Receiver<Subscriptions>) {
    if subscription_changes.changed().await.is_err() {
        pending::<()>().await;
    }
}
