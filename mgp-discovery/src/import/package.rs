//! Imports `server.json` of the official registry (MGP §15.2).
//!
//! The document comes from an untrusted author and becomes part of the user's configuration, in which a `${…}` may read
//! files and run commands. So every text of the document is escaped, and each remaining `${…}` was written by this
//! module.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use mgp_types::clip;
use serde_json::Value;

use super::host::Host;
use super::variables::{escaped, is_balanced, name_of};
use super::{Entry, Import, ImportError, ImportedServer};
use crate::config::limits;

/// A server that a registry publishes: the content of its `server.json`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PublishedServer {
    /// The full name of the server, e.g. `io.github.example/files`.
    pub name: String,
    /// The display name of the server.
    pub title: Option<String>,
    /// The description of the server.
    pub description: String,
    /// The version of the server.
    pub version: Option<String>,
    /// The URL of the server's web page, or else of its repository.
    pub url: Option<String>,
    /// `true` if the registry marks the server as deprecated or deleted.
    pub is_withdrawn: bool,
    /// `true` if the registry marks the server as deleted, e.g. because it is malware.
    pub is_deleted: bool,
    document: Value,
}

/// A bundle (`.mcpb`) that an entry of a registry names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublishedBundle {
    /// The URL of the bundle's file.
    pub url: String,
    /// The SHA-256 of the bundle's file, in hexadecimal.
    pub sha256: String,
}

/// A value that a published server needs from the user.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Need {
    /// The environment variable that contains the value, e.g. `GITHUB_TOKEN`.
    pub variable: String,
    /// The publisher's description of the value.
    pub description: String,
    /// `true` if the server does not work without the value.
    pub is_required: bool,
    /// `true` if the value must be kept secret.
    pub is_secret: bool,
    /// The value that is used if the user gives no answer.
    pub default: Option<String>,
    /// The permitted values; empty if every value is permitted.
    pub choices: Vec<String>,
    /// `true` if the user can give several values.
    pub is_list: bool,
}

/// The user's values for a published server, by variable; most variables have one value.
pub type Answers = BTreeMap<String, Vec<Answer>>;

/// A value for a variable, as it is written in `mgp.toml`.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer(pub(super) String);

mgp_types::opaque_debug!(Answer);

impl Answer {
    /// Creates an answer from a text; `${…}` in it has no special meaning.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self(escaped(text))
    }

    /// Creates an answer from a text whose `${…}` are expanded; such a text must come from the user.
    #[must_use]
    pub fn template(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Creates an answer that is read from the stored secret of this name.
    #[must_use]
    pub fn secret(name: &str) -> Self {
        Self(format!("${{keyring:{}}}", escaped(name)))
    }
}

impl PublishedServer {
    /// Parses a `server.json`, or an entry of a registry's response, whose member `server` is the `server.json`.
    ///
    /// # Errors
    /// Returns the reason why the value is not a `server.json`.
    pub fn new(entry: Value) -> Result<Self, String> {
        let is_deleted = has_status(&entry, "deleted");
        let is_withdrawn = is_withdrawn(&entry);
        let document = match entry {
            Value::Object(mut members) if members.get("server").is_some_and(Value::is_object) => {
                members.remove("server").unwrap_or_default()
            }
            entry => entry,
        };
        let name = text(&document, "name").filter(|name| !name.trim().is_empty());
        let name = name.ok_or("it has no `name`, so it is not a `server.json`")?.to_owned();
        let owned = |name: &str| text(&document, name).map(str::to_owned);
        let repository = text(&document["repository"], "url").map(str::to_owned);
        Ok(Self {
            name,
            title: owned("title"),
            description: owned("description").unwrap_or_default(),
            version: owned("version").filter(|version| !version.is_empty()),
            url: owned("websiteUrl").or(repository),
            is_withdrawn,
            is_deleted,
            document,
        })
    }

    /// Returns the `server.json`.
    #[must_use]
    pub fn document(&self) -> &Value {
        &self.document
    }

    /// Returns the values that the server needs from the user, in the order of the `server.json`.
    #[must_use]
    pub fn needs(&self) -> Vec<Need> {
        let mut reading = Reading::new(&NO_ANSWERS);
        reading.entry(&self.document);
        reading.needs
    }

    /// Returns the server as input for [`Plan::new`](super::Plan::new). `answers` has the user's values by variable. A
    /// required value with neither an answer nor a default is written as `${VARIABLE}`, which reads the environment.
    #[must_use]
    pub fn import(&self, answers: &Answers) -> Import {
        let mut import = Import {
            host: Host::Registry,
            source: Path::new(&self.name).to_owned(),
            servers: Vec::new(),
            refused: Vec::new(),
        };
        self.add_to(&mut import, answers);
        import
    }

    /// Returns the bundle for this system; `None` if the entry names no bundle, or has a package that can be started
    /// without a bundle.
    ///
    /// # Errors
    /// Returns the reason why the bundle cannot be used.
    pub fn bundle(&self) -> Result<Option<PublishedBundle>, String> {
        let packages = || list(&self.document, "packages").filter(|package| is_stdio(package));
        let mut reading = Reading::new(&NO_ANSWERS);
        if packages().any(|package| reading.program(package).is_some()) {
            return Ok(None);
        }
        let is_bundle = |package: &&Value| text(package, "registryType") == Some("mcpb");
        let mut bundles = packages().filter(is_bundle).peekable();
        if bundles.peek().is_none() {
            return Ok(None);
        }
        let url = |package| text(package, "identifier").filter(|url| is_for_here(url));
        let here = bundles.find_map(|package| Some((url(package)?.to_owned(), package)));
        let Some((url, package)) = here else {
            return Err("it has no bundle for this system".to_owned());
        };
        let sha256 = text(package, "fileSha256").filter(|sha256| sha256.len() == 64);
        let sha256 = sha256.ok_or("its bundle has no `fileSha256`, so its content is not known")?;
        Ok(Some(PublishedBundle { url, sha256: sha256.to_owned() }))
    }

    /// Returns whether the package always has the same content, because it is named by an exact version. Not exact are
    /// a range and a tag, which can mean another version later; a name that can also be an address; a container image
    /// without a digest; and any package if arguments of `npx`, `uvx` or `docker` can add packages or name another
    /// image.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        let mut reading = Reading::new(&NO_ANSWERS);
        reading.entry(&self.document).is_some() && reading.is_exact
    }

    /// Returns the texts that a person or a model reads: the title and the description, the descriptions of the needed
    /// values, and texts that the publisher added, e.g. a list of tools.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        let needs = self.needs().into_iter().map(|need| need.description);
        let own = self.title.clone().into_iter().chain([self.description.clone()]).chain(needs);
        let mut texts: Vec<String> = own.collect();
        add_texts(&self.document["_meta"], &mut texts);
        texts.retain(|text| !text.is_empty());
        texts
    }

    fn add_to(&self, import: &mut Import, answers: &Answers) {
        let mut reading = Reading::new(answers);
        let name = self.name.clone();
        match reading.entry(&self.document) {
            Some(mut entry) => {
                let version = self.version.as_deref().unwrap_or_default();
                entry.published = Some(format!("{name}@{version}"));
                let notes = reading.notes.into_values().collect();
                import.servers.push(ImportedServer { name, project: None, entry, notes });
            }
            None => import.refused.push(ImportError {
                name,
                project: None,
                why: self.option().map_or_else(
                    || "it has no package of npm, pypi or oci that is started over stdio, and no remote".to_owned(),
                    |option| format!("its package `{option}` would be an option of the program that starts packages"),
                ),
            }),
        }
    }

    /// Returns the name of the first package whose name begins with `-`.
    fn option(&self) -> Option<String> {
        let mut names = list(&self.document, "packages").filter_map(package_name);
        let option = names.find(|name| name.starts_with('-'))?;
        Some(clip(option, MAX_NAME))
    }
}

/// Returns whether a registry marks the server of this entry as deprecated or deleted.
pub(crate) fn is_withdrawn(entry: &Value) -> bool {
    has_status(entry, "deleted") || has_status(entry, "deprecated")
}

fn has_status(entry: &Value, status: &str) -> bool {
    let official = &entry["_meta"]["io.modelcontextprotocol.registry/official"];
    [official, &entry["server"]].iter().any(|place| text(place, "status") == Some(status))
}

/// Imports the first package that can be started, or, if none can, the first remote server.
pub(super) fn read(value: Value, import: &mut Import) -> Result<(), String> {
    PublishedServer::new(value)?.add_to(import, &NO_ANSWERS);
    Ok(())
}

pub(super) static NO_ANSWERS: Answers = BTreeMap::new();

/// The words in file names that indicate an operating system; [`PROCESSORS`] has the words for processors.
const SYSTEMS: &[(&str, &[&str])] = &[
    ("linux", &["linux"]),
    ("macos", &["darwin", "macos", "mac", "osx"]),
    ("windows", &["windows", "win32", "win", "win64"]),
];
const PROCESSORS: &[(&str, &[&str])] =
    &[("x86_64", &["x64", "x86_64", "amd64"]), ("aarch64", &["arm64", "aarch64"])];

/// Returns whether a file can be for this system and processor. For each of the two, the name of the file must contain
/// a matching word, or no word for another system or processor.
fn is_for_here(url: &str) -> bool {
    let name = url.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let is_named = |words: &[&str]| {
        name.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .any(|part| words.contains(&part))
    };
    let fits = |table: &[(&str, &[&str])], own: &str| {
        let others = table.iter().filter(|(system, _)| *system != own);
        let own = table.iter().find(|(system, _)| *system == own);
        own.is_some_and(|(_, words)| is_named(words))
            || !others.into_iter().any(|(_, words)| is_named(words))
    };
    fits(SYSTEMS, std::env::consts::OS) && fits(PROCESSORS, std::env::consts::ARCH)
}

/// The maximum length of a package's name in a refusal.
const MAX_NAME: usize = 60;

/// The maximum number of an entry's texts that are read; further texts of the publisher are ignored.
const MAX_TEXTS: usize = 1000;

fn add_texts(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) if texts.len() < MAX_TEXTS => texts.push(text.clone()),
        Value::Array(all) => all.iter().for_each(|value| add_texts(value, texts)),
        Value::Object(members) => members.values().for_each(|value| add_texts(value, texts)),
        _ => {}
    }
}

/// Returns whether a package's name and version always identify the same content. A tag or a range of versions can
/// change its meaning, and a `name` can be an address, a file or an option.
fn is_exact(kind: &str, name: &str, version: Option<&str>) -> bool {
    match kind {
        "npm" => is_npm_name(name) && version.is_some_and(is_npm_version),
        "pypi" => {
            let (name, extras) = match name.strip_suffix(']').and_then(|all| all.split_once('[')) {
                Some((name, extras)) => (name, extras),
                None => (name, ""),
            };
            is_word(name, b"._-")
                && (extras.is_empty() || is_word(extras, b"._-,"))
                && version.is_some_and(is_pypi_version)
        }
        _ => name.split_once("@sha256:").is_some_and(|(image, digest)| {
            let is_hex = digest.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_word(image, b"._-/:") && digest.len() == 64 && is_hex
        }),
    }
}

/// Returns whether a text consists of letters, digits and these further characters, and begins with a letter or digit.
fn is_word(text: &str, more: &[u8]) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || more.contains(&byte))
}

/// Returns whether `npm` interprets a text as the name of a package in its registry, not as a repository or a file.
fn is_npm_name(text: &str) -> bool {
    if let Some((scope, name)) = text.strip_prefix('@').and_then(|rest| rest.split_once('/')) {
        return is_word(scope, b"._~-") && is_word(name, b"._~-");
    }
    is_word(text, b"._~-") && !is_archive(text)
}

/// Returns whether `npm` interprets a name or a version as the path of an archive.
fn is_archive(text: &str) -> bool {
    // Accept any character in place of the second dot in `.tar.gz`, as `npm` does.
    matches!(
        text.to_ascii_lowercase().as_bytes(),
        [.., b'.', b't', b'a', b'r', _, b'g', b'z']
            | [.., b'.', b't', b'g', b'z']
            | [.., b'.', b't', b'a', b'r']
    )
}

/// Returns whether `npm` interprets a text as a single version, not as a tag, a range of versions or a file. A text
/// that is not a full version, e.g. `1.0.0_x`, can be a tag.
fn is_npm_version(text: &str) -> bool {
    let (rest, build) = text.split_once('+').unwrap_or((text, "0"));
    let (numbers, before) = rest.split_once('-').unwrap_or((rest, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(fits);
    numbers.split('.').count() == 3
        && numbers.split('.').all(is_number)
        && before.split('.').chain(build.split('.')).all(is_part)
        && !is_archive(text)
}

/// Returns whether a text is a single version of a package of `PyPI`, not a range of versions.
fn is_pypi_version(text: &str) -> bool {
    let mut parts = text.split('.');
    let is_digit_first = |part: &str| part.starts_with(|c: char| c.is_ascii_digit());
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-+!_".contains(&byte);
    text.bytes().all(plain) && is_digit_first(text) && parts.nth(2).is_none_or(is_digit_first)
}

/// Returns whether an argument of `npx` or `uvx` is a flag that does not change which packages run, unlike `--package`
/// and `--with`.
fn is_plain_flag(argument: &Value) -> bool {
    let is_plain = |text: &str| ["-y", "--yes", "-q", "--quiet"].contains(&text);
    let flag = text(argument, "name").filter(|_| text(argument, "type") == Some("named"));
    text(argument, "value").is_some_and(is_plain) && flag.is_none_or(is_plain)
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

fn is_set(value: &Value, name: &str) -> bool {
    value.get(name).and_then(Value::as_bool).unwrap_or_default()
}

fn is_sse(remote: &Value) -> bool {
    text(remote, "type").or_else(|| text(remote, "transport_type")) == Some("sse")
}

fn package_name(package: &Value) -> Option<&str> {
    text(package, "identifier").or_else(|| text(package, "name"))
}

/// Returns whether a package is served over standard input and output, which is the default if the package names no
/// transport.
fn is_stdio(package: &Value) -> bool {
    text(&package["transport"], "type").is_none_or(|transport| transport == "stdio")
}

/// The state while a `server.json` is read: the user's answers, and the collected needs and notes.
struct Reading<'a> {
    answers: &'a Answers,
    needs: Vec<Need>,
    /// The position of each variable in `needs`.
    places: HashMap<String, usize>,
    notes: BTreeMap<String, String>,
    /// `true` if the package that would be started is named by an exact version.
    is_exact: bool,
}

impl<'a> Reading<'a> {
    fn new(answers: &'a Answers) -> Self {
        let (needs, places, notes) = Default::default();
        Self { answers, needs, places, notes, is_exact: false }
    }

    fn entry(&mut self, document: &Value) -> Option<Entry> {
        let mut packages = list(document, "packages").filter(|package| is_stdio(package));
        let newer = list(document, "remotes").filter(|remote| !is_sse(remote));
        let mut remotes = newer.chain(list(document, "remotes").filter(|remote| is_sse(remote)));
        packages
            .find_map(|package| self.program(package))
            .or_else(|| remotes.find_map(|remote| self.place(remote)))
    }

    fn program(&mut self, package: &Value) -> Option<Entry> {
        let kind = text(package, "registryType").or_else(|| text(package, "registry_name"))?;
        let name = package_name(package)?;
        // Refuse a name that would be an option of the program that starts the package, e.g. `--call=…` of npx.
        if !["npm", "pypi", "oci", "docker"].contains(&kind) || name.starts_with('-') {
            return None;
        }
        let is_safe = |argument| ["npm", "pypi"].contains(&kind) && is_plain_flag(argument);
        self.is_exact = is_exact(kind, name, text(package, "version"))
            && list(package, "runtimeArguments").all(is_safe);
        let name = escaped(name);
        let version = text(package, "version").filter(|version| !version.is_empty()).map(escaped);
        // Do not add the version twice: some publishers also write it in the name, e.g. `weather@1.0.0` or
        // `weather==1.0.0`. But an `@` at the beginning belongs to a scope, as in `@acme/weather-1.0.0`.
        let is_versioned = name.rfind(['@', '=']).is_some_and(|at| at > 0);
        let with = |mark: &str| match &version {
            Some(version) if !(is_versioned && name.ends_with(version.as_str())) => {
                format!("{name}{mark}{version}")
            }
            _ => name.clone(),
        };
        let mut env = BTreeMap::new();
        let given = list(package, "environmentVariables");
        for variable in given.chain(list(package, "environment_variables")) {
            if let Some(name) = text(variable, "name") {
                env.insert(name.to_owned(), self.value(name, variable));
            }
        }
        let mut args = self.arguments(package, "runtimeArguments");
        let (command, own) = match kind {
            "npm" => {
                args.insert(0, "-y".into());
                ("npx", with("@"))
            }
            "pypi" => ("uvx", with("==")),
            _ => {
                args.splice(0..0, ["run", "-i", "--rm"].map(str::to_owned));
                // Pass each variable by name, because the container gets no other variables.
                args.extend(env.keys().flat_map(|name| ["-e".to_owned(), escaped(name)]));
                let has_tag = name.rsplit('/').next().is_some_and(|last| last.contains(':'));
                ("docker", if has_tag { name.clone() } else { with(":") })
            }
        };
        args.push(own.clone());
        args.extend(self.arguments(package, "packageArguments"));
        let (command, package) = (Some(command.into()), Some(own));
        Some(Entry { command, args, env, package, ..Entry::default() })
    }

    fn place(&mut self, remote: &Value) -> Option<Entry> {
        let url = self.filled(text(remote, "url")?, &remote["variables"]);
        let mut headers = BTreeMap::new();
        for header in list(remote, "headers") {
            if let Some(name) = text(header, "name") {
                headers.insert(name.to_owned(), self.value(name, header));
            }
        }
        let transport = is_sse(remote).then_some("sse");
        Some(Entry { url: Some(url), headers, transport, ..Entry::default() })
    }

    fn arguments(&mut self, package: &Value, key: &str) -> Vec<String> {
        let mut args = Vec::new();
        for argument in list(package, key) {
            let name = text(argument, "name");
            let hint = text(argument, "valueHint").or(name).unwrap_or("ARGUMENT");
            let fixed = text(argument, "value").or_else(|| text(argument, "default"));
            let variable = variable_name(hint.trim_start_matches('-'));
            let value = match fixed {
                Some(fixed) if text(argument, "value").is_some() => {
                    self.filled(fixed, &argument["variables"])
                }
                fixed => {
                    self.add_need(&variable, argument, fixed);
                    match fixed {
                        Some(default) => escaped(default),
                        None if is_set(argument, "isRequired") => {
                            if !self.answers.contains_key(&variable) {
                                let note = format!(
                                    "the argument `{hint}` is the variable `{variable}`; set it before you start"
                                );
                                self.notes.entry(variable.clone()).or_insert(note);
                            }
                            format!("${{{variable}}}")
                        }
                        None if self.answers.contains_key(&variable) => String::new(),
                        None => continue,
                    }
                }
            };
            let flag = name.filter(|_| text(argument, "type") == Some("named")).map(escaped);
            let answers = self.answers.get(&variable).filter(|_| text(argument, "value").is_none());
            let values = match answers {
                Some(answers) => answers.iter().map(|Answer(answer)| answer.clone()).collect(),
                None => vec![value],
            };
            for value in values {
                args.extend(flag.clone());
                args.push(value);
            }
        }
        args
    }

    /// Returns the value of a variable or header: its fixed value, else the user's answer, else a `${…}` for an
    /// environment variable.
    fn value(&mut self, name: &str, described: &Value) -> String {
        match text(described, "value") {
            Some(fixed) if fixed.contains('{') && described["variables"].is_object() => {
                self.filled(fixed, &described["variables"])
            }
            _ => self.plain_value(name, described),
        }
    }

    fn plain_value(&mut self, name: &str, described: &Value) -> String {
        match text(described, "value").filter(|fixed| !fixed.contains('{')) {
            Some(fixed) => escaped(fixed),
            None => self.wanted(&variable_name(name), described),
        }
    }

    /// Replaces each `{name}` in a template by the value of the variable `name`. The value is not a template itself,
    /// and a text that is too long for a value is not extended, so that a small document cannot become a huge text.
    fn filled(&mut self, template: &str, variables: &Value) -> String {
        let (mut out, mut rest) = (String::new(), template);
        while out.len() <= limits::MAX_VALUE_BYTES
            && let Some((before, after)) = rest.split_once('{')
            && let Some((name, after)) = after.split_once('}')
        {
            out.push_str(&escaped(before));
            match variables.get(name) {
                Some(described) => out.push_str(&self.plain_value(name, described)),
                None => out.push_str(&escaped(&format!("{{{name}}}"))),
            }
            rest = after;
        }
        out + &escaped(rest)
    }

    fn wanted(&mut self, variable: &str, described: &Value) -> String {
        let default = text(described, "default").filter(|default| is_balanced(default));
        self.add_need(variable, described, default);
        if let Some(Answer(answer)) = self.answers.get(variable).and_then(|all| all.first()) {
            return answer.clone();
        }
        match default {
            Some(default) => format!("${{{variable}:-{}}}", escaped(default)),
            None if is_set(described, "isRequired") => {
                let note = format!("it needs the variable `{variable}`; set it before you start");
                self.notes.entry(variable.to_owned()).or_insert(note);
                format!("${{{variable}}}")
            }
            None => format!("${{{variable}:-}}"),
        }
    }

    /// Adds a need, unless another place of the document already needs the same variable.
    fn add_need(&mut self, variable: &str, described: &Value, default: Option<&str>) {
        if let Some(need) = self.places.get(variable).and_then(|at| self.needs.get_mut(*at)) {
            need.is_required |= is_set(described, "isRequired");
            need.is_secret |= is_set(described, "isSecret");
            return;
        }
        self.places.insert(variable.to_owned(), self.needs.len());
        let choices = list(described, "choices").filter_map(Value::as_str).map(str::to_owned);
        self.needs.push(Need {
            variable: variable.to_owned(),
            description: text(described, "description").unwrap_or_default().to_owned(),
            is_required: is_set(described, "isRequired"),
            is_secret: is_set(described, "isSecret"),
            default: default.map(str::to_owned),
            choices: choices.collect(),
            is_list: is_set(described, "isRepeated"),
        });
    }
}

fn variable_name(name: &str) -> String {
    name_of(&name.to_ascii_uppercase())
}
