//! Removes secrets from what is shown: from configuration files and from texts.

use std::cmp::Reverse;
use std::path::Path;

use mgp_discovery::{ExpandedServer, looks_secret};
use mgp_types::service::{shown_origin, shown_url};
use serde_json::Value as Json;

use crate::exit::Failure;
use crate::pipe;

/// The maximum size of a configuration file that is shown, in bytes.
const MAX_BYTES: u64 = 256 << 10;

/// Minimum length of a secret that is hidden; shorter values would hide ordinary words.
const MIN_SECRET_BYTES: usize = 6;

/// The tables of variables and headers, in mgp's configuration and in the files of hosts; all of their values are
/// masked.
const VALUE_TABLES: [&str; 5] = ["env", "envs", "environment", "headers", "http_headers"];

/// The tables with URLs whose paths are often secrets.
const SECRET_PATHS: [&str; 3] = ["kernel.audit.sinks.", "kernel.notify.", "kernel.webhooks."];

/// The secret texts that are replaced by `…` in everything that is shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Secrets {
    /// The longest texts come first, because one secret may be a prefix of another.
    texts: Vec<String>,
}

impl Secrets {
    /// Adds each line and each word of the secret values in a server's configuration, as [`add`](Self::add) does.
    pub(crate) fn add_server(&mut self, server: &ExpandedServer) {
        server.secrets().for_each(|secret| self.add(secret));
    }

    /// Adds each line and each word of a secret that has at least [`MIN_SECRET_BYTES`] bytes.
    pub(crate) fn add(&mut self, secret: &str) {
        let lines = secret.split(char::is_control);
        let parts =
            lines.flat_map(|line| std::iter::once(line.trim()).chain(line.split_whitespace()));
        let long = parts.filter(|part| part.len() >= MIN_SECRET_BYTES).map(str::to_owned);
        self.texts.extend(long);
        self.texts.sort_by_key(|text| Reverse(text.len()));
        self.texts.dedup();
    }

    /// Adds a URL whose path can be a secret, both in its configured form and in the form that errors show.
    pub(crate) fn add_url(&mut self, url: &str) {
        let host = shown_origin(url);
        for shown in [url.to_owned(), shown_url(url)] {
            if shown != host {
                self.add(&shown);
            }
        }
    }

    /// Returns a text with the secrets replaced by `…`.
    pub(crate) fn redact(&self, text: &str) -> String {
        self.texts.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "…"))
    }
}

/// Returns a configuration file with each value that can be a secret masked, and without comments.
pub(crate) fn masked(file: &Path) -> Result<String, Failure> {
    let metadata = std::fs::metadata(file)?;
    if metadata.len() > MAX_BYTES {
        return Err(Failure::failed("the file is longer than 256 KiB, so it is not shown"));
    }
    let text = pipe::read_to_string(file)?;
    let mut document: toml_edit::DocumentMut = text
        .parse()
        .map_err(|_| Failure::failed("the file is not TOML, so its secrets cannot be masked"))?;
    document.set_trailing("");
    mask_table(document.as_table_mut(), "", false);
    Ok(document.to_string())
}

#[derive(Clone, Copy)]
struct Place<'a> {
    /// The keys of the tables around the value, each followed by a dot.
    path: &'a str,
    /// The key of the value, or the command-line flag before it.
    name: &'a str,
    is_secret: bool,
}

fn mask_table(table: &mut toml_edit::Table, path: &str, is_secret: bool) {
    table.decor_mut().clear();
    mask(table, path, is_secret);
}

/// Masks all values in a table of variables or headers, and elsewhere the values whose key or text marks them as
/// secrets. Removes all comments.
fn mask(table: &mut dyn toml_edit::TableLike, path: &str, is_secret: bool) {
    for (mut key, item) in table.iter_mut() {
        key.leaf_decor_mut().clear();
        key.dotted_decor_mut().clear();
        let name = key.get();
        let is_secret = is_secret || VALUE_TABLES.contains(&name) || names_secret(name);
        let path = format!("{path}{name}.");
        match item {
            toml_edit::Item::None => {}
            toml_edit::Item::Value(value) => {
                mask_value(value, Place { path: &path, name, is_secret });
            }
            toml_edit::Item::Table(table) => mask_table(table, &path, is_secret),
            toml_edit::Item::ArrayOfTables(tables) => {
                tables.iter_mut().for_each(|table| mask_table(table, &path, is_secret));
            }
        }
    }
}

fn mask_value(value: &mut toml_edit::Value, place: Place<'_>) {
    match value {
        toml_edit::Value::String(text) => {
            if let Some(shown) = masked_text(text.value(), place) {
                *value = shown.into();
            }
        }
        toml_edit::Value::Array(array) => mask_array(array, place),
        toml_edit::Value::InlineTable(table) => {
            table.set_trailing("");
            table.set_trailing_comma(false);
            mask(table, place.path, place.is_secret);
        }
        // Mask a number only in the tables of variables and headers. Elsewhere a number is a setting, even if its key
        // looks like the name of a secret, e.g. `max_tokens`.
        _ if place.path.split('.').any(|key| VALUE_TABLES.contains(&key)) => *value = "…".into(),
        _ => {}
    }
    value.decor_mut().clear();
}

/// Masks the entry of a server in the file of a host: all values of variables and headers, and elsewhere the values
/// whose key or text marks them as secrets.
pub(crate) fn mask_entry(entry: &mut Json) {
    mask_json(entry, Place { path: "", name: "", is_secret: false });
}

fn mask_json(value: &mut Json, place: Place<'_>) {
    match value {
        Json::String(text) => {
            if let Some(shown) = masked_text(text, place) {
                *text = shown;
            }
        }
        Json::Array(items) => {
            let mut flag = String::new();
            for item in items {
                let text = item.as_str().unwrap_or_default().to_owned();
                let is_secret = place.is_secret || names_secret(&flag);
                mask_json(item, Place { name: &flag, is_secret, ..place });
                flag = flag_in(text);
            }
        }
        Json::Object(members) => {
            for (name, value) in members.iter_mut() {
                let name = name.as_str();
                let is_secret =
                    place.is_secret || VALUE_TABLES.contains(&name) || names_secret(name);
                mask_json(value, Place { name, is_secret, ..place });
            }
        }
        Json::Number(_) | Json::Bool(_) if place.is_secret => *value = "…".into(),
        _ => {}
    }
}

/// Masks the secret elements of an array, e.g. of arguments, and the element after a flag that names a secret.
fn mask_array(array: &mut toml_edit::Array, place: Place<'_>) {
    array.set_trailing("");
    array.set_trailing_comma(false);
    let mut flag = String::new();
    for value in array.iter_mut() {
        let text = value.as_str().unwrap_or_default().to_owned();
        let is_secret = place.is_secret || names_secret(&flag);
        mask_value(value, Place { name: &flag, is_secret, ..place });
        flag = flag_in(text);
    }
}

/// Returns an argument if it is a flag whose value can be the next argument, else an empty text.
fn flag_in(argument: String) -> String {
    let is_flag = argument.starts_with('-') && !argument.contains('=');
    if is_flag { argument } else { String::new() }
}

/// Returns the text that is shown in place of a value; `None` if the value is shown as it is.
fn masked_text(text: &str, place: Place<'_>) -> Option<String> {
    let looks = |(name, value): (&str, &str)| looks_secret(name, value.trim()).is_some();
    // An assignment (`NAME=value`, `--flag=value`) or a header (`NAME: value`).
    let named = text.split_once(['=', ':']).filter(|(name, _)| {
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    });
    let is_secret = place.is_secret
        || holds_secret(text)
        || looks((place.name, text))
        || named.is_some_and(looks);
    if is_secret && !is_reference(text) {
        return Some("…".to_owned());
    }
    if !text.contains("://") {
        return None;
    }
    let hides_path = SECRET_PATHS.iter().any(|tables| place.path.starts_with(tables));
    let shown = if hides_path { shown_origin(text) } else { shown_url(text) };
    (shown != text).then_some(shown)
}

/// Returns whether a text is a reference to a variable or a stored secret, and so not the secret itself.
fn is_reference(text: &str) -> bool {
    let name = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| !name.contains(['$', '{', '}']) && !name.contains(":-"))
}

/// Returns a text whose URLs keep only their schemes and hosts.
pub(crate) fn without_paths(text: &str) -> String {
    let words = text.split_inclusive(char::is_whitespace).map(|word| {
        let (bare, space) = word.split_at(word.trim_end().len());
        if !bare.contains("://") {
            return word.to_owned();
        }
        let end = if bare.ends_with('`') { "`" } else { "" };
        shown_origin(bare.trim_end_matches('`')) + end + space
    });
    words.collect()
}

pub(crate) fn names_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    [
        "token",
        "secret",
        "password",
        "passwd",
        "api_key",
        "apikey",
        "api-key",
        "authorization",
        "credential",
    ]
    .iter()
    .any(|word| key.contains(word))
}

/// Returns whether a text holds a secret itself: `--token=…`, `NAME_TOKEN=…`, or a URL with a password.
fn holds_secret(text: &str) -> bool {
    let assigned =
        text.split_once('=').is_some_and(|(name, value)| !value.is_empty() && names_secret(name));
    let in_url = text.split_once("://").is_some_and(|(_, rest)| {
        rest.split('/').next().is_some_and(|authority| authority.contains('@'))
    });
    assigned || in_url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_and_everything_else_is_kept() {
        let folder = mgp_testkit::temp_dir();
        let file = folder.path().join("servers.toml");
        let text = r#"
            # s01
            [[servers]] # s02
            id = "git" # s03
            # s04
            command = "npx"
            args = ["-y", # s05
                "--token", "s06", "--api-key=s07", "postgres://u:s08@h/d", "${keyring:X}",
                "--header", "Authorization: Bearer s09-s09-s09", "--key", "s10-s10-s10",
                "X-Password: s11 s11!", "API_KEY=s12-s12", "https://h.example/a?k=s13",
                # s14
            ]
            env = { A = "s15", B = "${B}", C = "${D:-s16}", D = 9999, E = [9999] }
            [servers.headers]
            Authorization = "Bearer s17"
            [kernel.notify.a] # s18
            webhook = "https://h.example/s19"
            quiet = "22:00-07:00"
            [kernel.webhooks]
            b = { url = "https://i.example/s20", channels = ["*"] } # s21
            [kernel.audit.sinks.c]
            url = "https://j.example/s22"
            [kernel.telemetry]
            otlp = "http://127.0.0.1:1/v1?key=s23"
            # s24
        "#;
        std::fs::write(&file, text).unwrap();
        let shown = masked(&file).unwrap();
        let secrets = (0..=24).map(|number| format!("s{number:02}"));
        let leaked: Vec<_> = secrets.filter(|secret| shown.contains(secret)).collect();
        assert!(leaked.is_empty() && !shown.contains("9999"), "{leaked:?}: {shown}");
        for kept in [
            "[[servers]]\nid = \"git\"\ncommand = \"npx\"\n",
            "args = [\"-y\", \"--token\", \"…\", \"…\", \"…\", \"${keyring:X}\", \"--header\", \"…\", ",
            "\"https://h.example/a\"]\n",
            "B = \"${B}\"",
            "webhook = \"https://h.example/…\"\nquiet = \"22:00-07:00\"\n",
            "url = \"https://i.example/…\", channels = [\"*\"]",
            "url = \"https://j.example/…\"",
            "otlp = \"http://127.0.0.1:1/v1\"\n",
        ] {
            assert!(shown.contains(kept), "{kept}: {shown}");
        }
        std::fs::write(&file, "token = [").unwrap();
        assert!(masked(&file).is_err());
    }

    #[test]
    fn the_entry_of_a_host_is_shown_without_its_secrets() {
        let mut entry = serde_json::json!({
            "command": ["npx", "--api-key", "s01", "--port", "8080", "postgres://ada:s02@db/x"],
            "args": ["-y", "files", "--token=s03", "--dir", "/srv"],
            "env": { "A": "s04$b", "B": 505, "C": "${C}", "D": "${D:-s06}", "E": ["s07"] },
            "environment": { "A": "s08" }, "envs": { "A": "s09" },
            "requestOptions": { "headers": { "X": "s10" } }, "http_headers": { "X": "s11" },
            "url": "https://h.example/mcp?k=s12", "apiKey": "s13", "timeout": 20,
            "nested": { "path": "npx", "args": ["--secret", "s14"] },
        });
        mask_entry(&mut entry);
        let shown = entry.to_string();
        let secrets = (0..=14).map(|number| format!("s{number:02}"));
        let leaked: Vec<_> = secrets.filter(|secret| shown.contains(secret)).collect();
        assert!(leaked.is_empty() && !shown.contains("505"), "{leaked:?}: {shown}");
        for kept in [
            r#"["npx","--api-key","…","--port","8080","…"]"#,
            r#"["-y","files","…","--dir","/srv"]"#,
            r#""C":"${C}""#,
            r#""url":"https://h.example/mcp""#,
            r#""timeout":20"#,
        ] {
            assert!(shown.contains(kept), "{kept}: {shown}");
        }
    }

    #[test]
    fn urls_in_a_text_lose_their_paths() {
        let text = "https://a.example/x?y  2\n`https://b.example/z` failed: c://d\n";
        let shown = "https://a.example/…  2\n`https://b.example/…` failed: c://d\n";
        assert_eq!(without_paths(text), shown);
        let mut secrets = Secrets::default();
        secrets.add_url("https://a.example/x1?y1");
        secrets.add_url("https://b.example");
        let text = "https://a.example/x1?y1 https://a.example/x1: https://b.example";
        assert_eq!(secrets.redact(text), "… …: https://b.example");
    }
}
