//! Where configurations are.
//!
//! Applies to: both.

use std::path::PathBuf;

use clap::Args;
use mgp_discovery::Sources;

use crate::exit::{Ended, Failure};

/// Which configuration is meant.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Configured {
    /// The configuration file; without it `$MGP_CONFIG_PATH`, else the project's file and your own
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

impl Configured {
    /// The files that count.
    pub(crate) fn sources(&self) -> Sources {
        self.config.clone().map_or_else(Sources::of_process, Sources::given)
    }

    /// The one file that counts, where one was named, here or in the environment.
    pub(crate) fn named(&self) -> Option<PathBuf> {
        let in_environment = || std::env::var_os("MGP_CONFIG_PATH").filter(|file| !file.is_empty());
        self.config.clone().or_else(|| in_environment().map(PathBuf::from))
    }

    /// The file that commands write: the one that was named, else the user's own.
    pub(crate) fn own_file(&self) -> Ended<PathBuf> {
        let sources = self.sources();
        // The user's own comes last, and a file that was named is the only one.
        let file = sources.files().last().map(PathBuf::from);
        file.filter(|file| !file.ends_with("mgp.toml") || self.named().is_some()).ok_or_else(|| {
            Failure::usage("no home folder is known; name a file with --config FILE")
        })
    }
}

/// The user's home.
pub(crate) fn home() -> Ended<PathBuf> {
    std::env::home_dir().ok_or_else(|| Failure::failed("no home folder is known; set HOME"))
}
