//! Checks bare addresses in arguments that mostly have other values, e.g. `instance` and `nodes`, and hosts in
//! connection strings.

use super::{NetworkRules, PROPERTIES, port_of};
use crate::{argument_values::key_words, words::Words};
use std::net::Ipv6Addr;
use url::Host;

/// Words in keys of arguments that name a machine or a service, mostly by an id and not by the name of a host; also the
/// plurals of these words.
static MACHINES: Words = Words::new(
    "\
    instance cluster node peer member replica seed contactpoint master slave leader follower primary \
    secondary standby shard worker machine device printer router switch camera bastion jumphost \
    registry image repo repository backend frontend service sentinel coordinator controller agent hub \
    vm container pod appliance nas sink bootstrap connect connection conn socket ssh sftp ftp smtp imap \
    mqtt amqp redis postgres mysql mongo mongodb etcd kafka zookeeper elasticsearch database db via \
    tunnel relay stun turn ntp dns resolver forwarder syslog collector exporter listener vcenter \
    hypervisor loadbalancer",
);
/// Names of the members of a connection string that contain a host.
static HOSTS: Words = Words::new(
    "host hostname hostaddr server source datasource address addr networkaddress node contactpoints",
);

/// Checks a text under a key that is meant neither for a URL nor for a host.
pub(super) fn check(key: &str, text: &str, rules: NetworkRules<'_>) -> Result<(), String> {
    let words = key_words(key);
    if words.len() > 1 && words.last().is_some_and(|last| PROPERTIES.has(last)) {
        return Ok(());
    }
    let joined = words.concat();
    if words.iter().any(|word| word.starts_with("conn") || word == "dsn") {
        connection(text, rules)?;
    }
    let is_machine = |word: &str| {
        MACHINES.has(word) || word.strip_suffix('s').is_some_and(|word| MACHINES.has(word))
    };
    if is_machine(&joined) || words.iter().any(|word| is_machine(word)) {
        let is_list = text.split_whitespace().all(|part| part.contains(['.', ':']));
        let separates = |c: char| matches!(c, ',' | ';') || is_list && c.is_whitespace();
        return text.split(separates).try_for_each(|part| literal(part.trim(), rules));
    }
    Ok(())
}

/// Checks a text that is an address, `localhost`, or the name of a metadata service, possibly with a user, a port and a
/// path. All other texts pass.
pub(super) fn literal(text: &str, rules: NetworkRules<'_>) -> Result<(), String> {
    let place = text.split(['/', '\\', '?']).next().unwrap_or(text);
    let place = place.rsplit_once('@').map_or(place, |(_, host)| host);
    let host = match place.rsplit_once(':') {
        Some((host, _)) if !host.contains(':') || host.ends_with(']') => host,
        _ => place,
    };
    let bare = host.trim_matches(['[', ']']);
    let without_zone = bare.split('%').next().unwrap_or(bare);
    // A text with fewer parts can also be a version or a number, so only a text with four parts counts as an IPv4
    // address.
    let has_parts = bare.trim_end_matches('.').split('.').count() == 4;
    let is_address = without_zone.parse::<Ipv6Addr>().is_ok()
        || has_parts && matches!(Host::parse(bare), Ok(Host::Ipv4(_)));
    let is_own = if bare.is_ascii() {
        is_own(&bare.to_ascii_lowercase())
    } else {
        matches!(Host::parse(bare), Ok(Host::Domain(name)) if is_own(&name))
    };
    if is_address || is_own {
        return rules.for_place(text).check_host_at(bare, port_of(place));
    }
    Ok(())
}

/// Returns whether a name leads to this machine or to a metadata service in every network.
fn is_own(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    matches!(name, "localhost" | "localhost.localdomain" | "metadata.google.internal")
        || name.ends_with(".localhost")
}

/// Checks the hosts in a list of members, e.g. `Server=10.0.0.1;Database=x` or `host=10.0.0.1 port=5432`.
fn connection(text: &str, rules: NetworkRules<'_>) -> Result<(), String> {
    // Clients of MySQL in Go have the host in parentheses, e.g. `user@tcp(10.0.0.1:3306)/x`, so check this host too.
    if let Some((_, after)) = text.split_once("@tcp(") {
        rules.check_host(after.split(')').next().unwrap_or(after))?;
    }
    let text = text.split('=').map(str::trim).collect::<Vec<_>>().join("=");
    let has_port = text.to_ascii_lowercase().contains("port=");
    for member in text.split(|c: char| matches!(c, ';' | '(' | ')') || c.is_whitespace()) {
        let Some((name, value)) = member.split_once('=') else { continue };
        // Remove the kind of the database, which clients in PHP have before the first name, e.g. `mysql:host=10.0.0.1`.
        let name = name.rsplit(':').next().unwrap_or(name);
        if !HOSTS.has(&key_words(name).concat()) {
            continue;
        }
        let value = value.trim_matches(['\'', '"']);
        let value = value
            .get(..4)
            .filter(|start| start.eq_ignore_ascii_case("tcp:"))
            .map_or(value, |_| &value[4..]);
        // A comma separates hosts, or a host from its port (`10.0.0.1,1433`). A slash or backslash ends the host, and
        // the name of an instance follows (`host\SQLEXPRESS`). A value that begins with a slash is a local socket and
        // has no host.
        for (at, one) in value.split(',').enumerate() {
            let host = one.split(['\\', '/']).next().unwrap_or(one).trim();
            let is_port = at > 0 && host.parse::<u16>().is_ok();
            if !host.is_empty() && !is_port {
                let rules = if has_port { rules.beside_port(host) } else { rules };
                rules.check_host(host)?;
            }
        }
    }
    Ok(())
}
