//! The words in the names of tools and arguments, and what they suggest about tools that declare nothing (MGP §4).
//!
//! The lists are short on purpose: they contain only verbs and nouns that servers use in practice.

/// The maximum length, in bytes, of a name that is read to its end.
pub(super) const MAX_NAME: usize = 1024;

/// Splits a name into lower-case words: `deleteFile`, `delete_file`, `delete-file` and `deletefile` all become
/// `delete`, `file`. Only the first characters of a name that is longer than [`MAX_NAME`] are read.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let letters: Vec<char> = name.chars().take(MAX_NAME).collect();
    for (index, &letter) in letters.iter().enumerate() {
        let before = index.checked_sub(1).map(|index| letters[index]);
        let after = letters.get(index + 1);
        // `readURLNow` has three words: an upper-case letter begins a word after a lower-case letter, or before one.
        let begins = letter.is_ascii_uppercase()
            && (before
                .is_some_and(|before| before.is_ascii_lowercase() || before.is_ascii_digit())
                || before.is_some_and(|before| before.is_ascii_uppercase())
                    && after.is_some_and(char::is_ascii_lowercase));
        if begins || !letter.is_ascii_alphabetic() {
            finish(&mut words, &mut word);
        }
        if letter.is_ascii_alphabetic() {
            word.push(letter.to_ascii_lowercase());
        }
    }
    finish(&mut words, &mut word);
    words
}

/// Adds a completed word. If it is a verb and an object written together, it is split into two words.
fn finish(words: &mut Vec<String>, word: &mut String) {
    let word = std::mem::take(word);
    if word.is_empty() {
        return;
    }
    let parts = [READS, CHANGES, MAY_CHANGE].into_iter().flatten().find_map(|&verb| {
        let thing = word.strip_prefix(verb)?;
        GLUED.contains(&thing).then(|| [verb.to_owned(), thing.to_owned()])
    });
    match parts {
        Some(parts) => words.extend(parts),
        None => words.push(word),
    }
}

pub(super) fn any(words: &[String], list: &[&str]) -> bool {
    words.iter().any(|word| list.contains(&word.as_str()))
}

/// Returns whether a name begins with a verb for reading, possibly after prefixes, e.g. `API-get-user`.
pub(super) fn begins_with_reading(name: &[String]) -> bool {
    let verb = name.iter().find(|word| !PREFIXES.contains(&word.as_str()));
    verb.is_some_and(|verb| READS.contains(&verb.as_str()))
}

/// Returns whether a name means that data is opened for reading, e.g. `open_nodes`; `open_issue` and `open_door` change
/// something instead.
pub(super) fn opens_data(name: &[String]) -> bool {
    let [verb, things @ ..] = name else { return false };
    let is_data = |thing: &String| DATA.contains(&thing.as_str());
    verb == "open" && !things.is_empty() && things.iter().all(is_data)
}

/// Nouns for data that is opened in order to read it.
const DATA: &[&str] = &[
    "node",
    "nodes",
    "entity",
    "entities",
    "graph",
    "file",
    "files",
    "document",
    "documents",
    "doc",
    "docs",
    "note",
    "notes",
    "memory",
    "memories",
];

/// Verbs for reading. In a name that begins with one of them, the words of [`MAY_CHANGE`] count as nouns.
pub(super) const READS: &[&str] = &[
    "get", "list", "read", "search", "find", "fetch", "show", "describe", "count", "query",
    "check", "view", "lookup", "is", "has", "status", "retrieve",
];

/// Words before the verb for reading that do not change its meaning: servers made from OpenAPI documents prefix their
/// names (`API-get-user`), and long searches run in the background (`start_search`).
const PREFIXES: &[&str] = &["api", "start"];

/// Verbs that change something, in any position of a name.
pub(super) const CHANGES: &[&str] = &[
    "write",
    "delete",
    "remove",
    "exec",
    "execute",
    "send",
    "create",
    "insert",
    "drop",
    "kill",
    "erase",
    "destroy",
    "purge",
    "wipe",
    "truncate",
    "overwrite",
    "modify",
    "edit",
    "rename",
    "upload",
    "install",
    "uninstall",
    "publish",
    "deploy",
    "spawn",
    "terminate",
    "shutdown",
    "reboot",
    "mkdir",
    "rmdir",
    "rm",
    "chmod",
    "chown",
    "upsert",
    "append",
    "eval",
    "sudo",
    "unlink",
    "shell",
    "bash",
    "powershell",
    "mv",
    "cp",
    "alter",
];

/// Words that are verbs of changing in some names, and nouns in other names.
pub(super) const MAY_CHANGE: &[&str] = &[
    "run",
    "update",
    "set",
    "put",
    "post",
    "patch",
    "save",
    "store",
    "move",
    "copy",
    "replace",
    "start",
    "stop",
    "restart",
    "trigger",
    "commit",
    "push",
    "merge",
    "pay",
    "buy",
    "transfer",
    "order",
    "book",
    "approve",
    "grant",
    "revoke",
    "assign",
    "archive",
    "restore",
    "reset",
    "clear",
    "register",
    "unregister",
    "enable",
    "disable",
    "cancel",
    "close",
    "reply",
    "forward",
    "notify",
    "schedule",
    "submit",
    "import",
    "lock",
    "unlock",
    "click",
    "press",
    "fill",
    "drag",
    "flush",
    "apply",
    "launch",
    "sign",
    "invoke",
    "call",
    "touch",
    "checkout",
    "share",
    "invite",
    "ban",
    "block",
    "subscribe",
    "unsubscribe",
    "change",
    "migrate",
    "sync",
    "download",
    "remember",
    "forget",
    "open",
    "make",
];

/// Verbs of [`CHANGES`] and [`MAY_CHANGE`] that destroy something or can do anything.
pub(super) const DESTROYS: &[&str] = &[
    "delete",
    "remove",
    "drop",
    "erase",
    "destroy",
    "purge",
    "wipe",
    "truncate",
    "overwrite",
    "kill",
    "terminate",
    "rm",
    "rmdir",
    "unlink",
    "uninstall",
    "exec",
    "execute",
    "run",
    "eval",
    "shell",
    "bash",
    "powershell",
    "sudo",
    "spawn",
    "shutdown",
    "reboot",
    "reset",
    "clear",
    "replace",
    "forget",
    "flush",
    "revoke",
];

/// Nouns that some names write together with the verb, e.g. `deletefile`.
const GLUED: &[&str] = &[
    "file",
    "files",
    "folder",
    "dir",
    "directory",
    "command",
    "cmd",
    "code",
    "script",
    "shell",
    "user",
    "data",
    "all",
    "record",
    "table",
    "row",
    "message",
    "mail",
    "email",
    "memory",
    "url",
    "process",
];

/// Words for files.
pub(super) const FILES: &[&str] = &[
    "path",
    "paths",
    "file",
    "files",
    "filepath",
    "filename",
    "directory",
    "directories",
    "dir",
    "folder",
    "folders",
    "filesystem",
];

/// Words for content that is written into a file.
pub(super) const CONTENT: &[&str] =
    &["content", "contents", "body", "patch", "diff", "edit", "edits"];

/// Last words of arguments that identify or describe content, and do not contain it.
pub(super) const DESCRIPTIONS: &[&str] = &[
    "id", "ids", "type", "types", "format", "formats", "length", "size", "limit", "hash",
    "language",
];

/// Words for network addresses.
pub(super) const PLACES: &[&str] =
    &["url", "urls", "uri", "uris", "host", "hosts", "hostname", "endpoint", "webhook", "href"];

/// Words for the address of a request.
pub(super) const URL: &[&str] = &["url", "urls", "endpoint", "webhook", "href"];

/// Words that suggest a network tool.
pub(super) const NETWORK: &[&str] = &[
    "fetch", "http", "https", "download", "upload", "curl", "wget", "web", "url", "browse",
    "browser", "crawl", "scrape", "webhook", "email", "smtp", "ftp", "ssh", "internet",
];

/// Names of shells.
pub(super) const SHELL: &[&str] =
    &["shell", "bash", "powershell", "terminal", "subprocess", "sudo"];

/// Words for the input of a shell.
pub(super) const COMMAND: &[&str] = &["command", "commands", "cmd", "argv"];

/// Verbs that run something.
pub(super) const RUNS: &[&str] = &["run", "exec", "execute", "invoke", "launch", "spawn", "start"];

/// Programming languages and words for interpreters.
pub(super) const CODE: &[&str] =
    &["python", "javascript", "js", "typescript", "repl", "interpreter", "eval", "script"];

/// Words for data that is stored to be recalled later.
pub(super) const MEMORY: &[&str] =
    &["memory", "memories", "knowledge", "remember", "recall", "forget"];

/// Verbs that change the data in a memory.
pub(super) const MEMORISES: &[&str] = &["remember", "forget", "add", "learn"];

/// Words for cameras.
pub(super) const CAMERA: &[&str] = &["camera", "webcam"];

/// Words for pictures of a screen; such a picture can show as much of the user as a camera.
pub(super) const SCREENSHOT: &[&str] = &["screenshot", "screenshots"];

/// Words that mean that a screenshot shows a page in a browser, and not the user's screen.
pub(super) const PAGE: &[&str] = &["browser", "page", "selector", "puppeteer", "playwright"];

/// Words for notifications to the user.
pub(super) const NOTIFIES: &[&str] = &["notify", "notification", "notifications", "toast"];

/// Words for information about the system.
pub(super) const SYSTEM: &[&str] = &["sysinfo", "uptime", "cpu", "env", "environment", "processes"];
