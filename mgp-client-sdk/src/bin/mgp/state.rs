//! Where the state of the kernel is.
//!
//! Applies to: both.

use std::path::PathBuf;

use crate::cli::Global;
use crate::exit::{Ended, Failure};

/// The folder of the state: as said, else in the user's folder for state.
pub(crate) fn folder(global: &Global) -> Ended<PathBuf> {
    if let Some(folder) = &global.state {
        return Ok(folder.clone());
    }
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(folder) = set("XDG_STATE_HOME") {
        return Ok(PathBuf::from(folder).join("mgp"));
    }
    let home = std::env::home_dir();
    let home =
        home.ok_or_else(|| Failure::usage("no home folder is known; name one with --state DIR"))?;
    Ok(home.join(".local/state/mgp"))
}
