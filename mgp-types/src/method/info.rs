//! What is known about a method before a message of it is seen (MGP §1.5).

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::mcp::{Era, Revision};
use crate::mgp::Extension;

/// The section of what MCP has.
const MCP: &str = "MCP";

/// The section of what only this kernel has.
const KERNEL: &str = "kernel";

/// A request, as a type.
pub trait Request: 'static {
    /// The method on the wire.
    const METHOD: &'static str;
    /// Its parameters.
    type Params: Serialize + DeserializeOwned + Send + 'static;
    /// Its complete result.
    type Result: Serialize + DeserializeOwned + Send + 'static;
}

/// A notification, as a type.
pub trait Notification: 'static {
    /// The method on the wire.
    const METHOD: &'static str;
    /// Its parameters.
    type Params: Serialize + DeserializeOwned + Send + 'static;
}

/// Whether an answer is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// It is.
    Request,
    /// It is not.
    Notification,
}

/// Who sends a message to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Client to server.
    ToServer,
    /// Server to client.
    ToClient,
    /// Either.
    Both,
}

/// A row of the table.
#[derive(Debug)]
#[non_exhaustive]
pub struct MethodInfo {
    /// The method on the wire.
    pub name: &'static str,
    /// The marker type.
    pub marker: &'static str,
    /// Request or notification.
    pub kind: Kind,
    /// Who sends it.
    pub direction: Direction,
    /// `MCP`, the section of MGP without the sign, or `kernel` for what only this kernel has.
    pub section: &'static str,
    /// The extension of MGP it belongs to; none for MCP, and for what only this kernel has.
    pub extension: Option<Extension>,
    /// The first revision of MCP that has it, or that it can travel with.
    pub first: Revision,
    /// The last one.
    pub last: Revision,
    /// Whether it is one of the 19 methods and 6 notifications of the first specification.
    pub seed: bool,
    /// The type of its parameters.
    pub params: &'static str,
    /// The type of its result.
    pub result: Option<&'static str>,
}

impl MethodInfo {
    /// Whether a revision has the method.
    #[must_use]
    pub fn is_in(&self, revision: &Revision) -> bool {
        self.first <= *revision && *revision <= self.last
    }

    /// Whether an era has the method.
    #[must_use]
    pub fn is_in_era(&self, era: Era) -> bool {
        match era {
            Era::Legacy => self.first <= Revision::LATEST_LEGACY,
            Era::Modern => self.last >= Revision::MODERN,
        }
    }

    /// Whether the method is MGP's, or one that a kernel has beyond it.
    #[must_use]
    pub fn is_mgp(&self) -> bool {
        self.section != MCP
    }

    /// Whether the method is in no specification: only this kernel has it.
    #[must_use]
    pub fn is_kernels(&self) -> bool {
        self.section == KERNEL
    }

    /// The name of its golden file, without ending: `s11_3_health_ping`, `mcp_tools_call`, `mgp_kernel_info`.
    #[must_use]
    pub fn golden(&self) -> String {
        let mut name = match self.section {
            MCP => "mcp".to_owned(),
            KERNEL => "mgp".to_owned(),
            section => format!("s{}", section.replace('.', "_")),
        };
        for letter in self.marker.chars() {
            if letter.is_ascii_uppercase() {
                name.push('_');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }
}
