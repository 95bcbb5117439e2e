//! The acceptance checks `find.languages` and `find.speed`: for requests ("wishes") in thirteen languages, the search
//! finds the tools of real servers, and does so quickly.
//!
//! `mgp-toolindex/tests/wishes` has a file of wishes for each language. The same line of `tools.txt` lists the right
//! tools for a wish, any one of which is enough. The authors of the lexicon knew the first half of the lines when they
//! chose its words. The wishes in the folders `aside` and `other` are worded indirectly; their authors knew neither the
//! lexicon nor the other wishes. The check reports their results, but sets no bound for them.

use super::{
    data::{Listed, Query, Set},
    eval::Searcher,
    skipped,
};
use crate::{
    accept::{Options, Verdict},
    run::{Context, Failure, Outcome, root},
};
use serde_json::Value;
use std::{collections::BTreeMap, fs, path::Path};

/// The set with the tools of seventy real servers.
pub(super) const SET: &str = "livemcp";

/// The languages of the wishes: English, then the other languages of the lexicon.
const LANGUAGES: [&str; 13] =
    ["en", "ar", "de", "es", "fr", "hi", "it", "ja", "ko", "pt", "ru", "tr", "zh"];

/// The number of first results that are considered: a wish is fulfilled if a right tool is among them.
const TOP: usize = 3;

/// The minimum share of fulfilled wishes in English. `MIN_EACH` is the minimum for each other language, and `MIN_ALL`
/// the minimum for the mean of the other languages.
const MIN_ENGLISH: f64 = 0.90;
const MIN_EACH: f64 = 0.75;
const MIN_ALL: f64 = 0.85;

/// The shares of fulfilled wishes: among the first half of the lines, the second half, all lines, and the folders
/// `aside` and `other`.
type Shares = [f64; 5];

/// Searches for all wishes, and counts the wishes with a right tool among the first results.
pub(in crate::accept) fn languages(options: &Options) -> Outcome<Verdict> {
    let Some(sets) = Set::all(options)? else { return skipped(options, "find.languages") };
    let set = sets.iter().find(|set| set.name == SET).context(SET)?;
    let wishes: Vec<(&str, Vec<Query>)> = LANGUAGES
        .into_iter()
        .map(|language| {
            let mut wishes = read(language, set)?;
            for folder in ["aside", "other"] {
                wishes.extend(read(&format!("{folder}/{language}"), set)?);
            }
            Ok((language, wishes))
        })
        .collect::<Outcome<_>>()?;
    let searcher = Searcher::build()?;
    let texts = wishes.iter().flat_map(|(_, wishes)| wishes).map(|wish| (&*wish.id, &*wish.text));
    let ranking = searcher.ask_all(set, "hybrid", texts)?.ranking;
    let is_found = |wish: &Query| {
        let ranked = ranking.get(&wish.id).map_or(&[][..], Vec::as_slice);
        ranked.iter().take(TOP).any(|tool| wish.relevant.contains(tool))
    };
    let mut shares: BTreeMap<&str, Shares> = BTreeMap::new();
    for (language, wishes) in &wishes {
        let found: Vec<bool> = wishes.iter().map(is_found).collect();
        let (all, others) = found.split_at(found.len() / 3);
        let (aside, other) = others.split_at(others.len() / 2);
        let (first, second) = all.split_at(all.len() / 2);
        let found = [first, second, all, aside, other].map(share);
        let [first, second, all, aside, other] = found;
        println!(
            "{language}: first half {first:.3}, second half {second:.3}, all {all:.3}, aside {aside:.3}, other {other:.3}"
        );
        shares.insert(language, found);
    }
    Ok(verdict(&shares))
}

/// The maximum time of the first search with a foreign word, in microseconds. `MAX_LATER` is the maximum for 99 of 100
/// later searches, and `MAX_MEMORY` the maximum memory that the first search adds, in KiB.
const MAX_FIRST: u64 = 3_000;
const MAX_LATER: u64 = 500;
const MAX_MEMORY: u64 = 4 * 1024;

/// Measures the first search with a foreign word, which loads the lexicon, and later searches.
pub(in crate::accept) fn speed(options: &Options) -> Outcome<Verdict> {
    let Some(sets) = Set::all(options)? else { return skipped(options, "find.speed") };
    let set = sets.iter().find(|set| set.name == SET).context(SET)?;
    let mut wishes = Vec::new();
    for language in LANGUAGES.into_iter().filter(|language| *language != "en") {
        wishes.extend(read(language, set)?);
    }
    let searcher = Searcher::build()?;
    let texts = wishes.iter().map(|wish| (&*wish.id, &*wish.text));
    let figures = searcher.ask_all(set, "hybrid", texts)?.figures;
    let figure = |name: &str| figures.get(name).and_then(Value::as_u64).context(name);
    let (first, later, memory) = (figure("first_us")?, figure("p99_us")?, figure("first_kb")?);
    Ok(Verdict {
        pass: first <= MAX_FIRST && later <= MAX_LATER && memory <= MAX_MEMORY,
        figure: format!("first {first} us and {memory} KiB, p99 of the others {later} us"),
        bound: format!("{MAX_FIRST} us and {MAX_MEMORY} KiB, {MAX_LATER} us"),
    })
}

fn verdict(shares: &BTreeMap<&str, Shares>) -> Verdict {
    let english = shares["en"][2];
    let others = shares.iter().filter(|(language, _)| **language != "en");
    let others: Vec<f64> = others.map(|(_, [_, _, all, ..])| *all).collect();
    let least = others.iter().copied().fold(1.0, f64::min);
    let count = u32::try_from(others.len()).expect("there are twelve");
    let mean = others.iter().sum::<f64>() / f64::from(count);
    Verdict {
        pass: english >= MIN_ENGLISH && least >= MIN_EACH && mean >= MIN_ALL,
        figure: format!(
            "English {english:.3}, least of the others {least:.3}, their mean {mean:.3}"
        ),
        bound: format!("{MIN_ENGLISH:.2}, {MIN_EACH:.2}, {MIN_ALL:.2}"),
    }
}

pub(super) fn read(language: &str, set: &Set) -> Outcome<Vec<Query>> {
    let path = root().join(format!("mgp-toolindex/tests/wishes/{language}.txt"));
    let read = |path: &Path| fs::read_to_string(path).context(path.display());
    let (tools, texts) = (read(&path.with_file_name("tools.txt"))?, read(&path)?);
    if tools.lines().count() != texts.lines().count() {
        return Err(Failure::new(format!("{language}.txt has other lines than tools.txt")));
    }
    let of_line = |(line, (tools, text)): (usize, (&str, &str))| {
        let names: Vec<&str> = tools.split(' ').collect();
        let is_right = |tool: &&Listed| names.contains(&&*tool.name) || names.contains(&&*tool.id);
        let right = set.tools.iter().filter(is_right);
        let relevant: Vec<String> = right.map(|tool| tool.id.clone()).collect();
        if relevant.is_empty() {
            return Err(Failure::new(format!("line {}: no tool is named {tools}", line + 1)));
        }
        let id = format!("{language}-{}", line + 1);
        let mut wish = Query::new(&id, text);
        wish.relevant = relevant;
        Ok(wish)
    };
    tools.lines().zip(texts.lines()).enumerate().map(of_line).collect()
}

#[expect(clippy::cast_precision_loss, reason = "there are some dozen wishes")]
fn share(found: &[bool]) -> f64 {
    found.iter().filter(|found| **found).count() as f64 / found.len().max(1) as f64
}
