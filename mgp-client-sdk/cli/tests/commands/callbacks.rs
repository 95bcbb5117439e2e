//! Tests of `mgp callbacks`, with which an operator answers a server's question when its caller cannot be asked.

use std::process::Stdio;

use mgp_testkit::until_blocking;

use crate::kernel::Kernel;
use crate::program::program;
use crate::world::Home;

/// Waits until the first open question has the text `message`, and returns the question.
fn opened(home: &Home, message: &str) -> serde_json::Value {
    let mut open = serde_json::Value::Null;
    until_blocking("the question is open", || {
        let all = home.json("callbacks-ls", &["callbacks", "ls"]);
        open = all.as_array().unwrap().first().cloned().unwrap_or_default();
        open["message"] == message
    });
    open
}

/// Starts a kernel with the example server `confirm`, whose tool `files.clean` asks the caller a question.
pub(crate) fn asking() -> Kernel {
    let program = program("confirm");
    let kernel = Kernel::new(&format!(
        "[[servers]]\nid = 'files'\ncommand = '{program}'\n[servers.mgp]\ndefault_policy = 'opt-out'\n\
         risk = {{ clean = 'safe' }}\n"
    ));
    until_blocking("the tool is listed", || kernel.server("files")["tools"].as_u64() == Some(1));
    kernel
}

#[test]
fn an_operator_answers_confirms_and_dismisses() {
    let kernel = asking();
    let home = &kernel.home;
    assert!(home.succeed(&["callbacks", "ls"]).contains("no open questions"));
    let call = || {
        let mut call = home.command(&["tools", "call", "files.clean"]);
        call.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    for (answer, text) in [("confirm", "were deleted"), ("cancel", "nothing was deleted")] {
        let calling = call();
        let open = opened(home, "Delete files of which age?");
        let id = open["id"].as_str().unwrap();
        assert_eq!((&open["server_id"], &open["type"]), (&"files".into(), &"selection".into()));
        let shown = home.succeed(&["callbacks", "ls"]);
        assert!(shown.contains("the server files asks") && shown.contains("a month | a year"));
        home.fail(1, &["callbacks", "answer", id, "a week"], "a month");
        home.silent(&["callbacks", "answer", id, "a year"]);
        let open = opened(home, "Delete 3 files older than a year?");
        home.silent(&["callbacks", "answer", open["id"].as_str().unwrap(), answer]);
        let output = String::from_utf8(calling.wait_with_output().unwrap().stdout).unwrap();
        assert!(output.contains(text), "{output}");
    }
    let calling = call();
    let open = opened(home, "Delete files of which age?");
    home.silent(&["callbacks", "dismiss", open["id"].as_str().unwrap()]);
    let output = calling.wait_with_output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    home.fail(1, &["callbacks", "dismiss", "gone"], "no question `gone` is open");
}

/// Regression test: `mgp servers restart` failed with “is not running”, although the server restarts when its calls
/// end.
#[test]
fn a_restart_whose_time_ends_while_a_call_runs_goes_on_by_itself() {
    let kernel = asking();
    let home = &kernel.home;
    let process = kernel.server("files")["pid"].clone();
    let mut call = home.command(&["tools", "call", "files.clean"]);
    let call = call.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let open = opened(home, "Delete files of which age?");
    let done = home.json("done", &["servers", "restart", "files", "--timeout", "1s"]);
    assert_eq!(done["status"], "draining", "{done}");
    home.silent(&["callbacks", "dismiss", open["id"].as_str().unwrap()]);
    call.wait_with_output().unwrap();
    until_blocking("the server has restarted", || {
        let server = kernel.server("files");
        server["status"] == "connected" && server["pid"] != process
    });
}
