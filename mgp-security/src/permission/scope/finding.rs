//! Detection of arguments that are paths, hosts, commands and so on, by their names and by the shape of their values.
//!
//! If it is doubtful whether an argument is subject to limits, it is checked as if it were.

use super::declared::Declared;
use super::kinds::{About, Kinds, Text, words};
use super::tree::Node;
use super::{Outside, host, path, shown};

/// Words that suggest, in the description of an argument, that the argument is a host.
const HOST_WORDS: [&str; 26] = [
    "host",
    "hosts",
    "hostname",
    "domain",
    "domains",
    "server",
    "servers",
    "url",
    "urls",
    "uri",
    "address",
    "addresses",
    "endpoint",
    "site",
    "website",
    "proxy",
    "gateway",
    "relay",
    "dns",
    "ip",
    "webhook",
    "network",
    "remote",
    "upstream",
    "mirror",
    "registry",
];

/// Words that suggest, in the description of an argument, that the argument is a file.
const PATH_WORDS: [&str; 20] = [
    "file",
    "files",
    "filename",
    "filenames",
    "path",
    "paths",
    "folder",
    "folders",
    "directory",
    "directories",
    "dir",
    "document",
    "documents",
    "attachment",
    "script",
    "template",
    "database",
    "archive",
    "image",
    "location",
];

/// A value among the arguments, with the kinds that its name and shape suggest.
#[derive(Debug)]
struct Item {
    name: String,
    kinds: Kinds,
    /// The text of the value; `None` if the value is not a string.
    text: Option<String>,
    /// `false` if the tool does not declare the argument.
    is_declared: bool,
}

/// A text that might be a path.
#[derive(Debug)]
pub(super) struct PathText<'a> {
    pub(super) text: &'a str,
    /// `true` if the argument's name allows only a path.
    pub(super) is_named: bool,
    /// `false` if the tool does not declare the argument.
    pub(super) is_declared: bool,
}

/// A command in the form in which it was passed.
#[derive(Debug)]
pub(super) enum Command {
    /// The value is a whole command line.
    Line(String),
    /// The value is a list of words.
    Words(Vec<String>),
}

/// All values in the arguments that are subject to limits.
#[derive(Debug, Default)]
pub(super) struct Findings {
    items: Vec<Item>,
    pub(super) commands: Vec<Command>,
    /// `true` if the tool declares an argument that is a command.
    pub(super) declares_command: bool,
    /// All strings that are not commands, except free text.
    pub(super) others: Vec<String>,
    /// `true` if there is a boolean, or a number that is not a time limit.
    pub(super) has_other_values: bool,
    /// The time limits among the arguments, each with its name and its value in milliseconds; `None` if the value
    /// cannot be read.
    pub(super) times: Vec<(String, Option<u64>)>,
    /// `true` if the tool declares an argument that limits the time.
    pub(super) declares_time: bool,
    pub(super) ports: Vec<Option<u16>>,
    /// The arguments that may be targets of a kind although neither their names nor their values show it; each with the
    /// kind and the argument's name.
    pub(super) doubts: Vec<(About, String)>,
}

impl Findings {
    /// Collects the values of a call's arguments that are subject to limits.
    ///
    /// # Errors
    /// [`Outside`] if the arguments cannot be parsed.
    pub(super) fn of(arguments: &str, declared: &Declared<'_>) -> Result<Self, Outside> {
        let mut findings = Self::default();
        findings.walk("", &Node::read(arguments)?, Kinds::default(), declared)?;
        Ok(findings)
    }

    /// Returns the strings of one kind, e.g. all hosts.
    ///
    /// # Errors
    /// [`Outside`] if a value of this kind is not a string.
    pub(super) fn texts(&self, about: About) -> Result<Vec<&str>, Outside> {
        let found = self.items.iter().filter(|item| item.kinds.has(about));
        let texts = found.map(|item| item.text.as_deref().ok_or(&item.name));
        let texts: Result<_, _> = texts.collect();
        texts.map_err(|name: &String| format!("`{}` should be a text, and is not", shown(name)))
    }

    /// Returns the strings that might be paths.
    ///
    /// # Errors
    /// [`Outside`] if a value of this kind is not a string.
    pub(super) fn paths(&self) -> Result<Vec<PathText<'_>>, Outside> {
        let texts = self.texts(About::Path)?;
        let found = self.items.iter().filter(|item| item.kinds.has(About::Path));
        let path = |(text, item): (_, &Item)| PathText {
            text,
            is_named: item.kinds.only_path,
            is_declared: item.is_declared,
        };
        Ok(texts.into_iter().zip(found).map(path).collect())
    }

    /// Returns whether the tool declares an argument that belongs to a kind.
    pub(super) fn declares(&self, about: About) -> bool {
        self.items.iter().any(|item| item.kinds.has(about) && item.is_declared)
    }

    /// Returns whether any argument belongs to a kind.
    pub(super) fn any(&self, about: About) -> bool {
        self.items.iter().any(|item| item.kinds.has(about))
    }

    /// Refuses calls with a command or code among their arguments, because these could access anything; `what` names
    /// the limit in the error message.
    pub(super) fn nothing_runs(&self, what: &str) -> Result<(), Outside> {
        if self.commands.is_empty() && !self.any(About::Code) {
            return Ok(());
        }
        Err(format!(
            "only some {what} are allowed, and those that a command or code uses are not known"
        ))
    }

    fn walk(
        &mut self,
        name: &str,
        node: &Node,
        kinds: Kinds,
        declared: &Declared<'_>,
    ) -> Result<(), Outside> {
        let is_declared = declared.is_declared();
        match node {
            Node::Null => {}
            Node::Bool => self.has_other_values = true,
            Node::Number(number) => self.number(name, *number, kinds, is_declared),
            Node::Text(text) => {
                let kinds = kinds.and_declared(&declared.targets());
                self.text(name, text, kinds, is_declared);
            }
            Node::Array(items) => {
                if kinds.has(About::Command) && !name.ends_with('s') {
                    self.commands.push(Command::Words(argv(name, items)?));
                    self.declares_command |= is_declared;
                    return Ok(());
                }
                let inner = declared.item();
                // The description of a list also describes its items, so use both schemas.
                let described = declared.with(&inner);
                for item in items {
                    self.note_doubts(name, item, kinds, &described);
                    self.walk(name, item, kinds, &inner)?;
                }
            }
            Node::Object(members) => {
                if kinds.has(About::Environment) {
                    let name = name.to_owned();
                    self.items.push(Item { name, kinds, text: None, is_declared });
                }
                let targets = declared.name_targets();
                let own = members.iter().fold(0, |bits, (name, _)| bits | Kinds::of(name).bits);
                for (name, member) in members {
                    let (inner, known) = declared.member(name);
                    let mut of_name = Kinds::of_member(name, known);
                    of_name.no_bare_target |= kinds.no_bare_target || kinds.text == Text::Free;
                    if of_name.text != Text::Free {
                        // The kinds that the outer name suggests also apply to the inner values, except kinds that an
                        // inner name suggests itself.
                        of_name.bits |= kinds.bits & !own;
                    }
                    self.name_of_member(name, &targets, inner.is_declared());
                    self.note_doubts(name, member, of_name, &inner);
                    self.walk(known.unwrap_or(name), member, of_name, &inner)?;
                }
            }
        }
        Ok(())
    }

    /// Checks the name of a member like a value, because some objects use paths as names.
    fn name_of_member(&mut self, name: &str, targets: &[About], is_declared: bool) {
        let key = Kinds { text: Text::Key, ..Kinds::default() }.and_declared(targets);
        let kinds = by_shape(name, key);
        if kinds.bits != 0 {
            let text = Some(name.to_owned());
            self.items.push(Item { name: name.to_owned(), kinds, text, is_declared });
        }
    }

    fn number(&mut self, name: &str, number: f64, mut kinds: Kinds, is_declared: bool) {
        let words = words(name);
        if let Some(unit) = unit(&words) {
            self.times.push((name.to_owned(), whole(number * unit)));
            self.declares_time |= is_declared;
        } else {
            self.has_other_values = true;
        }
        if kinds.has(About::Port) {
            self.ports.push(whole(number).and_then(|port| u16::try_from(port).ok()));
        }
        if !kinds.strict {
            kinds.bits &= !(About::Path as u8 | About::Host as u8 | About::Port as u8);
        }
        self.items.push(Item { name: name.to_owned(), kinds, text: None, is_declared });
    }

    fn note_doubts(&mut self, name: &str, node: &Node, kinds: Kinds, declared: &Declared<'_>) {
        let Node::Text(text) = node else { return };
        let text = text.trim();
        if kinds.bits != 0
            || kinds.text != Text::Shaped
            || kinds.no_bare_target
            || !declared.targets().is_empty()
        {
            return;
        }
        if host::is_bare_name(text) && declared.may_name(&HOST_WORDS) {
            self.doubts.push((About::Host, name.to_owned()));
        }
        if path::is_bare_name(text) && declared.may_name(&PATH_WORDS) {
            self.doubts.push((About::Path, name.to_owned()));
        }
    }

    fn text(&mut self, name: &str, text: &str, kinds: Kinds, is_declared: bool) {
        if unit(&words(name)).is_some() {
            self.times.push((name.to_owned(), None));
            self.declares_time |= is_declared;
        }
        if kinds.has(About::Port) {
            self.ports.push(text.parse().ok());
        }
        let is_free = kinds.text == Text::Free;
        let has_shape = !is_free || path::is_file_url(text);
        let kinds = if has_shape { by_shape(text, kinds) } else { kinds };
        if kinds.has(About::Command) {
            self.commands.push(Command::Line(text.to_owned()));
            self.declares_command |= is_declared;
        } else if !is_free {
            self.others.push(text.to_owned());
        }
        let (name, text) = (name.to_owned(), Some(text.to_owned()));
        self.items.push(Item { name, kinds, text, is_declared });
    }
}

fn argv(name: &str, items: &[Node]) -> Result<Vec<String>, Outside> {
    let word = |item: &Node| match item {
        Node::Text(text) => Ok(text.clone()),
        Node::Number(number) => Ok(number.to_string()),
        _ => Err(format!("`{}` is not a command that can be read", shown(name))),
    };
    items.iter().map(word).collect()
}

/// Adds the kinds that the shape of a text suggests.
fn by_shape(text: &str, mut kinds: Kinds) -> Kinds {
    // Clients ignore line breaks in URLs. The shape of any other text of several lines suggests nothing.
    let joined = text.replace(['\t', '\n', '\r'], "");
    let is_broken = text.trim().contains('\n');
    let text = joined.trim();
    if text.is_empty() || is_broken && !host::begins_as_url(text) {
        return kinds;
    }
    let lower = text.get(..5).unwrap_or(text).to_ascii_lowercase();
    let is_file = lower == "file:";
    let is_drive =
        matches!(text.as_bytes(), [letter, b':', b'/' | b'\\', ..] if letter.is_ascii_alphabetic());
    let begins = ["/", "~", "./", ".\\", "\\"].iter().any(|mark| text.starts_with(mark));
    let climbs = text.split(['/', '\\']).any(|part| part == "..");
    let encoded = || {
        let lower = text.to_ascii_lowercase();
        ["%2f", "%5c", "%2e", "%25"].iter().any(|mark| lower.contains(mark))
    };
    let is_address = !is_file && text.contains("://");
    let has_slash = kinds.text != Text::Slashed && !is_address && text.contains(['/', '\\']);
    if is_file || is_drive || has_slash || begins || climbs || text.contains('%') && encoded() {
        kinds = kinds.and(About::Path);
    }
    // A slash or colon after a name indicates a host only if the argument can be one.
    let can_be_place = kinds.either || kinds.text == Text::Shaped && !kinds.only_path;
    let is_place = can_be_place && host::is_name_with_more(text);
    if is_address || is_place || !is_file && host::has_form(text) {
        kinds = kinds.and(About::Host);
    } else if kinds.either && (is_file || is_drive || begins) {
        kinds.bits &= !(About::Host as u8);
    }
    kinds
}

/// Returns the length, in milliseconds, of the time unit with which an argument's name ends. A name without a known
/// unit counts as seconds. Returns `None` if the name is not that of a time limit.
fn unit(words: &[String]) -> Option<f64> {
    let [.., last] = words else { return None };
    let has = |name: &str| words.iter().any(|word| word == name);
    let is_time = has("timeout")
        || has("time") && (has("max") || has("limit") || has("execution"))
        || has("duration");
    if !is_time {
        return None;
    }
    Some(match last.as_str() {
        "ms" | "millis" | "milliseconds" => 1.0,
        "minutes" | "min" | "mins" => 60_000.0,
        "hours" => 3_600_000.0,
        _ => 1000.0,
    })
}

/// Converts a number to an integer, rounded up; `None` if it is negative, too large or not a number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it was looked at before"
)]
fn whole(number: f64) -> Option<u64> {
    (0.0..9e15).contains(&number).then(|| number.ceil() as u64)
}
