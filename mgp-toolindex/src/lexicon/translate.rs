//! Finds the words of other languages in a text, and replaces them by English words (MGP §16.5).
//!
//! The script of a word determines its language, except for Latin letters. All words with Latin letters count as words
//! of one language: the language whose lexicon has most of these words, if it has more of them than the English
//! lexicon. Otherwise the text is English. In an English text, a word is replaced only if another language has it, and
//! neither the English lexicon nor the index has it.

use std::ops::Range;

use super::Translation;
use super::language::{LATIN, Language, Script, is_syllable};
use super::negation::{is_negated, is_negated_in_run};
use super::token::{Token, tokens};
use super::words::{Lexicon, Senses};
use crate::embed::has_english;

/// The maximum number of words of a text that are looked up.
const MAX_TOKENS: usize = 256;

const MAX_PHRASE_WORDS: usize = 3;

/// The maximum number of English words that replace a foreign word.
pub(super) const MAX_TRANSLATIONS: usize = 3;

/// The weights of the English words that replace a foreign word, beginning with the most likely word.
const WEIGHTS: [f32; MAX_TRANSLATIONS] = [1.0, 0.6, 0.4];

/// Words in the languages of the lexicon whose only function is to separate two steps. They are translated by `then`,
/// at which the search splits a query into several requests.
const STEP_WORDS: [(Language, &str); 9] = [
    (Language::Arabic, "ثم"),
    (Language::Chinese, "然后"),
    (Language::Chinese, "然後"),
    (Language::French, "ensuite"),
    (Language::French, "puis"),
    (Language::Italian, "poi"),
    (Language::Japanese, "それから"),
    (Language::Russian, "затем"),
    (Language::Spanish, "luego"),
];

/// The minimum number of letters of a word that is translated inside an English text, or as a part of a longer word.
const MIN_LETTERS: usize = 4;

/// The maximum number of words of an English text in which foreign words are translated; in longer texts, unknown words
/// are mostly names.
const MAX_MIXED_WORDS: usize = 12;

/// The maximum number of words in a text that is searched for misspelled words; in longer texts, unknown words are
/// mostly names.
const MAX_SPELLED_WORDS: usize = 24;

/// The points of a language for each word of the text that is in its lexicon. The language with the most points is the
/// language of the text.
const KNOWN_POINTS: usize = 2;
/// The points of a language for each of its words without a meaning of their own, e.g. an article.
const FUNCTION_WORD_POINTS: usize = 3;

/// The minimum length of a part of a compound, in letters.
const MIN_PART_LETTERS: usize = 3;

/// The maximum length of a word that is read as a compound, in bytes.
const MAX_COMPOUND_BYTES: usize = 64;

/// Translates the foreign words in a text; returns `None` if no word can be translated.
///
/// `is_known` returns whether a word, given in lower case, occurs in the index.
pub(crate) fn translate(text: &str, is_known: &dyn Fn(&str) -> bool) -> Option<Translation> {
    let lexicon = Lexicon::get();
    let tokens = tokens(text, MAX_TOKENS);
    let mut reader = Reader { lexicon, text, tokens: &tokens, language: None };
    let is_foreign = |token: &Token| token.script != Script::Latin;
    let latin = tokens.iter().any(|token| !is_foreign(token) && !reader.is_english(token));
    if !latin && !tokens.iter().any(is_foreign) {
        return None;
    }
    reader.language = latin.then(|| reader.guess()).flatten();
    let mut writer = Writer { lexicon, translation: Translation::default(), likeliest: Vec::new() };
    let (mut at, mut copied) = (0, 0);
    while at < tokens.len() {
        let read = match reader.read(at) {
            Some(read) => read,
            None => {
                reader.read_unknown(at, is_known).unwrap_or(Read { tokens: 0, found: Vec::new() })
            }
        };
        if read.tokens == 0 {
            at += 1;
            continue;
        }
        let range = tokens[at].range.start..tokens[at + read.tokens - 1].range.end;
        writer.push(&text[copied..range.start]);
        writer.replace(&read.found);
        copied = range.end;
        at += read.tokens;
    }
    if copied == 0 {
        return None;
    }
    writer.push(&text[copied..]);
    let Writer { mut translation, mut likeliest, .. } = writer;
    likeliest.sort_unstable();
    translation.lesser.retain(|(word, _)| likeliest.binary_search(word).is_err());
    Some(translation)
}

/// Returns the ranges of the words in an English text that are probably misspelled. Such a word is neither in the
/// lexicon, nor in the word table, nor in the index, and looks neither like a name nor like a part of an identifier.
///
/// `is_known` returns whether a word, given in lower case, occurs in the index. Without the word table, no words are
/// returned, because too many correct words would be unknown.
pub(crate) fn misspelled(text: &str, is_known: &dyn Fn(&str) -> bool) -> Vec<Range<usize>> {
    let tokens = tokens(text, MAX_SPELLED_WORDS + 1);
    if tokens.len() > MAX_SPELLED_WORDS || cfg!(not(feature = "static-table")) {
        return Vec::new();
    }
    let reader = Reader { lexicon: Lexicon::get(), text, tokens: &tokens, language: None };
    let is_misspelled = |at: usize, token: &Token| {
        let word = reader.word(token);
        let lower = word.to_lowercase();
        let is_name = at > 0 && word.starts_with(char::is_uppercase);
        word.is_ascii()
            && word.len() >= MIN_LETTERS
            && !is_name
            && !is_joined(text, &token.range)
            && !reader.is_english(token)
            && !has_english(&lower)
            && !has_english(&Language::English.stem(word))
            && !is_known(&lower)
    };
    let words = tokens.iter().enumerate().filter(|(at, token)| is_misspelled(*at, token));
    words.map(|(_, token)| token.range.clone()).collect()
}

/// Returns whether a word is a part of a longer unit: of a text with inner dots, such as a file name or the address of
/// a website, or of a contraction such as `didn't`.
fn is_joined(text: &str, word: &Range<usize>) -> bool {
    let after = &text[word.end..];
    let is_dotted = text[..word.start].ends_with('.')
        || after.strip_prefix('.').is_some_and(|rest| rest.starts_with(char::is_alphanumeric));
    is_dotted || after.starts_with("'t") || after.starts_with("\u{2019}t")
}

/// The result of looking up a phrase that begins at a token: the number of tokens of the phrase, and the results for
/// its parts.
struct Read {
    tokens: usize,
    found: Vec<Found>,
}

/// The result of looking up a part of a text.
enum Found {
    Senses(Senses),
    Step,
    /// The text negates the preceding part.
    Negation,
    /// A part of the text that is not in the lexicon.
    Unknown(String),
}

struct Reader<'a> {
    lexicon: &'static Lexicon,
    text: &'a str,
    tokens: &'a [Token],
    /// The language of the words with Latin letters; `None` for English.
    language: Option<Language>,
}

impl Reader<'_> {
    fn word(&self, token: &Token) -> &str {
        &self.text[token.range.clone()]
    }

    /// Returns whether a token is English or a part of an identifier, so that it needs no translation.
    fn is_english(&self, token: &Token) -> bool {
        let word = self.word(token).to_lowercase();
        token.is_identifier || self.points(Language::English, &word) > 0
    }

    /// Returns the language with the most points for the words with Latin letters; `None` if English has at least as
    /// many points.
    fn guess(&self) -> Option<Language> {
        let (mut english, mut scores) = (0, [0; LATIN.len()]);
        for token in self.tokens.iter().filter(|token| token.script == Script::Latin) {
            // A word that is only in the word table counts half for English, because the table also contains some
            // foreign words.
            let word = self.word(token).to_lowercase();
            let known = self.points(Language::English, &word);
            english += match known {
                0 if token.is_identifier => KNOWN_POINTS,
                0 => usize::from(has_english(&word)),
                points => points,
            };
            // A word that tools use gives no language more points than English. E.g. `comment` is also French for
            // `how`.
            let of_tools = self.lexicon.find(Language::English, &Language::English.stem(&word));
            let is_of_tools = of_tools.is_some_and(|senses| !senses.is_function_word());
            let most = if is_of_tools { known } else { FUNCTION_WORD_POINTS };
            for (language, score) in LATIN.into_iter().zip(&mut scores) {
                let points = if token.is_identifier { 0 } else { self.points(language, &word) };
                *score += points.min(most);
            }
        }
        let best = *scores.iter().max()?;
        let place = scores.iter().position(|score| *score == best)?;
        (best > english).then(|| LATIN[place])
    }

    /// Returns the points of a language for a word; 0 if the word is not in its lexicon. Words without a meaning of
    /// their own, e.g. articles, give the most points, because they distinguish languages best.
    fn points(&self, language: Language, word: &str) -> usize {
        let exact = self.lexicon.find_exact(language, word);
        let stem = language.stem(word);
        match exact.or_else(|| self.lexicon.find(language, &stem)) {
            Some(senses) if senses.is_function_word() => FUNCTION_WORD_POINTS,
            Some(_) => KNOWN_POINTS,
            None if language == Language::English && self.lexicon.is_everyday(&stem) => {
                KNOWN_POINTS
            }
            None => 0,
        }
    }

    /// Looks up a token together with the tokens after it, and returns the longest phrase in the lexicon. If the
    /// lexicon has no such phrase, looks up parts of the token. In a script without spaces, looks up the words in the
    /// token.
    fn read(&self, at: usize) -> Option<Read> {
        let token = &self.tokens[at];
        if token.script == Script::Han {
            return self.read_run(token);
        }
        let languages = match token.script {
            Script::Latin => self.language.as_slice(),
            script => script.languages(false),
        };
        if token.is_identifier {
            return None;
        }
        let lower = self.word(token).to_lowercase();
        if step_word(languages, &lower) == Some(lower.len()) {
            return Some(Read { tokens: 1, found: vec![Found::Step] });
        }
        languages.iter().find_map(|language| {
            let read = self.read_phrase(*language, at).or_else(|| {
                let found = self.read_parts(*language, self.word(token))?;
                Some(Read { tokens: 1, found })
            })?;
            if read.tokens > 1 || !is_negated(self.text, self.tokens, at, *language) {
                return Some(read);
            }
            let found = read.found.into_iter().flat_map(|found| [found, Found::Negation]);
            Some(Read { tokens: 1, found: found.collect() })
        })
    }

    fn read_phrase(&self, language: Language, at: usize) -> Option<Read> {
        let script = self.tokens[at].script;
        let rest = self.tokens[at..].iter().take(MAX_PHRASE_WORDS);
        let words = rest.take_while(|token| token.script == script && !token.is_identifier);
        let (words, stems): (Vec<String>, Vec<String>) = words
            .map(|token| (self.word(token).to_lowercase(), language.stem(self.word(token))))
            .unzip();
        (1..=stems.len()).rev().find_map(|length| {
            let exact = self.lexicon.find_exact(language, &words[..length].join(" "));
            let senses =
                exact.or_else(|| self.lexicon.find(language, &stems[..length].join(" ")))?;
            Some(Read { tokens: length, found: vec![Found::Senses(senses)] })
        })
    }

    /// Looks up the parts of a word, if the lexicon does not have the word: the words of a compound, or the beginning
    /// of a word with endings.
    fn read_parts(&self, language: Language, word: &str) -> Option<Vec<Found>> {
        if language.has_compounds() && word.len() <= MAX_COMPOUND_BYTES {
            return self.read_compound(language, &word.to_lowercase(), &mut Vec::new());
        }
        if !language.has_many_endings() {
            return None;
        }
        let stem = language.stem(word);
        let (length, senses) = self.lexicon.longest(language, &stem)?;
        let (letters, all) = (stem[..length].chars().count(), stem.chars().count());
        if language == Language::Korean {
            return self.read_korean(&stem);
        }
        let is_enough = letters >= MIN_LETTERS && 2 * letters > all;
        (is_enough && !senses.is_function_word()).then(|| vec![Found::Senses(senses)])
    }

    /// Looks up a compound of two or more words, given in lower case, e.g. `wechselkurs` or `wettervorhersage`.
    ///
    /// `failed` collects the lengths of prefixes of the word that are not compounds, so that each prefix is tried only
    /// once. Otherwise the time would grow exponentially with the length of the word.
    fn read_compound(
        &self,
        language: Language,
        word: &str,
        failed: &mut Vec<usize>,
    ) -> Option<Vec<Found>> {
        let splits = word.char_indices().skip(MIN_PART_LETTERS).map(|(at, _)| at);
        let splits: Vec<usize> =
            splits.filter(|at| word[*at..].chars().count() >= MIN_PART_LETTERS).collect();
        let known = |part: &str| {
            let senses = self.lexicon.find(language, &language.stem(part))?;
            (!senses.is_function_word()).then_some(Found::Senses(senses))
        };
        // Try the longest last part first, because the last part of a compound names the thing.
        splits.into_iter().find_map(|at| {
            let last = known(&word[at..])?;
            let first = &word[..at];
            match known(first).or_else(|| known(first.strip_suffix('s')?)) {
                Some(first) => Some(vec![first, last]),
                None if first.chars().count() > 2 * MIN_PART_LETTERS => {
                    if failed.contains(&first.len()) {
                        return None;
                    }
                    let Some(mut parts) = self.read_compound(language, first, failed) else {
                        failed.push(first.len());
                        return None;
                    };
                    parts.push(last);
                    Some(parts)
                }
                None => None,
            }
        })
    }

    /// Looks up a Korean word, which consists of one or more known words, followed by particles and endings.
    fn read_korean(&self, word: &str) -> Option<Vec<Found>> {
        let mut found = Vec::new();
        let mut rest = word;
        while let Some((length, senses)) = self.lexicon.longest(Language::Korean, rest) {
            let syllables = rest[..length].chars().count();
            let left = rest[length..].chars().count();
            if syllables == 1 && (left > 3 || !found.is_empty()) {
                break;
            }
            found.push(Found::Senses(senses));
            rest = &rest[length..];
        }
        (!found.is_empty()).then_some(found)
    }

    /// Looks up the words in a sequence of Chinese characters and Japanese syllables: at each position, the longest
    /// known word.
    fn read_run(&self, token: &Token) -> Option<Read> {
        let languages = token.script.languages(self.text.contains(is_syllable));
        let run = self.word(token);
        let (mut found, mut unknown, mut at) = (Vec::new(), String::new(), 0);
        while let Some(letter) = run[at..].chars().next() {
            if let Some(length) = step_word(languages, &run[at..]) {
                push_unknown(&mut unknown, &mut found);
                found.push(Found::Step);
                at += length;
                continue;
            }
            let known =
                languages.iter().filter_map(|language| self.lexicon.longest(*language, &run[at..]));
            // If the words of two languages are equally long, prefer the language that comes first, because it is
            // likelier.
            let longest = known.reduce(|best, next| if next.0 > best.0 { next } else { best });
            if let Some((length, senses)) = longest {
                push_unknown(&mut unknown, &mut found);
                found.push(Found::Senses(senses));
                if is_negated_in_run(&run[..at], &run[at + length..]) {
                    found.push(Found::Negation);
                }
                at += length;
            } else {
                unknown.push(letter);
                at += letter.len_utf8();
            }
        }
        push_unknown(&mut unknown, &mut found);
        let any = found.iter().any(|found| matches!(found, Found::Senses(_)));
        any.then_some(Read { tokens: 1, found })
    }

    /// Looks up a word of an otherwise English text in the lexicons of the other languages. The word is neither in the
    /// English lexicon nor in the index.
    fn read_unknown(&self, at: usize, is_known: &dyn Fn(&str) -> bool) -> Option<Read> {
        let token = &self.tokens[at];
        let word = self.word(token);
        if token.script != Script::Latin
            || self.tokens.len() > MAX_MIXED_WORDS
            || self.language.is_some()
            || word.chars().count() < MIN_LETTERS
            || self.is_english(token)
            || has_english(&word.to_lowercase())
            || is_known(&word.to_lowercase())
        {
            return None;
        }
        let senses = LATIN.into_iter().find_map(|language| {
            let senses = self.lexicon.find(language, &language.stem(word))?;
            (!senses.is_function_word()).then_some(senses)
        })?;
        Some(Read {
            tokens: 1,
            found: vec![Found::Senses(senses), Found::Unknown(word.to_owned())],
        })
    }
}

/// Returns the length in bytes of the word from [`STEP_WORDS`] with which a text in lower case begins; only words of
/// the given languages count.
fn step_word(languages: &[Language], text: &str) -> Option<usize> {
    let mut words = STEP_WORDS.iter().filter(|(language, _)| languages.contains(language));
    words.find(|(_, word)| text.starts_with(word)).map(|(_, word)| word.len())
}

/// Moves the collected unknown characters, if any, to the found parts, as one unknown part.
fn push_unknown(unknown: &mut String, found: &mut Vec<Found>) {
    if !unknown.is_empty() {
        found.push(Found::Unknown(std::mem::take(unknown)));
    }
}

struct Writer {
    lexicon: &'static Lexicon,
    translation: Translation,
    /// The most likely English word for each foreign word that was replaced.
    likeliest: Vec<&'static str>,
}

impl Writer {
    fn push(&mut self, text: &str) {
        let written = &mut self.translation.text;
        if written.ends_with(char::is_alphanumeric) && text.starts_with(char::is_alphanumeric) {
            written.push(' ');
        }
        written.push_str(text);
    }

    /// Writes the English words for a foreign word; omits a word without a meaning of its own.
    fn replace(&mut self, found: &[Found]) {
        let (mut english, mut last, mut negated) = (String::new(), 0..0, Vec::new());
        for part in found {
            match part {
                Found::Unknown(text) => push_word(text, &mut english),
                Found::Step => push_word("then", &mut english),
                Found::Negation => negated.push(last.clone()),
                Found::Senses(senses) => {
                    let start = english.len();
                    for (word, weight) in self.lexicon.english(*senses).zip(WEIGHTS) {
                        push_word(word, &mut english);
                        if weight < 1.0 {
                            self.translation.lesser.push((word, weight));
                        } else {
                            self.likeliest.push(word);
                        }
                    }
                    last = start..english.len();
                }
            }
        }
        self.push(&english);
        let start = self.translation.text.len() - english.len();
        let negated = negated.into_iter().map(|range| start + range.start..start + range.end);
        self.translation.negated.extend(negated);
    }
}

fn push_word(word: &str, text: &mut String) {
    if !text.is_empty() {
        text.push(' ');
    }
    text.push_str(word);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let translation = translate(text, &|_| false).map(|translation| translation.text);
        let word = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
        let words = |text: &str| text.split_whitespace().map(word).collect::<Vec<_>>();
        let (found, expected) = (words(translation.as_deref().unwrap_or(text)), words(expected));
        let missing: Vec<_> = expected.iter().filter(|word| !found.contains(word)).collect();
        assert!(missing.is_empty(), "{text}: {missing:?} in {found:?}");
    }

    #[test]
    fn wishes_in_other_languages_get_english_words() {
        check("wie spät ist es in Tokio", "time");
        check("网页截图", "screenshot");
        check("quelle heure est-il à Paris ?", "time");
        check("сколько времени в Берлине", "time");
        check("ファイルを読んで", "file read");
        check("파일을 읽어 줘", "file read");
        check("लिस्बन का मौसम", "weather");
        check("ما هو الطقس في روما", "weather");
        check("hava durumu nasıl", "weather");
        check("¿qué tiempo hace en Madrid?", "weather");
        check("che tempo fa a Roma", "weather");
        check("como está o tempo em Lisboa", "weather");
    }

    #[test]
    fn phrases_do_not_hide_their_verbs() {
        check("annuler la réunion", "cancel meeting");
        check("cancela la reunión", "cancel meeting");
        check("sposta la riunione", "move meeting");
        check("отмени встречу", "cancel meeting");
        check("Newsletter abbestellen", "newsletter unsubscribe");
        check("quitar el fondo de la foto", "remove image");
        check("você pode remover o fundo da minha foto", "remove image");
        check("arka planı sil", "remove background");
        check("배경 제거", "remove background");
        check("احذف الخلفية", "remove background");
    }

    #[test]
    fn words_that_separate_steps_stay() {
        check("查询北京的天气，然后发送消息", "weather，then send");
        check("天気を調べて、それからメールを送って", "weather find、then mail");
        check("cherche la météo à Paris puis envoie un message", "weather then send message");
        check("busca el tiempo en Madrid, luego crea un evento", "then create event");
        check("найди погоду в Москве, затем создай событие", "weather then create");
        assert_eq!(translate("the nearest poi of this route", &|_| false), None);
    }

    #[test]
    fn compounds_are_read_by_their_parts() {
        check("Musikordner öffnen", "music folder open");
    }

    #[test]
    fn a_compound_of_many_words_is_read_in_a_short_time() {
        for words in [9, 40] {
            let text = format!("der das und ist qxqxqxqx{}", "radweg".repeat(words));
            let translation = translate(&text, &|_| false).unwrap().text;
            assert!(translation.contains("radwegradweg"), "{words}: {translation}");
        }
    }

    #[test]
    fn each_beginning_of_a_compound_is_read_once() {
        let reader = Reader { lexicon: Lexicon::get(), text: "", tokens: &[], language: None };
        let word = format!("qxqxqxqx{}", "radweg".repeat(30));
        let mut failed = Vec::new();
        assert!(reader.read_compound(Language::German, &word, &mut failed).is_none());
        let count = failed.len();
        failed.sort_unstable();
        failed.dedup();
        assert!(failed.len() > 20 && failed.len() == count, "{failed:?}");
    }

    #[test]
    fn a_mixed_wish_keeps_its_english_words() {
        check("show me the Wetter in Berlin", "show me the weather in Berlin");
        check("PDFを読む", "PDF read");
    }

    #[cfg(feature = "static-table")]
    #[test]
    fn only_unknown_words_are_misspelled() {
        let check = |text: &str, expected: &[&str]| {
            let found = misspelled(text, &|word| word == "grafana");
            let found: Vec<_> = found.into_iter().map(|range| &text[range]).collect();
            assert_eq!(found, expected, "{text}");
        };
        check("creaet an invioce", &["creaet", "invioce"]);
        check("open a grafana dashboard for Xyzqwv", &[]);
        check("read qxzv_file, qxzvFile, qxzv.txt and www.qxzv.org", &[]);
        check("the weather in Lisbon tomorrow", &[]);
        check("it qxzvwn't work, nor did qxzvwm\u{2019}t", &[]);
        check(&"creaet ".repeat(MAX_SPELLED_WORDS + 1), &[]);
    }

    #[test]
    fn english_stays_as_it_is() {
        for text in [
            "what is the average petrol price in Australia",
            "read_file",
            "I am tired of calculus, can you help me with my curriculum?",
            "convert 50 USD to EUR",
            "wget curl ssh",
            "gh issue comment",
            "qxzv cell value",
            "",
        ] {
            assert_eq!(translate(text, &|_| false), None, "{text}");
        }
    }

    #[test]
    fn any_text_can_be_read() {
        for text in
            ["\u{0}", "ß", "ｆｕｌｌ", "한", "の", "\u{304b}\u{3099}", "🦀 Datei", "a\u{301}"]
        {
            let _ = translate(&text.repeat(2_000), &|_| false);
        }
    }
}
