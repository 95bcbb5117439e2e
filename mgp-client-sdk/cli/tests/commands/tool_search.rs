//! Tests of `mgp tools search` with a kernel: which notes it prints in addition to the tools, and what the kernel
//! records. Also tests of tools that no search finds.

use mgp_testkit::until_blocking;
use serde_json::{Value, json};

use crate::hostile::stub;
use crate::kernel::Kernel;
use crate::program::program;
use crate::world::Home;

/// Starts a kernel with these settings and the example server `workbench`, whose tools every agent may use.
fn open_bench(settings: &str) -> Kernel {
    let bench = program("workbench");
    let kernel = Kernel::new(&format!(
        "{settings}\n[[servers]]\nid = 'bench'\ncommand = '{bench}'\n[servers.mgp]\ndefault_policy = 'opt-out'\n"
    ));
    until_blocking("the tools are listed", || kernel.server("bench")["tools"].as_u64() > Some(5));
    kernel
}

const SEARCH: [&str; 6] = ["tools", "search", "echo a message", "--agent", "ada", "--most"];

/// Regression test: a search did not report the tools that it left out because they exceeded `discovery_reserve`.
#[test]
fn a_search_reports_the_tools_that_it_leaves_out() {
    let kernel = open_bench("[kernel.tool_context_budget]\ndiscovery_reserve = 200");
    for most in ["50", "500"] {
        for json in [false, true] {
            let mut arguments = [&SEARCH[..], &[most]].concat();
            if json {
                arguments.insert(0, "--json");
            }
            let ended = kernel.home.run(&arguments);
            let is_reported = ended.err.contains("the answer leaves out")
                && ended.err.contains("raise `discovery_reserve`");
            assert!(ended.code == Some(0) && is_reported, "{ended:?}");
            assert_eq!(ended.err.contains("at most 50 tools"), most == "500", "{ended:?}");
        }
    }
}

/// Regression test: the proposed remedy was to grant access, although the agent had it.
#[test]
fn a_budget_that_fits_no_tool_is_not_reported_as_missing_access() {
    let kernel = open_bench("[agents.ada]\nbudget = 200");
    let ended = kernel.home.run(&[&SEARCH[..], &["5"]].concat());
    assert!(
        ended.out.contains("no found tool fits the context budget of agent `ada`"),
        "{ended:?}"
    );
    assert!(ended.err.contains("`budget` of `[agents.ada]`"), "{ended:?}");
    assert!(!ended.out.contains("access grant"), "{ended:?}");
}

/// Regression test: the command marked a search as a trial only with `--why`.
#[test]
fn a_trial_search_is_not_recorded_for_the_agent() {
    let kernel = open_bench("[kernel.search]\nlearning = true");
    let found = kernel.home.json("tools-search", &[&SEARCH[..], &["5"]].concat());
    assert_eq!(found[0]["reason"], Value::Null, "{found}");
    let shown = kernel.home.succeed(&[&SEARCH[..], &["5"]].concat());
    assert!(shown.contains("DESCRIPTION") && !shown.contains("WHY"), "{shown}");
    let tokens = kernel.home.json("tools-tokens", &["tools", "tokens", "--agent", "ada"]);
    assert_eq!(tokens["unmet"], Value::Null, "{tokens}");
}

#[test]
fn a_list_of_tools_for_an_agent_that_is_not_known_has_a_note() {
    let kernel = open_bench("");
    for arguments in [["tools", "ls", "--agent", "ada"], ["tools", "tokens", "--agent", "ada"]] {
        let listed = kernel.home.run(&arguments);
        assert!(listed.err.contains("no agent `ada` is known yet"), "{listed:?}");
        assert_eq!(listed.code, Some(0));
    }
}

/// Regression test: no command showed which tools cannot be used.
#[test]
fn a_server_shows_the_command_that_explains_why_its_tools_cannot_be_used() {
    let files = Home::new();
    let tools =
        json!([{ "name": "a b", "description": "Adds.", "inputSchema": { "type": "object" } }]);
    let kernel = Kernel::new(&stub(&files, "sh", &tools, &json!({})));
    let lacks = || kernel.server("sh")["lacks"].as_str().unwrap_or_default().to_owned();
    until_blocking("the definition is refused", || lacks().starts_with("1 definition cannot be"));
    let query = ["audit", "query", "--server", "sh", "--type", "definition_flagged"];
    assert!(lacks().contains(&format!("`mgp {}", query[..4].join(" "))), "{}", lacks());
    let shown = kernel.home.succeed(&query);
    assert!(shown.contains("a b") && shown.contains("the name holds"), "{shown}");
}
