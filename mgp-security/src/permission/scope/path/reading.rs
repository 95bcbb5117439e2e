//! The interpretations of a text as a path, without access to the file system.

use unicode_normalization::UnicodeNormalization as _;

/// The maximum length of a path, in bytes. A call with a longer path is out of scope.
const LENGTH_MAX: usize = 4096;

/// The maximum number of layers of percent-encoding that are decoded.
const ENCODED_MAX: usize = 3;

/// A path without `.`, `..` and doubled separators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) root: Root,
    pub(super) parts: Vec<String>,
    /// `true` if a shell or tool can expand the path to several paths.
    pub(super) may_expand: bool,
}

/// The root that a path starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Root {
    /// The path starts at the root directory, `/`.
    Slash,
    /// The path starts at a Windows drive, in lower case.
    Drive(char),
    /// The path starts at a Windows share; contains its server and share name, in lower case.
    Share(String),
    /// The path starts at the home directory, `~`.
    Home,
    /// The path is relative, so it starts at the working directory of the server.
    Here,
}

/// The meaning of `\`: a separator or an ordinary character.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Backslash {
    Separates,
    IsLetter,
}

/// Returns all paths that a text can mean, depending on how a tool interprets it.
///
/// # Errors
/// A description of the reason why the paths cannot be determined.
pub(super) fn readings(text: &str) -> Result<Vec<Path>, String> {
    if text.len() > LENGTH_MAX {
        return Err("is too long".to_owned());
    }
    let mut paths = Vec::new();
    let mut text = without_scheme(text)?;
    for _ in 0..=ENCODED_MAX {
        paths.push(Path::given(&text, Backslash::Separates)?);
        if text.starts_with('/') && text.contains('\\') {
            paths.push(Path::given(&text, Backslash::IsLetter)?);
        }
        match decoded(&text)? {
            Some(plain) => text = plain,
            None => return Ok(paths),
        }
    }
    Err("is encoded too often".to_owned())
}

/// Returns the path in a `file:` URL, or a text without a scheme unchanged. Any other URL results in an error.
fn without_scheme(text: &str) -> Result<String, String> {
    let is_file = text.get(..5).is_some_and(|head| head.eq_ignore_ascii_case("file:"));
    if !is_file {
        if text.contains("://") {
            return Err("is an address, not a path".to_owned());
        }
        return Ok(text.to_owned());
    }
    let rest = &text[5..];
    if rest.contains(['?', '#']) {
        return Err("is not a plain file URL".to_owned());
    }
    let path = match rest.strip_prefix("//") {
        Some(behind) => {
            let (host, path) = behind.split_at(behind.find('/').unwrap_or(behind.len()));
            if !host.is_empty() && !host.eq_ignore_ascii_case("localhost") {
                return Err("is on another host".to_owned());
            }
            path
        }
        None => rest,
    };
    // `file:///C:/…` is a path on drive C, so remove the slash before the drive.
    let bare = path.trim_start_matches('/');
    let is_drive = matches!(bare.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
    Ok(if is_drive { bare } else { path }.to_owned())
}

/// Returns whether a URL certainly stays below the working directory if a tool uses it as a path. For this, the URL and
/// all its decoded forms must be without `..` components and without `\`.
pub(super) fn stays_below(address: &str) -> bool {
    let mut text = address.to_owned();
    for _ in 0..=ENCODED_MAX {
        let climbs = |part: &str| part.nfkc().eq("..".chars());
        if text.contains('\\') || text.split('/').any(climbs) {
            return false;
        }
        match decoded(&text) {
            Ok(Some(plain)) => text = plain,
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
    false
}

/// Removes one layer of percent-encoding from a text; returns `None` if there is none.
fn decoded(text: &str) -> Result<Option<String>, String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = (bytes[at] == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        // Accept only hexadecimal digits, because the parser below would also accept a sign.
        let code = code.filter(|code| code.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let byte = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        out.push(byte.unwrap_or(bytes[at]));
        at += if byte.is_some() { 3 } else { 1 };
    }
    if out.len() == bytes.len() {
        return Ok(None);
    }
    String::from_utf8(out).map(Some).map_err(|_| "is encoded wrongly".to_owned())
}

/// Returns whether a shell or tool can expand a component of a path to `..` or to names that begin with a dot.
fn may_climb(part: &str, may_expand: bool) -> bool {
    // Check for alternatives such as `(..|a)` first, because they need no wildcard.
    let mut climbs = ["(.", "|."].iter().any(|mark| part.contains(mark));
    if may_expand {
        let dot_in_class = part.split('[').skip(1).any(|class| {
            let end = class.find(']').unwrap_or(class.len());
            class[..end].contains('.')
        });
        climbs |= dot_in_class
            || part.contains("..")
            || part.contains(['{', '}'])
            || [".*", ".?", ".["].iter().any(|mark| part.starts_with(mark));
    }
    climbs
}

impl Path {
    /// Parses a caller's text with one meaning of `\`. Refuses a path that might lead to another place than its text
    /// shows.
    ///
    /// # Errors
    /// A description of the reason why the text is not a path that can be compared.
    fn given(text: &str, backslash: Backslash) -> Result<Self, String> {
        let path = Self::read(text, backslash)?;
        if path.parts.iter().any(|part| may_climb(part, path.may_expand)) {
            return Err("may mean a path that climbs out of a folder".to_owned());
        }
        Ok(path)
    }

    /// Parses a text as a path with one meaning of `\`.
    ///
    /// # Errors
    /// A description of the reason why the text is not a path that can be compared.
    pub(super) fn read(text: &str, backslash: Backslash) -> Result<Self, String> {
        if text.is_empty() {
            return Err("is empty".to_owned());
        }
        if text.trim() != text {
            return Err("begins or ends with a blank".to_owned());
        }
        if text.chars().any(char::is_control) {
            return Err("has control characters".to_owned());
        }
        if backslash == Backslash::Separates
            && let Some(rest) = text.strip_prefix("\\\\")
        {
            return Self::share(&rest.replace('\\', "/"));
        }
        let text = match backslash {
            Backslash::Separates => text.replace('\\', "/"),
            Backslash::IsLetter => text.to_owned(),
        };
        let (root, rest) = Self::root(&text, backslash)?;
        let mut path =
            Self { root, parts: Vec::new(), may_expand: rest.contains(['*', '?', '[', '{']) };
        for part in rest.split('/') {
            path.step(part)?;
        }
        if path.root == Root::Here
            && path.parts.first().is_some_and(|part| part.starts_with(['$', '%']))
        {
            return Err("begins with a variable".to_owned());
        }
        Ok(path)
    }

    /// Parses a path on a Windows share, without the two leading separators.
    fn share(text: &str) -> Result<Self, String> {
        let mut parts = text.splitn(3, '/');
        let (server, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let is_name = |part: &str| part.starts_with(|first: char| first.is_alphanumeric());
        if !is_name(server) || !is_name(name) {
            return Err("names a device, or no share".to_owned());
        }
        let root = Root::Share(format!("{server}/{name}").to_lowercase());
        let mut path =
            Self { root, parts: Vec::new(), may_expand: text.contains(['*', '?', '[', '{']) };
        parts.next().unwrap_or_default().split('/').try_for_each(|part| path.step(part))?;
        Ok(path)
    }

    fn root(text: &str, backslash: Backslash) -> Result<(Root, &str), String> {
        if text.starts_with("//?/") || text.starts_with("//./") || text.starts_with("/??/") {
            return Err("names a device".to_owned());
        }
        if let Some(rest) = text.strip_prefix('~') {
            return match rest.strip_prefix('/') {
                _ if rest.is_empty() => Ok((Root::Home, rest)),
                Some(rest) => Ok((Root::Home, rest)),
                None => Err("is in the home of another user".to_owned()),
            };
        }
        if let [letter, b':', ..] = text.as_bytes()
            && letter.is_ascii_alphabetic()
            && backslash == Backslash::Separates
        {
            return match text[2..].strip_prefix('/') {
                Some(rest) => Ok((Root::Drive(letter.to_ascii_lowercase().into()), rest)),
                None => Err("depends on the current folder of a drive".to_owned()),
            };
        }
        match text.strip_prefix('/') {
            Some(rest) => Ok((Root::Slash, rest)),
            None => Ok((Root::Here, text)),
        }
    }

    fn step(&mut self, part: &str) -> Result<(), String> {
        match part {
            "" | "." => return Ok(()),
            ".." => {
                // At an absolute root, ignore `..`, which has no effect there. At a relative starting point, refuse it,
                // because it leads out of the allowed area.
                if self.parts.pop().is_none() && matches!(self.root, Root::Here | Root::Home) {
                    return Err("leaves the folder in which it begins".to_owned());
                }
                if self.may_expand {
                    return Err("has wildcards and climbs out of a folder".to_owned());
                }
                return Ok(());
            }
            _ => {}
        }
        if part.ends_with(['.', ' ']) {
            return Err("has a part that ends in a dot or a blank".to_owned());
        }
        if part.nfkc().any(|letter| matches!(letter, '/' | '\\')) && !part.contains('\\')
            || part.nfkc().eq("..".chars())
        {
            return Err("has letters that only look like separators".to_owned());
        }
        if cfg!(windows) || matches!(self.root, Root::Drive(_) | Root::Share(_)) {
            let is_short = part
                .split_once('~')
                .is_some_and(|(_, rest)| rest.starts_with(|at: char| at.is_ascii_digit()));
            if part.contains(':') || is_short {
                return Err("has a part that Windows may read as another name".to_owned());
            }
        }
        self.parts.push(part.to_owned());
        Ok(())
    }
}
