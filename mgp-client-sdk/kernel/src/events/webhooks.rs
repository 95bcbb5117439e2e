//! Webhooks: the kernel sends events to URLs, in order, until the receiver accepts each event or the kernel gives it up
//! (MGP §13).

use std::time::SystemTime;

use mgp_client_sdk::GuardedFetch;
use mgp_discovery::WebhookConfig;
use mgp_server_sdk::{EventReader, ReadEvent};
use mgp_types::service::FetchRequest;
use mgp_types::store::Store;
use mgp_types::{Sha256Hash, to_hex};

use super::deliveries::{Delivery, SenderContext, post};

/// The block size of SHA-256, in bytes.
const BLOCK: usize = 64;

/// The number of bytes of an event's hash in the id of the event.
const ID_HASH: usize = 8;

/// A sender of events to one URL.
pub(super) struct Webhook {
    pub(super) config: WebhookConfig,
    fetch: GuardedFetch,
    secret: Option<String>,
}

impl Webhook {
    pub(super) fn new(sender: &SenderContext, mut config: WebhookConfig) -> Result<Self, String> {
        let secret = sender.expand(config.secret.as_deref())?;
        config.url = sender.expand(Some(&config.url))?.unwrap_or_default();
        let fetch = sender.fetch(&config.url, config.allow_loopback, config.allow_private)?;
        Ok(Self { config, fetch, secret })
    }

    /// Delivers events one after the other, until the store is closed.
    pub(super) async fn run(&self, delivery: &Delivery, store: &dyn Store, reader: &EventReader) {
        while let Some(events) = delivery.read_after(reader, 0).await {
            for event in events {
                let id = event_id(&delivery.name, &event);
                let send = || {
                    let secret = self.secret.as_deref();
                    let request = signed(&self.config.url, event.event.as_str(), secret);
                    post(&self.fetch, request.header("mgp-event-id", id.clone()))
                };
                delivery.deliver(store, &event, send).await;
                if !delivery.acknowledge(reader, event.seq).await {
                    return;
                }
            }
        }
    }
}

/// Returns the id of an event. It is the same in each attempt, so that the receiver can ignore repetitions. The hash
/// distinguishes the event from events of an earlier webhook with the same name.
fn event_id(webhook: &str, event: &ReadEvent) -> String {
    let hash = Sha256Hash::digest(event.event.as_str().as_bytes());
    format!("{webhook}-{}-{}", event.seq, to_hex(&hash.as_bytes()[..ID_HASH]))
}

/// Returns a POST request with a JSON body and a header with the current time. If there is a secret, adds a header with
/// the signature of the time and the body.
pub(super) fn signed(url: &str, json: &str, secret: Option<&str>) -> FetchRequest {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let timestamp = now.as_secs().to_string();
    let request = FetchRequest::post(url, json)
        .header("content-type", "application/json")
        .header("mgp-timestamp", timestamp.clone());
    let Some(secret) = secret else { return request };
    let signature = hmac_sha256(secret.as_bytes(), format!("{timestamp}.{json}").as_bytes());
    request.header("mgp-signature", format!("sha256={}", to_hex(&signature)))
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
    use mgp_discovery::{Config, Expander};
    use mgp_transport::http::Proxy;

    use super::*;

    #[tokio::test]
    async fn variables_in_the_url_of_a_webhook_are_expanded() {
        let sender =
            SenderContext::new(&Expander::new(|_| Some("s3cret".to_owned())), Proxy::none());
        let text = "[kernel.webhooks.x]\nurl = 'https://hook.example/${TOKEN}'";
        let config = Config::parse("mgp.toml", text).unwrap().config;
        let webhook = Webhook::new(&sender, config.kernel.webhooks["x"].clone()).unwrap();
        assert_eq!(webhook.config.url, "https://hook.example/s3cret");
    }

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
