//! What hyper sees of a connection: a service that says when it is busy and is asked only when it has something to say, a
//! socket that gives up who is too slow.
//!
//! Applies to: inbound.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context as Task, Poll, Wake, Waker, ready};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::coop::has_budget_remaining;
use tokio::time::{Sleep, sleep};
use tower_service::Service;

use super::listener::ConnectionLimits;

/// How many requests of a connection began, and how many of them were answered to the end.
///
/// Of the one that runs it is known whether it may go on: hyper polls it at each of its own steps, two or three times more
/// than it asked for, and each time is a way through the whole stack.
#[derive(Debug, Default)]
pub(super) struct Activity {
    begun: AtomicUsize,
    ended: AtomicUsize,
    /// Whether the request that runs was woken since it was polled.
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

/// A request that is not answered to its end.
struct Running(Arc<Activity>);

impl Running {
    fn begin(activity: &Arc<Activity>) -> Self {
        activity.begun.fetch_add(1, Ordering::Relaxed);
        activity.is_woken.store(true, Ordering::Release);
        Self(Arc::clone(activity))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// A service that is always ready, as hyper wants it.
pub(super) struct Served<S> {
    pub(super) service: S,
    pub(super) activity: Arc<Activity>,
}

impl<S, R> hyper::service::Service<Request<Incoming>> for Served<S>
where
    S: Service<Request<Incoming>, Response = Response<R>, Error = Infallible> + Clone,
{
    type Response = Response<Answered<R>>;
    type Error = Infallible;
    type Future = Answering<S::Future>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let running = Some(Running::begin(&self.activity));
        let waker = Waker::from(Arc::clone(&self.activity));
        Answering { future: self.service.clone().call(request), running, waker }
    }
}

pin_project! {
    /// An answer that is made.
    pub(super) struct Answering<F> {
        #[pin]
        future: F,
        running: Option<Running>,
        waker: Waker,
    }
}

impl<F, R> Future for Answering<F>
where
    F: Future<Output = Result<Response<R>, Infallible>>,
{
    type Output = Result<Response<Answered<R>>, Infallible>;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Some(Running(activity)) = &this.running {
            // In this order, so that whoever wakes it meanwhile wakes the task.
            activity.task.register(task.waker());
            if !activity.is_woken.swap(false, Ordering::AcqRel) {
                return Poll::Pending;
            }
        }
        let answer = ready!(this.future.poll(&mut Task::from_waker(this.waker)));
        let running = this.running.take();
        Poll::Ready(
            answer.map(|response| response.map(|body| Answered { body, _running: running })),
        )
    }
}

pin_project! {
    /// An answer that is sent.
    pub(super) struct Answered<R> {
        #[pin]
        body: R,
        _running: Option<Running>,
    }
}

impl<R: Body> Body for Answered<R> {
    type Data = R::Data;
    type Error = R::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        task: &mut Task<'_>,
    ) -> Poll<Option<Result<Frame<R::Data>, R::Error>>> {
        self.project().body.poll_frame(task)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A socket that gives up a peer that sends no request, or reads nothing of an answer.
pub(super) struct Impatient {
    socket: TcpStream,
    head_time: Duration,
    stall: Duration,
    activity: Arc<Activity>,
    /// Looks now and then whether a request has begun; always running, since a new timer for each request costs more.
    reading: Option<Pin<Box<Sleep>>>,
    /// Whom it wakes.
    reader: Option<Waker>,
    /// How many requests had begun at the last look.
    begun: usize,
    /// Runs from the first write that had to wait until all is written.
    writing: Option<Pin<Box<Sleep>>>,
    /// What was written since it runs.
    written: usize,
}

/// What a client must take while the timer runs; it is far below any line that is of use.
const LEAST: usize = 4 * 1024;

impl Impatient {
    pub(super) fn new(
        socket: TcpStream,
        limits: &ConnectionLimits,
        activity: Arc<Activity>,
    ) -> Self {
        let (head_time, stall) = (limits.head_time, limits.stall);
        Self {
            socket,
            head_time,
            stall,
            activity,
            reading: None,
            reader: None,
            begun: 0,
            writing: None,
            written: 0,
        }
    }

    /// Nothing came: whether the peer is still waited for.
    fn watch_reading(&mut self, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        let head_time = self.head_time;
        let timer = self.reading.get_or_insert_with(|| Box::pin(sleep(head_time)));
        // It wakes this task already.
        if !timer.is_elapsed() && self.reader.as_ref().is_some_and(|by| by.will_wake(task.waker()))
        {
            return Poll::Pending;
        }
        // Without budget a timer is not even begun, and this task comes here again.
        self.reader = has_budget_remaining().then(|| task.waker().clone());
        while timer.as_mut().poll(task).is_ready() {
            let begun = self.activity.begun.load(Ordering::Relaxed);
            let idle = begun == self.activity.ended.load(Ordering::Relaxed);
            if idle && begun == self.begun {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.begun = begun;
            self.reader = None;
            timer.set(sleep(head_time));
        }
        Poll::Pending
    }

    fn watch_writing(
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
            if self.written < LEAST {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.written = 0;
            timer.set(sleep(stall));
        }
        Poll::Pending
    }
}

impl AsyncRead for Impatient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.socket).poll_read(task, buf) {
            Poll::Pending => self.watch_reading(task),
            read @ Poll::Ready(_) => read,
        }
    }
}

impl AsyncWrite for Impatient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(task, bytes);
        self.watch_writing(written, task)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(task, pieces);
        self.watch_writing(written, task)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        // It is asked for once all is written.
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

    use tokio::net::TcpListener;
    use tokio::task::consume_budget;
    use tokio::time::timeout;

    use super::*;

    /// An answer that counts how often it is polled and leaves its waker behind; it is there after `steps`.
    fn answering(
        activity: &Arc<Activity>,
        steps: usize,
        left: &Arc<Mutex<(usize, Option<Waker>)>>,
    ) -> Answering<impl Future<Output = Result<Response<()>, Infallible>> + use<>> {
        let left = Arc::clone(left);
        let future = poll_fn(move |task| {
            let mut left = left.lock().unwrap();
            left.0 += 1;
            left.1 = Some(task.waker().clone());
            if left.0 == steps { Poll::Ready(Ok(Response::new(()))) } else { Poll::Pending }
        });
        let running = Some(Running::begin(activity));
        Answering { future, running, waker: Waker::from(Arc::clone(activity)) }
    }

    #[test]
    fn an_answer_is_asked_for_only_when_it_was_woken() {
        let (activity, left) = (Arc::<Activity>::default(), Arc::default());
        let mut answer = std::pin::pin!(answering(&activity, 3, &left));
        let mut poll = || answer.as_mut().poll(&mut Task::from_waker(Waker::noop())).is_ready();
        let wake = || left.lock().unwrap().1.take().unwrap().wake();
        assert!(!poll() && !poll() && !poll());
        assert_eq!(left.lock().unwrap().0, 1);
        wake();
        assert!(!poll() && !poll());
        assert_eq!(left.lock().unwrap().0, 2);
        wake();
        assert!(poll());
    }

    #[tokio::test]
    async fn who_wakes_an_answer_wakes_its_task() {
        let (activity, left) = (Arc::<Activity>::default(), Arc::default());
        let answer = tokio::spawn(answering(&activity, 2, &left));
        while left.lock().unwrap().1.is_none() {
            tokio::task::yield_now().await;
        }
        // From another thread, as timers and other connections do.
        let waker = left.lock().unwrap().1.take().unwrap();
        std::thread::spawn(move || waker.wake()).join().unwrap();
        assert!(answer.await.is_ok());
    }

    #[tokio::test]
    async fn a_head_is_not_waited_for_for_ever_where_the_task_had_no_budget() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _silent = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (socket, _) = listener.accept().await.unwrap();
        let head_time = Duration::from_millis(20);
        let limits = ConnectionLimits { head_time, ..ConnectionLimits::default() };
        let mut socket = Impatient::new(socket, &limits, Arc::default());
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
