//! Tests of `mgp tools call --stream`: it prints results while they arrive; the kernel limits their size.

use std::io::Read as _;
use std::process::Stdio;

use mgp_testkit::{example, until_blocking};
use serde_json::Value;

use crate::kernel::Kernel;
use crate::world::Home;

fn kernel() -> Kernel {
    let home = Home::new();
    let workbench = example("mgp-server-sdk", "workbench");
    let config = format!(
        "[limits]\nmax_stream_bytes = 20000\n\
         [agents.short.results]\nmax_text = 10\n\
         [agents.small.limits]\nmax_stream_bytes = 3000\n\
         [[servers]]\nid = 'writer'\ncommand = '{}'\n\
         [servers.limits]\ntool_max_stream_bytes = {{ stream = 10000 }}\n\
         [servers.mgp]\ndefault_policy = 'opt-out'\nrisk = {{ stream = 'safe', big = 'safe' }}\n",
        workbench.display()
    );
    home.configure(&config);
    let kernel = Kernel::on(home, None);
    until_blocking("the tools are listed", || {
        kernel.server("writer")["tools"].as_u64().is_some_and(|tools| tools > 1)
    });
    kernel
}

const CALL: [&str; 4] = ["tools", "call", "writer.stream", "--stream"];

fn call<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&CALL[..], more].concat()
}

/// Returns the text of each chunk, and the text of the result.
fn texts(lines: &str) -> (Vec<String>, String) {
    let lines: Vec<Value> = lines.lines().map(|line| line.parse().unwrap()).collect();
    let text = |block: &Value| block["text"].as_str().unwrap().to_owned();
    let chunks = lines.iter().map(|line| &line["chunk"]).filter(|chunk| !chunk.is_null());
    let result = &lines.last().unwrap()["result"]["content"];
    (chunks.map(text).collect(), result.as_array().unwrap().iter().map(text).collect())
}

#[test]
fn a_result_is_printed_while_it_arrives() {
    let kernel = kernel();
    let home = &kernel.home;
    assert_eq!(home.succeed(&call(&["chunks=5", "bytes=3"])), "aaabbbcccdddeee\n");
    let lines = home.succeed(&[&["--json"], &*call(&["chunks=2", "bytes=3"])].concat());
    assert_eq!(texts(&lines), (vec!["aaa".to_owned(), "bbb".to_owned()], "aaabbb".to_owned()));

    let mut slow = home
        .command(&call(&["chunks=2", "bytes=4", "delay_ms=5000"]))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = slow.stdout.take().unwrap();
    let mut first = [0; 4];
    out.read_exact(&mut first).unwrap();
    assert_eq!((&first, slow.try_wait().unwrap()), (b"aaaa", None), "printed before the end");
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(slow.wait().unwrap().success() && rest == "bbbb\n", "{rest}");

    let events = home.succeed(&["--json", "audit", "tail", "-n", "9"]);
    assert!(
        events.contains("\"chunks\":5,\"chunk_bytes\":") || events.contains("\"chunks\": 5"),
        "{events}"
    );
}

#[test]
fn limits_of_streams_name_their_key_and_cut_results_are_cut_in_chunks() {
    let kernel = kernel();
    let home = &kernel.home;
    let call = |agent: &str, chunks: &str| {
        home.run(&[&CALL[..], &[chunks, "bytes=100", "--agent", agent]].concat())
    };
    for (agent, chunks, key) in [
        ("default", "chunks=200", "`servers.limits.tool_max_stream_bytes` of server `writer`"),
        ("small", "chunks=50", "agents.small.limits.max_stream_bytes"),
    ] {
        let ended = call(agent, chunks);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.out.starts_with("aaaa") && ended.err.contains(key), "{ended:?}");
        assert!(ended.err.contains("3001"), "{ended:?}");
    }
    assert_eq!(call("default", "chunks=20").code, Some(0));

    let arguments = ["chunks=9", "bytes=3", "--agent", "short", "--json"];
    let (chunks, result) = texts(&home.succeed(&[&CALL[..], &arguments].concat()));
    assert_eq!(chunks, ["aaa", "bbb", "ccc", "d"]);
    let note = "[mgp: the result is longer: its first 10 of 27 bytes of text follow. Read on: ";
    assert!(result.starts_with(note) && result.ends_with("]\naaabbbcccd"), "{result}");
    let printed = home.run(&[&CALL[..], &arguments[..4]].concat());
    assert!(printed.out.starts_with("aaabbbcccd\n[mgp: the result is longer"), "{printed:?}");
    assert!(!printed.err.contains("differs"), "{printed:?}");
    let big = ["tools", "call", "writer.big", "bytes=27", "--agent", "short", "--stream"];
    let unstreamed = home.succeed(&big);
    assert!(
        unstreamed.starts_with(note) && unstreamed.ends_with("]\nxxxxxxxxxx\n"),
        "{unstreamed}"
    );
}
