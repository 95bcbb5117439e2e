//! The library that runs models: loaded from a file, once for the whole process (MGP §16.4).
//!
//! Applies to: both.

use super::{
    error::{Cause, ModelError},
    library::whole,
};
use ort::{environment::Environment, logging::LogLevel};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};
use tokenizers::parallelism;

/// What was loaded. Libraries are never unloaded, and there is one environment for each process.
static LOADED: Mutex<Option<Loaded>> = Mutex::new(None);

#[derive(Debug)]
struct Loaded {
    library: PathBuf,
    environment: Environment,
}

/// The runtime, loaded from this library unless one is loaded already.
///
/// Asking for the environment is what turns a library that is missing or too old into an error: everything else that
/// `ort` offers loads it on its own, and panics.
pub(super) fn runtime(library: &Path) -> Result<Environment, ModelError> {
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(Loaded { library: first, environment }) = &*loaded {
        if first != library {
            tracing::debug!(
                library = %library.display(),
                first = %first.display(),
                "onnxruntime is loaded already, from elsewhere"
            );
        }
        return Ok(environment.clone());
    }
    let unusable = |reason: Cause| ModelError::Library { library: library.to_owned(), reason };
    whole(library).map_err(|reason| unusable(reason.into()))?;
    let environment = ort::init_from(library)
        .map_err(|reason| unusable(reason.into()))?
        .with_name("mgp")
        .with_telemetry(false)
        .with_logger(Arc::new(log))
        .build()
        .map_err(|reason| ModelError::Runtime { reason: reason.into() })?;
    // Anything below is one message for each node of a model.
    environment.set_log_level(LogLevel::Warning);
    // One text at a time gains nothing from a pool, but would wait for one of its threads to be scheduled.
    if !parallelism::is_parallelism_configured() {
        parallelism::set_parallelism(false);
    }
    *loaded = Some(Loaded { library: library.to_owned(), environment: environment.clone() });
    Ok(environment)
}

/// What the runtime says goes where everything else goes; on its own it writes to standard error.
fn log(level: LogLevel, category: &str, _: &str, place: &str, message: &str) {
    match level {
        LogLevel::Error | LogLevel::Fatal => {
            tracing::warn!(target: "onnxruntime", category, place, "{message}");
        }
        _ => tracing::debug!(target: "onnxruntime", category, place, "{message}"),
    }
}
