//! Events of a server (MGP §13): subscriptions as streams, which notice gaps and can be continued.

mod open;
mod routes;
mod stream;

use std::future::IntoFuture;
use std::time::Duration;

use mgp_types::RawObject;
use mgp_types::method::{EventsChannels, EventsReplay};
use mgp_types::mgp::{
    EventChannel, EventChannelsParams, EventFilter, EventsReplayParams, EventsReplayResult,
    Severity, SubscribeEventsParams,
};
use mgp_types::service::BoxFuture;

use crate::client::Client;
use crate::error::Error;

pub(crate) use open::{EventSubscription, open};
pub use routes::ServerEvent;
pub(crate) use routes::{EventRoutes, EventSink};
pub use stream::EventStream;

/// The position in a subscription; a later connection can continue the subscription from there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventCursor {
    /// The id of the subscription that is continued.
    pub subscription_id: String,
    /// The sequence number of the last event that was read.
    pub after_seq: u64,
}

impl EventCursor {
    /// Creates a position from its stored parts.
    #[must_use]
    pub fn new(subscription_id: impl Into<String>, after_seq: u64) -> Self {
        Self { subscription_id: subscription_id.into(), after_seq }
    }
}

/// The methods for the events of a client's server; see [`Client::events`].
#[derive(Clone, Copy, Debug)]
pub struct ClientEvents<'a>(&'a Client);

impl Client {
    /// Returns the methods for the events of the server (MGP §13).
    ///
    /// ```
    /// use mgp_client_sdk::TestClient;
    /// use mgp_server_sdk::Server;
    /// use mgp_server_sdk::types::mgp::Severity;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let server = Server::new("models", "1.0").channel("model.loaded", "A model was loaded");
    /// let hub = server.events();
    /// let client = TestClient::new(server).await;
    /// let mut events = client.events().subscribe(["model.*"]).await.unwrap();
    /// hub.emit("model.loaded", Severity::Info, &["llama3"]).await.unwrap();
    /// let event = events.next().await.unwrap();
    /// assert_eq!((event.channel.as_str(), event.data.as_str()), ("model.loaded", r#"["llama3"]"#));
    /// # });
    /// ```
    #[must_use]
    pub fn events(&self) -> ClientEvents<'_> {
        ClientEvents(self)
    }
}

impl ClientEvents<'_> {
    /// Creates a subscription to channels, e.g. `model.loaded`, `model.*` or `*`; await it, or change it first.
    pub fn subscribe<S: Into<String>>(
        &self,
        channels: impl IntoIterator<Item = S>,
    ) -> SubscribeEvents {
        let channels: Vec<String> = channels.into_iter().map(Into::into).collect();
        SubscribeEvents { client: self.0.clone(), params: SubscribeEventsParams::new(channels) }
    }

    /// Continues a subscription after the last event that was read.
    ///
    /// A server keeps a durable subscription across connections, and may keep any other for a short time. If it may
    /// have lost the subscription, also name the [channels](SubscribeEvents::channels), so that the subscription can be
    /// requested again.
    pub fn resume(&self, cursor: EventCursor) -> SubscribeEvents {
        let mut params = SubscribeEventsParams::new(Vec::new());
        params.subscription_id = Some(cursor.subscription_id);
        params.after_seq = Some(cursor.after_seq);
        SubscribeEvents { client: self.0.clone(), params }
    }

    /// Returns the channels of the server.
    ///
    /// # Errors
    /// See [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request.
    pub async fn channels(&self) -> Result<Vec<EventChannel>, Error> {
        let listed = self.0.request::<EventsChannels>(&EventChannelsParams::new()).await?;
        Ok(listed.channels)
    }

    /// Returns past events of a subscription that the server has kept.
    ///
    /// # Errors
    /// See [`Client::request`]; also code −32602 (invalid params) if the server does not know the subscription.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request.
    pub async fn replay(&self, params: &EventsReplayParams) -> Result<EventsReplayResult, Error> {
        self.0.request::<EventsReplay>(params).await
    }
}

/// A subscription that is not requested yet; await the value to request the subscription.
#[derive(Clone, Debug)]
#[must_use = "a subscription does nothing until it is awaited"]
pub struct SubscribeEvents {
    client: Client,
    params: SubscribeEventsParams,
}

impl SubscribeEvents {
    /// Sets the lowest severity of the events to receive. Default: all events.
    pub fn min_severity(mut self, severity: Severity) -> Self {
        let filter = self.params.filter.get_or_insert_with(EventFilter::new);
        filter.min_severity = Some(severity);
        self
    }

    /// Selects the events whose data have these members with exactly these values. Default: all events. Servers of
    /// other implementations might refuse this filter.
    pub fn only_with(mut self, members: RawObject) -> Self {
        self.params.filter.get_or_insert_with(EventFilter::new).data = Some(members);
        self
    }

    /// Sets the channels of a [continued](ClientEvents::resume) subscription. If the server has lost the subscription,
    /// the client requests it again for these channels, with the same id and numbering. Also call
    /// [`durable`](Self::durable), [`min_severity`](Self::min_severity) and [`only_with`](Self::only_with) again,
    /// because the server has lost these settings too.
    ///
    /// # Errors
    /// Awaiting the value fails with code −32602 (invalid params) if the server still has the subscription, with other
    /// channels.
    pub fn channels<S: Into<String>>(mut self, channels: impl IntoIterator<Item = S>) -> Self {
        self.params.channels = channels.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the lifetime of the subscription; the server may shorten it. The last event then has the channel
    /// [`EventParams::TERMINATED`](mgp_types::mgp::EventParams::TERMINATED), and the stream ends after it. Default: the
    /// subscription ends with the stream or the connection.
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.params.ttl_seconds = Some(mgp_types::millis(lifetime).div_ceil(1000));
        self
    }

    /// Asks the server to keep events while this client is disconnected; see [`EventStream::cursor`].
    pub fn durable(mut self) -> Self {
        self.params.durable = Some(true);
        self
    }
}

impl IntoFuture for SubscribeEvents {
    type Output = Result<EventStream, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(EventStream::open(self.client, self.params))
    }
}
