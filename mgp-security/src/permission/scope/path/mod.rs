//! Checks whether the paths among a call's arguments are within the limits; compares them component by component.

mod pattern;
mod reading;

use self::pattern::Pattern;
use self::reading::{readings, stays_below};
use super::finding::{Findings, PathText};
use super::{Doors, Outside, shown};

/// Checks all paths among the arguments.
pub(super) fn check(doors: &Doors<'_>, found: &Findings) -> Result<(), Outside> {
    let found = found.paths()?;
    // A web address does not count as a path, unless the argument's name allows only a path, or the address has a `..`
    // with which a tool that uses it as a path could leave the working directory.
    let is_path =
        |found: &&PathText<'_>| found.is_named || !is_web(found.text) || !stays_below(found.text);
    let found: Vec<_> = found.iter().filter(is_path).collect();
    if !found.iter().any(|found| found.is_declared) {
        return Err("only some paths are open, and no argument names one".to_owned());
    }
    let closed = doors.closed.iter().map(|entry| {
        Pattern::read(entry)
            .map_err(|why| format!("the closed path `{entry}` cannot be read: {why}"))
    });
    let closed = closed.collect::<Result<Vec<_>, _>>()?;
    // An entry that cannot be parsed allows nothing.
    let open: Option<Vec<Pattern>> =
        doors.open.map(|open| open.iter().filter_map(|entry| Pattern::read(entry).ok()).collect());
    for PathText { text, .. } in found {
        one(&closed, open.as_deref(), text)
            .map_err(|why| format!("the path `{}` {why}", shown(text)))?;
    }
    Ok(())
}

fn one(closed: &[Pattern], open: Option<&[Pattern]>, text: &str) -> Result<(), Outside> {
    // It is unknown whether the tool decodes the text, so every interpretation must be within the limits.
    for path in readings(text)? {
        if path.may_expand && !closed.is_empty() {
            return Err("stands for several, which cannot be seen".to_owned());
        }
        for entry in closed {
            if entry.closes(&path)? {
                return Err("is closed".to_owned());
            }
        }
        if open.is_some_and(|open| !open.iter().any(|entry| entry.opens(&path))) {
            return Err("is not open".to_owned());
        }
    }
    Ok(())
}

fn is_web(text: &str) -> bool {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| {
        scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http")
    })
}
