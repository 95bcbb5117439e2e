//! The acceptance checks `core.wire` and `mcp.http-wire`: malformed input must neither stop a server nor get a wrong
//! answer.

use super::{Options, Verdict, shared};
use crate::{
    corpus::{self, Summary},
    run::{Context, Outcome},
};

/// The path of the labelled corpus in the shared material.
const CORPUS: &str = "corpora/rpc_invalid.public.jsonl";
/// The minimum share of corpus rows to which the server reacts as their labels require.
const MIN_RATIO: f64 = 0.98;

/// Sends the labelled rows for stdio to the echo server.
pub(super) fn core_wire(options: &Options) -> Outcome<Verdict> {
    match shared(CORPUS) {
        Some(file) => Ok(judged(corpus::stdio(&file, &[])?)),
        None => options.skip("the corpus", "it does not lie beside the repository"),
    }
}

/// Sends the labelled rows for HTTP to the conformance server.
pub(super) fn http_wire() -> Outcome<Verdict> {
    let file = shared(CORPUS).context("the corpus")?;
    Ok(judged(corpus::http(&file, &[])?))
}

fn judged(rows: Summary) -> Verdict {
    Verdict {
        pass: rows.rows > 0 && rows.alive == rows.rows && rows.ratio() >= MIN_RATIO,
        figure: format!("{} of {} rows as labelled, {} alive", rows.ok, rows.rows, rows.alive),
        bound: format!(">= {MIN_RATIO} of the rows, all alive"),
    }
}
