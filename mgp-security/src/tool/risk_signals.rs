//! Signals of risk in the name and the arguments of a tool, independent of what its server claims (MGP §4).
//!
//! Signals only make an assessment stricter: they add a needed permission, or cause a hint to be ignored.

use std::collections::BTreeMap;

use mgp_types::mcp;
use mgp_types::mgp::{Permission, RiskLevel, Validator};
use serde_json::Value;

use super::words::{self, any, words};

/// The risk signals of a tool, from its name and parameters.
#[derive(Debug, Default)]
pub(super) struct RiskSignals {
    /// The permissions that a call probably needs.
    pub(super) permissions: Vec<Permission>,
    /// `true` if the tool probably changes something; then `readOnlyHint: true` is ignored.
    pub(super) changes: bool,
    /// `true` if the tool probably destroys something or could do anything; then `destructiveHint: false` is ignored.
    pub(super) destroys: bool,
    /// The validators that fit the arguments (§4.5).
    pub(super) validators: Vec<Validator>,
}

/// The arguments that a tool's schema declares.
#[derive(Default)]
struct Arguments {
    /// The words of each argument name.
    names: Vec<Vec<String>>,
    /// The words of those argument names whose arguments are not booleans; a boolean contains neither content nor a
    /// path.
    values: Vec<Vec<String>>,
    formats: Vec<String>,
    /// `true` if all arguments are numbers.
    numbers: bool,
    /// `true` if the schema of an argument marks it as a URL or a host, whatever its name is.
    targets: bool,
    /// `true` if a name is so long that it was not read to its end.
    is_cut: bool,
}

impl RiskSignals {
    /// Finds the signals in a definition.
    pub(super) fn of(tool: &mcp::Tool) -> Self {
        let name = words(&tool.name);
        let Ok(schema) = tool.input_schema.get::<Value>() else {
            return Self { changes: true, destroys: true, ..Self::default() };
        };
        let mut arguments = Arguments { numbers: true, ..Arguments::default() };
        arguments.read_schema(schema);

        let looks = words::begins_with_reading(&name) || words::opens_data(&name);
        let verb = |word: &String| {
            words::CHANGES.contains(&word.as_str())
                || !looks && words::MAY_CHANGE.contains(&word.as_str())
        };
        let verbs: Vec<String> = name.iter().filter(|word| verb(word)).cloned().collect();
        // `add` with only numbers as arguments is arithmetic; with other arguments, e.g. a user, it changes something.
        let adds = any(&name, &["add"]) && !looks && !arguments.numbers;
        let writes = !verbs.is_empty() || adds;

        let permissions = needed(&name, &arguments, writes);
        let runs = arguments.any(words::COMMAND) || arguments.any(words::SHELL);
        let anything = runs || arguments.code() || arguments.any(&["sql"]);
        // The word lists are English, so a name with other letters is never assumed to be harmless. Neither is a name
        // that was not read to its end.
        let odd = !tool.name.is_ascii() || tool.name.len() > words::MAX_NAME || arguments.is_cut;
        let harmless = |permission: &Permission| {
            matches!(
                permission,
                Permission::FilesystemRead
                    | Permission::NetworkOutbound
                    | Permission::MemoryRead
                    | Permission::SystemInfo
            )
        };
        Self {
            changes: odd
                || writes
                || anything
                || arguments.content()
                || !permissions.iter().all(harmless),
            destroys: odd || anything || any(&verbs, words::DESTROYS),
            permissions,
            validators: arguments.validators(&name),
        }
    }

    /// Returns the lowest risk that the tool can have because of the signals, whatever the server declares.
    pub(super) fn risk(&self) -> RiskLevel {
        match (self.destroys, self.changes) {
            (true, _) => RiskLevel::Dangerous,
            (false, true) => RiskLevel::Moderate,
            (false, false) => RiskLevel::Safe,
        }
    }
}

/// The kind of network target that an argument contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlaceKind {
    Url,
    Host,
}

/// Returns the kind of network target that the schema of an argument declares: by its format, by a URL as an example,
/// or with the first words of its description. Returns `None` if it declares no target.
pub(super) fn target_of(property: &Value) -> Option<PlaceKind> {
    let text = |member: &str| property.get(member).and_then(Value::as_str);
    match text("format").unwrap_or_default().to_ascii_lowercase().as_str() {
        "uri" | "url" | "iri" => return Some(PlaceKind::Url),
        "hostname" | "idn-hostname" | "ipv4" | "ipv6" => return Some(PlaceKind::Host),
        _ => {}
    }
    let is_url = |text: &str| text.starts_with("http://") || text.starts_with("https://");
    let example = ["const", "default", "example"].into_iter().find_map(text);
    let examples = property.get("examples").and_then(|all| all.get(0)).and_then(Value::as_str);
    let described = text("description").map(words).unwrap_or_default();
    let named = described.iter().take(4).any(|word| matches!(word.as_str(), "url" | "hostname"));
    (example.or(examples).is_some_and(is_url) || named).then_some(PlaceKind::Url)
}

/// Returns whether the schema of an argument allows only booleans, and perhaps `null`.
fn is_boolean(property: &Value) -> bool {
    let is_allowed = |kind: &Value| matches!(kind.as_str(), Some("boolean" | "null"));
    match (property.get("type"), property.get("anyOf")) {
        (Some(Value::Array(kinds)), _) => !kinds.is_empty() && kinds.iter().all(is_allowed),
        (Some(kind), _) => kind == "boolean",
        (None, Some(Value::Array(options))) => {
            !options.is_empty()
                && options.iter().all(|option| option.get("type").is_some_and(is_allowed))
        }
        _ => false,
    }
}

/// Removes the definitions from the root of a schema, and returns them with their keys, e.g. `$defs/point`.
fn take_definitions(schema: &mut Value) -> BTreeMap<String, Value> {
    let mut definitions = BTreeMap::new();
    for keyword in ["$defs", "definitions"] {
        if let Some(Value::Object(named)) = schema.get_mut(keyword) {
            let named = std::mem::take(named).into_iter();
            definitions.extend(named.map(|(name, part)| (format!("{keyword}/{name}"), part)));
        }
    }
    definitions
}

fn for_each_reference(schema: &Value, found: &mut impl FnMut(&str)) {
    match schema {
        Value::Object(members) => {
            for (member, value) in members {
                let refers = matches!(member.as_str(), "$ref" | "$dynamicRef" | "$recursiveRef");
                match value {
                    Value::String(reference) if refers => found(reference),
                    value => for_each_reference(value, found),
                }
            }
        }
        Value::Array(parts) => parts.iter().for_each(|part| for_each_reference(part, found)),
        _ => {}
    }
}

/// Returns the first two names of the path of a reference, e.g. `$defs/point` for `#/$defs/point/properties/x`. Returns
/// `None` if the reference can lead to any definition.
fn definition_key(reference: &str) -> Option<String> {
    let path = reference.strip_prefix("#/").filter(|path| !path.contains(['%', '~']))?;
    let (keyword, rest) = path.split_once('/')?;
    let name = rest.split_once('/').map_or(rest, |(name, _)| name);
    Some(format!("{keyword}/{name}"))
}

/// Returns whether the name of a tool suggests that it runs something.
pub(super) fn runs(name: &str) -> bool {
    any(&words(name), words::RUNS)
}

/// Returns the permissions that a name and arguments suggest.
fn needed(name: &[String], arguments: &Arguments, writes: bool) -> Vec<Permission> {
    let mut needed = Vec::new();
    let mut need = |permission, speaks: bool| {
        if speaks {
            needed.push(permission);
        }
    };
    let files = any(name, words::FILES) || arguments.any_value(words::FILES) || arguments.path();
    let writes_files = files && (writes || arguments.content());
    need(Permission::FilesystemRead, files && !writes_files);
    need(Permission::FilesystemWrite, writes_files);
    need(
        Permission::NetworkOutbound,
        any(name, words::NETWORK) || arguments.any(words::PLACES) || arguments.place(),
    );
    need(Permission::NetworkListen, any(name, &["listen", "serve"]) && arguments.any(&["port"]));
    let runs = any(name, words::RUNS);
    need(
        Permission::ShellExecute,
        any(name, words::SHELL)
            || arguments.any(words::COMMAND)
            || arguments.any(words::SHELL)
            || runs && any(name, words::COMMAND)
            || runs && any(name, &["process", "program", "binary"])
            || name == ["exec"],
    );
    need(
        Permission::CodeExecution,
        any(name, words::CODE) || arguments.code() || runs && any(name, &["code", "notebook"]),
    );
    let memory = any(name, words::MEMORY);
    let memorises = memory && (writes || any(name, words::MEMORISES));
    need(Permission::MemoryRead, memory && !memorises);
    need(Permission::MemoryWrite, memorises);
    need(Permission::SystemInfo, any(name, words::SYSTEM));
    let shows_page = any(name, words::PAGE) || arguments.any(words::PAGE);
    need(
        Permission::Camera,
        any(name, words::CAMERA) || any(name, words::SCREENSHOT) && !shows_page,
    );
    need(Permission::Notification, any(name, words::NOTIFIES));
    needed
}

impl Arguments {
    /// Returns the validators that can judge the arguments of a tool of this name.
    fn validators(&self, name: &[String]) -> Vec<Validator> {
        let runs_code = any(name, words::RUNS) || any(name, words::CODE);
        // An argument `uri` may contain a local identifier, e.g. `file:///x`, so it counts as a network target only if
        // the name of the tool suggests that the tool uses the network.
        let is_target = |word: &str| {
            words::URL.contains(&word) || word.starts_with("uri") && any(name, words::NETWORK)
        };
        let ends_in = |is: &dyn Fn(&str) -> bool| {
            self.names.iter().any(|argument| argument.last().is_some_and(|word| is(word)))
        };
        let chosen = [
            (Validator::Sandbox, ends_in(&|word| words::COMMAND.contains(&word))),
            (Validator::CodeSafety, runs_code && self.code()),
            (Validator::NetworkRestricted, ends_in(&is_target) || self.targets),
        ];
        chosen.into_iter().filter(|(_, fits)| *fits).map(|(validator, _)| validator).collect()
    }

    /// Collects the properties of a schema and of the definitions that it uses.
    ///
    /// Some servers attach all definitions of an OpenAPI document to each tool. The definitions that a tool does not
    /// use describe none of its arguments.
    fn read_schema(&mut self, mut schema: Value) {
        let mut definitions = take_definitions(&mut schema);
        let mut parts = vec![schema];
        while let Some(part) = parts.pop() {
            self.read(&part);
            for_each_reference(&part, &mut |reference: &str| match definition_key(reference) {
                Some(key) => parts.extend(definitions.remove(&key)),
                None => parts.extend(std::mem::take(&mut definitions).into_values()),
            });
        }
    }

    /// Collects the properties of a schema and of its subschemas.
    fn read(&mut self, schema: &Value) {
        match schema {
            Value::Object(members) => {
                for (member, value) in members {
                    if member == "properties"
                        && let Value::Object(properties) = value
                    {
                        properties.iter().for_each(|(name, property)| self.add(name, property));
                    }
                    self.read(value);
                }
            }
            Value::Array(parts) => parts.iter().for_each(|part| self.read(part)),
            _ => {}
        }
    }

    fn add(&mut self, name: &str, property: &Value) {
        self.is_cut |= name.len() > words::MAX_NAME;
        let words = words(name);
        // A URI can be a local identifier, e.g. `file:///x`, so it does not count as a target.
        let is_identifier = words.last().is_some_and(|word| word.starts_with("uri"));
        self.targets |= !is_identifier && target_of(property).is_some();
        if !is_boolean(property) {
            self.values.push(words.clone());
        }
        self.names.push(words);
        let text = |member| property.get(member).and_then(Value::as_str);
        self.formats.extend(text("format").map(str::to_ascii_lowercase));
        self.numbers &= matches!(text("type"), Some("number" | "integer"));
    }

    fn any(&self, list: &[&str]) -> bool {
        self.names.iter().any(|name| any(name, list))
    }

    fn any_value(&self, list: &[&str]) -> bool {
        self.values.iter().any(|name| any(name, list))
    }

    /// Returns whether an argument has content for something that the tool changes, e.g. `content` and `body_html`, but
    /// not e.g. `content_id` and `content_type`.
    fn content(&self) -> bool {
        let describes = |name: &[String]| {
            name.last().is_some_and(|last| words::DESCRIPTIONS.contains(&last.as_str()))
        };
        self.values.iter().any(|name| any(name, words::CONTENT) && !describes(name))
    }

    /// Returns whether an argument is program code: `code` alone or with a language, but not e.g. `country_code`.
    fn code(&self) -> bool {
        let languages = ["source", "program", "snippet"];
        self.names.iter().any(|name| {
            any(name, words::CODE)
                || name == &["code"]
                || any(name, &["code"]) && any(name, &languages)
        })
    }

    fn path(&self) -> bool {
        self.formats.iter().any(|format| matches!(format.as_str(), "path" | "file-path"))
    }

    fn place(&self) -> bool {
        let places = [
            "uri",
            "uri-reference",
            "url",
            "iri",
            "iri-reference",
            "hostname",
            "idn-hostname",
            "ipv4",
            "ipv6",
        ];
        self.formats.iter().any(|format| places.contains(&format.as_str()))
    }
}
