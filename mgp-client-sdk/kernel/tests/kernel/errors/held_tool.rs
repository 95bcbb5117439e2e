//! A tool whose calls run until the test releases them.

use std::sync::Arc;

use mgp_server_sdk::Tool;
use tokio::sync::Notify;

/// A handle with which a test waits for the beginning of a call and ends the call.
#[derive(Clone, Default)]
pub(crate) struct HeldTool {
    begun: Arc<Notify>,
    end: Arc<Notify>,
}

impl HeldTool {
    /// Creates the tool to which this handle belongs.
    pub(crate) fn tool(&self, name: &str) -> Tool {
        let held = self.clone();
        Tool::new(name, "Runs until it is released", move || {
            let held = held.clone();
            async move {
                held.begun.notify_one();
                held.end.notified().await;
                "held"
            }
        })
    }

    /// Waits until a call of the tool is running.
    pub(crate) async fn begun(&self) {
        self.begun.notified().await;
    }

    /// Ends the running call.
    pub(crate) fn release(&self) {
        self.end.notify_one();
    }
}
