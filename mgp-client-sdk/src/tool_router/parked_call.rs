//! A parked call: it may ask its modern caller questions, and continues to run while it waits for the answers in the
//! caller's next request.

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use mgp_types::method::{Request, RootsList, SamplingCreateMessage};
use mgp_types::service::{BoxFuture, CallerChannel, CallerRequest, Principal, Recheck, Reply};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, Payload, RpcError};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::round_channel::RoundChannel;
use super::round_outlet::RoundOutlet;

/// The maximum time for which a call waits for an answer of a model or of the caller itself, i.e. not of a person.
/// During this time the questions of the server to other callers are refused, because they may belong to the parked
/// call.
pub(super) const PROGRAM_TTL: Duration = Duration::from_mins(5);

/// A call that may have open questions. Once it is parked, i.e. continues while it waits for its caller, it runs in its
/// own task.
pub(crate) struct ParkedCall {
    pub(super) principal: Principal,
    questions: Arc<Questions>,
    outlet: Arc<RoundOutlet>,
    /// The checks with which the call's gates confirm their decision when the call continues.
    pub(super) recheck: Recheck,
    /// The length of the call's arguments, in bytes.
    pub(super) size: usize,
    /// The channel with which the layers of the call ask the caller; `None` if the call did not begin within its
    /// caller's request.
    pub(super) channel: Option<Arc<RoundChannel>>,
    running: BoxFuture<'static, Result<Reply, RpcError>>,
    /// The handle of the call's own task, if the call runs in a task.
    task: Option<AbortHandle>,
}

/// The next event of a call.
pub(crate) enum ParkedEvent {
    Done(Result<Reply, RpcError>),
    /// The parked call waits for the answers to these questions.
    Asks(Vec<(String, CallerRequest)>),
}

impl ParkedCall {
    /// Starts a call in its own task; `make` receives the channel for the call's questions.
    pub(crate) fn start(
        principal: Principal,
        make: impl FnOnce(Arc<dyn CallerChannel>) -> BoxFuture<'static, Result<Reply, RpcError>>,
    ) -> Self {
        let mut call = Self::inline(principal, make);
        call.detach();
        call
    }

    /// Creates a call that runs in [`next`](Self::next) until it is parked; `make` receives the channel for the call's
    /// questions.
    pub(crate) fn inline(
        principal: Principal,
        make: impl FnOnce(Arc<dyn CallerChannel>) -> BoxFuture<'static, Result<Reply, RpcError>>,
    ) -> Self {
        let questions = Arc::new(Questions::default());
        let running = make(Arc::new(ParkedChannel(Arc::clone(&questions))));
        let (outlet, recheck) = (Arc::default(), Recheck::default());
        Self { principal, questions, outlet, recheck, size: 0, channel: None, running, task: None }
    }

    /// Lets the call run in its own task from now on.
    pub(super) fn detach(&mut self) {
        if self.task.is_some() {
            return;
        }
        if let Some(channel) = &self.channel {
            channel.park(Arc::new(ParkedChannel(Arc::clone(&self.questions))));
        }
        let task = tokio::spawn(std::mem::replace(&mut self.running, Box::pin(pending())));
        self.task = Some(task.abort_handle());
        self.running = Box::pin(async move {
            task.await.unwrap_or_else(|_| Err(RpcError::internal("the call was stopped")))
        });
    }

    /// Stores the outlet of the call's partial results, so that they can be redirected, the checks of the call's gates,
    /// and the length of the call's arguments.
    pub(super) fn with_caller(
        mut self,
        outlet: Arc<RoundOutlet>,
        recheck: Recheck,
        size: usize,
    ) -> Self {
        (self.outlet, self.recheck, self.size) = (outlet, recheck, size);
        self
    }

    /// Returns the outlet to which the call sends its partial results.
    pub(super) fn outlet(&self) -> &RoundOutlet {
        &self.outlet
    }

    /// Waits until the call ends or asks a question. If the call has ended while its caller answered, first returns
    /// the questions that the caller has seen, because they can belong to another call of the same caller.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> ParkedEvent {
        let (questions, running) = (&self.questions, &mut self.running);
        poll_fn(|task| {
            let shown = questions.shown();
            if !shown.is_empty() {
                return Poll::Ready(ParkedEvent::Asks(shown));
            }
            if let Poll::Ready(outcome) = running.as_mut().poll(task) {
                return Poll::Ready(ParkedEvent::Done(outcome));
            }
            match questions.open(task.waker()) {
                Some(asks) => Poll::Ready(ParkedEvent::Asks(asks)),
                None => Poll::Pending,
            }
        })
        .await
    }

    pub(crate) fn answer(&self, key: &str, answer: Result<Payload, RpcError>) {
        self.questions.answer(key, answer);
    }

    /// Returns the maximum time for which the call may wait for its caller.
    pub(super) fn max_ttl(&self) -> Duration {
        self.questions.max_ttl()
    }
}

impl Drop for ParkedCall {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
        // The futures that wait for answers own the channel to this call, so they cannot notice its end. Close the
        // questions to end their wait.
        self.questions.close();
    }
}

/// The open questions of one call.
#[derive(Default)]
struct Questions(Mutex<OpenQuestions>);

type Answer = oneshot::Sender<Result<Payload, RpcError>>;

#[derive(Default)]
struct OpenQuestions {
    asks: Vec<OpenAsk>,
    waker: Option<Waker>,
    /// `true` after the end of the call, when no question can be answered any more.
    is_closed: bool,
}

struct OpenAsk {
    key: String,
    ask: CallerRequest,
    answer: Answer,
    /// `true` once the caller is asked the question.
    is_shown: bool,
}

impl OpenQuestions {
    /// Removes questions that were cancelled, because they need no answer.
    fn remove_cancelled(&mut self) {
        self.asks.retain(|open| !open.answer.is_closed());
    }
}

impl Questions {
    /// Returns the open questions, which the caller is asked now; `None` if there are none.
    fn open(&self, waker: &Waker) -> Option<Vec<(String, CallerRequest)>> {
        let mut open = self.0.lock();
        open.remove_cancelled();
        if open.asks.is_empty() {
            open.waker = Some(waker.clone());
            return None;
        }
        let asks = open.asks.iter_mut().map(|open| {
            open.is_shown = true;
            (open.key.clone(), open.ask.clone())
        });
        Some(asks.collect())
    }

    /// Returns the open questions that the caller was asked before.
    fn shown(&self) -> Vec<(String, CallerRequest)> {
        let mut open = self.0.lock();
        open.remove_cancelled();
        let shown = open.asks.iter().filter(|open| open.is_shown);
        shown.map(|open| (open.key.clone(), open.ask.clone())).collect()
    }

    fn answer(&self, key: &str, answer: Result<Payload, RpcError>) {
        let mut open = self.0.lock();
        if let Some(index) = open.asks.iter().position(|open| open.key == key) {
            let sender = open.asks.remove(index).answer;
            // Ignore an error, because the question may have been cancelled meanwhile.
            let _ = sender.send(answer);
        }
    }

    fn max_ttl(&self) -> Duration {
        let no_person = [SamplingCreateMessage::METHOD, RootsList::METHOD];
        let open = self.0.lock();
        let is_short = !open.asks.is_empty()
            && open.asks.iter().all(|open| no_person.contains(&open.ask.method()));
        if is_short { PROGRAM_TTL } else { Duration::MAX }
    }

    /// Fails the open questions and all further questions.
    fn close(&self) {
        let asks = {
            let mut open = self.0.lock();
            open.is_closed = true;
            std::mem::take(&mut open.asks)
        };
        drop(asks);
    }
}

/// The channel through which a call asks its questions.
struct ParkedChannel(Arc<Questions>);

impl CallerChannel for ParkedChannel {
    fn ask(&self, key: &str, ask: CallerRequest) -> BoxFuture<'static, Result<Payload, RpcError>> {
        let (sender, receiver) = oneshot::channel();
        let waker = {
            let mut open = self.0.0.lock();
            if !open.is_closed {
                let key = key.to_owned();
                open.asks.push(OpenAsk { key, ask, answer: sender, is_shown: false });
            }
            open.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Box::pin(async move {
            receiver.await.unwrap_or_else(|_| {
                Err(RpcError::new(
                    ErrorCode::TIMEOUT,
                    "the question was not answered; make the call again to be asked again",
                ))
            })
        })
    }

    fn can_ask_now(&self) -> bool {
        let open = self.0.0.lock();
        // Even a question that the callee has withdrawn stays in the list until the caller's next round removes it, so
        // a new question would have to wait until then.
        !open.is_closed && open.asks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_questions_of_a_call_fail_when_it_ends() {
        let question = CallerRequest::new("elicitation/create", Payload::empty_object());
        let mut channel = None;
        let call = ParkedCall::start(Principal::local(), |asker| {
            channel = Some(asker);
            Box::pin(pending())
        });
        let channel = channel.unwrap();
        assert!(channel.can_ask_now());
        let open = channel.ask("a", question.clone());
        assert!(!channel.can_ask_now(), "the first question is open");
        drop(call);
        for asked in [open, channel.ask("b", question)] {
            assert_eq!(asked.await.unwrap_err().code(), ErrorCode::TIMEOUT);
        }
        assert!(!channel.can_ask_now());
    }
}
