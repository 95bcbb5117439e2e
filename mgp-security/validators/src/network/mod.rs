//! `network_restricted`: URLs and hosts in arguments (MGP §4.5).

#![expect(clippy::match_same_arms, reason = "a row for each kind of host")]

mod address;
mod target;

use crate::argument_values::{Leaf, key_words, leaves};
use crate::words::Words;

use serde_json::Value;
use std::{fmt::Debug, net::IpAddr};

/// A resolver of host names.
pub trait Resolver: Debug + Send + Sync {
    /// Returns the addresses of a name. If there are none, the name is refused.
    fn resolve(&self, name: &str) -> Vec<IpAddr>;
}

/// The rules for URLs and hosts, for programs that open connections themselves.
#[derive(Debug, Clone, Copy, Default)]
pub struct NetworkRules<'a> {
    resolver: Option<&'a dyn Resolver>,
}

impl<'a> NetworkRules<'a> {
    /// Creates rules that judge names only by their text; before connecting, call
    /// [`check_connect`](Self::check_connect), too.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the resolver. With it, a name is refused unless all its addresses are public.
    #[must_use]
    pub fn resolver(mut self, resolver: &'a dyn Resolver) -> Self {
        self.resolver = Some(resolver);
        self
    }

    /// Checks a URL.
    ///
    /// # Errors
    /// The reason why it is refused.
    pub fn check_url(&self, url: &str) -> Result<(), String> {
        target::url(url, self.resolver).map(drop)
    }

    /// Checks a URL and the `Location` of each redirection that followed.
    ///
    /// # Errors
    /// The reason why one of them is refused.
    pub fn check_redirects(&self, url: &str, locations: &[&str]) -> Result<(), String> {
        target::chain(url, locations, self.resolver)
    }

    /// Checks a host with or without a port.
    ///
    /// # Errors
    /// The reason why it is refused.
    pub fn check_host(&self, host: &str) -> Result<(), String> {
        target::host(host, self.resolver)
    }

    /// Checks an address right before a connection, because the address might differ from the one that was resolved
    /// earlier.
    ///
    /// # Errors
    /// The reason why it is refused.
    pub fn check_connect(&self, address: IpAddr) -> Result<(), String> {
        target::public(address)
    }
}

/// Words in keys of arguments that contain a URL.
static URLS: Words = Words::new(
    "\
    url urls uri uris link links href webhook webhooks callback callbacks endpoint endpoints feed \
    proxy proxies origin location website site redirect remote upstream api rss sitemap",
);
/// Words in keys of arguments that contain a host.
static HOSTS: Words = Words::new(
    "\
    host hosts hostname hostnames server servers address addresses addr ip ips domain domains node \
    peer broker brokers target targets destination gateway nameserver bind",
);
/// Words in keys of arguments that contain a command, in which URLs are targets.
static COMMANDS: Words = Words::new("command cmd curl wget args argv request fetch shell script");
/// Words in keys of arguments whose text can mention URLs that are not targets.
static TEXTS: Words = Words::new(
    "\
    code text title markdown content message description query q prompt body html path file name \
    comment note summary pattern regex data payload source template subject email",
);

/// Checks every network target in the arguments of a call.
///
/// `urls` and `hosts` are the names of arguments that the tool's definition declares as URLs and as hosts; these are
/// checked as such, whatever their names suggest.
pub(crate) fn check(
    arguments: &Value,
    (urls, hosts): (&[String], &[String]),
    rules: NetworkRules<'_>,
) -> Result<(), String> {
    for leaf in leaves(arguments)? {
        let named = |why: String| format!("`{}`: {why}", leaf.path);
        let is_one = |names: &[String]| names.iter().any(|name| leaf.keys.contains(&name.as_str()));
        let declared = match () {
            () if is_one(urls) => Some(Kind::Url),
            () if is_one(hosts) => Some(Kind::Host),
            () => None,
        };
        match leaf.value {
            Value::String(text) => check_text(&leaf, text, declared, rules).map_err(named)?,
            // Where a host is expected, a number can be an IPv4 address.
            Value::Number(number)
                if declared == Some(Kind::Host) || kind(leaf.key()) == Kind::Host =>
            {
                rules.check_host(&number.to_string()).map_err(named)?;
            }
            _ => {}
        }
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Url,
    Host,
    Command,
    Text,
    Other,
}

/// Returns the kind of content that a key indicates. The last known word decides, e.g. in `callback_url` or `url_path`.
fn kind(key: &str) -> Kind {
    let words = key_words(key);
    let known = |word: &str| match () {
        () if URLS.has(word) => Some(Kind::Url),
        () if HOSTS.has(word) => Some(Kind::Host),
        () if COMMANDS.has(word) => Some(Kind::Command),
        () if TEXTS.has(word) => Some(Kind::Text),
        () => None,
    };
    let joined = known(&words.concat());
    let last = words.iter().rev().find_map(|word| known(word));
    match (joined.or(last), words.iter().any(|word| HOSTS.has(word.as_str()))) {
        // `host_name` and `server_name` mean a host, although `name` alone means a text.
        (Some(Kind::Text), true) if words.last().is_some_and(|word| word == "name") => Kind::Host,
        (kind, _) => kind.unwrap_or(Kind::Other),
    }
}

fn check_text(
    leaf: &Leaf<'_>,
    text: &str,
    declared: Option<Kind>,
    rules: NetworkRules<'_>,
) -> Result<(), String> {
    let trimmed = text.trim_matches(|c: char| c <= ' ');
    // The innermost key with a known word decides.
    let named = || leaf.keys.iter().rev().map(|key| kind(key)).find(|kind| *kind != Kind::Other);
    let kind = declared.or_else(named).unwrap_or(Kind::Other);
    match kind {
        Kind::Text => Ok(()),
        Kind::Command => embedded(trimmed, rules),
        Kind::Url => each(trimmed, |url| check_reference(&without_breaks(url), rules)),
        Kind::Host if has_scheme(trimmed) && trimmed.contains("//") => {
            each(trimmed, |url| rules.check_url(url))
        }
        Kind::Host if trimmed.contains(char::is_whitespace) && !trimmed.contains(',') => {
            embedded(trimmed, rules)
        }
        Kind::Host => trimmed.split(',').try_for_each(|one| match one.split_once('/') {
            // The part after the slash is the length of a CIDR network, or a path.
            Some((host, _)) => rules.check_host(host),
            None => rules.check_host(one),
        }),
        // Under an unknown key, a text is a target only if the whole text is a URL.
        Kind::Other if is_url(&without_breaks(trimmed)) => {
            each(trimmed, |url| rules.check_url(url))
        }
        Kind::Other => Ok(()),
    }
}

/// Checks a text as a single URL, and if it is a list of several URLs, also checks each of them.
fn each(text: &str, check: impl Fn(&str) -> Result<(), String>) -> Result<(), String> {
    let is_separator = |c: char| c.is_whitespace() || matches!(c, ',' | ';' | '|');
    check(text)?;
    let mut from = 0;
    for (at, separator) in text.match_indices(is_separator) {
        let next = at + separator.len();
        if begins_url(&text[next..]) {
            check(text[from..at].trim_matches(is_separator))?;
            from = next;
        }
    }
    if from > 0 { check(&text[from..]) } else { Ok(()) }
}

/// Checks a text where a URL is expected; the URL may lack its scheme.
fn check_reference(text: &str, rules: NetworkRules<'_>) -> Result<(), String> {
    let is_slash = |c: char| matches!(c, '/' | '\\');
    match () {
        () if text.is_empty() => Ok(()),
        () if has_scheme(text) => rules.check_url(text),
        // Two slashes of either kind begin a host.
        () if text.chars().take_while(|c| is_slash(*c)).count() > 1 => {
            rules.check_url(&format!("http:{text}"))
        }
        // A relative path is not a target by itself.
        () if text.starts_with(['/', '.', '?', '#']) => Ok(()),
        () => rules.check_url(&format!("http://{text}")),
    }
}

/// Returns whether a whole text is the URL of a server or of a file.
fn is_url(text: &str) -> bool {
    has_scheme(text)
        && !text.contains(char::is_whitespace)
        && (begins_url(text) || text.contains("://"))
}

/// Returns whether a text begins with a scheme and two slashes, or with the scheme of a URL of a server or of a file.
fn begins_url(text: &str) -> bool {
    let network = ["http", "https", "ws", "wss", "ftp", "file", "gopher", "dict"];
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '+' | '-' | '.'));
    let Some((scheme, rest)) = end.map(|at| text.split_at(at)) else { return false };
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && (rest.starts_with("://")
            || rest.starts_with(':')
                && network.iter().any(|known| scheme.eq_ignore_ascii_case(known)))
}

/// Checks those words of a command that are URLs, or hosts with a port.
fn embedded(text: &str, rules: NetworkRules<'_>) -> Result<(), String> {
    for word in text.split(|c: char| {
        c.is_whitespace()
            || matches!(c, '"' | '\'' | '`' | '(' | ')' | '<' | '>' | ';' | '|' | '&' | ',')
    }) {
        // The name of an option or of a value can precede a URL, e.g. `--proxy=http://…`.
        let target = match word.split_once("=http") {
            Some((name, _)) if !begins_url(word) => &word[name.len() + 1..],
            _ => word,
        };
        let lower = target.to_ascii_lowercase();
        let place = word.split(['/', '?', '#']).next().unwrap_or(word);
        let host = place.split(':').next().unwrap_or(place);
        if host == "localhost"
            || host.parse::<IpAddr>().is_ok()
            || word.starts_with('[') && word.contains("::")
        {
            rules.check_host(place)?;
        }
        if lower.contains("://") || lower.starts_with("http:") || lower.starts_with("file:") {
            rules.check_url(target)?;
        }
    }
    Ok(())
}

/// Returns a text without the characters that are ignored everywhere in a URL.
fn without_breaks(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '\t' | '\n' | '\r')).collect()
}

/// Returns whether a text begins with a URL scheme. A name with a port is a host, unless the name is `http`, `https`,
/// `ws`, `wss` or `ftp`: after these schemes, a number is a host even without slashes.
fn has_scheme(text: &str) -> bool {
    let cleaned = without_breaks(text);
    let Some((scheme, rest)) = cleaned.split_once(':') else { return false };
    let of_hosts = ["http", "https", "ws", "wss", "ftp"];
    if of_hosts.iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return true;
    }
    let valid = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    let port = rest
        .split(['/', '?'])
        .next()
        .is_some_and(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
    valid && !port
}
