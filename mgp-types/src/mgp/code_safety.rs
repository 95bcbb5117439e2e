//! Rules for tools that take code (MGP §7).

use crate::record::{List, open_enum, record};

open_enum! {
    /// The strictness of the rules (§7.2).
    pub enum CodeSafetyLevel {
        /// Code is not checked.
        Unrestricted = "unrestricted",
        /// Blocked imports and patterns.
        Standard = "standard",
        /// Allowed imports only, blocked patterns, a size limit.
        Strict = "strict",
        /// `strict`, and no writes.
        Readonly = "readonly",
    }

    /// The status of a rejection.
    pub enum RejectionStatus {
        /// Rejected.
        Rejected = "rejected",
        /// Denied (later revisions).
        Denied = "denied",
    }
}

record! {
    /// The rules a tool declares (§7.3).
    pub struct CodeSafety {
        /// The strictness.
        req level: CodeSafetyLevel,
        /// The language.
        opt language: Option<String>,
        /// The maximum size of the code.
        opt max_code_size_bytes: Option<u64>,
        /// Imports that are blocked.
        list blocked_imports: List<String>,
        /// Patterns that are blocked.
        list blocked_patterns: List<String>,
        /// Imports that are allowed.
        list allowed_imports: List<String>,
    }

    /// The rules that accepted code must follow.
    pub struct CodeHints {
        /// Imports that are blocked.
        list blocked_imports: List<String>,
        /// Imports that are allowed.
        list allowed_imports: List<String>,
        /// The maximum size of the code.
        opt max_code_size_bytes: Option<u64>,
    }

    /// The reason of a rejection (§7.4); later revisions use it for every refusal.
    pub struct CodeRejection {
        /// `rejected`.
        req status: RejectionStatus,
        /// The reason in one sentence.
        req reason: String,
        /// The violated rules.
        list violations: List<String>,
        /// The rules that accepted code must follow.
        opt hints: Option<CodeHints>,
        /// A machine-readable code (later revisions).
        opt code: Option<String>,
        /// `true` if a retry may succeed (later revisions).
        opt retryable: Option<bool>,
        /// The remedy (later revisions).
        opt remediation_hint: Option<String>,
    }
}
