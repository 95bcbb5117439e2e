//! An adapter between hyper and a service: it refuses requests with several hosts, counts the requests of a connection,
//! and polls them only after they were woken.

use std::cell::Cell;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context as Task, Poll, Wake, Waker, ready};

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http::header::HOST;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use pin_project_lite::pin_project;
use tower_service::Service;

use super::refusal::Refusal;

/// The activity of one connection: how many of its requests have begun, and how many have been answered completely.
///
/// It also records whether the running request was woken since its last poll. hyper polls a request two or three times
/// as often as needed, and each poll passes through the whole stack, so unnecessary polls are skipped.
#[derive(Debug, Default)]
pub(super) struct Activity {
    begun: AtomicUsize,
    ended: AtomicUsize,
    /// `true` if the running request was woken since its last poll.
    is_woken: AtomicBool,
    task: AtomicWaker,
}

impl Activity {
    /// Returns the number of requests that have begun.
    pub(super) fn begun(&self) -> usize {
        self.begun.load(Ordering::Relaxed)
    }

    /// Returns the number of requests that have been answered completely.
    pub(super) fn ended(&self) -> usize {
        self.ended.load(Ordering::Relaxed)
    }
}

impl Wake for Activity {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.task.wake();
    }
}

/// A guard for a request that is not answered completely yet.
struct ActiveRequest(Arc<Activity>);

impl ActiveRequest {
    fn begin(activity: &Arc<Activity>) -> Self {
        activity.begun.fetch_add(1, Ordering::Relaxed);
        activity.is_woken.store(true, Ordering::Release);
        Self(Arc::clone(activity))
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// A service that counts its requests. It has no `poll_ready`, so the inner service must always be ready.
pub(super) struct TrackedService<S> {
    pub(super) service: S,
    pub(super) activity: Arc<Activity>,
    /// If set, several requests can run at the same time. Their wake-ups cannot be distinguished, so every poll is
    /// passed on.
    pub(super) is_multiplexed: bool,
}

impl<S, R> hyper::service::Service<Request<Incoming>> for TrackedService<S>
where
    S: Service<Request<Incoming>, Response = Response<R>, Error = Infallible> + Clone,
{
    type Response = Response<TrackedBody<R>>;
    type Error = Infallible;
    type Future = TrackedFuture<S::Future>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let running = Some(ActiveRequest::begin(&self.activity));
        let waker = (!self.is_multiplexed).then(|| Waker::from(Arc::clone(&self.activity)));
        // A proxy and the service could use different values of a repeated header `Host` (RFC 9112 §3.2).
        let has_one_host = request.headers().get_all(HOST).iter().nth(1).is_none();
        let future = has_one_host.then(|| self.service.clone().call(request));
        TrackedFuture { future, running, waker }
    }
}

pin_project! {
    pub(super) struct TrackedFuture<F> {
        // The answer of the service; `None` if the request is refused.
        #[pin]
        future: Option<F>,
        running: Option<ActiveRequest>,
        // The waker that records wake-ups; `None` if every poll is passed on.
        waker: Option<Waker>,
    }
}

impl<F, R> Future for TrackedFuture<F>
where
    F: Future<Output = Result<Response<R>, Infallible>>,
{
    type Output = Result<Response<TrackedBody<R>>, Infallible>;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let (Some(ActiveRequest(activity)), Some(_)) = (&this.running, &this.waker) {
            // The task is registered before `is_woken` is read, so that a wake-up in between wakes this task.
            activity.task.register(task.waker());
            if !activity.is_woken.swap(false, Ordering::AcqRel) {
                return Poll::Pending;
            }
        }
        let Some(future) = this.future.as_pin_mut() else {
            let refused = Refusal::Duplicate("Host").into_response::<Bytes>(None);
            let running = this.running.take();
            return Poll::Ready(Ok(refused.map(|text| TrackedBody {
                body: None,
                rest: Some(text),
                _running: running,
            })));
        };
        let waker = this.waker.as_ref().unwrap_or(task.waker());
        let answer = ready!(future.poll(&mut Task::from_waker(waker)));
        let running = this.running.take();
        let rest = this.waker.is_none().then(Bytes::new);
        Poll::Ready(answer.map(|response| {
            response.map(|body| TrackedBody { body: Some(body), rest, _running: running })
        }))
    }
}

/// The maximum number of bytes that the body of a multiplexed request hands out in one piece.
///
/// hyper holds what was handed out until the client has read nearly everything before it. So this is also the number of
/// bytes that a client must read within the stall timeout; it is the usual size of a frame of HTTP/2.
const MAX_PIECE_BYTES: usize = 16 * 1024;

thread_local! {
    /// The outcome of the last poll of a multiplexed request's body on this thread: whether it handed out data; `None`
    /// if no body was polled since [`observe_body`] began.
    static HANDED_OUT: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Polls a multiplexed request. Also returns whether the last poll of its body, if any, handed out data: hyper does not
/// poll the body again until the client has room for these data.
#[cfg(feature = "http2")]
pub(super) fn observe_body<T>(poll: impl FnOnce() -> T) -> (T, Option<bool>) {
    HANDED_OUT.set(None);
    let outcome = poll();
    (outcome, HANDED_OUT.take())
}

pin_project! {
    /// Body of a response that is being sent.
    pub(super) struct TrackedBody<R> {
        // The body of the service's response; `None` if the request was refused, and `rest` is the whole body.
        #[pin]
        body: Option<R>,
        // The part of the last frame that is not handed out yet; `None` if the connection is not multiplexed, and
        // frames are handed out whole.
        rest: Option<Bytes>,
        _running: Option<ActiveRequest>,
    }
}

impl<R: Body<Data = Bytes>> Body for TrackedBody<R> {
    type Data = Bytes;
    type Error = R::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        task: &mut Task<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, R::Error>>> {
        let this = self.project();
        let mut body = this.body;
        let mut poll_body = || match body.as_mut().as_pin_mut() {
            Some(body) => body.poll_frame(task),
            None => Poll::Ready(None),
        };
        let Some(rest) = this.rest else { return poll_body() };
        HANDED_OUT.set(Some(false));
        let mut piece = std::mem::take(rest);
        if piece.is_empty() {
            piece = match ready!(poll_body()) {
                Some(Ok(frame)) if frame.is_data() => frame.into_data().unwrap_or_default(),
                other => return Poll::Ready(other),
            };
        }
        *rest = piece.split_off(piece.len().min(MAX_PIECE_BYTES));
        HANDED_OUT.set(Some(!piece.is_empty()));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.as_ref().is_none_or(Bytes::is_empty)
            && self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let mut size = self.body.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint);
        let rest = self.rest.as_ref().map_or(0, |rest| rest.len() as u64);
        if let Some(upper) = size.upper() {
            size.set_upper(upper + rest);
        }
        size.set_lower(size.lower() + rest);
        size
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Mutex;

    use http_body_util::Full;

    use super::*;

    /// Creates a response future that counts its polls and exposes its waker; it completes after `steps` polls.
    fn answering(
        activity: &Arc<Activity>,
        steps: usize,
        polls: &Arc<Mutex<(usize, Option<Waker>)>>,
    ) -> TrackedFuture<impl Future<Output = Result<Response<()>, Infallible>> + use<>> {
        let polls = Arc::clone(polls);
        let future = poll_fn(move |task| {
            let mut polls = polls.lock().unwrap();
            polls.0 += 1;
            polls.1 = Some(task.waker().clone());
            if polls.0 == steps { Poll::Ready(Ok(Response::new(()))) } else { Poll::Pending }
        });
        let running = Some(ActiveRequest::begin(activity));
        let waker = Some(Waker::from(Arc::clone(activity)));
        TrackedFuture { future: Some(future), running, waker }
    }

    #[test]
    fn a_response_is_polled_only_when_it_was_woken() {
        let (activity, polls) = (Arc::<Activity>::default(), Arc::default());
        let mut answer = std::pin::pin!(answering(&activity, 3, &polls));
        let mut poll = || answer.as_mut().poll(&mut Task::from_waker(Waker::noop())).is_ready();
        let wake = || polls.lock().unwrap().1.take().unwrap().wake();
        assert!(!poll() && !poll() && !poll());
        assert_eq!(polls.lock().unwrap().0, 1);
        wake();
        assert!(!poll() && !poll());
        assert_eq!(polls.lock().unwrap().0, 2);
        wake();
        assert!(poll());
    }

    #[tokio::test]
    async fn waking_a_response_wakes_its_task() {
        let (activity, polls) = (Arc::<Activity>::default(), Arc::default());
        let answer = tokio::spawn(answering(&activity, 2, &polls));
        while polls.lock().unwrap().1.is_none() {
            tokio::task::yield_now().await;
        }
        // Wakes from another thread, as timers and other connections do.
        let waker = polls.lock().unwrap().1.take().unwrap();
        std::thread::spawn(move || waker.wake()).join().unwrap();
        assert!(answer.await.is_ok());
    }

    #[test]
    fn the_body_of_a_multiplexed_request_is_handed_out_in_pieces() {
        let whole = Full::new(Bytes::from(vec![b'x'; 2 * MAX_PIECE_BYTES + 1]));
        let body = TrackedBody { body: Some(whole), rest: Some(Bytes::new()), _running: None };
        let mut body = std::pin::pin!(body);
        let mut sizes = Vec::new();
        while !body.is_end_stream() {
            let left = body.size_hint().exact().unwrap();
            let polled = body.as_mut().poll_frame(&mut Task::from_waker(Waker::noop()));
            let Poll::Ready(Some(Ok(frame))) = polled else { panic!("no data") };
            sizes.push((left, frame.into_data().unwrap().len()));
        }
        let piece = MAX_PIECE_BYTES as u64;
        assert_eq!(sizes, [(2 * piece + 1, MAX_PIECE_BYTES), (piece + 1, MAX_PIECE_BYTES), (1, 1)]);
    }
}
