//! Forwards the events of servers. The kernel subscribes once to each server, however many clients subscribe.

use std::collections::BTreeSet;

use mgp_client_sdk::ServerEvent;
use mgp_client_sdk::gateway::NewConnection;
use mgp_server_sdk::{EventDraft, EventSubject};
use mgp_types::mgp::Extension;
use mgp_types::service::{Principal, ServerId};
use mgp_types::sync::Mutex;

use super::{CHANNELS, KernelEvents};

/// The prefixes of the channels in which only the kernel may publish, because clients trust these channels.
const RESERVED: [&str; 2] = ["security.", "approvals."];

/// The maximum number of servers whose refused events the kernel logs. It logs only one such event of each server.
const MAX_LOGGED: usize = 1_024;

/// The servers for which the kernel has already logged that it refused an event.
#[derive(Default)]
pub(super) struct ForwardLog(Mutex<BTreeSet<ServerId>>);

impl KernelEvents {
    /// Subscribes to the events of a connected server, if it negotiated events. `owner` is the principal that owns the
    /// isolated instance of the server, if the instance is isolated.
    pub(crate) async fn follow(
        &self,
        connection: &NewConnection,
        server: &ServerId,
        owner: Option<Principal>,
    ) {
        if !connection.client().server().has(Extension::Events) {
            // Remove the channels of the server: it has no events now, but an earlier version of it may have had some.
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

    /// Removes the channels of a server that has left the fleet or has no events.
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
            // Count this kernel in the depth: the number of kernels that an event has passed, so that kernels cannot
            // forward an event in an endless circle.
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

/// Returns whether only the kernel may publish in a channel. Ignores case, because a person could take `Security.x` for
/// `security.x`.
fn is_reserved(channel: &str) -> bool {
    let begins = |family: &&str| {
        channel.get(..family.len()).is_some_and(|start| start.eq_ignore_ascii_case(family))
    };
    RESERVED.iter().any(begins) || CHANNELS.iter().any(|(own, _)| own.eq_ignore_ascii_case(channel))
}
