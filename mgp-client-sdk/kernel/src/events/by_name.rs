//! Subscriptions to events of servers that accept only the names of channels, and no patterns.
//!
//! MGP §13.2 defines subscriptions to named channels; patterns such as `*` are an addition of this implementation. At a
//! server that does not accept `*`, the kernel subscribes to each channel that a subscriber names, if the subscriber
//! may see the events of the server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use mgp_client_sdk::gateway::{NewConnection, WeakConnection};
use mgp_server_sdk::{EventHub, EventSubject};
use mgp_types::service::Context;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::KernelEvents;
use super::forward::is_reserved;

/// The maximum time for which a client's request to subscribe waits for the answers of such servers.
const ASK_TIMEOUT: Duration = Duration::from_secs(2);

/// The minimum time between a server's refusal of a channel and the next request for this channel, which the server may
/// have by then.
const RETRY_DELAY: Duration = Duration::from_mins(1);

/// The maximum number of channels in one request to a server; requests to this kernel have the same limit.
pub(super) const MAX_REQUESTED: usize = 64;

/// The maximum number of channels to which the kernel subscribes by name on one connection: a server might accept any
/// name, and a subscription remains until the connection ends.
const MAX_CHANNELS: usize = 512;

/// The connections to servers with events. The watch channel is their lock, and wakes the requests that wait for the
/// answers of servers.
#[derive(Clone, Default)]
pub(super) struct ServersByName(Arc<watch::Sender<Connections>>);

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
    /// The channels that the kernel has requested by name, or those of a server that accepts `*`. The kernel does not
    /// request an accepted channel again, because the server would send each event to both subscriptions.
    channels: BTreeMap<String, ChannelState>,
}

/// The answer of a server to the kernel's request for a channel.
enum ChannelState {
    /// The server has not answered yet.
    Requested,
    Accepted,
    /// The server has refused the channel, or a request for only this channel, at this time.
    Refused(Instant),
}

impl Connected {
    /// Returns the named channels that the kernel must request now, and records that it requests them.
    fn claim(&mut self, named: &[String]) -> Vec<String> {
        let mut names = Vec::new();
        for name in named {
            // Leave out channels on which servers may not publish.
            if is_reserved(name) || !self.is_due(name) {
                continue;
            }
            if !self.has_room() {
                let (server, channel) = (self.source.server.as_ref(), mgp_types::clip(name, 128));
                tracing::debug!(?server, channel, "not subscribed: too many channels by name");
                continue;
            }
            self.channels.insert(name.clone(), ChannelState::Requested);
            names.push(name.clone());
        }
        names
    }

    /// Returns whether the kernel has not requested a channel yet, or was refused it long enough ago.
    fn is_due(&self, name: &str) -> bool {
        match self.channels.get(name) {
            None => true,
            Some(ChannelState::Refused(at)) => at.elapsed() >= RETRY_DELAY,
            Some(ChannelState::Requested | ChannelState::Accepted) => false,
        }
    }

    /// Returns whether the kernel may request another channel. If the list is full, first removes the refused channels,
    /// so that they do not displace others.
    fn has_room(&mut self) -> bool {
        if self.channels.len() >= MAX_CHANNELS {
            self.channels.retain(|_, state| !matches!(state, ChannelState::Refused(_)));
        }
        self.channels.len() < MAX_CHANNELS
    }

    /// Returns whether the server's answer about any of the named channels is still missing.
    fn is_awaited(&self, named: &[String]) -> bool {
        named.iter().any(|name| matches!(self.channels.get(name), Some(ChannelState::Requested)))
    }
}

impl Connections {
    fn remove_closed(&mut self) {
        self.open.retain(|one| one.connection.upgrade().is_some());
    }

    /// Adds a connection, and makes a hub list the channels of the server. Removes an earlier connection to the same
    /// instance if the server accepted `*` there, because its channels may have changed.
    fn add(&mut self, added: Connected, hub: &EventHub) {
        self.remove_closed();
        self.open.retain(|one| one.number.is_some() || one.source != added.source);
        let source = added.source.clone();
        self.open.push(added);
        self.announce(hub, &source);
    }

    /// Records a server's answer to a request to subscribe to the channels in `requested`: the server has accepted
    /// those in `accepted`. If `accepted` is `None`, it is unknown which of them the server refuses; the kernel may
    /// request each of them again at once.
    fn answered(&mut self, number: u64, requested: &[String], accepted: Option<&[String]>) {
        let Some(one) = self.open.iter_mut().find(|one| one.number == Some(number)) else { return };
        let Some(accepted) = accepted else {
            return one.channels.retain(|name, _| !requested.contains(name));
        };
        for name in requested {
            let state = if accepted.contains(name) {
                ChannelState::Accepted
            } else {
                ChannelState::Refused(Instant::now())
            };
            one.channels.insert(name.clone(), state);
        }
    }

    /// Makes a hub list the channels that the connected instances of a server have accepted.
    fn announce(&self, hub: &EventHub, source: &EventSubject) {
        let Some(server) = &source.server else { return };
        let of_server = self.open.iter().filter(|one| one.source.server == source.server);
        let channels = of_server.flat_map(|one| &one.channels);
        let accepted = channels.filter(|(_, state)| matches!(state, ChannelState::Accepted));
        let names: BTreeSet<String> = accepted.map(|(name, _)| name.clone()).collect();
        hub.set_channels(server, names);
    }
}

impl KernelEvents {
    /// Subscribes to the channels that webhooks name, at servers that accept no patterns: now and on each later
    /// connection.
    pub(super) fn follow_configured(&self, named: &[String]) {
        self.by_name.0.send_modify(|all| named.clone_into(&mut all.configured));
        self.ask_by_name(named, |_| true);
    }

    /// Records a connection to a server that accepts `*` and has these channels.
    pub(super) fn record_channels(
        &self,
        connection: &NewConnection,
        source: EventSubject,
        channels: Vec<String>,
    ) {
        let channels = channels.into_iter().take(MAX_CHANNELS);
        let channels = channels.map(|name| (name, ChannelState::Accepted)).collect();
        let connection = connection.downgrade();
        let added = Connected { number: None, connection, source, channels };
        self.by_name.0.send_modify(|all| all.add(added, self.hub()));
    }

    /// Records a connection to a server that accepts no patterns, and subscribes to the channels that webhooks and
    /// subscribers name.
    pub(super) async fn follow_by_name(&self, connection: &NewConnection, source: EventSubject) {
        let (mut number, mut named) = (None, Vec::new());
        self.by_name.0.send_modify(|all| {
            all.count += 1;
            number = Some(all.count);
            named.clone_from(&all.configured);
            let connection = connection.downgrade();
            let (source, channels) = (source.clone(), BTreeMap::new());
            all.add(Connected { number, connection, source, channels }, self.hub());
        });
        // Read these only now: the router asks for the channels of later subscribers.
        named.extend(self.hub().named_channels(&source));
        let asked = self.ask_by_name(&named, |one| one.number == number);
        self.wait_for(&asked, &named).await;
    }

    /// Returns how many connections to servers that accept no patterns were recorded so far.
    pub(super) fn connections_by_name(&self) -> u64 {
        self.by_name.0.borrow().count
    }

    /// Calls [`ask_by_name`](Self::ask_by_name) for the servers whose events a caller may see.
    pub(super) fn ask_for(&self, cx: &Context, named: &[String]) -> Vec<u64> {
        self.ask_by_name(named, |one| self.hub().sees(cx, &one.source))
    }

    /// Starts to subscribe the kernel to the named channels at the selected servers that accept no patterns; skips
    /// channels that it has already requested. Returns the numbers of the connections with missing answers about these
    /// channels.
    fn ask_by_name(&self, named: &[String], selects: impl Fn(&Connected) -> bool) -> Vec<u64> {
        let (mut awaited, mut requests) = (Vec::new(), Vec::new());
        if named.is_empty() || self.connections_by_name() == 0 {
            return awaited;
        }
        self.by_name.0.send_if_modified(|all| {
            all.remove_closed();
            for one in all.open.iter_mut().filter(|one| selects(one)) {
                let Some(number) = one.number else { continue };
                let Some(connection) = one.connection.upgrade() else { continue };
                let names = one.claim(named);
                if one.is_awaited(named) {
                    awaited.push(number);
                }
                if !names.is_empty() {
                    requests.push((number, connection, one.source.clone(), names));
                }
            }
            // Do not wake the tasks in `wait_for`, because they wait only for answers.
            false
        });
        for (number, connection, source, names) in requests {
            tokio::spawn(self.clone().subscribe_by_name(number, connection, source, names));
        }
        awaited
    }

    /// Waits until the servers have answered about the named channels, at most for [`ASK_TIMEOUT`].
    pub(super) async fn wait_for(&self, asked: &[u64], named: &[String]) {
        if asked.is_empty() {
            return;
        }
        let mut changes = self.by_name.0.subscribe();
        let answered = changes.wait_for(|all| {
            let is_asked = |one: &&Connected| one.number.is_some_and(|it| asked.contains(&it));
            !all.open.iter().filter(is_asked).any(|one| one.is_awaited(named))
        });
        let _ = timeout(ASK_TIMEOUT, answered).await;
    }

    async fn subscribe_by_name(
        self,
        number: u64,
        connection: NewConnection,
        source: EventSubject,
        names: Vec<String>,
    ) {
        for requested in names.chunks(MAX_REQUESTED) {
            let subscribed = self.subscribe_to(&connection, &source, requested.to_vec()).await;
            if let Err(error) = &subscribed {
                let server = source.server.as_ref();
                tracing::debug!(?server, %error, "subscription to channels failed");
            }
            // Some servers refuse a request with several channels because of one of them.
            let is_clear = subscribed.is_ok() || requested.len() == 1;
            let accepted = subscribed.ok().flatten().unwrap_or_default();
            self.by_name.0.send_modify(|all| {
                all.answered(number, requested, is_clear.then_some(&accepted[..]));
                if !accepted.is_empty() {
                    all.announce(self.hub(), &source);
                }
            });
        }
    }
}
