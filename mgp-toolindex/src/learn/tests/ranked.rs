//! Tests that compare the ranking of an index with and without a history.

use mgp_types::mcp::Tool;
use mgp_types::mgp::SearchStrategy;
use mgp_types::service::Principal;
use serde_json::json;

use super::me;
use crate::catalog::Allowed;
use crate::learn::{Erase, History, HistoryConfig, Retention};
use crate::{AllTools, Explain, Query, ServerEntry, ToolIndex};

fn tool(name: &str, description: &str) -> Tool {
    let schema = json!({ "type": "object" });
    let tool = json!({ "name": name, "description": description, "inputSchema": schema });
    serde_json::from_value(tool).unwrap()
}

fn index(history: Option<&History>) -> ToolIndex {
    let mut builder = ToolIndex::builder();
    if let Some(history) = history {
        builder = builder.history(history.clone());
    }
    let index = builder.build();
    let server = ServerEntry::new("s")
        .tool(tool("forecast", "Weather of the next days"))
        .tool(tool("barometer", "Reads the air pressure"))
        .tool(tool("send_mail", "Sends a mail to a person"))
        .tool(tool("calendar", "Shows the days of a month"));
    assert_eq!(index.put(server).unwrap().added, 4);
    index
}

fn taught() -> History {
    let history = History::new();
    for n in 0..12 {
        history.record(&me(), &format!("what will the weather be like on day {n}"), "s.barometer");
        history.record(&me(), &format!("tell my friend number {n}"), "s.send_mail");
    }
    history.settle();
    history
}

fn found(index: &ToolIndex, query: &Query) -> Vec<(String, f32)> {
    let found = index.search(query, &AllTools).unwrap();
    found.hits.iter().map(|hit| (hit.tool.name().to_owned(), hit.score)).collect()
}

fn ask(text: &str) -> Query {
    Query::new(text).principal(&me())
}

#[test]
fn an_empty_history_changes_nothing() {
    let (history, erased) = (History::new(), taught());
    drop(erased.erase(Erase::All));
    for text in ["weather of the days", "send it", "forecast", "shows mail; reads days", ""] {
        let plain = found(&index(None), &ask(text));
        assert_eq!(found(&index(Some(&history)), &ask(text)), plain);
        assert_eq!(found(&index(Some(&erased)), &ask(text)), plain, "erased calls lift nothing");
    }
}

#[test]
fn a_called_tool_comes_first_and_is_found_without_a_common_word() {
    let index = index(Some(&taught()));
    let hits = found(&index, &ask("what will the weather be like"));
    assert_eq!(hits[0].0, "barometer", "{hits:?}");
    assert!(hits.is_sorted_by(|left, right| left.1 >= right.1));
    assert!(hits.iter().all(|(_, score)| (0.0..=1.0).contains(score)));
    assert_eq!(found(&index, &ask("tell a friend"))[0].0, "send_mail");
    let reason = index.search(&ask("tell a friend").explain(Explain::Yes), &AllTools).unwrap();
    let history = reason.hits[0].reason.as_ref().unwrap().history.unwrap();
    assert!(history > 0.3 && history <= 1.0, "{history}");
}

#[test]
fn only_hybrid_searches_with_an_asker_use_past_calls() {
    let (taught, plain) = (index(Some(&taught())), index(None));
    let text = "what will the weather be like";
    for query in [
        Query::new(text),
        Query::new(text).principal(&Principal::new("x", "me")),
        ask(text).strategy(SearchStrategy::Keyword),
        ask(text).strategy(SearchStrategy::Semantic),
        ask(text).strategy(SearchStrategy::Category),
    ] {
        assert_eq!(found(&taught, &query), found(&plain, &query), "{query:?}");
    }
}

#[test]
fn a_search_without_an_asker_uses_no_history() {
    let history = History::new();
    let local = Principal::local();
    for n in 0..12 {
        history.record(&local, &format!("what will the weather be like on day {n}"), "s.barometer");
    }
    history.settle();
    let (taught, plain) = (index(Some(&history)), index(None));
    let anonymous = Query::new("what will the weather be like");
    assert_eq!(found(&taught, &anonymous), found(&plain, &anonymous));
    assert_eq!(found(&taught, &anonymous.principal(&local))[0].0, "barometer");
}

#[test]
fn a_named_tool_still_comes_first() {
    assert_eq!(found(&index(Some(&taught())), &ask("forecast"))[0].0, "forecast");
}

#[test]
fn a_tool_without_access_is_not_found_even_after_many_calls() {
    struct But;

    impl Allowed for But {
        fn allows(&self, _: &str, tool: &str) -> bool {
            tool != "barometer"
        }
    }

    let index = index(Some(&taught()));
    let found = index.search(&ask("what will the weather be like"), &But).unwrap();
    assert!(found.hits.iter().all(|hit| hit.tool.name() != "barometer"));
    index.remove("s").unwrap();
    assert!(index.search(&ask("tell a friend"), &AllTools).unwrap().hits.is_empty());
}

#[test]
fn past_calls_after_unlike_queries_give_no_confidence() {
    let history = History::new();
    for n in 0..40 {
        history.record(&me(), &format!("what will the weather be on day {n}"), "s.barometer");
        history.record(&me(), &format!("show the month of number {n}"), "s.send_mail");
    }
    history.settle();
    let index = index(Some(&history));
    let best = |text| found(&index, &ask(text)).first().map_or(0.0, |(_, score)| *score);
    assert!(best("what will the weather be on day 3") > 0.6);
    for text in ["compile the kernel", "ride a unicorn"] {
        let score = best(text);
        assert!(score > 0.0 && score < 0.4, "{text}: {score}");
    }
}

#[test]
fn many_past_calls_contradict_the_ranking_and_win() {
    for retention in [Retention::Text, Retention::Vector] {
        let history = History::with_config(HistoryConfig::new().retention(retention));
        let index = index(Some(&history));
        for n in 0..40 {
            history.record(&me(), &format!("what will the weather be on day {n}"), "s.barometer");
            history.record(&me(), &format!("show the month of number {n}"), "s.send_mail");
        }
        history.settle();
        for (text, first) in
            [("the weather of day 3", "barometer"), ("show me the month", "send_mail")]
        {
            let hits = found(&index, &ask(text));
            assert_eq!(hits[0].0, first, "{hits:?}");
            assert!(hits.is_sorted_by(|left, right| left.1 >= right.1));
            assert!(hits.iter().all(|(_, score)| (0.0..=1.0).contains(score)));
        }
        // For a query that differs from all past queries, the results are the same as without a history.
        assert_eq!(found(&index, &ask("air pressure"))[0].0, "barometer");
        assert_eq!(found(&index, &ask("forecast"))[0].0, "forecast");
    }
}
