//! `[kernel.references]`: the settings for data that moves from server to server by reference.

use std::net::SocketAddr;
use std::time::Duration;

use super::addresses::base_url;
use super::table_reader::Reader;

/// The table `[kernel.references]`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReferencesConfig {
    /// The address from which servers fetch the data; `None` disables references.
    pub listen: Option<SocketAddr>,
    /// The base of the URLs at which servers fetch the data; `None` for the address in `listen`.
    pub url: Option<String>,
    /// The time after which a reference expires.
    pub keep: Duration,
    /// The maximum size of the data that can replace a reference in an argument, in bytes.
    pub max_inline: u64,
}

impl Default for ReferencesConfig {
    fn default() -> Self {
        Self { listen: None, url: None, keep: Duration::from_hours(1), max_inline: 4 << 20 }
    }
}

const ANY_PORT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// Reads `[kernel.references]`.
pub(super) fn references(reader: &mut Reader<'_, '_, '_>) -> ReferencesConfig {
    let default = ReferencesConfig::default();
    let listen = reader.text("listen").map(|text| text.parse());
    if let Some(Err(_)) = &listen {
        let remedy = Some("write HOST:PORT, e.g. 127.0.0.1:0".to_owned());
        reader.error("listen", "is not an address", remedy);
    }
    let listen = listen.and_then(Result::ok).unwrap_or(ANY_PORT);
    // An empty text is treated as absent.
    let is_empty = reader.item("url").is_some_and(|url| url.as_str() == Some(""));
    let url = if is_empty { None } else { base_url(reader, "url") };
    let is_enabled = reader.switch("enabled").unwrap_or_default();
    ReferencesConfig {
        listen: is_enabled.then_some(listen),
        url,
        keep: reader.duration("keep").unwrap_or(default.keep),
        max_inline: reader.number("max_inline").unwrap_or(default.max_inline),
    }
}
