//! The command `mgp why`: shows how the kernel would decide about a call now, without making the call.

use clap::Args;
use mgp_client_sdk::Client;
use mgp_types::method::KernelExplain;
use mgp_types::mgp::{
    ExplainedOutcome, ExplainedResult, KernelExplainParams, KernelExplainResult, KernelTool,
};
use mgp_types::{ErrorCode, RawObject};
use serde::Serialize;

use super::kernel::RESULT_TYPE;
use super::keys::{self, KeyInfo};
use super::known_names::{KnownNames, disabled_server_of, no_tool};
use super::tools::{fetch_tools, pairs_to_arguments};
use crate::args::Global;
use crate::backend::operator;
use crate::control;
use crate::exit::{CliResult, Failure};
use crate::output::{Cell, Color, Output, Render, print, print_note};
use crate::state_option::shell_word_or;

/// `mgp why`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Prints each rule that was considered, in order. Nothing is called, asked or recorded. Without NAME=VALUE, the rules about arguments are left out; without --key, the limits of API keys.\n\nExample:\n  mgp why cursor files.write_file path=/srv/notes.txt\n  mgp why nightly files.write_file --key 3f1c09aa52b7e4d0"
)]
pub(crate) struct Why {
    /// Agent that would call
    agent: String,
    /// Tool, as `mgp tools ls` names it, or SERVER.TOOL
    tool: String,
    /// Arguments; a value that is valid JSON is parsed
    #[arg(value_name = "NAME=VALUE")]
    pairs: Vec<String>,
    /// Id of the API key with which the agent would call, as `mgp keys ls` shows it
    #[arg(long, value_name = "ID")]
    key: Option<String>,
}

/// The decision about a call.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Explanation(KernelExplainResult);

impl Render for Explanation {
    fn render(&self, out: &mut Output) {
        let result = &self.0;
        let (word, color) = match result.outcome {
            ExplainedOutcome::Allow => ("allowed", Color::Green),
            ExplainedOutcome::Ask => ("waits", Color::Yellow),
            _ => ("refused", Color::Red),
        };
        let code = result.code.map(|code| format!(" ({code})")).unwrap_or_default();
        let mut parts = result.reason.as_deref().unwrap_or_default().split("; ");
        let first = parts.next().filter(|first| !first.is_empty());
        let reason = first.map(|first| format!(": {first}")).unwrap_or_default();
        let name = format!("{}.{}", result.server_id, result.tool_name);
        out.status_line(&Cell::from(word).color(color), &format!("{name}{reason}{code}"));
        for part in parts {
            out.hint(format!("  {part}"));
        }
        if let Some(risk) = &result.risk_level {
            let why = result.risk_reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            out.line(format!("  risk      {risk}{why}"));
        }
        let rows = result.steps.iter().map(|step| {
            let color = match step.result {
                ExplainedResult::Passed => Color::Green,
                ExplainedResult::Asks => Color::Yellow,
                _ => Color::Red,
            };
            let result = Cell::from(step.result.as_str()).color(color);
            [step.stage.as_str().into(), result, step.rule.as_str().into()]
        });
        out.table(["RULES OF", "RESULT", "RULE"], rows);
    }
}

pub(crate) async fn run(global: &Global, why: &Why) -> CliResult {
    let mut params = KernelExplainParams::new(why.agent.as_str(), why.tool.as_str());
    let arguments = pairs_to_arguments(&why.pairs)?;
    if !arguments.is_empty() {
        params.arguments = Some(RawObject::of(&arguments)?);
    }
    match &why.key {
        Some(id) => {
            params.key_permissions = permissions(keys::list(global).await?, id, &why.agent)?.into();
        }
        None => note_on_keys(global, &why.agent).await,
    }
    let client = control::connect_or_start(global).await?;
    let explained = client.request::<KernelExplain>(&params).await;
    let mut result = match explained {
        Ok(result) => result,
        Err(error) if error.code() == ErrorCode::INVALID_PARAMS => {
            return Err(not_explained(global, &client, why, &error).await?);
        }
        Err(error) => return Err(error.into()),
    };
    if let Some(note) = KnownNames::read_alone(global).await?.note_on_agent(&why.agent) {
        print_note(global, &format!("mgp: {note}"));
    }
    result.extra.remove(RESULT_TYPE);
    print(global, &Explanation(result))
}

/// Returns the permissions of the agent's key with this id; an empty list if the key is not limited. Fails if the agent
/// has no valid key with this id.
fn permissions(keys: Vec<KeyInfo>, id: &str, agent: &str) -> CliResult<Vec<String>> {
    let Some(key) = keys.into_iter().find(|key| key.id == id) else {
        return Err(Failure::failed(format!("the key `{id}` is not known; see `mgp keys ls`")));
    };
    if key.agent != agent {
        let other = key.agent;
        return Err(Failure::usage(format!("the key `{id}` belongs to the agent `{other}`")));
    }
    if key.tenant != operator().tenant().as_str() {
        return Err(Failure::usage(format!(
            "the key `{id}` belongs to the tenant `{}`, but this command explains only calls of the tenant `{}`",
            key.tenant,
            operator().tenant()
        )));
    }
    if key.status != "valid" {
        return Err(Failure::failed(format!(
            "the key `{id}` is {}, so all requests with it are refused; create another with `mgp keys add {}`",
            key.status,
            shell_word_or("AGENT", agent)
        )));
    }
    Ok(key.permissions)
}

/// Prints a note if the agent has a key whose limits this explanation leaves out. Keys that cannot be read have no
/// effect on the explanation, so they are ignored.
async fn note_on_keys(global: &Global, agent: &str) {
    let keys = keys::list(global).await.unwrap_or_default();
    let operator = operator();
    let is_limited = |key: &&KeyInfo| {
        let is_own = key.agent == agent && key.tenant == operator.tenant().as_str();
        is_own && key.status == "valid" && !key.permissions.is_empty()
    };
    if let Some(key) = keys.iter().find(is_limited) {
        let (id, limits) = (&key.id, key.permissions.join(" "));
        print_note(
            global,
            &format!("mgp: a key of `{agent}` permits only {limits}; `--key {id}` applies this"),
        );
    }
}

/// Returns the failure for a tool that the kernel does not find, or finds several times.
async fn not_explained(
    global: &Global,
    client: &Client,
    Why { agent, tool, .. }: &Why,
    error: &mgp_client_sdk::Error,
) -> CliResult<Failure> {
    if let Some(failure) = disabled_server_of(client, tool).await? {
        return Ok(failure);
    }
    let all = fetch_tools(client, None, None).await?;
    let has = |name: &str| {
        let end = format!(".{name}");
        let is_it = |known: &KernelTool| {
            known.name == name || known.tool_id == name || known.tool_id.ends_with(&end)
        };
        all.iter().any(is_it)
    };
    if has(tool) {
        return Ok(Failure::usage(error));
    }
    if has(agent) && !tool.contains('.') {
        let known = KnownNames::read_alone(global).await?;
        // A known agent can have the name of a tool.
        if known.note_on_unknown_agent(agent).is_some() {
            let word = shell_word_or("AGENT", tool);
            return Ok(Failure::usage(format!(
                "`{agent}` is a tool; name the agent before it: `mgp why {word} {agent}`"
            )));
        }
    }
    Ok(no_tool(tool, all.iter().map(|known| known.tool_id.as_str())))
}
