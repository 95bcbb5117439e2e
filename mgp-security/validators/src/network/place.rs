//! Paths in arguments, which can lead to another machine.

use super::{NetworkRules, is_slash, without_breaks};
use crate::{argument_values::key_words, words::Words};

/// Last words of keys whose value is a path, or the URL of what a tool reads.
static PLACES: Words =
    Words::new("path paths file files filename filepath source sources unc share");

/// Checks a path, which may be the URL of a server, or the path of a share of another machine on Windows. Texts under
/// keys that mean something else pass.
pub(super) fn check(key: &str, text: &str, rules: NetworkRules<'_>) -> Result<(), String> {
    let words = key_words(key);
    let Some(last) = words.last().filter(|last| PLACES.has(last)) else { return Ok(()) };
    let url = without_breaks(text);
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    if ["http", "https", "ws", "wss", "ftp"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
    {
        // A source can also be a text that begins with a URL.
        let is_text =
            matches!(last.as_str(), "source" | "sources") && url.contains(char::is_whitespace);
        return if is_text { Ok(()) } else { rules.check_url(&url) };
    }
    let Some(share) = text.strip_prefix("\\\\") else { return Ok(()) };
    let mut parts = share.split(is_slash);
    // `\\?\` and `\\.\` begin paths of this machine, except before `UNC`, after which a share follows.
    let host = match parts.next() {
        Some("?" | ".") => {
            parts.next().filter(|part| part.eq_ignore_ascii_case("UNC")).and_then(|_| parts.next())
        }
        host => host,
    };
    match host.filter(|host| !host.is_empty()) {
        Some(host) => rules.for_place(text).check_host(host.split('@').next().unwrap_or(host)),
        None => Ok(()),
    }
}
