//! Safety rules for tools that take code as an argument (MGP §7).

use crate::record::{List, open_enum, record};

open_enum! {
    /// The strictness of the rules (§7.2).
    pub enum CodeSafetyLevel {
        /// Code is not checked.
        Unrestricted = "unrestricted",
        /// Blocks the listed imports and patterns.
        Standard = "standard",
        /// Allows only the listed imports; also blocks patterns and limits the size.
        Strict = "strict",
        /// Like `strict`, and also blocks writes.
        Readonly = "readonly",
    }

    /// The status of a rejection.
    pub enum RejectionStatus {
        /// The code was rejected (§7.4).
        Rejected = "rejected",
        /// The call was denied (later revisions of MGP).
        Denied = "denied",
    }
}

record! {
    /// The rules a tool declares (§7.3).
    pub struct CodeSafety {
        /// The strictness of the rules.
        req level: CodeSafetyLevel,
        /// The programming language of the code.
        opt language: Option<String>,
        /// The maximum size of the code, in bytes.
        opt max_code_size_bytes read whole: Option<u64>,
        /// Imports that are blocked.
        list blocked_imports: List<String>,
        /// Patterns that are blocked.
        list blocked_patterns: List<String>,
        /// Imports that are allowed.
        list allowed_imports: List<String>,
    }

    /// The rules that code must follow to be accepted.
    pub struct CodeHints {
        /// Imports that are blocked.
        list blocked_imports: List<String>,
        /// Imports that are allowed.
        list allowed_imports: List<String>,
        /// The maximum size of the code, in bytes.
        opt max_code_size_bytes read whole: Option<u64>,
    }

    /// The reason for a rejection (§7.4); later revisions use this object for every refusal.
    pub struct CodeRejection {
        /// The kind of refusal.
        req status: RejectionStatus,
        /// The reason in one sentence.
        req reason: String,
        /// The violated rules.
        list violations: List<String>,
        /// The rules that code must follow to be accepted.
        opt hints: Option<CodeHints>,
        /// A machine-readable code (later revisions of MGP).
        opt code: Option<String>,
        /// `true` if a retry might succeed (later revisions of MGP).
        opt retryable: Option<bool>,
        /// A hint on how the caller can avoid the refusal (later revisions of MGP).
        opt remediation_hint: Option<String>,
    }
}
