//! An entry of a list of allowed or denied paths: either a prefix of whole components, or a pattern with `*`, `?` and
//! `**`.

use unicode_normalization::UnicodeNormalization as _;

use super::reading::{Backslash, Path, Root};

/// An entry of a list of allowed or denied paths, split into components.
#[derive(Debug)]
pub(super) struct Pattern {
    root: Root,
    parts: Vec<PatternPart>,
    /// `true` if the pattern has wildcards; `false` for a path, which allows everything below it.
    has_wildcards: bool,
}

/// A component of a pattern, prepared for each kind of comparison.
#[derive(Debug)]
struct PatternPart {
    exact: Vec<char>,
    folded: Vec<char>,
    /// `true` if the component is `**`.
    is_any: bool,
}

/// The way in which the letters of components are compared.
#[derive(Clone, Copy)]
enum Letters {
    /// Letters must be equal.
    Exact,
    /// Letters that some file system considers equal, e.g. in another case, match.
    Folded,
}

/// The part of a path that must match the pattern.
#[derive(Clone, Copy, PartialEq)]
enum Extent {
    All,
    Beginning,
    /// Any consecutive components of the path.
    Somewhere,
}

impl Letters {
    fn of(self, text: &str) -> Vec<char> {
        match self {
            Self::Exact => text.chars().collect(),
            // Compose letters and marks first, because a mark alone can have another upper case. Convert to upper case,
            // because some file systems consider `ς` and `σ` equal, which both become `Σ`. Keep a letter that becomes
            // several, because a `?` matches only one.
            Self::Folded => {
                let upper = |letter: char| match letter.to_uppercase() {
                    mut upper if upper.len() == 1 => upper.next().unwrap_or(letter),
                    _ => letter,
                };
                text.nfkc().map(upper).flat_map(char::to_lowercase).nfkc().collect()
            }
        }
    }
}

impl PatternPart {
    fn new(text: &str) -> Self {
        let [exact, folded] = [Letters::Exact, Letters::Folded].map(|letters| letters.of(text));
        Self { exact, folded, is_any: text == "**" }
    }

    fn letters(&self, letters: Letters) -> &[char] {
        match letters {
            Letters::Exact => &self.exact,
            Letters::Folded => &self.folded,
        }
    }

    fn has_wildcards(&self) -> bool {
        self.exact.iter().any(|letter| matches!(letter, '*' | '?'))
    }
}

impl Pattern {
    /// Parses an entry.
    ///
    /// # Errors
    /// A description of the reason why the entry is not a path.
    pub(super) fn read(entry: &str) -> Result<Self, String> {
        let is_windows = entry.starts_with("\\\\")
            || matches!(entry.as_bytes(), [letter, b':', b'/' | b'\\', ..] if letter.is_ascii_alphabetic());
        let backslash = if is_windows { Backslash::Separates } else { Backslash::IsLetter };
        let Path { root, parts, .. } = Path::read(entry, backslash)?;
        let parts: Vec<_> = parts.iter().map(|part| PatternPart::new(part)).collect();
        let has_wildcards = parts.iter().any(PatternPart::has_wildcards);
        Ok(Self { root, parts, has_wildcards })
    }

    /// Returns whether the entry allows a path: a prefix allows everything below it, a pattern exactly what it
    /// matches.
    pub(super) fn allows(&self, path: &Path) -> bool {
        let extent = if self.has_wildcards { Extent::All } else { Extent::Beginning };
        self.root == path.root && is_like(&self.parts, &path.parts, Letters::Exact, extent)
    }

    /// Returns whether the entry denies a path. It denies the paths that it matches, everything below them, and the
    /// directories that contain them.
    ///
    /// # Errors
    /// A description of the reason why that cannot be decided.
    pub(super) fn denies(&self, path: &Path) -> Result<bool, String> {
        let like = |extent| is_like(&self.parts, &path.parts, Letters::Folded, extent);
        if self.root == Root::Here {
            // A relative entry denies its components anywhere in a path.
            return Ok(like(Extent::Somewhere));
        }
        match (&self.root, &path.root) {
            (own, other) if own == other => Ok(like(Extent::Beginning) || self.lies_in(path)),
            (Root::Drive(_), Root::Drive(_)) | (Root::Share(_), Root::Share(_)) => Ok(false),
            _ => Err("may be denied: write it in the form of the denied paths".to_owned()),
        }
    }

    /// Returns whether the entry denies something below a path, which a tool that works recursively could reach.
    fn lies_in(&self, path: &Path) -> bool {
        let fixed = self.parts.iter().take_while(|part| !part.has_wildcards()).count();
        path.parts.len() < fixed
            && is_like(&self.parts[..path.parts.len()], &path.parts, Letters::Folded, Extent::All)
    }
}

/// Returns whether components match a pattern. The time grows only with the product of their two lengths: the caller
/// chooses the components, and must not be able to make the match slow.
fn is_like(pattern: &[PatternPart], parts: &[String], letters: Letters, extent: Extent) -> bool {
    // The positions in the pattern that can be reached with the components read so far.
    let mut places = vec![false; pattern.len() + 1];
    reach(pattern, &mut places, 0);
    for part in parts {
        if extent != Extent::All && places[pattern.len()] {
            return true;
        }
        let part = letters.of(part);
        let mut next = vec![false; pattern.len() + 1];
        for (at, own) in pattern.iter().enumerate().filter(|(at, _)| places[*at]) {
            if own.is_any {
                reach(pattern, &mut next, at);
            } else if is_part(own.letters(letters), &part) {
                reach(pattern, &mut next, at + 1);
            }
        }
        if extent == Extent::Somewhere {
            reach(pattern, &mut next, 0);
        }
        places = next;
    }
    places[pattern.len()]
}

/// Marks a position as reachable. A `**` can match nothing, so the position after each `**` that follows is marked,
/// too.
fn reach(pattern: &[PatternPart], places: &mut [bool], mut at: usize) {
    places[at] = true;
    while pattern.get(at).is_some_and(|part| part.is_any) {
        at += 1;
        places[at] = true;
    }
}

fn is_part(pattern: &[char], part: &[char]) -> bool {
    let (mut own, mut at) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while at < part.len() {
        match pattern.get(own) {
            Some('*') => {
                star = Some((own, at));
                own += 1;
            }
            Some(letter) if *letter == '?' || *letter == part[at] => {
                own += 1;
                at += 1;
            }
            _ => match &mut star {
                // Backtrack: the last `*` matches one more character.
                Some((place, taken)) => {
                    *taken += 1;
                    (own, at) = (*place + 1, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[own..].iter().all(|letter| *letter == '*')
}
