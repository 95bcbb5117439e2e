//! Finds words that a text in another language negates: `nicht löschen`, `sans supprimer`, `削除しないで` (MGP §16.5).
//!
//! This file reads only the words around a word. It need not know which words are verbs, because the search ignores a
//! negated word only if it is a verb that changes or deletes something.

use super::language::Language;
use super::token::Token;

/// Words that negate a command directly after them. They count only where a command can begin, because elsewhere they
/// belong to a statement, e.g. `le bouton ne supprime rien`.
const NEGATIONS: [(Language, &[&str]); 7] = [
    (Language::Arabic, &["لا", "ولا"]),
    (Language::French, &["n", "ne"]),
    (Language::German, &["nicht"]),
    (Language::Italian, &["non"]),
    (Language::Portuguese, &["nao", "não"]),
    (Language::Russian, &["не"]),
    (Language::Spanish, &["no"]),
];

/// Words that negate the word directly after them, wherever they are.
const ALTERNATIVES: [(Language, &[&str]); 8] = [
    (Language::Arabic, &["بدون", "دون"]),
    (Language::French, &["sans"]),
    (Language::German, &["anstatt", "ohne", "statt"]),
    (Language::Hindi, &["बिना", "मत"]),
    (Language::Italian, &["senza"]),
    (Language::Portuguese, &["sem"]),
    (Language::Russian, &["без", "вместо"]),
    (Language::Spanish, &["sin"]),
];

/// Words that negate the word directly before them if it has one of the listed endings; with an empty list, they negate
/// any word before them.
const LATER_NEGATIONS: [(Language, &[&str], &[&str]); 3] = [
    (Language::Hindi, &["बिना"], &["ए", "े"]),
    (Language::Korean, &["마", "마세요", "말고", "말아", "말아줘", "않고"], &["지"]),
    (Language::Korean, &["없이"], &[]),
];

/// Endings of negated Turkish verbs: `silmeden`, `silmeyin`.
const TURKISH_ENDINGS: &[&str] = &["madan", "mayın", "mayınız", "meden", "meyin", "meyiniz"];

/// Pronouns that can occur between a negation and its verb.
const PRONOUNS: [(Language, &[&str]); 4] = [
    (Language::French, &["en", "l", "la", "le", "les", "m", "me", "y"]),
    (Language::Italian, &["la", "le", "li", "lo"]),
    (Language::Portuguese, &["a", "as", "o", "os"]),
    (Language::Spanish, &["la", "las", "lo", "los", "me"]),
];

/// The maximum number of pronouns that are skipped. Without it, a long row of pronouns would be read again for each of
/// its words.
const MAX_PRONOUNS: usize = 2;

/// Words of all languages after which a command can begin, with a negation as its first word.
const BEFORE_COMMANDS: &[&str] = &[
    "aber",
    "bitte",
    "e",
    "et",
    "favor",
    "ma",
    "mais",
    "mas",
    "pero",
    "und",
    "y",
    "а",
    "и",
    "но",
    "пожалуйста",
    "لكن",
    "ولكن",
];

/// The maximum number of words from `ohne` to `zu`, e.g. in `ohne die alte Datei zu löschen`.
const MAX_WORDS_BEFORE_ZU: usize = 5;

/// Chinese words that negate the word after them. The exception is `要不要`, which only asks whether to do it.
const CHINESE: &[&str] = &["不必", "不用", "不要", "切勿", "而不是", "請勿", "请勿"];
const CHINESE_QUESTION: &str = "要不要";
/// Chinese characters that negate a command at its beginning; elsewhere they are parts of other words.
const CHINESE_AT_BEGINNING: &[&str] = &["別", "别", "勿"];

/// Endings that negate a Japanese verb, after at most one syllable: `しないで`, `消さずに`.
const JAPANESE: &[&str] = &["ないで", "ずに"];

/// Returns whether a text negates the word at a position; `language` is the word's language.
pub(super) fn is_negated(text: &str, tokens: &[Token], at: usize, language: Language) -> bool {
    let words = Words { text, tokens };
    let mut first = at;
    while at - first < MAX_PRONOUNS
        && words.joins(first)
        && words.is_one_of(first - 1, of(language, &PRONOUNS))
    {
        first -= 1;
    }
    if words.joins(first) {
        let before = first - 1;
        let begins = || !words.joins(before) || words.is_one_of(before - 1, BEFORE_COMMANDS);
        if words.is_one_of(before, of(language, &ALTERNATIVES))
            || words.is_one_of(before, of(language, &NEGATIONS)) && begins()
        {
            return true;
        }
    }
    let word = words.lower(at);
    let is_negated_later = |(own, negations, endings): &(Language, &[&str], &[&str])| {
        *own == language
            && words.joins(at + 1)
            && words.is_one_of(at + 1, negations)
            && (endings.is_empty() || endings.iter().any(|ending| word.ends_with(ending)))
    };
    match language {
        Language::German => words.is_without_zu(at),
        Language::Turkish => TURKISH_ENDINGS.iter().any(|ending| word.ends_with(ending)),
        _ => LATER_NEGATIONS.iter().any(is_negated_later),
    }
}

/// Returns whether a Chinese or Japanese text negates the word between `before` and `after`.
pub(super) fn is_negated_in_run(before: &str, after: &str) -> bool {
    let is_chinese = CHINESE.iter().any(|word| before.ends_with(word))
        && !before.ends_with(CHINESE_QUESTION)
        || CHINESE_AT_BEGINNING.contains(&before);
    let mut later = after.chars();
    later.next();
    is_chinese
        || JAPANESE.iter().any(|end| after.starts_with(end) || later.as_str().starts_with(end))
}

/// Returns the words of a language in a table.
fn of(
    language: Language,
    table: &[(Language, &'static [&'static str])],
) -> &'static [&'static str] {
    table.iter().find(|(own, _)| *own == language).map_or(&[], |(_, words)| *words)
}

#[derive(Clone, Copy)]
struct Words<'a> {
    text: &'a str,
    tokens: &'a [Token],
}

impl Words<'_> {
    fn lower(&self, at: usize) -> String {
        let token = self.tokens.get(at).map(|token| &self.text[token.range.clone()]);
        token.unwrap_or_default().to_lowercase()
    }

    fn is_one_of(&self, at: usize, all: &[&str]) -> bool {
        all.contains(&&*self.lower(at))
    }

    /// Returns whether a word follows another word, with only spaces, hyphens or apostrophes between the two.
    fn joins(&self, at: usize) -> bool {
        let before = at.checked_sub(1).and_then(|before| self.tokens.get(before));
        let (Some(before), Some(token)) = (before, self.tokens.get(at)) else { return false };
        let mut between = self.text[before.range.end..token.range.start].chars();
        between.all(|c| c.is_whitespace() || matches!(c, '-' | '\'' | '\u{2019}'))
    }

    /// Returns whether a German word follows `ohne … zu`.
    fn is_without_zu(&self, at: usize) -> bool {
        if !self.joins(at) || !self.is_one_of(at - 1, &["zu"]) {
            return false;
        }
        let zu = at - 1;
        let words = (0..zu).rev().take(MAX_WORDS_BEFORE_ZU);
        let mut joined = words.take_while(|before| self.joins(before + 1));
        joined.any(|before| self.is_one_of(before, of(Language::German, &ALTERNATIVES)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::translate;

    /// Returns the words of a translation that the original text negates.
    fn negated(text: &str) -> String {
        let translation = translate(text, &|_| false).unwrap_or_default();
        let parts = translation.negated.iter().map(|range| translation.text[range.clone()].trim());
        parts.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn negated_verbs_are_found_in_each_language() {
        for text in [
            "archiviere die Nachricht, nicht löschen",
            "archiviere die Nachricht, ohne sie zu löschen",
            "archive le message, ne le supprime pas",
            "archive le message sans supprimer la copie",
            "archiva el mensaje, no borres la copia",
            "archiva el mensaje sin borrar la copia",
            "archivia il messaggio senza eliminare la copia",
            "arquiva a mensagem sem apagar a cópia",
            "архивируй сообщение, не удаляй его",
            "архивируй сообщение без удаления",
            "أرشف الرسالة بدون حذف",
            "संदेश मिटाए बिना दिखाओ",
            "메시지를 삭제하지 말고 보관해 줘",
            "mesajı silmeden arşivle",
            "不要删除邮件",
            "メッセージを削除しないで",
        ] {
            let found = negated(text);
            let is_there = |verb| found.contains(verb);
            assert!(["delet", "remov", "eras"].into_iter().any(is_there), "{text}: {found:?}");
        }
    }

    #[test]
    fn statements_negate_nothing() {
        for text in [
            "le bouton ne supprime pas le message",
            "ich kann die Nachricht nicht finden, lösche sie",
            "no puedo encontrar el mensaje, borra la copia",
            "я не могу найти сообщение, удали его",
            "要不要删除邮件",
        ] {
            assert_eq!(negated(text), "", "{text}");
        }
    }
}
