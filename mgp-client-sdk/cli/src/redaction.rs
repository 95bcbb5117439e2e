//! Removes secrets from what is shown: from configuration files and from texts.

use std::cmp::Reverse;
use std::path::Path;

use mgp_discovery::ExpandedServer;

use crate::exit::Failure;

/// The maximum size of a configuration file that is shown, in bytes.
const MAX_BYTES: u64 = 256 << 10;

/// Minimum length of a secret that is hidden; shorter values would hide ordinary words.
const MIN_SECRET_BYTES: usize = 6;

/// The secret texts that are replaced by `…` in everything that is shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Secrets {
    /// Longest first, because one secret may be a prefix of another.
    texts: Vec<String>,
}

impl Secrets {
    /// Adds each line and each word of the secret values in a server's configuration.
    pub(crate) fn add_server(&mut self, server: &ExpandedServer) {
        server.secrets().for_each(|secret| self.add(secret));
    }

    /// Adds each line and each word of a secret.
    pub(crate) fn add(&mut self, secret: &str) {
        let lines = secret.split(char::is_control);
        let parts =
            lines.flat_map(|line| std::iter::once(line.trim()).chain(line.split_whitespace()));
        let long = parts.filter(|part| part.len() >= MIN_SECRET_BYTES).map(str::to_owned);
        self.texts.extend(long);
        self.texts.sort_by_key(|text| Reverse(text.len()));
        self.texts.dedup();
    }

    /// Returns a text with the secrets replaced by `…`.
    pub(crate) fn redact(&self, text: &str) -> String {
        self.texts.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "…"))
    }
}

/// Returns a configuration file with each value that can be a secret masked.
pub(crate) fn masked(file: &Path) -> Result<String, Failure> {
    let metadata = std::fs::metadata(file)?;
    if metadata.len() > MAX_BYTES {
        return Err(Failure::failed("the file is too long to be shown"));
    }
    let text = std::fs::read_to_string(file)?;
    let mut document: toml_edit::DocumentMut = text
        .parse()
        .map_err(|_| Failure::failed("the file is not TOML, so its secrets cannot be masked"))?;
    mask(document.as_table_mut(), false);
    Ok(document.to_string())
}

/// Masks all values in a table of variables or headers, and elsewhere those that are secrets by their key or text.
fn mask(table: &mut dyn toml_edit::TableLike, is_secret: bool) {
    for (key, item) in table.iter_mut() {
        let key = key.get();
        let is_secret = is_secret || ["env", "headers"].contains(&key) || names_secret(key);
        mask_item(item, is_secret);
    }
}

fn mask_item(item: &mut toml_edit::Item, is_secret: bool) {
    if let Some(tables) = item.as_array_of_tables_mut() {
        tables.iter_mut().for_each(|table| mask(table, is_secret));
    } else if let Some(table) = item.as_table_like_mut() {
        mask(table, is_secret);
    } else if let Some(value) = item.as_value_mut() {
        mask_value(value, is_secret);
    }
}

fn mask_value(value: &mut toml_edit::Value, is_secret: bool) {
    match value {
        // A reference to a variable or a stored secret is not the secret itself.
        toml_edit::Value::String(text)
            if (is_secret || holds_secret(text.value())) && !text.value().starts_with("${") =>
        {
            let decor = text.decor().clone();
            *value = "…".into();
            *value.decor_mut() = decor;
        }
        toml_edit::Value::Array(array) => mask_array(array, is_secret),
        toml_edit::Value::InlineTable(table) => mask(table, is_secret),
        _ => {}
    }
}

/// Masks the secret elements of an array, e.g. of arguments, and the element after a flag that names a secret.
fn mask_array(array: &mut toml_edit::Array, is_secret: bool) {
    let mut follows_flag = false;
    for value in array.iter_mut() {
        let text = value.as_str().map(str::to_owned);
        mask_value(value, is_secret || follows_flag);
        follows_flag = text.is_some_and(|text| text.starts_with('-') && names_secret(&text));
    }
}

/// Returns whether a key or a flag names a secret.
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
        let text = "# mine\n[[servers]]\nid = \"git\"\ncommand = \"npx\"\nargs = [\"-y\", \"--token\", \"t0p\", \
            \"--api-key=t1p\", \"postgres://u:t2p@h/d\", \"${keyring:X}\"]\nenv = { A = \"t3p\", B = \"${B}\" }\n\
            [servers.headers]\nAuthorization = \"Bearer t4p\"\n";
        std::fs::write(&file, text).unwrap();
        let shown = masked(&file).unwrap();
        for secret in ["t0p", "t1p", "t2p", "t3p", "t4p"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        for kept in ["# mine", "id = \"git\"", "-y", "${keyring:X}", "B = \"${B}\""] {
            assert!(shown.contains(kept), "{kept}: {shown}");
        }
        std::fs::write(&file, "token = [").unwrap();
        assert!(masked(&file).is_err());
    }
}
