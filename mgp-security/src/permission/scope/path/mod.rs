//! Checks whether the paths among a call's arguments are within the limits; compares them component by component.

mod pattern;
mod reading;

use self::pattern::Pattern;
use self::reading::{readings, stays_below};
use super::finding::{Findings, PathText};
use super::{Limits, Outside, shown};

/// Checks all paths among the arguments.
pub(super) fn check(limits: &Limits<'_>, found: &Findings) -> Result<(), Outside> {
    let found = found.paths()?;
    // A web address does not count as a path, with two exceptions: the argument's name allows only a path, or the
    // address has a `..`, with which it could lead out of the working directory if a tool uses it as a path.
    let is_path =
        |found: &&PathText<'_>| found.is_named || !is_web(found.text) || !stays_below(found.text);
    let found: Vec<_> = found.iter().filter(is_path).collect();
    if !found.iter().any(|found| found.is_declared) {
        return Err("only some paths are allowed, and no argument names one".to_owned());
    }
    let denied = limits.denied.iter().map(|entry| {
        Pattern::read(entry)
            .map_err(|why| format!("the denied path `{entry}` cannot be read: {why}"))
    });
    let denied = denied.collect::<Result<Vec<_>, _>>()?;
    // An entry that cannot be parsed allows nothing.
    let allowed: Option<Vec<Pattern>> = limits
        .allowed
        .map(|allowed| allowed.iter().filter_map(|entry| Pattern::read(entry).ok()).collect());
    for PathText { text, .. } in found {
        one(&denied, allowed.as_deref(), text)
            .map_err(|why| format!("the path `{}` {why}", shown(text)))?;
    }
    Ok(())
}

fn one(denied: &[Pattern], allowed: Option<&[Pattern]>, text: &str) -> Result<(), Outside> {
    // It is unknown whether the tool decodes the text, so every interpretation must be within the limits.
    for path in readings(text)? {
        if path.may_expand && !denied.is_empty() {
            return Err("has wildcards and may mean several paths".to_owned());
        }
        for entry in denied {
            if entry.denies(&path)? {
                return Err("is denied".to_owned());
            }
        }
        if allowed.is_some_and(|allowed| !allowed.iter().any(|entry| entry.allows(&path))) {
            return Err("is not allowed".to_owned());
        }
    }
    Ok(())
}

/// Returns whether a whole text is the URL of a file. Such a text counts as a path under every argument name, because
/// `network_restricted` passes such URLs to calls whose paths are limited.
pub(super) fn is_file_url(text: &str) -> bool {
    text.get(..6).is_some_and(|head| head.eq_ignore_ascii_case("file:/"))
        && !text.contains(char::is_whitespace)
}

/// Returns whether a text is the bare name of a file that has an ending or begins with a dot.
pub(super) fn is_bare_name(text: &str) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-');
    let ending = text.rsplit_once('.').map_or("", |(_, ending)| ending);
    text.chars().all(is_letter) && ending.starts_with(char::is_alphabetic) && !text.contains("..")
}

fn is_web(text: &str) -> bool {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| {
        scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http")
    })
}
