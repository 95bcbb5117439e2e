//! Tools that return a single result or an error.

use std::time::Duration;

use mgp_server_sdk::Tools;
use mgp_server_sdk::prelude::*;
use mgp_types::RawObject;

#[derive(Deserialize, JsonSchema)]
struct Echo {
    /// Text to echo.
    message: String,
}

#[derive(Deserialize, JsonSchema)]
struct Wait {
    /// The delay in milliseconds.
    ms: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Fail {
    /// The code of the error.
    code: i32,
    /// The message of the error.
    message: Option<String>,
    /// The data of the error, an object.
    #[schemars(with = "Option<std::collections::BTreeMap<String, serde_json::Value>>")]
    data: Option<RawObject>,
}

#[derive(Deserialize, JsonSchema)]
struct Exit {
    /// The exit status of the process.
    code: i32,
}

#[derive(Deserialize, JsonSchema)]
struct Big {
    /// The length of the text, in bytes.
    bytes: usize,
}

#[derive(Deserialize, JsonSchema)]
struct Named {
    /// The name of the tool.
    name: String,
}

/// The maximum length of the text that `big` returns.
pub(super) const LARGEST: usize = 64 << 20;

pub(super) fn tools(tools: &Tools) -> Vec<Tool> {
    let (adding, removing) = (tools.clone(), tools.clone());
    vec![
        Tool::new("echo", "Echoes the message", |Args(Echo { message })| async move { message }),
        Tool::new(
            "sleep",
            "Waits; a cancelled call stops at once",
            |Args(Wait { ms })| async move {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                format!("slept {ms} ms")
            },
        ),
        Tool::blocking("block", "Blocks its thread", |Wait { ms }| {
            std::thread::sleep(Duration::from_millis(ms));
            format!("blocked {ms} ms")
        }),
        Tool::new(
            "freeze",
            "Blocks a thread of the runtime",
            |Args(Wait { ms }): Args<Wait>| async move {
                std::thread::sleep(Duration::from_millis(ms));
                format!("froze for {ms} ms")
            },
        ),
        Tool::new("fail", "Fails with the given error", |Args(fail)| async move {
            Err::<(), _>(failure(fail))
        }),
        Tool::new("exit", "Ends the process", |Args(Exit { code })| async move {
            std::process::exit(code);
            #[expect(unreachable_code, reason = "gives the block its result type")]
            ""
        }),
        Tool::new("big", "Answers with much text", |Args(Big { bytes })| async move {
            if bytes <= LARGEST {
                Ok("x".repeat(bytes))
            } else {
                Err(ToolError(format!("{bytes} bytes are more than {LARGEST}")))
            }
        }),
        Tool::new("add_tool", "Adds a tool that returns its name", move |Args(Named { name })| {
            let tools = adding.clone();
            async move {
                let answer = name.clone();
                tools.add(Tool::new(&*name, "Returns its name", move || {
                    let answer = answer.clone();
                    async move { answer }
                }));
                format!("added `{name}`")
            }
        }),
        Tool::new("remove_tool", "Removes a tool", move |Args(Named { name })| {
            let tools = removing.clone();
            async move {
                if tools.remove(&name) {
                    Ok(format!("removed `{name}`"))
                } else {
                    Err(ToolError(format!("there is no tool `{name}`")))
                }
            }
        }),
    ]
}

fn failure(fail: Fail) -> RpcError {
    let message = fail.message.unwrap_or_else(|| "failed as requested".to_owned());
    let error = RpcError::new(ErrorCode(fail.code), message);
    match fail.data {
        Some(data) => error.data(data.as_payload().clone()),
        None => error,
    }
}
