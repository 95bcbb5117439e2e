//! A tool that runs until it is let go, to meet a call while it runs.

use std::sync::Arc;

use mgp_server_sdk::Tool;
use tokio::sync::Notify;

/// What the tool waits for, and tells.
#[derive(Clone, Default)]
pub(crate) struct Held {
    begun: Arc<Notify>,
    end: Arc<Notify>,
}

impl Held {
    /// The tool.
    pub(crate) fn tool(&self, name: &str) -> Tool {
        let held = self.clone();
        Tool::new(name, "Waits to be let go", move || {
            let held = held.clone();
            async move {
                held.begun.notify_one();
                held.end.notified().await;
                "held"
            }
        })
    }

    /// Waits until a call of it runs.
    pub(crate) async fn begun(&self) {
        self.begun.notified().await;
    }

    /// Lets the call end.
    pub(crate) fn release(&self) {
        self.end.notify_one();
    }
}
