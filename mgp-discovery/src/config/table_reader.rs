//! Reads the values of one table of `mgp.toml`, and checks them against the table of all keys (MGP §15.2).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use toml_edit::{Item, TableLike};

use super::finding::{FindingSeverity, Report};
use super::keys::{key, remedy_for_unknown_key};
use super::kind::{Checked, check, shown};
use super::{KeyKind, addresses, nearest, tenants};

/// A table that is being read. An invalid value is reported and then treated as absent.
pub(super) struct Reader<'r, 'f, 't> {
    pub(super) report: &'r mut Report<'f>,
    table: &'t dyn TableLike,
    path: &'static str,
    /// The path of the table for messages: `path`, with the name that the user chose in place of `*`.
    shown_path: Cow<'static, str>,
}

impl<'r, 'f, 't> Reader<'r, 'f, 't> {
    /// Creates a reader for a table, and warns about unknown keys in it. A misplaced key for tenants is an error.
    pub(super) fn new(
        report: &'r mut Report<'f>,
        path: &'static str,
        table: &'t dyn TableLike,
    ) -> Self {
        Self::shown_as(report, path, Cow::Borrowed(path), table)
    }

    /// Creates a reader for a table whose name the user chose, e.g. `[agents.NAME]`; messages contain that name.
    pub(super) fn of_entry(
        report: &'r mut Report<'f>,
        path: &'static str,
        name: &str,
        table: &'t dyn TableLike,
    ) -> Self {
        Self::shown_as(report, path, Cow::Owned(path.replace('*', name)), table)
    }

    fn shown_as(
        report: &'r mut Report<'f>,
        path: &'static str,
        shown_path: Cow<'static, str>,
        table: &'t dyn TableLike,
    ) -> Self {
        for (name, item) in table.iter() {
            if key(path, name).is_some() {
                continue;
            }
            let place = if path.is_empty() { String::new() } else { format!(" in `{shown_path}`") };
            let what = format!("unknown key `{}`{place}", shown(name));
            let at = at(table, name, item);
            match tenants::remedy_for_misplaced(path, name) {
                Some(remedy) => report.error(at, what, Some(remedy)),
                // Do not search for the remedy of a warning that is not reported, because this takes long.
                None if !report.has_room(FindingSeverity::Warning) => {}
                None => report.warning(at, what, remedy_for_unknown_key(path, name)),
            }
        }
        Self { report, table, path, shown_path }
    }

    pub(super) fn item(&self, name: &str) -> Option<&'t Item> {
        self.table.get(name).filter(|item| !item.is_none())
    }

    /// Returns the position of a key, or 0 if it is absent.
    pub(super) fn at(&self, name: &str) -> usize {
        self.table.get(name).map_or(0, |item| at(self.table, name, item))
    }

    pub(super) fn error(&mut self, name: &str, what: impl AsRef<str>, remedy: Option<String>) {
        let at = self.at(name);
        self.report.error(at, format!("`{}` {}", self.shown(name), what.as_ref()), remedy);
    }

    fn shown(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.shown_path) }
    }

    fn checked(&mut self, name: &str) -> Option<Checked> {
        let kind = key(self.path, name)?.kind;
        let item = self.item(name)?;
        match check(item, kind) {
            Ok(checked) => {
                if let (KeyKind::Words(words), Checked::Texts(texts)) = (kind, &checked) {
                    self.likely_meant(name, texts, words);
                }
                Some(checked)
            }
            Err(wrong) => {
                let at = wrong.at.unwrap_or_else(|| self.at(name));
                let what = format!("`{}` {}", self.shown(name), wrong.what);
                self.report.error(at, what, wrong.remedy);
                None
            }
        }
    }

    /// Warns about each unknown word that is similar to a known word. Unknown words are accepted all the same.
    fn likely_meant(&mut self, name: &str, texts: &[String], words: &[&str]) {
        let is_unknown =
            |text: &&String| !words.contains(&text.as_str()) && !is_wildcard(name, text, words);
        for text in texts.iter().filter(is_unknown) {
            if let Some(near) = nearest(text, words.iter().copied()) {
                let what = format!("`{}` has the unknown word `{}`", self.shown(name), shown(text));
                let at = self.at(name);
                self.report.warning(at, what, Some(format!("did you mean `{near}`?")));
            }
        }
    }

    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        match self.checked(name)? {
            Checked::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns a URL. Reports a text that cannot be a URL; parts with `${…}` are not checked, because they are expanded
    /// later.
    pub(super) fn url(&mut self, name: &str) -> Option<String> {
        let url = self.text(name)?;
        if !addresses::can_be_url(&url) {
            let remedy = "begin with `https://` or `http://` and a host";
            self.error(name, "is not a URL", Some(addresses::url_remedy(&url, remedy)));
        }
        Some(url)
    }

    pub(super) fn texts(&mut self, name: &str) -> Vec<String> {
        match self.checked(name) {
            Some(Checked::Texts(texts)) => texts,
            _ => Vec::new(),
        }
    }

    pub(super) fn map(&mut self, name: &str) -> BTreeMap<String, String> {
        match self.checked(name) {
            Some(Checked::Map(map)) => map,
            _ => BTreeMap::new(),
        }
    }

    /// Returns the HTTP headers of the table. Reports headers that cannot be sent.
    pub(super) fn headers(&mut self) -> BTreeMap<String, String> {
        let headers = self.map("headers");
        self.check_headers(&headers);
        headers
    }

    /// Reports HTTP headers that cannot be sent.
    pub(super) fn check_headers(&mut self, headers: &BTreeMap<String, String>) {
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let is_wrong = |name: &&String| name.is_empty() || !name.bytes().all(token);
        if let Some(name) = headers.keys().find(is_wrong) {
            let what = format!("has the impossible name `{}`", shown(name));
            let remedy = "write letters, digits and `-`, e.g. `X-Api-Key`".to_owned();
            self.error("headers", what, Some(remedy));
        }
        if headers.values().any(|value| value.contains(['\r', '\n'])) {
            self.error("headers", "has a value of several lines", None);
        }
    }

    pub(super) fn number(&mut self, name: &str) -> Option<u64> {
        match self.checked(name)? {
            Checked::Number(number) => Some(number),
            _ => None,
        }
    }

    /// Returns the number in a key whose kind permits no number above `u32::MAX`.
    pub(super) fn small_number(&mut self, name: &str) -> Option<u32> {
        self.number(name).map(|number| u32::try_from(number).unwrap_or(u32::MAX))
    }

    pub(super) fn duration(&mut self, name: &str) -> Option<Duration> {
        match self.checked(name)? {
            Checked::Duration(duration) => Some(duration),
            _ => None,
        }
    }

    pub(super) fn durations(&mut self, name: &str) -> BTreeMap<String, Duration> {
        match self.checked(name) {
            Some(Checked::Durations(durations)) => durations,
            _ => BTreeMap::new(),
        }
    }

    pub(super) fn numbers(&mut self, name: &str) -> BTreeMap<String, u64> {
        match self.checked(name) {
            Some(Checked::Numbers(numbers)) => numbers,
            _ => BTreeMap::new(),
        }
    }

    pub(super) fn switch(&mut self, name: &str) -> Option<bool> {
        match self.checked(name)? {
            Checked::Switch(switch) => Some(switch),
            _ => None,
        }
    }

    /// Returns the words of a list, converted to their type.
    pub(super) fn words<T: for<'a> From<&'a str>>(&mut self, name: &str) -> Vec<T> {
        self.texts(name).iter().map(|word| T::from(word.as_str())).collect()
    }

    /// Returns the words of a table by their names, converted to their type.
    pub(super) fn word_map<T: for<'a> From<&'a str>>(&mut self, name: &str) -> BTreeMap<String, T> {
        self.map(name).into_iter().map(|(name, word)| (name, T::from(word.as_str()))).collect()
    }

    /// Returns the tables below a key, each with the name that the user chose. Reports entries that are not valid.
    ///
    /// `path` is the path of the keys in these tables, and `max` the maximum number of tables.
    pub(super) fn named_tables(
        &mut self,
        name: &str,
        path: &'static str,
        max: usize,
    ) -> Vec<(String, &'t dyn TableLike)> {
        let heading = path.replace('*', "NAME");
        let Some(item) = self.item(name) else { return Vec::new() };
        let Some(table) = item.as_table_like().filter(|table| table.len() <= max) else {
            let remedy = format!("write `[{heading}]` above each of them");
            self.error(name, format!("is not a table of up to {max} tables"), Some(remedy));
            return Vec::new();
        };
        let mut tables = Vec::new();
        for (own, item) in table.iter() {
            let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            let is_name = (1..=64).contains(&own.len()) && own.bytes().all(is_word);
            if let Some(entry) = item.as_table_like().filter(|_| is_name) {
                tables.push((own.to_owned(), entry));
            } else {
                let what = format!("has `{}`, which is not such a table", shown(own));
                let remedy = format!("write `[{heading}]`, with letters, digits, `_` and `-`");
                self.error(name, what, Some(remedy));
            }
        }
        tables
    }

    /// Returns a reader for a table below this table; `None` if it is absent. A value that is not a table is reported,
    /// and then treated as absent.
    pub(super) fn below(&mut self, name: &str, path: &'static str) -> Option<Reader<'_, 'f, 't>> {
        let item = self.item(name)?;
        if let Some(table) = item.as_table_like() {
            return Some(Reader::new(self.report, path, table));
        }
        let kind = key(self.path, name).map_or(KeyKind::Table, |key| key.kind);
        self.error(name, format!("is not {}", kind.name()), None);
        None
    }
}

/// Returns whether a word in a list of permissions is a wildcard that matches some of the known words, e.g.
/// `filesystem.*`.
fn is_wildcard(name: &str, text: &str, words: &[&str]) -> bool {
    let Some(begin) = text.strip_suffix('*') else { return false };
    let is_possible = match name {
        "permissions" => begin.is_empty() || begin.ends_with('.'),
        "auto_approve_except" => true,
        _ => false,
    };
    is_possible && words.iter().any(|word| word.starts_with(begin))
}

/// Returns the position of a key.
fn at(table: &dyn TableLike, name: &str, item: &Item) -> usize {
    let key = table.get_key_value(name).and_then(|(key, _)| key.span());
    key.or_else(|| item.span()).map_or(0, |span| span.start)
}
