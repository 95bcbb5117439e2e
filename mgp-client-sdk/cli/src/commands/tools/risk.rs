//! `mgp tools risk`: sets the risk of tools, and proposes it for tools whose server does not declare what they do.

use std::collections::BTreeMap;

use clap::Args;
use mgp_types::mgp::{KernelTool, RiskLevel};
use serde::Serialize;

use super::{fetch_tools, find_tool, own_name, risk};
use crate::args::{ConfigArg, Global};
use crate::config_file::{ConfigFile, ToolRisks};
use crate::control;
use crate::exit::{CliResult, Failure};
use crate::operator::admit_edit;
use crate::output::{ActionReport, Output, Render, first_line, plural, print, print_note};
use crate::prompt;

/// `mgp tools risk`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Risk {
    /// Tool as SERVER.TOOL, or a server; the default is all servers
    #[arg(value_name = "TOOL|SERVER")]
    name: Option<String>,
    /// Risk of the tool
    #[arg(value_name = "LEVEL", value_parser = ["safe", "moderate", "dangerous"])]
    level: Option<String>,
    /// Remove the entry of the tool; the kernel assesses the tool itself again
    #[arg(long, requires = "name", conflicts_with = "level")]
    remove: bool,
    /// Set the proposed risks without a question
    #[arg(long, short, conflicts_with_all = ["level", "remove"])]
    yes: bool,
    #[command(flatten)]
    config: ConfigArg,
}

/// Tools that count as dangerous only because their servers do not declare what they do, with the proposed risk.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RiskProposals {
    tools: Vec<KernelTool>,
    /// `true` if the proposed risks were set.
    set: bool,
}

impl Render for RiskProposals {
    fn render(&self, out: &mut Output) {
        if self.tools.is_empty() {
            return;
        }
        let rows = self.tools.iter().map(|tool| {
            [
                tool.tool_id.as_str().into(),
                risk(&tool.risk_level),
                tool.proposed_risk.as_ref().map_or_else(|| "-".into(), risk),
                first_line(tool.description.as_deref().unwrap_or_default(), 60).into(),
            ]
        });
        out.table(["TOOL", "RISK", "PROPOSED", "DESCRIPTION"], rows);
    }
}

pub(super) async fn run(global: &Global, args: &Risk) -> CliResult {
    let client = control::connect_or_start(global).await?;
    let all = fetch_tools(&client, None, None).await?;
    match (&args.name, &args.level) {
        (Some(name), Some(level)) => set(global, args, find_tool(&all, name)?, level).await,
        (Some(name), None) if args.remove => remove(global, args, find_tool(&all, name)?).await,
        (name, _) => propose(global, args, selected(all, name.as_deref())?).await,
    }
}

/// Returns the tools that a name on the command line means: all tools of a server, or one tool.
fn selected(all: Vec<KernelTool>, name: Option<&str>) -> CliResult<Vec<KernelTool>> {
    let Some(name) = name else { return Ok(all) };
    if all.iter().any(|tool| tool.server_id == name) {
        return Ok(all.into_iter().filter(|tool| tool.server_id == name).collect());
    }
    Ok(vec![find_tool(&all, name)?.clone()])
}

async fn set(global: &Global, args: &Risk, tool: &KernelTool, level: &str) -> CliResult {
    let risks = BTreeMap::from([(own_name(tool).to_owned(), RiskLevel::from(level))]);
    open_to_edit(global, args, [&*tool.server_id])
        .await?
        .set_risks(&BTreeMap::from([(tool.server_id.clone(), risks)]))?;
    control::reload(global).await;
    ActionReport::new(&*tool.tool_id, level).print(global)
}

async fn remove(global: &Global, args: &Risk, tool: &KernelTool) -> CliResult {
    let file = open_to_edit(global, args, [&*tool.server_id]).await?;
    if !file.remove_risk(&tool.server_id, own_name(tool))? {
        return Err(Failure::failed(format!("no risk of `{}` is configured", tool.tool_id)));
    }
    control::reload(global).await;
    ActionReport::new(&*tool.tool_id, "removed").print(global)
}

async fn propose(global: &Global, args: &Risk, mut tools: Vec<KernelTool>) -> CliResult {
    let file = ConfigFile::open(args.config.file_to_edit()?)?;
    tools.retain(|tool| tool.proposed_risk.is_some() && file.check_server(&tool.server_id).is_ok());
    if tools.is_empty() {
        print_note(global, "no proposals; `mgp tools ls` shows the risk of each tool");
        return print(global, &RiskProposals { tools, set: false });
    }
    let count = plural(tools.len(), "tool");
    print_note(
        global,
        &format!(
            "each call of {count} waits for a person, because the server does not declare what the tool does; by name and \
             arguments it only reads"
        ),
    );
    let mut proposals = RiskProposals { tools, set: false };
    if !global.json {
        print(global, &proposals)?;
    }
    let question = format!("Set the proposed risk of {count}?");
    if args.yes || prompt::confirm(global, &question)?.unwrap_or(false) {
        let mut risks = ToolRisks::new();
        for tool in &proposals.tools {
            let own = risks.entry(tool.server_id.clone()).or_default();
            own.extend(tool.proposed_risk.clone().map(|risk| (own_name(tool).to_owned(), risk)));
        }
        open_to_edit(global, args, risks.keys().map(String::as_str)).await?.set_risks(&risks)?;
        control::reload(global).await;
        proposals.set = true;
    }
    if global.json {
        return print(global, &proposals);
    }
    let note = if proposals.set {
        "set; `mgp tools risk TOOL --remove` takes one back"
    } else {
        "nothing was set; --yes sets them"
    };
    print_note(global, note);
    Ok(())
}

/// Opens the configuration for an edit by an operator, if it has these servers.
async fn open_to_edit(
    global: &Global,
    args: &Risk,
    servers: impl IntoIterator<Item = &str>,
) -> CliResult<ConfigFile> {
    let file = ConfigFile::open(args.config.file_to_edit()?)?;
    for server in servers {
        file.check_server(server)?;
    }
    admit_edit(global, &args.config).await?;
    Ok(file)
}
