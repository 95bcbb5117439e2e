//! The packages of others that `interop` runs, with their pinned versions.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Registry {
    PyPi,
    Npm,
    CratesIo,
}

/// A package with a pinned version, and the folder in which it is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pin {
    pub(super) registry: Registry,
    pub(super) package: &'static str,
    pub(super) version: &'static str,
    /// The folder below `target/interop`; packages with the same folder are installed together.
    pub(super) folder: &'static str,
}

const fn pypi(folder: &'static str, package: &'static str, version: &'static str) -> Pin {
    Pin { registry: Registry::PyPi, package, version, folder }
}

const fn npm(package: &'static str, version: &'static str) -> Pin {
    Pin { registry: Registry::Npm, package, version, folder: "node" }
}

pub(super) const PYTHON_2: Pin = pypi("python-2", "mcp", "2.3.0");
pub(super) const PYTHON_1: Pin = pypi("python-1", "mcp", "1.30.0");
pub(super) const SERVER_TIME: Pin = pypi("python-2", "mcp-server-time", "2026.10.19");
pub(super) const SERVER_GIT: Pin = pypi("python-2", "mcp-server-git", "2026.10.19");
pub(super) const TYPESCRIPT_2: Pin = npm("@modelcontextprotocol/client", "2.4.0");
pub(super) const TYPESCRIPT_1: Pin = npm("@modelcontextprotocol/sdk", "1.32.2");
pub(super) const SERVER_EVERYTHING: Pin =
    npm("@modelcontextprotocol/server-everything", "2026.8.31");
pub(super) const SERVER_FILESYSTEM: Pin =
    npm("@modelcontextprotocol/server-filesystem", "2026.8.31");
pub(super) const SERVER_MEMORY: Pin = npm("@modelcontextprotocol/server-memory", "2026.8.31");
pub(super) const INSPECTOR: Pin = Pin {
    registry: Registry::Npm,
    package: "@modelcontextprotocol/inspector",
    version: "2.12.0",
    folder: "inspector",
};
/// The SDK of the rmcp echo server in `xtask/peers`. The lock file of that workspace must contain this version.
pub(super) const RMCP: Pin =
    Pin { registry: Registry::CratesIo, package: "rmcp", version: "3.8.0", folder: "bench" };

/// All packages that the conversations (cells) use.
#[rustfmt::skip]
pub(super) const ALL: &[Pin] = &[
    PYTHON_2, PYTHON_1, SERVER_TIME, SERVER_GIT, TYPESCRIPT_2, TYPESCRIPT_1, SERVER_EVERYTHING,
    SERVER_FILESYSTEM, SERVER_MEMORY, INSPECTOR, RMCP,
];

impl Pin {
    /// Returns the package, its version and its registry, as shown in the table.
    pub(super) fn shown(self) -> String {
        let registry = match self.registry {
            Registry::PyPi => "PyPI",
            Registry::Npm => "npm",
            Registry::CratesIo => "crates.io",
        };
        format!("{} {} ({registry})", self.package, self.version)
    }

    /// Returns the minimum major version of Node for the package.
    pub(super) fn least_node(self) -> u32 {
        if self == INSPECTOR { 22 } else { 18 }
    }

    /// Returns the package with its version, as an argument for `pip` or `npm`.
    pub(super) fn wanted(self) -> String {
        let equals = if self.registry == Registry::PyPi { "==" } else { "@" };
        format!("{}{equals}{}", self.package, self.version)
    }
}
