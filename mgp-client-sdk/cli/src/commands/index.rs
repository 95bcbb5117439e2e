//! The command `mgp index`: exports the contents of the tool index (MGP §16).

use clap::Subcommand;
use mgp_toolindex::ToolIndex;

use crate::args::Global;
use crate::exit::{CliResult, Failure};
use crate::output::print_json_line;
use crate::state;

/// `mgp index`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Index {
    /// Print every tool of the index as a line of JSON
    #[command(after_help = "Example:\n  mgp index export > tools.jsonl")]
    Export {
        /// Include the embedding vectors
        #[arg(long)]
        vectors: bool,
    },
}

pub(crate) async fn run(global: &Global, index: &Index) -> CliResult {
    let Index::Export { vectors } = index;
    let index = ToolIndex::builder().open(state::db(global).await?).await?;
    let entries = index.entries();
    if entries.is_empty() {
        return Err(Failure::failed(
            "the index is empty; start a kernel, wait until its servers have listed their tools, then try again",
        ));
    }
    for mut entry in entries {
        if !vectors {
            entry.embedding = None;
        }
        print_json_line(&entry)?;
    }
    Ok(())
}
