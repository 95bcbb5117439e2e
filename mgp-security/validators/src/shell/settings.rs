//! Variables and settings that name a place to which programs connect: a proxy, a registry of packages, or a daemon.

use super::{
    argv::{Args, Refusal},
    targets::named,
};
use crate::argument_values::key_words;
use crate::network::NetworkRules;
use crate::words::{Words, has};

/// Commands whose operands set variables for other commands.
const SETTERS: &str = "env export declare typeset readonly local set";
/// Programs whose subcommand `config` changes settings. `npm` and `pnpm` also accept `set` and `c`.
const CONFIGURED: &str = "git npm yarn pnpm bun pip uv composer bundle poetry gem";
/// Protocols and programs in the names of settings. Without one of these words, e.g. in `VITE_PROXY`, the place is
/// often a server of the project itself.
static CLIENTS: Words = Words::new(
    "\
    http https ftp all socks rsync git npm yarn pnpm bun config pip uv cargo gem poetry bundle conda \
    aws",
);
static REGISTRIES: Words = Words::new("registry registries index endpoint");

/// Returns whether a variable or a setting names a proxy, a registry of packages, or a daemon that runs containers.
pub(super) fn is_place(name: &str) -> bool {
    let words = key_words(name);
    let joined = words.concat();
    // The name can follow the letters of options, e.g. in `wget -qehttps_proxy=…`.
    let is_glued = name.starts_with('-') && !name.starts_with("--");
    let is_of = |set: &Words, word: &String| {
        set.has(word) || is_glued && set.iter().any(|known| word.ends_with(known))
    };
    let contains = |set: &Words| words.iter().any(|word| is_of(set, word));
    match words.last().map(String::as_str) {
        _ if joined.ends_with("noproxy") => false,
        Some("proxy" | "registry" | "index") => contains(&CLIENTS),
        Some("url") => contains(&CLIENTS) && contains(&REGISTRIES),
        _ => {
            matches!(joined.as_str(), "goproxy" | "dockerhost" | "containerhost")
                || joined.starts_with("awsendpointurl")
        }
    }
}

/// Returns the text that git puts in place of the beginning of other URLs, e.g. `git@a.example:` for the setting
/// `url.git@a.example:.insteadOf`.
fn base_of_urls(setting: &str) -> Option<&str> {
    let lower = setting.to_ascii_lowercase();
    let mut endings = [".insteadof", ".pushinsteadof"].into_iter();
    let end = endings.find_map(|ending| lower.strip_suffix(ending))?.len();
    setting.get(lower.find("url.")? + "url.".len()..end)
}

/// Returns whether a command sets variables for other commands.
pub(super) fn sets_variables(name: &str) -> bool {
    has(SETTERS, name)
}

/// Checks a variable that a command or a call sets, if it names a place.
///
/// # Errors
/// A description of the reason why the place is refused.
pub(super) fn variable(name: &str, value: &str, rules: NetworkRules<'_>) -> Result<(), Refusal> {
    let refused = |why: String| format!("`{name}` connects to a place that is not public: {why}");
    if let Some(base) = base_of_urls(name) {
        return named(base, rules).map_err(refused);
    }
    if !is_place(name) {
        return Ok(());
    }
    let separates = |c: char| c.is_whitespace() || matches!(c, '|' | ',');
    value.split(separates).try_for_each(|one| named(one, rules)).map_err(refused)
}

/// Checks the variables and settings that a command sets.
///
/// # Errors
/// A description of the reason why a place is refused.
pub(super) fn check(name: &str, args: Args<'_>, rules: NetworkRules<'_>) -> Result<(), Refusal> {
    if sets_variables(name) || name == "go" {
        let mut set = args.texts().filter_map(|text| text.split_once('='));
        return set.try_for_each(|(name, value)| variable(name, value, rules));
    }
    let configures =
        |text: &str| text == "config" || has("npm pnpm", name) && matches!(text, "set" | "c");
    if !has(CONFIGURED, name) || !args.texts().any(configures) {
        return Ok(());
    }
    let next = args.texts().skip(1).chain([""]);
    args.texts().zip(next).try_for_each(|(text, next)| {
        let (setting, value) = text.split_once('=').unwrap_or((text, next));
        variable(&format!("config.{setting}"), value, rules)
    })
}
