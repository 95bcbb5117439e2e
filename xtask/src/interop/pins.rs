//! The peers and their versions; only peers of this table are run.

/// The registry of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Registry {
    PyPi,
    Npm,
    CratesIo,
}

/// A package of one version, and the folder it is installed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pin {
    pub(super) registry: Registry,
    pub(super) package: &'static str,
    pub(super) version: &'static str,
    /// Packages of one folder are installed together.
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
/// The lock file is the one of `xtask/peers`.
pub(super) const RMCP: Pin =
    Pin { registry: Registry::CratesIo, package: "rmcp", version: "3.8.0", folder: "bench" };

/// All installed packages.
pub(super) const ALL: &[Pin] = &[
    PYTHON_2,
    PYTHON_1,
    SERVER_TIME,
    SERVER_GIT,
    TYPESCRIPT_2,
    TYPESCRIPT_1,
    SERVER_EVERYTHING,
    SERVER_FILESYSTEM,
    SERVER_MEMORY,
    INSPECTOR,
    RMCP,
];

impl Pin {
    /// Returns package, version and registry, for the table.
    pub(super) fn shown(self) -> String {
        let registry = match self.registry {
            Registry::PyPi => "PyPI",
            Registry::Npm => "npm",
            Registry::CratesIo => "crates.io",
        };
        format!("{} {} ({registry})", self.package, self.version)
    }

    /// Returns the oldest Node that runs the package.
    pub(super) fn least_node(self) -> u32 {
        if self == INSPECTOR { 22 } else { 18 }
    }

    /// Returns the argument for `pip` or `npm`.
    pub(super) fn wanted(self) -> String {
        let equals = if self.registry == Registry::PyPi { "==" } else { "@" };
        format!("{}{equals}{}", self.package, self.version)
    }
}
