//! Splitting of a normalized text into words that can be compared with phrases.

/// A word of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// The word in lower case, without surrounding punctuation.
    pub(super) word: String,
    /// The word with digits replaced by the letters they resemble; `None` unless it has both digits and letters.
    plain: Option<String>,
    /// `true` if the word begins a sentence.
    pub(super) begins: bool,
    /// `true` if the word may give an order: it begins a sentence or clause, or follows a word such as `first` or
    /// `please`.
    pub(super) orders: bool,
    /// `true` if the word is in the first sentence of a tool's description.
    pub(super) first: bool,
}

impl Token {
    /// Returns whether the word equals the wanted one; a final `*` in `wanted` matches any ending.
    pub(super) fn is(&self, wanted: &str) -> bool {
        let fits = |word: &str| match wanted.strip_suffix('*') {
            Some(stem) => word.starts_with(stem),
            None => word == wanted,
        };
        fits(&self.word) || self.plain.as_deref().is_some_and(fits)
    }

    /// Returns the word in each spelling in which it can be read.
    pub(super) fn spellings(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.word.as_str()).chain(self.plain.as_deref())
    }

    /// Returns whether the word looks like the name of a tool.
    pub(super) fn is_tool(&self) -> bool {
        let parts = self.word.split('_').filter(|part| !part.is_empty()).count();
        parts >= 2 && self.word.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '-'))
    }

    /// Returns whether the word is a destination for data, e.g. a mail address or URL.
    pub(super) fn is_address(&self) -> bool {
        let mail = self
            .word
            .split_once('@')
            .is_some_and(|(who, host)| !who.is_empty() && host.contains('.'));
        mail || ["http://", "https://", "ftp://", "ws://", "wss://"]
            .iter()
            .any(|scheme| self.word.contains(scheme))
    }

    /// Returns whether the word is the path of a system file or of a user's file.
    pub(super) fn is_path(&self) -> bool {
        ["~/", "/etc/", "/home/", "/root/", "/var/", "/proc/", "/users/", "$home", "c:/"]
            .iter()
            .any(|start| self.word.starts_with(start))
    }

    /// Returns whether the word looks like an environment variable that holds a secret.
    pub(super) fn is_secret_variable(&self) -> bool {
        ["_key", "_token", "_secret", "_password", "_credentials"]
            .iter()
            .any(|end| self.word.ends_with(end))
    }

    /// Returns whether the word is the name of a file that usually holds secrets.
    pub(super) fn is_secret_file(&self) -> bool {
        const SECRET: [&str; 24] = [
            ".ssh",
            "id_rsa",
            "id_ed25519",
            "id_ecdsa",
            "authorized_keys",
            "/etc/passwd",
            "/etc/shadow",
            "etc/shadow",
            ".aws/",
            ".gnupg",
            ".netrc",
            ".npmrc",
            ".pypirc",
            ".kube/config",
            ".git-credentials",
            ".docker/config",
            "mcp.json",
            "bash_history",
            "zsh_history",
            "credentials.json",
            "cookies.sqlite",
            "keychain",
            "claude_desktop_config",
            "/proc/self/environ",
        ];
        SECRET.iter().any(|name| self.word.contains(name))
            || [".env", "wallet.dat", "login data"].contains(&self.word.as_str())
            || self.word.ends_with("/.env")
            || self.word.split('.').next_back() == Some("pem")
    }
}

/// Words after which an order may follow in the middle of a sentence.
const ORDERING: &[&str] = &[
    "first",
    "then",
    "also",
    "and",
    "please",
    "always",
    "must",
    "should",
    "to",
    "now",
    "just",
    "silently",
    "immediately",
    "secretly",
    "quietly",
    "additionally",
    "shall",
    "you",
    "need",
    "never",
    "afterwards",
    "so",
    "assistant",
    "ai",
    "model",
    "agent",
    "llm",
    "next",
    "finally",
    "simply",
    "instead",
    "again",
    "or",
    "will",
];

/// The part of a definition that a text comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The description of the tool.
    Description,
    /// Any other part.
    Elsewhere,
}

/// Splits a normalized text into words.
pub(super) fn tokens(text: &str, place: Place) -> Vec<Token> {
    let mut words: Vec<(String, bool, bool)> = Vec::new();
    let mut letters = Letters::default();
    let mut clause = true;
    for line in text.lines() {
        let mut begins = true;
        let mut wide = true;
        for chunk in line.split(' ') {
            if chunk.is_empty() {
                wide = true;
                continue;
            }
            let ends = chunk
                .trim_end_matches(['"', '\'', '`', ')', '*', '”', '»'])
                .ends_with(['.', '!', '?', ';', '。']);
            let stops =
                ends || chunk.ends_with([',', ':', '-', '–', '—', ')']) || chunk.starts_with('(');
            for part in parts(chunk) {
                if letters.take(&part, wide, begins) {
                    wide = false;
                    continue;
                }
                letters.flush(&mut words);
                words.push((part, begins, begins || clause));
                begins = false;
                clause = false;
            }
            wide = false;
            begins |= ends;
            clause |= stops;
        }
        letters.flush(&mut words);
    }
    let mut before: Option<String> = None;
    let mut sentences = usize::from(place == Place::Elsewhere);
    words
        .into_iter()
        .map(|(word, begins, clause)| {
            sentences += usize::from(begins);
            let ordered = before.as_deref().is_some_and(|word| ORDERING.contains(&word));
            before = Some(word.clone());
            let plain = without_digits(&word);
            Token {
                plain,
                begins,
                orders: begins || clause || ordered,
                first: sentences <= 1,
                word,
            }
        })
        .collect()
}

/// Collects single letters that are separated by blanks and together form a word, e.g. `i g n o r e`.
#[derive(Default)]
struct Letters {
    parts: Vec<(String, bool)>,
    begins: bool,
}

impl Letters {
    /// The minimum number of consecutive single letters that are joined to a word.
    const MIN: usize = 4;

    fn take(&mut self, part: &str, wide: bool, begins: bool) -> bool {
        let mut chars = part.chars();
        if !(chars.next().is_some_and(char::is_alphabetic) && chars.next().is_none()) {
            return false;
        }
        if self.parts.is_empty() {
            self.begins = begins;
        }
        self.parts.push((part.to_owned(), wide));
        true
    }

    fn flush(&mut self, words: &mut Vec<(String, bool, bool)>) {
        let parts = std::mem::take(&mut self.parts);
        let joins = parts.len() >= Self::MIN;
        let mut first = true;
        for (part, wide) in parts {
            match words.last_mut() {
                Some((word, ..)) if joins && !first && !wide => word.push_str(&part),
                _ => words.push((part, self.begins && first, first)),
            }
            first = false;
        }
    }
}

/// Returns the words of a chunk of text without blanks.
fn parts(chunk: &str) -> Vec<String> {
    let trimmed = trim(chunk);
    if trimmed.is_empty() {
        return Vec::new();
    }
    let separated: Vec<&str> = trimmed.split(['.', '-', '_', '*', '·', '|']).collect();
    if separated.len() >= Letters::MIN && separated.iter().all(|part| part.chars().count() == 1) {
        return vec![separated.concat()];
    }
    let whole =
        Token { word: trimmed.to_owned(), plain: None, begins: false, orders: false, first: false };
    if whole.is_address() || whole.is_secret_file() || whole.is_path() {
        return vec![whole.word];
    }
    trimmed
        .split(|c: char| {
            !(c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '\'' | '’' | '@' | '~' | '$'))
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
    front.trim_end_matches(|c: char| !(c.is_alphanumeric() || matches!(c, '/' | '_')))
}

/// Returns the word with its digits replaced by the letters they resemble, or `None` unless it has both.
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
    fn digits_are_read_as_letters() {
        assert!(tokens("1gn0re", Place::Elsewhere)[0].is("ignore"));
        assert!(tokens("instruct1ons", Place::Elsewhere)[0].is("instruction*"));
    }
}
