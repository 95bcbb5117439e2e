//! The callers of tasks that a legacy server runs. Such a server can ask a question between two polls of the task, when
//! no request is in flight to which the question could belong.

use std::sync::Arc;

use mgp_types::service::{CallKey, Context};
use mgp_types::sync::Mutex;

/// The contexts of the calls that wait for a task of the server of one connection.
#[derive(Default)]
pub(crate) struct TaskCallers(Mutex<Vec<Waiting>>);

/// A call that waits for a task.
struct Waiting {
    key: CallKey,
    cx: Context,
    /// The id of the task; `None` until the server has answered the call.
    task: Option<String>,
}

/// A guard of a call that waits for a task. Dropping the guard ends the attribution of questions to the call.
pub(crate) struct TaskCaller {
    all: Arc<TaskCallers>,
    key: CallKey,
}

impl TaskCallers {
    /// Adds a call that waits for a task whose id is not known yet.
    pub(crate) fn add(self: &Arc<Self>, cx: &Context) -> TaskCaller {
        self.push(cx, None)
    }

    /// Adds a call that waits for the task with this id.
    pub(crate) fn add_task(self: &Arc<Self>, cx: &Context, task: &str) -> TaskCaller {
        self.push(cx, Some(task.to_owned()))
    }

    fn push(self: &Arc<Self>, cx: &Context, task: Option<String>) -> TaskCaller {
        let key = CallKey::next();
        self.0.lock().push(Waiting { key, cx: cx.clone(), task });
        TaskCaller { all: Arc::clone(self), key }
    }

    /// Returns the contexts of all calls that wait for a task.
    pub(crate) fn all(&self) -> Vec<Context> {
        self.0.lock().iter().map(|waiting| waiting.cx.clone()).collect()
    }

    /// Returns the context of the call that waits for the task with this id; `None` unless exactly one call does.
    pub(crate) fn of_task(&self, task: &str) -> Option<Context> {
        let all = self.0.lock();
        let mut waiting = all.iter().filter(|waiting| waiting.task.as_deref() == Some(task));
        let first = waiting.next()?;
        waiting.next().is_none().then(|| first.cx.clone())
    }
}

impl Drop for TaskCaller {
    fn drop(&mut self) {
        self.all.0.lock().retain(|waiting| waiting.key != self.key);
    }
}
