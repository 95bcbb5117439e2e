//! `[kernel.webhooks.NAME]`: URLs to which the kernel sends events (MGP §13).

use std::collections::BTreeMap;

use mgp_types::mgp::Severity;

use super::reader::Reader;

/// The maximum number of webhooks.
const MAX_WEBHOOKS: usize = 16;

/// A URL to which the kernel sends events.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WebhookConfig {
    /// The URL.
    pub url: String,
    /// The channels, or patterns such as `tool.*`.
    pub channels: Vec<String>,
    /// The lowest severity.
    pub min_severity: Option<Severity>,
    /// The key of the signature, with `${…}` not expanded yet.
    pub secret: Option<String>,
    /// If set, the URL may be on this machine.
    pub allow_loopback: bool,
}

/// Reads the table of webhooks.
pub(super) fn webhooks(kernel: &mut Reader<'_, '_, '_>) -> BTreeMap<String, WebhookConfig> {
    const REMEDY: &str = "write `[kernel.webhooks.NAME]` above each of them";
    let Some(item) = kernel.item("webhooks") else { return BTreeMap::new() };
    let table = item.as_table_like().filter(|table| table.len() <= MAX_WEBHOOKS);
    let Some(table) = table else {
        let what = format!("is not a table of up to {MAX_WEBHOOKS} tables");
        kernel.error("webhooks", what, Some(REMEDY.to_owned()));
        return BTreeMap::new();
    };
    let mut all = BTreeMap::new();
    for (name, item) in table.iter() {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let is_name = (1..=64).contains(&name.len()) && name.bytes().all(is_word);
        let Some(entry) = item.as_table_like().filter(|_| is_name) else {
            let what = format!("has `{}`, which is not a webhook", super::kind::shown(name));
            let remedy = "write `[kernel.webhooks.NAME]`, with letters, digits, `_` and `-`";
            kernel.error("webhooks", what, Some(remedy.to_owned()));
            continue;
        };
        let mut reader = Reader::new(kernel.report, "kernel.webhooks.*", entry);
        let Some(url) = reader.text("url") else {
            let remedy = "add e.g. `url = \"https://example.com/hook\"`".to_owned();
            reader.error("url", "is missing", Some(remedy));
            continue;
        };
        let mut channels = reader.texts("channels");
        if channels.is_empty() {
            channels.push("*".to_owned());
        }
        let webhook = WebhookConfig {
            url,
            channels,
            min_severity: reader.text("min_severity").map(|word| word.as_str().into()),
            secret: reader.text("secret"),
            allow_loopback: reader.switch("allow_loopback").unwrap_or_default(),
        };
        all.insert(name.to_owned(), webhook);
    }
    all
}
