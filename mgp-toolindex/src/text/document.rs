//! The one place that says what of a tool is indexed, how often, and what of it is embedded (MGP §16.4).
//!
//! Applies to: inbound.

use super::analyzer::{Analyzer, Indexer};
use super::fold::fold_name;
use super::parts::{Parts, cut};
use super::schema::Parameter;
use super::split::{Piece, split};

/// How often the name stands in the text: a word of the name says more than one of the description.
const NAME_REPEATS: usize = 2;

/// How much of what a server says of itself is part of each of its tools, in bytes.
const SERVER_TEXT: usize = 400;

/// How much text is embedded, in bytes; sentence encoders read no more of it.
const SENTENCE: usize = 1200;

/// How much of the description is embedded, in bytes: what a tool is for stands first, and how it is used after.
const ABOUT: usize = 250;

/// Goes up when a tool gets other words than before: those that were kept are made anew then.
#[cfg(feature = "sqlite")]
pub(crate) const VERSION: u32 = 1;

/// The words of a tool as the keyword index has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Document {
    /// Words of the name as they are and their stems, and the name without anything between its words.
    pub(crate) name: String,
    /// All words.
    pub(crate) text: String,
    /// Types of input and output: `i:csv`, `o:chart`.
    pub(crate) kinds: String,
}

impl Parts<'_> {
    /// The words to index.
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
        indexer.index(self.server_id, &mut text);
        if let Some(name) = self.server_name.filter(|name| *name != self.server_id) {
            indexer.index(name, &mut text);
        }
        indexer.index(cut(self.server_description.unwrap_or_default(), SERVER_TEXT), &mut text);
        for word in self.categories.iter().chain(&self.keywords) {
            indexer.index(word, &mut text);
        }
        Document { name: self.name_words(indexer), text, kinds: self.kinds(indexer) }
    }

    /// The text to embed.
    pub(crate) fn sentence(&self) -> String {
        let mut text = String::new();
        // Whose tool it is says much; the name says most.
        apart(self.server_name.unwrap_or(self.server_id), &mut text);
        text.push_str(": ");
        apart(self.name, &mut text);
        text.push(' ');
        apart(self.name, &mut text);
        let description = cut(self.description, ABOUT);
        for said in [self.title.unwrap_or_default(), description] {
            if !said.is_empty() {
                text.push_str(". ");
                text.push_str(said);
            }
        }
        let mut before = " Parameters: ";
        for parameter in &self.parameters {
            if text.len() >= SENTENCE {
                break;
            }
            text.push_str(before);
            apart(&parameter.name, &mut text);
            before = " ";
        }
        text.truncate(text.floor_char_boundary(SENTENCE));
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
        // A word that stands there twice is one to the index.
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
        each(INPUT, &self.parameters);
        each(OUTPUT, &self.outputs);
        if self.outputs.is_empty() {
            add(OUTPUT, self.name);
        }
        out
    }
}

/// Appends a name with its words apart.
fn apart(name: &str, text: &mut String) {
    let mut between = "";
    split(name, &mut |piece| {
        if let Piece::Word(word) | Piece::Single { text: word, .. } = piece {
            text.push_str(between);
            text.push_str(word);
            between = " ";
        }
    });
}

/// What stands before a type of input.
pub(crate) const INPUT: &str = "i:";
/// What stands before a type of output.
pub(crate) const OUTPUT: &str = "o:";

/// A word of a type as it is indexed.
pub(crate) fn kind_word(sign: &str, word: &str, analyzer: &Analyzer) -> String {
    format!("{sign}{}", analyzer.stem(word))
}

/// The words of a type that is asked for; each must occur.
pub(crate) fn kind_words(sign: &str, kind: &str, analyzer: &Analyzer) -> Vec<String> {
    let mut all = Vec::new();
    split(kind, &mut |piece| {
        if let Piece::Word(word) = piece {
            all.push(kind_word(sign, word, analyzer));
        }
    });
    all
}
