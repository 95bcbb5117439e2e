//! Forwards the events of servers. The kernel subscribes once to each server, however many clients subscribe.

use std::collections::BTreeSet;

use mgp_client_sdk::gateway::{ForwardedEvents, NewConnection};
use mgp_client_sdk::{Error, ServerEvent};
use mgp_server_sdk::{EventDraft, EventSubject};
use mgp_types::mgp::{EventParams, Extension};
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
            // The instance has no events now, but an earlier version of the server may have had some.
            return self.forget(server, |instance| instance.owner == owner);
        }
        let mut source = EventSubject::default();
        source.server = Some(server.clone());
        source.owner = owner;
        source.is_forwarded = true;
        let subscribed = self.subscribe_to(connection, &source, vec!["*".to_owned()]).await;
        match subscribed {
            Ok(Some(forwarded)) => return self.record_channels(connection, source, forwarded),
            Ok(None) => {}
            Err(error) if connection.client().is_closed() => {
                return tracing::warn!(%server, %error, "subscription to events failed");
            }
            Err(error) => tracing::debug!(%server, %error, "subscription to all events refused"),
        }
        self.follow_by_name(connection, source).await;
    }

    /// Subscribes to channels of a server. Returns `None` if the server has or accepts none of the requested channels.
    pub(super) async fn subscribe_to(
        &self,
        connection: &NewConnection,
        source: &EventSubject,
        channels: Vec<String>,
    ) -> Result<Option<ForwardedEvents>, Error> {
        let (events, source) = (self.clone(), source.clone());
        connection.forward_events(channels, move |event| events.forward(&source, event)).await
    }

    /// Removes the channels of a server that has left the fleet.
    pub(crate) fn forget_channels(&self, server: &ServerId) {
        self.forget(server, |_| true);
    }

    fn forward(&self, source: &EventSubject, event: ServerEvent) {
        let Some(server) = &source.server else { return };
        if event.dropped > 0 {
            tracing::warn!(%server, count = event.dropped, "events of a server are lost");
        }
        if is_reserved(&event.channel) {
            return self.log_refused(server, &event.channel, "only the kernel publishes on it");
        }
        let mut draft = EventDraft::new(event.channel.clone())
            .severity(event.severity)
            .payload(event.data)
            .subject(source.clone())
            .dropped(event.dropped)
            // Count this kernel in the depth: the number of kernels that an event has passed, so that kernels cannot
            // forward an event in an endless circle.
            .depth(event.depth.saturating_add(1));
        // Use the server's time if it is valid; otherwise the event gets the time when it arrived.
        if let Some(at) = event.timestamp.filter(|at| at.to_system_time().is_some()) {
            draft = draft.timestamp(at);
        }
        if let Err(error) = self.hub().publish(draft) {
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
pub(super) fn is_reserved(channel: &str) -> bool {
    let begins = |family: &&str| {
        channel.get(..family.len()).is_some_and(|start| start.eq_ignore_ascii_case(family))
    };
    let mut own = CHANNELS.iter().map(|(own, _)| *own).chain([EventParams::TERMINATED]);
    RESERVED.iter().any(begins) || own.any(|own| own.eq_ignore_ascii_case(channel))
}
