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
    let builder = ToolIndex::builder();
    let builder = if *vectors { builder } else { builder.without_embedder() };
    // Open the index read-only, because a kernel may have stored vectors of another embedder in it.
    let entries = builder.open_read_only(state::db(global).await?).await?.entries();
    if entries.is_empty() {
        return Err(Failure::failed(
            "the index is empty; start a kernel, wait until its servers have listed their tools, then try again",
        ));
    }
    if *vectors && entries.iter().all(|entry| entry.embedding.is_none()) {
        return Err(Failure::failed(
            "the index has no vectors of the built-in table, and those of `kernel.search.encoder` cannot be exported; leave out --vectors",
        ));
    }
    entries.iter().try_for_each(print_json_line)
}
