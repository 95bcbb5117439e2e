//! The task that keeps the stream open.
//!
//! A stream that ends is opened again after a pause; what may have changed meanwhile is told as if it had.
//! A stream for another wish is opened before the old one is left, so that nothing is missed between them.
//!
//! Applies to: both, modern.

use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_util::future::{Either, select};
use mgp_types::mcp::{ListenParams, SubscriptionFilter};
use mgp_types::method::SubscriptionsListen;
use mgp_types::service::{BoxFuture, Call, CallKey, Reply};
use mgp_types::{ErrorCode, RpcError};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::Parts;
use super::ear::Ear;
use super::pause::Pause;
use super::wish::{Offer, Settled, Wish};
use crate::handler::Changed;

/// Keeps the stream open that the wish wants.
pub(super) struct Listener {
    parts: Parts,
    offer: Offer,
    wishes: watch::Receiver<Wish>,
    settle: watch::Sender<Settled>,
    pause: Pause,
    stream: Option<Stream>,
    /// Whether something may have changed that was not heard.
    missed: bool,
    /// What the server will refuse whenever it is asked.
    refused: Option<(SubscriptionFilter, RpcError)>,
}

/// A stream the server agreed to.
struct Stream {
    running: Running,
    asked: SubscriptionFilter,
    agreed: SubscriptionFilter,
    since: Instant,
}

type Running = BoxFuture<'static, Result<Reply, RpcError>>;

impl Listener {
    pub(super) fn new(
        parts: Parts,
        offer: Offer,
        wishes: watch::Receiver<Wish>,
        settle: watch::Sender<Settled>,
    ) -> Self {
        let pause = Pause::new(parts.config.clone());
        Self { parts, offer, wishes, settle, pause, stream: None, missed: false, refused: None }
    }

    /// Listens until the connection ends.
    pub(super) async fn run(self: Box<Self>) {
        let life = self.parts.life.clone();
        // Whoever drops the client ends the task.
        select(Box::pin(self.listen()), Box::pin(life.over())).await;
    }

    async fn listen(mut self: Box<Self>) {
        loop {
            let wish = self.wishes.borrow_and_update().clone();
            let wanted = self.offer.filter(&wish);
            let retry = match self.follow(wanted).await {
                Ok(agreed) => {
                    self.settle(wish.generation, Ok(agreed));
                    None
                }
                Err(error) => {
                    let is_new = self.settle(wish.generation, Err(error.clone()));
                    if self.stream.is_some() {
                        // It still tells what it told; the one who wanted more knows.
                        None
                    } else if is_final(&error) {
                        tracing::debug!(%error, "the server does not tell of changes");
                        None
                    } else {
                        if is_new {
                            self.pause.reset();
                        }
                        self.after(Some(&error))
                    }
                }
            };
            self.wait(retry).await;
        }
    }

    /// Sees to it that the stream is the one that is wanted; gives what the server agreed to.
    async fn follow(
        &mut self,
        wanted: Option<SubscriptionFilter>,
    ) -> Result<SubscriptionFilter, RpcError> {
        let Some(wanted) = wanted else {
            self.stream = None;
            // Whatever was refused may be asked for anew, unless the server knows no streams at all.
            self.refused.take_if(|(_, error)| error.code() != ErrorCode::METHOD_NOT_FOUND);
            return Ok(SubscriptionFilter::new());
        };
        if let Some(stream) = self.stream.as_ref().filter(|stream| stream.asked == wanted) {
            return Ok(stream.agreed.clone());
        }
        match &self.refused {
            Some((filter, error))
                if *filter == wanted || error.code() == ErrorCode::METHOD_NOT_FOUND =>
            {
                return Err(error.clone());
            }
            _ => {}
        }
        match self.open(&wanted).await {
            Ok((running, agreed)) => {
                let since = Instant::now();
                self.stream =
                    Some(Stream { running, asked: wanted, agreed: agreed.clone(), since });
                self.refused = None;
                if std::mem::take(&mut self.missed) {
                    self.tell(&agreed);
                }
                Ok(agreed)
            }
            Err(error) => {
                if is_final(&error) && self.stream.is_none() {
                    self.refused = Some((wanted, error.clone()));
                }
                Err(error)
            }
        }
    }

    /// Opens a stream and waits until the server agrees; the old one is listened to meanwhile.
    async fn open(
        &mut self,
        wanted: &SubscriptionFilter,
    ) -> Result<(Running, SubscriptionFilter), RpcError> {
        let (ear, agreed) = Ear::new();
        let mut cx = self.parts.cx.clone();
        cx.key = CallKey::next();
        cx.extensions.insert(ear);
        let call = Call::ask::<SubscriptionsListen>(&ListenParams::new(wanted.clone()), cx)?;
        let running = self.parts.stack.send(call);
        let patience = self.parts.patience;
        let opening = async move {
            match timeout(patience, select(running, agreed)).await {
                Ok(Either::Left((ended, _))) => {
                    let early = "the server ended the stream before it agreed to it";
                    Err(ended
                        .err()
                        .unwrap_or_else(|| RpcError::new(ErrorCode::UPSTREAM_ERROR, early)))
                }
                Ok(Either::Right((Ok(agreed), running))) => Ok((running, agreed)),
                // The call that could have heard it is gone.
                Ok(Either::Right((Err(_), running))) => {
                    Err(running.await.err().unwrap_or_else(|| {
                        RpcError::internal("the word of the server came to nobody")
                    }))
                }
                Err(_) => Err(RpcError::new(
                    ErrorCode::TIMEOUT,
                    format!("the server did not agree to tell of changes within {patience:?}"),
                )),
            }
        };
        let opening = Box::pin(opening);
        let Some(old) = &mut self.stream else { return opening.await };
        match select(opening, &mut old.running).await {
            Either::Left((opened, _)) => opened,
            Either::Right((_, opening)) => {
                (self.stream, self.missed) = (None, true);
                opening.await
            }
        }
    }

    /// Waits until there is something to do: another wish, the end of the stream, or the end of a pause.
    async fn wait(&mut self, retry: Option<Sleep>) {
        let retry = match &mut self.stream {
            Some(stream) => {
                let another = Box::pin(another(&mut self.wishes));
                let ended = match select(another, &mut stream.running).await {
                    Either::Left(_) => return,
                    Either::Right((ended, _)) => ended,
                };
                tracing::debug!(?ended, "the stream of changes ended");
                self.pause.lived(stream.since.elapsed());
                (self.stream, self.missed) = (None, true);
                self.after(ended.as_ref().err())
            }
            None => retry,
        };
        let another = Box::pin(another(&mut self.wishes));
        match retry {
            Some(retry) => {
                select(another, Box::pin(retry)).await;
            }
            None => another.await,
        }
    }

    /// The pause after a failure; none when it failed too often.
    fn after(&mut self, error: Option<&RpcError>) -> Option<Sleep> {
        let pause = self.pause.next(error);
        if pause.is_none() {
            let why = error.map(ToString::to_string);
            tracing::warn!(why, "the server's word of changes does not arrive any more");
        }
        pause.map(sleep)
    }

    /// Says what became of a wish; whether that was not known yet.
    fn settle(&self, generation: u64, outcome: Result<SubscriptionFilter, RpcError>) -> bool {
        let mut is_new = false;
        self.settle.send_modify(|settled| {
            is_new = settled.generation < generation;
            *settled = Settled { generation, outcome };
        });
        is_new
    }

    /// Tells of what may have changed while nobody listened.
    fn tell(&self, agreed: &SubscriptionFilter) {
        let lists = [
            (agreed.tools_list_changed, Changed::Tools),
            (agreed.prompts_list_changed, Changed::Prompts),
            (agreed.resources_list_changed, Changed::Resources),
        ];
        let lists = lists.into_iter().filter(|(told, _)| *told == Some(true)).map(|(_, what)| what);
        let watched = agreed.resource_subscriptions.iter().cloned().map(Changed::Resource);
        for what in lists.chain(watched) {
            self.parts.lists.forget(&what);
            let telling = AssertUnwindSafe(|| self.parts.hooks.tell(&what));
            if catch_unwind(telling).is_err() {
                tracing::error!(?what, "a hook panicked");
            }
        }
    }
}

/// Waits for another wish; for ever, where nobody is left to wish.
async fn another(wishes: &mut watch::Receiver<Wish>) {
    if wishes.changed().await.is_err() {
        pending::<()>().await;
    }
}

/// Whether the same question would get the same answer.
fn is_final(error: &RpcError) -> bool {
    matches!(
        error.code(),
        ErrorCode::METHOD_NOT_FOUND
            | ErrorCode::INVALID_REQUEST
            | ErrorCode::INVALID_PARAMS
            | ErrorCode::PERMISSION_DENIED
            | ErrorCode::AUTH_REQUIRED
            | ErrorCode::AUTH_EXPIRED
    )
}
