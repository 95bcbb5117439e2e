//! An entry of a scope: a prefix of whole parts, or a pattern with `*`, `?` and `**`.

use unicode_normalization::UnicodeNormalization as _;

use super::reading::{Backslash, Path, Root};

/// Paths, as an operator writes them.
#[derive(Debug)]
pub(super) struct Pattern {
    root: Root,
    parts: Vec<PatternPart>,
    /// Without them it is a prefix.
    has_wildcards: bool,
}

/// A part of a pattern, in the letters of each comparison.
#[derive(Debug)]
struct PatternPart {
    exact: Vec<char>,
    folded: Vec<char>,
    /// `**`.
    is_any: bool,
}

/// The comparison of parts.
#[derive(Clone, Copy)]
enum Letters {
    /// Letter by letter.
    Exact,
    /// As the most forgiving file system does.
    Folded,
}

/// The part of a path that a pattern must match.
#[derive(Clone, Copy, PartialEq)]
enum Extent {
    All,
    Beginning,
    /// Any parts that follow each other.
    Somewhere,
}

impl Letters {
    fn of(self, text: &str) -> Vec<char> {
        match self {
            Self::Exact => text.chars().collect(),
            Self::Folded => text.to_lowercase().nfkc().collect(),
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
    /// Reads an entry.
    ///
    /// # Errors
    /// The reason in words, if the entry is not a path.
    pub(super) fn read(entry: &str) -> Result<Self, String> {
        let is_windows = entry.starts_with("\\\\")
            || matches!(entry.as_bytes(), [letter, b':', b'/' | b'\\', ..] if letter.is_ascii_alphabetic());
        let backslash = if is_windows { Backslash::Separates } else { Backslash::IsLetter };
        let Path { root, parts, .. } = Path::read(entry, backslash)?;
        let parts: Vec<_> = parts.iter().map(|part| PatternPart::new(part)).collect();
        let has_wildcards = parts.iter().any(PatternPart::has_wildcards);
        Ok(Self { root, parts, has_wildcards })
    }

    /// Returns whether it allows a path: all below a prefix, and exactly what a pattern with wildcards matches.
    pub(super) fn opens(&self, path: &Path) -> bool {
        let extent = if self.has_wildcards { Extent::All } else { Extent::Beginning };
        self.root == path.root && is_like(&self.parts, &path.parts, Letters::Exact, extent)
    }

    /// Returns whether it denies a path: what it matches, all below that, and the folders above.
    ///
    /// # Errors
    /// The reason in words, if that cannot be decided.
    pub(super) fn closes(&self, path: &Path) -> Result<bool, String> {
        let like = |extent| is_like(&self.parts, &path.parts, Letters::Folded, extent);
        if self.root == Root::Here {
            // A relative entry closes its name at every place in the path.
            return Ok(like(Extent::Somewhere));
        }
        match (&self.root, &path.root) {
            (own, other) if own == other => Ok(like(Extent::Beginning) || self.lies_in(path)),
            (Root::Drive(_), Root::Drive(_)) | (Root::Share(_), Root::Share(_)) => Ok(false),
            _ => Err("may be closed: write it as the closed paths are written".to_owned()),
        }
    }

    /// Returns whether it denies something below a path, which a walk of the path would reach.
    fn lies_in(&self, path: &Path) -> bool {
        let fixed = self.parts.iter().take_while(|part| !part.has_wildcards()).count();
        path.parts.len() < fixed
            && is_like(&self.parts[..path.parts.len()], &path.parts, Letters::Folded, Extent::All)
    }
}

/// Returns whether parts match a pattern; linear in both, because a caller chooses the parts.
fn is_like(pattern: &[PatternPart], parts: &[String], letters: Letters, extent: Extent) -> bool {
    // The places in the pattern where the parts read so far may lead.
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

/// Marks a place and, as `**` may stand for nothing, those behind it.
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
                // The last star takes one letter more.
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
