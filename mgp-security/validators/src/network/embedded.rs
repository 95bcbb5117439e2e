//! The addresses and URLs in a command or another text.

use super::{Kind, NetworkRules, bare, begins_url, is_ambiguous, kind};
use std::net::IpAddr;

/// Checks the words of a command that are URLs, or hosts with a port.
pub(super) fn check(text: &str, rules: NetworkRules<'_>) -> Result<(), String> {
    text.split_whitespace().filter(|word| !is_exception(word)).try_for_each(|word| {
        let separates =
            |c: char| matches!(c, '"' | '\'' | '`' | '(' | ')' | '<' | '>' | ';' | '|' | '&' | ',');
        word.split(separates).try_for_each(|word| one(word, rules))
    })
}

/// Returns whether a word only sets `NO_PROXY` or a similar variable, whose hosts are not targets.
fn is_exception(word: &str) -> bool {
    let are_plain = |text: &str, marks: &str| {
        text.chars().all(|c| c.is_ascii_alphanumeric() || marks.contains(c))
    };
    word.split_once('=').is_some_and(|(name, value)| {
        are_plain(name, "_-\"'")
            && name.to_ascii_lowercase().replace('_', "").ends_with("noproxy")
            && are_plain(value, ".,:*_-/[]\"'")
            && !value.contains("//")
    })
}

fn one(word: &str, rules: NetworkRules<'_>) -> Result<(), String> {
    // Remove the name of an option or of a value, which can precede a URL, e.g. in `--proxy=http://…`.
    let mut values = word.match_indices('=').map(|(at, _)| &word[at + 1..]);
    let target = if begins_url(word) {
        word
    } else {
        values.find(|value| begins_url(value)).unwrap_or(word)
    };
    let place = word.split(['/', '?', '#']).next().unwrap_or(word);
    let host = place.split(':').next().unwrap_or(place);
    let rules_of_word = rules.for_bare_url(word);
    // `bash` opens a connection for such a path.
    let device = word.split_once("/dev/tcp/").or_else(|| word.split_once("/dev/udp/"));
    if let Some((_, rest)) = device {
        rules_of_word.check_host(rest.split('/').next().unwrap_or(rest))?;
    }
    if !word.contains("://") {
        parts(word, rules_of_word)?;
    }
    if host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok()
        || word.starts_with('[') && word.contains("::")
    {
        rules_of_word.check_host(place)?;
    } else if !place.contains("::") {
        // Skip a word with two colons in a row: it mostly names an item of a program and not an IPv6 address.
        bare::literal(place, rules_of_word)?;
    }
    // A setting can have a URL in its name, e.g. `url.http://a.example/.insteadOf=https://b.example/`.
    let before = &word[..word.len() - target.len()];
    if let Some(at) = before.find("://") {
        let scheme = before[..at].trim_end_matches(|c: char| c.is_ascii_alphabetic());
        url(&before[scheme.len()..], rules)?;
    }
    url(target, rules)
}

/// Checks a word that can be a URL.
fn url(word: &str, rules: NetworkRules<'_>) -> Result<(), String> {
    let lower = word.to_ascii_lowercase();
    if lower.starts_with("ssh://") {
        if is_ambiguous(word) {
            return Err("clients can read the host of the URL in different ways".to_owned());
        }
        // Like an address such as `git@host:path`, such a URL can have a user.
        let place = word["ssh://".len()..].split('/').next().unwrap_or_default();
        return rules.check_host(place.split_once('@').map_or(place, |(_, host)| host));
    }
    if lower.contains("://") || lower.starts_with("http:") || lower.starts_with("file:") {
        rules.check_url(word)?;
    }
    Ok(())
}

/// Checks addresses after the letter or the name of an option, e.g. in `-h10.0.0.1`, and between other parts of a word,
/// e.g. in `8080:10.0.0.1:80`.
fn parts(word: &str, rules: NetworkRules<'_>) -> Result<(), String> {
    let glued = word.strip_prefix('-').and_then(|option| option.get(1..));
    let names_place = |name: &str| {
        let lower = name.to_ascii_lowercase();
        matches!(kind(name), Kind::Host | Kind::Url)
            || lower.ends_with("host")
            || lower.ends_with("hostaddr")
    };
    let value = word.split_once('=').filter(|(name, _)| names_place(name));
    let mut all = glued.into_iter().chain(value.map(|(_, value)| value));
    all.try_for_each(|part| bare::literal(part, rules))?;
    let parts: Vec<&str> = word.split(':').collect();
    parts.iter().enumerate().skip(1).try_for_each(|(at, part)| {
        // The tag of an image, e.g. in `a/b:10.0.1.2`, is not an address.
        let is_tag = at == 1 && parts.len() == 2 && parts[0].contains('/');
        // A name such as `localhost` counts only before a port, which can be missing after the last colon, because
        // words such as `test:localhost` and `a::localhost::b` also occur.
        match parts.get(at + 1).filter(|next| next.bytes().all(|b| b.is_ascii_digit())) {
            Some(port) if !port.is_empty() => bare::literal(&format!("{part}:{port}"), rules),
            Some(_) if at + 2 == parts.len() => bare::literal(part, rules),
            _ if part.contains('.') && !is_tag => bare::literal(part, rules),
            _ => Ok(()),
        }
    })
}
