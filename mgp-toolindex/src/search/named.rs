//! Tools whose name is the query, also in another spelling or with a typing error (MGP §16.5).
//!
//! Applies to: inbound.

use super::View;
use super::weight::MOST;
use crate::catalog::{Bitmap, LONGEST_ID, Slot};
use crate::error::IndexError;
use crate::text::{Words, fold_name};

/// The longest query that may be a name, in letters and digits.
const LONGEST: usize = 96;

/// The most words of a query that may be a name with a typing error.
const MOST_WORDS: usize = 8;

/// From so few words on a query may be a name with a typing error even if all its words are known.
const FEW_WORDS: usize = 3;

/// How many tools of one name are put first.
const MOST_TOOLS: usize = 50;

/// How near a name is that is the query but for capitals and the signs between its words.
const ALIKE: f32 = 1.0;

/// How near a name is that is the query but for capitals.
const BUT_CASE: f32 = 2.0;

/// How near a name is that is the query as it is written.
const WRITTEN: f32 = 3.0;

/// Tools whose name is the query, each with how near it is: below 1 if there are errors, and above the more alike it is
/// written.
pub(super) fn named(
    view: &View<'_>,
    text: &str,
    words: &Words,
    within: Option<&Bitmap>,
) -> Result<Vec<(Slot, f32)>, IndexError> {
    if words.whole.is_empty() || words.whole.len() > LONGEST {
        return Ok(Vec::new());
    }
    let visible = |slot: &Slot| within.is_none_or(|within| within.contains(*slot));
    let text = text.trim();
    // `server.tool`, wherever the name of the server ends.
    let mut signs = text.match_indices(['.', '/', ':']).take_while(|(at, _)| *at <= LONGEST_ID);
    let qualified = signs.find_map(|(at, sign)| {
        view.catalog.find(&text[..at], &text[at + sign.len()..]).filter(visible)
    });
    let written = view.catalog.by_name(text).filter(visible).take(MOST_TOOLS);
    let mut found: Vec<(Slot, f32)> =
        qualified.into_iter().chain(written).map(|slot| (slot, WRITTEN)).collect();
    for slot in view.catalog.by_folded(text).filter(visible).take(MOST_TOOLS) {
        if found.iter().all(|(known, _)| *known != slot) {
            let is_case = |name: &str| name.eq_ignore_ascii_case(text);
            let is_case = view.catalog.entry(slot).is_some_and(|entry| is_case(entry.name()));
            found.push((slot, if is_case { BUT_CASE } else { ALIKE }));
        }
    }
    if !found.is_empty() {
        return Ok(found);
    }
    let many = words.raw.len();
    let is_odd = || words.terms.iter().any(|term| !view.keywords.knows(&term.text));
    if many > MOST_WORDS || many > FEW_WORDS && !is_odd() {
        return Ok(Vec::new());
    }
    let whole = Words { whole: words.whole.clone(), ..Words::default() };
    let mut near = view.keywords.fuzzy(&whole, MOST_TOOLS, within)?;
    for (slot, nearness) in &mut near {
        let name = view.catalog.entry(*slot).map_or(0, |entry| fold_name(entry.name()).len());
        *nearness *= alike(name, words.whole.len());
    }
    Ok(near)
}

/// How much of the longer one two names can have in common: a name that only has the word in it is another name.
#[expect(clippy::cast_precision_loss, reason = "names are short")]
fn alike(one: usize, other: usize) -> f32 {
    one.min(other) as f32 / one.max(other).max(1) as f32
}

/// The score of a tool that was asked for by name: above all others, and the fewer errors the higher.
pub(super) fn score(nearness: f32, score: f32) -> f32 {
    let between = score / MOST;
    if nearness >= ALIKE {
        0.99 + 0.01 * (nearness - ALIKE + between) / WRITTEN
    } else {
        MOST + 0.08 * nearness + 0.01 * between
    }
}
