//! Forwards the events of servers: one subscription per server, however many clients subscribe.

use std::collections::BTreeSet;

use mgp_client_sdk::ServerEvent;
use mgp_client_sdk::gateway::NewConnection;
use mgp_server_sdk::{EventDraft, EventSubject};
use mgp_types::mgp::Extension;
use mgp_types::service::{Principal, ServerId};
use mgp_types::sync::Mutex;

use super::{CHANNELS, KernelEvents};

/// The prefixes of the channels that only the kernel may publish in, because clients trust these channels.
const RESERVED: [&str; 2] = ["security.", "approvals."];

/// The maximum number of servers whose refused events are logged; each server is logged once.
const MAX_LOGGED: usize = 1_024;

/// The servers that the kernel has already logged a refused event of.
#[derive(Default)]
pub(super) struct ForwardLog(Mutex<BTreeSet<ServerId>>);

impl KernelEvents {
    /// Subscribes to the events of a connected server, if it negotiated events. `owner` is the principal that an
    /// isolated instance of the server belongs to.
    pub(crate) async fn follow(
        &self,
        connection: &NewConnection,
        server: &ServerId,
        owner: Option<Principal>,
    ) {
        if !connection.client().server().has(Extension::Events) {
            // The server has no events now, but an earlier version of it may have had some, so remove its channels.
            return self.forget_channels(server);
        }
        let (events, id) = (self.clone(), server.clone());
        let hook = move |event| events.forward(&id, owner.as_ref(), event);
        match connection.forward_events(hook).await {
            Ok(channels) => {
                let own = channels.into_iter().filter(|channel| !is_reserved(channel));
                self.hub().set_channels(server, own);
            }
            Err(error) => tracing::warn!(%server, %error, "subscription to events failed"),
        }
    }

    /// Removes the channels of a server that no longer exists or has no events.
    pub(crate) fn forget_channels(&self, server: &ServerId) {
        self.hub().set_channels(server, std::iter::empty::<String>());
    }

    fn forward(&self, server: &ServerId, owner: Option<&Principal>, event: ServerEvent) {
        if event.dropped > 0 {
            tracing::warn!(%server, count = event.dropped, "events of a server are lost");
        }
        if is_reserved(&event.channel) {
            return self.log_refused(server, &event.channel, "only the kernel publishes on it");
        }
        let mut subject = EventSubject::default();
        subject.server = Some(server.clone());
        subject.owner = owner.cloned();
        subject.is_forwarded = true;
        let mut draft = EventDraft::new(event.channel.clone())
            .severity(event.severity)
            .payload(event.data)
            .subject(subject)
            .dropped(event.dropped)
            // The depth counts the kernels that an event has passed, so that it cannot be sent in an endless circle of
            // kernels.
            .depth(event.depth.saturating_add(1));
        // Use the server's time if it is valid; otherwise the event gets the time when it arrived.
        if let Some(at) = event.timestamp.filter(|at| at.to_system_time().is_some()) {
            draft = draft.timestamp(at);
        }
        let published = futures_util::FutureExt::now_or_never(self.hub().publish(draft));
        if let Some(Err(error)) = published {
            self.log_refused(server, &event.channel, error.message());
        }
    }

    fn log_refused(&self, server: &ServerId, channel: &str, why: &str) {
        let mut logged = self.forwards.0.lock();
        if logged.len() < MAX_LOGGED && logged.insert(server.clone()) {
            let channel = mgp_types::clip(channel, 128);
            tracing::warn!(%server, channel, why, "dropped event of a server; further ones are not logged");
        }
    }
}

/// Returns whether only the kernel is allowed to publish in a channel. Case is ignored, because a person could take
/// `Security.x` for `security.x`.
fn is_reserved(channel: &str) -> bool {
    let begins = |family: &&str| {
        channel.get(..family.len()).is_some_and(|start| start.eq_ignore_ascii_case(family))
    };
    RESERVED.iter().any(begins) || CHANNELS.iter().any(|(own, _)| own.eq_ignore_ascii_case(channel))
}
