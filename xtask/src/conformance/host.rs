//! Builds and starts the programs that the conformance suite tests: our server on a free port, and our client.

use super::suite::Tried;
use crate::{
    run::{Outcome, debug_programs, target},
    serving::Served,
};
use std::{path::PathBuf, process::Command};

/// A running process of our conformance server.
#[derive(Debug)]
pub(super) struct Host(Served);

impl Host {
    /// Builds and starts the server.
    pub(super) fn start() -> Outcome<Self> {
        let program = fixture()?;
        let command = |port: u16| {
            let mut command = Command::new(program);
            command.args(["--port", &port.to_string()]);
            Ok(command)
        };
        let log = target()?.join("conformance/server.log");
        Ok(Self(Served::start(command, &log)?))
    }

    pub(super) fn tried(&self) -> Tried {
        Tried::Server(format!("http://127.0.0.1:{}/mcp", self.0.port()))
    }
}

/// Builds our conformance server, and returns the path of the program.
pub(super) fn fixture() -> Outcome<PathBuf> {
    example("conformance_server")
}

pub(super) fn client() -> Outcome<Tried> {
    Ok(Tried::Client(example("conformance_client")?))
}

fn example(name: &str) -> Outcome<PathBuf> {
    Ok(debug_programs(&[name])?.join("examples").join(name))
}
