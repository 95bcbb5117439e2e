//! Invisible characters, and characters that change the appearance of a text.
//!
//! Several of these characters have legitimate uses, e.g. in some scripts or in emoji; they are accepted only there.

use unicode_normalization::char::canonical_combining_class;

use super::script::{any, same};

/// The maximum number of consecutive blanks; a longer run counts as an attempt to hide the text after it.
const BLANKS_MAX: usize = 100;

/// The maximum number of consecutive line ends; a longer run counts as an attempt to hide the text after it.
const LINES_MAX: usize = 20;

/// The maximum number of combining marks on one letter; scripts in use need at most half as many.
const MARKS_MAX: usize = 8;

/// One letter of each script in which U+200C and U+200D change how letters join.
const JOINING: &str = "اܐߊᠠकবਗગଓதతകಕසកမᨠꦏबꯀ";

/// One letter of each script that is written without spaces, where U+200B marks possible line breaks.
const UNSPACED: &str = "กລကខབ";

/// The flags that are encoded with tag characters: England, Scotland and Wales.
const TAGGED_FLAGS: [&str; 3] = ["gbeng", "gbsct", "gbwls"];

/// Returns the kind of the first hidden part of a text, and its code points or the number of its blanks; `None` if the
/// text hides nothing.
pub(super) fn hidden(text: &str) -> Option<(&'static str, String)> {
    if let Some(blanks) = blank_run(text) {
        return Some(("blanks push text out of view", blanks));
    }
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t')) {
        return None;
    }
    let chars: Vec<char> = text.chars().collect();
    let mut marks = 0;
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        marks = if canonical_combining_class(c) == 0 { 0 } else { marks + 1 };
        if marks > MARKS_MAX {
            return Some(("marks pile up on one letter", code_points(&chars[at..])));
        }
        if let Some(what) = kind(c) {
            match honest(&chars, at) {
                Some(length) => at += length,
                None => return Some((what, code_points(&chars[at..]))),
            }
        } else {
            at += 1;
        }
    }
    None
}

/// Returns whether a character is visible and does not change how other characters look. In texts that this crate shows
/// to people, all other characters are escaped.
pub(crate) fn shows(c: char) -> bool {
    c == ' ' || !(c.is_whitespace() || is_suspect(c))
}

/// Returns whether a character is invisible or changes how other characters look, so that it can hide text.
pub(in crate::definition) fn is_suspect(c: char) -> bool {
    kind(c).is_some()
}

/// Returns the kind of an invisible character, or `None` for a visible character.
fn kind(c: char) -> Option<&'static str> {
    Some(match u32::from(c) {
        0x09 | 0x0A => return None,
        0x0D => "a carriage return",
        0x00..=0x1F | 0x7F..=0x9F => "a control character",
        0x202A..=0x202E | 0x2066..=0x2069 => "a bidirectional control",
        0x200E | 0x200F | 0x061C => "a direction mark",
        0xFE00..=0xFE0F | 0xE0100..=0xE01EF | 0x180B..=0x180D | 0x180F => "a variation selector",
        0xE0000..=0xE007F => "a tag character",
        0x00AD
        | 0x034F
        | 0x180E
        | 0x200B..=0x200D
        | 0x2028
        | 0x2029
        | 0x2060..=0x2065
        | 0x206A..=0x206F
        | 0xFEFF
        | 0xFFF0..=0xFFFB
        | 0x1_BCA0..=0x1_BCA3
        | 0x1_D173..=0x1_D17A
        | 0xE0080..=0xE00FF
        | 0xE01F0..=0xE0FFF => "an invisible character",
        0x115F | 0x1160 | 0x17B4 | 0x17B5 | 0x2800 | 0x3164 | 0xFFA0 | 0xFFFC => {
            "a character that shows as a blank"
        }
        0xE000..=0xF8FF | 0xF0000.. => "a private character",
        0xFDD0..=0xFDEF => "a code point that is not a character",
        code if code & 0xFFFE == 0xFFFE => "a code point that is not a character",
        _ => return None,
    })
}

/// Returns the number of characters from an index on that have a legitimate use together. The character at the index is
/// a suspect one; `None` if it has no legitimate use there.
fn honest(chars: &[char], at: usize) -> Option<usize> {
    let before = at.checked_sub(1).map(|at| chars[at]);
    let after = chars.get(at + 1).copied();
    let c = chars[at];
    let good = match u32::from(c) {
        0x0D => after == Some('\n'),
        0x200D => joins_pictures(chars, at) || joins_letters(before, after),
        0x200C => joins_letters(before, after) && after.is_some_and(char::is_alphanumeric),
        0x200B => [before, after].iter().all(|side| side.is_some_and(|c| any(c, UNSPACED))),
        0x200E | 0x200F | 0x061C => stands_with_rtl(chars, at),
        0xFE0E | 0xFE0F => {
            before.is_some_and(|c| is_picture(c) || "0123456789#*".contains(c))
                && !(before.is_some_and(|c| c.is_ascii()) && after != Some('\u{20E3}'))
        }
        0xFE00..=0xFE02 | 0xE0100..=0xE01EF => {
            before.is_some_and(|c| same(c, '漢') || ('\u{2200}'..='\u{22FF}').contains(&c))
        }
        0x180B..=0x180D | 0x180F => before.is_some_and(|c| same(c, 'ᠠ')),
        // Braille uses U+2800 as its space, so accept that character between Braille characters.
        0x2800 => [before, after].iter().all(|side| side.is_some_and(is_braille)),
        0xE0020..=0xE007E => return tagged_flag(chars, at),
        _ => false,
    };
    good.then_some(1)
}

/// Returns whether the U+200D at an index joins two emoji.
fn joins_pictures(chars: &[char], at: usize) -> bool {
    let mut before = chars[..at].iter().rev().copied();
    let picture = before.find(|c| !matches!(c, '\u{FE0F}' | '\u{1F3FB}'..='\u{1F3FF}'));
    picture.is_some_and(is_picture) && chars.get(at + 1).is_some_and(|c| is_picture(*c))
}

/// Returns whether U+200C or U+200D follows a letter of a script that needs it, and no letter of another script comes
/// next.
fn joins_letters(before: Option<char>, after: Option<char>) -> bool {
    let Some(before) = before.filter(|c| any(*c, JOINING)) else { return false };
    after.is_none_or(|after| {
        !after.is_alphanumeric() && kind(after).is_none() || same(after, before)
    })
}

/// Returns whether a direction mark is not next to another direction mark, and is near a letter that is written from
/// right to left.
fn stands_with_rtl(chars: &[char], at: usize) -> bool {
    let is_mark = |c: &char| matches!(c, '\u{200E}' | '\u{200F}' | '\u{061C}');
    let near = |mut side: Box<dyn Iterator<Item = &char> + '_>| {
        side.find(|c| c.is_alphabetic()).is_some_and(|c| any(*c, "אاܐހߊࠀ"))
    };
    let beside = [at.checked_sub(1), Some(at + 1)];
    let alone = beside.iter().flatten().all(|at| !chars.get(*at).is_some_and(is_mark));
    let before = chars[..at].iter().rev().take(8);
    let after = chars[at + 1..].iter().take(8);
    alone && (near(Box::new(before)) || near(Box::new(after)))
}

/// Returns the length of the tag sequence of a flag at an index, or `None` if it is not one of [`TAGGED_FLAGS`].
fn tagged_flag(chars: &[char], at: usize) -> Option<usize> {
    let flag = at.checked_sub(1).map(|at| chars[at]);
    let tag = |c: &char| char::from_u32(u32::from(*c).checked_sub(0xE0000)?).filter(char::is_ascii);
    let name: String = chars[at..].iter().take(5).filter_map(tag).collect();
    let ends = chars.get(at + 5) == Some(&'\u{E007F}');
    (flag == Some('\u{1F3F4}') && TAGGED_FLAGS.contains(&name.as_str()) && ends).then_some(6)
}

/// Returns whether a character is an emoji, or can be displayed as one.
fn is_picture(c: char) -> bool {
    matches!(u32::from(c),
        0xA9 | 0xAE | 0x203C | 0x2049 | 0x20E3 | 0x2122 | 0x2139 | 0x2194..=0x21AA | 0x231A..=0x23FF | 0x24C2
        | 0x25AA..=0x27BF | 0x2934 | 0x2935 | 0x2B05..=0x2B55 | 0x3030 | 0x303D | 0x3297 | 0x3299
        | 0x1F000..=0x1FAFF)
}

fn is_braille(c: char) -> bool {
    ('\u{2801}'..='\u{28FF}').contains(&c)
}

/// Returns a description of the first run of blanks or line ends that is long enough to hide the text after it.
fn blank_run(text: &str) -> Option<String> {
    let (mut blanks, mut lines) = (0, 0);
    for c in text.chars() {
        match c {
            '\n' => {
                // Wrapped, the blanks before a line end fill lines of their own.
                lines += 1 + blanks / BLANKS_MAX;
                blanks = 0;
            }
            c if c.is_whitespace() => blanks += 1,
            _ if blanks > BLANKS_MAX || lines > LINES_MAX => {
                return Some(format!("{blanks} blanks and {lines} line ends"));
            }
            _ => (blanks, lines) = (0, 0),
        }
    }
    None
}

/// Returns up to eight suspect characters as code points.
fn code_points(chars: &[char]) -> String {
    let hidden = chars.iter().take_while(|c| is_suspect(**c)).take(8);
    let shown: Vec<_> = hidden.map(|c| format!("U+{:04X}", u32::from(*c))).collect();
    if shown.is_empty() {
        return format!("U+{:04X}", chars.first().map_or(0, |c| u32::from(*c)));
    }
    shown.join(" ")
}
