//! Detection of arguments that are paths, hosts, commands and so on, by their names and by the shape of their values.
//!
//! If it is doubtful whether an argument is subject to limits, it is checked as if it were.

use super::declared::Declared;
use super::tree::Node;
use super::{Outside, host, path, shown};

/// The kinds of things that an argument can refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum About {
    Path = 1,
    Host = 2,
    Command = 4,
    Code = 8,
    Language = 16,
    Port = 32,
    Environment = 64,
}

const ALL: [(About, &[&str]); 8] = [
    (About::Path, &ONLY_PATH),
    (
        About::Path,
        &[
            "workspace",
            "repo",
            "repository",
            "archive",
            "src",
            "source",
            "sources",
            "dst",
            "dest",
            "destination",
            "from",
            "to",
        ],
    ),
    (
        About::Host,
        &[
            "host",
            "hosts",
            "hostname",
            "hostnames",
            "url",
            "urls",
            "uri",
            "uris",
            "href",
            "link",
            "links",
            "endpoint",
            "endpoints",
            "domain",
            "domains",
            "ip",
            "address",
            "addresses",
            "addr",
            "origin",
            "server",
            "proxy",
            "site",
            "website",
            "webhook",
        ],
    ),
    (
        About::Command,
        &[
            "command",
            "commands",
            "cmd",
            "cmds",
            "commandline",
            "argv",
            "program",
            "executable",
            "exec",
            "shell",
            "binary",
            "run",
        ],
    ),
    (About::Code, &["code", "script", "scripts", "snippet", "eval", "expression"]),
    (About::Language, &["language", "languages", "lang", "langs", "interpreter", "runtime"]),
    (About::Port, &["port", "ports"]),
    (About::Environment, &["env", "environment"]),
];

/// Last words of argument names that stand for free text, whose values are never treated as paths.
const CONTENT: [&str; 15] = [
    "content",
    "contents",
    "text",
    "body",
    "message",
    "description",
    "comment",
    "title",
    "prompt",
    "str",
    "string",
    "replacement",
    "reason",
    "subject",
    "explanation",
];

/// Last words of argument names that stand for a property of a path or host, e.g. its type, and not for the path or
/// host itself.
const ABOUT_IT: [&str; 14] = [
    "type",
    "types",
    "size",
    "mode",
    "encoding",
    "format",
    "count",
    "limit",
    "depth",
    "lines",
    "id",
    "version",
    "extension",
    "data",
];

/// Last words of argument names that can stand for a path or a host.
const EITHER: [&str; 21] = [
    "target",
    "targets",
    "output",
    "outputs",
    "out",
    "outfile",
    "outdir",
    "input",
    "inputs",
    "infile",
    "location",
    "locations",
    "root",
    "base",
    "basedir",
    "remote",
    "upstream",
    "mirror",
    "dst",
    "dest",
    "destination",
];

/// Last words of argument names that always stand for a path and never for a URL.
const ONLY_PATH: [&str; 18] = [
    "path",
    "paths",
    "file",
    "files",
    "filename",
    "filenames",
    "filepath",
    "filepaths",
    "dir",
    "dirs",
    "directory",
    "directories",
    "folder",
    "folders",
    "cwd",
    "pwd",
    "workdir",
    "symlink",
];

/// Last words of argument names for search terms, in which a slash does not indicate a path.
const SEARCHED: [&str; 5] = ["query", "q", "search", "regex", "regexp"];

/// Last words of argument names whose values are checked even if they are numbers, e.g. file descriptors or numeric
/// addresses.
const STRICT: [&str; 18] = [
    "path",
    "file",
    "filename",
    "filepath",
    "dir",
    "directory",
    "folder",
    "cwd",
    "host",
    "hostname",
    "url",
    "uri",
    "ip",
    "address",
    "addr",
    "domain",
    "command",
    "cmd",
];

/// The kinds of one argument, as a set of flags.
#[derive(Clone, Copy, Debug, Default)]
struct Kinds {
    bits: u8,
    text: Text,
    /// `true` if the value is a path or a host, depending on its shape.
    either: bool,
    strict: bool,
    /// `true` if the value is a path even if it looks like a URL.
    only_path: bool,
}

/// The way in which the shape of a value is taken into account; depends on the argument's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Text {
    /// The shape can indicate any kind.
    #[default]
    Shaped,
    /// The shape can indicate any kind, but a slash does not indicate a path.
    Slashed,
    /// The text is the name of a member: the shape can indicate any kind, but a slash or colon behind a name does not
    /// indicate a host.
    Key,
    /// The shape is ignored, because the value is free text.
    Free,
}

impl Kinds {
    fn has(self, about: About) -> bool {
        self.bits & about as u8 != 0
    }

    fn and(mut self, about: About) -> Self {
        self.bits |= about as u8;
        self
    }

    /// Adds the kinds of targets that the schema of a value declares.
    fn and_declared(self, targets: &[About]) -> Self {
        let is_either = targets.contains(&About::Host) && targets.contains(&About::Path);
        let mut kinds = targets.iter().copied().fold(self, Self::and);
        // If the name suggests a host, the schema cannot make the value a path, because the server writes the schema.
        kinds.either |= is_either && !self.has(About::Host);
        kinds
    }

    /// Returns the kinds that an argument name suggests.
    fn of(name: &str) -> Self {
        let words = words(name);
        let Some(last) = words.last().map(String::as_str) else { return Self::default() };
        let mut kinds = Self::default();
        let bare = words.len() == 1;
        let about_it = ABOUT_IT.contains(&last) && !bare;
        if CONTENT.contains(&last) {
            kinds.text = Text::Free;
        } else if about_it || SEARCHED.contains(&last) {
            kinds.text = Text::Slashed;
        }
        if kinds.text == Text::Free || about_it {
            return kinds;
        }
        kinds.strict = STRICT.contains(&last);
        kinds.only_path = ONLY_PATH.contains(&last);
        for (about, names) in ALL {
            // For these kinds only the last word of the name counts: `zip_file` is a file and not a program, and
            // `command_timeout` is not a command.
            let by_last = matches!(about, About::Command | About::Code | About::Port);
            let found = if by_last {
                names.contains(&last)
            } else {
                words.iter().any(|word| names.contains(&word.as_str()))
            };
            if found {
                kinds = kinds.and(about);
            }
        }
        kinds.either = EITHER.contains(&last);
        if kinds.either {
            kinds = kinds.and(About::Path).and(About::Host);
        }
        kinds
    }

    /// Returns the kinds that the name of a member suggests, and also those of the declared name, if it differs.
    fn of_member(name: &str, known: Option<&str>) -> Self {
        let kinds = Self::of(name);
        let Some(known) = known.map(Self::of) else { return kinds };
        Self { bits: kinds.bits | known.bits, ..known }
    }
}

/// Returns the words of a name in lower case: `filePath`, `file_path` and `FILE-PATH2` all become `file`,
/// `path`.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = ' ';
    for letter in name.chars() {
        if letter.is_alphanumeric() {
            let begins =
                !before.is_alphanumeric() || before.is_lowercase() && letter.is_uppercase();
            match words.last_mut() {
                Some(word) if !begins => word.extend(letter.to_lowercase()),
                _ => words.push(letter.to_lowercase().collect()),
            }
        }
        before = letter;
    }
    // Remove trailing digits: `path2` is a path too.
    for word in &mut words {
        word.truncate(word.trim_end_matches(|digit: char| digit.is_ascii_digit()).len());
    }
    words.retain(|word| !word.is_empty());
    words
}

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
                let declared = declared.item();
                for item in items {
                    self.walk(name, item, kinds, &declared)?;
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
                    if of_name.text != Text::Free {
                        // The kinds of the outer name also apply to the inner values, except kinds that any of the
                        // inner names suggests itself.
                        of_name.bits |= kinds.bits & !own;
                    }
                    // The names of members are checked, too, because some objects use paths as names.
                    let key = Kinds { text: Text::Key, ..Kinds::default() }.and_declared(&targets);
                    let key = by_shape(name, key);
                    if key.bits != 0 {
                        self.items.push(Item {
                            name: name.clone(),
                            kinds: key,
                            text: Some(name.clone()),
                            is_declared: inner.is_declared(),
                        });
                    }
                    self.walk(known.unwrap_or(name), member, of_name, &inner)?;
                }
            }
        }
        Ok(())
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
    // A slash or colon behind a name indicates a host only if the argument can be one.
    let can_be_place = kinds.either || kinds.text == Text::Shaped && !kinds.only_path;
    let is_place = can_be_place && host::is_name_with_more(text);
    if is_address || is_place || !is_file && host::has_form(text) {
        kinds = kinds.and(About::Host);
    } else if kinds.either && (is_file || is_drive || begins) {
        kinds.bits &= !(About::Host as u8);
    }
    kinds
}

/// Returns the length of the time unit at the end of an argument's name, in milliseconds. A name without a known unit
/// counts as seconds. Returns `None` if the name is not that of a time limit.
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
