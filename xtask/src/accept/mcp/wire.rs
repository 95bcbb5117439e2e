//! `mcp.http-wire`: broken requests are refused as they should be, and the server lives on.

use super::super::{Verdict, shared};
use crate::{
    corpus,
    run::{Context, Outcome},
};

/// The share of rows that must go as labelled.
const RATIO: f64 = 0.98;

/// Sends the HTTP rows of the corpus to the conformance server.
pub(in crate::accept) fn http_wire() -> Outcome<Verdict> {
    let file = shared("corpora/rpc_invalid.public.jsonl").context("the corpus")?;
    let rows = corpus::http(&file, &[])?;
    Ok(Verdict {
        pass: rows.rows > 0 && rows.alive == rows.rows && rows.ratio() >= RATIO,
        figure: format!("{} of {} rows as labelled, {} alive", rows.ok, rows.rows, rows.alive),
        bound: format!(">= {RATIO} of the rows, all alive"),
    })
}
