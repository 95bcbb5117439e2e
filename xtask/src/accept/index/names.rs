//! The part of `index.laws` about names: a search for the name of a tool must find this tool, even with a typing error.

use super::{
    data::{Listed, Query, Set},
    eval::Searcher,
    score::{Scores, score},
};
use crate::{accept::Verdict, dice::Dice, run::Outcome};
use std::collections::{BTreeMap, BTreeSet};

/// The minimum share of exactly written names whose tool ranks first.
const MIN_EXACT: f64 = 0.995;

/// The minimum share of names with one typing error whose tool ranks among the first three.
const MIN_MISTYPED: f64 = 0.95;

/// The minimum length of names that the check changes by a typing error. A shorter name with an error might be similar
/// to several names.
const MIN_LENGTH: usize = 5;

/// The seed of the generated typing errors.
const SEED: u64 = 16;

/// The search strategies that are checked: the default strategy, and the strategy that searches for words only.
const STRATEGIES: [&str; 2] = ["hybrid", "keyword"];

/// Searches for every unique name, as written and with a typing error, and checks how often the tool is found.
pub(super) fn all(searcher: &Searcher, sets: &[Set]) -> Outcome<Verdict> {
    let (mut exact, mut slipped) = (1.0_f64, 1.0_f64);
    println!("{:18}{:>8}{:>18}{:>18}", "names", "unique", "first, exact", "top 3, one slip");
    for set in sets {
        let exactly = exactly(&set.tools);
        let slips = slips(&exactly, set);
        for strategy in STRATEGIES {
            let one = asked(searcher, set, strategy, &exactly)?.first();
            let other = asked(searcher, set, strategy, &slips)?.recall_3();
            exact = exact.min(one);
            slipped = slipped.min(other);
            println!(
                "{:18}{:>8}{:>16.2} %{:>16.2} %  {strategy}",
                set.name,
                exactly.len(),
                one * 100.0,
                other * 100.0
            );
        }
    }
    println!("slips from seed {SEED}");
    Ok(Verdict {
        pass: exact >= MIN_EXACT && slipped >= MIN_MISTYPED,
        figure: format!(
            "names exact {:.2} %, with a slip {:.2} % at worst",
            exact * 100.0,
            slipped * 100.0
        ),
        bound: format!("{:.1} %, {:.0} %", MIN_EXACT * 100.0, MIN_MISTYPED * 100.0),
    })
}

fn asked(searcher: &Searcher, set: &Set, strategy: &str, queries: &[Query]) -> Outcome<Scores> {
    let texts = queries.iter().map(|query| (&*query.id, &*query.text));
    let ranking = searcher.ask_all(set, strategy, texts)?.ranking;
    Ok(score(queries, &ranking, None))
}

/// Returns a query for each name that only one tool has.
fn exactly(tools: &[Listed]) -> Vec<Query> {
    let mut by_name: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for tool in tools {
        by_name.entry(&tool.name).or_default().push(&tool.id);
    }
    let unique = by_name.into_iter().filter(|(_, ids)| ids.len() == 1);
    unique.map(|(name, ids)| Query::new(ids[0], name)).collect()
}

/// Returns the queries of at least [`MIN_LENGTH`] letters, with one typing error each. If an error produces the name of
/// another tool, another error is tried.
fn slips(exactly: &[Query], set: &Set) -> Vec<Query> {
    let names: BTreeSet<String> = set.tools.iter().map(|tool| tool.name.to_lowercase()).collect();
    let mut dice = Dice::new(SEED);
    let long = exactly.iter().filter(|query| query.text.chars().count() >= MIN_LENGTH);
    long.filter_map(|query| {
        let slips = (0..20).map(|_| slip(&query.text, &mut dice));
        let text = slips.into_iter().find(|text| !names.contains(&text.to_lowercase()))?;
        Some(Query::new(&query.id, &text))
    })
    .collect()
}

/// Returns the name with one letter replaced, added, removed or swapped.
fn slip(name: &str, dice: &mut Dice) -> String {
    let mut letters: Vec<char> = name.chars().collect();
    let at = dice.below(letters.len());
    let wrong = char::from(b'a' + u8::try_from(dice.below(26)).unwrap_or(0));
    match dice.below(4) {
        0 => letters[at] = wrong,
        1 => letters.insert(at, wrong),
        2 => drop(letters.remove(at)),
        _ => letters.swap(at.saturating_sub(1), at.max(1)),
    }
    letters.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(id: &str, name: &str) -> Listed {
        Listed { id: id.to_owned(), server_id: "s".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn names_that_two_tools_have_are_not_asked() {
        let tools = [tool("a.read", "read"), tool("b.read", "read"), tool("a.write", "write")];
        let queries = exactly(&tools);
        assert_eq!(queries.len(), 1);
        assert_eq!((&*queries[0].text, &*queries[0].relevant[0]), ("write", "a.write"));
    }

    #[test]
    fn a_slip_changes_one_place() {
        let mut dice = Dice::new(1);
        let mut lengths = BTreeSet::new();
        for _ in 0..200 {
            let slipped = slip("calendar", &mut dice);
            lengths.insert(slipped.len());
            let same = |(one, other): (char, char)| one == other;
            let front = slipped.chars().zip("calendar".chars()).take_while(|pair| same(*pair));
            let back = slipped.chars().rev().zip("calendar".chars().rev());
            let kept = front.count() + back.take_while(|pair| same(*pair)).count();
            assert!(kept >= 6, "{slipped}");
        }
        assert_eq!(lengths, [7, 8, 9].into());
    }
}
