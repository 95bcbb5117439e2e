//! The rules for code that apply to a call (MGP §7.2, §7.3).

use crate::rejection::Rejection;
use mgp_types::mgp::{CodeHints, CodeSafety, CodeSafetyLevel, Validator};
use serde_json::Value;

/// The rules by which code is checked: the effective level, maximum size and lists, for one language.
#[derive(Debug, Clone, PartialEq)]
pub struct CodePolicy {
    pub(super) level: CodeSafetyLevel,
    pub(super) language: Option<String>,
    pub(super) max_bytes: Option<u64>,
    pub(super) blocked_imports: Vec<String>,
    pub(super) blocked_patterns: Vec<String>,
    pub(super) allowed_imports: Vec<String>,
}

impl CodePolicy {
    /// Creates the rules that a declaration contains.
    #[must_use]
    pub fn new(declared: &CodeSafety) -> Self {
        Self {
            level: declared.level.clone(),
            language: declared.language.clone(),
            max_bytes: declared.max_code_size_bytes,
            blocked_imports: declared.blocked_imports.to_vec(),
            blocked_patterns: declared.blocked_patterns.to_vec(),
            allowed_imports: declared.allowed_imports.to_vec(),
        }
    }

    /// Sets the language of the code.
    #[must_use]
    pub fn language(mut self, language: &str) -> Self {
        self.language = Some(language.to_owned());
        self
    }

    /// Reads the rules in the `security` metadata of a tool's definition.
    ///
    /// # Errors
    /// [`Rejection`] if the definition has no such rules, or if they cannot be parsed.
    pub fn of_definition(definition: &Value) -> Result<Self, Rejection> {
        let reject = |reason: String| Rejection::new(Validator::CodeSafety, reason);
        let declared = definition.get("security").and_then(|security| security.get("code_safety"));
        let declared = declared
            .ok_or_else(|| reject("the tool declares no `security.code_safety`".to_owned()))?;
        let declared: CodeSafety = serde_json::from_value(declared.clone())
            .map_err(|error| reject(format!("`security.code_safety` cannot be read: {error}")))?;
        Ok(Self::new(&declared))
    }

    pub(super) fn hints(&self) -> CodeHints {
        let mut hints = CodeHints::default();
        hints.blocked_imports = self.blocked_imports.clone().into();
        hints.allowed_imports = self.allowed_imports.clone().into();
        hints.max_code_size_bytes = self.max_bytes;
        hints
    }

    /// Returns whether the policy accepts only imports from the list of allowed imports, i.e. whether the level is
    /// `strict` or stricter.
    pub(super) fn is_strict(&self) -> bool {
        rank(&self.level) >= 2
    }

    pub(super) fn is_readonly(&self) -> bool {
        rank(&self.level) >= 3
    }

    /// Returns whether the policy forbids the import of a module; `name` is the name imported from the module, if any.
    #[cfg(any(feature = "python", feature = "javascript"))]
    pub(super) fn blocks_import(&self, module: &str, name: Option<&str>) -> bool {
        let whole = name.map(|name| format!("{module}.{name}"));
        let under = |module: &str, listed: &str| {
            let rest = module.strip_prefix(listed);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '/']))
        };
        let listed = |list: &[String]| {
            list.iter().any(|listed| {
                under(module, listed) || whole.as_deref().is_some_and(|whole| under(whole, listed))
            })
        };
        listed(&self.blocked_imports) || self.is_strict() && !listed(&self.allowed_imports)
    }
}

/// Returns the rank of a level by strictness. An unknown level has the rank of the strictest level.
fn rank(level: &CodeSafetyLevel) -> u8 {
    match level {
        CodeSafetyLevel::Unrestricted => 0,
        CodeSafetyLevel::Standard => 1,
        CodeSafetyLevel::Strict => 2,
        _ => 3,
    }
}
