//! The command `mgp tools call`: calls a tool as an agent, under the rules for that agent.

use std::io::Read as _;
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use mgp_client_sdk::ToolResult as _;
use mgp_types::ErrorCode;
use mgp_types::mcp::CallToolResult;
use mgp_types::mgp::KernelTool;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::time::sleep;

use super::super::known_names::disabled_server_of;
use super::super::streamed_call::print_stream;
use super::agent::agents_with_access;
use super::fetch_tools;
use crate::args::Global;
use crate::control;
use crate::exit::{CliResult, Failure};
use crate::output::{Output, Render, first_line, print, print_note};
use crate::socket_hello::DEFAULT_AGENT;
use crate::state_option::shell_word_or;

/// The maximum length of a tool's arguments on standard input, in bytes.
const MAX_ARGUMENT_BYTES: u64 = 16 << 20;

/// The time after which the command prints that the call is not answered yet.
const NOTE_DELAY: Duration = Duration::from_secs(3);

/// `mgp tools call`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Call {
    /// Tool, as `mgp tools ls` names it
    tool: String,
    /// Arguments; a value that is valid JSON is parsed
    #[arg(value_name = "NAME=VALUE")]
    pairs: Vec<String>,
    /// All arguments as one JSON object; `-` reads it from standard input
    #[arg(long, value_name = "JSON", conflicts_with = "pairs")]
    arguments: Option<String>,
    /// Agent that calls; the default is `default`, else the only agent that may use the tool
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Print the result while it arrives; with --json one line for each part
    #[arg(long)]
    stream: bool,
}

/// The result of a call.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct CallOutput(CallToolResult);

impl Render for CallOutput {
    fn render(&self, out: &mut Output) {
        let text = self.0.to_text();
        if text.is_empty()
            && let Some(content) = &self.0.structured_content
        {
            return out.block(content.as_str());
        }
        out.block(&text);
        let others = self.0.content.iter().filter(|block| block.as_text().is_none()).count();
        if others > 0 {
            out.line(format!(
                "and {} not text; use --json",
                if others == 1 {
                    "1 part that is".to_owned()
                } else {
                    format!("{others} parts that are")
                }
            ));
        }
    }
}

pub(super) async fn run(global: &Global, call: &Call) -> CliResult {
    let arguments = arguments(call)?;
    let agent = &*calling_agent(global, call).await?;
    let client = control::connect_or_start_as(global, agent).await?;
    let running = client.call(&call.tool).args(arguments);
    let outcome = if call.stream {
        print_stream(global, running.stream()).await?
    } else {
        with_note(global, running.into_future()).await
    };
    if let Err(error) = &outcome
        && error.code() == ErrorCode::TOOL_NOT_FOUND
        // Return the kernel's error unchanged to a process that a host started, because it is not allowed to ask about
        // servers.
        && let Ok(operator) = control::connect(global).await
        && let Ok(Some(failure)) = disabled_server_of(&operator, &call.tool).await
    {
        return Err(failure);
    }
    let result = outcome.map_err(|error| {
        // The error text addresses the agent. The person who runs this command can change the rules, so the message
        // adds the command that shows them.
        match error.code() {
            ErrorCode::PERMISSION_DENIED | ErrorCode::ACCESS_DENIED => {
                let (agent, tool) =
                    (shell_word_or("AGENT", agent), shell_word_or("TOOL", &call.tool));
                Failure::failed(format!(
                    "{error}; `mgp why {agent} {tool}` shows what would let it run"
                ))
            }
            ErrorCode::INVALID_TOOL_ARGS
                if call.arguments.is_none()
                    && error.to_string().contains("is not of type \"string\"") =>
            {
                Failure::failed(format!(
                    "{error}; a text that looks like JSON is given in quotation marks: NAME='\"5\"'"
                ))
            }
            _ => Failure::from(error),
        }
    })?;
    let failed = result.is_error == Some(true);
    if failed && !global.json {
        return Err(Failure::failed(result.to_text()));
    }
    if !call.stream {
        print(global, &CallOutput(result))?;
    }
    if failed { Err(Failure::failed("the tool reported an error")) } else { Ok(()) }
}

/// Waits for a call. After [`NOTE_DELAY`], prints where to find the question that the call may be waiting for.
async fn with_note<T>(global: &Global, call: impl Future<Output = T>) -> T {
    let mut call = pin!(call);
    tokio::select! {
        outcome = &mut call => outcome,
        () = sleep(NOTE_DELAY) => {
            let note = "mgp: still waiting; if the call needs a decision, `mgp approvals ls` in another terminal shows it";
            print_note(global, note);
            call.await
        }
    }
}

/// Returns the agent of a call: the named one, else `default`. If `default` does not see the tool, returns the only
/// other agent that sees it; fails if several see it.
async fn calling_agent(global: &Global, call: &Call) -> CliResult<String> {
    if let Some(agent) = &call.agent {
        return Ok(agent.clone());
    }
    let connected = match control::connect(global).await {
        Err(failure) if failure.is_no_kernel() => {
            control::start_kernel(global).await?;
            control::connect(global).await
        }
        connected => connected,
    };
    // A process that a host started is not allowed to ask as an operator, so without `--agent` it calls as `default`.
    let Ok(client) = connected else { return Ok(DEFAULT_AGENT.to_owned()) };
    let is_meant = |tool: &KernelTool| tool.tool_id == call.tool || tool.name == call.tool;
    let mut others = Vec::new();
    for agent in std::iter::once(DEFAULT_AGENT.to_owned()).chain(agents_with_access(global).await?)
    {
        let tools = fetch_tools(&client, None, Some(&agent)).await?;
        let Some(tool) = tools.iter().find(|tool| is_meant(tool)) else {
            // Call as `default`: the tool is in no server's list, so it may be one of the kernel's own tools.
            return Ok(DEFAULT_AGENT.to_owned());
        };
        match (tool.seen_by_agent, &*agent) {
            (Some(true), DEFAULT_AGENT) => return Ok(agent),
            (Some(true), _) => others.push(agent),
            _ => {}
        }
    }
    match &others[..] {
        [] => Ok(DEFAULT_AGENT.to_owned()),
        [agent] => {
            print_note(global, &format!("mgp: calling as {agent}, since `default` has no access"));
            Ok(agent.clone())
        }
        many => Err(Failure::usage(format!(
            "`default` may not use `{}`; name one of the agents that may: --agent {}",
            call.tool,
            many.join(", --agent ")
        ))),
    }
}

fn arguments(call: &Call) -> CliResult<Map<String, Value>> {
    let Some(text) = &call.arguments else {
        return pairs_to_arguments(&call.pairs).map_err(|failure| {
            Failure::usage(format!("{failure}; or give a JSON object with --arguments"))
        });
    };
    let text = if text == "-" {
        let mut read = String::new();
        std::io::stdin().lock().take(MAX_ARGUMENT_BYTES).read_to_string(&mut read)?;
        read
    } else {
        text.clone()
    };
    serde_json::from_str(&text)
        .map_err(|error| Failure::usage(format!("--arguments is not a JSON object: {error}")))
}

/// Parses arguments of the form `NAME=VALUE`.
pub(in crate::commands) fn pairs_to_arguments(pairs: &[String]) -> CliResult<Map<String, Value>> {
    let mut arguments = Map::new();
    for pair in pairs {
        let Some((name, value)) = pair.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            let pair = first_line(pair, 20);
            return Err(Failure::usage(format!("`{pair}` is not NAME=VALUE")));
        };
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
        if arguments.insert(name.to_owned(), value).is_some() {
            let name = first_line(name, 40);
            return Err(Failure::usage(format!(
                "`{name}` is given twice; a list is one value: {name}='[1, 2]'"
            )));
        }
    }
    Ok(arguments)
}
