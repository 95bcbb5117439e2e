//! The kinds of things that an argument can refer to, and the names of arguments that suggest them.

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

/// Last words of argument names that mean free text, whose values are never treated as paths.
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

/// Last words of argument names that mean a property of a path or host, e.g. its type, and not the path or host itself.
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

/// Last words of argument names that can mean a path or a host.
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

/// Last words of argument names that always mean a path and never a URL.
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

/// Last words of argument names whose values select among the targets of the call, and name no other target.
const SELECTING: [&str; 8] =
    ["pattern", "patterns", "glob", "globs", "keyword", "keywords", "term", "terms"];

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
#[expect(clippy::struct_excessive_bools, reason = "independent properties of an argument")]
pub(super) struct Kinds {
    pub(super) bits: u8,
    pub(super) text: Text,
    /// `true` if the value is a path or a host, depending on its shape.
    pub(super) either: bool,
    pub(super) strict: bool,
    /// `true` if the value is a path even if it looks like a URL.
    pub(super) only_path: bool,
    /// `true` if a bare name in the value is not the name of a target: the value selects among targets, or is within
    /// the content that the call sends or stores.
    pub(super) no_bare_target: bool,
}

/// The way in which the shape of a value is taken into account; depends on the argument's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Text {
    /// The shape can indicate any kind.
    #[default]
    Shaped,
    /// The shape can indicate any kind, but a slash does not indicate a path.
    Slashed,
    /// The text is the name of a member: the shape can indicate any kind, but a slash or colon after a name does not
    /// indicate a host.
    Key,
    /// The shape is ignored, because the value is free text.
    Free,
}

impl Kinds {
    pub(super) fn has(self, about: About) -> bool {
        self.bits & about as u8 != 0
    }

    pub(super) fn and(mut self, about: About) -> Self {
        self.bits |= about as u8;
        self
    }

    /// Adds the kinds of targets that the schema of a value declares.
    pub(super) fn and_declared(self, targets: &[About]) -> Self {
        let is_either = targets.contains(&About::Host) && targets.contains(&About::Path);
        let mut kinds = targets.iter().copied().fold(self, Self::and);
        // If the name suggests a host, the schema cannot make the value a path, because the server writes the schema.
        kinds.either |= is_either && !self.has(About::Host);
        kinds
    }

    /// Returns the kinds that an argument name suggests.
    pub(super) fn of(name: &str) -> Self {
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
        kinds.no_bare_target = SELECTING.contains(&last);
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

    /// Returns the kinds that the name of a member suggests. If the declared name of the member differs, adds the kinds
    /// that the declared name suggests.
    pub(super) fn of_member(name: &str, known: Option<&str>) -> Self {
        let kinds = Self::of(name);
        let Some(known) = known.map(Self::of) else { return kinds };
        Self { bits: kinds.bits | known.bits, ..known }
    }
}

/// Returns the words of a name in lower case: `filePath`, `file_path` and `FILE-PATH2` all become `file`,
/// `path`.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = ' ';
    for letter in name.chars() {
        if letter.is_alphanumeric() {
            let begins =
                !before.is_alphanumeric() || before.is_lowercase() && letter.is_uppercase();
            // Convert to upper case first, because this turns `ſ` into `S`: a server that ignores case takes `addreſſ`
            // for `address`.
            let folded = letter.to_uppercase().flat_map(char::to_lowercase);
            match words.last_mut() {
                Some(word) if !begins => word.extend(folded),
                _ => words.push(folded.collect()),
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
