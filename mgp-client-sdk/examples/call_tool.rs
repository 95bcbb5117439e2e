//! Calls one tool and prints each event as a line of JSON.
//!
//! `call_tool [--era auto|legacy|modern] [--mgp all|none|LIST] [--stream] [--retry] [--timeout MS] [--bearer TOKEN] --json
//! (--url U | -- COMMAND…) TOOL ARGUMENTS`
//!
//! The lines are `{"negotiated":…}`, `{"attempt":…}`, `{"chunk":…}`, `{"progress":…}`, and last `{"result":…}` or
//! `{"error":…}`. With `--retry` there is a line `{"attempt":N,"code":…,"waited_ms":…}` after each attempt; `code` is
//! `null` if the call was answered, and `tool` is present if the attempt called a fallback tool instead of TOOL. The
//! exit code is 0 after a result, 1 after an error, and 2 for invalid usage.

#![expect(clippy::print_stderr, reason = "it is a program for a terminal")]

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use futures_util::StreamExt;
use mgp_client_sdk::prelude::*;
use mgp_client_sdk::{ClientBuilder, EraChoice, RetryConfig};
use mgp_types::RawObject;
use mgp_types::mgp::{Extension, ExtensionSet};
use mgp_types::service::Progress;
use serde_json::{Value, json};

const USAGE: &str = "usage: call_tool [--era auto|legacy|modern] [--mgp all|none|LIST] [--stream] [--retry] \
    [--timeout MS] [--bearer TOKEN] --json (--url U | -- COMMAND…) TOOL ARGUMENTS";

struct Options {
    client: ClientBuilder,
    streams: bool,
    retries: bool,
    server: Server,
    tool: String,
    arguments: RawObject,
}

enum Server {
    Url(String),
    Command(Box<ChildCommand>),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let options = match options(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(wrong) => {
            eprintln!("{wrong}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(options).await {
        Ok(result) => {
            print("result", json!(result));
            ExitCode::SUCCESS
        }
        Err(error) => {
            print("error", failure(&error));
            ExitCode::FAILURE
        }
    }
}

async fn run(options: Options) -> Result<CallToolResult, Error> {
    let client = match options.server {
        Server::Url(url) => options.client.connect_url(url).await?,
        Server::Command(command) => options.client.spawn(*command).await?,
    };
    let facts = client.server();
    let active = facts.mgp.map(|set| set.iter().map(Extension::as_str).collect::<Vec<_>>());
    let era = format!("{:?}", facts.era).to_lowercase();
    let negotiated = json!({
        "era": era, "revision": facts.revision, "mgp": active, "server": client.server_info(),
    });
    print("negotiated", negotiated);
    if !options.retries {
        print("attempt", json!(1));
    }
    let call = client.call(options.tool).args(options.arguments);
    let outcome = if options.streams {
        follow(call.stream()).await
    } else {
        call.progress(|step| print("progress", progress_members(step))).await
    };
    client.close().await;
    outcome
}

async fn follow(mut stream: mgp_client_sdk::ToolStream) -> Result<CallToolResult, Error> {
    while let Some(item) = stream.next().await {
        match item? {
            StreamItem::Chunk(block) => print("chunk", json!(block)),
            StreamItem::Progress(step) => print("progress", progress_members(&step)),
            StreamItem::Result(result) => return Ok(result),
            _ => {}
        }
    }
    Err(RpcError::internal("the call ended without a result").into())
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut client = Client::builder("call_tool", env!("CARGO_PKG_VERSION"));
    let (mut streams, mut retries, mut url) = (false, false, None);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("`{word}` needs a value"));
        client = match word.as_str() {
            "--era" => match value()?.as_str() {
                "auto" => client.era(EraChoice::Auto),
                "legacy" => client.era(EraChoice::Legacy),
                "modern" => client.era(EraChoice::Modern),
                era => return Err(format!("unknown era `{era}`; known: auto, legacy, modern")),
            },
            "--mgp" => match value()?.as_str() {
                "all" => client.mgp(ExtensionSet::STANDARD),
                "none" => client.without_mgp(),
                list => client.mgp(extensions(list)?),
            },
            "--timeout" => {
                let time = value()?;
                let ms = time
                    .parse()
                    .map_err(|_| format!("`{time}` is not a number of milliseconds"))?;
                let time = Duration::from_millis(ms);
                client.timeout(time).init_timeout(time)
            }
            "--stream" => {
                streams = true;
                client
            }
            // The output is always JSON; the flag is reserved in case another format is added.
            "--json" => client,
            "--url" => {
                url = Some(value()?);
                client
            }
            "--bearer" => {
                let token = value()?;
                client.bearer(token)
            }
            "--retry" => {
                retries = true;
                client
            }
            "--" => return target(words.collect(), client, (streams, retries), url),
            word if url.is_some() && !word.starts_with("--") => {
                let words = std::iter::once(word.to_owned()).chain(words).collect();
                return target(words, client, (streams, retries), url);
            }
            word => return Err(format!("unknown flag `{word}`")),
        };
    }
    Err(match url {
        Some(_) => "the tool and its arguments are missing",
        None => "`--url` and a URL, or `--` and the server's command are missing",
    }
    .to_owned())
}

fn target(
    mut words: Vec<String>,
    client: ClientBuilder,
    (streams, retries): (bool, bool),
    url: Option<String>,
) -> Result<Options, String> {
    let (Some(arguments), Some(tool)) = (words.pop(), words.pop()) else {
        return Err("the tool and its arguments are missing".to_owned());
    };
    let arguments: RawObject =
        serde_json::from_str(&arguments).map_err(|error| format!("the arguments: {error}"))?;
    let mut words = words.into_iter();
    let server = match (url, words.next()) {
        (Some(url), None) => Server::Url(url),
        (None, Some(program)) => Server::Command(Box::new(ChildCommand::new(program).args(words))),
        (Some(_), Some(word)) => return Err(format!("`{word}`: a URL or a command, not both")),
        (None, None) => return Err("the server's command is missing".to_owned()),
    };
    let client = if retries { client.retry(printed_retries(tool.clone())) } else { client };
    Ok(Options { client, streams, retries, server, tool, arguments })
}

fn printed_retries(tool: String) -> RetryConfig {
    RetryConfig::default().on_attempt(move |attempt| {
        let mut line = json!({
            "attempt": attempt.attempt,
            "code": attempt.code.map(|code| code.0),
            "waited_ms": u64::try_from(attempt.waited.as_millis()).unwrap_or(u64::MAX),
        });
        if let Some(other) = attempt.tool.filter(|other| *other != tool) {
            line["tool"] = other.into();
        }
        print_line(&line);
    })
}

fn extensions(list: &str) -> Result<ExtensionSet, String> {
    let known = |name: &str| {
        Extension::from_word(name).ok_or_else(|| {
            let all: Vec<_> = Extension::STANDARD.iter().map(|known| known.as_str()).collect();
            format!("unknown extension `{name}`; known: {}", all.join(", "))
        })
    };
    list.split(',').map(|name| known(name.trim())).collect()
}

fn progress_members(step: &Progress) -> Value {
    let mut members = json!({ "progress": step.progress });
    for (name, value) in [
        ("total", step.total.map(Value::from)),
        ("message", step.message.clone().map(Value::from)),
        ("estimated_remaining_ms", step.estimated_remaining_ms.map(Value::from)),
    ] {
        if let Some(value) = value {
            members[name] = value;
        }
    }
    members
}

fn failure(error: &Error) -> Value {
    let mut members = json!({ "code": error.code().0, "message": error.message() });
    if let Some(name) = error.code().name() {
        members["name"] = name.into();
    }
    if let Some(recovery) = error.recovery() {
        members["recovery"] = json!(recovery);
    }
    if let Error::Call(error) = error
        && let Some(data) = error.as_data()
    {
        members["data"] = json!(data);
    }
    members
}

fn print(kind: &str, value: impl Into<Value>) {
    print_line(&json!({ kind: value.into() }));
}

fn print_line(line: &Value) {
    // Ignore an error, because the reader may have closed the pipe.
    let _ = writeln!(std::io::stdout(), "{line}");
}
