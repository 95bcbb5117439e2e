//! Opens the tool index, with the additions that `[kernel.search]` configures: a history of use, and a sentence
//! encoder.

use std::path::Path;
use std::sync::Arc;

use mgp_discovery::{LearnFrom, SearchConfig, StoredQueries, path_in};
use mgp_toolindex::{
    Embedder, History, HistoryConfig, HistoryScope, IndexError, Retention, ToolIndex,
};
use mgp_types::store::{Db, StoreError};

use super::error::KernelError;

/// Opens the index in the database of a state folder. If the configured encoder is not used, also returns the reason.
///
/// If the tables of the index are damaged, keeps the index only in memory: the servers then list their tools again. If
/// the tables of the history are damaged, the kernel does not learn from calls. Damaged tables are not changed, so that
/// they can be restored.
pub(super) async fn open(
    search: &SearchConfig,
    folder: &Path,
    db: Db,
) -> Result<(ToolIndex, Option<String>), KernelError> {
    let mut failure = None;
    let mut builder = ToolIndex::builder();
    if search.learning {
        match History::open(db.clone(), history(search)).await {
            Ok(history) => builder = builder.history(history),
            Err(error) if is_damage(&error) => {
                tracing::warn!(%error, "stored searches cannot be read; nothing is learned from calls until they are restored");
            }
            Err(error) => return Err(error.into()),
        }
    }
    if let Some(encoder) = &search.encoder {
        let (encoder, library) = (
            path_in(folder, encoder),
            search.encoder_library.as_ref().map(|library| path_in(folder, library)),
        );
        // Open the encoder on the blocking pool, because this reads and compares all files of the model.
        let opened =
            tokio::task::spawn_blocking(move || open_encoder(&encoder, library.as_deref()));
        let opened = opened.await.unwrap_or_else(|error| Err(error.to_string()));
        match opened {
            Ok(encoder) => builder = builder.embedder(encoder),
            Err(why) => {
                failure = Some(format!("`kernel.search.encoder` is not used: {why}"));
            }
        }
    }
    let index = match builder.clone().open(db).await {
        Err(IndexError::Store(error)) if is_damage(&error) => {
            tracing::warn!(%error, "the stored tool index cannot be read; it is kept as it is, and tools are indexed in memory");
            builder.build()
        }
        opened => opened?,
    };
    Ok((index, failure))
}

/// Returns whether an error would occur again when the tables are opened again. For example, a lock of another process
/// is not such an error.
fn is_damage(error: &StoreError) -> bool {
    matches!(error, StoreError::Unreadable(_) | StoreError::Failed(_))
}

fn history(search: &SearchConfig) -> HistoryConfig {
    let scope = match search.learn_from {
        LearnFrom::User => HistoryScope::Subject,
        LearnFrom::Tenant => HistoryScope::Tenant,
        _ => HistoryScope::Agent,
    };
    let retention = match search.stored_queries {
        StoredQueries::Vector => Retention::Vector,
        StoredQueries::Words => Retention::Words,
        _ => Retention::Text,
    };
    HistoryConfig::new().scope(scope).retention(retention)
}

#[cfg(feature = "fastembed")]
fn open_encoder(folder: &Path, library: Option<&Path>) -> Result<Arc<dyn Embedder>, String> {
    let mut config = mgp_toolindex::SentencesConfig::default();
    if let Some(library) = library {
        config = config.library(library);
    }
    match mgp_toolindex::Sentences::open_with(folder, &config) {
        Ok(encoder) => Ok(Arc::new(encoder)),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(not(feature = "fastembed"))]
fn open_encoder(_: &Path, _: Option<&Path>) -> Result<Arc<dyn Embedder>, String> {
    Err("this `mgp` was built without the feature `fastembed`; build it with `--features fastembed`, or remove the key".to_owned())
}

#[cfg(test)]
mod tests {
    use mgp_toolindex::ServerEntry;

    use super::*;

    #[tokio::test]
    async fn damaged_tables_are_left_as_they_are_and_do_not_prevent_a_start() {
        let db = Db::in_memory().await.unwrap();
        let mut search = SearchConfig::default();
        search.learning = true;
        let opened = async || open(&search, Path::new("."), db.clone()).await.unwrap().0;
        let index = opened().await;
        index.put(ServerEntry::new("old")).unwrap();
        index.flush().await.unwrap();
        drop(index);
        let sql = "DROP TABLE toolindex_words; DROP TABLE toolindex_history_call";
        db.write(move |tx| Ok(tx.execute_batch(sql)?)).await.unwrap();

        let index = opened().await;
        index.put(ServerEntry::new("new")).unwrap();
        index.flush().await.unwrap();
        let sql = "SELECT group_concat(id) FROM toolindex_server";
        let read = db.read(move |conn| Ok(conn.query_row(sql, [], |row| row.get::<_, String>(0))?));
        assert_eq!(read.await.unwrap(), "old");
    }
}
