//! An entry of a scope: a prefix of whole parts, or a pattern with `*`, `?` and `**`.

use unicode_normalization::UnicodeNormalization as _;

use super::reading::{Backslash, Path, Root};

/// Paths, as an operator writes them.
#[derive(Debug)]
pub(super) struct Pattern {
    root: Root,
    parts: Vec<String>,
    /// Without them it is a prefix.
    has_wildcards: bool,
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
        let has_wildcards = parts.iter().any(|part| part.contains(['*', '?']));
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
        let like =
            |parts: &[String]| is_like(&self.parts, parts, Letters::Folded, Extent::Beginning);
        if self.root == Root::Here {
            // A relative entry closes its name at every place in the path.
            return Ok((0..=path.parts.len()).any(|from| like(&path.parts[from..])));
        }
        match (&self.root, &path.root) {
            (own, other) if own == other => Ok(like(&path.parts) || self.lies_in(path)),
            (Root::Drive(_), Root::Drive(_)) | (Root::Share(_), Root::Share(_)) => Ok(false),
            _ => Err("may be closed: write it as the closed paths are written".to_owned()),
        }
    }

    /// Returns whether it denies something below a path, which a walk of the path would reach.
    fn lies_in(&self, path: &Path) -> bool {
        let fixed = self.parts.iter().take_while(|part| !part.contains(['*', '?'])).count();
        path.parts.len() < fixed
            && is_like(&path.parts, &self.parts[..fixed], Letters::Folded, Extent::Beginning)
    }
}

/// Returns whether parts match a pattern; linear in both, because a caller chooses the parts.
fn is_like(pattern: &[String], parts: &[String], letters: Letters, extent: Extent) -> bool {
    // The places in the pattern where the parts read so far may lead.
    let mut places = vec![false; pattern.len() + 1];
    reach(pattern, &mut places, 0);
    for part in parts {
        if extent == Extent::Beginning && places[pattern.len()] {
            return true;
        }
        let mut next = vec![false; pattern.len() + 1];
        for (at, own) in pattern.iter().enumerate().filter(|(at, _)| places[*at]) {
            if own == "**" {
                reach(pattern, &mut next, at);
            } else if is_part(own, part, letters) {
                reach(pattern, &mut next, at + 1);
            }
        }
        places = next;
    }
    places[pattern.len()]
}

/// Marks a place and, as `**` may stand for nothing, those behind it.
fn reach(pattern: &[String], places: &mut [bool], mut at: usize) {
    places[at] = true;
    while pattern.get(at).is_some_and(|part| part == "**") {
        at += 1;
        places[at] = true;
    }
}

fn is_part(pattern: &str, part: &str, letters: Letters) -> bool {
    let read = |text: &str| -> Vec<char> {
        match letters {
            Letters::Exact => text.chars().collect(),
            Letters::Folded => text.to_lowercase().nfkc().collect(),
        }
    };
    let (pattern, part) = (read(pattern), read(part));
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
