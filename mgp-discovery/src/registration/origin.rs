//! The origin of a registration in a registry of published servers (a URL or file), in the form in which it is stored
//! and shown (MGP §15.4).

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The entry in a registry of published servers that a registration comes from, as it is shown for approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RegistryOrigin {
    /// The name of the server in the registry.
    pub name: String,
    /// The version of the server in the registry.
    pub version: String,
    /// The URL or file of the registry.
    pub registry: String,
    /// The title and the description of the server in the registry.
    pub about: String,
    /// The values that the server needs from the user, described for the operator.
    pub asks: Vec<String>,
    /// The names of the user's stored secrets that the server gets, by environment variable.
    pub secrets: BTreeMap<String, String>,
    /// The findings of the review of the entry's texts.
    pub findings: Vec<String>,
}

impl fmt::Display for RegistryOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, version) = (escaped(&self.name), escaped(&self.version));
        writeln!(f, "  is         {name} {version} of {}", escaped(&self.registry))?;
        if !self.about.is_empty() {
            writeln!(f, "  about      {}", escaped(&self.about))?;
        }
        for asked in &self.asks {
            writeln!(f, "  asks for   {}", escaped(asked))?;
        }
        for (variable, secret) in &self.secrets {
            writeln!(
                f,
                "  secret     {} is `{secret}`; run `mgp secrets set {secret}` before you approve",
                escaped(variable)
            )?;
        }
        for finding in &self.findings {
            writeln!(f, "  warning    {}", escaped(finding))?;
        }
        let found = if self.findings.is_empty() { "nothing found in its texts; " } else { "" };
        writeln!(
            f,
            "  review     {found}its tools are reviewed when it starts; its code is not judged"
        )
    }
}

/// Escapes control and bidirectional characters, so that the text stays on one line.
fn escaped(text: &str) -> impl fmt::Display {
    text.escape_debug()
}
