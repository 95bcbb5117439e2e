//! Commands of Windows and cmdlets of PowerShell that delete folders, open URLs or write files.

use super::{
    argv::{Args, Refusal},
    paths::belongs_to_system,
};
use crate::network::NetworkRules;

/// Checks a command of Windows or a cmdlet.
pub(super) fn check(name: &str, args: Args<'_>, network: NetworkRules<'_>) -> Result<(), Refusal> {
    let has = |switches: &[&str]| {
        args.texts().any(|text| switches.iter().any(|switch| text.eq_ignore_ascii_case(switch)))
    };
    let written = match name {
        "remove-item" | "ri" | "rmdir" if has(&["/s"]) || args.texts().any(is_recursive) => {
            return Err(format!("`{name}` deletes folders with what is in them"));
        }
        "icacls" | "cacls" if args.0.len() > 1 => {
            return Err(format!("`{name}` changes who may access files"));
        }
        "robocopy" if has(&["/mir", "/purge"]) => {
            return Err(format!("`{name}` deletes files that are only in the target"));
        }
        "invoke-webrequest" | "iwr" | "invoke-restmethod" | "irm" | "start-bitstransfer" => {
            return requested(args, network)
                .map_err(|why| format!("`{name}` connects to a place that is not public: {why}"));
        }
        "set-content" | "add-content" | "ac" | "out-file" | "new-item" | "ni" | "move-item"
        | "mi" | "rename-item" | "rni" | "clear-content" | "clc" => {
            args.operands().find(|path| belongs_to_system(path))
        }
        "copy-item" | "cpi" | "copy" | "xcopy" => {
            let last = args.operands().last();
            last.into_iter().chain(after(args, "-destination")).find(|path| belongs_to_system(path))
        }
        _ => None,
    };
    match written {
        Some(path) => Err(format!("`{name}` writes to `{path}`, which belongs to the system")),
        None => Ok(()),
    }
}

/// Returns whether an argument is the option `-Recurse`, which can be abbreviated and have a value as in `-r:$true`.
fn is_recursive(text: &str) -> bool {
    let option = text.split(':').next().unwrap_or(text).to_ascii_lowercase();
    option.len() > 1 && "-recurse".starts_with(&option)
}

/// Returns the values of an option. The option can be abbreviated to two letters, and have the form `-Name:value`.
fn after<'a>(args: Args<'a>, option: &'static str) -> impl Iterator<Item = &'a str> {
    let next = args.texts().skip(1).map(Some).chain([None]);
    args.texts().zip(next).filter_map(move |(text, next)| {
        let (name, value) = match text.split_once(':') {
            Some((name, value)) => (name, Some(value)),
            None => (text, next),
        };
        let given = name.to_ascii_lowercase();
        value.filter(|_| given.len() > 2 && option.starts_with(&given))
    })
}

/// Checks the URL and proxy of a request, which can be hosts without a scheme.
fn requested(args: Args<'_>, network: NetworkRules<'_>) -> Result<(), String> {
    let first = args.0.first().map(|word| word.text.as_str()).filter(|text| !text.starts_with('-'));
    let places = first.into_iter().chain(after(args, "-uri")).chain(after(args, "-proxy"));
    for place in places.filter(|place| !place.starts_with('$')) {
        if place.contains("://") {
            network.check_url(place)?;
        } else {
            let host = place.split(['/', '?', '#']).next().unwrap_or(place);
            network.for_bare_url(place).check_host(host)?;
        }
    }
    Ok(())
}
