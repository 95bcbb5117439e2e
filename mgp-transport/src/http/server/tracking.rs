//! Adapters between hyper and a connection: a service that counts its requests and polls them only after they were
//! woken, and a socket that disconnects slow peers.

use std::cell::Cell;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context as Task, Poll, Wake, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::coop::has_budget_remaining;
use tokio::time::{Sleep, sleep};
use tower_service::Service;

use super::listener::ConnectionLimits;

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
        TrackedFuture { future: self.service.clone().call(request), running, waker }
    }
}

pin_project! {
    pub(super) struct TrackedFuture<F> {
        #[pin]
        future: F,
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
        let waker = this.waker.as_ref().unwrap_or(task.waker());
        let answer = ready!(this.future.poll(&mut Task::from_waker(waker)));
        let running = this.running.take();
        let rest = this.waker.is_none().then(Bytes::new);
        Poll::Ready(
            answer
                .map(|response| response.map(|body| TrackedBody { body, rest, _running: running })),
        )
    }
}

/// The maximum number of bytes that the body of a multiplexed request hands out at once.
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
        #[pin]
        body: R,
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
        let Some(rest) = this.rest else { return this.body.poll_frame(task) };
        HANDED_OUT.set(Some(false));
        let mut piece = std::mem::take(rest);
        if piece.is_empty() {
            piece = match ready!(this.body.poll_frame(task)) {
                Some(Ok(frame)) if frame.is_data() => frame.into_data().unwrap_or_default(),
                other => return Poll::Ready(other),
            };
        }
        *rest = piece.split_off(piece.len().min(MAX_PIECE_BYTES));
        HANDED_OUT.set(Some(!piece.is_empty()));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.as_ref().is_none_or(Bytes::is_empty) && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let mut size = self.body.size_hint();
        let rest = self.rest.as_ref().map_or(0, |rest| rest.len() as u64);
        if let Some(upper) = size.upper() {
            size.set_upper(upper + rest);
        }
        size.set_lower(size.lower() + rest);
        size
    }
}

/// A socket that fails if the peer does not send a request, or does not read an answer, in time.
pub(super) struct TimeoutSocket<T> {
    socket: T,
    head_timeout: Duration,
    stall: Duration,
    activity: Arc<Activity>,
    /// The timer of the periodic check whether a request has begun. It runs all the time, because starting a timer for
    /// each request would cost more.
    reading: Option<Pin<Box<Sleep>>>,
    /// The waker that is registered with the timer `reading`.
    reader: Option<Waker>,
    /// The number of requests that had begun at the last check.
    begun: usize,
    /// A timer that is started when a write has to wait, and stopped when everything is written.
    writing: Option<Pin<Box<Sleep>>>,
    /// The number of bytes that were written since the timer `writing` was started.
    written: usize,
}

/// The number of bytes that a client must read while the timer runs; far less than any usable connection transfers.
const MIN_READ_BYTES: usize = 4 * 1024;

impl<T> TimeoutSocket<T> {
    pub(super) fn new(socket: T, limits: &ConnectionLimits, activity: Arc<Activity>) -> Self {
        let (head_timeout, stall) = (limits.head_timeout, limits.stall_timeout);
        Self {
            socket,
            head_timeout,
            stall,
            activity,
            reading: None,
            reader: None,
            begun: 0,
            writing: None,
            written: 0,
        }
    }

    /// Checks the read timeout; called when the socket has no data to read.
    fn check_read_timeout(&mut self, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        let head_timeout = self.head_timeout;
        let timer = self.reading.get_or_insert_with(|| Box::pin(sleep(head_timeout)));
        // The timer is running, and will wake this task, so it need not be polled.
        if !timer.is_elapsed()
            && self.reader.as_ref().is_some_and(|waker| waker.will_wake(task.waker()))
        {
            return Poll::Pending;
        }
        // If tokio's task budget is used up, the timer registers no waker, but tokio polls this task again.
        self.reader = has_budget_remaining().then(|| task.waker().clone());
        while timer.as_mut().poll(task).is_ready() {
            let begun = self.activity.begun.load(Ordering::Relaxed);
            let idle = begun == self.activity.ended.load(Ordering::Relaxed);
            if idle && begun == self.begun {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.begun = begun;
            self.reader = None;
            timer.set(sleep(head_timeout));
        }
        Poll::Pending
    }

    fn check_write_timeout(
        &mut self,
        written: Poll<io::Result<usize>>,
        task: &mut Task<'_>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(outcome) = written {
            self.written += outcome.as_ref().map_or(0, |count| *count);
            return Poll::Ready(outcome);
        }
        let stall = self.stall;
        if self.writing.is_none() {
            self.written = 0;
        }
        let timer = self.writing.get_or_insert_with(|| Box::pin(sleep(stall)));
        while timer.as_mut().poll(task).is_ready() {
            if self.written < MIN_READ_BYTES {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.written = 0;
            timer.set(sleep(stall));
        }
        Poll::Pending
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for TimeoutSocket<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.socket).poll_read(task, buf) {
            Poll::Pending => self.check_read_timeout(task),
            read @ Poll::Ready(_) => read,
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for TimeoutSocket<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(task, bytes);
        self.check_write_timeout(written, task)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(task, pieces);
        self.check_write_timeout(written, task)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        // hyper flushes only after it has written everything, so the timer can stop.
        self.writing = None;
        Pin::new(&mut self.socket).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(task)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Mutex;

    use http_body_util::Full;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::consume_budget;
    use tokio::time::timeout;

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
        TrackedFuture { future, running, waker: Some(Waker::from(Arc::clone(activity))) }
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
        let body = TrackedBody { body: whole, rest: Some(Bytes::new()), _running: None };
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

    #[tokio::test]
    async fn a_head_times_out_even_if_the_task_had_no_budget() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _silent = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (socket, _) = listener.accept().await.unwrap();
        let head_time = Duration::from_millis(20);
        let limits = ConnectionLimits { head_timeout: head_time, ..ConnectionLimits::default() };
        let mut socket = TimeoutSocket::new(socket, &limits, Arc::default());
        let (mut is_first, mut space) = (true, [0; 8]);
        let read = poll_fn(|task| {
            let spends = std::mem::take(&mut is_first);
            while spends && has_budget_remaining() {
                let _ = std::pin::pin!(consume_budget()).poll(task);
            }
            Pin::new(&mut socket).poll_read(task, &mut ReadBuf::new(&mut space))
        });
        let read = timeout(Duration::from_secs(10), read).await.unwrap();
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
