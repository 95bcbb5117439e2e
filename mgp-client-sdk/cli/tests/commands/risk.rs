//! Tests of `mgp tools risk`, with a server that does not declare what its tools do.

use mgp_testkit::until_blocking;
use serde_json::{Value, json};

use crate::world::Home;

/// A shell script of a server with three tools without annotations, each of which returns a text.
const SHELL: &str = r#"
tool() { printf '{"name":"%s","description":"Does it","inputSchema":{"type":"object"}}' "$1"; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/^[^,]*,"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"method":"tools/list"'*) result="{\"tools\":[$(tool get_time),$(tool create_note),$(tool notes_list_all)]}" ;;
    *'"method":"tools/call"'*) result='{"content":[{"type":"text","text":"done"}]}' ;;
    *) [ -z "$id" ] || printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id"; continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

/// Creates a home with the server `notes`. A call of its tools waits only briefly for a person's approval.
fn home(entry: &str) -> Home {
    let home = Home::new();
    let script = home.write("notes.sh", SHELL);
    home.configure(&format!(
        "{}\n[kernel]\napproval_timeout = '500ms'\n",
        entry.replace("SCRIPT", &script.display().to_string())
    ));
    home
}

const TABLE: &str = "# my servers\n[[servers]]\nid = 'notes'\ncommand = '/bin/sh'\nargs = ['SCRIPT']\n[servers.mgp]\ndefault_policy = 'opt-out' # all agents";

/// Returns each tool in the output of `mgp tools risk` with its current and its proposed risk; also returns `true` if
/// the command has set the proposed risks.
fn proposals(home: &Home, arguments: &[&str]) -> (Vec<Value>, bool) {
    let listed = home.json("tools-risk", &[&["tools", "risk"], arguments].concat());
    let tools = listed["tools"].as_array().unwrap().iter();
    let tools =
        tools.map(|tool| json!([tool["tool_id"], tool["risk_level"], tool["proposed_risk"]]));
    (tools.collect(), listed["set"] == true)
}

fn works(home: &Home, tool: &str) -> bool {
    home.run(&["tools", "call", tool, "--agent", "ada"]).out.contains("done")
}

#[test]
fn tools_that_only_read_by_name_need_one_answer_instead_of_one_for_each_call() {
    let home = home(TABLE);
    let all = || proposals(&home, &[]);
    let wanted = vec![
        json!(["notes.get_time", "dangerous", "safe"]),
        json!(["notes.notes_list_all", "dangerous", "safe"]),
    ];
    until_blocking("the server is started", || !all().0.is_empty());
    assert_eq!(all(), (wanted.clone(), false));
    assert!(!works(&home, "notes.get_time"));
    let why = home.run(&["why", "ada", "notes.get_time"]).out;
    assert!(
        why.contains("after `mgp tools risk notes.get_time safe`, no agent needs a confirmation"),
        "{why}"
    );
    let shown = home.run(&["tools", "risk"]);
    assert!(
        shown.out.contains("notes.get_time") && shown.err.contains("--yes sets them"),
        "{shown:?}"
    );

    assert_eq!(proposals(&home, &["notes", "--yes"]), (wanted, true));
    until_blocking("the call runs", || works(&home, "notes.get_time"));
    assert!(works(&home, "notes.notes_list_all") && !works(&home, "notes.create_note"));
    assert_eq!(all(), (Vec::new(), false));
    let recorded = home.json("audit-query", &["audit", "query", "--type", "risk_level_override"]);
    assert!(recorded.to_string().contains("notes_list_all"), "{recorded}");

    home.succeed(&["tools", "risk", "notes.create_note", "moderate"]);
    until_blocking("the call runs", || works(&home, "notes.create_note"));
    home.succeed(&["tools", "risk", "notes.get_time", "--remove"]);
    until_blocking("the call waits again", || !works(&home, "notes.get_time"));
    home.fail(
        1,
        &["tools", "risk", "notes.get_time", "--remove"],
        "no risk of `notes.get_time` is configured",
    );
    home.fail(1, &["tools", "risk", "notes.nothing", "safe"], "notes.nothing");
    home.fail(2, &["tools", "risk", "notes.get_time", "harmless"], "possible values");
    let text = std::fs::read_to_string(home.own()).unwrap();
    assert!(text.contains("# my servers\n") && text.contains("'opt-out' # all agents"), "{text}");
    assert!(
        text.contains(
            "[servers.mgp.risk]\nnotes_list_all = \"safe\"\ncreate_note = \"moderate\"\n"
        ),
        "{text}"
    );
    assert!(text.ends_with("[kernel]\napproval_timeout = '500ms'\n"), "{text}");
}

#[test]
fn an_inline_entry_and_one_without_settings_get_the_risk_too() {
    for entry in [
        "servers = [{ id = 'notes', command = '/bin/sh', args = ['SCRIPT'] }]",
        "[[servers]]\nid = 'other'\ncommand = 'true'\n[[servers]]\nid = 'notes'\ncommand = '/bin/sh'\nargs = ['SCRIPT']",
        "[[servers]]\nid = 'notes'\ncommand = '/bin/sh'\nargs = ['SCRIPT']\nmgp = { trust_level = 'standard' }",
    ] {
        let home = home(entry);
        home.succeed(&["tools", "risk", "notes.get_time", "safe"]);
        let risk =
            || home.json("tools-show", &["tools", "show", "notes.get_time"])["risk_level"].clone();
        until_blocking("the entry applies", || risk() == "safe");
    }
}

#[test]
fn an_import_and_the_doctor_name_the_tools_that_only_read() {
    let home = home(TABLE);
    let (report, _) = home.any_json("doctor", &["doctor"]);
    let checks = report["checks"].as_array().unwrap().iter();
    let fixes: Vec<_> = checks.filter_map(|check| check["fix"].as_str()).collect();
    assert!(
        fixes.iter().any(|fix| fix.starts_with("`mgp tools risk notes` shows them")),
        "{fixes:?}"
    );
    let script = home.path("notes.sh");
    let script = script.to_str().unwrap();
    let added =
        home.succeed(&["servers", "add", "more", "--agent", "ada", "--", "/bin/sh", script]);
    assert!(added.contains("1 of them only reads by its name, but the server does not declare it: `mgp tools risk more`"), "{added}");
}
