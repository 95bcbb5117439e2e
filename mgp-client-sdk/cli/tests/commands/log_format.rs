//! Tests of the log of `mgp serve` as lines of JSON.

use std::fs::{self, File};
use std::net::TcpListener;
use std::process::Stdio;

use mgp_testkit::{KilledChild, until_blocking};
use serde_json::Value;

use crate::program::program;
use crate::world::Home;

/// Parses each line as an event of the log.
#[track_caller]
fn events(text: &str) -> Vec<Value> {
    let mut events = Vec::new();
    for line in text.lines() {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|error| {
            panic!("{error}: {line}");
        });
        for member in ["timestamp", "level", "target", "message"] {
            assert!(event[member].is_string(), "{member}: {line}");
        }
        events.push(event);
    }
    events
}

#[test]
fn with_the_format_json_each_line_on_standard_error_is_an_event() {
    let home = Home::new();
    let script = "echo \"a 'quoted' line\" >&2; exec \"$0\"";
    let server = format!(
        "[[servers]]\nid = 'echo'\ncommand = 'sh'\nargs = ['-c', '''{script}''', '{}']\n",
        program("echo")
    );
    let absent = "[[servers]]\nid = 'gone'\ncommand = '/absent/program'\n";
    let config = home.write("c.toml", &(server + absent + "[agents.ada]\nbudgte = 1\n"));
    let (ready, log) = (home.path("ready.json"), home.path("log"));
    let mut command = home.command(&["serve", "--http", "127.0.0.1:0", "--no-auth", "--config"]);
    command.arg(config).arg("--ready-file").arg(&ready);
    command.env("MGP_LOG_FORMAT", "json").env("MGP_LOG", "info");
    let output = File::create(&log).unwrap();
    let mut kernel = KilledChild(command.stdout(Stdio::null()).stderr(output).spawn().unwrap());
    let text = || fs::read_to_string(&log).unwrap();
    until_blocking("the servers wrote a line and failed", || {
        ready.exists() && text().contains("quoted") && text().contains("server failed")
    });
    home.silent(&["stop"]);
    assert!(kernel.wait().unwrap().success());
    let events = events(&text());
    let find = |text: &str| {
        let has_text = |event: &&Value| event.to_string().contains(text);
        events.iter().find(has_text).unwrap_or_else(|| panic!("no {text}: {events:?}"))
    };
    assert_eq!(find("did you mean `budget`?")["level"], "WARN");
    assert_eq!(find("serving at http://")["level"], "INFO");
    let reason = &find("server failed")["fields"]["reason"];
    assert!(reason.as_str().unwrap().starts_with("the server did not start"), "{reason}");
    let of_server =
        |event: &Value| event["target"] == "mgp::child" && event["message"] == "a 'quoted' line";
    assert!(events.iter().any(of_server), "{events:?}");
}

#[test]
fn a_failed_start_is_an_event_too() {
    let home = Home::new();
    home.configure("");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let arguments = ["serve", "--http", &address, "--no-auth"];
    let ended = home.run(&[&arguments[..], &["--log-format", "json"]].concat());
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let last = events(&ended.err).pop().unwrap();
    assert_eq!(last["level"], "ERROR");
    assert!(last["message"].as_str().unwrap().contains("is in use by another program"), "{last}");

    let unknown = home.run_with(&arguments, &[("MGP_LOG_FORMAT", "xml")]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(
        unknown.err.contains("`MGP_LOG_FORMAT` is `xml`; write `text` or `json`"),
        "{unknown:?}"
    );
    // The option of the command line has precedence over the variable, and an empty variable has no effect.
    for (option, variable) in [(&["--log-format", "text"][..], "xml"), (&[][..], "")] {
        let arguments = [&arguments[..], option].concat();
        let ended = home.run_with(&arguments, &[("MGP_LOG_FORMAT", variable)]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.err.lines().last().unwrap().starts_with("mgp: "), "{ended:?}");
    }
}
