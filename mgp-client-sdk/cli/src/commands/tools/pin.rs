//! The command `mgp tools pin`: always lists a tool to an agent.

use clap::Args;

use super::super::known_names::{AcceptedNames, KnownNames};
use crate::args::{ConfigArg, Global};
use crate::config_file::{ConfigFile, Pinned, check_agent};
use crate::control;
use crate::exit::{CliResult, Failure};
use crate::operator::admit_edit;
use crate::output::ActionReport;

/// `mgp tools pin`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Pin {
    /// Tool, as SERVER.TOOL
    tool: String,
    /// Agent
    #[arg(long, value_name = "NAME")]
    agent: String,
    /// Unpin the tool instead
    #[arg(long)]
    remove: bool,
    #[command(flatten)]
    accept: AcceptedNames,
    #[command(flatten)]
    config: ConfigArg,
}

pub(super) async fn run(global: &Global, pin: &Pin) -> CliResult {
    check_agent(&pin.agent)?;
    if pin.tool.split_once('.').is_none_or(|(server, tool)| server.is_empty() || tool.is_empty()) {
        return Err(Failure::usage(format!(
            "`{}` is not SERVER.TOOL; see `mgp tools ls`",
            pin.tool
        )));
    }
    let pinned = if pin.remove { Pinned::No } else { Pinned::Yes };
    let mut notes = Vec::new();
    if !pin.remove && !pin.accept.force {
        let known = KnownNames::read_alone(global).await?;
        let Some((server, tool)) = known.split(&pin.tool) else {
            let server = pin.tool.split('.').next().unwrap_or_default();
            return Err(known.check_server(server).await.err().unwrap_or_else(|| {
                Failure::failed(format!("there is no tool `{}`; see `mgp tools ls`", pin.tool))
            }));
        };
        notes.extend(known.check_tool(server, tool)?);
        if !pin.accept.new_agent {
            notes.extend(known.check_agent(&pin.agent)?);
        }
    }
    admit_edit(global, &pin.config).await?;
    let own = ConfigFile::open(pin.config.file_to_edit()?)?;
    let changed = own.pin(&pin.agent, &pin.tool, pinned)?;
    let status = match pinned {
        Pinned::Yes => "pinned",
        Pinned::No if !changed => {
            return Err(Failure::failed(format!("`{}` is not pinned for {}", pin.tool, pin.agent)));
        }
        Pinned::No => "unpinned",
    };
    if changed {
        control::reload(global).await;
    }
    ActionReport::new(&*pin.tool, status).with_notes(notes).print(global)
}
