//! Error codes: an open set with named standard codes (MGP §14.2, §14.3).
//!
//! A new code also needs:
//!
//! - its range in [`ErrorCode::category`], and its hints in `Recovery::default_for`;
//! - a row, a section and a wire test in `docs/errors.md`, which `tests/kernel/errors/` of mgp-kernel checks;
//! - its name in `proposal/structured_error.rs`, if peers that know structured errors have another name for it;
//! - its HTTP status: `status` in `http/server/tool_paths.rs` of mgp-transport;
//! - a place in [`ErrorCode::is_refusal`], if the call that it answers did not run;
//! - a place in `is_unreachable` in `retry/circuit.rs` of mgp-lifecycle, if it means that a server cannot be reached;
//! - a place in the test `the_seed_has_nineteen_codes` below, if it is not a code of the first specification.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use crate::record::open_enum;

open_enum! {
    /// The category of an error (§14.5).
    pub enum Category {
        /// Missing permission, access or authentication, or a validator that blocked the call.
        Security = "security",
        /// The state of the server does not permit the request.
        Lifecycle = "lifecycle",
        /// A limit or quota is exhausted.
        Resource = "resource",
        /// The request itself is invalid.
        Validation = "validation",
        /// A service behind the server failed.
        External = "external" | "upstream",
    }
}

/// The code of an error; custom codes are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct ErrorCode(pub i32);

macro_rules! codes {
    ($( $(#[doc = $doc:literal])* $name:ident = $code:literal; )+) => {
        impl ErrorCode {
            $( $(#[doc = $doc])* pub const $name: Self = Self($code); )+

            /// All codes that have a name: those of JSON-RPC, MCP and MGP §14.3, and those that
            /// later revisions of MGP added.
            pub const KNOWN: &'static [Self] = &[$(Self::$name),+];

            /// Returns the name of the code, if it has one.
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $( Self::$name => Some(stringify!($name)), )+
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// The text is not JSON (JSON-RPC).
    PARSE_ERROR = -32700;
    /// The text is JSON, but not a message (JSON-RPC).
    INVALID_REQUEST = -32600;
    /// Unknown method (JSON-RPC).
    METHOD_NOT_FOUND = -32601;
    /// The parameters do not match the method (JSON-RPC).
    INVALID_PARAMS = -32602;
    /// An internal error of the receiver (JSON-RPC).
    INTERNAL_ERROR = -32603;
    /// The resource does not exist (MCP up to 2025-11-25; later `INVALID_PARAMS`).
    MCP_RESOURCE_NOT_FOUND = -32002;
    /// The HTTP headers differ from the body that they repeat (MCP 2026-07-28).
    HEADER_MISMATCH = -32020;
    /// The request needs a capability the client did not declare (MCP 2026-07-28).
    MISSING_CLIENT_CAPABILITY = -32021;
    /// The server does not support this revision (MCP 2026-07-28).
    UNSUPPORTED_VERSION = -32022;
    /// The user must visit a URL before the request can succeed (MCP 2025-11-25).
    URL_ELICITATION_REQUIRED = -32042;
    /// The caller lacks a permission (§14.3).
    PERMISSION_DENIED = 1000;
    /// The agent has no access to this tool (§14.3).
    ACCESS_DENIED = 1001;
    /// The caller must authenticate (§14.3).
    AUTH_REQUIRED = 1002;
    /// The credentials have expired (§14.3).
    AUTH_EXPIRED = 1003;
    /// A validator of the kernel blocked the request (§14.3).
    VALIDATION_BLOCKED = 1010;
    /// The code safety framework rejected the code (§14.3).
    CODE_SAFETY_VIOLATION = 1011;
    /// The server is not in state `connected` (§14.3).
    SERVER_NOT_READY = 2000;
    /// The server is shutting down and accepts no new requests (§14.3).
    SERVER_DRAINING = 2001;
    /// The server is restarting (§14.3).
    SERVER_RESTARTING = 2002;
    /// Too many requests (§14.3).
    RATE_LIMITED = 3000;
    /// A limit of the server is reached (§14.3).
    RESOURCE_EXHAUSTED = 3001;
    /// A usage quota is exhausted (§14.3).
    QUOTA_EXCEEDED = 3002;
    /// The operation took too long (§14.3).
    TIMEOUT = 3003;
    /// The arguments fail the tool's schema (§14.3).
    INVALID_TOOL_ARGS = 4000;
    /// The tool does not exist (§14.3).
    TOOL_NOT_FOUND = 4001;
    /// The tool exists but is disabled (§14.3).
    TOOL_DISABLED = 4002;
    /// The tool name is reserved, or several servers have a tool with this name (added after the first specification).
    TOOL_NAME_CONFLICT = 4003;
    /// The server, subscription or entry does not exist (added after the first specification).
    RESOURCE_NOT_FOUND = 4004;
    /// Registration of servers is not available here (added after the first specification).
    DISCOVERY_UNAVAILABLE = 4100;
    /// A server with this id exists already (added after the first specification).
    SERVER_ALREADY_REGISTERED = 4101;
    /// The server comes from the configuration, so it cannot be deregistered (added after the first specification).
    CANNOT_DEREGISTER_CONFIG = 4102;
    /// An external service responded with an error (§14.3).
    UPSTREAM_ERROR = 5000;
    /// An external service took too long (§14.3).
    UPSTREAM_TIMEOUT = 5001;
    /// An external service cannot be reached (§14.3).
    UPSTREAM_UNAVAILABLE = 5002;
}

impl ErrorCode {
    /// Returns the category of an MGP code, from its range (§14.2); `None` for codes of JSON-RPC and MCP.
    ///
    /// Codes 4100 to 4199, which later revisions use for discovery, have the category `validation`.
    #[must_use]
    pub fn category(self) -> Option<Category> {
        match self.0 {
            1000..=1099 => Some(Category::Security),
            2000..=2099 => Some(Category::Lifecycle),
            3000..=3099 => Some(Category::Resource),
            4000..=4199 => Some(Category::Validation),
            5000..=5099 => Some(Category::External),
            _ => None,
        }
    }

    /// Returns whether the protocol defines the code only for calls that did not run: they were refused, or there was
    /// no capacity, server or tool for them.
    ///
    /// Returns `false` for a code without a definition, whatever its range, because a peer may use such a code after
    /// the call had effects. Also returns `false` for 3003 (timeout), 4004 (not found), 5000 to 5002 (failures of
    /// external services) and the codes of JSON-RPC. They can occur after a call has started, e.g. if the params of an
    /// inner call are wrong, or a file does not exist. 4100 to 4102 never answer tool calls, so they are not included
    /// either.
    #[must_use]
    pub fn is_refusal(self) -> bool {
        matches!(self.0, 1000..=1003 | 1010 | 1011 | 2000..=2002 | 3000..=3002 | 4000..=4003)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for ErrorCode {
    /// Clamps a code that does not fit into 32 bits, because the message is more important than the number.
    #[expect(clippy::cast_possible_truncation, reason = "the cast of a float saturates")]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let code = serde_json::Number::deserialize(deserializer)?;
        // A float represents each code of 32 bits exactly, so the conversion loses nothing.
        Ok(Self(code.as_f64().unwrap_or_default() as i32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_has_nineteen_codes() {
        let later = |code: i32| matches!(code, 4003 | 4004 | 4100..=4102);
        let is_seed = |code: &&ErrorCode| matches!(code.0, 1000..=5099) && !later(code.0);
        assert_eq!(ErrorCode::KNOWN.iter().filter(is_seed).count(), 19);
        assert_eq!(ErrorCode(1000).name(), Some("PERMISSION_DENIED"));
        assert_eq!(ErrorCode(1099).category(), Some(Category::Security));
        assert_eq!(ErrorCode(1100).category(), None);
    }

    #[test]
    fn only_defined_codes_are_refusals() {
        let is_defined = |code: &i32| ErrorCode::KNOWN.contains(&ErrorCode(*code));
        let refusals: Vec<i32> = (0..10_000).filter(|code| ErrorCode(*code).is_refusal()).collect();
        assert!(refusals.iter().all(is_defined), "{refusals:?}");
        assert_eq!(refusals.len(), 16);
    }

    #[test]
    fn codes_outside_32_bits_are_cut() {
        for (text, code) in [
            ("99999999999", i32::MAX),
            ("-99999999999", i32::MIN),
            ("1e40", i32::MAX),
            ("-32700", -32700),
            ("3000.0", 3000),
        ] {
            assert_eq!(serde_json::from_str::<ErrorCode>(text).unwrap().0, code, "{text}");
        }
    }
}
