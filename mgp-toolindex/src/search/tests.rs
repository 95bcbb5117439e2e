//! Tests of the ranking, on a small catalogue with an embedder that knows a few meanings.

use std::sync::{Arc, LazyLock};

use mgp_types::RawObject;
use mgp_types::mcp::Tool;
use mgp_types::mgp::SearchStrategy;
use proptest::prelude::*;

use super::*;
use crate::catalog::{AllTools, Allowed, ServerEntry, ToolEntry};
use crate::embed::{EmbedError, Embedder};
use crate::index::ToolIndex;

/// An embedder that knows some groups of words; each group has its own dimension.
#[derive(Debug)]
struct Meanings;

const GROUPS: &[&[&str]] = &[
    &["mail", "email", "letter", "message", "write"],
    &["file", "document", "folder", "disk"],
    &["weather", "rain", "umbrella", "forecast"],
    &["money", "price", "cost", "invoice"],
    &["picture", "etching", "image", "draw"],
];

impl Embedder for Meanings {
    fn model(&self) -> &'static str {
        "meanings"
    }

    fn dimensions(&self) -> usize {
        32
    }

    fn embed(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        if text.contains("broken") {
            let (model, reason) = ("meanings".to_owned(), "it is broken".to_owned());
            return Err(EmbedError::Failed { model, reason });
        }
        let mut vector = vec![0.0; 32];
        for word in text.split(|c: char| !c.is_alphanumeric()) {
            let word = word.to_lowercase();
            for (at, group) in GROUPS.iter().enumerate() {
                vector[at] += f32::from(u8::from(group.contains(&&*word)));
            }
        }
        let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
        if length > 0.0 {
            for number in &mut vector {
                *number /= length;
            }
        }
        Ok(vector)
    }
}

fn tool(name: &str, description: &str, category: &str) -> ToolEntry {
    let mut tool = Tool::new(name.to_owned(), RawObject::empty());
    tool.description = Some(description.to_owned());
    ToolEntry::from(tool).categories([category])
}

fn fill(index: &ToolIndex) {
    let office = ServerEntry::new("office").name("Office").tools([
        tool("send_mail", "Sends an email to somebody", "messaging/send"),
        tool("read_file", "Reads a document", "files/read"),
        tool("write_file", "Puts text on the disk", "files/write"),
        tool("list_folder", "Says what is there", "files/read"),
    ]);
    let world = ServerEntry::new("world").name("World").tools([
        tool("get_forecast", "Tells the weather of a city", "weather"),
        tool("make_image", "Draws what is described", "media"),
        tool("price_of", "Looks up what something costs", "shopping"),
        tool("read_file", "Reads a page of the almanac", "almanac"),
    ]);
    index.put_all([office, world]).unwrap();
}

fn index() -> ToolIndex {
    let index = ToolIndex::builder().embedder(Arc::new(Meanings)).build();
    fill(&index);
    index
}

fn ask(index: &ToolIndex, query: &Query) -> SearchResult {
    index.search(query, &AllTools).unwrap()
}

fn ids(found: &SearchResult) -> Vec<String> {
    found.hits.iter().map(|hit| hit.tool.tool_id()).collect()
}

fn first(query: &Query) -> String {
    ids(&ask(&index(), query)).swap_remove(0)
}

#[test]
fn words_and_meaning_work_together() {
    assert_eq!(first(&Query::new("letter")), "office.send_mail");
    assert_eq!(first(&Query::new("do I need an umbrella")), "world.get_forecast");
    assert_eq!(first(&Query::new("almanac")), "world.read_file");
    let found = ask(&index(), &Query::new("letter"));
    assert_eq!((found.ran, found.fallback), (SearchStrategy::Hybrid, None));
}

#[test]
fn each_strategy_uses_only_its_evidence() {
    let semantic = Query::new("etching").strategy(SearchStrategy::Semantic);
    assert_eq!(first(&semantic), "world.make_image");
    let keyword = ask(&index(), &Query::new("etching").strategy(SearchStrategy::Keyword));
    assert!(keyword.hits.is_empty(), "{:?}", ids(&keyword));
    assert_eq!(keyword.ran, SearchStrategy::Keyword);
}

#[test]
fn a_name_comes_first_in_any_spelling() {
    for text in
        ["get_forecast", "getForecast", "Get forecast", "world.get_forecast", "get-forecast "]
    {
        for strategy in [SearchStrategy::Hybrid, SearchStrategy::Keyword] {
            let found = ask(&index(), &Query::new(text).strategy(strategy));
            assert_eq!(found.hits[0].tool.tool_id(), "world.get_forecast", "{text}");
            assert!(found.hits[0].score >= 0.99, "{text} {}", found.hits[0].score);
        }
    }
    let copied = Query::new("\u{feff}get\u{200b}_fore\u{ad}cast");
    assert!(ask(&index(), &copied).hits[0].score >= 0.99);
    let both = ask(&index(), &Query::new("read_file"));
    assert_eq!(ids(&both)[..2], ["office.read_file", "world.read_file"]);
    for text in [
        "world.read_file",
        "world/read_file",
        "mcp__world__read_file",
        "world_read_file",
        "World: read file",
        "world/ReadFile",
    ] {
        let found = ask(&index(), &Query::new(text));
        assert_eq!(ids(&found)[0], "world.read_file", "{text}");
        assert!(found.hits[0].score >= 0.99, "{text} {}", found.hits[0].score);
    }
}

#[test]
fn the_id_of_a_server_finds_its_tools_first() {
    let index = index();
    let own = [("create_issue", "Creates an issue on GitHub"), ("github_branches", "")];
    let own = own.map(|(name, description)| tool(name, description, "a"));
    index.put(ServerEntry::new("github").tools(own)).unwrap();
    let others = ["search_github", "github_hours"].map(|name| tool(name, "", "a"));
    index.put(ServerEntry::new("fire").tools(others)).unwrap();
    for text in ["github", "GITHUB ", "GitHub"] {
        let found = ids(&ask(&index, &Query::new(text)));
        assert!(found[..2].iter().all(|id| id.starts_with("github.")), "{found:?}");
        assert!(found[2..4].iter().all(|id| id.starts_with("fire.")), "{found:?}");
    }
    // The id of a server of which the caller sees no tool must not count.
    let hiding = Hiding(vec!["github.create_issue".into(), "github.github_branches".into()]);
    let found = ids(&index.search(&Query::new("github"), &hiding).unwrap());
    assert!(found[..2].iter().all(|id| id.starts_with("fire.")), "{found:?}");
}

/// Regression test: six unrelated tools of a server `test` came before the only tool that runs tests.
#[test]
fn a_tool_with_a_word_in_its_name_comes_before_a_server_with_this_id() {
    let index = ToolIndex::builder().without_embedder().build();
    let own = ["echo", "add", "ping_host", "print_env", "wait_for", "sum_up"];
    index.put(ServerEntry::new("test").tools(own.map(|name| tool(name, "", "a")))).unwrap();
    index.put(ServerEntry::new("ci").tool(tool("run_tests", "Runs all tests", "a"))).unwrap();
    let found = ask(&index, &Query::new("test"));
    assert_eq!(ids(&found)[0], "ci.run_tests");
    let is_of_server = |hit: &Hit| hit.tool.server_id() == "test" && hit.score > 0.9;
    assert!(found.hits.len() == 5 && found.hits[1..].iter().all(is_of_server), "{found:?}");
}

#[test]
fn of_similar_names_the_identical_one_comes_first() {
    let index = index();
    let spelled = ["book_flight", "bookFlight", "BookFlight", "book.flight"];
    let tools = spelled.map(|name| tool(name, "Books a seat", "travel"));
    index.put(ServerEntry::new("travel").tools(tools)).unwrap();
    for name in spelled {
        let found = ask(&index, &Query::new(name));
        assert_eq!(found.hits[0].tool.name(), name);
        assert!(found.hits[..4].iter().all(|hit| hit.score >= 0.99), "{name}");
    }
    let names = |text| ask(&index, &Query::new(text)).hits[0].tool.name().to_lowercase();
    assert_eq!(names("BOOKFLIGHT"), "bookflight");
}

#[test]
fn a_name_with_a_typing_error_is_found() {
    for text in ["get_forcast", "get_forecsat", "getforecast1", "get forecazt", "ge forecast"] {
        for strategy in [SearchStrategy::Hybrid, SearchStrategy::Keyword] {
            let found = ask(&index(), &Query::new(text).strategy(strategy));
            assert_eq!(
                ids(&found).first().map(String::as_str),
                Some("world.get_forecast"),
                "{text}"
            );
        }
    }
}

#[test]
fn a_name_is_nearer_than_a_word_of_a_longer_one() {
    let index = ToolIndex::new();
    let tools = ["build_image", "build_context", "build_supercell", "rebuild_index", "build"];
    index.put(ServerEntry::new("x").tools(tools.map(|name| tool(name, "", "a")))).unwrap();
    for text in ["builgd", "biuld", "uild"] {
        assert_eq!(ids(&ask(&index, &Query::new(text)))[0], "x.build", "{text}");
    }
}

#[test]
fn correct_words_of_another_name_are_not_taken_as_typing_errors() {
    let index = ToolIndex::new();
    let tools = ["delete_node", "archive_delete_note", "create_table", "gh_create_label"];
    index.put(ServerEntry::new("x").tools(tools.map(|name| tool(name, "", "a")))).unwrap();
    for (text, expected) in [
        ("delete note", "x.archive_delete_note"),
        ("create label", "x.gh_create_label"),
        ("delete noed", "x.delete_node"),
    ] {
        assert_eq!(ids(&ask(&index, &Query::new(text)))[0], expected, "{text}");
    }
    // The words of a tool that is hidden from the caller must not count.
    let hiding = Hiding(vec!["x.archive_delete_note".to_owned()]);
    let found = index.search(&Query::new("delete note"), &hiding).unwrap();
    assert_eq!(ids(&found)[0], "x.delete_node");
}

#[test]
fn a_query_of_correct_words_is_not_a_misspelled_name() {
    let index = ToolIndex::new();
    let tools =
        ["resize_page", "insert_image", "create_item_preview", "request_review", "get_schema"];
    index.put(ServerEntry::new("x").tools(tools.map(|name| tool(name, "", "a")))).unwrap();
    for text in ["resize image", "PR review", "DB schema"] {
        let found = ask(&index, &Query::new(text));
        assert!(found.hits.iter().all(|hit| hit.score <= 0.9), "{text}: {:?}", found.hits);
    }
    for text in ["resiez pagee", "resize pag", "insert an image"] {
        assert!(ask(&index, &Query::new(text)).hits[0].score > 0.9, "{text}");
    }
}

#[test]
fn a_word_with_another_beginning_is_not_a_misspelled_word_of_a_name() {
    let index = named(&["get_file", "get_page_text", "start_search", "list_notes"]);
    let found = ask(&index, &Query::new("wget"));
    assert!(found.hits.iter().all(|hit| hit.score <= 0.9), "{:?}", found.hits);
    for text in ["gte_file", "serach", "note", "pgae"] {
        assert!(ask(&index, &Query::new(text)).hits[0].score > 0.9, "{text}");
    }
}

#[cfg(all(feature = "static-table", feature = "lexicon"))]
#[test]
fn an_english_word_is_not_a_misspelled_word_of_a_name() {
    let index = named(&["search_base", "read_hash", "install_helm_chart"]);
    for text in ["bash", "help"] {
        let found = ask(&index, &Query::new(text));
        assert!(found.hits.iter().all(|hit| hit.score <= 0.9), "{text}: {:?}", found.hits);
    }
}

#[cfg(feature = "lexicon")]
#[test]
fn a_word_that_names_a_tool_or_a_server_is_not_translated() {
    let index = ToolIndex::builder().without_embedder().build();
    let others = [
        tool("list_days", "Lists the days of march, e.g. each tuesday", "a"),
        tool("show_sky", "Shows sunny days", "a"),
        tool("list_mart_models", "", "a"),
    ];
    index.put(ServerEntry::new("x").tools(others)).unwrap();
    index.put(ServerEntry::new("serena").tool(tool("open_shell", "", "a"))).unwrap();
    for (text, expected) in [("mart", "x.list_mart_models"), ("serena", "serena.open_shell")] {
        assert_eq!(ids(&ask(&index, &Query::new(text)))[0], expected);
    }
    // The translation finds a tool that is described in the language of the query, and other tools.
    let weather = [
        tool("wetter_zeigen", "Zeigt das Wetter einer Stadt", "a"),
        tool("get_forecast", "Returns the weather", "a"),
    ];
    index.put(ServerEntry::new("weather").tools(weather)).unwrap();
    let found = ids(&ask(&index, &Query::new("Wetter")));
    for name in ["weather.wetter_zeigen", "weather.get_forecast"] {
        assert!(found.iter().any(|id| id == name), "{found:?}");
    }
}

#[test]
fn unknown_words_are_taken_as_typing_errors() {
    let found = ask(&index(), &Query::new("forcast").strategy(SearchStrategy::Keyword));
    assert_eq!(ids(&found), ["world.get_forecast"]);
    let fallback = found.fallback.unwrap();
    assert_eq!((fallback.from, fallback.reason), (SearchStrategy::Keyword, FallbackReason::NoWord));
}

#[cfg(all(feature = "static-table", feature = "lexicon"))]
#[test]
fn a_misspelled_word_beside_known_ones_is_corrected() {
    let query = |text| Query::new(text).strategy(SearchStrategy::Keyword).limit(8);
    let found = |text, hidden: &[String]| {
        ids(&index().search(&query(text), &Hiding(hidden.to_vec())).unwrap())
    };
    let (misspelled, unknown) = ("almanac foldre", "almanac qxzvwk");
    let folder = "office.list_folder".to_owned();
    assert!(found(misspelled, &[]).contains(&folder));
    assert!(!found(unknown, &[]).contains(&folder));
    // A word that only a hidden tool has must not be used for corrections.
    let hidden = [folder];
    assert_eq!(found(misspelled, &hidden), found(unknown, &hidden));
}

#[cfg(feature = "lexicon")]
#[test]
fn steps_in_other_languages_are_separate_requests() {
    for text in
        ["cherche la météo à Paris puis envoie un message à Anne", "查询北京的天气，然后发送消息"]
    {
        let found = ask(&index(), &Query::new(text));
        assert_eq!(found.requests.len(), 2, "{text}: {:?}", found.requests);
    }
}

#[cfg(feature = "lexicon")]
#[test]
fn a_misspelled_name_that_looks_foreign_is_found() {
    let index = ToolIndex::new();
    let tools = ["move_card", "read_file", "move_file"].map(|name| tool(name, "", "a"));
    index.put(ServerEntry::new("x").tools(tools)).unwrap();
    // The misspelled second word is also a German word, but the tool must be found nevertheless.
    assert_eq!(ids(&ask(&index, &Query::new("moev fiel")))[0], "x.move_file");
}

#[cfg(all(feature = "static-table", feature = "lexicon"))]
#[test]
fn coverage_counts_the_words_that_the_search_used() {
    for (text, expected) in [
        ("office foldre", "office.list_folder"),
        ("read a file, but not from Office", "world.read_file"),
    ] {
        let query = Query::new(text).strategy(SearchStrategy::Keyword).explain(Explain::Yes);
        let found = ask(&index(), &query);
        assert_eq!(ids(&found)[0], expected);
        let reason = found.hits[0].reason.as_ref().unwrap();
        assert!(reason.coverage > 0.99, "{text}: {reason:?}");
    }
}

#[test]
fn tools_of_an_excluded_server_come_later() {
    let text = "read a file, but not from Office";
    let found = ids(&ask(&index(), &Query::new(text)));
    assert_eq!(found[0], "world.read_file", "{found:?}");
    assert!(found.contains(&"office.read_file".to_owned()), "{found:?}");
    assert_eq!(first(&Query::new("read a file without office or world")), "office.read_file");
    assert_eq!(first(&Query::new("read a file, not on office, world please")), "world.read_file");
    for text in [
        "read a file, office or not",
        "files of the office, not office mail",
        "not office",
        "read a file with nothing other than office",
        "do not read a file without office",
        "read a file which is not on office",
        "read a file not in office",
        "read a file without office conflicts",
        "read a file, not only on office",
    ] {
        let found = first(&Query::new(text));
        assert!(found.starts_with("office."), "{text}: {found}");
    }
}

/// Returns an index of tools without descriptions that searches by words only.
fn named(names: &[&str]) -> ToolIndex {
    let index = ToolIndex::builder().without_embedder().build();
    index.put(ServerEntry::new("x").tools(names.iter().map(|name| tool(name, "", "a")))).unwrap();
    index
}

#[track_caller]
fn check_negation(text: &str) {
    let found = ids(&ask(&named(&["delete_note", "move_note", "list_songs"]), &Query::new(text)));
    assert_eq!(found[..], ["x.move_note", "x.delete_note"], "{text}");
}

#[test]
fn a_tool_with_a_negated_verb_comes_later() {
    check_negation("do not delete the note, only move it");
    check_negation("move the note without deleting it");
}

#[cfg(feature = "lexicon")]
#[test]
fn a_tool_with_a_negated_verb_comes_later_in_other_languages() {
    check_negation("ne supprime pas la note, mais déplace la note");
    check_negation("перемести заметку, не удаляй её");
}

#[test]
fn to_open_a_new_thing_finds_the_tool_that_creates_it() {
    let things = ["create_pull_request", "get_pull_request", "list_pull_requests", "open_door"];
    for text in ["open a pull request", "Please open a new pull request for the branch"] {
        let found = ids(&ask(&named(&things), &Query::new(text)));
        assert_eq!(found[0], "x.create_pull_request", "{text}");
    }
    let own = named(&["create_pull_request", "open_pull_request"]);
    assert_eq!(ids(&ask(&own, &Query::new("open a pull request")))[0], "x.open_pull_request");
}

#[test]
fn the_words_of_a_message_to_send_are_not_searched() {
    let text = "send an email to my brother: 'draws the weather forecast of the almanac city'";
    let found = ask(&index(), &Query::new(text));
    assert_eq!(ids(&found)[0], "office.send_mail", "{:?}", ids(&found));
}

#[cfg(feature = "lexicon")]
#[test]
fn an_abbreviation_with_a_digit_leads_to_the_words_of_tools() {
    let index = named(&["docker_start", "kubernetes_scale", "play_song"]);
    let found = ids(&ask(&index, &Query::new("have a look at k8s")));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(!found.contains(&"x.play_song".to_owned()), "{found:?}");
}

#[test]
fn every_clause_finds_its_tool() {
    let text =
        "Tell me the weather of the city tomorrow. Then send an email to my brother about it";
    let found = ask(&index(), &Query::new(text).limit(2).explain(Explain::Yes));
    let mut ids = ids(&found);
    ids.sort();
    assert_eq!(ids, ["office.send_mail", "world.get_forecast"]);
    let clauses: Vec<_> =
        found.hits.iter().filter_map(|hit| hit.reason.as_ref()?.clause.clone()).collect();
    assert!(clauses.iter().any(|clause| clause.contains("weather")), "{clauses:?}");
    assert!(clauses.iter().any(|clause| clause.contains("email")), "{clauses:?}");
}

#[test]
fn a_hit_has_a_reason() {
    let found = ask(&index(), &Query::new("reading a document").explain(Explain::Yes));
    let reason = found.hits[0].reason.clone().unwrap();
    assert_eq!(found.hits[0].tool.tool_id(), "office.read_file");
    assert_eq!(reason.words, ["reading", "document"]);
    assert!(reason.meaning.unwrap() > 0.5 && reason.clause.is_none() && reason.history.is_none());
    assert!(ask(&index(), &Query::new("letter")).hits[0].reason.is_none());
}

#[test]
fn a_search_without_meaning_falls_back_to_words() {
    let check = |index: &ToolIndex, text: &str, expected: FallbackReason| {
        for strategy in [SearchStrategy::Hybrid, SearchStrategy::Semantic] {
            let found = ask(index, &Query::new(text).strategy(strategy.clone()));
            assert_eq!(found.ran, SearchStrategy::Keyword);
            assert_eq!(found.fallback, Some(Fallback { from: strategy, reason: expected.clone() }));
            assert_eq!(ids(&found)[0], "world.read_file");
        }
    };
    let plain = ToolIndex::builder().without_embedder().build();
    fill(&plain);
    check(&plain, "almanac page", FallbackReason::NoEmbedder);
    check(&index(), "almanac", FallbackReason::NoMeaning);
    let broken = "the model `meanings` failed: it is broken".to_owned();
    check(&index(), "broken almanac", FallbackReason::EmbedderFailed(broken));
}

#[test]
fn an_empty_query_browses() {
    for text in ["", "  ", "?!"] {
        let found = ask(&index(), &Query::new(text).limit(4));
        let expected =
            ["world.read_file", "office.list_folder", "office.read_file", "office.write_file"];
        assert_eq!(ids(&found), expected);
        assert_eq!(found.ran, SearchStrategy::Category);
        let reason = FallbackReason::Browsing;
        assert_eq!(found.fallback, Some(Fallback { from: SearchStrategy::Hybrid, reason }));
        assert_eq!(found.total_available, 8);
    }
}

#[test]
fn categories_are_found_by_their_words_and_by_their_tools() {
    let category = |text: &str| Query::new(text).strategy(SearchStrategy::Category);
    let found = ask(&index(), &category("files"));
    let mut all = ids(&found);
    all.truncate(3);
    all.sort();
    assert_eq!(all, ["office.list_folder", "office.read_file", "office.write_file"]);
    assert_eq!((found.ran.clone(), found.fallback.clone()), (SearchStrategy::Category, None));
    assert_eq!(first(&category("umbrella")), "world.get_forecast");
}

#[test]
fn a_long_query_is_truncated() {
    let text = format!("send an email {}", "zebra ".repeat(100_000));
    assert_eq!(first(&Query::new(text)), "office.send_mail");
}

static SHARED: LazyLock<ToolIndex> = LazyLock::new(index);

/// An access rule that hides the listed tools.
struct Hiding(Vec<String>);

impl Allowed for Hiding {
    fn allows(&self, server: &str, tool: &str) -> bool {
        !self.0.contains(&format!("{server}.{tool}"))
    }
}

proptest! {
    #[test]
    fn any_query_has_a_valid_result(
        words in prop::collection::vec(
            prop_oneof![
                Just("email"), Just("file."), Just("weather,"), Just("and"), Just("then"), Just("read_file"),
                Just("price"), Just("zzz"), Just("\u{0}"), Just("然后"), Just("of"), Just("ge_forecast"),
            ],
            0..12,
        ),
        most in 1usize..9,
        strategy in 0usize..5,
        hidden in prop::collection::vec(0usize..8, 0..4),
    ) {
        let strategies = [
            SearchStrategy::Keyword, SearchStrategy::Semantic, SearchStrategy::Category, SearchStrategy::Hybrid,
        ];
        let index = &*SHARED;
        let all = ids(&ask(index, &Query::new("").limit(50)));
        let hidden: Vec<String> = hidden.into_iter().map(|at| all[at].clone()).collect();
        let mut query = Query::new(words.join(" ")).limit(most);
        if let Some(strategy) = strategies.get(strategy) {
            query = query.strategy(strategy.clone());
        }
        let found = index.search(&query, &Hiding(hidden.clone())).unwrap();
        prop_assert!(found.hits.len() <= most);
        prop_assert!(found.hits.iter().all(|hit| (0.0..=1.0).contains(&hit.score)));
        prop_assert!(found.hits.is_sorted_by(|a, b| a.score >= b.score));
        let ids = ids(&found);
        prop_assert!(ids.iter().all(|id| !hidden.contains(id)));
        let again = index.search(&query, &Hiding(hidden)).unwrap();
        prop_assert_eq!(again.hits.iter().map(|hit| hit.tool.tool_id()).collect::<Vec<_>>(), ids);
    }
}
