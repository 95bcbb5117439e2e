//! The languages of the lexicon, their scripts and the stems of their words (MGP §16.5).

use std::borrow::Cow;

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// A language whose words are in the lexicon. For English, the lexicon has only words that need no translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Language {
    Arabic,
    Chinese,
    English,
    French,
    German,
    Hindi,
    Italian,
    Japanese,
    Korean,
    Portuguese,
    Russian,
    Spanish,
    Turkish,
}

/// A script, i.e. a system of writing; a word consists of adjacent letters of one script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Script {
    Latin,
    Arabic,
    Cyrillic,
    Devanagari,
    Hangul,
    /// Chinese characters and Japanese syllables.
    Han,
}

/// The languages written with Latin letters, except English.
pub(super) const LATIN: [Language; 6] = [
    Language::German,
    Language::Spanish,
    Language::French,
    Language::Italian,
    Language::Portuguese,
    Language::Turkish,
];

impl Language {
    /// Returns the byte that precedes each word of the language in the packed lexicon.
    pub(super) fn mark(self) -> u8 {
        match self {
            Self::Arabic => b'a',
            Self::Chinese => b'c',
            Self::English => b'e',
            Self::French => b'f',
            Self::German => b'd',
            Self::Hindi => b'h',
            Self::Italian => b'i',
            Self::Japanese => b'j',
            Self::Korean => b'k',
            Self::Portuguese => b'p',
            Self::Russian => b'r',
            Self::Spanish => b's',
            Self::Turkish => b't',
        }
    }

    /// Returns whether words of the language can have several endings one after the other, so that a known word can be
    /// the beginning of a longer word.
    pub(super) fn has_many_endings(self) -> bool {
        matches!(
            self,
            Self::Arabic
                | Self::Hindi
                | Self::Korean
                | Self::Russian
                | Self::Turkish
                | Self::Japanese
        )
    }

    /// Returns whether the language joins words to compounds, e.g. `Wetterbericht`.
    pub(super) fn has_compounds(self) -> bool {
        self == Self::German
    }

    /// Returns the stem of a word, which can be in upper or lower case. The stem is in lower case and has no accents.
    pub(super) fn stem(self, word: &str) -> String {
        let lower = word.to_lowercase();
        match self {
            Self::Arabic => arabic(&lower),
            Self::Hindi => hindi(&lower),
            Self::Chinese | Self::Japanese | Self::Korean => lower,
            Self::English => snowball(Algorithm::English, &lower),
            Self::French => snowball(Algorithm::French, &lower),
            Self::German => snowball(Algorithm::German, &lower),
            Self::Italian => snowball(Algorithm::Italian, &lower),
            Self::Portuguese => snowball(Algorithm::Portuguese, &lower),
            Self::Russian => snowball(Algorithm::Russian, &lower),
            Self::Spanish => snowball(Algorithm::Spanish, &lower),
            // Remove the combining dot that lower-casing of `İ` adds to the `i`, because the Turkish stemmer does not
            // know it.
            Self::Turkish => snowball(Algorithm::Turkish, &lower.replace("i\u{307}", "i")),
        }
    }
}

impl Script {
    /// Returns the script of a letter, or of a mark that belongs to the letter before it.
    pub(super) fn of(letter: char) -> Option<Self> {
        Some(match letter {
            'a'..='z'
            | 'A'..='Z'
            | '\u{c0}'..='\u{24f}'
            | '\u{300}'..='\u{36f}'
            | '\u{1e00}'..='\u{1eff}'
                if letter != '×' && letter != '÷' =>
            {
                Self::Latin
            }
            '\u{400}'..='\u{52f}' => Self::Cyrillic,
            '\u{620}'..='\u{65f}' | '\u{670}'..='\u{6d3}' => Self::Arabic,
            '\u{900}'..='\u{963}' | '\u{970}'..='\u{97f}' | '\u{200d}' => Self::Devanagari,
            '\u{1100}'..='\u{11ff}' | '\u{ac00}'..='\u{d7af}' => Self::Hangul,
            '\u{3005}'
            | '\u{3041}'..='\u{309f}'
            | '\u{30a1}'..='\u{30fa}'
            | '\u{30fc}'
            | '\u{3400}'..='\u{4dbf}'
            | '\u{4e00}'..='\u{9fff}' => Self::Han,
            _ => return None,
        })
    }

    /// Returns the languages to which a word of the script can belong, the likeliest first; empty for the Latin script.
    pub(super) fn languages(self, has_syllables: bool) -> &'static [Language] {
        match self {
            Self::Latin => &[],
            Self::Arabic => &[Language::Arabic],
            Self::Cyrillic => &[Language::Russian],
            Self::Devanagari => &[Language::Hindi],
            Self::Hangul => &[Language::Korean],
            Self::Han if has_syllables => &[Language::Japanese, Language::Chinese],
            Self::Han => &[Language::Chinese, Language::Japanese],
        }
    }
}

/// Returns whether a character is a Japanese syllable, which does not occur in Chinese text.
pub(super) fn is_syllable(letter: char) -> bool {
    matches!(letter, '\u{3041}'..='\u{30ff}')
}

/// Removes accents from a text, but keeps the marks that other scripts need.
pub(super) fn without_accents(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let letters = text.nfd().filter(|letter| !matches!(letter, '\u{300}'..='\u{36f}'));
    Cow::Owned(letters.map(|letter| if letter == 'ı' { 'i' } else { letter }).nfc().collect())
}

fn snowball(algorithm: Algorithm, word: &str) -> String {
    let stem = Stemmer::create(algorithm).stem(word).into_owned();
    without_accents(&stem).replace('ß', "ss")
}

/// Prefixes of Arabic words: conjunctions, prepositions and the article, longest first.
const ARABIC_PREFIXES: &[&str] = &["وال", "بال", "كال", "فال", "لل", "ال", "و", "ب", "ل"];
/// Suffixes of Arabic words that express number, possession and gender, longest first.
const ARABIC_SUFFIXES: &[&str] =
    &["هما", "كما", "ات", "ون", "ين", "ان", "ها", "هم", "نا", "ني", "ية", "ه", "ة", "ي", "ك"];

/// Returns the stem of an Arabic word: variants of a letter are unified, and one prefix and one suffix are removed.
fn arabic(word: &str) -> String {
    let letters = word.chars().filter(|letter| !is_combining_mark(*letter) && *letter != 'ـ');
    let spelt: String = letters
        .map(|letter| match letter {
            'أ' | 'إ' | 'آ' => 'ا',
            'ى' => 'ي',
            other => other,
        })
        .collect();
    let rest = |part: &str| part.chars().count() >= 3;
    let cut = ARABIC_PREFIXES
        .iter()
        .find_map(|prefix| spelt.strip_prefix(prefix).filter(|part| rest(part)));
    let spelt = cut.unwrap_or(&spelt);
    let cut = ARABIC_SUFFIXES
        .iter()
        .find_map(|suffix| spelt.strip_suffix(suffix).filter(|part| rest(part)));
    cut.unwrap_or(spelt).replace('ة', "ه")
}

/// Suffixes of Hindi words that express number, gender, case and verb forms, longest first.
#[rustfmt::skip]
const HINDI_SUFFIXES: &[&str] = &[
    "िएगा", "ियों", "ियाँ", "ियां", "ाइए", "ाओं", "ाएँ", "ाएं", "ाया", "ाने", "ाना", "ाता", "ाते",
    "ाती", "िए", "ओं", "ने", "ना", "नी", "ता", "ते", "ती", "कर", "ों", "ें", "ओ", "ो", "े", "ी",
    "ा", "ि", "ू", "ु",
];

/// Returns the stem of a Hindi word, without the dot that marks letters of foreign origin.
fn hindi(word: &str) -> String {
    let mut spelt: String =
        word.nfd().filter(|letter| *letter != '\u{93c}' && *letter != '\u{200d}').collect();
    spelt = spelt.replace('ँ', "ं");
    let rest = |part: &str| part.chars().count() >= 2;
    let cut = HINDI_SUFFIXES
        .iter()
        .find_map(|suffix| spelt.strip_suffix(suffix).filter(|part| rest(part)));
    cut.unwrap_or(&spelt).to_owned()
}
