//! Checks of the hosts of this user: whether each starts mgp.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use mgp_discovery::import::ImportError;

use super::super::connect::{HostFile, host_file};
use super::report::{Check, Level};
use super::server::split_remedy;
use crate::args::Global;
use crate::hosts::{KnownHost, first_names, home};

/// Checks each host that has a file of servers.
pub(super) fn check(global: &Global) -> Vec<Check> {
    let Ok(home) = home() else { return Vec::new() };
    let mut checks = Vec::new();
    for host in KnownHost::ALL {
        let (name, path) = (host.name(), host.user_file(&home));
        checks.extend(check_others(host, &home));
        let of_project = project_file(host, &path);
        let in_project =
            of_project.as_deref().and_then(|file| host_file(global, host, file).ok()?);
        let in_project = in_project.filter(|file| file.program.is_some());
        if let Some(file) = &in_project {
            let shown = format!("{name} in this project");
            checks.push(check_host(&shown, &format!("{name} --project"), file));
        }
        let is_reported = in_project.as_ref().is_some_and(|file| !file.beside.is_empty());
        if host.is_installed(&home) && !is_reported {
            checks.extend(of_project.and_then(|file| check_project(host, &file)));
        }
        match host_file(global, host, &path) {
            Ok(None) => {}
            Ok(Some(file)) => {
                if in_project.is_none() || file.program.is_some() {
                    checks.push(check_host(name, name, &file));
                }
                checks.extend(file.fault.iter().map(|failure| unreadable(name, failure)));
                if file.program.is_some() {
                    checks.extend(file.refused.iter().map(|error| refused(name, &path, error)));
                }
            }
            Err(failure) => checks.push(unreadable(name, &failure)),
        }
    }
    checks
}

/// Reports a file that no command can read.
fn unreadable(host: &str, why: &dyn Display) -> Check {
    let why = why.to_string();
    let (why, fix) = split_remedy(&why).unwrap_or_else(|| (why, "correct the file".to_owned()));
    Check::new("host", Level::Warn, format!("{host}: {why}")).with_fix(fix)
}

/// Reports files from which a host starts servers, but which no command changes.
fn check_others(host: KnownHost, home: &Path) -> Vec<Check> {
    let name = host.name();
    let settings = host.settings_with_servers(home).map(|file| {
        let what = format!("{name} starts the servers in `{}`, not governed", file.display());
        let fix = format!("run `mgp import {name} --apply`, then remove them there");
        Check::new("host", Level::Warn, what).with_fix(fix)
    });
    let beside = host.ungoverned_servers(home).into_iter();
    let beside = beside.map(|what| Check::new("host", Level::Warn, what));
    settings.into_iter().chain(beside).collect()
}

/// Returns the path of the host's file in the project of this folder.
fn project_file(host: KnownHost, user_file: &Path) -> Option<PathBuf> {
    let file = host.project_file(&std::env::current_dir().ok()?)?;
    // Skip the host's file for all projects, which has this path if the current folder is the user's home folder.
    let is_user_file = dunce::canonicalize(&file).ok() == dunce::canonicalize(user_file).ok();
    (!is_user_file).then_some(file)
}

/// Reports the host's file in the project of this folder, if the host starts servers from it.
fn check_project(host: KnownHost, file: &Path) -> Option<Check> {
    let name = host.name();
    match host.starts_others(file) {
        Ok(true) => {}
        Ok(false) => return None,
        Err(why) => return Some(unreadable(name, &why)),
    }
    let what = format!("{name} starts the servers in `{}` here, not governed", file.display());
    let fix = format!(
        "check them, run `mgp import {name} --project --apply`, then `mgp connect {name} --project --replace`"
    );
    Some(Check::new("host", Level::Warn, what).with_fix(fix))
}

/// Reports an entry that `mgp import` leaves out.
fn refused(host: &str, file: &Path, error: &ImportError) -> Check {
    let ImportError { name, why, .. } = error;
    let (why, fix) = if let Some((why, fix)) = split_remedy(why) {
        (why, fix.replace("then try again", &format!("then run `mgp setup {host}`")))
    } else {
        let file = file.display();
        let fix = format!(
            "leave it there, not governed, or change it in `{file}` and run `mgp setup {host}`"
        );
        (why.clone(), fix)
    };
    Check::new("host", Level::Warn, format!("`{name}` of {host} cannot be imported: {why}"))
        .with_fix(fix)
}

/// Reports whether a host starts mgp from a file. `host` are the words of the command line for the host and the file.
fn check_host(name: &str, host: &str, file: &HostFile) -> Check {
    let HostFile { program, beside, .. } = file;
    let Some(program) = program else {
        let what = format!("{name} does not start mgp; `mgp connect {host}` makes it");
        return Check::new("host", Level::Ok, what);
    };
    if program.is_absolute() && !program.exists() {
        let what = format!("{name} starts `{}`, which does not exist", program.display());
        return Check::new("host", Level::Fail, what).with_fix(format!("run `mgp connect {host}`"));
    }
    if beside.is_empty() {
        return Check::new("host", Level::Ok, format!("{name} starts mgp"));
    }
    let names = first_names(beside);
    let what = format!("{name} starts mgp, and beside it, not governed: {names}");
    Check::new("host", Level::Warn, what)
        .with_fix(format!("run `mgp import {host} --apply`, then `mgp connect {host} --replace`"))
}

#[cfg(test)]
mod tests {
    use super::unreadable;

    #[test]
    fn the_remedy_of_a_failure_takes_the_place_of_the_general_one() {
        let fix = |why: &str| unreadable("cursor", &why).fix.unwrap();
        assert_eq!(fix("root would own files; run mgp without `sudo`"), "run mgp without `sudo`");
        assert_eq!(fix("it is not JSON at line 1"), "correct the file");
    }
}
