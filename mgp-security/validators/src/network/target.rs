//! The check of one URL or host. It refuses everything that is not on the public internet.

use super::{NetworkRules, address::is_public};
use mgp_types::LocalHost;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use url::{Host, Url};

/// The maximum number of redirections of one request.
const MAX_REDIRECTS: usize = 10;
/// The maximum length of a URL that is checked, in bytes.
const MAX_URL: usize = 16 * 1024;
/// Ports that browsers refuse, because servers of other protocols would interpret HTTP requests as commands (WHATWG
/// Fetch).
const BAD_PORTS: &[u16] = &[
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101,
    102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427,
    465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990,
    993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667,
    6668, 6669, 6679, 6697, 10080,
];
/// Endings of names that a public host never has.
const PRIVATE_NAMES: &[&str] = &[
    "localhost",
    "local",
    "internal",
    "lan",
    "home.arpa",
    "onion",
    "home",
    "corp",
    "intranet",
    "private",
    "localdomain",
    "test",
    "invalid",
    "alt",
    "arpa",
    "svc",
    "consul",
    "i2p",
    "mail",
    "workgroup",
    "kubernetes.default",
    // Metadata services of clouds.
    "metadata.goog",
    "metadata.tencentyun.com",
    // Public domains whose names lead to this machine, or to the address that the name contains.
    "nip.io",
    "sslip.io",
    "xip.io",
    "traefik.me",
    "localtest.me",
    "lvh.me",
    "vcap.me",
    "lacolhost.com",
];

/// Checks a URL.
///
/// # Errors
/// The reason why the URL is refused.
pub(super) fn url(text: &str, rules: NetworkRules<'_>) -> Result<Url, String> {
    if text.len() > MAX_URL {
        return Err(format!("the URL is longer than {MAX_URL} bytes"));
    }
    if is_ambiguous(text) {
        return Err("clients can read the host of the URL in different ways".to_owned());
    }
    let url = Url::parse(text).map_err(|error| format!("the URL cannot be read: {error}"))?;
    if !matches!(url.scheme(), "http" | "https" | "ws" | "wss") {
        return Err(format!(
            "the scheme `{}` is not allowed; allowed: http, https, ws, wss",
            url.scheme()
        ));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the URL has a user name or password".to_owned());
    }
    if url.port().is_some_and(is_bad_port) {
        return Err("the port belongs to another protocol".to_owned());
    }
    let host = url.host().ok_or("the URL has no host")?;
    check_host(&host.to_owned(), url.port_or_known_default(), rules)?;
    Ok(url)
}

/// Returns whether clients read the host of a URL in different ways: in a URL with a backslash before an `@`, some take
/// the text after the `@` for the host, unlike browsers. In a URL such as `ssh://a.example%2F@b.example/`, git decodes
/// `%2F` before it searches for the host.
pub(crate) fn is_ambiguous(url: &str) -> bool {
    let (scheme, rest) = url.split_once(':').unwrap_or(("", url));
    let place = rest.trim_start_matches(['/', '\\']);
    let place = place.split(['/', '?', '#']).next().unwrap_or(place);
    let (user, host) = place.rsplit_once('@').unwrap_or(("", place));
    let is_encoded = host.contains('%') || user.replace("%40", "").contains('%');
    let of_git = ["ssh", "git", "git+ssh", "ssh+git"];
    place.split_once('\\').is_some_and(|(_, after)| after.contains('@'))
        || is_encoded && of_git.iter().any(|known| scheme.eq_ignore_ascii_case(known))
}

/// Returns whether browsers refuse a port, because it belongs to another protocol.
pub(super) fn is_bad_port(port: u16) -> bool {
    BAD_PORTS.contains(&port)
}

/// Checks a URL and the targets of its redirections in their order.
pub(super) fn chain(text: &str, redirects: &[&str], rules: NetworkRules<'_>) -> Result<(), String> {
    if redirects.len() > MAX_REDIRECTS {
        return Err(format!("more than {MAX_REDIRECTS} redirections"));
    }
    let mut now = url(text, rules)?;
    let mut seen = vec![now.clone()];
    for location in redirects {
        let next =
            now.join(location).map_err(|error| format!("a redirection cannot be read: {error}"))?;
        now = url(next.as_str(), rules)?;
        if seen.contains(&now) {
            return Err("the redirections are a loop".to_owned());
        }
        seen.push(now.clone());
    }
    Ok(())
}

/// Checks a host with or without a port; `port` is the port of a host without one.
pub(super) fn host(text: &str, port: Option<u16>, rules: NetworkRules<'_>) -> Result<(), String> {
    let text = text.trim();
    if text.is_empty() || text.contains(['/', '?', '#', '@', ' ', '\\']) {
        return Err(format!("`{text}` is not a host"));
    }
    // Without brackets, a text with several colons is an IPv6 address, and its last part is not a port.
    let bare = text.split('%').next().unwrap_or(text);
    if let Ok(address) = bare.parse::<Ipv6Addr>() {
        return check_host(&Host::Ipv6(address), port, rules);
    }
    let (name, own) = match text.rsplit_once(':') {
        Some((name, port)) if !name.ends_with(':') => (name, Some(port)),
        _ => (text, None),
    };
    let port = match own {
        Some(own) => Some(own.parse::<u16>().map_err(|_| format!("`{own}` is not a port"))?),
        None => port,
    };
    let host = Host::parse(name).map_err(|error| format!("`{name}` is not a host: {error}"))?;
    check_host(&host, port, rules)
}

/// Checks a parsed host. `port` is `None` if the port is not known.
pub(super) fn check_host(
    host: &Host<String>,
    port: Option<u16>,
    rules: NetworkRules<'_>,
) -> Result<(), String> {
    let name = match host {
        Host::Ipv4(address) => return check_address((*address).into(), port, rules),
        Host::Ipv6(address) => return check_address((*address).into(), port, rules),
        Host::Domain(name) => name.trim_end_matches('.').to_ascii_lowercase(),
    };
    let is_local = rules.permits_name(&name, port);
    if !is_local {
        check_name(&name)?;
    }
    let Some(resolver) = rules.resolver else { return Ok(()) };
    let addresses = resolver.resolve(&name);
    if addresses.is_empty() {
        return Err(format!("`{name}` has no address"));
    }
    if !is_local {
        return addresses.into_iter().try_for_each(public);
    }
    match addresses.into_iter().find(|address| LocalHost::is_metadata(*address)) {
        Some(address) => Err(format!("`{address}` can be the metadata service of a cloud")),
        None => Ok(()),
    }
}

/// Checks that a name can be one of the public internet.
fn check_name(name: &str) -> Result<(), String> {
    if !name.contains('.') {
        return Err(format!("`{name}` is a name of the local network"));
    }
    // Accept `nip.io` and `sslip.io` themselves, because their web pages are public.
    let is_page = |rest: &str| rest.is_empty() && matches!(name, "nip.io" | "sslip.io");
    let is_below = |ending: &&&str| {
        name.strip_suffix(**ending)
            .is_some_and(|rest| (rest.is_empty() || rest.ends_with('.')) && !is_page(rest))
    };
    match PRIVATE_NAMES.iter().find(is_below) {
        Some(ending) => Err(format!("names below `.{ending}` are not public")),
        None => check_range(name),
    }
}

/// Refuses a range of addresses such as `10.0.0.1-255`, `10.0.0.*` and `10.0.0.1,2`, as scanners of networks read them,
/// unless only its last number varies and its addresses are public. Accepts other names.
pub(crate) fn check_range(name: &str) -> Result<(), String> {
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '-' | '*' | ',' | '.');
    if !name.contains(['-', '*', ','])
        || name.matches('.').count() != 3
        || !name.chars().all(is_number)
    {
        return Ok(());
    }
    let network = name.rsplit_once('.').map_or(name, |(network, _)| network);
    match format!("{network}.1").parse::<Ipv4Addr>() {
        Ok(address) => public(address.into()),
        Err(_) => Err(format!("`{name}` is a range of several networks")),
    }
}

fn check_address(
    address: IpAddr,
    port: Option<u16>,
    rules: NetworkRules<'_>,
) -> Result<(), String> {
    if rules.permits_address(address, port) { Ok(()) } else { public(address) }
}

/// Checks that an address belongs to the public internet.
pub(super) fn public(address: IpAddr) -> Result<(), String> {
    if is_public(address) {
        Ok(())
    } else {
        Err(format!("`{address}` is not an address of the public internet"))
    }
}
