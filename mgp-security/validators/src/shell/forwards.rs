//! Forwardings of `ssh`, which lead to other hosts than its operand, and local sockets to which programs connect.

use super::{
    argv::{Args, long_name},
    targets::{named, place},
};
use crate::network::NetworkRules;
use crate::words::has;

/// Checks the value of one of the options `-L`, `-R`, `-D` and `-W` of `ssh`.
pub(super) fn check(letter: char, value: &str, rules: NetworkRules<'_>) -> Result<(), String> {
    match letter {
        'D' => dynamic(),
        'W' => place(value, true, rules),
        _ => forward(value, rules),
    }
}

/// Checks the settings in the value of an option `-o`, e.g. `HostName=10.0.0.1`, which can name another host than the
/// operand. `sshfs` reads several settings, separated by commas.
pub(super) fn settings(text: &str, rules: NetworkRules<'_>) -> Result<(), String> {
    setting(text, rules)?;
    text.split(',').skip(1).try_for_each(|one| setting(one, rules))
}

fn setting(text: &str, rules: NetworkRules<'_>) -> Result<(), String> {
    let separates = |c: char| c == '=' || c.is_whitespace();
    let text = text.trim_start();
    let (name, value) = text.split_once(separates).unwrap_or((text, ""));
    let value = value.trim_matches(|c: char| separates(c) || c == '"');
    match name.to_ascii_lowercase().as_str() {
        "hostname" | "proxyjump" => named(value, rules),
        "localforward" | "remoteforward" => forward(value, rules),
        "dynamicforward" => dynamic(),
        _ => Ok(()),
    }
}

/// Checks a forwarding such as `8080:10.0.0.1:80`, `[::1]:8080:a.example:80` or, in a setting, `8080 10.0.0.1:80`.
fn forward(text: &str, rules: NetworkRules<'_>) -> Result<(), String> {
    // `ssh` takes a text with a slash for the path of a socket.
    if text.contains('/') {
        return Err(format!("`{text}` forwards a socket"));
    }
    let mut in_brackets = false;
    let separates = |c: char| {
        match c {
            '[' => in_brackets = true,
            ']' => in_brackets = false,
            _ => {}
        }
        !in_brackets && (c == ':' || c.is_whitespace())
    };
    let parts: Vec<&str> = text.split(separates).filter(|part| !part.is_empty()).collect();
    match parts.as_slice() {
        [_, .., host, port] => place(&format!("{host}:{port}"), true, rules),
        _ => dynamic(),
    }
}

/// Refuses a forwarding that is a proxy: later requests to it name the hosts.
fn dynamic() -> Result<(), String> {
    Err("the forwarding leads to any host".to_owned())
}

/// Refuses options and operands with which a program connects to a socket of this machine instead of a host.
pub(super) fn sockets(name: &str, args: Args<'_>) -> Result<(), String> {
    const OF_CURL: [&str; 2] = ["unix-socket", "abstract-unix-socket"];
    // curl accepts the beginning of an option's name.
    let is_of_curl = |text: &str| {
        long_name(text).is_some_and(|given| {
            given.len() >= 2 && OF_CURL.iter().any(|option| option.starts_with(given))
        })
    };
    let is_of_socat = |text: &str| {
        let kind = text.split(':').next().unwrap_or(text).to_ascii_lowercase();
        // The kind `GOPEN`, which a path alone also means, connects to a socket that has this path.
        let connects = ["unix", "abstract", "gopen"].iter().any(|start| kind.starts_with(start));
        connects && !kind.ends_with("listen") && !kind.ends_with("recv")
            || kind.starts_with('/') && kind.contains("sock")
    };
    let is_socket = match name {
        "curl" => args.texts().any(is_of_curl),
        "socat" => args.texts().any(is_of_socat),
        _ if has("nc ncat netcat", name) => {
            args.long("unixsock", 2) || args.short("U", "pswiIXOTqgGPmMVWox")
        }
        _ => false,
    };
    if is_socket { Err("it connects to a socket of this machine".to_owned()) } else { Ok(()) }
}
