//! The command line: `--key value` pairs and the server command after `--`.
use std::collections::HashMap;

/// The parsed command line.
pub(crate) struct Options {
    pub(crate) given: HashMap<String, String>,
    /// The words after `--`: the command that starts the server.
    pub(crate) rest: Vec<String>,
    /// The mode: `stdio`, `http` or `sessions`.
    pub(crate) mode: String,
}

impl Options {
    /// Reads the command line, or prints the usage and exits.
    pub(crate) fn parse() -> Options {
        let mut it = std::env::args().skip(1);
        let mode = it.next().unwrap_or_else(|| usage());
        let (mut m, mut rest) = (HashMap::new(), vec![]);
        while let Some(a) = it.next() {
            if a == "--" {
                rest.extend(it.by_ref());
                break;
            }
            let Some(k) = a.strip_prefix("--") else {
                eprintln!("unexpected argument {a}");
                usage()
            };
            let is_switch = matches!(k, "alone" | "get-stream");
            let value = if is_switch { Some(String::new()) } else { it.next() };
            m.insert(k.into(), value.unwrap_or_else(|| usage()));
        }
        Options { given: m, rest, mode }
    }

    /// Returns the value of option `k`, or the default `d`.
    pub(crate) fn text(&self, k: &str, d: &str) -> String {
        self.given.get(k).cloned().unwrap_or(d.into())
    }

    /// Returns the value of option `k` as a number, or the default `d`.
    pub(crate) fn number(&self, k: &str, d: usize) -> usize {
        self.given.get(k).map(|v| v.parse().expect(k)).unwrap_or(d)
    }

    /// Returns whether option `k` was given.
    pub(crate) fn has(&self, k: &str) -> bool {
        self.given.contains_key(k)
    }
}

/// Prints the usage and exits.
pub(crate) fn usage() -> ! {
    eprintln!("loadgen stdio    [opts] -- SERVER_CMD ARGS...
loadgen http     --url http://127.0.0.1:P/mcp [opts] -- SERVER_CMD ARGS...
loadgen sessions --url ... --n N [--get-stream] -- SERVER_CMD ARGS...   (idle sessions: memory per session)
opts: --n N --depth D --warmup W --payload-bytes B --method tools/call --protocol 2025-11-25|2026-07-28
      --alone (account the server process only, without its child processes) --startup-timeout S --exit-grace S");
    std::process::exit(2)
}
