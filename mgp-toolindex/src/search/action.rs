//! Compares the action that a query requests with the action of a tool: reading, changing or deleting (MGP §16.5).
//!
//! A tool with a different action gets a lower score, because e.g. "remember this" rarely means `delete_note`.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use super::weight::{UNASKED_CHANGE_FACTOR, UNASKED_DELETION_FACTOR, UNASKED_READ_FACTOR};
use crate::text::{Analyzer, words_of};

/// The maximum number of words that are read from a query.
const MAX_QUERY_WORDS: usize = 24;

/// The number of words at the beginning of a tool's name in which a verb is searched. Usually the first word is the
/// name of the server, and the second the verb.
const MAX_NAME_WORDS: usize = 4;

const DELETES: &str = "\
    abort archive cancel clean clear close deactivate delete destroy detach disable discard drop empty end erase \
    forget kill leave purge quit remove reset revert revoke rid stop terminate throw trash truncate undo \
    unfollow uninstall unlink unset unstar unsubscribe wipe withdraw";

const READS: &str = "\
    are browse check describe display does explain fetch find get how info is know list look lookup query read \
    retrieve search see show status tell view what when where which who why";

const CHANGES: &str = "\
    add append assign book build change commit convert copy create draw edit enter fill format generate insert \
    make merge modify move new note post publish push put register remember rename replace reply save schedule \
    send set store turn update upload write";

/// Verbs that do not reveal whether a tool reads or changes something.
const OTHER_VERBS: &str = "\
    analyse analyze ask bake buy calculate call click compare compile compress cook count crawl crop decode deploy \
    download draft encode encrypt estimate evaluate export extract filter import install invite join launch log \
    measure monitor navigate open order organise organize pick plan play plot predict print recommend record remind \
    resize roll rotate run scan scrape solve sort split start suggest summarise summarize take test track \
    transcribe translate verify visit visualise visualize watch";

/// Words in the lists of verbs above that cannot begin a command.
const NO_COMMANDS: &[&str] = &[
    "are", "does", "end", "how", "info", "is", "know", "lookup", "new", "status", "what", "when",
    "where", "which", "who", "why",
];

static ACTIONS: LazyLock<FxHashMap<&str, Actions>> = LazyLock::new(|| {
    let none = Actions::default();
    let reads = READS.split(' ').map(|word| (word, Actions { reads: true, ..none }));
    let changes = CHANGES.split(' ').map(|word| (word, Actions { changes: true, ..none }));
    let deletes = DELETES.split(' ').map(|word| (word, Actions { deletes: true, ..none }));
    let others = OTHER_VERBS.split(' ').map(|word| (word, none));
    reads.chain(changes).chain(deletes).chain(others).collect()
});

/// The kinds of action of the verbs, by their stems.
static FORMS: LazyLock<FxHashMap<String, Actions>> = LazyLock::new(|| {
    let analyzer = Analyzer::new();
    let mut forms = FxHashMap::<String, Actions>::default();
    for (verb, actions) in &*ACTIONS {
        let known = forms.entry(analyzer.stem(verb)).or_default();
        *known = known.or(*actions);
    }
    forms
});

/// Returns whether a word in lower case is a verb that can begin a command.
pub(super) fn is_verb(word: &str) -> bool {
    ACTIONS.contains_key(word) && !NO_COMMANDS.contains(&word)
}

/// The kinds of action that a query requests, or the kind of action of a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Actions {
    reads: bool,
    changes: bool,
    deletes: bool,
}

impl Actions {
    /// Returns the kinds of action of all verbs in a query.
    pub(super) fn of_query(text: &str) -> Self {
        let words = words_of(text, MAX_QUERY_WORDS);
        words.iter().filter_map(|word| Self::of_word(word)).fold(Self::default(), Self::or)
    }

    /// Returns the kinds of action of a word in lower case, if it is a form of a verb, e.g. `deletes`, `deleting` or
    /// `deletion`.
    pub(super) fn of_form(word: &str, analyzer: &Analyzer) -> Self {
        FORMS.get(&analyzer.stem(word)).copied().unwrap_or_default()
    }

    pub(super) fn deletes(self) -> bool {
        self.deletes
    }

    pub(super) fn changes_or_deletes(self) -> bool {
        self.changes || self.deletes
    }

    fn or(self, other: Self) -> Self {
        Self {
            reads: self.reads || other.reads,
            changes: self.changes || other.changes,
            deletes: self.deletes || other.deletes,
        }
    }

    /// Returns the kind of action of the first verb in a tool's name that reads, changes or deletes. No flag is set if
    /// the name has no such verb.
    fn of_name(name: &str) -> Self {
        let words = words_of(name, MAX_NAME_WORDS);
        words
            .iter()
            .filter_map(|word| Self::of_word(word))
            .find(|own| *own != Self::default())
            .unwrap_or_default()
    }

    fn of_word(word: &str) -> Option<Self> {
        ACTIONS.get(word).copied()
    }

    /// Returns the factor for the score of the tool with this name. It is below 1 if a query with these actions does
    /// not request the action of the tool.
    pub(super) fn factor(self, name: &str) -> f32 {
        let tool = Self::of_name(name);
        if tool.deletes && !self.deletes {
            UNASKED_DELETION_FACTOR
        } else if tool.changes && !self.changes && (self.reads || self.deletes) {
            UNASKED_CHANGE_FACTOR
        } else if tool.reads && self.changes && !self.reads {
            UNASKED_READ_FACTOR
        } else {
            1.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(query: &str, name: &str, expected: f32) {
        let factor = Actions::of_query(query).factor(name);
        assert!((factor - expected).abs() < f32::EPSILON, "{query}, {name}: {factor}");
    }

    #[test]
    fn a_tool_with_another_action_counts_less() {
        check("remember that Ada likes tea", "delete_note", UNASKED_DELETION_FACTOR);
        check("what is in this folder", "create_directory", UNASKED_CHANGE_FACTOR);
        check("delete the branch", "createBranch", UNASKED_CHANGE_FACTOR);
        check("write a letter", "read_file", UNASKED_READ_FACTOR);
    }

    #[test]
    fn a_tool_with_the_action_of_the_query_counts_in_full() {
        check("remove the note", "delete_note", 1.0);
        check("show the file and change it", "edit_file", 1.0);
        check("weather in Rome", "create_directory", 1.0);
        check("write a letter", "letter", 1.0);
    }
}
