//! The one task of a connection over HTTP: what belongs to no caller's future.
//!
//! Applies to: both.

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
use crate::connection::{Closed, NotificationQueue};

/// Drives the work of a connection.
pub(super) struct Runner {
    core: Arc<Core>,
    jobs: mpsc::Receiver<Job>,
    works: FuturesUnordered<BoxFuture<'static, ()>>,
    notifications: NotificationQueue,
    listening: Option<BoxFuture<'static, ()>>,
    /// Where it runs, for what is left to do when it is dropped.
    runtime: Option<Handle>,
}

impl Runner {
    pub(super) fn new(core: Arc<Core>, jobs: mpsc::Receiver<Job>) -> Self {
        let (works, notifications) = (FuturesUnordered::new(), NotificationQueue::default());
        Self { core, jobs, works, notifications, listening: None, runtime: None }
    }

    pub(super) async fn run(mut self) -> Closed {
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
        // Nothing is heard any more; what waits for an answer fails before the server is told.
        self.listening = None;
        core.send_half.pending.close("the connection was closed on this side");
        self.works.clear();
        core.leave().await;
        Closed::Local
    }

    fn turn(&mut self, task: &mut Task<'_>) {
        while let Poll::Ready(Some(job)) = self.jobs.poll_recv(task) {
            match job {
                Job::Work(work) => self.works.push(work),
                Job::Notice(size, handling) => self.notifications.push(size, handling),
                // The stream of the session before, if there was one, is of no use now.
                Job::Listen(opened) => {
                    self.listening = Some(Box::pin(listen(Arc::clone(&self.core), opened)));
                }
            }
        }
        let core = &self.core;
        self.notifications.poll(task, |size| core.noticed(size));
        while let Poll::Ready(Some(())) = Pin::new(&mut self.works).poll_next(task) {}
        if let Some(listening) = &mut self.listening
            && listening.as_mut().poll(task).is_ready()
        {
            self.listening = None;
        }
    }
}

/// Also when it is dropped half-way.
impl Drop for Runner {
    fn drop(&mut self) {
        // Whoever closed it was waited for; whoever just left it leaves a session behind.
        if let Some(runtime) = &self.runtime {
            self.core.leave_behind(runtime);
        }
        self.core.end();
    }
}
