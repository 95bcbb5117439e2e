//! Options and operands of an argument vector.

use super::lex::Word;

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

    /// Returns those arguments before `--` that begin with a dash.
    fn options(self) -> impl Iterator<Item = &'a str> {
        self.texts()
            .take_while(|text| *text != "--")
            .filter(|text| text.len() > 1 && text.starts_with('-'))
    }

    /// Returns the arguments that are neither options nor `--`. The values of options are included.
    pub(super) fn operands(self) -> impl Iterator<Item = &'a str> {
        let mut all = false;
        self.texts().filter(move |text| {
            let end = !all && *text == "--";
            all |= end;
            !end && (all || !text.starts_with('-') || *text == "-")
        })
    }

    /// Returns whether a group of short options, e.g. `-rf`, contains one of `letters`. A letter of `valued` takes the
    /// rest of the group as its value.
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

    /// Returns whether an argument is one of these names, or one of them followed by `=VALUE`.
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

    /// Returns the values of a short option that can end a group of options, e.g. `x` for `-so x` and `-sox`.
    pub(super) fn grouped(self, letter: char) -> impl Iterator<Item = &'a str> {
        let next = self.texts().skip(1).map(Some).chain([None]);
        self.texts().zip(next).filter_map(move |(text, next)| {
            let group = text.strip_prefix('-').filter(|group| !group.starts_with('-'))?;
            let (_, value) = group.split_once(letter)?;
            if value.is_empty() { next } else { Some(value) }
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

    /// Returns the options before the first operand. An option that ends with a letter of `valued` takes the next
    /// argument as its value.
    pub(super) fn leading(self, valued: &str) -> Self {
        let mut at = 0;
        while let Some(word) = self.0.get(at) {
            let text = word.text.as_str();
            if !text.starts_with('-') || text == "-" || text == "--" {
                break;
            }
            let takes = !text.starts_with("--")
                && text[1..]
                    .find(|c| valued.contains(c))
                    .is_some_and(|found| found + 2 == text.len());
            at = (at + if takes { 2 } else { 1 }).min(self.0.len());
        }
        Args(&self.0[..at])
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
