//! The library that runs models; it is loaded from a file, once per process (MGP §16.4).

use super::{
    elf::check_length,
    error::{Cause, ModelError},
};
use mgp_types::sync::Mutex;
use ort::{environment::Environment, logging::LogLevel};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tokenizers::parallelism;

/// The loaded library and its environment. A process loads the library at most once, and never unloads it.
static LOADED: Mutex<Option<Loaded>> = Mutex::new(None);

#[derive(Debug)]
struct Loaded {
    library: PathBuf,
    environment: Environment,
}

/// Returns the onnxruntime environment; loads it from `library` unless a library is already loaded.
///
/// Calls `ort::init_from` to load the library: it returns an error if the library is missing or too old, whereas every
/// other function of `ort` would panic.
pub(super) fn runtime(library: &Path) -> Result<Environment, ModelError> {
    let mut loaded = LOADED.lock();
    if let Some(Loaded { library: first, environment }) = &*loaded {
        if first != library {
            tracing::debug!(
                library = %library.display(),
                first = %first.display(),
                "onnxruntime already loaded from another path"
            );
        }
        return Ok(environment.clone());
    }
    let unusable = |reason: Cause| ModelError::Library { library: library.to_owned(), reason };
    check_length(library).map_err(|reason| unusable(reason.into()))?;
    let environment = ort::init_from(library)
        .map_err(|reason| unusable(reason.into()))?
        .with_name("mgp")
        .with_telemetry(false)
        .with_logger(Arc::new(log))
        .build()
        .map_err(|reason| ModelError::Runtime { reason: reason.into() })?;
    // Log warnings only: at a more detailed level, the runtime logs a message for every node of a model.
    environment.set_log_level(LogLevel::Warning);
    // Give the tokenizer no thread pool. A pool would not speed up a single text, but the text would have to wait for
    // one of its threads.
    if !parallelism::is_parallelism_configured() {
        parallelism::set_parallelism(false);
    }
    *loaded = Some(Loaded { library: library.to_owned(), environment: environment.clone() });
    Ok(environment)
}

/// Forwards the log messages of onnxruntime to `tracing`; otherwise they would go to standard error.
fn log(level: LogLevel, category: &str, _: &str, place: &str, message: &str) {
    match level {
        LogLevel::Error | LogLevel::Fatal => {
            tracing::warn!(target: "onnxruntime", category, place, "{message}");
        }
        _ => tracing::debug!(target: "onnxruntime", category, place, "{message}"),
    }
}
