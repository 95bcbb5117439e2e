//! Packs the word lists in `lexicon/` into the file `data/lexicon.fst`; with `UPDATE_GOLDEN=1`, the test writes this
//! file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::{env, fs};

use tantivy_fst::raw::Builder;
use unicode_normalization::UnicodeNormalization;

use super::language::{Language, Script, without_accents};
use super::token::tokens;
use super::translate::MAX_TRANSLATIONS;
use super::words::{EVERYDAY_MARK, EXACT_MARK, FUNCTION_WORD, MAX_SENSES, RELATED_MARK, Senses};

const LANGUAGES: &[(&str, Language)] = &[
    ("ar", Language::Arabic),
    ("de", Language::German),
    ("en", Language::English),
    ("es", Language::Spanish),
    ("fr", Language::French),
    ("hi", Language::Hindi),
    ("it", Language::Italian),
    ("ja", Language::Japanese),
    ("ko", Language::Korean),
    ("pt", Language::Portuguese),
    ("ru", Language::Russian),
    ("tr", Language::Turkish),
    ("zh", Language::Chinese),
];

/// The maximum size of the packed file and `english.txt` together, in bytes.
const MAX_PACKED_BYTES: usize = 1_500_000;

/// A map from the key of a word to all English words that translate it. Each English word is given by two numbers. The
/// first is its position among the translations, where 0 is the most usual translation; the second is its line number
/// in `english.txt`.
type Lines = BTreeMap<Vec<u8>, Vec<(usize, u64)>>;

#[test]
fn the_packed_lexicon_is_that_of_the_word_lists() {
    let english = read("english.txt");
    let heads: Vec<String> = english.lines().map(str::to_owned).collect();
    assert!((heads.len() as u64) < FUNCTION_WORD);
    let mut lines = Lines::new();
    for (number, head) in heads.iter().enumerate() {
        let key = key(Language::English, &Language::English.stem(head));
        lines.entry(key).or_default().push((0, number as u64));
    }
    for (code, language) in LANGUAGES.iter().filter(|(code, _)| *code != "en") {
        let mut known = Vec::new();
        for (place, line) in read(&format!("{code}.tsv")).lines().enumerate() {
            let (head, words) =
                line.split_once('\t').unwrap_or_else(|| panic!("{code} {place}: {line}"));
            let number = heads.iter().position(|known| known == head);
            let number = number.unwrap_or_else(|| panic!("{code}: {head} is not in english.txt"));
            assert!(!known.contains(&number), "{code}: {head} is there twice");
            known.push(number);
            // Semicolons separate groups of words. Words at the same position in their groups are equally usual.
            let ranked =
                words.split(';').flat_map(|words| words.split(['，', '、', ',']).enumerate());
            for (place, word) in ranked {
                for stems in spellings(*language, word.trim()) {
                    lines.entry(key(*language, &stems)).or_default().push((place, number as u64));
                }
            }
        }
    }
    add_related(&heads, &mut lines);
    let mut values = BTreeMap::new();
    for (key, lines) in lines {
        let is_related = key.first() == Some(&RELATED_MARK);
        values.insert(key, value(lines, if is_related { MAX_SENSES } else { MAX_TRANSLATIONS }));
    }
    values.extend(everyday(&heads));
    add_function_words(&mut values);
    let mut builder = Builder::memory();
    for (key, value) in values {
        builder.insert(key, value).expect("sorted");
    }
    let packed = builder.into_inner().expect("in memory");
    assert!(packed.len() + english.len() <= MAX_PACKED_BYTES, "{} bytes", packed.len());
    let path = folder().join("data/lexicon.fst");
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &packed).expect("the packed file can be written");
    }
    let is_same = fs::read(&path).is_ok_and(|stored| stored == packed);
    assert!(is_same, "{} is old: run this test with UPDATE_GOLDEN=1", path.display());
}

/// Adds the words without a meaning of their own, e.g. articles. They are stored by their stems, or exactly as they are
/// written if another word has the same stem.
fn add_function_words(values: &mut BTreeMap<Vec<u8>, u64>) {
    for line in read("function_words.tsv").lines() {
        let (code, words) = line.split_once('\t').expect(line);
        let (_, language) = LANGUAGES.iter().find(|(known, _)| *known == code).expect(code);
        for word in words.split(", ") {
            for (exact, stems) in exact_spellings(*language, word) {
                let stems = key(*language, &stems);
                let is_free = values.get(&stems).is_none_or(|value| *value == FUNCTION_WORD);
                let key = if is_free || has_no_stems(*language) {
                    stems
                } else {
                    [&[language.mark(), EXACT_MARK], exact.as_bytes()].concat()
                };
                values.insert(key, FUNCTION_WORD);
            }
        }
    }
}

/// Adds, for each English word of `related.tsv`, the English words that are related to it.
fn add_related(heads: &[String], lines: &mut Lines) {
    for line in read("related.tsv").lines() {
        let (word, related) = line.split_once('\t').expect(line);
        let stem = Language::English.stem(word);
        let key = [&[RELATED_MARK], stem.as_bytes()].concat();
        for (place, word) in related.split(", ").enumerate() {
            let number = heads.iter().position(|known| known == word);
            let number = number.unwrap_or_else(|| panic!("{word} is not in english.txt"));
            lines.entry(key.clone()).or_default().push((place, number as u64));
        }
    }
}

/// Returns the keys of the everyday words and word pairs in `everyday.tsv`, each with the packed words that tools use
/// for it.
///
/// A line has everyday words or pairs, a tab, and the words that tools use for them, the likeliest first. A `!` after
/// the tab marks words or pairs that rarely mean anything else. If several lines have the same word or pair, the lines
/// with `!` come first.
fn everyday(heads: &[String]) -> BTreeMap<Vec<u8>, u64> {
    let mut all: BTreeMap<Vec<u8>, (Vec<u64>, Vec<u64>)> = BTreeMap::new();
    for line in read("everyday.tsv").lines().filter(|line| !line.starts_with('#')) {
        let (words, tools) = line.split_once('\t').expect(line);
        let (is_certain, tools) =
            tools.strip_prefix('!').map_or((false, tools), |tools| (true, tools));
        let number = |tool: &str| {
            let number = heads.iter().position(|head| head == tool);
            number.unwrap_or_else(|| panic!("{tool} is not in english.txt")) as u64
        };
        let numbers: Vec<u64> = tools.split(", ").map(number).collect();
        for words in words.split(", ") {
            let mut stems: Vec<String> =
                words.split(' ').map(|word| Language::English.stem(word)).collect();
            stems.sort_unstable();
            stems.dedup();
            assert!(stems.len() <= 2, "{words}");
            let key = [&[EVERYDAY_MARK], stems.join(" ").as_bytes()].concat();
            let (certain, likely) = all.entry(key).or_default();
            if is_certain { certain } else { likely }.extend(&numbers);
        }
    }
    let pack = |(mut certain, likely): (Vec<u64>, Vec<u64>)| {
        let is_certain = !certain.is_empty();
        certain.extend(likely);
        let mut numbers: Vec<u64> = Vec::new();
        for number in certain {
            if !numbers.contains(&number) {
                numbers.push(number);
            }
        }
        let value = Senses::pack(numbers.into_iter());
        if is_certain { Senses::certain(value) } else { value }
    };
    all.into_iter().map(|(key, tools)| (key, pack(tools))).collect()
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(name: &str) -> String {
    fs::read_to_string(folder().join("lexicon").join(name)).expect(name)
}

fn key(language: Language, stems: &str) -> Vec<u8> {
    [&[language.mark()], stems.as_bytes()].concat()
}

/// Packs the English translations of a word into one number. The order favours words that are frequent in English, and
/// words that are usual translations of the foreign word.
fn value(mut lines: Vec<(usize, u64)>, max: usize) -> u64 {
    // `english.txt` begins with the words that are most frequent in tools, so a low line number means a frequent word.
    #[expect(clippy::cast_precision_loss, reason = "there are some thousand lines")]
    let rareness =
        |(place, line): (usize, u64)| place as f64 + 0.5 * (1.0 + line as f64 / 32.0).log2();
    lines.sort_by(|a, b| rareness(*a).total_cmp(&rareness(*b)));
    let mut numbers: Vec<u64> = Vec::new();
    for (_, number) in lines {
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    Senses::pack(numbers.into_iter().take(max))
}

fn has_no_stems(language: Language) -> bool {
    matches!(language, Language::Chinese | Language::Japanese | Language::Korean)
}

/// Returns the keys of a word or phrase in the lexicon: its stems, once for each usual way to write and inflect it.
fn spellings(language: Language, word: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (_, stems) in exact_spellings(language, word) {
        if !all.contains(&stems) {
            all.push(stems);
        }
    }
    all
}

/// Returns the usual ways to write and inflect a word or phrase. Each is returned twice: in lower case, and as stems.
fn exact_spellings(language: Language, word: &str) -> Vec<(String, String)> {
    let word: String = word.nfc().collect();
    let mut written = vec![word.clone()];
    match language {
        Language::Chinese | Language::Japanese => {
            written = vec![word.replace(' ', "")];
            written.extend(japanese_root(&word).filter(|_| language == Language::Japanese));
        }
        Language::Korean => written.extend(korean_roots(&word)),
        Language::German => {
            let umlauts = [("ä", "ae"), ("ö", "oe"), ("ü", "ue"), ("ß", "ss")];
            written.push(
                umlauts.iter().fold(word.to_lowercase(), |word, (from, to)| word.replace(from, to)),
            );
            written.push(without_accents(&word).into_owned());
        }
        Language::Arabic | Language::Hindi | Language::Russian => {}
        _ => written.push(without_accents(&word).into_owned()),
    }
    let mut all = Vec::new();
    for text in written {
        let words: Vec<&str> =
            tokens(&text, 8).iter().map(|token| &text[token.range.clone()]).collect();
        let stems = match language {
            Language::Chinese | Language::Japanese => text.to_lowercase(),
            _ => words.iter().map(|word| language.stem(word)).collect::<Vec<_>>().join(" "),
        };
        if !stems.is_empty() {
            all.push((words.join(" ").to_lowercase(), stems));
        }
    }
    all
}

/// Returns a Japanese verb or adjective without its ending, if the remaining part has Chinese characters.
fn japanese_root(word: &str) -> Option<String> {
    let last = word.chars().next_back().filter(|last| "うくぐすつぬぶむるい".contains(*last))?;
    let root = &word[..word.len() - last.len_utf8()];
    root.contains(|c: char| ('\u{4e00}'..='\u{9fff}').contains(&c)).then(|| root.to_owned())
}

/// Returns the roots of a Korean verb: the verb without its ending `다`, the form used before endings that begin with a
/// vowel (`그려` of `그리다`), and the part before the verbs `하` and `주`.
fn korean_roots(word: &str) -> Vec<String> {
    let Some(root) = word.strip_suffix('다') else { return Vec::new() };
    let mut all = vec![root.to_owned()];
    let Some(last) = root.chars().next_back() else { return Vec::new() };
    let number = u32::from(last).wrapping_sub(0xac00);
    // The code of a Korean syllable encodes its first consonant, its vowel (one of 21) and its last consonant (one of
    // 28).
    let (vowel, has_end) = (number / 28 % 21, number % 28 != 0);
    let changed = match vowel {
        _ if last == '하' => Some(1),
        20 => Some(6),
        8 => Some(9),
        13 => Some(14),
        _ => None,
    };
    if let Some(changed) = changed.filter(|_| !has_end && number < 11_172) {
        let before = &root[..root.len() - last.len_utf8()];
        let syllable = char::from_u32(0xac00 + number - 28 * vowel + 28 * changed);
        all.extend(syllable.map(|syllable| format!("{before}{syllable}")));
    }
    all.extend(root.strip_suffix("하").map(str::to_owned));
    all.extend(root.strip_suffix("주").map(str::to_owned));
    all.retain(|root| !root.is_empty() && Script::of(root.chars().next().unwrap_or(' ')).is_some());
    all
}
