//! Webhooks: events sent to URLs, in order, until each is accepted or given up (MGP §13).
//!
//! A webhook is a durable subscription, so it loses no event while the kernel or the receiver is down.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use mgp_client_sdk::GuardedFetch;
use mgp_discovery::{Expander, Origin, Template, WebhookConfig};
use mgp_server_sdk::{EventHub, EventReader, ReadEvent};
use mgp_transport::http::Proxy;
use mgp_types::mgp::{KernelWebhook, KernelWebhookFailure};
use mgp_types::service::{Fetch as _, FetchRequest};
use mgp_types::store::{Change, Store, StoreError};
use mgp_types::sync::Mutex;
use mgp_types::{Backoff, Payload, Sha256Hash, Timestamp, to_hex};
use tokio::task::JoinSet;

use crate::login::Logins;

/// The space of events that were given up, in the store.
const SPACE: &str = "events.failed";

/// The maximum number of events that were given up and are kept, per webhook.
const MAX_FAILURES: usize = 100;

/// The number of attempts before an event is given up, about ten minutes, and the delays between them.
const ATTEMPTS: u32 = 12;
const RETRY_DELAY: Duration = Duration::from_millis(500);
const MAX_RETRY_DELAY: Duration = Duration::from_mins(2);

/// The limits of an answer.
const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_ANSWER: usize = 64 * 1024;

/// The number of events that are read at a time.
const BATCH: usize = 32;

/// The maximum length of an error that is kept.
const MAX_ERROR: usize = 256;

/// The block size of SHA-256.
const BLOCK: usize = 64;

/// The webhooks of a kernel; a cheap handle.
#[derive(Clone, Default)]
pub(crate) struct Webhooks(Arc<WebhookTable>);

#[derive(Default)]
struct WebhookTable {
    running: Mutex<BTreeMap<String, RunningWebhook>>,
    context: OnceLock<WebhookContext>,
}

/// A webhook with the task that delivers its events; the task ends when this is dropped.
struct RunningWebhook {
    webhook: Arc<Webhook>,
    config: WebhookConfig,
    task: JoinSet<()>,
}

/// The handles that the tasks of all webhooks share.
#[derive(Clone)]
pub(crate) struct WebhookContext {
    store: Arc<dyn Store>,
    expander: Expander,
    proxy: Proxy,
}

impl WebhookContext {
    pub(crate) fn new(store: &Arc<dyn Store>, expander: &Expander, logins: &Logins) -> Self {
        let (store, expander) = (Arc::clone(store), expander.clone());
        Self { store, expander, proxy: logins.proxy().clone() }
    }
}

struct Webhook {
    name: String,
    url: String,
    reader: Mutex<Option<EventReader>>,
    state: Mutex<WebhookState>,
}

#[derive(Default)]
struct WebhookState {
    delivered: u64,
    last_error: Option<String>,
}

/// The result of an attempt.
enum Attempt {
    Accepted,
    /// Another attempt may succeed.
    Failed(String),
    /// The receiver refuses this event.
    Refused(String),
}

impl Webhooks {
    /// Sets what the tasks of webhooks need; without it there are none.
    pub(crate) fn enable(&self, context: WebhookContext) {
        // A kernel is built once, so it was not set before.
        let _ = self.0.context.set(context);
    }

    /// Starts, stops and replaces webhooks, so that those of a configuration run. One that is no longer configured
    /// loses its waiting events; a changed one goes on where it was.
    pub(crate) async fn apply(&self, hub: &EventHub, configs: &BTreeMap<String, WebhookConfig>) {
        let Some(context) = self.0.context.get() else { return };
        let ended: Vec<_> = {
            let mut running = self.0.running.lock();
            let is_old =
                |name: &String, one: &mut RunningWebhook| configs.get(name) != Some(&one.config);
            running.extract_if(.., is_old).collect()
        };
        for (name, RunningWebhook { webhook, mut task, .. }) in ended {
            // Its successor must not send an event at the same time.
            task.shutdown().await;
            let reader = webhook.reader.lock().take();
            if let Some(reader) = reader.filter(|_| !configs.contains_key(&name)) {
                reader.end().await;
            }
        }
        let mut running = self.0.running.lock();
        for (name, config) in configs {
            if !running.contains_key(name) {
                running.insert(name.clone(), start(hub, context, name, config.clone()));
            }
        }
    }

    /// Returns the webhooks and the events that they could not deliver.
    pub(crate) async fn list(&self, store: &dyn Store) -> Result<Vec<KernelWebhook>, StoreError> {
        let failures = store.load(SPACE).await?.records;
        let all: Vec<_> = {
            let running = self.0.running.lock();
            running.values().map(|one| Arc::clone(&one.webhook)).collect()
        };
        let listed = all.iter().map(|webhook| {
            let waiting = webhook.reader.lock().as_ref().map_or(0, EventReader::waiting);
            let state = webhook.state.lock();
            let mut listed = KernelWebhook::new(webhook.url.clone(), state.delivered, waiting);
            listed.last_error.clone_from(&state.last_error);
            let mut own: Vec<_> =
                failures.iter().filter(|failure| webhook.owns(&failure.key)).collect();
            own.sort_by(|one, other| one.key.cmp(&other.key));
            let read = own.iter().filter_map(|failure| failure.value.as_ref()?.get().ok());
            listed.failures = read.collect();
            listed
        });
        Ok(listed.collect())
    }
}

/// Starts a webhook.
fn start(
    hub: &EventHub,
    context: &WebhookContext,
    name: &str,
    config: WebhookConfig,
) -> RunningWebhook {
    let webhook = Arc::new(Webhook {
        name: name.to_owned(),
        url: config.url.clone(),
        reader: Mutex::default(),
        state: Mutex::default(),
    });
    let mut task = JoinSet::new();
    let (hub, context, name) = (hub.clone(), context.clone(), name.to_owned());
    let (running, settings) = (Arc::clone(&webhook), config.clone());
    task.spawn(async move {
        if let Err(why) = run(&hub, &context, &running, settings).await {
            tracing::error!(webhook = name, why, "webhook stopped");
            running.state.lock().last_error = Some(why);
        }
    });
    RunningWebhook { webhook, config, task }
}

impl Webhook {
    fn owns(&self, key: &str) -> bool {
        key.strip_prefix(&self.name).is_some_and(|rest| rest.starts_with(' '))
    }

    /// Keeps an event that was given up, in place of the oldest one if there are too many.
    async fn give_up(
        &self,
        store: &dyn Store,
        event: &ReadEvent,
        error: String,
    ) -> Result<(), StoreError> {
        let failure = KernelWebhookFailure::new(Timestamp::now(), error, event.event.clone());
        let failure = Payload::of(&failure).map_err(StoreError::failed)?;
        let mut change =
            Change::new().put(SPACE, format!("{} {:020}", self.name, event.seq), failure);
        let mut kept: Vec<_> = store.load(SPACE).await?.records;
        kept.retain(|failure| self.owns(&failure.key));
        kept.sort_by(|one, other| one.key.cmp(&other.key));
        for oldest in kept.iter().take((kept.len() + 1).saturating_sub(MAX_FAILURES)) {
            change = change.remove(SPACE, oldest.key.clone());
        }
        store.commit(change).await.map(drop)
    }
}

/// Delivers events until the store is closed; fails if the configuration cannot be used.
async fn run(
    hub: &EventHub,
    context: &WebhookContext,
    webhook: &Webhook,
    config: WebhookConfig,
) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let secret = match &config.secret {
        None => None,
        Some(secret) => {
            let template = Template::parse(secret).map_err(|error| text(&error))?;
            Some(context.expander.expand(&template, Origin::User, Path::new("."))?)
        }
    };
    let fetch = if config.allow_loopback {
        GuardedFetch::for_server(&config.url)
    } else {
        GuardedFetch::new()
    };
    let fetch = fetch.and_then(|fetch| fetch.proxy(context.proxy.clone()));
    let fetch = fetch.map_err(|error| text(&error))?.with_limits(TIMEOUT, MAX_ANSWER);
    let id = format!("webhook-{}", webhook.name);
    let reader = hub.reader(&id, &config.channels, config.min_severity.as_ref()).await;
    let reader = reader.map_err(|error| text(&error))?;
    *webhook.reader.lock() = Some(reader.clone());
    loop {
        let events = match reader.read(BATCH).await {
            Ok(events) => events,
            Err(error) => {
                tracing::warn!(webhook = webhook.name, %error, "retry: events cannot be read");
                tokio::time::sleep(RETRY_DELAY).await;
                continue;
            }
        };
        for event in events {
            let secret = secret.as_ref().map(|secret| secret.as_str().as_bytes());
            if let Err(why) = deliver(&fetch, webhook, &event, secret).await {
                tracing::warn!(webhook = webhook.name, seq = event.seq, why, "gave up an event");
                let kept = webhook.give_up(&*context.store, &event, why).await;
                kept.map_err(|error| text(&error))?;
            }
            reader.acknowledge(event.seq).await.map_err(|error| text(&error))?;
        }
    }
}

/// Sends an event until it is accepted; fails with the last error after too many attempts.
async fn deliver(
    fetch: &GuardedFetch,
    webhook: &Webhook,
    event: &ReadEvent,
    secret: Option<&[u8]>,
) -> Result<(), String> {
    let mut backoff = Backoff::new(RETRY_DELAY, MAX_RETRY_DELAY);
    for attempt in 1..=ATTEMPTS {
        let error = match send(fetch, webhook, event, secret).await {
            Attempt::Accepted => {
                let mut state = webhook.state.lock();
                state.delivered += 1;
                state.last_error = None;
                return Ok(());
            }
            Attempt::Refused(error) => {
                webhook.state.lock().last_error = Some(error.clone());
                return Err(error);
            }
            Attempt::Failed(error) => error,
        };
        tracing::debug!(webhook = webhook.name, attempt, error, "retry: event not accepted");
        webhook.state.lock().last_error = Some(error.clone());
        if attempt == ATTEMPTS {
            return Err(error);
        }
        tokio::time::sleep(backoff.next_delay()).await;
    }
    Ok(())
}

async fn send(
    fetch: &GuardedFetch,
    webhook: &Webhook,
    event: &ReadEvent,
    secret: Option<&[u8]>,
) -> Attempt {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let timestamp = now.as_secs().to_string();
    let body = event.event.as_str();
    let mut request = FetchRequest::post(&webhook.url, body)
        .header("content-type", "application/json")
        // The same in each attempt, so that the receiver can drop repeated ones.
        .header("mgp-event-id", format!("{}-{}", webhook.name, event.seq))
        .header("mgp-timestamp", timestamp.clone());
    if let Some(secret) = secret {
        let signature = hmac_sha256(secret, format!("{timestamp}.{body}").as_bytes());
        request = request.header("mgp-signature", format!("sha256={}", to_hex(&signature)));
    }
    match fetch.fetch(request).await {
        Ok(answer) if (200..300).contains(&answer.status) => Attempt::Accepted,
        Ok(answer) => {
            let error = format!("the receiver answered {}", answer.status);
            let is_final =
                (400..500).contains(&answer.status) && ![408, 429].contains(&answer.status);
            if is_final { Attempt::Refused(error) } else { Attempt::Failed(error) }
        }
        Err(error) => Attempt::Failed(mgp_types::clip(&error.to_string(), MAX_ERROR)),
    }
}

/// Returns the HMAC-SHA256 of a message (RFC 2104).
fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(Sha256Hash::digest(key).as_bytes());
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let pad = |byte: u8| block.map(|key| key ^ byte).to_vec();
    let inner = Sha256Hash::digest(&[&pad(0x36), message].concat());
    *Sha256Hash::digest(&[&pad(0x5c)[..], inner.as_bytes()].concat()).as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_those_of_rfc_4231() {
        let check = |key: &[u8], message: &[u8], expected: &str| {
            assert_eq!(to_hex(&hmac_sha256(key, message)), expected);
        };
        check(
            b"Jefe",
            b"what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        );
        check(
            &[0xaa; 131],
            b"Test Using Larger Than Block-Size Key - Hash Key First",
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        );
    }
}
