//! The acceptance check `find.spread`: for a query that needs two to four tools of different servers, the search finds
//! all of these tools.
//!
//! Each query joins several English requests of `find.languages` by a template. The weights of the search were chosen
//! with the templates of `TRIED` and without those of `ASIDE`.

use super::{
    data::{Query, Set},
    eval::Searcher,
    languages, skipped,
};
use crate::{
    accept::{Options, Verdict},
    run::{Context, Outcome},
};
use std::collections::BTreeSet;

/// Templates that join several requests into one query. The weights of the search were chosen with them.
const TRIED: [&str; 8] = [
    "{}, then {}",
    "{} and {}",
    "{}. {}.",
    "{}, {}, and {}",
    "First {}, after that {}",
    "{} and also {}",
    "{}, then {}, and finally {}",
    "please {} and {} and {}",
];

/// Templates that join several requests into one query. The weights of the search were chosen without them.
const ASIDE: [&str; 8] = [
    "I need two things: {}; {}",
    "{} and while you are at it {}",
    "{} before you {}",
    "{} {}",
    "1) {} 2) {} 3) {}",
    "- {}\n- {}\n- {}",
    "{} as well as {}, and {}, {}",
    "{} {} {}",
];

/// The number of joined queries for each of the two sets of templates.
const WISHES: u16 = 160;

/// A need counts as found if a right tool is among this number of first results. `TOP_ALL` is the number for
/// [`MIN_ALL`], where all needs of a query must be found.
const TOP: usize = 5;
const TOP_ALL: usize = 8;

/// The minimum share of needs that are found. `MIN_ALL` is the minimum share of queries whose needs are all found.
const MIN_FOUND: f64 = 0.72;
const MIN_ALL: f64 = 0.55;

/// A joined query, with the right tools for each of its needs.
struct Joined {
    id: String,
    text: String,
    needs: Vec<Vec<String>>,
}

/// Searches for all queries, and counts the needs with a right tool among the first results.
pub(in crate::accept) fn spread(options: &Options) -> Outcome<Verdict> {
    let Some(sets) = Set::all(options)? else { return skipped(options, "find.spread") };
    let set = sets.iter().find(|set| set.name == languages::SET).context(languages::SET)?;
    let wishes = languages::read("en", set)?;
    let joined: Vec<Joined> = [("tried", TRIED), ("aside", ASIDE)]
        .into_iter()
        .flat_map(|(half, ways)| join(half, &ways, &wishes))
        .collect();
    let searcher = Searcher::build()?;
    let texts = joined.iter().map(|wish| (&*wish.id, &*wish.text));
    let ranking = searcher.ask_all(set, "hybrid", texts)?.ranking;
    let count = f64::from(WISHES);
    let mut all = Vec::new();
    for half in ["tried", "aside"] {
        let (mut found, mut complete) = (0.0, 0.0);
        for wish in joined.iter().filter(|wish| wish.id.starts_with(half)) {
            let ranked = ranking.get(&wish.id).map_or(&[][..], Vec::as_slice);
            found += share(&wish.needs, ranked, TOP);
            complete += f64::from(u8::from(share(&wish.needs, ranked, TOP_ALL) >= 1.0));
        }
        println!("{half}: recall@5 {:.3}, all in the top 8 {:.3}", found / count, complete / count);
        all.push((found / count, complete / count));
    }
    let (found, complete) = all[1];
    Ok(Verdict {
        pass: found >= MIN_FOUND && complete >= MIN_ALL,
        figure: format!("ways set aside: recall@5 {found:.3}, all in the top 8 {complete:.3}"),
        bound: format!("{MIN_FOUND:.2}, {MIN_ALL:.2}"),
    })
}

/// Returns the share of needs for which a right tool is among the first results.
fn share(needs: &[Vec<String>], ranked: &[String], top: usize) -> f64 {
    let is_found = |need: &&Vec<String>| ranked.iter().take(top).any(|tool| need.contains(tool));
    let count = |count: usize| u32::try_from(count).map_or(f64::MAX, f64::from);
    count(needs.iter().filter(is_found).count()) / count(needs.len())
}

/// Joins requests whose right tools are on different servers; always returns the same joined queries for the same
/// arguments.
fn join(half: &str, ways: &[&str], wishes: &[Query]) -> Vec<Joined> {
    let server = |tool: &String| tool.split('.').next().unwrap_or_default().to_owned();
    let servers: Vec<BTreeSet<String>> =
        wishes.iter().map(|wish| wish.relevant.iter().map(server).collect()).collect();
    // Each of these steps has no common divisor with the number of requests, so it reaches every request before it
    // repeats one.
    let (mut at, steps) = (0, [27, 29, 31, 33, 37, 39]);
    let of_number = |number: usize| {
        let way = ways[number % ways.len()];
        let mut chosen: Vec<usize> = Vec::new();
        while chosen.len() < way.matches("{}").count() {
            at = (at + steps[number / wishes.len() % steps.len()]) % wishes.len();
            if chosen.iter().all(|other| servers[*other].is_disjoint(&servers[at])) {
                chosen.push(at);
            }
        }
        let text = chosen.iter().fold(way.to_owned(), |text, wish| {
            text.replacen("{}", &lowered(&wishes[*wish].text), 1)
        });
        let needs = chosen.iter().map(|wish| wishes[*wish].relevant.clone()).collect();
        Joined { id: format!("{half}-{number}"), text, needs }
    };
    (0..usize::from(WISHES)).map(of_number).collect()
}

/// Returns a request as a part of a sentence: with a small first letter, and without its final punctuation.
fn lowered(text: &str) -> String {
    let text = text.trim_end_matches(['?', '!', '.']);
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_lowercase().chain(chars).collect())
}
