//! Splits a normalized text into words that can be compared with phrases.

use std::ops::Range;

use unicode_normalization::char::is_combining_mark;

/// A word of a text, with the properties that rules need.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent properties of a word")]
pub(super) struct Token {
    /// The word in lower case, without surrounding punctuation.
    pub(super) word: String,
    /// The word with digits, `$` and `@` replaced by the letters they resemble; `None` unless the word has letters and
    /// at least one of these.
    pub(super) plain: Option<String>,
    /// `true` if the word begins a sentence. A sentence can extend over several lines.
    pub(super) begins: bool,
    /// `true` if the word begins a line or a sentence.
    pub(super) starts: bool,
    /// `true` if an imperative can begin with the word: it is the first word of a sentence or clause, or follows a word
    /// such as `first` or `please`.
    pub(super) orders: bool,
    /// `true` if the word begins a clause.
    pub(super) clause: bool,
    /// `true` if the word is in the first sentence of a tool's description.
    pub(super) first: bool,
    /// `true` if the word is the name of a parameter or another member of the tool's own schemas.
    pub(super) is_member: bool,
    /// The byte range of the word in the normalized text.
    pub(super) range: Range<usize>,
}

impl Token {
    /// Returns whether the word equals `wanted`; a `*` at the end of `wanted` matches any ending.
    pub(super) fn is(&self, wanted: &str) -> bool {
        let fits = |word: &str| match wanted.strip_suffix('*') {
            Some(stem) => word.starts_with(stem),
            None => word == wanted,
        };
        fits(&self.word) || self.plain.as_deref().is_some_and(fits)
    }

    /// Returns the texts that the word can mean: the word as written, and the word with letters in place of digits.
    pub(super) fn spellings(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.word.as_str()).chain(self.plain.as_deref())
    }

    /// Returns whether the word looks like the name of a tool.
    pub(super) fn is_tool(&self) -> bool {
        let parts = self.word.split('_').filter(|part| !part.is_empty()).count();
        parts >= 2
            && !self.is_member
            && !self.is_value()
            && self.word.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '-'))
    }

    /// Returns whether the word looks like the name of a setting or value, e.g. `web_directory`, and does not begin
    /// with a verb as the names of tools do.
    fn is_value(&self) -> bool {
        let mut parts = self.word.split('_').filter(|part| !part.is_empty());
        let (first, last) = (parts.next(), parts.next_back());
        last.is_some_and(|last| VALUES.contains(&last))
            && first.is_some_and(|first| !VERBS.contains(&first))
    }

    pub(super) fn is_address(&self) -> bool {
        is_address(&self.word)
    }

    pub(super) fn is_path(&self) -> bool {
        is_path(&self.word)
    }

    pub(super) fn is_secret_file(&self) -> bool {
        is_secret_file(&self.word)
    }

    /// Returns whether the word looks like the name of a tool that sends data somewhere, runs commands or pays
    /// something.
    pub(super) fn is_sender(&self) -> bool {
        let has = |list: &[&str]| name_parts(&self.word).any(|part| list.contains(&part));
        let first = name_parts(&self.word).next().unwrap_or_default();
        self.is_tool() && (SENDERS.contains(&first) || has(CHANNELS)) && !has(HARMLESS)
    }

    /// Returns whether the word looks like the name of a tool for messages, contacts, secrets or other private data.
    pub(super) fn is_private(&self) -> bool {
        self.is_tool() && name_parts(&self.word).any(|part| PRIVATE.contains(&part))
    }

    /// Returns whether the word looks like the number of an account that receives payments: an IBAN, or an address of
    /// Ethereum.
    pub(super) fn is_account(&self) -> bool {
        let word = self.word.as_bytes();
        let is_hex = word.len() == 42
            && word.starts_with(b"0x")
            && word[2..].iter().all(u8::is_ascii_hexdigit);
        let is_iban = (15..=34).contains(&word.len())
            && word[..2].iter().all(u8::is_ascii_lowercase)
            && word[2..4].iter().all(u8::is_ascii_digit)
            && word[4..].iter().all(u8::is_ascii_alphanumeric);
        is_hex || is_iban
    }

    /// Returns whether the word looks like the name of an environment variable that contains a secret.
    pub(super) fn is_secret_variable(&self) -> bool {
        let Some((name, kind)) = self.word.rsplit_once('_') else { return false };
        let last = name.rsplit('_').next().unwrap_or(name);
        match kind {
            "secret" | "password" | "credentials" => true,
            // Keys and tokens with these names, e.g. `page_token`, identify rows and pages, so they are not secret.
            "key" | "token" => !PUBLIC_KEYS.contains(&last),
            _ => false,
        }
    }
}

/// Words that end the names of settings and values, e.g. `web_directory`. A name with such an ending does not count as
/// the name of a tool, unless it begins with one of [`VERBS`].
const VALUES: &[&str] = &[
    "directory",
    "dir",
    "path",
    "id",
    "ids",
    "name",
    "names",
    "type",
    "version",
    "vars",
    "size",
    "count",
    "limit",
    "mode",
    "format",
    "flag",
    "timeout",
    "params",
    "options",
    "enabled",
];

/// Verbs at the beginning of tool names. A name that begins with one of them is a tool even if it ends like the name of
/// a value, e.g. `get_user_id`.
const VERBS: &[&str] = &[
    "get", "set", "list", "create", "find", "search", "read", "write", "update", "delete",
    "remove", "resolve", "fetch", "send", "add", "run", "call", "check", "make", "change",
    "rename", "lookup", "query", "convert", "detect",
];

/// Verbs at the beginning of the names of tools that send, run or pay something. Many tools need a file that
/// `upload_file` uploads, so `upload` is not one of them.
const SENDERS: &[&str] = &["send", "post", "forward", "publish", "transfer", "pay", "exec"];

/// Words in the names of tools that send data or run commands, in any position.
const CHANNELS: &[&str] = &[
    "mail", "email", "gmail", "smtp", "http", "https", "webhook", "curl", "shell", "bash",
    "command",
];

/// Words in the names of tools that only read messages, write drafts, send a code to the user, or ask for a state.
const HARMLESS: &[&str] = &[
    "otp",
    "code",
    "verification",
    "reset",
    "status",
    "list",
    "search",
    "read",
    "find",
    "draft",
    "output",
];

/// Words in the names of tools for private data.
const PRIVATE: &[&str] = &[
    "mail",
    "mails",
    "email",
    "emails",
    "gmail",
    "inbox",
    "message",
    "messages",
    "chat",
    "chats",
    "calendar",
    "contact",
    "contacts",
    "vault",
    "password",
    "passwords",
    "secret",
    "secrets",
    "credential",
    "credentials",
    "keychain",
    "clipboard",
    "memory",
    "memories",
    "env",
];

/// Returns the parts of a tool's name.
fn name_parts(name: &str) -> impl Iterator<Item = &str> {
    name.split(['_', '.', '-']).filter(|part| !part.is_empty())
}

/// The words before `_key` and `_token` in names of values that are not secret.
const PUBLIC_KEYS: &[&str] = &[
    "attachment",
    "board",
    "cache",
    "collection",
    "composite",
    "continuation",
    "cursor",
    "dedup",
    "document",
    "entity",
    "epic",
    "field",
    "file",
    "filter",
    "foreign",
    "group",
    "idempotency",
    "index",
    "issue",
    "item",
    "library",
    "lookup",
    "map",
    "max",
    "next",
    "node",
    "object",
    "page",
    "pagination",
    "parent",
    "partition",
    "prev",
    "previous",
    "primary",
    "project",
    "public",
    "query",
    "range",
    "record",
    "resource",
    "row",
    "s3",
    "shard",
    "sort",
    "space",
    "storage",
    "sync",
    "table",
    "tag",
    "team",
    "unique",
];

/// Returns whether a word is a destination for data, e.g. a mail address or URL.
fn is_address(word: &str) -> bool {
    let mail =
        word.split_once('@').is_some_and(|(name, host)| !name.is_empty() && host.contains('.'));
    let schemes = ["http://", "https://", "ftp://", "ws://", "wss://", "hxxp"];
    mail || schemes.iter().any(|scheme| word.contains(scheme))
}

/// Returns whether a word is the path of a system file or of a user's file.
fn is_path(word: &str) -> bool {
    ["~/", "/etc/", "/home/", "/root/", "/var/", "/proc/", "/users/", "$home", "c:/", "%appdata%"]
        .iter()
        .any(|start| word.starts_with(start))
}

/// Returns whether a word is the name of a file that usually contains secrets.
fn is_secret_file(word: &str) -> bool {
    const SECRET: &str = ".ssh id_rsa id_ed25519 id_ecdsa authorized_keys /etc/passwd etc/shadow \
        .aws/ .gnupg .netrc .npmrc .pypirc .kube/config .git-credentials .docker/config mcp.json \
        bash_history zsh_history credentials.json cookies.sqlite keychain claude_desktop_config \
        /proc/self/environ .cursor/ .config/gcloud secrets.y";
    // Most words consist of letters only, and of such words only these name a file with secrets.
    if word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return word == "pem" || word.contains("keychain");
    }
    SECRET.split_ascii_whitespace().any(|name| word.contains(name))
        || [".env", "wallet.dat", "login data"].contains(&word)
        || word.ends_with("/.env")
        || word.split('.').next_back() == Some("pem")
}

/// Words after which an imperative can follow within a sentence.
const ORDERING: &str = "first then also and please kindly always must should to now just silently \
    immediately secretly quietly additionally shall you need never afterwards so assistant ai \
    model agent llm next finally simply instead again or will bitte immer zuerst dann und \
    siempre primero luego y toujours dabord ensuite et veuillez sempre e altijd eerst zawsze \
    najpierw всегда сначала обязательно";

/// Words that cannot end a sentence, e.g. articles.
const OPEN_ENDS: &str = "a an the all any every each your our their its this these those my no \
    previous prior earlier preceding and or but to of for from with without in on by at into as \
    than that not must should shall will please always never ignore disregard forget override \
    bypass send reveal alle allen die der das den dem des ein eine einen deine ihre alle \
    vorherigen und oder von mit zu ignoriere les des le la un une toutes tous vos de du et ou à \
    ignorez ignore los las el todas todos tus sus y o ignora ignore os as todas todos e gli le \
    tutte tutti ignora";

/// Words with which no sentence begins.
const OPEN_STARTS: &str = "and or of than und oder et ou y o e ed";

/// The part of a definition that a text comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The text comes from the description of the tool.
    Description,
    /// The text comes from any other part of the definition.
    Elsewhere,
}

/// Splits a normalized text into words.
pub(super) fn tokens(text: &str, place: Place) -> Vec<Token> {
    let mut words: Vec<Part> = Vec::new();
    let mut letters = Letters::default();
    let mut clause = true;
    let (mut above, mut has_gap) = ("", false);
    for line in text.lines() {
        if line.trim().is_empty() {
            has_gap = true;
            continue;
        }
        let is_joined = !std::mem::take(&mut has_gap) || is_unfinished(above, line);
        let mut begins = !(is_joined && continues(above, line));
        let mut starts = true;
        let mut wide = true;
        above = line;
        for chunk in line.split(' ') {
            if chunk.is_empty() {
                wide = true;
                continue;
            }
            let ends = chunk
                .trim_end_matches(['"', '\'', '`', ')', '*', '”', '»'])
                .ends_with(['.', '!', '?', ';', '。'])
                && !["e.g.", "i.e."].contains(&chunk.trim_start_matches('('));
            let stops =
                ends || chunk.ends_with([',', ':', '-', '–', '—', ')']) || chunk.starts_with('(');
            let start = chunk.as_ptr() as usize - text.as_ptr() as usize;
            for word in parts(chunk) {
                let range = start..start + chunk.len();
                let part = Part { word, begins, starts, clause: starts || clause, range };
                (begins, starts, clause) = (false, false, false);
                let Some(part) = letters.take(part, wide) else {
                    wide = false;
                    continue;
                };
                letters.flush(&mut words);
                words.push(part);
            }
            wide = false;
            begins |= ends;
            starts |= ends;
            clause |= stops;
        }
        letters.flush(&mut words);
    }
    completed(words, place)
}

/// Adds the properties of words that depend on the words before them.
fn completed(words: Vec<Part>, place: Place) -> Vec<Token> {
    let mut before: Option<String> = None;
    let mut sentences = usize::from(place == Place::Elsewhere);
    words
        .into_iter()
        .map(|Part { word, begins, starts, clause, range }| {
            sentences += usize::from(starts);
            let is_ordering = |word: &str| ORDERING.split(' ').any(|known| known == word);
            let ordered = before.as_deref().is_some_and(is_ordering);
            before = Some(word.clone());
            let plain = without_digits(&word);
            Token {
                plain,
                begins,
                starts,
                orders: starts || clause || ordered,
                clause,
                first: sentences <= 1,
                word,
                range,
                is_member: false,
            }
        })
        .collect()
}

/// Returns whether a line continues the sentence of the line above, as in wrapped text. A new sentence begins after a
/// mark that ends a sentence, and with a label, e.g. `path: the file` or `path (text): the file`.
fn continues(above: &str, line: &str) -> bool {
    let above = above.trim().trim_end_matches(['"', '\'', '`', ')', '*', '”', '»']);
    let is_text = above.contains(char::is_alphanumeric);
    if !is_text || above.ends_with(['.', '!', '?', ';', ':', '。']) {
        return false;
    }
    let mut chunks =
        line.split_whitespace().skip_while(|chunk| !chunk.contains(char::is_alphanumeric));
    let Some(first) = chunks.next() else { return false };
    let has_type = |chunk: &str| chunk.starts_with('(') && chunk.ends_with(':');
    !first.ends_with(':') && !chunks.next().is_some_and(has_type)
}

/// Returns whether a sentence continues across a blank line: the text above ends with a word that needs another word
/// after it, or the line below begins with a word that needs another word before it.
fn is_unfinished(above: &str, line: &str) -> bool {
    let bare = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    let is_among = |words: &str, word: &str| words.split(' ').any(|known| known == word);
    above.split_whitespace().next_back().is_some_and(|last| is_among(OPEN_ENDS, &bare(last)))
        || line.split_whitespace().next().is_some_and(|first| is_among(OPEN_STARTS, &bare(first)))
}

/// A word with its position, before it is completed to a [`Token`].
struct Part {
    word: String,
    begins: bool,
    starts: bool,
    clause: bool,
    range: Range<usize>,
}

/// A collector of single letters that are separated by blanks but form a word together, e.g. `i g n o r e`.
#[derive(Default)]
struct Letters {
    parts: Vec<(Part, bool)>,
}

impl Letters {
    /// The minimum number of consecutive single letters that are joined to form a word.
    const MIN: usize = 4;

    /// Collects the part if it is a single letter; returns any other part unchanged.
    fn take(&mut self, part: Part, wide: bool) -> Option<Part> {
        let mut chars = part.word.chars();
        if !(chars.next().is_some_and(char::is_alphabetic) && chars.next().is_none()) {
            return Some(part);
        }
        self.parts.push((part, wide));
        None
    }

    fn flush(&mut self, words: &mut Vec<Part>) {
        let parts = std::mem::take(&mut self.parts);
        let joins = parts.len() >= Self::MIN;
        for (index, (part, wide)) in parts.into_iter().enumerate() {
            match words.last_mut() {
                Some(word) if joins && index > 0 && !wide => {
                    word.word.push_str(&part.word);
                    word.range.end = part.range.end;
                }
                _ => {
                    let begins = part.begins && index == 0;
                    let starts = part.starts && index == 0;
                    let clause = index == 0 && (joins || part.clause);
                    words.push(Part { begins, starts, clause, ..part });
                }
            }
        }
    }
}

/// Splits a chunk of text without blanks into words.
fn parts(chunk: &str) -> Vec<String> {
    let trimmed = trim(chunk);
    if trimmed.is_empty() {
        return Vec::new();
    }
    let separated: Vec<&str> = trimmed.split(['.', '-', '_', '*', '·', '|']).collect();
    if separated.len() >= Letters::MIN && separated.iter().all(|part| part.chars().count() == 1) {
        return vec![separated.concat()];
    }
    if is_address(trimmed) || is_secret_file(trimmed) || is_path(trimmed) {
        return vec![trimmed.to_owned()];
    }
    trimmed
        .split(|c: char| {
            !(c.is_alphanumeric()
                // Scripts such as Devanagari write a part of their letters as marks.
                || is_combining_mark(c)
                || matches!(c, '_' | '.' | '-' | '\'' | '’' | '@' | '~' | '$'))
        })
        .flat_map(|part| part.split("--"))
        .map(|part| trim(part).replace(['\'', '’'], ""))
        .filter(|part| !part.is_empty())
        .collect()
}

fn trim(text: &str) -> &str {
    let front = text.trim_start_matches(|c: char| {
        !(c.is_alphanumeric() || matches!(c, '~' | '.' | '/' | '_' | '$' | '@'))
    });
    front.trim_end_matches(|c: char| {
        !(c.is_alphanumeric() || is_combining_mark(c) || matches!(c, '/' | '_'))
    })
}

/// Returns the word with digits, `$` and `@` replaced by the letters they resemble; `None` unless the word has letters
/// and at least one of these.
fn without_digits(word: &str) -> Option<String> {
    let has = |test: fn(&char) -> bool| word.chars().any(|c| test(&c));
    if !has(char::is_ascii_alphabetic)
        || !(has(char::is_ascii_digit) || has(|c| matches!(c, '$' | '@')))
    {
        return None;
    }
    Some(
        word.chars()
            .map(|c| match c {
                '0' => 'o',
                '1' => 'i',
                '3' => 'e',
                '4' | '@' => 'a',
                '5' | '$' => 's',
                '7' => 't',
                c => c,
            })
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::super::plain::plain_text;
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let words: Vec<_> = tokens(&plain_text(text), Place::Elsewhere)
            .into_iter()
            .map(|token| token.word)
            .collect();
        assert_eq!(words, expected);
    }

    #[test]
    fn one_word_has_one_spelling() {
        check("Don't IGNORE `read_file`!", &["dont", "ignore", "read_file"]);
        check("Ｉｇｎｏｒｅ 𝗮𝗹𝗹", &["ignore", "all"]);
        check("ign\u{43e}re &#105;t", &["ignore", "it"]);
        check("i g n o r e  a l l x", &["ignore", "allx"]);
        check("i.g.n.o.r.e (read ~/.ssh/id_rsa)", &["ignore", "read", "~/.ssh/id_rsa"]);
        check("read/write, e.g. a@b.example", &["read", "write", "e.g", "a@b.example"]);
    }

    #[test]
    fn a_sentence_extends_over_wrapped_lines() {
        let begins = |text: &str| -> Vec<bool> {
            let words = tokens(text, Place::Elsewhere);
            words.iter().filter(|word| word.starts).map(|word| word.begins).collect()
        };
        assert_eq!(begins("take all of\nthem. next one\n\nlast one"), [true, false, true, true]);
        assert_eq!(begins("a take of it"), [true]);
        assert_eq!(begins("take all\n \n\nthem\n\nof it"), [true, false, false]);
        assert_eq!(begins("- take all\n- of them"), [true, false]);
        assert_eq!(begins("take all\n---\nof them"), [true, true]);
        assert_eq!(begins("some inputs\npath: of it\nname (text): of it"), [true, true, true]);
    }

    #[test]
    fn a_file_with_secrets_is_known_by_its_name() {
        for name in ["keychain", "keychains", "pem", "a.pem", ".env", "~/.ssh/config", "id_rsa"] {
            assert!(is_secret_file(name), "{name}");
        }
        for name in ["chain", "password", "env", "a.json", "ключ"] {
            assert!(!is_secret_file(name), "{name}");
        }
    }

    #[test]
    fn digits_are_read_as_letters() {
        assert!(tokens("1gn0re", Place::Elsewhere)[0].is("ignore"));
        assert!(tokens("instruct1ons", Place::Elsewhere)[0].is("instruction*"));
    }
}
