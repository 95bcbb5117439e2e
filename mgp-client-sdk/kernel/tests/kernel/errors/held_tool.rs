//! A tool that runs until the test releases it.

use std::sync::Arc;

use mgp_server_sdk::Tool;
use tokio::sync::Notify;

/// A handle with which a test waits for a call of the tool and ends it.
#[derive(Clone, Default)]
pub(crate) struct HeldTool {
    begun: Arc<Notify>,
    end: Arc<Notify>,
}

impl HeldTool {
    /// Creates the tool whose calls this handle waits for and ends.
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

    /// Waits until a call of the tool runs.
    pub(crate) async fn begun(&self) {
        self.begun.notified().await;
    }

    /// Ends the running call.
    pub(crate) fn release(&self) {
        self.end.notify_one();
    }
}
