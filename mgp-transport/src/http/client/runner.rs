//! The task that drives a connection over HTTP: it does all work that belongs to no call.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use futures_util::stream::{FuturesUnordered, Stream as _};
use mgp_types::service::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::core::{Core, Job};
use super::listen::listen;
use crate::connection::{CloseReason, NotificationQueue};

pub(super) struct Runner {
    core: Arc<Core>,
    jobs: mpsc::UnboundedReceiver<Job>,
    tasks: FuturesUnordered<BoxFuture<'static, ()>>,
    notifications: NotificationQueue,
    listening: Option<BoxFuture<'static, ()>>,
    /// The runtime of the runner. Work that remains when the runner is dropped is spawned on it.
    runtime: Option<Handle>,
}

impl Runner {
    pub(super) fn new(core: Arc<Core>, jobs: mpsc::UnboundedReceiver<Job>) -> Self {
        let (tasks, notifications) = (FuturesUnordered::new(), NotificationQueue::default());
        Self { core, jobs, tasks, notifications, listening: None, runtime: None }
    }

    pub(super) async fn run(mut self) -> CloseReason {
        self.runtime = Handle::try_current().ok();
        let core = Arc::clone(&self.core);
        let closing = core.closing.notified();
        let mut closing = std::pin::pin!(closing);
        poll_fn(|task| {
            if closing.as_mut().poll(task).is_ready() {
                return Poll::Ready(());
            }
            self.turn(task);
            Poll::Pending
        })
        .await;
        // Stops reading the stream, and fails unanswered requests, before the session is ended at the server.
        self.listening = None;
        core.send_half.pending.close("the connection was closed on this side");
        self.tasks.clear();
        core.end_session().await;
        CloseReason::Local
    }

    fn turn(&mut self, task: &mut Task<'_>) {
        while let Poll::Ready(Some(job)) = self.jobs.poll_recv(task) {
            match job {
                Job::Task(task) => self.tasks.push(task),
                Job::Notification(size, handling) => self.notifications.push(size, handling),
                // Replaces the reader of the previous session's stream, which is no longer needed.
                Job::Listen(opened) => {
                    self.listening = Some(Box::pin(listen(Arc::clone(&self.core), opened)));
                }
            }
        }
        let core = &self.core;
        self.notifications.poll(task, |size| core.release_notification(size));
        while let Poll::Ready(Some(())) = Pin::new(&mut self.tasks).poll_next(task) {}
        if let Some(listening) = &mut self.listening
            && listening.as_mut().poll(task).is_ready()
        {
            self.listening = None;
        }
    }
}

/// Ends the connection even if the runner is dropped while it runs.
impl Drop for Runner {
    fn drop(&mut self) {
        // After a regular close, the session has been ended already; otherwise it is ended in the background.
        if let Some(runtime) = &self.runtime {
            self.core.end_session_on(runtime);
        }
        self.core.end();
    }
}
