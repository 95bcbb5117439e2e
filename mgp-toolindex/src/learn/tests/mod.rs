//! Tests of usage learning.

mod bounds;
#[cfg(feature = "sqlite")]
mod database;
mod ranked;
mod tables;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mgp_types::service::Principal;

use super::history::Lift;
use super::*;
use crate::embed::{Cost, EmbedError, Embedder};
use crate::text::Analyzer;

/// An embedder whose vectors contain the frequency of each letter in the text.
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

fn lifts(history: &History, who: &Principal, query: &str) -> Vec<Lift> {
    let vector = Letters("").embed(query).unwrap();
    history.lifts(who, &Analyzer::new().query(query), Some(&vector))
}

fn best(history: &History, who: &Principal, query: &str) -> Option<(String, f32)> {
    lifts(history, who, query).first().map(|lift| (lift.tool.to_string(), lift.amount))
}

/// Records twelve queries for each of four tools.
fn taught(history: &History, who: &Principal) {
    let pending = ["weather rain sunny", "mail letter send", "file folder disk", "song music play"];
    for round in 0..12 {
        for (tool, words) in pending.iter().enumerate() {
            let words: Vec<_> = words.split(' ').collect();
            let query = format!("{} {} {round}", words[round % 3], words[(round + 1) % 3]);
            history.record(who, &query, &format!("s.tool{tool}"));
        }
    }
    history.settle();
}

#[test]
fn an_empty_history_lifts_nothing() {
    let history = History::new();
    assert_eq!(lifts(&history, &me(), "anything at all"), []);
    history.record(&me(), "  ", "s.tool");
    assert_eq!(history.stats(), HistoryStats::default(), "an empty query is not stored");
}

#[test]
fn a_tool_is_lifted_after_a_similar_query_and_not_after_an_unfamiliar_one() {
    for embedder in [None, Some(Arc::new(Letters("a")) as Arc<dyn Embedder>)] {
        let history = History::new();
        history.set_embedder(embedder);
        taught(&history, &me());
        let (tool, lift) = best(&history, &me(), "will it rain or be sunny").unwrap();
        assert!(tool == "s.tool0" && lift > 0.3, "{tool} {lift}");
        let all = lifts(&history, &me(), "send a mail");
        assert_eq!(&*all[0].tool, "s.tool1");
        assert!(all.is_sorted_by(|left, right| left.share >= right.share));
        let sum: f32 = all.iter().map(|lift| lift.share).sum();
        assert!(sum <= 1.001 && all.iter().all(|lift| lift.amount >= 0.0));
        let unlike = best(&history, &me(), "xxqq zzqq").map_or(0.0, |(_, lift)| lift);
        assert!(unlike < lift / 3.0, "{unlike} {lift}");
    }
}

#[test]
fn an_unpredictable_history_lifts_nothing() {
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
    history.record_search(&me(), 7, "read the letter", ["s.read", "s.write"]);
    history.record_call(&me(), 7, "s.read", UseOutcome::Failed);
    history.record_call(&me(), 7, "s.other", UseOutcome::Answered);
    history.record_call(&me(), 8, "s.read", UseOutcome::Answered);
    history.record_call(&Principal::new("other", "me"), 7, "s.read", UseOutcome::Answered);
    assert_eq!(history.stats().queries, 0);
    history.record_call(&me(), 7, "s.read", UseOutcome::Answered);
    history.record_call(&me(), 7, "s.read", UseOutcome::Answered);
    let stats = history.stats();
    assert_eq!((stats.queries, stats.tools), (1, 1));
    history.record_search(&me(), 7, "read the letter", ["s.read", "s.write"]);
    tokio::time::advance(Duration::from_mins(11)).await;
    history.record_call(&me(), 7, "s.write", UseOutcome::Answered);
    assert_eq!(history.stats().tools, 1, "the search has expired");
}

#[test]
fn tenants_never_learn_from_each_other_and_subjects_only_what_two_others_agree_on() {
    let (you, she, far) =
        (Principal::new("t", "you"), Principal::new("t", "she"), Principal::new("x", "me"));
    for (scope, is_shared) in [(HistoryScope::Subject, false), (HistoryScope::Tenant, true)] {
        let history = History::with_config(HistoryConfig::new().scope(scope));
        taught(&history, &me());
        let mine = lifts(&history, &me(), "send a mail");
        assert_eq!(lifts(&history, &me().agent("other"), "send a mail"), mine);
        assert_eq!(lifts(&history, &you, "send a mail"), [], "one other decides nothing");
        taught(&history, &she);
        assert_eq!(lifts(&history, &me(), "send a mail"), mine, "of one other");
        assert_eq!(lifts(&history, &you, "send a mail") == mine, is_shared);
        assert_eq!(lifts(&history, &you, "send a mail").is_empty(), !is_shared);
        assert_eq!(lifts(&history, &far, "send a mail"), []);
        taught(&history, &far);
        assert_eq!(lifts(&history, &me(), "send a mail"), mine, "{scope:?}");
    }
}

#[test]
fn a_flood_of_wrong_calls_of_one_subject_changes_nothing_for_others() {
    let history = History::with_config(HistoryConfig::new().scope(HistoryScope::Tenant));
    let (you, she) = (Principal::new("t", "you"), Principal::new("t", "she"));
    taught(&history, &me());
    taught(&history, &she);
    history.settle();
    let before = [lifts(&history, &me(), "send a mail"), lifts(&history, &you, "send a mail")];
    let mallory = Principal::new("t", "mallory");
    for n in 0..300 {
        history.record(&mallory, &format!("send a mail {n}"), &format!("s.bad{}", n % 3));
    }
    history.settle();
    let after = [lifts(&history, &me(), "send a mail"), lifts(&history, &you, "send a mail")];
    assert_eq!(before, after);
    assert!(!before[1].is_empty());
}

#[test]
fn erased_data_is_gone_and_the_rest_stays() {
    let (you, far) = (Principal::new("t", "you"), Principal::new("x", "me"));
    let history = History::with_config(HistoryConfig::new().scope(HistoryScope::Tenant));
    history.set_embedder(Some(Arc::new(Letters("a"))));
    let fill = || [&me(), &you, &far].into_iter().for_each(|who| taught(&history, who));
    fill();
    drop(history.erase(Erase::Tool("s.tool1")));
    for who in [me(), far.clone()] {
        let lifts = lifts(&history, &who, "send a mail");
        assert!(lifts.iter().all(|lift| &*lift.tool != "s.tool1"), "{lifts:?}");
    }
    assert_eq!(history.stats().queries, 3 * 36);
    assert_eq!(best(&history, &me(), "play music").unwrap().0, "s.tool3");
    drop(history.erase(Erase::Principal(&me().agent("any"))));
    assert_eq!(history.stats().queries, 2 * 36);
    drop(history.erase(Erase::Tenant(far.tenant())));
    assert_eq!(lifts(&history, &far, "play music"), []);
    assert_eq!(best(&history, &me(), "play music"), None, "one other subject decides nothing");
    assert_eq!(best(&history, &you, "play music").unwrap().0, "s.tool3");
    drop(history.erase(Erase::All));
    assert_eq!(history.stats(), HistoryStats::default());
    history.record_search(&me(), 1, "mail", ["s.mail"]);
    drop(history.erase(Erase::All));
    history.record_call(&me(), 1, "s.mail", UseOutcome::Answered);
    assert_eq!(history.stats(), HistoryStats::default(), "what waits is erased too");
}

#[tokio::test]
async fn the_called_tools_of_a_server_are_those_of_all_owners_and_of_no_other_server() {
    let history = History::new();
    for who in [me(), Principal::new("x", "you")] {
        for tool in ["s.read", "s.old.write", "s.old.x.y", "so.read", "s", "t.s.read"] {
            history.record(&who, "read a file", tool);
        }
    }
    let called = async |server: &str, other: &str| {
        history.called_tools(server, |id| id == other).await.unwrap()
    };
    assert_eq!(called("s", "s").await, ["s.old.write", "s.old.x.y", "s.read"]);
    assert_eq!(called("s", "s.old").await, ["s.read"]);
    assert_eq!(called("s.old", "").await, ["s.old.write", "s.old.x.y"]);
    assert!(called("rea", "").await.is_empty());
}

#[test]
fn only_permitted_data_is_stored() {
    for (retention, texts, vectors) in
        [(Retention::Text, 48, 48), (Retention::Vector, 0, 48), (Retention::Words, 0, 0)]
    {
        let history = History::with_config(HistoryConfig::new().retention(retention));
        history.set_embedder(Some(Arc::new(Letters("a"))));
        taught(&history, &me());
        assert_eq!(history.stats().vectors, vectors);
        let table = history.0.table.read();
        assert_eq!(table.queries.iter().filter(|query| query.text.is_some()).count(), texts);
        drop(table);
        assert_eq!(best(&history, &me(), "send a mail").unwrap().0, "s.tool1", "{retention:?}");
        let lifts = format!("{history:?}");
        assert!(!lifts.contains("mail") && !lifts.contains("tool1"), "{lifts}");
    }
}

#[test]
fn a_new_model_replaces_the_vectors() {
    let history = History::new();
    taught(&history, &me());
    assert_eq!(history.stats().vectors, 0);
    history.set_embedder(Some(Arc::new(Letters("a"))));
    assert_eq!(history.stats().vectors, 48);
    history.set_embedder(Some(Arc::new(Letters("b"))));
    assert_eq!(history.stats().vectors, 48);
    history.set_embedder(None);
    assert_eq!(history.stats().vectors, 0);
    assert_eq!(best(&history, &me(), "send a mail").unwrap().0, "s.tool1");
}

#[test]
fn a_query_that_cannot_be_embedded_does_not_leave_later_queries_without_vectors() {
    #[derive(Debug)]
    struct Fragile;

    impl Embedder for Fragile {
        fn model(&self) -> &'static str {
            "fragile"
        }

        fn dimensions(&self) -> usize {
            26
        }

        fn embed(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
            if text.contains("zzqq") {
                let (model, reason) = (self.model().to_owned(), "a broken text".to_owned());
                return Err(EmbedError::Failed { model, reason });
            }
            Letters("").embed(text)
        }
    }

    let history = History::new();
    for query in ["zzqq letter", "read the mail", "send the mail"] {
        history.record(&me(), query, "s.tool");
    }
    history.set_embedder(Some(Arc::new(Fragile)));
    assert_eq!(history.stats().vectors, 2);
    assert_eq!(history.0.table.read().without_vector(None), None, "the text is not tried again");
}

/// A slow embedder. It is unavailable for texts with `zzqq`. If it has a history, it records a call there while it
/// computes its first vector.
#[derive(Debug, Default)]
struct Slow(OnceLock<History>, AtomicBool);

impl Embedder for Slow {
    fn model(&self) -> &'static str {
        "slow"
    }

    fn dimensions(&self) -> usize {
        26
    }

    fn embed(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        if text.contains("zzqq") {
            let (model, reason) = (self.model().to_owned(), "no model".to_owned());
            return Err(EmbedError::Unavailable { model, reason });
        }
        if let Some(history) = self.0.get()
            && !self.1.swap(true, Ordering::Relaxed)
        {
            history.record(&me(), "send the mail", "s.tool");
        }
        Letters("").embed(text)
    }

    fn cost(&self) -> Cost {
        Cost::Large
    }
}

#[test]
fn a_slow_embedder_makes_vectors_of_queries_that_are_stored_without_their_texts() {
    let history = History::with_config(HistoryConfig::new().retention(Retention::Vector));
    history.set_embedder(Some(Arc::new(Slow::default())));
    history.record(&me(), "read the mail", "s.tool");
    assert_eq!(history.stats().vectors, 1);
    history.record(&me(), "zzqq letter", "s.tool");
    assert_eq!((history.stats().queries, history.stats().vectors), (2, 1));
    let table = history.0.table.read();
    assert!(table.queries.iter().all(|query| query.text.is_none()));
    assert_eq!(table.without_vector(None), None, "no text is left in memory");
}

#[test]
fn a_call_that_is_recorded_while_vectors_are_computed_gets_its_vector_too() {
    let history = History::new();
    history.record(&me(), "play a song", "s.gone");
    history.record(&me(), "read the mail", "s.tool");
    // Free the number of the first query. The query that is recorded during the embedding gets this number, and so has
    // a lower number than the query that is being embedded.
    drop(history.erase(Erase::Tool("s.gone")));
    let slow = Slow::default();
    slow.0.set(history.clone()).unwrap();
    history.set_embedder(Some(Arc::new(slow)));
    assert_eq!((history.stats().queries, history.stats().vectors), (2, 2));
}

/// An embedder that, while it computes a vector, sets another embedder whose vectors have the same length.
#[derive(Debug)]
struct Replaced(History);

impl Embedder for Replaced {
    fn model(&self) -> &'static str {
        "replaced"
    }

    fn dimensions(&self) -> usize {
        26
    }

    fn embed(&self, _: &str) -> Result<Vec<f32>, EmbedError> {
        self.0.set_embedder(Some(Arc::new(Letters("new"))));
        Letters("").embed("zzz")
    }
}

#[test]
fn no_vector_of_a_replaced_embedder_is_stored() {
    let history = History::new();
    history.record(&me(), "read the mail", "s.tool");
    history.record(&me(), "send the mail", "s.tool");
    history.set_embedder(Some(Arc::new(Replaced(history.clone()))));
    assert_eq!(history.stats().vectors, 2);
    let table = history.0.table.read();
    let rows = table.rows.as_ref().unwrap();
    assert!((0..2).all(|query_id| rows.vector(query_id).unwrap()[25] < 0.1));
}

#[test]
fn a_vector_of_another_length_is_no_vector() {
    let history = History::new();
    history.set_embedder(Some(Arc::new(Letters("a"))));
    taught(&history, &me());
    let words = Analyzer::new().query("send a mail");
    let lifts = history.lifts(&me(), &words, Some(&[1.0; 7]));
    assert_eq!(lifts, history.lifts(&me(), &words, None));
    assert_eq!(&*lifts[0].tool, "s.tool1");
}

#[test]
fn searches_run_concurrently_with_learning() {
    let history = History::new();
    history.set_embedder(Some(Arc::new(Letters("a"))));
    std::thread::scope(|scope| {
        for number in 0..4 {
            let history = &history;
            scope.spawn(move || {
                for n in 0..150 {
                    history.record(&me(), &format!("query {number} of {n}"), "s.tool");
                    lifts(history, &me(), "query");
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
