//! Collects the words of a tool that are indexed, and the text that is embedded (MGP §16.4).

use std::collections::HashSet;

use super::analyzer::{Analyzer, Indexer};
use super::fold::fold_name;
use super::schema::Parameter;
use super::split::{Piece, split};
use super::tool_text::{ToolText, truncate};
use crate::lexicon::translate_definition;

/// The number of times that the name is indexed as part of the text, so that its words count more than the words of the
/// description.
const NAME_REPEATS: usize = 2;

/// The maximum number of bytes of a server's description that are indexed with each of its tools.
const MAX_SERVER_BYTES: usize = 400;

/// The maximum number of bytes of text that are embedded; sentence encoders read no more.
const MAX_SENTENCE_BYTES: usize = 1200;

/// The maximum number of bytes of a description that are embedded; its beginning describes the purpose of the tool.
const MAX_ABOUT_BYTES: usize = 250;

/// The maximum number of declared media types that are indexed, for input and for output each.
const MAX_MEDIA_TYPES: usize = 32;

/// The maximum number of values of parameters (`enum`, `const`) that are indexed with a tool.
const MAX_VALUES: usize = 48;

/// The maximum number of bytes of an indexed value; a longer value is a sentence, a key or a template.
const MAX_VALUE_BYTES: usize = 40;

/// The maximum number of bytes of all indexed values of a tool.
const MAX_ALL_VALUES_BYTES: usize = 256;

/// The version of the indexed words. Increase it when a change of the code changes the words of tools; stored words
/// with another version are then indexed again.
#[cfg(feature = "sqlite")]
pub(crate) const DOCUMENT_VERSION: u32 = 5;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Document {
    /// The words of the tool's name and their stems, and the whole name without separators.
    pub(crate) name: String,
    pub(crate) text: String,
    /// The types of input and output, e.g. `i:csv`, `o:chart`.
    pub(crate) kinds: String,
}

impl ToolText<'_> {
    pub(crate) fn document(&self, indexer: &mut Indexer) -> Document {
        let mut text = String::new();
        for _ in 0..NAME_REPEATS {
            indexer.index(self.name, &mut text);
        }
        if let Some(title) = self.title {
            indexer.index(title, &mut text);
        }
        indexer.index(self.description, &mut text);
        for parameter in &self.parameters {
            indexer.index(&parameter.name, &mut text);
            indexer.index(&parameter.description, &mut text);
        }
        if let Some(english) = self.in_english() {
            indexer.index(&english, &mut text);
        }
        indexer.index(self.server_id, &mut text);
        if let Some(name) = self.server_name.filter(|name| *name != self.server_id) {
            indexer.index(name, &mut text);
        }
        indexer.index(
            truncate(self.server_description.unwrap_or_default(), MAX_SERVER_BYTES),
            &mut text,
        );
        for word in self.categories.iter().chain(&self.keywords) {
            indexer.index(word, &mut text);
        }
        self.index_values(indexer, &mut text);
        Document { name: self.name_words(indexer), text, kinds: self.kinds(indexer) }
    }

    /// Appends the words of the values that parameters accept, e.g. `webp`. A word is appended only once, and only if
    /// no other text of the tool has it. So its weight is as low as possible.
    fn index_values(&self, indexer: &mut Indexer, text: &mut String) {
        let (mut words, mut left) = (String::new(), MAX_ALL_VALUES_BYTES);
        let values = self.parameters.iter().flat_map(|parameter| &parameter.values);
        for value in values.take(MAX_VALUES) {
            if value.len() <= MAX_VALUE_BYTES.min(left) {
                left -= value.len();
                indexer.index(value, &mut words);
            }
        }
        if words.is_empty() {
            return;
        }
        let mut known: HashSet<&str, ahash::RandomState> = text.split(' ').collect();
        let new: Vec<&str> = words.split(' ').filter(|word| known.insert(*word)).collect();
        for word in new {
            text.push(' ');
            text.push_str(word);
        }
    }

    /// Returns the texts of the tool that are not in English, with their foreign words replaced by English words;
    /// `None` if all texts are in English.
    fn in_english(&self) -> Option<String> {
        let parameters = self.parameters.iter().map(|parameter| &*parameter.description);
        let texts = [self.name, self.title.unwrap_or_default(), self.description];
        let mut english = String::new();
        for text in texts.into_iter().chain(parameters) {
            if let Some(translation) = translate_definition(text) {
                english.push_str(&translation);
                english.push('\n');
            }
        }
        (!english.is_empty()).then_some(english)
    }

    /// Returns the text from which the tool's vector is computed.
    pub(crate) fn sentence(&self) -> String {
        let mut text = String::new();
        // Put the server and the tool's name first, because they describe the purpose best.
        push_words(self.server_name.unwrap_or(self.server_id), &mut text);
        text.push_str(": ");
        push_words(self.name, &mut text);
        text.push(' ');
        push_words(self.name, &mut text);
        let description = truncate(self.description, MAX_ABOUT_BYTES);
        for text_part in [self.title.unwrap_or_default(), description] {
            if !text_part.is_empty() {
                text.push_str(". ");
                text.push_str(translate_definition(text_part).as_deref().unwrap_or(text_part));
            }
        }
        let mut before = " Parameters: ";
        for parameter in &self.parameters {
            if text.len() >= MAX_SENTENCE_BYTES {
                break;
            }
            text.push_str(before);
            push_words(&parameter.name, &mut text);
            before = " ";
        }
        text.truncate(text.floor_char_boundary(MAX_SENTENCE_BYTES));
        text
    }

    fn name_words(&self, indexer: &mut Indexer) -> String {
        let mut all: Vec<String> = Vec::new();
        let mut add = |word: String| {
            if !word.is_empty() && !all.contains(&word) {
                all.push(word);
            }
        };
        add(fold_name(self.name));
        split(self.name, &mut |piece| match piece {
            Piece::Word(word) => {
                let mut stem = String::new();
                indexer.push_stem(word, &mut stem);
                add(stem);
                add(word.to_owned());
            }
            Piece::Pair(text) | Piece::Single { text, .. } => add(text.to_owned()),
            Piece::Whole(_) => {}
        });
        all.join(" ")
    }

    fn kinds(&self, indexer: &mut Indexer) -> String {
        let mut out = String::new();
        // Do not remove repeated words: the field `kinds` stores no word frequencies, so a repetition does not raise
        // the weight of a word.
        let mut add = |sign: &str, text: &str| {
            split(text, &mut |piece| {
                if let Piece::Word(word) | Piece::Whole(word) = piece {
                    out.push_str(sign);
                    indexer.push_stem(word, &mut out);
                    out.push(' ');
                }
            });
        };
        let mut each = |sign: &str, parameters: &[Parameter<'_>]| {
            for parameter in parameters {
                add(sign, &parameter.name);
                parameter.kinds.iter().for_each(|kind| add(sign, kind));
            }
        };
        each(INPUT_PREFIX, &self.parameters);
        each(OUTPUT_PREFIX, &self.outputs);
        if self.outputs.is_empty() {
            add(OUTPUT_PREFIX, self.name);
        }
        if let Some(media) = &self.media {
            for (sign, types) in
                [(INPUT_PREFIX, &media.input_types), (OUTPUT_PREFIX, &media.output_types)]
            {
                types.iter().take(MAX_MEDIA_TYPES).for_each(|kind| add(sign, kind));
            }
        }
        out
    }
}

/// Appends the words of a name, separated by spaces.
fn push_words(name: &str, text: &mut String) {
    let mut between = "";
    split(name, &mut |piece| {
        if let Piece::Word(word) | Piece::Single { text: word, .. } = piece {
            text.push_str(between);
            text.push_str(word);
            between = " ";
        }
    });
}

/// The prefix of an indexed word that names a type of a tool's input, e.g. `i:csv`.
pub(crate) const INPUT_PREFIX: &str = "i:";
/// The prefix of an indexed word that names a type of a tool's output, e.g. `o:chart`.
pub(crate) const OUTPUT_PREFIX: &str = "o:";

pub(crate) fn kind_word(sign: &str, word: &str, analyzer: &Analyzer) -> String {
    format!("{sign}{}", analyzer.stem(word))
}

/// Returns the indexed words of a type; a tool has the type only if it has all of these words.
pub(crate) fn kind_words(sign: &str, kind: &str, analyzer: &Analyzer) -> Vec<String> {
    let mut all = Vec::new();
    split(kind, &mut |piece| {
        if let Piece::Word(word) = piece {
            all.push(kind_word(sign, word, analyzer));
        }
    });
    all
}
