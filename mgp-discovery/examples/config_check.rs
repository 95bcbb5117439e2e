//! Reads a configuration and prints its servers and findings.
//!
//! If the command line names no file, the program reads the files that `mgp` reads. It starts no server and runs no
//! `${cmd:…}`.

#![expect(clippy::print_stdout, reason = "a program that prints its findings")]

use std::process::ExitCode;
use std::sync::Arc;

use mgp_discovery::{Sources, TargetConfig, Trust, clear_secrets};
use mgp_types::store::MemoryStore;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let sources = std::env::args_os().nth(1).map_or_else(Sources::from_env, Sources::single);
    // Approvals are stored in the kernel's state, which this program does not read; so no project's file is
    // approved here.
    let trust = Trust::new(Arc::new(MemoryStore::new()));
    let loaded = match sources.load(&trust).await {
        Ok(loaded) => loaded,
        Err(error) => {
            println!("{error}");
            return ExitCode::FAILURE;
        }
    };
    for finding in &loaded.findings {
        println!("{finding}");
    }
    if let Some(unapproved) = &loaded.unapproved {
        println!("{unapproved}");
    }
    if let Ok(Some(review)) = sources.review() {
        review.servers.iter().for_each(|server| println!("project: {server}"));
    }
    for server in &loaded.config.servers {
        let reach = match &server.target {
            TargetConfig::Program { command, args, .. } => {
                format!("{command}, {} arguments", args.len())
            }
            TargetConfig::Url { transport, .. } => format!("a URL, over {transport}"),
            _ => "in a way this program does not know".to_owned(),
        };
        let trust = server.mgp.as_ref().map_or("not offered MGP", |mgp| mgp.trust_level.as_str());
        println!("{}: {reach}, {trust}", server.id);
        for secret in clear_secrets(server) {
            println!("  {secret}");
        }
    }
    if loaded.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
