//! Events of a server: its channels, and the handle that publishes events (MGP §13).

use mgp_security::KernelToolsLayer;
use mgp_stream::EventHub;
use mgp_types::mgp::Extension;
use mgp_types::service::{Call, Stack};
use tower_layer::Layer as _;

use crate::error::BuildError;
use crate::server::Server;
use crate::stack::Gate;

impl Server {
    /// Declares a channel of events. Also offers events to clients, unless [`offer`](Self::offer) has set the
    /// extensions.
    ///
    /// ```
    /// use mgp_server_sdk::Server;
    /// use mgp_server_sdk::types::mgp::Severity;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let server = Server::new("models", "1.0").channel("model.loaded", "A model was loaded");
    /// let events = server.events();
    /// // While the server runs, this reaches the clients that subscribed to `model.loaded`, `model.*` or `*`.
    /// events.emit("model.loaded", Severity::Info, &["llama3"]).await.unwrap();
    /// # });
    /// ```
    pub fn channel(mut self, name: impl Into<String>, description: impl Into<String>) -> Self {
        self.features.events.declare(name, description);
        self.features.has_channels = true;
        self
    }

    /// Serves the events of a hub that several servers share, e.g. in a gateway. Must be called before
    /// [`channel`](Self::channel) and [`events`](Self::events), because it replaces the hub to which they refer; if a
    /// channel was declared before, [`Server::into_stack`] fails.
    pub fn event_hub(mut self, hub: &EventHub) -> Self {
        if self.features.has_channels {
            self.add_error(BuildError::LateEventHub);
        }
        self.features.events = hub.clone();
        self.features.has_channels = true;
        self
    }

    /// Returns the handle that publishes events while the server runs.
    #[must_use]
    pub fn events(&self) -> EventHub {
        self.features.events.clone()
    }
}

/// Returns a layer that also accepts the event methods as calls of tools (`mgp…`), from clients that negotiated events.
/// Later revisions of MGP §13 require this.
pub(crate) fn tools_gate(events: &EventHub) -> Gate {
    let tools = KernelToolsLayer::new(events.router());
    Gate(Box::new(move |inner| {
        let tools = Stack::new(tools.layer(inner.clone()));
        Stack::from_fn(move |call: Call| {
            let is_ours = call.tool().is_some_and(|tool| tool.name.starts_with("mgp"));
            let stack =
                if is_ours && call.cx().caller.has(Extension::Events) { &tools } else { &inner };
            stack.send(call)
        })
    }))
}
