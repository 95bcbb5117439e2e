//! Deliveries that the kernel makes on its own: events to URLs (webhooks), and messages to people (MGP §4.4, §13).
//!
//! Each delivery is a durable subscription, which keeps events while the kernel or the receiver is down.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mgp_client_sdk::GuardedFetch;
use mgp_discovery::{
    Expander, KernelConfig, NotifyConfig, Origin, ProxyConfig, Template, WebhookConfig,
};
use mgp_server_sdk::{EventHub, EventReader, ReadEvent};
use mgp_transport::http::Proxy;
use mgp_types::mgp::{KernelWebhook, Severity};
use mgp_types::service::{Fetch as _, FetchError, FetchRequest, shown_origin};
use mgp_types::store::{Store, StoreError};
use mgp_types::sync::Mutex;
use mgp_types::{Backoff, RpcError};
use tokio::task::JoinSet;

use super::{OpenDecisions, failures, notify, webhooks};
use crate::logins;

/// The prefix of the ids of webhooks' subscriptions.
const WEBHOOK: &str = "webhook-";

/// The prefix of the names of deliveries to people. The name of such a delivery is also the id of its subscription.
const NOTIFY: &str = "kernel.notify.";

/// The maximum number of attempts to deliver an event. After them, i.e. after about ten minutes, the kernel gives the
/// event up.
const ATTEMPTS: u32 = 12;
/// The delay before the second attempt to deliver an event, to use the store, or to prepare a receiver.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// The maximum delay between two attempts to deliver an event, to use the store, or to prepare a receiver.
const MAX_RETRY_DELAY: Duration = Duration::from_mins(2);

/// The time within which a receiver of events must answer a delivery.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum size of the answer of a receiver of events, in bytes.
const MAX_ANSWER: usize = 64 * 1024;

/// The number of events that a delivery reads from the store at a time.
const BATCH: usize = 32;

/// The maximum length of the stored error text of a failed delivery, in bytes.
const MAX_ERROR: usize = 256;

/// The running deliveries of a kernel: events to webhooks, and messages to people. This handle is cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Deliveries(Arc<DeliveryTable>);

#[derive(Default)]
struct DeliveryTable {
    running: Mutex<BTreeMap<String, RunningDelivery>>,
    context: OnceLock<DeliveryContext>,
}

/// A delivery with the task that runs it. Dropping this value ends the task.
struct RunningDelivery {
    delivery: Arc<Delivery>,
    outbound: Outbound,
    proxy: ProxySettings,
    task: JoinSet<()>,
}

/// The proxy for deliveries from the configuration, and the hosts that the kernel reaches without it.
type ProxySettings = (ProxyConfig, Vec<String>);

#[derive(Clone, PartialEq)]
enum Outbound {
    Webhook(WebhookConfig),
    /// The configuration of one way to reach a person, and the configured address of the operators' web console.
    Notify(NotifyConfig, Option<String>),
}

/// The handles that all deliveries share.
#[derive(Clone)]
pub(crate) struct DeliveryContext {
    pub(super) store: Arc<dyn Store>,
    sender: SenderContext,
    /// The decisions that wait for a person. They are looked up before a message about them is sent.
    pub(super) open: OpenDecisions,
}

/// The handles that the senders of all deliveries share.
#[derive(Clone)]
pub(super) struct SenderContext {
    pub(super) expander: Expander,
    pub(super) proxy: Proxy,
    /// The address of the operators' web console that this process serves.
    pub(super) served: LateText,
    /// The option that commands of the program `mgp` need to reach this kernel, if any.
    pub(super) command_option: LateText,
}

/// A text that the program sets when the kernel begins to serve clients; empty until then, or if it does not apply.
pub(super) type LateText = Arc<OnceLock<String>>;

/// A delivery of events to one receiver, with the count of accepted events.
pub(super) struct Delivery {
    pub(super) name: String,
    /// The name of the receiver that operators see: host and name of a webhook, or the name of the delivery.
    target: String,
    reader: Mutex<Option<EventReader>>,
    state: Mutex<DeliveryState>,
}

#[derive(Default)]
struct DeliveryState {
    delivered: u64,
    last_error: Option<String>,
}

/// The result of an attempt to deliver an event.
pub(super) enum Attempt {
    Accepted,
    /// The receiver did not accept the event, but another attempt might succeed.
    Failed(String),
    /// The receiver refuses this event, so the kernel makes no further attempt.
    Refused(String),
}

impl DeliveryContext {
    pub(crate) fn new(store: &Arc<dyn Store>, expander: &Expander, open: OpenDecisions) -> Self {
        let sender = SenderContext::new(expander, Proxy::none());
        Self { store: Arc::clone(store), sender, open }
    }

    /// Sets the proxy for sending deliveries.
    fn with_proxy(mut self, proxy: Proxy) -> Self {
        self.sender.proxy = proxy;
        self
    }
}

impl SenderContext {
    pub(super) fn new(expander: &Expander, proxy: Proxy) -> Self {
        let (served, command_option) = (LateText::default(), LateText::default());
        Self { expander: expander.clone(), proxy, served, command_option }
    }

    /// Expands the variables in a text that comes from the user's own configuration file.
    pub(super) fn expand(&self, text: Option<&str>) -> Result<Option<String>, String> {
        let Some(text) = text else { return Ok(None) };
        let template = Template::parse(text).map_err(|error| error.to_string())?;
        let value = self.expander.expand(&template, Origin::User, Path::new("."))?;
        Ok(Some(value.as_str().to_owned()))
    }

    /// Returns an HTTP client that is allowed to send to this URL.
    pub(super) fn fetch(
        &self,
        url: &str,
        allow_loopback: bool,
        allow_private: bool,
    ) -> Result<GuardedFetch, String> {
        let fetch = if allow_private {
            GuardedFetch::for_chosen(url)
        } else if allow_loopback {
            GuardedFetch::for_server(url)
        } else {
            GuardedFetch::new()
        };
        let fetch = fetch.and_then(|fetch| fetch.proxy(self.proxy.clone()));
        let fetch = fetch.map_err(|error| error.to_string())?;
        Ok(fetch.with_limits(TIMEOUT, MAX_ANSWER))
    }
}

impl Outbound {
    /// Returns the deliveries of a configuration by their names in the store. The names of deliveries to people contain
    /// a dot, and the names of webhooks cannot contain one, so all names differ.
    fn of(config: &KernelConfig) -> BTreeMap<String, Self> {
        let webhooks = config.webhooks.iter();
        let webhooks = webhooks.map(|(name, one)| (name.clone(), Self::Webhook(one.clone())));
        let places = config.notify.iter();
        let places = places.map(|(name, one)| {
            let place = Self::Notify(one.clone(), config.console_url.clone());
            (format!("{NOTIFY}{name}"), place)
        });
        webhooks.chain(places).collect()
    }

    /// Returns the id of the durable subscription of the delivery with this name.
    fn subscription_id(&self, name: &str) -> String {
        match self {
            Self::Webhook(_) => format!("{WEBHOOK}{name}"),
            Self::Notify(..) => name.to_owned(),
        }
    }
}

impl Deliveries {
    /// Sets the handles that the deliveries need. Until this is called, no delivery runs.
    pub(crate) fn enable(&self, context: DeliveryContext) {
        // Ignore the result: a kernel is built only once, so no context was set before.
        let _ = self.0.context.set(context);
    }

    /// Sets the values that messages to people contain: the address of this process's web console, and the option that
    /// commands need.
    pub(crate) fn set_endpoints(&self, console: Option<String>, command_option: Option<String>) {
        let Some(DeliveryContext { sender, .. }) = self.0.context.get() else { return };
        for (text, value) in [(&sender.served, console), (&sender.command_option, command_option)] {
            let _ = value.map(|value| text.set(value));
        }
    }

    /// Starts, stops and replaces deliveries, so that exactly the deliveries of a configuration run. If a delivery is
    /// not configured any more, drops its waiting and its given-up events, even if it was removed while no kernel ran.
    /// A delivery with a changed configuration keeps its events. If its channels or its minimum severity changed, it
    /// keeps only the given-up events.
    pub(crate) async fn apply(&self, hub: &EventHub, config: &KernelConfig) {
        let Some(context) = self.0.context.get() else { return };
        let context = context.clone().with_proxy(logins::proxy(config));
        let proxy = (config.proxy.clone(), config.no_proxy.clone());
        let configured = Outbound::of(config);
        let ended: Vec<_> = {
            let mut running = self.0.running.lock();
            let is_old = |name: &String, one: &mut RunningDelivery| {
                configured.get(name) != Some(&one.outbound) || one.proxy != proxy
            };
            running.extract_if(.., is_old).collect()
        };
        for (_, RunningDelivery { mut task, .. }) in ended {
            // Wait for the end of this task: the task that replaces it must not send an event at the same time.
            task.shutdown().await;
        }
        let ids: BTreeSet<_> =
            configured.iter().map(|(name, one)| one.subscription_id(name)).collect();
        let is_own = |id: &str| id.starts_with(WEBHOOK) || id.starts_with(NOTIFY);
        hub.end_readers(|id| is_own(id) && !ids.contains(id)).await;
        if let Err(error) =
            failures::retain(&*context.store, |name| configured.contains_key(name)).await
        {
            tracing::warn!(%error, "given-up events of removed deliveries not dropped");
        }
        let mut running = self.0.running.lock();
        for (name, outbound) in configured {
            if let Entry::Vacant(entry) = running.entry(name) {
                let name = entry.key().clone();
                let (delivery, task) = start(hub, &context, name, outbound.clone());
                let proxy = proxy.clone();
                entry.insert(RunningDelivery { delivery, outbound, proxy, task });
            }
        }
    }

    /// Returns all deliveries, each with the events that it could not deliver.
    pub(crate) async fn list(&self, store: &dyn Store) -> Result<Vec<KernelWebhook>, StoreError> {
        let failures = failures::load(store).await?;
        let all: Vec<_> = {
            let running = self.0.running.lock();
            running.values().map(|one| Arc::clone(&one.delivery)).collect()
        };
        let listed = all.iter().map(|delivery| {
            let waiting = delivery.reader.lock().as_ref().map_or(0, EventReader::waiting);
            let state = delivery.state.lock();
            let mut listed = KernelWebhook::new(delivery.target.clone(), state.delivered, waiting);
            listed.last_error.clone_from(&state.last_error);
            let own = failures.iter().filter(|(name, _)| *name == delivery.name);
            listed.failures = own.map(|(_, failure)| failure.clone()).collect();
            listed
        });
        Ok(listed.collect())
    }
}

/// Starts a delivery. It ends when the returned task is dropped.
fn start(
    hub: &EventHub,
    context: &DeliveryContext,
    name: String,
    outbound: Outbound,
) -> (Arc<Delivery>, JoinSet<()>) {
    let target = match &outbound {
        // Leave the path of the URL out, because it is often a secret. The name distinguishes webhooks to the same
        // host.
        Outbound::Webhook(config) => format!("{} ({name})", shown_origin(&config.url)),
        // Leave topics and addresses out, because everyone who knows a topic can read its messages.
        Outbound::Notify(..) => name.clone(),
    };
    let (reader, state) = (Mutex::default(), Mutex::default());
    let delivery = Arc::new(Delivery { name, target, reader, state });
    let mut task = JoinSet::new();
    let (hub, context) = (hub.clone(), context.clone());
    let running = Arc::clone(&delivery);
    task.spawn(async move {
        if let Err(why) = run(&hub, &context, &running, outbound).await {
            tracing::error!(delivery = running.name, why, "delivery stopped");
            running.state.lock().last_error = Some(why);
        }
    });
    (delivery, task)
}

/// Delivers events until the store is closed. Fails if the subscription is refused. Opens the subscription first, so
/// that it keeps events while the receiver cannot be prepared.
async fn run(
    hub: &EventHub,
    context: &DeliveryContext,
    delivery: &Delivery,
    outbound: Outbound,
) -> Result<(), String> {
    let sender = context.sender.clone();
    let id = outbound.subscription_id(&delivery.name);
    match outbound {
        Outbound::Webhook(config) => {
            let (channels, min) = (&config.channels, config.min_severity.as_ref());
            let Some(reader) = delivery.open(hub, &id, channels, min).await? else { return Ok(()) };
            let create = move || webhooks::Webhook::new(&sender, config.clone());
            let webhook = delivery.prepare(create).await;
            webhook.run(delivery, &*context.store, &reader).await;
        }
        Outbound::Notify(config, console) => {
            let opened = delivery.open(hub, &id, &notify::CHANNELS, None).await?;
            let Some(reader) = opened else { return Ok(()) };
            let place = config.clone();
            let create = move || notify::Messenger::new(&sender, &place, console.clone());
            let messenger = delivery.prepare(create).await;
            notify::run(&messenger, &config, delivery, context, &reader).await;
        }
    }
    Ok(())
}

/// Returns the store's error that caused this error, if the store caused it.
fn store_error(error: &RpcError) -> Option<&StoreError> {
    error.source()?.downcast_ref()
}

impl Delivery {
    /// Opens the durable subscription of the delivery. Returns `None` if the store was closed.
    async fn open<S: AsRef<str> + Sync>(
        &self,
        hub: &EventHub,
        id: &str,
        channels: &[S],
        min: Option<&Severity>,
    ) -> Result<Option<EventReader>, String> {
        let open = || async move {
            match hub.reader(id, channels, min).await {
                // Return an error that the store did not cause, because another attempt would fail too.
                Err(error) if store_error(&error).is_none() => Ok(Err(error)),
                opened => opened.map(Ok),
            }
        };
        let Some(opened) = self.repeat(open).await else { return Ok(None) };
        let reader = opened.map_err(|error| error.to_string())?;
        *self.reader.lock() = Some(reader.clone());
        Ok(Some(reader))
    }

    /// Repeats the preparation of a receiver until it succeeds, e.g. after a user has set a secret or unlocked a
    /// keyring.
    async fn prepare<T: Send + 'static>(
        &self,
        create: impl Fn() -> Result<T, String> + Clone + Send + 'static,
    ) -> T {
        let mut backoff = Backoff::new(RETRY_DELAY, MAX_RETRY_DELAY);
        loop {
            // Run this on a blocking thread, because expanding variables can read files and run commands.
            let created = tokio::task::spawn_blocking(create.clone()).await;
            let why = match created.unwrap_or_else(|error| Err(error.to_string())) {
                Ok(receiver) => {
                    self.state.lock().last_error = None;
                    return receiver;
                }
                Err(why) => why,
            };
            let last = self.state.lock().last_error.replace(why.clone());
            if last.as_ref() != Some(&why) {
                tracing::error!(
                    delivery = self.name,
                    why,
                    "retry: the receiver cannot be prepared"
                );
            }
            tokio::time::sleep(backoff.next_delay()).await;
        }
    }

    /// Waits for events with a sequence number above `seq`, and returns them. Returns `None` if the store was closed.
    pub(super) async fn read_after(
        &self,
        reader: &EventReader,
        seq: u64,
    ) -> Option<Vec<ReadEvent>> {
        self.repeat(|| reader.read_after(seq, BATCH)).await
    }

    /// Records in the store that the events up to `seq` are delivered. Returns `false` if the store was closed.
    pub(super) async fn acknowledge(&self, reader: &EventReader, seq: u64) -> bool {
        self.repeat(|| reader.acknowledge(seq)).await.is_some()
    }

    /// Repeats an operation on the store until it succeeds. Returns `None` if the store was closed.
    async fn repeat<T, E: Into<RpcError>, F: Future<Output = Result<T, E>> + Send>(
        &self,
        attempt: impl Fn() -> F + Send + Sync,
    ) -> Option<T> {
        let mut backoff = Backoff::new(RETRY_DELAY, MAX_RETRY_DELAY);
        loop {
            let error: RpcError = match attempt().await {
                Ok(value) => return Some(value),
                Err(error) => error.into(),
            };
            let why = match store_error(&error) {
                Some(StoreError::Closed) => {
                    tracing::debug!(delivery = self.name, "store closed; the delivery ends");
                    return None;
                }
                // Use the error of the store, because it has details that the error of the request lacks.
                Some(cause) => cause.to_string(),
                None => error.to_string(),
            };
            tracing::warn!(delivery = self.name, why, "retry: the store of the events failed");
            tokio::time::sleep(backoff.next_delay()).await;
        }
    }

    /// Repeats `send` until the receiver accepts the event. If the receiver refuses the event, or has not accepted it
    /// after the maximum number of attempts, stores the event as given up.
    pub(super) async fn deliver<F: Future<Output = Attempt> + Send>(
        &self,
        store: &dyn Store,
        event: &ReadEvent,
        send: impl Fn() -> F + Send + Sync,
    ) {
        let mut backoff = Backoff::new(RETRY_DELAY, MAX_RETRY_DELAY);
        for attempt in 1.. {
            let (error, is_final) = match send().await {
                Attempt::Accepted => {
                    let mut state = self.state.lock();
                    state.delivered += 1;
                    state.last_error = None;
                    return;
                }
                Attempt::Refused(error) => (error, true),
                Attempt::Failed(error) => (error, attempt == ATTEMPTS),
            };
            self.state.lock().last_error = Some(error.clone());
            if is_final {
                tracing::warn!(delivery = self.name, seq = event.seq, error, "gave up an event");
                // Ignore a closed store: the caller notices it at the next use of the store.
                self.repeat(|| failures::add(store, &self.name, event, error.clone())).await;
                return;
            }
            tracing::debug!(delivery = self.name, attempt, error, "retry: event not accepted");
            tokio::time::sleep(backoff.next_delay()).await;
        }
    }
}

/// Sends a request once, and returns whether the receiver accepted it.
pub(super) async fn post(fetch: &GuardedFetch, request: FetchRequest) -> Attempt {
    match fetch.fetch(request).await {
        Ok(answer) if (200..300).contains(&answer.status) => Attempt::Accepted,
        Ok(answer) => {
            let error = format!("the receiver answered {}", answer.status);
            let is_final =
                (400..500).contains(&answer.status) && ![408, 429].contains(&answer.status);
            if is_final { Attempt::Refused(error) } else { Attempt::Failed(error) }
        }
        Err(error) => {
            let is_forbidden = matches!(error, FetchError::Forbidden { .. });
            let mut why = mgp_types::clip(&error.hiding_path().to_string(), MAX_ERROR);
            if is_forbidden {
                why += "; only `https` at public addresses is permitted, this machine with \
                        `allow_loopback`, and a private network with `allow_private`";
            }
            Attempt::Failed(why)
        }
    }
}

#[cfg(test)]
mod tests {
    use mgp_discovery::Config;
    use mgp_server_sdk::EventDraft;
    use mgp_types::store::Db;

    use super::*;

    /// A number of seconds after which all attempts to deliver an event have ended.
    const LONG: usize = 3_600;

    /// SQL that makes each write of a given-up event or of a position fail.
    const BREAK: &str = "
        CREATE TRIGGER no_failure BEFORE INSERT ON store_record
            BEGIN SELECT RAISE(ABORT, 'broken'); END;
        CREATE TRIGGER no_position BEFORE UPDATE OF cursor ON events_subscriptions
            BEGIN SELECT RAISE(ABORT, 'broken'); END";

    async fn execute(db: &Db, sql: &'static str) {
        db.write(move |tx| Ok(tx.execute_batch(sql)?)).await.unwrap();
    }

    /// Waits for some seconds of the paused clock. In each second, the queued jobs of the database are completed.
    async fn wait(db: &Db, seconds: usize) {
        for _ in 0..seconds {
            tokio::time::sleep(Duration::from_secs(1)).await;
            db.read(|_| Ok(())).await.unwrap();
        }
    }

    /// Returns the stored position of the delivery, and the number of its stored failures.
    async fn stored(db: &Db) -> (i64, i64) {
        let sql = "SELECT cursor, (SELECT count(*) FROM store_record) FROM events_subscriptions";
        let read =
            db.read(move |conn| Ok(conn.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?));
        read.await.unwrap()
    }

    /// Returns a hub with the database in which it stores its events.
    async fn hub() -> (EventHub, Db) {
        let (hub, db) = (EventHub::new(), Db::in_memory().await.unwrap());
        hub.keep_in_db(db.clone()).await.unwrap();
        (hub, db)
    }

    /// Starts a webhook to a forbidden address, so that each attempt fails without a connection.
    fn start_webhook(hub: &EventHub, db: &Db) -> (Arc<Delivery>, JoinSet<()>) {
        start_with(hub, db, &Expander::new(|_| Some("s3cret".to_owned())))
    }

    fn start_with(hub: &EventHub, db: &Db, expander: &Expander) -> (Arc<Delivery>, JoinSet<()>) {
        let store: Arc<dyn Store> = Arc::new(db.clone());
        let context = DeliveryContext::new(&store, expander, OpenDecisions::default());
        let config =
            "[kernel.webhooks.hook]\nurl = \"https://127.0.0.1/\"\nsecret = \"${SECRET}\"\n";
        let config = Config::parse("mgp.toml", config).unwrap().config;
        let (name, outbound) = Outbound::of(&config.kernel).pop_first().unwrap();
        start(hub, &context, name, outbound)
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_write_of_the_store_does_not_stop_a_delivery() {
        let (hub, db) = hub().await;
        let (delivery, _task) = start_webhook(&hub, &db);
        wait(&db, 10).await;
        assert!(delivery.reader.lock().is_some());
        execute(&db, BREAK).await;
        for channel in ["job.one", "job.two"] {
            hub.publish(EventDraft::new(channel)).unwrap();
        }
        wait(&db, LONG).await;
        assert_eq!(stored(&db).await, (0, 0));
        execute(&db, "DROP TRIGGER no_failure").await;
        wait(&db, LONG).await;
        assert_eq!(stored(&db).await, (0, 1), "given up, but the position is not stored");
        execute(&db, "DROP TRIGGER no_position").await;
        wait(&db, LONG).await;
        assert_eq!(stored(&db).await, (2, 2), "the delivery continues with the next event");
    }

    #[tokio::test(start_paused = true)]
    async fn a_delivery_keeps_events_until_its_secret_is_set() {
        let (hub, db) = hub().await;
        let secret = Arc::new(OnceLock::<String>::new());
        let variables = Arc::clone(&secret);
        let expander = Expander::new(move |_| variables.get().cloned());
        let (delivery, _task) = start_with(&hub, &db, &expander);
        wait(&db, 10).await;
        assert!(delivery.state.lock().last_error.as_ref().unwrap().contains("SECRET"));
        hub.publish(EventDraft::new("job.one")).unwrap();
        wait(&db, 10).await;
        assert_eq!(delivery.reader.lock().as_ref().unwrap().waiting(), 1);
        secret.set("s3cret".to_owned()).unwrap();
        wait(&db, LONG).await;
        assert_eq!(stored(&db).await, (1, 1), "it was sent, to an address that is forbidden");
    }

    #[tokio::test(start_paused = true)]
    async fn a_delivery_starts_once_the_store_can_be_written() {
        let (hub, db) = hub().await;
        execute(
            &db,
            "CREATE TRIGGER broken BEFORE INSERT ON events_subscriptions
                BEGIN SELECT RAISE(ABORT, 'broken'); END",
        )
        .await;
        let (delivery, _task) = start_webhook(&hub, &db);
        wait(&db, 10).await;
        assert!(delivery.reader.lock().is_none());
        execute(&db, "DROP TRIGGER broken").await;
        wait(&db, LONG).await;
        assert!(delivery.reader.lock().is_some());
    }
}
