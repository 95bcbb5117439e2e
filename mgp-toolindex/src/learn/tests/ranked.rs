//! What an index finds with a history and without.
//!
//! Applies to: inbound.

use mgp_types::mcp::Tool;
use mgp_types::mgp::SearchStrategy;
use mgp_types::service::Principal;
use serde_json::json;

use super::me;
use crate::catalog::Allowed;
use crate::learn::{Erase, History, HistoryConfig, Keep};
use crate::{Everything, Explain, Query, ServerEntry, ToolIndex};

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
    let found = index.search(query, &Everything).unwrap();
    found.hits.iter().map(|hit| (hit.tool.name().to_owned(), hit.score)).collect()
}

fn ask(text: &str) -> Query {
    Query::new(text).asker(&me())
}

#[test]
fn an_empty_history_changes_nothing() {
    let (history, erased) = (History::new(), taught());
    drop(erased.erase(Erase::All));
    for text in ["weather of the days", "send it", "forecast", "shows mail; reads days", ""] {
        let plain = found(&index(None), &ask(text));
        assert_eq!(found(&index(Some(&history)), &ask(text)), plain);
        assert_eq!(found(&index(Some(&erased)), &ask(text)), plain, "what is erased tells nothing");
    }
}

#[test]
fn what_was_called_comes_first_and_is_found_without_a_word_in_common() {
    let index = index(Some(&taught()));
    let hits = found(&index, &ask("what will the weather be like"));
    assert_eq!(hits[0].0, "barometer", "{hits:?}");
    assert!(hits.is_sorted_by(|left, right| left.1 >= right.1));
    assert!(hits.iter().all(|(_, score)| (0.0..=1.0).contains(score)));
    assert_eq!(found(&index, &ask("tell a friend"))[0].0, "send_mail");
    let reason = index.search(&ask("tell a friend").explain(Explain::Yes), &Everything).unwrap();
    let history = reason.hits[0].reason.as_ref().unwrap().history.unwrap();
    assert!(history > 0.3 && history <= 1.0, "{history}");
}

#[test]
fn only_the_asker_and_only_a_search_by_all_evidence_is_told() {
    let (taught, plain) = (index(Some(&taught())), index(None));
    let text = "what will the weather be like";
    for query in [
        Query::new(text),
        Query::new(text).asker(&Principal::new("x", "me")),
        ask(text).strategy(SearchStrategy::Keyword),
        ask(text).strategy(SearchStrategy::Semantic),
        ask(text).strategy(SearchStrategy::Category),
    ] {
        assert_eq!(found(&taught, &query), found(&plain, &query), "{query:?}");
    }
}

#[test]
fn a_search_without_an_asker_reads_nobodys_history() {
    let history = History::new();
    let local = Principal::local();
    for n in 0..12 {
        history.record(&local, &format!("what will the weather be like on day {n}"), "s.barometer");
    }
    history.settle();
    let (taught, plain) = (index(Some(&history)), index(None));
    let nobody = Query::new("what will the weather be like");
    assert_eq!(found(&taught, &nobody), found(&plain, &nobody));
    assert_eq!(found(&taught, &nobody.asker(&local))[0].0, "barometer");
}

#[test]
fn a_name_still_names_its_tool() {
    assert_eq!(found(&index(Some(&taught())), &ask("forecast"))[0].0, "forecast");
}

#[test]
fn what_may_not_be_called_is_not_found_however_often_it_was() {
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
    assert!(index.search(&ask("tell a friend"), &Everything).unwrap().hits.is_empty());
}

/// Calls that contradict what words and meaning say, after queries of two kinds.
fn contrary(index: &ToolIndex, history: &History) {
    for n in 0..40 {
        history.record(&me(), &format!("what will the weather be on day {n}"), "s.barometer");
        history.record(&me(), &format!("show the month of number {n}"), "s.send_mail");
    }
    history.settle();
    assert!(index.search(&ask("weather"), &Everything).is_ok());
}

#[test]
fn the_ranking_is_asked_again_and_weighed_against_past_calls() {
    let history = History::new();
    let index = index(Some(&history));
    let order = |history: &History| {
        let words = crate::text::Analyzer::new().query("weather");
        history.told(&me(), &words, None).order
    };
    contrary(&index, &history);
    assert!(order(&history).is_some());
    for (text, first) in [("the weather of day 3", "barometer"), ("show me the month", "send_mail")]
    {
        let hits = found(&index, &ask(text));
        assert_eq!(hits[0].0, first, "{hits:?}");
        assert!(hits.is_sorted_by(|left, right| left.1 >= right.1));
        assert!(hits.iter().all(|(_, score)| (0.0..=1.0).contains(score)));
    }
    // What is unlike all of them is found as without a history.
    assert_eq!(found(&index, &ask("air pressure"))[0].0, "barometer");
    assert_eq!(found(&index, &ask("forecast"))[0].0, "forecast");
}

#[test]
fn an_index_that_had_no_tools_is_asked_when_it_has_some() {
    let history = History::new();
    let index = ToolIndex::builder().history(history.clone()).build();
    let order = |history: &History| {
        let words = crate::text::Analyzer::new().query("weather");
        history.told(&me(), &words, None).order
    };
    contrary(&index, &history);
    assert!(order(&history).is_none());
    let server = ServerEntry::new("s")
        .tool(tool("barometer", "Reads the air pressure"))
        .tool(tool("send_mail", "Sends a mail to a person"));
    index.put(server).unwrap();
    assert!(order(&history).is_some());
}

#[test]
fn without_texts_nothing_is_asked_again() {
    let history = History::with(HistoryConfig::new().keep(Keep::Vector));
    let index = index(Some(&history));
    contrary(&index, &history);
    assert!(
        history.told(&me(), &crate::text::Analyzer::new().query("weather"), None).order.is_none()
    );
    assert_eq!(found(&index, &ask("what will the weather be"))[0].0, "barometer");
}
