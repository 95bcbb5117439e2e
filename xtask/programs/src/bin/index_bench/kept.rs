//! The commands `keep` and `open`: one process stores an index in a database file, another opens it.

use mgp_toolindex::{AllTools, Query, ToolIndex};
use mgp_types::store::Db;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::catalogue::Catalogue;
use super::measure::{build, milliseconds};
use super::{Failure, Options};

/// Builds an index in the database `--db`, and closes the database (command `keep`).
pub(crate) async fn keep(options: &Options) -> Result<Value, Failure> {
    let (tools, seed) = (options.number("tools", 15_000)?, options.seed()?);
    let catalogue = Catalogue::new(options.templates(), seed)?;
    let db = Db::open(options.file("db")?).await?;
    let index = ToolIndex::builder().open(db.clone()).await?;
    let built = build(&index, &catalogue, tools, seed)?;
    index.flush().await?;
    drop(index);
    db.close().await;
    Ok(json!({"tools": tools, "build_ms": milliseconds(built.took)}))
}

/// Opens the index in the database `--db` and searches it; returns the times (command `open`).
pub(crate) async fn open(options: &Options) -> Result<Value, Failure> {
    let begin = Instant::now();
    let db = Db::open(options.file("db")?).await?;
    let index = ToolIndex::builder().open(db.clone()).await?;
    let opened = begin.elapsed();
    let found = index.search(&Query::new("search the web for news"), &AllTools)?;
    let answered = begin.elapsed();
    let figures = json!({
        "tools": index.stats().tools, "hits": found.hits.len(),
        "open_ms": milliseconds(opened), "first_answer_ms": milliseconds(answered),
    });
    drop(index);
    db.close().await;
    Ok(figures)
}
