//! Checks URLs of databases and message brokers in arguments that are named after them, e.g. `database_url`.

use super::NetworkRules;
use crate::{argument_values::key_words, words::Words};

/// Words in keys of arguments that mean a database or a broker.
static KEYS: Words = Words::new(
    "\
    db dsn database databases postgres postgresql pg mysql mariadb redis valkey mongo mongodb clickhouse \
    mssql cockroach neo4j amqp rabbitmq broker nats mqtt",
);
/// Schemes of databases and brokers; `+` and the name of a driver can follow them.
static SCHEMES: Words = Words::new(
    "\
    postgres postgresql cockroachdb mysql mariadb redis rediss valkey mongodb clickhouse mssql sqlserver \
    neo4j bolt amqp amqps nats mqtt mqtts",
);
/// Parts of the names of parameters that make a client connect to another host, send files or load code.
const MOVING: [&str; 10] =
    ["host", "addr", "service", "sock", "proxy", "infile", "plugin", "dsn", "odbc", "failover"];

/// Checks the URL of a database or a broker, if the key means such a URL. Returns `None` for another text or another
/// key.
pub(super) fn check(key: &str, text: &str, rules: NetworkRules<'_>) -> Option<Result<(), String>> {
    let is_named = |word: &String| KEYS.has(word) || word.starts_with("conn");
    let (scheme, rest) = text.split_once("://")?;
    let kind = scheme.split('+').next().unwrap_or(scheme).to_ascii_lowercase();
    (SCHEMES.has(&kind) && key_words(key).iter().any(is_named)).then(|| hosts(rest, rules))
}

/// Checks the hosts in a URL, given without its scheme. Refuses a text in which clients might find other hosts.
fn hosts(rest: &str, rules: NetworkRules<'_>) -> Result<(), String> {
    let unclear = || Err("clients can read the hosts of this URL in different ways".to_owned());
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, after) = rest.split_at(end);
    let places = authority.rsplit_once('@').map_or(authority, |(_, places)| places);
    let users = authority.len() - places.len();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_:[],".contains(c);
    if authority[..users.saturating_sub(1)].contains('@')
        || after.contains('@')
        || after.contains("://")
        || rest.contains(|c: char| matches!(c, '#' | '\\') || c.is_whitespace() || c.is_control())
        || !places.chars().all(is_plain)
    {
        return unclear();
    }
    let mut has_port = false;
    for parameter in after.split(['&', ';', '?']).skip(1) {
        let name = parameter.split('=').next().unwrap_or(parameter).to_ascii_lowercase();
        let is_server = matches!(name.as_str(), "server" | "servers" | "servername");
        if is_server || name.contains('%') || MOVING.iter().any(|part| name.contains(part)) {
            return unclear();
        }
        has_port |= name.contains("port");
    }
    places.split(',').try_for_each(|place| {
        let rules = if has_port { rules.beside_port(place) } else { rules };
        rules.check_host(place)
    })
}
