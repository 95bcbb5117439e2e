//! Hosts in filters, which only select records.

use super::{Kind, has_scheme, kind};
use crate::{
    argument_values::{Leaf, key_words},
    words::Words,
};

/// Keys of objects whose members select records by their values.
static FILTERS: Words = Words::new("filter filters where match criteria");
/// Words in the names of tools that connect to what their arguments select.
static CONNECTING: Words = Words::new(
    "\
    fetch http https request requests url web ping scan connect crawl scrape browse browser navigate \
    open download upload probe curl wget ssh telnet ftp sftp nmap port ports traceroute whois dns \
    resolve proxy tunnel webhook socket smtp snmp monitor health check test wait watch",
);

/// Returns whether the filters of a tool can select records. In the filters of other tools, hosts are targets.
pub(super) fn is_in_use(tool: &str) -> bool {
    !key_words(tool).iter().any(|word| CONNECTING.has(word))
}

/// Returns whether a value in a filter is a host, e.g. that of the records whose member `host` has this value. A URL
/// is a target even in a filter.
pub(super) fn is_selected(leaf: &Leaf<'_>, text: &str) -> bool {
    kind(leaf.key()) == Kind::Host
        && !text.contains("//")
        && !has_scheme(text.trim())
        && leaf.keys.iter().rev().skip(1).any(|key| FILTERS.has(&key_words(key).concat()))
}
