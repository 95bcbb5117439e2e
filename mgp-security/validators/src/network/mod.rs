//! The validator `network_restricted`: checks URLs and hosts in arguments (MGP §4.5).

mod address;
mod bare;
mod embedded;
mod file_url;
mod filter;
mod offline;
mod place;
mod rules;
mod store;
mod target;

use crate::argument_values::{Leaf, key_words, leaves};
use crate::declared::is_choice;
use crate::{shell, words::Words};

pub(crate) use rules::port_of;
pub use rules::{NetworkRules, Resolver};
use serde_json::Value;
pub(crate) use target::{check_range, is_ambiguous};

/// Words in keys of arguments that contain a URL.
static URLS: Words = Words::new(
    "\
    url urls uri uris link links href webhook webhooks callback callbacks endpoint endpoints feed \
    proxy proxies origin origins location locations website websites site redirect remote upstream \
    upstreams api rss sitemap",
);
/// Words in keys of arguments that contain a host.
static HOSTS: Words = Words::new(
    "\
    host hosts hostname hostnames server servers address addresses addr ip ips domain domains node \
    peer broker brokers target targets destination destinations gateway gateways nameserver nameservers \
    bind",
);
/// Words of [`URLS`] and [`HOSTS`] that also have other meanings, e.g. places on a map, git remotes and paths of files.
/// Under a key with such a word, a text passes if it does not look like a URL or host.
static AMBIGUOUS: Words = Words::new(
    "\
    location locations origin origins destination destinations target targets redirect remote callback \
    callbacks feed feeds api site website websites address addresses endpoint endpoints node peer gateway \
    gateways domain domains broker brokers proxy",
);
/// Words of [`AMBIGUOUS`] that admit a single name, e.g. of a town or a git remote. Words in neither this list nor
/// [`LABELS`], e.g. `endpoint`, do not: a client would connect to the host with this name in the local network.
static NAMES: Words =
    Words::new("location locations origin origins destination destinations redirect remote api");
/// Further words of [`AMBIGUOUS`] that admit a single name. In contrast to the words in [`NAMES`], they admit no lists
/// of names or numbers.
static LABELS: Words = Words::new(
    "\
    node peer gateway gateways target targets domain domains site broker brokers callback callbacks feed \
    feeds",
);
/// Keys of arguments whose value is the name of an MCP server if it is a single name and does not look like a host.
static MCP_SERVERS: Words = Words::new("server servername mcpserver mcpservername");
/// Values that are often names of machines of a local network if the argument is `target`. In other arguments, such a
/// value is an ordinary word.
static SERVERS: Words =
    Words::new("web www app api server host node client frontend worker internal");
/// Values of an argument `proxy` that name a setting or a kind of proxy, not a host. Codes of countries pass too.
static PROXIES: Words = Words::new(
    "\
    none no auto automatic direct system default off true false residential datacenter mobile isp \
    basic stealth enhanced rotating",
);
/// Schemes of addresses that name no host, but something within an application or in the storage of a public cloud.
static APPLICATIONS: Words = Words::new(
    "\
    s3 gs gcs spotify notion obsidian figma slack at urn ipfs ui resource memo memory note mcp vscode docs \
    config github gitlab jira linear todo test demo greeting",
);
/// Last words of keys whose value is a property of a URL or host, e.g. `server_id`.
static PROPERTIES: Words = Words::new(
    "\
    id ids type types kind count limit size version index mode format status order depth timeout lang \
    language languages locale currency unit column field table branch env environment platform role \
    audience category score date",
);
/// Last words of keys whose value is an object with the URL and other members, e.g. a `webhook` with `events`.
static OBJECTS: Words =
    Words::new("webhook webhooks callback callbacks link links feed feeds url urls");
/// Keys of the members that contain the URL itself, or a part of it, in the objects of [`OBJECTS`].
static PARTS: Words = Words::new("value values raw src to full base absolute original");
/// Kinds of documents that, unlike pages and vector images, have no references that a browser would load.
static DOCUMENTS: Words = Words::new(
    "text/plain text/csv text/markdown application/json application/pdf audio/mpeg audio/wav video/mp4",
);
/// Kinds of images that, unlike vector images, have no references that a browser would load.
static IMAGES: Words = Words::new("image/png image/jpeg image/jpg image/gif image/webp");
/// Values of an argument `redirect` that mean a way to handle redirections.
static REDIRECTS: Words = Words::new(
    "follow manual error none no never auto automatic always yes true false on off allow deny ignore",
);
/// Values of an argument `api` that mean a kind or version of an interface. `v1` and the like are also allowed.
static APIS: Words = Words::new(
    "\
    rest graphql grpc soap json jsonrpc odata openapi websocket stable alpha beta latest preview \
    default public legacy",
);
/// Names that machines and services of a local network often have, possibly followed by a number (`nas2`).
static LOCAL: Words = Words::new(
    "\
    router gateway gw switch modem firewall printer nas fritzbox intranet wpad isatap loopback localnet \
    localdomain broadcasthost unifi pihole homeassistant octoprint hypervisor esxi vcenter \
    vsphere proxmox idrac ilo ipmi bmc redis memcached postgres postgresql pg mysql mariadb mongo \
    mongodb db database dbserver cassandra clickhouse elastic elasticsearch opensearch kibana grafana \
    prometheus alertmanager influxdb rabbitmq kafka nats mosquitto zookeeper minio jenkins sonarqube artifactory \
    registry vault consul etcd nomad kubernetes k8s kube kubelet docker dockerhost smtp imap ldap dns \
    squid proxy backend webserver fileserver appserver confluence jira",
);
/// Names without a dot that lead to this machine or to a metadata service.
const OWN: [&str; 6] =
    ["localhost", "ip6-localhost", "ip6-loopback", "metadata", "instance-data", "rancher-metadata"];
/// Words in keys of arguments that contain a command. URLs in a command count as targets.
static COMMANDS: Words =
    Words::new("command commands cmd cmds curl wget args argv request fetch shell script");
/// Words in keys of arguments that contain a text. A text can mention URLs that are not targets.
static TEXTS: Words = Words::new(
    "\
    code text title markdown content message description query q prompt body html path file name \
    comment note summary pattern regex data payload source template subject email",
);
/// Keys of arguments with the texts that an editor replaces, and their replacements.
static EDITS: Words = Words::new("find replace replacement oldstr newstr oldstring newstring");
/// Words in keys of arguments that list what a rule admits or refuses. Their values are not targets.
static RULES: Words = Words::new("allowed allowlist whitelist blocked blocklist denylist");

/// Checks every network target in the arguments of a call.
///
/// `urls` and `hosts` are the names of arguments that the tool's definition declares as URLs and as hosts; these are
/// checked as such, whatever their names suggest.
pub(crate) fn check(
    (tool, definition): (&str, &Value),
    arguments: &Value,
    (urls, hosts): (&[String], &[String]),
    rules: NetworkRules<'_>,
) -> Result<(), String> {
    let leaves = leaves(arguments)?;
    let offline = offline::key(tool, arguments);
    let selects = filter::is_in_use(tool);
    for leaf in leaves {
        let named = |why: String| format!("`{}`: {why}", leaf.path);
        let is_one = |names: &[String]| names.iter().any(|name| leaf.is_under(name));
        let declared = match () {
            () if is_one(urls) => Some(Kind::Url),
            () if is_one(hosts) => Some(Kind::Host),
            () => None,
        };
        match leaf.value {
            Value::String(_)
                if declared.is_none() && offline.is_some_and(|key| leaf.keys == [key]) => {}
            Value::String(text)
                if declared.is_none() && selects && filter::is_selected(&leaf, text) => {}
            Value::String(text) if !is_own(text) && is_choice(definition, &leaf, text) => {}
            Value::String(text) => check_text(&leaf, text, declared, rules).map_err(named)?,
            // Under a key for a host, a number can be an IPv4 address, so check it as a host.
            Value::Number(number)
                if declared == Some(Kind::Host)
                    || kind(leaf.key()) == Kind::Host
                        && !is_port(leaf.key())
                        && !is_count(leaf.key(), number) =>
            {
                rules.check_host(&number.to_string()).map_err(named)?;
            }
            _ => {}
        }
    }
    shell::check_connections(tool, arguments, offline, |key| kind(key) == Kind::Command, rules)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Url,
    Host,
    Command,
    Text,
    Other,
}

/// Returns the kind of content that a key indicates. If a key has several known words, as `callback_url` and `url_path`
/// do, the last one decides.
fn kind(key: &str) -> Kind {
    let words = key_words(key);
    let is_property = words.len() > 1 && words.last().is_some_and(|last| PROPERTIES.has(last));
    let joined = words.concat();
    if is_property
        || joined.ends_with("noproxy")
        || words.iter().any(|word| RULES.has(word))
        || is_network(&words)
    {
        return Kind::Other;
    }
    let joined = known(&joined);
    let last = words.iter().rev().find_map(|word| known(word));
    match (joined.or(last), words.iter().any(|word| HOSTS.has(word.as_str()))) {
        // `host_name` and `server_name` mean a host, although `name` alone means a text.
        (Some(Kind::Text), true) if words.last().is_some_and(|word| word == "name") => Kind::Host,
        (kind, _) => kind.unwrap_or(Kind::Other),
    }
}

/// Returns whether the words of a key mean the network of a rule, e.g. `cidr_ip`. In contrast, `target_cidr` can be a
/// network to scan.
fn is_network(words: &[String]) -> bool {
    let is_place = |word: &String| HOSTS.has(word) && !matches!(word.as_str(), "ip" | "ips");
    words.iter().any(|word| matches!(word.as_str(), "cidr" | "cidrs"))
        && !words.iter().any(is_place)
}

fn known(word: &str) -> Option<Kind> {
    match () {
        () if URLS.has(word) => Some(Kind::Url),
        () if HOSTS.has(word) => Some(Kind::Host),
        () if COMMANDS.has(word) => Some(Kind::Command),
        () if TEXTS.has(word) => Some(Kind::Text),
        () => None,
    }
}

/// Returns whether a text is not a URL or host, although its key suggests one: the key or its last known word has other
/// meanings too, and the text has the form of one of these, e.g. is a path, a mail address, or several words without
/// URLs and addresses. Under words in [`NAMES`], the text can also be a single name or a list of coordinates.
fn means_something_else(key: &str, text: &str, rules: NetworkRules<'_>) -> bool {
    let words = key_words(key);
    if MCP_SERVERS.has(&words.concat()) {
        return is_label(text);
    }
    let last = words.iter().rev().find(|word| known(word).is_some());
    let Some(last) = last.filter(|word| AMBIGUOUS.has(word)) else { return false };
    if last == "proxy" {
        let lower = text.to_ascii_lowercase();
        let is_country = lower.len() == 2 && lower.bytes().all(|b| b.is_ascii_alphabetic());
        return PROXIES.has(&lower) || is_country && !LOCAL.has(&lower);
    }
    // Such a text may be a URL: browsers ignore tabs and line breaks in a URL, and read two slashes as the beginning of
    // a host.
    if text.contains(['\t', '\n', '\r'])
        || text.contains("://")
        || text.chars().take_while(|c| is_slash(*c)).count() > 1
    {
        return false;
    }
    let is_coordinates =
        text.contains(',') && text.split(',').all(|part| part.trim().parse::<f64>().is_ok());
    // In a list of allowed origins, an asterisk means all origins, so it is not a host.
    if text == "*" || is_path(text) || is_coordinates && NAMES.has(last) {
        return true;
    }
    if text.contains(char::is_whitespace) {
        return are_words(text, NAMES.has(last)) && embedded::check(text, rules).is_ok();
    }
    if let Some((user, host)) = text.split_once('@') {
        // No other characters may precede the `@`. If e.g. a slash did, a client would take the text before the slash
        // for the host.
        let is_user = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+');
        return user.chars().all(is_user) && rules.check_host(host).is_ok();
    }
    let is_own_form = match last.as_str() {
        "address" | "addresses" => is_account(text) || is_cell(text),
        "target" | "targets" => {
            text.starts_with(['#', '.']) && !text.contains(['/', '\\', '@', ':'])
        }
        _ => false,
    };
    if is_own_form {
        return true;
    }
    let name = text.split(is_slash).next().unwrap_or(text);
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    // A version begins the path of a request, e.g. `v1/users`.
    let is_number = || name[1..].bytes().all(|b| b.is_ascii_digit());
    if last == "endpoint" && name.len() < text.len() && is_version(name) && is_number() {
        return true;
    }
    let has_names = NAMES.has(last) || LABELS.has(last);
    let begins = |c: char| c == '_' || c.is_ascii_alphabetic() && has_names;
    is_plain && name.starts_with(begins) && is_ordinary(last, name)
}

/// Returns whether a single name under a word of [`AMBIGUOUS`] is not the name of a host.
fn is_ordinary(word: &str, name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let without_number =
        lower.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-' || c == '_');
    match word {
        _ if lower.starts_with('_') => true,
        "redirect" => REDIRECTS.has(&lower),
        "api" => is_version(&lower) || APIS.has(&lower),
        "target" | "targets" if SERVERS.has(&lower) || SERVERS.has(without_number) => false,
        _ => !is_own(name) && !LOCAL.has(&lower) && !LOCAL.has(without_number),
    }
}

/// Returns whether a name is a version such as `v2`.
fn is_version(name: &str) -> bool {
    name.strip_prefix('v')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()) && rest.len() < 16)
}

/// Returns whether a text is a single name that is not the name of a host.
fn is_label(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        && is_ordinary("target", text)
}

/// Returns whether a text is the address of an account of a blockchain, and not a number that means an IPv4 address.
fn is_account(text: &str) -> bool {
    (26..=128).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric())
        && !matches!(url::Host::parse(text), Ok(url::Host::Ipv4(_)))
}

/// Returns whether a text is a range of cells, or a cell of a named sheet, e.g. `A1:B2` or `Sheet1!A1`.
fn is_cell(text: &str) -> bool {
    let (sheet, cells) = text.rsplit_once('!').unwrap_or(("", text));
    let is_one = |cell: &str| {
        let cell = cell.trim_start_matches('$');
        let letters = cell.bytes().take_while(u8::is_ascii_uppercase).count();
        let row = cell[letters..].trim_start_matches('$');
        (1..=3).contains(&letters) && !row.is_empty() && row.bytes().all(|b| b.is_ascii_digit())
    };
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | ' ' | '\'');
    let is_range = cells.split_once(':').is_some_and(|(from, to)| is_one(from) && is_one(to));
    sheet.chars().all(is_name) && (is_range || !sheet.is_empty() && is_one(cells))
}

fn is_slash(c: char) -> bool {
    matches!(c, '/' | '\\')
}

fn is_own(name: &str) -> bool {
    OWN.iter().any(|own| name.eq_ignore_ascii_case(own))
}

/// Returns whether a text is the path of a file. Browsers skip a slash in front of a host, so the first part of a path
/// must not look like a host.
fn is_path(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('/') else {
        return ["~/", "./", "../"].iter().any(|start| text.starts_with(start));
    };
    let first = rest.split(is_slash).next().unwrap_or(rest);
    !first.starts_with(|c: char| c.is_ascii_digit() || c == '[')
        && !first.contains('@')
        && !is_own(first)
}

/// Returns whether a text with spaces consists of words, i.e. is neither a URL that has a space in its path nor a list
/// of hosts.
fn are_words(text: &str, names: bool) -> bool {
    let first = text.split_whitespace().next().unwrap_or_default();
    let is_list = text.split(',').all(|part| !part.trim().contains(char::is_whitespace));
    let is_plain = |c: char| c.is_alphabetic() || c.is_whitespace() || matches!(c, ',' | '-');
    !first.contains(['/', '\\', '?', '#', '@', ':'])
        && (!is_list || names && text.chars().all(is_plain))
}

/// Returns whether a number under a word of [`AMBIGUOUS`] is too small for an IPv4 address. It is then e.g. the number
/// of a node in a graph.
fn is_count(key: &str, number: &serde_json::Number) -> bool {
    let words = key_words(key);
    let last = words.iter().rev().find(|word| known(word).is_some());
    last.is_some_and(|word| AMBIGUOUS.has(word))
        && number.as_u64().is_some_and(|number| 0 < number && number < 1 << 24)
}

fn is_port(key: &str) -> bool {
    key_words(key).last().is_some_and(|last| last == "port" || last == "ports")
}

/// Returns whether an address names something within an application, or in the storage of a public cloud.
fn is_of_application(url: &str) -> bool {
    let lower = url.get(..32).unwrap_or(url).to_ascii_lowercase();
    let Some((scheme, rest)) = lower.split_once(':') else { return false };
    APPLICATIONS.has(scheme)
        && (rest.starts_with("//") || matches!(scheme, "urn" | "spotify"))
        && !rest.contains(|c: char| c.is_ascii_control())
}

/// Returns whether a URL needs no connection to a host. Such URLs are an empty page, a `data:` URL with an image, text
/// or document without references, a mail address or phone number, and an address within an application.
fn is_local(url: &str) -> bool {
    if is_of_application(url) {
        return true;
    }
    let lower = url.get(..32).unwrap_or(url).to_ascii_lowercase();
    let has_data = |data: &str| {
        let media = data.split([';', ',']).next().filter(|media| media.len() < data.len());
        let is_encoded = data.contains(";base64,");
        media.is_some_and(|media| DOCUMENTS.has(media) || is_encoded && IMAGES.has(media))
    };
    lower == "about:blank"
        || lower.starts_with("mailto:")
        || lower.starts_with("tel:")
        || lower.strip_prefix("data:").is_some_and(has_data)
}

/// Returns the host of an address of `git` or `scp` such as `git@host:path`.
fn remote_host(text: &str) -> Option<&str> {
    let (place, path) = text.split_once(':')?;
    let (user, host) = place.split_once('@')?;
    let is_plain = |text: &str, marks: &[char]| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || marks.contains(&c))
    };
    let is_remote = is_plain(user, &['-', '_', '.'])
        && is_plain(host, &['-', '.'])
        && is_plain(path, &['-', '_', '.', '/', '~', '+']);
    is_remote.then_some(host)
}

fn check_text(
    leaf: &Leaf<'_>,
    text: &str,
    declared: Option<Kind>,
    rules: NetworkRules<'_>,
) -> Result<(), String> {
    // Check the text before it is trimmed: the check of paths does not recognise a path after a leading control
    // character, so such a URL must not be accepted here.
    if rules.allows_files && file_url::is_plain(text) {
        return Ok(());
    }
    let trimmed = text.trim_matches(|c: char| c <= ' ');
    // The innermost key with a known word decides how the text is checked.
    let named = leaf.keys.iter().rev().find(|key| kind(key) != Kind::Other);
    let kind = declared.or_else(|| named.map(|key| kind(key))).unwrap_or(Kind::Other);
    let is_ambiguous = declared.is_none() && matches!(kind, Kind::Url | Kind::Host);
    if is_ambiguous && named.is_some_and(|key| means_something_else(key, trimmed, rules)) {
        return Ok(());
    }
    let is_object = |key: &str| key_words(key).last().is_some_and(|word| OBJECTS.has(word));
    let is_part = || PARTS.has(&key_words(leaf.key()).concat());
    let is_beside = named.is_some_and(|key| *key != leaf.key() && is_object(key) && !is_part());
    if is_ambiguous && is_beside && is_label(trimmed) {
        return Ok(());
    }
    if !matches!(kind, Kind::Text | Kind::Command)
        && let Some(judged) = store::check(leaf.key(), trimmed, rules)
    {
        return judged;
    }
    match kind {
        Kind::Command => embedded::check(trimmed, rules),
        Kind::Url => each(trimmed, |url| check_reference(&without_breaks(url), rules)),
        Kind::Host if has_scheme(trimmed) && trimmed.contains("//") => {
            each(trimmed, |url| rules.check_url(url))
        }
        Kind::Host if trimmed.contains(char::is_whitespace) && !trimmed.contains(',') => {
            let joined = without_breaks(trimmed);
            if !joined.contains(char::is_whitespace) {
                let host = joined.split('/').next().unwrap_or(&joined);
                rules.for_place(&joined).check_host(host)?;
            }
            embedded::check(trimmed, rules)
        }
        Kind::Host => trimmed.split(',').try_for_each(|one| match one.split_once('/') {
            // Check only the part before the slash: the part after it is the length of a CIDR network, or a path.
            Some((host, _)) => rules.for_place(one).check_host(host),
            None => rules.check_host(one),
        }),
        Kind::Other if EDITS.has(&key_words(leaf.key()).concat()) => Ok(()),
        // Under an unknown key, a text is a target only if the whole text is a URL.
        Kind::Other if is_url(&without_breaks(trimmed)) => {
            each(trimmed, |url| if is_of_application(url) { Ok(()) } else { rules.check_url(url) })
        }
        Kind::Text => place::check(leaf.key(), trimmed, rules),
        Kind::Other => place::check(leaf.key(), trimmed, rules)
            .and_then(|()| bare::check(leaf.key(), trimmed, rules)),
    }
}

/// Checks a text as a single URL. If the text may be a list of several URLs, also checks each of them.
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
    if is_local(text) {
        // A client that puts `http://` in front of a mail address reads it as a user and a host. So check that host.
        let place = text.split(['/', '\\', '?', '#']).next().unwrap_or(text);
        return place.rsplit_once('@').map_or(Ok(()), |(_, host)| rules.check_host(host));
    }
    if let Some(host) = remote_host(text) {
        return rules.check_host(host);
    }
    match () {
        () if text.is_empty() => Ok(()),
        () if has_scheme(text) => rules.check_url(text),
        // Two slashes of either kind begin a host, so check the text as a URL.
        () if text.chars().take_while(|c| is_slash(*c)).count() > 1 => {
            rules.check_url(&format!("http:{text}"))
        }
        // A relative path is not a target by itself, so it passes.
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

/// Returns a text without the characters that are ignored everywhere in a URL.
fn without_breaks(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '\t' | '\n' | '\r')).collect()
}

/// Returns whether a text begins with a URL scheme. `name:80` is a host with a port and not a URL, except after `http`,
/// `https`, `ws`, `wss` and `ftp`: clients take `http:80` for the host `80`.
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
