//! Variables that a child inherits by default.
//!
//! MGP §11. The list has the variables that a program needs to find its files, its user and its language, and
//! none that may hold a secret or give access: no proxies (they hold passwords), no
//! `SSH_AUTH_SOCK`, no `DBUS_*`, no `XDG_RUNTIME_DIR` (the sockets of the session are there).
//! Callers that need one of these name it with [`ChildCommand::inherit_env`].
//!
//! [`ChildCommand::inherit_env`]: super::ChildCommand::inherit_env

use std::ffi::{OsStr, OsString};

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

/// Returns the variables of this process that are on the list or among `extra`.
pub(super) fn inherited(extra: &[OsString]) -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter(|(name, value)| {
        extra.iter().any(|wanted| same(wanted, name)) || (listed(name) && !is_function(value))
    })
}

fn listed(name: &OsStr) -> bool {
    NAMES.iter().any(|listed| same(OsStr::new(listed), name))
        || name.to_str().is_some_and(|name| name.starts_with("LC_"))
}

/// Returns whether a value is an exported shell function, which a shell in the child would run.
fn is_function(value: &OsStr) -> bool {
    value.as_encoded_bytes().starts_with(b"()")
}

/// Compares names like the operating system does.
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
        check("HTTPS_PROXY", false);
        check("SSH_AUTH_SOCK", false);
        check("XDG_RUNTIME_DIR", false);
        check("AWS_SECRET_ACCESS_KEY", false);
    }

    #[test]
    fn an_exported_function_is_recognised() {
        assert!(is_function(OsStr::new("() { :; }")));
        assert!(!is_function(OsStr::new("/bin:()")));
    }
}
