//! Options and operands of an argument vector.

use super::lex::Word;
use crate::words::has;
use std::collections::BTreeSet;

/// The reason why a command is refused.
pub(super) type Refusal = String;

/// The arguments of a command, without its name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Args<'a>(pub(super) &'a [Word]);

impl<'a> Args<'a> {
    /// Returns the texts of all arguments.
    pub(super) fn texts(self) -> impl Iterator<Item = &'a str> {
        self.0.iter().map(|word| word.text.as_str())
    }

    pub(super) fn first(self) -> &'a str {
        self.0.first().map_or("", |word| word.text.as_str())
    }

    /// Returns the arguments before `--` that begin with a dash.
    fn options(self) -> impl Iterator<Item = &'a str> {
        self.texts()
            .take_while(|text| *text != "--")
            .filter(|text| text.len() > 1 && text.starts_with('-'))
    }

    /// Returns the arguments that are neither options nor `--`. Values of options that are separate arguments are
    /// included, because this method does not know which options have values.
    pub(super) fn operands(self) -> impl Iterator<Item = &'a str> {
        let mut all = false;
        self.texts().filter(move |text| {
            let end = !all && *text == "--";
            all |= end;
            !end && (all || !text.starts_with('-') || *text == "-")
        })
    }

    /// Returns whether a group of short options, e.g. `-rf`, contains one of `letters`. The rest of a group after a
    /// letter in `valued` is the value of that option.
    pub(super) fn short(self, letters: &str, valued: &str) -> bool {
        self.options().filter(|text| !text.starts_with("--")).any(|text| {
            for letter in text[1..].chars() {
                if letters.contains(letter) {
                    return true;
                }
                if valued.contains(letter) || !letter.is_ascii_alphanumeric() {
                    return false;
                }
            }
            false
        })
    }

    /// Returns whether the long option `name` is present, possibly abbreviated to at least `least` letters.
    pub(super) fn long(self, name: &str, least: usize) -> bool {
        self.options().any(|text| {
            long_name(text).is_some_and(|given| {
                given.len() >= least.min(name.len()) && name.starts_with(given)
            })
        })
    }

    /// Returns whether an argument is one of the names, or one of the names followed by `=VALUE`.
    pub(super) fn any(self, names: &[&str]) -> bool {
        self.texts().any(|text| {
            names.contains(&text.split('=').next().unwrap_or(text)) || names.contains(&text)
        })
    }

    /// Returns the values of an option in any form: `-oX`, `-o X`, `--out X` or `--out=X`.
    pub(super) fn values(self, names: &'static [&'static str]) -> impl Iterator<Item = &'a str> {
        let next = self.texts().skip(1).map(Some).chain([None]);
        self.texts().zip(next).filter_map(move |(text, next)| {
            names.iter().find_map(|name| {
                let rest = text.strip_prefix(name)?;
                if rest.is_empty() {
                    next
                } else if name.len() > 2 {
                    rest.strip_prefix('=')
                } else {
                    Some(rest.strip_prefix('=').unwrap_or(rest))
                }
            })
        })
    }

    /// Returns the values of a short option that can also end a group of options, e.g. `x` for `-so x` and `-sox`.
    pub(super) fn grouped(self, letter: char) -> impl Iterator<Item = &'a str> {
        let next = self.texts().skip(1).map(Some).chain([None]);
        self.texts().zip(next).filter_map(move |(text, next)| {
            let group = text.strip_prefix('-').filter(|group| !group.starts_with('-'))?;
            let (_, value) = group.split_once(letter)?;
            if value.is_empty() { next } else { Some(value) }
        })
    }

    /// Returns the values of a short option as [`grouped`](Self::grouped) does. The rest of a group after a letter in
    /// `valued` is the value of that option, and is not searched for `letter`.
    pub(super) fn short_values(
        self,
        letter: char,
        valued: &'static str,
    ) -> impl Iterator<Item = &'a str> {
        let next = self.texts().skip(1).map(Some).chain([None]);
        self.texts().zip(next).filter_map(move |(text, next)| {
            let group = text.strip_prefix('-').filter(|group| !group.starts_with('-'))?;
            let at = group.find(|c: char| c == letter || valued.contains(c))?;
            let value = group[at..].strip_prefix(letter)?;
            if value.is_empty() { next } else { Some(value) }
        })
    }

    /// Returns the values of a long option that can be abbreviated to `least` letters: `--out X` or `--out=X`.
    pub(super) fn long_values(
        self,
        name: &'static str,
        least: usize,
    ) -> impl Iterator<Item = &'a str> {
        let next = self.texts().skip(1).map(Some).chain([None]);
        self.texts().zip(next).filter_map(move |(text, next)| {
            let given = long_name(text)?;
            if given.len() < least || !name.starts_with(given) {
                return None;
            }
            text.split_once('=').map(|(_, value)| value).or(next)
        })
    }

    /// Returns the arguments from the first operand on. An option in `valued` takes the next argument as its value.
    pub(super) fn after_options(self, valued: &[&str]) -> Self {
        let mut at = 0;
        while let Some(word) = self.0.get(at) {
            let text = word.text.as_str();
            if text == "--" {
                at += 1;
                break;
            }
            if !text.starts_with('-') || text == "-" {
                break;
            }
            at += if valued.contains(&text) { 2 } else { 1 };
        }
        Args(self.0.get(at..).unwrap_or_default())
    }

    /// Returns the options before the first operand, with their values. An option's value is the next argument if the
    /// option is a group of which only the last letter is in `valued`, or if it has no `=` and `takes_next` returns
    /// `true` for it.
    pub(super) fn leading(self, valued: &str, takes_next: impl Fn(&str) -> bool) -> Self {
        let mut at = 0;
        while let Some(word) = self.0.get(at) {
            let text = word.text.as_str();
            // In the arguments of a shell, `+x` turns the option `x` off, so an argument that begins with a plus is an
            // option, too.
            if !text.starts_with(['-', '+']) || matches!(text, "-" | "--") {
                break;
            }
            let ends_with_valued = !text.starts_with("--")
                && text[1..]
                    .find(|c| valued.contains(c))
                    .is_some_and(|found| found + 2 == text.len());
            let takes = ends_with_valued || !text.contains('=') && takes_next(text);
            at = (at + if takes { 2 } else { 1 }).min(self.0.len());
        }
        Args(&self.0[..at])
    }

    /// Returns the indices at which the operands can begin, if the options begin at one of the indices `places`.
    /// Returns `None` if one of the options is refused. There can be several indices, because an option that is not in
    /// `options` may or may not take the next argument as its value. For the format of `options`, see [`width`].
    pub(super) fn operand_starts(
        self,
        mut places: BTreeSet<usize>,
        options: &str,
    ) -> Option<BTreeSet<usize>> {
        let mut starts = BTreeSet::new();
        while let Some(at) = places.pop_first() {
            let Some(word) = self.0.get(at) else { continue };
            let text = word.text.as_str();
            if text == "--" {
                starts.insert(at + 1);
            } else if !text.starts_with('-') || text == "-" {
                starts.insert(at);
            } else {
                match width(text, options) {
                    Width::Known(count) => places.extend([at + count]),
                    Width::Unknown => places.extend([at + 1, at + 2]),
                    Width::Refused => return None,
                }
            }
        }
        Some(starts)
    }

    pub(super) fn skip(self, count: usize) -> Self {
        Args(self.0.get(count..).unwrap_or_default())
    }
}

/// Returns the option's name in `--name` or `--name=value`.
pub(super) fn long_name(text: &str) -> Option<&str> {
    let name = text.strip_prefix("--")?.split('=').next().unwrap_or_default();
    (!name.is_empty()).then_some(name)
}

/// The maximum number of letters that are read in a group of short options.
const MAX_GROUP: usize = 64;

/// The number of arguments that an option occupies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Width {
    /// The option and its separate values occupy this number of arguments.
    Known(usize),
    /// The option is not listed, so the next argument may or may not be its value.
    Unknown,
    /// The option executes a text or loads a library.
    Refused,
}

/// Returns the number of arguments that the option `text` occupies.
///
/// `options` has this format: `-v` takes no separate value, `-n=` takes the next argument as its value, `--mca==` takes
/// the next two, and `-c!` is refused. With `*`, an option that is not listed takes no separate value.
fn width(text: &str, options: &str) -> Width {
    let listed = || {
        options.split_ascii_whitespace().map(|option| {
            let name = option.trim_end_matches(['=', '!']);
            match &option[name.len()..] {
                "!" => (name, Width::Refused),
                values => (name, Width::Known(1 + values.len())),
            }
        })
    };
    let other = if has(options, "*") { Width::Known(1) } else { Width::Unknown };
    let (name, is_glued) = text.split_once('=').map_or((text, false), |(name, _)| (name, true));
    let is_long = name.starts_with("--");
    let exact = listed().find(|(known, _)| *known == name).map(|(_, width)| width);
    let found = exact.or_else(|| {
        let mut abbreviated = listed()
            .filter(|(known, _)| is_long && known.starts_with(name))
            .map(|(_, width)| width);
        let first = abbreviated.next()?;
        abbreviated.all(|width| width == first).then_some(first)
    });
    match found {
        Some(Width::Refused) => return Width::Refused,
        Some(_) if is_glued => return Width::Known(1),
        Some(width) => return width,
        None if is_long => return if is_glued { Width::Known(1) } else { other },
        None => {}
    }
    if text[1..].bytes().all(|b| b.is_ascii_digit()) {
        return Width::Known(1);
    }
    for (at, c) in text.char_indices().skip(1) {
        let (letter, rest) = text[at..].split_at(c.len_utf8());
        let found = listed().find(|(known, _)| known.strip_prefix('-') == Some(letter));
        match found.map(|(_, width)| width) {
            _ if at > MAX_GROUP => return other,
            Some(Width::Known(1)) => {}
            Some(Width::Known(count)) if !rest.is_empty() => return Width::Known(count - 1),
            Some(width) => return width,
            // The rest of the argument is the value of an option whose value is optional, e.g. `-i{}` of `xargs`. So
            // the option occupies one argument.
            None if at > 1 && !c.is_ascii_alphanumeric() => return Width::Known(1),
            None => return other,
        }
    }
    Width::Known(1)
}

/// Returns the name of a program without an ending that Windows adds to the name of a command, e.g. `format.com`;
/// `None` if the name has no such ending.
pub(super) fn without_ending(name: &str) -> Option<&str> {
    let short = [".com", ".cmd", ".bat"].into_iter().find_map(|ending| name.strip_suffix(ending));
    short.filter(|short| !short.is_empty())
}

/// Returns a program's name in lower case, without `.exe` and without a version as in `python3.12` or `gcc-13`.
pub(super) fn plain_name(base: &str) -> String {
    let lower = base.to_ascii_lowercase();
    let name = lower.strip_suffix(".exe").unwrap_or(&lower);
    if matches!(
        name,
        "sqlite3"
            | "pip3"
            | "7z"
            | "base64"
            | "base32"
            | "md5"
            | "sha1"
            | "gpg2"
            | "hg"
            | "ip6tables"
            | "bzip2"
            | "run0"
            | "mke2fs"
            | "tune2fs"
            | "resize2fs"
            | "killall5"
            | "perl6"
            | "m4"
            | "rundll32"
            | "regsvr32"
            | "d8"
    ) {
        return name.to_owned();
    }
    // The launcher of Python on Windows takes the arguments of Python after those that choose a version.
    if matches!(name, "py" | "pyw") {
        return "python".to_owned();
    }
    if name.contains(".so") && (name.starts_with("ld-linux") || name.starts_with("ld-musl")) {
        return "ld.so".to_owned();
    }
    let short = name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    if short.is_empty() { name.to_owned() } else { short.to_owned() }
}
