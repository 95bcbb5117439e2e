//! Subscriptions to events of servers that accept only the names of channels, and no patterns.
//!
//! MGP §13.2 defines subscriptions to named channels; patterns such as `*` are an addition of this implementation. At a
//! server that does not accept `*`, the kernel subscribes to each channel that a subscriber names, if the subscriber
//! may see the events of the server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use mgp_client_sdk::gateway::{ForwardedEvents, NewConnection, WeakConnection};
use mgp_server_sdk::{EventHub, EventSubject};
use mgp_types::ErrorCode;
use mgp_types::service::{Context, ServerId};
use mgp_types::sync::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::KernelEvents;
use super::forward::is_reserved;

/// The maximum time for which a client's request to subscribe waits for the answers of such servers.
const ASK_TIMEOUT: Duration = Duration::from_secs(2);

/// The minimum time between a server's refusal of a channel and the next request for this channel, which the server may
/// have by then.
const RETRY_DELAY: Duration = Duration::from_mins(1);

/// The minimum time for which the kernel stays subscribed to a channel after a subscriber has named it.
const UNUSED_TIMEOUT: Duration = Duration::from_mins(1);

/// The errors after which the kernel does not request each channel of a request alone, because these requests would
/// fail, too.
const UNAVAILABLE: [ErrorCode; 4] = [
    ErrorCode::TIMEOUT,
    ErrorCode::RATE_LIMITED,
    ErrorCode::SERVER_NOT_READY,
    ErrorCode::METHOD_NOT_FOUND,
];

/// The maximum number of channels in one request to a server; requests to this kernel have the same limit.
pub(super) const MAX_REQUESTED: usize = 64;

/// The maximum number of channels to which the kernel subscribes by name on one connection, because a server might
/// accept any name.
const MAX_CHANNELS: usize = 512;

/// The connections to servers with events.
#[derive(Clone, Default)]
pub(super) struct ServersByName(Arc<Shared>);

#[derive(Default)]
struct Shared {
    connections: Mutex<Connections>,
    /// Notified when a server has answered a request to subscribe by name.
    answered: Notify,
}

#[derive(Default)]
struct Connections {
    /// The number of connections by name that were recorded so far, including closed connections.
    count: u64,
    open: Vec<Connected>,
    /// The channels that the configuration names, for webhooks.
    configured: Vec<String>,
}

/// A connection to a server with events.
struct Connected {
    /// The unique number of this connection; `None` if the server accepts `*`, so that the kernel requests no channels
    /// by name.
    number: Option<u64>,
    connection: WeakConnection,
    /// The server, and the owner of its instance if the instance is isolated.
    source: EventSubject,
    channels: NamedChannels,
    subscriptions: Vec<ForwardedEvents>,
}

/// The channels that the kernel has requested by name, or those of a server that accepts `*`. The kernel does not
/// request an accepted channel again, because the server would send each event to both subscriptions.
#[derive(Default)]
struct NamedChannels(BTreeMap<String, ChannelState>);

/// The answer of a server to the kernel's request for a channel.
#[derive(Clone, Copy)]
enum ChannelState {
    /// The server has not answered yet.
    Requested,
    /// The server has accepted the channel; a subscriber has named it last at this time.
    Accepted(Instant),
    /// The server has refused the channel at this time.
    Refused(Instant),
}

impl NamedChannels {
    /// Returns the named channels that the kernel must request now, and records that it requests them.
    fn claim(&mut self, named: &[String]) -> Vec<String> {
        let mut names = Vec::new();
        for name in named {
            // Leave out channels on which servers may not publish.
            if is_reserved(name) || !self.is_due(name) {
                continue;
            }
            if !self.has_room() {
                let channel = mgp_types::clip(name, 128);
                tracing::debug!(channel, "not subscribed: too many channels by name");
                continue;
            }
            self.0.insert(name.clone(), ChannelState::Requested);
            names.push(name.clone());
        }
        names
    }

    /// Returns whether the kernel has not requested a channel yet, or was refused it long enough ago. If the server has
    /// accepted the channel, records that a subscriber names it now.
    fn is_due(&mut self, name: &str) -> bool {
        match self.0.get_mut(name) {
            None => true,
            Some(ChannelState::Requested) => false,
            Some(ChannelState::Accepted(named_at)) => {
                *named_at = Instant::now();
                false
            }
            Some(ChannelState::Refused(at)) => at.elapsed() >= RETRY_DELAY,
        }
    }

    /// Returns whether the kernel may request another channel. If the list is full, first removes the refused channels,
    /// so that they do not displace others.
    fn has_room(&mut self) -> bool {
        if self.0.len() >= MAX_CHANNELS {
            self.0.retain(|_, state| !matches!(state, ChannelState::Refused(_)));
        }
        self.0.len() < MAX_CHANNELS
    }

    /// Returns whether the server's answer about any of the named channels is still missing.
    fn is_awaited(&self, named: &[String]) -> bool {
        named.iter().any(|name| matches!(self.0.get(name), Some(ChannelState::Requested)))
    }

    /// Records a server's answer to a request to subscribe to the channels in `requested`: the server has accepted
    /// those in `accepted`.
    fn answered(&mut self, requested: &[String], accepted: &[String]) {
        let now = Instant::now();
        for name in requested {
            let state = if accepted.contains(name) {
                ChannelState::Accepted(now)
            } else {
                ChannelState::Refused(now)
            };
            self.0.insert(name.clone(), state);
        }
    }

    /// Returns whether no channel of a subscription is in `named`, and none was named recently.
    fn is_unused(&self, subscription: &[String], named: &BTreeSet<String>) -> bool {
        subscription.iter().all(|name| {
            let is_recent = match self.0.get(name) {
                Some(ChannelState::Accepted(named_at)) => named_at.elapsed() < UNUSED_TIMEOUT,
                Some(ChannelState::Requested) => true,
                Some(ChannelState::Refused(_)) | None => false,
            };
            !is_recent && !named.contains(name)
        })
    }

    /// Returns whether the server's answer to any request is missing.
    fn is_asking(&self) -> bool {
        self.0.values().any(|state| matches!(state, ChannelState::Requested))
    }
}

impl Connected {
    /// Removes the subscriptions whose channels are not used any more, and returns them.
    fn remove_unused(&mut self, named: &BTreeSet<String>) -> Vec<ForwardedEvents> {
        // Some servers give all subscriptions of a connection one id, so that unsubscribing would end all of them. This
        // includes a subscription whose id the server's answer has yet to name.
        let shares_id = self.subscriptions.iter().any(ForwardedEvents::shares_id);
        if shares_id || self.channels.is_asking() {
            return Vec::new();
        }
        let Self { channels, subscriptions, .. } = self;
        let is_unused = |one: &mut ForwardedEvents| channels.is_unused(one.channels(), named);
        let unused: Vec<_> = subscriptions.extract_if(.., is_unused).collect();
        for name in unused.iter().flat_map(ForwardedEvents::channels) {
            channels.0.remove(name);
        }
        unused
    }
}

impl Connections {
    /// Adds a connection, and makes a hub list the channels of the server. Removes closed connections, and earlier
    /// connections to the same instance, because its channels may have changed.
    fn add(&mut self, added: Connected, hub: &EventHub) {
        let is_open = |one: &Connected| one.connection.upgrade().is_some();
        self.open.retain(|one| is_open(one) && one.source != added.source);
        let server = added.source.server.clone();
        self.open.push(added);
        if let Some(server) = server {
            self.announce(hub, &server);
        }
    }

    /// Makes a hub list the channels that the connected instances of a server have accepted.
    fn announce(&self, hub: &EventHub, server: &ServerId) {
        let of_server = self.open.iter().filter(|one| one.source.server.as_ref() == Some(server));
        let channels = of_server.flat_map(|one| &one.channels.0);
        let accepted = channels.filter(|(_, state)| matches!(state, ChannelState::Accepted(_)));
        let names: BTreeSet<String> = accepted.map(|(name, _)| name.clone()).collect();
        hub.set_channels(server, names);
    }
}

impl KernelEvents {
    /// Subscribes to the channels that webhooks name, at servers that accept no patterns: now and on each later
    /// connection.
    pub(super) fn follow_configured(&self, named: &[String]) {
        named.clone_into(&mut self.by_name.0.connections.lock().configured);
        self.ask_by_name(named, |_| true);
    }

    /// Records a connection to a server that accepts `*` and has these channels.
    pub(super) fn record_channels(
        &self,
        connection: &NewConnection,
        source: EventSubject,
        forwarded: ForwardedEvents,
    ) {
        let names = forwarded.channels().iter().filter(|name| !is_reserved(name)).cloned();
        let accepted = ChannelState::Accepted(Instant::now());
        let channels = names.take(MAX_CHANNELS).map(|name| (name, accepted)).collect();
        let added = Connected {
            number: None,
            connection: connection.downgrade(),
            source,
            channels: NamedChannels(channels),
            subscriptions: vec![forwarded],
        };
        self.by_name.0.connections.lock().add(added, self.hub());
    }

    /// Records a connection to a server that accepts no patterns, and subscribes to the channels that webhooks and
    /// subscribers name.
    pub(super) async fn follow_by_name(&self, connection: &NewConnection, source: EventSubject) {
        let (number, mut named) = {
            let mut all = self.by_name.0.connections.lock();
            all.count += 1;
            let number = Some(all.count);
            let added = Connected {
                number,
                connection: connection.downgrade(),
                source: source.clone(),
                channels: NamedChannels::default(),
                subscriptions: Vec::new(),
            };
            all.add(added, self.hub());
            (number, all.configured.clone())
        };
        // Read these only now: the router asks for the channels of later subscribers.
        named.extend(self.hub().named_channels(Some(&source)));
        let asked = self.ask_by_name(&named, |one| one.number == number);
        self.wait_for(&asked, &named).await;
    }

    /// Removes the channels of the instances of a server that `is_gone` selects.
    pub(super) fn forget(&self, server: &ServerId, is_gone: impl Fn(&EventSubject) -> bool) {
        let mut all = self.by_name.0.connections.lock();
        let is_kept = |one: &EventSubject| one.server.as_ref() != Some(server) || !is_gone(one);
        all.open.retain(|one| is_kept(&one.source));
        all.announce(self.hub(), server);
    }

    /// Ends the subscriptions by name to channels that no subscriber names any more.
    pub(crate) fn end_unused(&self) {
        // Include the subscribers that may not see the events of a server now, because they may get access again.
        let mut named: BTreeSet<_> = self.hub().named_channels(None).into_iter().collect();
        let mut all = self.by_name.0.connections.lock();
        let Connections { open, configured, .. } = &mut *all;
        named.extend(configured.iter().cloned());
        let mut servers = BTreeSet::new();
        for one in open.iter_mut().filter(|one| one.number.is_some()) {
            if !one.remove_unused(&named).is_empty() {
                servers.extend(one.source.server.clone());
            }
        }
        for server in &servers {
            all.announce(self.hub(), server);
        }
    }

    /// Returns how many connections to servers that accept no patterns were recorded so far.
    pub(super) fn connections_by_name(&self) -> u64 {
        self.by_name.0.connections.lock().count
    }

    /// Calls [`ask_by_name`](Self::ask_by_name) for the servers whose events a caller may see.
    pub(super) fn ask_for(&self, cx: &Context, named: &[String]) -> Vec<u64> {
        self.ask_by_name(named, |one| self.hub().sees(cx, &one.source))
    }

    /// Starts to subscribe the kernel to the named channels at the selected servers that accept no patterns; skips
    /// channels that it has already requested. Returns the numbers of the connections with missing answers about these
    /// channels.
    fn ask_by_name(&self, named: &[String], selects: impl Fn(&Connected) -> bool) -> Vec<u64> {
        let mut awaited = Vec::new();
        let mut all = self.by_name.0.connections.lock();
        if named.is_empty() || all.count == 0 {
            return awaited;
        }
        for one in all.open.iter_mut().filter(|one| selects(one)) {
            let (Some(number), Some(connection)) = (one.number, one.connection.upgrade()) else {
                continue;
            };
            let names = one.channels.claim(named);
            if one.channels.is_awaited(named) {
                awaited.push(number);
            }
            if !names.is_empty() {
                let source = one.source.clone();
                tokio::spawn(self.clone().subscribe_by_name(number, connection, source, names));
            }
        }
        awaited
    }

    /// Waits until the servers have answered about the named channels, at most for [`ASK_TIMEOUT`].
    pub(super) async fn wait_for(&self, asked: &[u64], named: &[String]) {
        let Shared { connections, answered } = &*self.by_name.0;
        let is_awaited = |one: &Connected| {
            one.number.is_some_and(|it| asked.contains(&it)) && one.channels.is_awaited(named)
        };
        let waiting = async {
            loop {
                let answered = answered.notified();
                if !connections.lock().open.iter().any(is_awaited) {
                    return;
                }
                answered.await;
            }
        };
        let _ = timeout(ASK_TIMEOUT, waiting).await;
    }

    async fn subscribe_by_name(
        self,
        number: u64,
        connection: NewConnection,
        source: EventSubject,
        names: Vec<String>,
    ) {
        let mut requests: Vec<_> = names.chunks(MAX_REQUESTED).map(<[String]>::to_vec).collect();
        while let Some(requested) = requests.pop() {
            let subscribed = self.subscribe_to(&connection, &source, requested.clone()).await;
            if let Err(error) = &subscribed {
                let server = source.server.as_ref();
                tracing::debug!(?server, %error, "subscription to channels failed");
                // Some servers refuse a request with several channels because of one of them.
                let is_refused = !UNAVAILABLE.contains(&error.code());
                if is_refused && requested.len() > 1 && !connection.client().is_closed() {
                    requests.extend(requested.into_iter().map(|name| vec![name]));
                    continue;
                }
            }
            self.record_answer(number, &requested, subscribed.ok().flatten());
            self.by_name.0.answered.notify_waiters();
        }
    }

    /// Records a server's answer to a request to subscribe to the channels in `requested`.
    fn record_answer(&self, number: u64, requested: &[String], forwarded: Option<ForwardedEvents>) {
        let mut all = self.by_name.0.connections.lock();
        let Some(one) = all.open.iter_mut().find(|one| one.number == Some(number)) else { return };
        let accepted = forwarded.as_ref().map(ForwardedEvents::channels).unwrap_or_default();
        one.channels.answered(requested, accepted);
        let accepting = one.source.server.clone().filter(|_| forwarded.is_some());
        one.subscriptions.extend(forwarded);
        if let Some(server) = accepting {
            all.announce(self.hub(), &server);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_channel_is_used_until_a_minute_after_a_subscriber_has_named_it() {
        let (both, first) = (["a".to_owned(), "b".to_owned()], ["a".to_owned()]);
        let none = BTreeSet::new();
        let mut channels = NamedChannels::default();
        assert_eq!(channels.claim(&both), both);
        tokio::time::advance(UNUSED_TIMEOUT).await;
        assert!(channels.is_asking() && !channels.is_unused(&both, &none));
        channels.answered(&both, &both);
        assert!(!channels.is_asking());
        tokio::time::advance(UNUSED_TIMEOUT / 2).await;
        assert!(channels.claim(&first).is_empty());
        tokio::time::advance(UNUSED_TIMEOUT / 2).await;
        assert!(!channels.is_unused(&both, &none), "a subscriber has named `a` half a minute ago");
        tokio::time::advance(UNUSED_TIMEOUT / 2).await;
        assert!(channels.is_unused(&both, &none));
        assert!(!channels.is_unused(&both, &first.into()), "a subscription names `a`");
    }
}
