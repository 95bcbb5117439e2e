//! `[kernel.webhooks.NAME]`: URLs to which the kernel sends events (MGP §13).

use std::collections::BTreeMap;

use mgp_types::mgp::Severity;

use super::table_reader::Reader;

/// The maximum number of webhooks in a configuration.
pub(super) const MAX_WEBHOOKS: usize = 16;

/// A URL that receives events of the kernel.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct WebhookConfig {
    /// The URL that receives the events.
    pub url: String,
    /// The channels whose events are sent, or patterns such as `tool.*`.
    pub channels: Vec<String>,
    /// The lowest severity of the events that are sent.
    pub min_severity: Option<Severity>,
    /// The key that signs the requests; `${…}` in it is not yet expanded.
    pub secret: Option<String>,
    /// If set, the URL may be an address of this machine.
    pub allow_loopback: bool,
    /// If set, the host of the URL may have any address, e.g. one of a private network.
    pub allow_private: bool,
}

// Omits the secret, and the URL, which can contain a token.
mgp_types::opaque_debug!(WebhookConfig { channels, min_severity, allow_loopback, allow_private });

pub(super) fn webhooks(kernel: &mut Reader<'_, '_, '_>) -> BTreeMap<String, WebhookConfig> {
    const PATH: &str = "kernel.webhooks.*";
    let mut all = BTreeMap::new();
    for (name, table) in kernel.named_tables("webhooks", PATH, MAX_WEBHOOKS) {
        let mut reader = Reader::of_entry(kernel.report, PATH, &name, table);
        let Some(url) = reader.url("url") else {
            let remedy = "add e.g. `url = \"https://example.com/hook\"`".to_owned();
            reader.error("url", "is missing", Some(remedy));
            continue;
        };
        let mut channels = reader.texts("channels");
        if let Some(other) = channels.iter().find(|channel| !is_channel(channel)) {
            let what = format!("has `{}`, which is not a channel", super::kind::shown(other));
            let remedy =
                "write a name, e.g. \"tool.completed\", a family, e.g. \"tool.*\", or \"*\"";
            reader.error("channels", what, Some(remedy.to_owned()));
        }
        if channels.is_empty() {
            channels.push("*".to_owned());
        }
        let webhook = WebhookConfig {
            url,
            channels,
            min_severity: reader.text("min_severity").map(|word| word.as_str().into()),
            secret: reader.text("secret"),
            allow_loopback: reader.switch("allow_loopback").unwrap_or_default(),
            allow_private: reader.switch("allow_private").unwrap_or_default(),
        };
        all.insert(name, webhook);
    }
    all
}

/// Returns whether a text is a valid selection of channels: all, one, or a family such as `tool.*`. Subscriptions
/// follow the same rule.
fn is_channel(text: &str) -> bool {
    let name = text.strip_suffix(".*").unwrap_or(text);
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_-:/".contains(&byte);
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(is_letter);
    text == "*" || (name.len() <= super::limits::MAX_ID_BYTES && name.split('.').all(is_word))
}
