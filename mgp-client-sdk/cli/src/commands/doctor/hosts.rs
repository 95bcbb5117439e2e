//! Checks of the hosts of this user: whether each starts mgp.

use super::super::connect::{HostFile, host_file};
use super::report::{Check, Level};
use crate::hosts::{KnownHost, home};

/// The maximum number of servers that a message names.
const MAX_NAMES: usize = 8;

/// Checks each host that has a file of servers.
pub(super) fn check() -> Vec<Check> {
    let Ok(home) = home() else { return Vec::new() };
    let each = KnownHost::ALL.into_iter().filter_map(|host| {
        let name = host.name();
        match host_file(host, &host.user_file(&home)) {
            Ok(file) => file.map(|file| check_host(name, &file)),
            Err(failure) => {
                let check = Check::new("host", Level::Warn, format!("{name}: {failure}"));
                Some(check.with_fix("correct the file"))
            }
        }
    });
    each.collect()
}

fn check_host(name: &str, file: &HostFile) -> Check {
    let HostFile { program, beside } = file;
    let Some(program) = program else {
        let what = format!("{name} does not start mgp; `mgp connect {name}` makes it");
        return Check::new("host", Level::Ok, what);
    };
    if program.is_absolute() && !program.exists() {
        let what = format!("{name} starts `{}`, which does not exist", program.display());
        return Check::new("host", Level::Fail, what).with_fix(format!("run `mgp connect {name}`"));
    }
    if beside.is_empty() {
        return Check::new("host", Level::Ok, format!("{name} starts mgp"));
    }
    let more = beside.len().saturating_sub(MAX_NAMES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let names = beside[..beside.len().min(MAX_NAMES)].join(", ");
    let what = format!("{name} starts mgp, and beside it, not governed: {names}{more}");
    Check::new("host", Level::Warn, what)
        .with_fix(format!("run `mgp import {name} --apply`, then `mgp connect {name} --replace`"))
}
