//! Tests with tools that a caller is not allowed to call.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mgp_types::mgp::SearchStrategy;
use proptest::prelude::*;

use super::embedding::Fake;
use super::*;
use crate::catalog::{Allowed, AllowedKey};
use crate::embed::Cost;
use crate::search::FallbackReason;

/// Allows only the listed tools, and counts the checks.
#[derive(Default)]
struct Named {
    tools: Mutex<BTreeSet<String>>,
    key: Option<AllowedKey>,
    checks: AtomicUsize,
}

impl Named {
    fn new(tools: &[&str], key: Option<AllowedKey>) -> Self {
        let tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
        Self { tools: Mutex::new(tools), key, checks: AtomicUsize::new(0) }
    }

    fn checks(&self) -> usize {
        self.checks.swap(0, Ordering::Relaxed)
    }
}

impl Allowed for Named {
    fn allows(&self, server: &str, tool: &str) -> bool {
        self.checks.fetch_add(1, Ordering::Relaxed);
        self.tools.lock().unwrap().contains(&format!("{server}.{tool}"))
    }

    fn cache_key(&self) -> Option<AllowedKey> {
        self.key.clone()
    }
}

fn many(count: usize) -> ToolIndex {
    let index = by_words();
    let tools = (0..count).map(|number| tool(&format!("read_{number}"), "reads a file"));
    index.put(ServerEntry::new("s").tools(tools)).unwrap();
    index
}

#[test]
fn a_tool_without_access_is_in_no_list_and_no_count() {
    let index = many(20);
    let allowed = Named::new(&["s.read_7", "s.read_9", "t.read_1"], None);
    let found = index.search(&Query::new("read"), &allowed).unwrap();
    assert_eq!(
        (names(&found), found.total_available),
        (vec!["s.read_7".to_owned(), "s.read_9".to_owned()], 2)
    );
    let filtered = Query::new("read").filter(Filter::new().server("none"));
    assert_eq!(index.search(&filtered, &allowed).unwrap().total_available, 0);
    let (tools, tree) = index.caller_overview(&allowed);
    assert_eq!(tools, 2);
    assert_eq!(tree.roots.iter().map(|node| node.tools).sum::<usize>(), 2);
}

#[test]
fn the_words_of_hidden_tools_change_no_result() {
    let texts = ["Reads a report about zorblax", "Writes a memo", "Lists the open invoices"];
    let own: Vec<_> = (0..12).map(|at| tool(&format!("own_{at}"), texts[at % 3])).collect();
    let archive = ServerEntry::new("t").tool(tool("archive", "Stores a memo about a report"));
    let mut names: Vec<_> = (0..12).map(|at| format!("s.own_{at}")).collect();
    names.push("t.archive".to_owned());
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let put = |index: &ToolIndex, server: &str, tools: &[Tool]| {
        index.put(ServerEntry::new(server).tools(tools.iter().cloned())).unwrap();
    };
    let index = |hidden: &str| {
        let others: Vec<_> = (0..250).map(|at| tool(&format!("other_{at}"), hidden)).collect();
        let index = ToolIndex::new();
        put(&index, "a", &others);
        // Remove some tools, so that `archive` gets the slot of a removed tool.
        put(&index, "s", &[&own[..], &others[..30]].concat());
        put(&index, "s", &own);
        put(&index, "a", &others[..200]);
        index.put(archive.clone()).unwrap();
        index
    };
    let (same, other) = (index("Reads a memo about zorblax"), index("Plays the violin at night"));
    let alone = ToolIndex::new();
    put(&alone, "s", &own);
    alone.put(archive.clone()).unwrap();
    for key in [None, Some(AllowedKey::new("me", 1))] {
        let allowed = Named::new(&names, key);
        let ask = |index: &ToolIndex, query: &Query| {
            let mut found = index.search(query, &allowed).unwrap();
            found.check_fit();
            let hits = found.hits.iter().map(|hit| (hit.tool.tool_id(), hit.score));
            (hits.collect::<Vec<_>>(), found.is_weak)
        };
        let texts = ["zorblax", "zorblxa report", "write a memo", "violin", "read, then list it"];
        for (text, strategy) in
            texts.iter().flat_map(|text| SearchStrategy::KNOWN.iter().map(move |one| (text, one)))
        {
            for filter in [Filter::new(), Filter::new().server("s")] {
                let query = Query::new(*text).strategy(strategy.clone()).filter(filter);
                let expected = ask(&alone, &query);
                assert_eq!(ask(&same, &query), expected, "{query:?}");
                assert_eq!(ask(&other, &query), expected, "{query:?}");
            }
        }
    }
}

#[test]
fn the_vectors_of_hidden_tools_do_not_count() {
    let index = ToolIndex::builder().embedder(Fake::new("fast", Cost::Small)).build();
    index.put_all([files(), mail()]).unwrap();
    let search = |allowed: &dyn Allowed| {
        let fallback = index.search(&Query::new("send"), allowed).unwrap().fallback;
        fallback.map(|fallback| fallback.reason)
    };
    let allowed = Named::new(&["mail.send_mail"], None);
    assert_eq!((search(&AllTools), search(&allowed)), (None, None));
    let slot = index.shared.snapshot().catalog.find("mail", "send_mail").unwrap();
    index.shared.set_vectors(|next| next.vectors.as_mut().unwrap().clear(slot));
    assert_eq!((search(&AllTools), search(&allowed)), (None, Some(FallbackReason::Embedding)));
}

#[tokio::test(start_paused = true)]
async fn decisions_are_cached_for_a_second_but_hits_are_checked_at_once() {
    let index = many(20);
    let allowed = Named::new(&["s.read_1", "s.read_2", "s.read_3"], Some(AllowedKey::new("me", 1)));
    let search = || names(&index.search(&Query::new("read").limit(2), &allowed).unwrap());
    assert_eq!(search(), ["s.read_1", "s.read_2"]);
    assert_eq!(allowed.checks(), 22);
    assert_eq!(search(), ["s.read_1", "s.read_2"]);
    assert_eq!(allowed.checks(), 2);
    // After access is revoked, the tool must no longer be found, and another tool must replace it in the list.
    allowed.tools.lock().unwrap().remove("s.read_1");
    assert_eq!(search(), ["s.read_2", "s.read_3"]);
    // After access is granted, the tool must be found within a second.
    allowed.tools.lock().unwrap().insert("s.read_0".to_owned());
    tokio::time::advance(Duration::from_millis(1100)).await;
    assert_eq!(search(), ["s.read_0", "s.read_2"]);
}

#[tokio::test(start_paused = true)]
async fn another_version_is_decided_again() {
    let index = many(3);
    let before = Named::new(&["s.read_1"], Some(AllowedKey::new("me", 1)));
    let after = Named::new(&["s.read_2"], Some(AllowedKey::new("me", 2)));
    let other = Named::new(&[], Some(AllowedKey::new("you", 1)));
    let search = |who: &Named| names(&index.search(&Query::new("read"), who).unwrap());
    assert_eq!(search(&before), ["s.read_1"]);
    assert_eq!(search(&after), ["s.read_2"]);
    assert!(search(&other).is_empty());
}

#[tokio::test(start_paused = true)]
async fn only_changed_tools_are_decided_again() {
    let index = many(3000);
    let allowed = Named::new(&["s.read_1", "t.read_x"], Some(AllowedKey::new("me", 1)));
    index.search(&Query::new("read"), &allowed).unwrap();
    assert_eq!(allowed.checks(), 3001);
    index.put(ServerEntry::new("t").tool(tool("read_x", ""))).unwrap();
    let found = index.search(&Query::new("read"), &allowed).unwrap();
    assert_eq!(found.hits.len(), 2);
    // The change affects one chunk of about a thousand tools. Only the tools of this chunk and the two hits are checked
    // again.
    assert!(allowed.checks() <= 1024 + 2);
}

#[test]
fn a_set_of_a_later_index_is_not_used_for_an_earlier_one() {
    let index = by_words();
    let put = |risk| {
        let tool = ToolEntry::from(tool("wipe", "wipes")).security(ToolSecurity::new(risk));
        index.put(ServerEntry::new("s").tool(tool)).unwrap();
        index.shared.snapshot()
    };
    let (before, after) = (put(RiskLevel::Dangerous), put(RiskLevel::Safe));
    let filter = Filter::new().risk_level_max(RiskLevel::Safe);
    let passing = |now| {
        let set = index.shared.sets.filter(now, &filter, &index.shared.analyzer).unwrap();
        set.unwrap().count()
    };
    // The second search must use the older snapshot, although a search with the newer snapshot came before it.
    assert_eq!((passing(&after), passing(&before), passing(&after)), (1, 0, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// Cached and updated sets are equal to newly computed sets.
    #[test]
    fn cached_sets_are_correct(changes in prop::collection::vec((0usize..5, 0usize..40, any::<bool>()), 1..8)) {
        let index = by_words();
        let filters = [
            Filter::new().category("filesystem"),
            Filter::new().status(ServerState::Connected),
            Filter::new().risk_level_max(RiskLevel::Safe),
            Filter::new().server("s0").server("s3"),
            Filter::new().output_type("even"),
        ];
        for (server, tools, running) in changes {
            let id = format!("s{server}");
            if tools == 0 {
                index.remove(&id).unwrap();
            } else if tools % 7 == 0 {
                let state = if running { ServerState::Connected } else { ServerState::Error };
                index.set_state(&id, state);
            } else {
                let state = if running { ServerState::Connected } else { ServerState::Draining };
                let tools = (0..tools * 40).map(|number| {
                    let word = if number % 2 == 0 { "even" } else { "odd" };
                    let risk = if number % 3 == 0 { RiskLevel::Safe } else { RiskLevel::Dangerous };
                    let about = if number % 5 == 0 { "file" } else { "flower" };
                    ToolEntry::from(tool(&format!("{about}_{word}_{number}"), about))
                        .security(ToolSecurity::new(risk))
                });
                index.put(ServerEntry::new(id).state(state).tools(tools)).unwrap();
            }
            let now = index.shared.snapshot();
            for filter in &filters {
                let kept = index.shared.sets.filter(&now, filter, &index.shared.analyzer).unwrap().unwrap();
                let fresh = crate::index::tool_sets::ToolSets::default();
                let fresh = fresh.filter(&now, filter, &index.shared.analyzer).unwrap().unwrap();
                prop_assert_eq!(kept.iter().collect::<Vec<_>>(), fresh.iter().collect::<Vec<_>>());
            }
        }
    }
}
