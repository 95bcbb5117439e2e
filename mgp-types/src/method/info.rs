//! Static information about methods (MGP §1.5).

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::mcp::{Era, Revision};
use crate::mgp::Extension;

const MCP: &str = "MCP";

const KERNEL: &str = "kernel";

/// A type that represents a request method, e.g. `ToolsCall` for `tools/call`.
pub trait Request: 'static {
    /// The name of the method on the wire.
    const METHOD: &'static str;
    /// The type of the parameters of the method.
    type Params: Serialize + DeserializeOwned + Send + 'static;
    /// The type of a complete result of the method.
    type Result: Serialize + DeserializeOwned + Send + 'static;
}

/// A type that represents a notification method, e.g. `Progress` for `notifications/progress`.
pub trait Notification: 'static {
    /// The name of the method on the wire.
    const METHOD: &'static str;
    /// The type of the parameters of the method.
    type Params: Serialize + DeserializeOwned + Send + 'static;
}

/// The kind of a message, and of the method whose name it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A message that expects an answer.
    Request,
    /// A message that is never answered.
    Notification,
}

/// The direction in which messages of a method are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From client to server.
    ToServer,
    /// From server to client.
    ToClient,
    /// Both from client to server and from server to client.
    Both,
}

/// The static information about a method, as listed in the table of [`methods`](super::methods()).
#[derive(Debug)]
#[non_exhaustive]
pub struct MethodInfo {
    /// The name of the method on the wire.
    pub name: &'static str,
    /// The name of the Rust type that represents the method.
    pub marker: &'static str,
    /// The kind of the message: request or notification.
    pub kind: Kind,
    /// The direction in which the message is sent.
    pub direction: Direction,
    /// The document that defines the method: `MCP`, a section of MGP (e.g. `11.3`), or a proposal (e.g. `proposal 4`).
    /// It is `kernel` for a method that only this kernel has.
    pub section: &'static str,
    /// The MGP extension that contains the method; `None` for MCP, and for methods that only this kernel has.
    pub extension: Option<Extension>,
    /// The first MCP revision that defines the method or, for a method of MGP, can carry it.
    pub first: Revision,
    /// The last MCP revision that defines the method or, for a method of MGP, can carry it.
    pub last: Revision,
    /// `true` for the 19 methods and 6 notifications of the first MGP specification.
    pub seed: bool,
    /// The name of the Rust type of the parameters.
    pub params: &'static str,
    /// The name of the Rust type of the result; `None` for a notification.
    pub result: Option<&'static str>,
}

impl MethodInfo {
    /// Returns whether an MCP revision defines the method or, for a method of MGP, can carry it.
    #[must_use]
    pub fn is_in(&self, revision: &Revision) -> bool {
        self.first <= *revision && *revision <= self.last
    }

    /// Returns whether any revision of an era defines the method or, for a method of MGP, can carry it.
    #[must_use]
    pub fn is_in_era(&self, era: Era) -> bool {
        match era {
            Era::Legacy => self.first <= Revision::LATEST_LEGACY,
            Era::Modern => self.last >= Revision::MODERN,
        }
    }

    /// Returns whether the method belongs to MGP or to this kernel.
    #[must_use]
    pub fn is_mgp(&self) -> bool {
        self.section != MCP
    }

    /// Returns whether only the kernel of this workspace has the method.
    #[must_use]
    pub fn is_kernel_only(&self) -> bool {
        self.section == KERNEL
    }

    /// Returns the name, without extension, of the golden file with example messages of the method, e.g.
    /// `s11_3_health_ping` or `mcp_tools_call`.
    #[must_use]
    pub fn golden(&self) -> String {
        let mut name = match self.section {
            MCP => "mcp".to_owned(),
            KERNEL => "mgp".to_owned(),
            section => format!("s{}", section.replace(['.', ' '], "_")),
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
