//! Our server on a free port, while it is tried.

use super::suite::Tried;
use crate::run::{Context, Failure, Outcome, Program, now, target};
use std::{
    fs::File,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

/// How long the server may take to listen.
const START: Duration = Duration::from_secs(20);

/// A running server; it ends with this.
#[derive(Debug)]
pub(super) struct Host {
    child: Child,
    port: u16,
}

impl Host {
    /// Builds and starts it.
    pub(super) fn start() -> Outcome<Self> {
        let program = example("mgp-server-sdk", "conformance_server")?;
        // Nobody else takes the port in this moment, and if so the server says it.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let log = target()?.join("conformance/server.log");
        let errors = File::create(&log).context(log.display())?;
        let child = Command::new(&program)
            .args(["--port", &port.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()
            .context(program.display())?;
        let mut host = Self { child, port };
        host.wait()?;
        Ok(host)
    }

    /// Where it is.
    pub(super) fn tried(&self) -> Tried {
        Tried::Server(format!("http://127.0.0.1:{}/mcp", self.port))
    }

    fn wait(&mut self) -> Outcome {
        let end = now() + START;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        loop {
            if let Some(status) = self.child.try_wait()? {
                let log = target()?.join("conformance/server.log");
                return Err(Failure::new(format!(
                    "our server ended: {status}; see {}",
                    log.display()
                )));
            }
            if TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok() {
                return Ok(());
            }
            if now() > end {
                return Err(Failure::new("our server does not listen"));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It is ended when it is gone already, too.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Our client.
pub(super) fn client() -> Outcome<Tried> {
    Ok(Tried::Client(example("mgp-client-sdk", "conformance_client")?))
}

fn example(package: &str, example: &str) -> Outcome<PathBuf> {
    Program::cargo(&["build", "--quiet", "-p", package, "--example", example]).run()?;
    Ok(target()?.join("debug/examples").join(example))
}
