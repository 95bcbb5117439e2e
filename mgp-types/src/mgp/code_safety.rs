//! Rules for tools that take code (MGP §7).
//!
//! Applies to: both.

use crate::record::{List, open_enum, record};

open_enum! {
    /// How strict the rules are (§7.2).
    pub enum CodeSafetyLevel {
        /// No rules.
        Unrestricted = "unrestricted",
        /// Blocked imports and patterns.
        Standard = "standard",
        /// Allowed imports only, blocked patterns, a size limit.
        Strict = "strict",
        /// As strict, and no writes.
        Readonly = "readonly",
    }

    /// The words of a rejection.
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
        /// How strict.
        req level: CodeSafetyLevel,
        /// The language.
        opt language: Option<String>,
        /// The longest code.
        opt max_code_size_bytes: Option<u64>,
        /// Imports that are blocked.
        list blocked_imports: List<String>,
        /// Patterns that are blocked.
        list blocked_patterns: List<String>,
        /// Imports that are allowed.
        list allowed_imports: List<String>,
    }

    /// What would have been accepted.
    pub struct CodeHints {
        /// Imports that are blocked.
        list blocked_imports: List<String>,
        /// Imports that are allowed.
        list allowed_imports: List<String>,
        /// The longest code.
        opt max_code_size_bytes: Option<u64>,
    }

    /// Why code was rejected (§7.4); later revisions use it for every refusal.
    pub struct CodeRejection {
        /// `rejected`.
        req status: RejectionStatus,
        /// In one sentence.
        req reason: String,
        /// Each rule that was broken.
        list violations: List<String>,
        /// What would have been accepted.
        opt hints: Option<CodeHints>,
        /// A word for programs (later revisions).
        opt code: Option<String>,
        /// Whether trying again makes sense (later revisions).
        opt retryable: Option<bool>,
        /// What to do about it (later revisions).
        opt remediation_hint: Option<String>,
    }
}
