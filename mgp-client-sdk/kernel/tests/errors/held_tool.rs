//! A tool that runs until the test releases it.

use std::sync::Arc;

use mgp_server_sdk::Tool;
use tokio::sync::Notify;

/// The handle of the tool.
#[derive(Clone, Default)]
pub(crate) struct HeldTool {
    begun: Arc<Notify>,
    end: Arc<Notify>,
}

impl HeldTool {
    /// Returns the tool.
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

    /// Waits until a call runs.
    pub(crate) async fn begun(&self) {
        self.begun.notified().await;
    }

    /// Lets the call end.
    pub(crate) fn release(&self) {
        self.end.notify_one();
    }
}
