//! What a history learns, whom it tells, and what it forgets.
//!
//! Applies to: inbound.

mod bounds;
#[cfg(feature = "sqlite")]
mod kept;
mod ranked;
mod shelves;

use std::sync::Arc;
use std::time::Duration;

use mgp_types::service::Principal;

use super::history::View;
use super::*;
use crate::embed::{EmbedError, Embedder};
use crate::text::Analyzer;

/// Embeds a text as how often each letter is in it.
#[derive(Debug)]
struct Letters(&'static str);

impl Embedder for Letters {
    fn model(&self) -> &str {
        self.0
    }

    fn dimensions(&self) -> usize {
        26
    }

    fn embed(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        let mut vector = vec![0.0; 26];
        for letter in text.bytes().filter(u8::is_ascii_alphabetic) {
            vector[usize::from(letter.to_ascii_lowercase() - b'a')] += 1.0;
        }
        let length = vector.iter().map(|n: &f32| n * n).sum::<f32>().sqrt().max(1.0);
        for number in &mut vector {
            *number /= length;
        }
        Ok(vector)
    }
}

fn me() -> Principal {
    Principal::new("t", "me")
}

fn views(history: &History, who: &Principal, query: &str) -> Vec<View> {
    let vector = Letters("").embed(query).unwrap();
    history.told(who, &Analyzer::new().query(query), Some(&vector)).views
}

fn best(history: &History, who: &Principal, query: &str) -> Option<(String, f32)> {
    views(history, who, query).first().map(|view| (view.tool.to_string(), view.lift))
}

/// Twelve queries for each of four tools.
fn taught(history: &History, who: &Principal) {
    let asks = ["weather rain sunny", "mail letter send", "file folder disk", "song music play"];
    for round in 0..12 {
        for (tool, words) in asks.iter().enumerate() {
            let words: Vec<_> = words.split(' ').collect();
            let query = format!("{} {} {round}", words[round % 3], words[(round + 1) % 3]);
            history.record(who, &query, &format!("s.tool{tool}"));
        }
    }
    history.settle();
}

#[test]
fn an_empty_history_says_nothing() {
    let history = History::new();
    assert_eq!(views(&history, &me(), "anything at all"), []);
    history.record(&me(), "  ", "s.tool");
    assert_eq!(history.stats(), HistoryStats::default(), "there is nothing to know it again by");
}

#[test]
fn what_was_called_after_a_like_query_is_lifted_and_nothing_after_an_unlike_one() {
    for embedder in [None, Some(Arc::new(Letters("a")) as Arc<dyn Embedder>)] {
        let history = History::new();
        history.embed_with(embedder);
        taught(&history, &me());
        let (tool, lift) = best(&history, &me(), "will it rain or be sunny").unwrap();
        assert!(tool == "s.tool0" && lift > 0.3, "{tool} {lift}");
        let all = views(&history, &me(), "send a mail");
        assert_eq!(&*all[0].tool, "s.tool1");
        assert!(all.is_sorted_by(|left, right| left.share >= right.share));
        let sum: f32 = all.iter().map(|view| view.share).sum();
        assert!(sum <= 1.001 && all.iter().all(|view| view.lift >= 0.0));
        let unlike = best(&history, &me(), "xxqq zzqq").map_or(0.0, |(_, lift)| lift);
        assert!(unlike < lift / 3.0, "{unlike} {lift}");
    }
}

#[test]
fn a_history_that_was_never_right_lifts_nothing() {
    let history = History::new();
    for n in 0..200 {
        history.record(&me(), &format!("do the usual thing {n}"), &format!("s.tool{n}"));
    }
    history.settle();
    let lift = best(&history, &me(), "do the usual thing").map_or(0.0, |(_, lift)| lift);
    assert!(lift < 0.1, "{lift}");
}

#[tokio::test(start_paused = true)]
async fn only_answered_calls_of_found_tools_teach() {
    let history = History::new();
    history.asked(&me(), 7, "read the letter", ["s.read", "s.write"]);
    history.called(&me(), 7, "s.read", Outcome::Failed);
    history.called(&me(), 7, "s.other", Outcome::Answered);
    history.called(&me(), 8, "s.read", Outcome::Answered);
    history.called(&Principal::new("other", "me"), 7, "s.read", Outcome::Answered);
    assert_eq!(history.stats().queries, 0);
    history.called(&me(), 7, "s.read", Outcome::Answered);
    history.called(&me(), 7, "s.read", Outcome::Answered);
    let stats = history.stats();
    assert_eq!((stats.queries, stats.tools), (1, 1));
    history.asked(&me(), 7, "read the letter", ["s.read", "s.write"]);
    tokio::time::advance(Duration::from_mins(11)).await;
    history.called(&me(), 7, "s.write", Outcome::Answered);
    assert_eq!(history.stats().tools, 1, "that was too late");
}

#[test]
fn nobody_learns_from_another_tenant_and_from_another_subject_only_if_it_is_shared() {
    let (you, far) = (Principal::new("t", "you"), Principal::new("x", "me"));
    for (share, is_told) in [(Share::Subject, false), (Share::Tenant, true)] {
        let history = History::with(HistoryConfig::new().share(share));
        taught(&history, &me());
        let mine = views(&history, &me(), "send a mail");
        assert_eq!(views(&history, &me().agent("other"), "send a mail"), mine);
        assert_eq!(views(&history, &you, "send a mail") == mine, is_told);
        assert_eq!(views(&history, &you, "send a mail").is_empty(), !is_told);
        assert_eq!(views(&history, &far, "send a mail"), []);
        taught(&history, &far);
        assert_eq!(views(&history, &me(), "send a mail"), mine, "{share:?}");
    }
}

#[test]
fn what_is_erased_is_gone_and_the_rest_stays() {
    let (you, far) = (Principal::new("t", "you"), Principal::new("x", "me"));
    let history = History::with(HistoryConfig::new().share(Share::Tenant));
    history.embed_with(Some(Arc::new(Letters("a"))));
    let fill = || [&me(), &you, &far].into_iter().for_each(|who| taught(&history, who));
    fill();
    drop(history.erase(Erase::Tool("s.tool1")));
    for who in [me(), far.clone()] {
        let told = views(&history, &who, "send a mail");
        assert!(told.iter().all(|view| &*view.tool != "s.tool1"), "{told:?}");
    }
    assert_eq!(history.stats().queries, 3 * 36);
    assert_eq!(best(&history, &me(), "play music").unwrap().0, "s.tool3");
    drop(history.erase(Erase::Principal(&me().agent("any"))));
    assert_eq!(history.stats().queries, 2 * 36);
    drop(history.erase(Erase::Tenant(far.tenant())));
    assert_eq!(views(&history, &far, "play music"), []);
    assert_eq!(best(&history, &me(), "play music").unwrap().0, "s.tool3", "of the other subject");
    drop(history.erase(Erase::All));
    assert_eq!(history.stats(), HistoryStats::default());
    history.asked(&me(), 1, "mail", ["s.mail"]);
    drop(history.erase(Erase::All));
    history.called(&me(), 1, "s.mail", Outcome::Answered);
    assert_eq!(history.stats(), HistoryStats::default(), "what waits is erased too");
}

#[test]
fn no_more_is_kept_than_was_allowed() {
    for (keep, texts, vectors) in [(Keep::Text, 48, 48), (Keep::Vector, 0, 48), (Keep::Words, 0, 0)]
    {
        let history = History::with(HistoryConfig::new().keep(keep));
        history.embed_with(Some(Arc::new(Letters("a"))));
        taught(&history, &me());
        assert_eq!(history.stats().vectors, vectors);
        let shelf = history.0.shelf();
        assert_eq!(shelf.entries.iter().filter(|entry| entry.text.is_some()).count(), texts);
        drop(shelf);
        assert_eq!(best(&history, &me(), "send a mail").unwrap().0, "s.tool1", "{keep:?}");
        let told = format!("{history:?}");
        assert!(!told.contains("mail") && !told.contains("tool1"), "{told}");
    }
}

#[test]
fn another_model_makes_the_vectors_anew() {
    let history = History::new();
    taught(&history, &me());
    assert_eq!(history.stats().vectors, 0);
    history.embed_with(Some(Arc::new(Letters("a"))));
    assert_eq!(history.stats().vectors, 48);
    history.embed_with(Some(Arc::new(Letters("b"))));
    assert_eq!(history.stats().vectors, 48);
    history.embed_with(None);
    assert_eq!(history.stats().vectors, 0);
    assert_eq!(best(&history, &me(), "send a mail").unwrap().0, "s.tool1");
}

#[test]
fn a_vector_of_another_length_is_no_vector() {
    let history = History::new();
    history.embed_with(Some(Arc::new(Letters("a"))));
    taught(&history, &me());
    let words = Analyzer::new().query("send a mail");
    let told = history.told(&me(), &words, Some(&[1.0; 7])).views;
    assert_eq!(told, history.told(&me(), &words, None).views);
    assert_eq!(&*told[0].tool, "s.tool1");
}

#[test]
fn many_may_ask_while_it_learns() {
    let history = History::new();
    history.embed_with(Some(Arc::new(Letters("a"))));
    std::thread::scope(|scope| {
        for number in 0..4 {
            let history = &history;
            scope.spawn(move || {
                for n in 0..150 {
                    history.record(&me(), &format!("query {number} of {n}"), "s.tool");
                    views(history, &me(), "query");
                    if n % 50 == 49 {
                        drop(history.erase(Erase::Tool("s.tool")));
                    }
                }
            });
        }
    });
    drop(history.erase(Erase::All));
    assert_eq!(history.stats(), HistoryStats::default());
}
