//! Variables that a child inherits by default.
//!
//! See MGP §11. The list contains the variables that a program needs to find its files, its user, its language, and the
//! network of this machine: proxies and the certificates of local authorities. It contains no variables that give
//! further access: no tokens, no `SSH_AUTH_SOCK`, no `DBUS_*`, no `XDG_RUNTIME_DIR` (the sockets of the user's
//! session). A caller can pass on such a variable with [`ChildCommand::inherit_env`].
//!
//! [`ChildCommand::inherit_env`]: super::ChildCommand::inherit_env

use std::ffi::{OsStr, OsString};

/// Variables for proxies and certificate authorities. On some machines, programs cannot reach the network without them.
const NETWORK: &[&str] = &[
    "ALL_PROXY",
    "AWS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NODE_EXTRA_CA_CERTS",
    "NO_PROXY",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

#[cfg(not(windows))]
const NAMES: &[&str] =
    &["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

#[cfg(windows)]
const NAMES: &[&str] = &[
    "APPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "NUMBER_OF_PROCESSORS",
    "OS",
    "PATH",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
];

/// Returns the environment variables that a [`ChildCommand`](super::ChildCommand) inherits from this process. `extra`
/// has the names of further variables, as passed to [`inherit_env`](super::ChildCommand::inherit_env).
pub fn inherited_env<N: AsRef<OsStr>>(
    extra: &[N],
) -> impl Iterator<Item = (OsString, OsString)> + use<'_, N> {
    std::env::vars_os().filter(|(name, value)| {
        extra.iter().any(|wanted| matches(wanted.as_ref(), name))
            || (listed(name) && !is_function(value))
    })
}

/// Returns whether `name` equals `wanted`, or begins with it if `wanted` ends with `*`.
fn matches(wanted: &OsStr, name: &OsStr) -> bool {
    match (wanted.to_str().and_then(|wanted| wanted.strip_suffix('*')), name.to_str()) {
        (Some(start), Some(name)) => {
            name.get(..start.len()).is_some_and(|begin| same(OsStr::new(start), OsStr::new(begin)))
        }
        _ => same(wanted, name),
    }
}

fn listed(name: &OsStr) -> bool {
    NAMES.iter().chain(NETWORK).any(|listed| same(OsStr::new(listed), name))
        || name.to_str().is_some_and(|name| name.starts_with("LC_"))
}

/// Returns whether a value is an exported shell function, which a shell in the child could execute.
fn is_function(value: &OsStr) -> bool {
    value.as_encoded_bytes().starts_with(b"()")
}

/// Compares names in the same way as the operating system: ignoring case on Windows.
fn same(a: &OsStr, b: &OsStr) -> bool {
    if cfg!(windows) { a.eq_ignore_ascii_case(b) } else { a == b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[track_caller]
    fn check(name: &str, expected: bool) {
        assert_eq!(listed(OsStr::new(name)), expected, "{name}");
    }

    #[cfg(unix)]
    #[test]
    fn the_list_has_no_secrets() {
        check("PATH", true);
        check("LC_ALL", true);
        check("path", false);
        check("LC", false);
        check("HTTPS_PROXY", true);
        check("NODE_EXTRA_CA_CERTS", true);
        check("SSH_AUTH_SOCK", false);
        check("XDG_RUNTIME_DIR", false);
        check("AWS_SECRET_ACCESS_KEY", false);
    }

    #[test]
    fn a_final_star_matches_the_rest_of_a_name() {
        let matches = |wanted: &str, name: &str| matches(OsStr::new(wanted), OsStr::new(name));
        assert!(matches("AWS_*", "AWS_PROFILE") && matches("AWS_PROFILE", "AWS_PROFILE"));
        assert!(!matches("AWS_*", "AW") && !matches("AWS_P", "AWS_PROFILE"));
    }

    #[test]
    fn an_exported_function_is_recognised() {
        assert!(is_function(OsStr::new("() { :; }")));
        assert!(!is_function(OsStr::new("/bin:()")));
    }
}
