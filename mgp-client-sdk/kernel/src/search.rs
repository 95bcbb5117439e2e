//! Opens the tool index with what `[kernel.search]` adds to it: a history of use and a sentence encoder.

use std::path::Path;
use std::sync::Arc;

use mgp_discovery::{LearnFrom, SearchConfig, StoredQueries, path_in};
use mgp_toolindex::{Embedder, History, HistoryConfig, HistoryScope, Retention, ToolIndex};
use mgp_types::store::Db;

use super::error::KernelError;

/// Opens the index in the database of a state folder; also returns the reason if the configured encoder is not used.
pub(super) async fn open(
    search: &SearchConfig,
    folder: &Path,
    db: Db,
) -> Result<(ToolIndex, Option<String>), KernelError> {
    let mut failure = None;
    let mut builder = ToolIndex::builder();
    if search.learning {
        builder = builder.history(History::open(db.clone(), history(search)).await?);
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
    Ok((builder.open(db).await?, failure))
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
