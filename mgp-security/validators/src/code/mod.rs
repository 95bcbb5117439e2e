//! The validator `code_safety`: checks code in arguments after parsing it by the grammar of its language (MGP §7).

#[cfg(feature = "javascript")]
mod javascript;
#[cfg(feature = "javascript")]
mod javascript_bounds;
#[cfg(feature = "javascript")]
mod javascript_constructors;
#[cfg(feature = "javascript")]
mod javascript_dialect;
#[cfg(feature = "javascript")]
mod javascript_dynamic;
#[cfg(feature = "javascript")]
mod javascript_globals;
#[cfg(feature = "javascript")]
mod javascript_names;
#[cfg(feature = "javascript")]
mod javascript_passed;
#[cfg(feature = "javascript")]
mod javascript_rules;
#[cfg(feature = "javascript")]
mod javascript_tree;
#[cfg(feature = "javascript")]
mod javascript_urls;
#[cfg(feature = "javascript")]
mod javascript_writes;
mod policy;
#[cfg(feature = "python")]
mod python;
#[cfg(feature = "python")]
mod python_harmless;
#[cfg(feature = "python")]
mod python_names;
#[cfg(feature = "python")]
mod python_passed;
#[cfg(feature = "python")]
mod python_rules;
#[cfg(feature = "python")]
mod python_tokens;
#[cfg(feature = "python")]
mod python_tree;
#[cfg(feature = "python")]
mod python_values;
#[cfg(feature = "python")]
mod python_writes;
#[cfg_attr(
    not(any(feature = "python", feature = "javascript")),
    expect(dead_code, reason = "no grammar is built in")
)]
mod value;

use crate::{
    argument_values::{key_words, leaves},
    network::NetworkRules,
    rejection::Rejection,
    shell,
    words::Words,
};
#[cfg(feature = "javascript")]
use javascript_dialect::Dialect;
#[cfg(feature = "javascript")]
use javascript_rules as js;
use mgp_types::mgp::{CodeSafetyLevel, Validator};
pub use policy::CodePolicy;
use serde_json::Value;
use std::borrow::Cow;
use value::Findings;

/// The maximum length of code in bytes; a tool cannot declare a larger maximum.
const MAX_CODE: usize = 256 * 1024;
/// Keys of arguments that contain code.
static CODE: Words = Words::new(
    "\
    code source sourcecode script program snippet body python javascript js typescript ts \
    pythoncode jscode expression expr function cell cells codes module implementation servercode \
    handler src bash shell",
);
const LANGUAGES: &[&str] = &["language", "lang", "runtime", "interpreter"];

/// Names of arguments that contain the language of the code and nothing else.
const CODE_LANGUAGES: &[&str] =
    &["languageid", "programminglanguage", "codelanguage", "scriptlanguage"];

fn names_language(name: &str) -> bool {
    LANGUAGES.contains(&name) || CODE_LANGUAGES.contains(&name)
}

/// Checks every argument that contains code. `network` has the rules for the targets of commands in scripts of a shell.
pub(crate) fn check_arguments(
    policy: &CodePolicy,
    arguments: &Value,
    network: NetworkRules<'_>,
) -> Result<(), Rejection> {
    let reject = |reason: String| Rejection::new(Validator::CodeSafety, reason);
    let leaves = leaves(arguments).map_err(reject)?;
    let key = |name: &str| key_words(name).concat();
    let mut languages: Vec<(String, &Value)> =
        leaves.iter().map(|leaf| (key(leaf.key()), leaf.value)).collect();
    languages.retain(|(name, value)| names_language(name) && !value.is_null());
    let named = languages.first().and_then(|(_, value)| value.as_str());
    // Without this check, an agent could add a second argument that names another language. The code would then be
    // checked in one language, and the server might run it in the other.
    let is_other = |value: &Value| value.as_str().map(name_of) != named.map(name_of);
    if languages
        .iter()
        .any(|(name, value)| CODE_LANGUAGES.contains(&name.as_str()) && is_other(value))
    {
        return Err(reject("the arguments name more than one language".to_owned()));
    }
    let policy = match (named, &policy.language) {
        (Some(language), Some(declared)) if name_of(language) != name_of(declared) => {
            return Err(reject(format!(
                "the code is `{language}`, and the rules are for `{declared}`"
            )));
        }
        (Some(language), None) => policy.clone().language(language),
        _ => policy.clone(),
    };
    let is_code = |name: &&str| CODE.has(&key(name));
    let mut code: Vec<&Value> = leaves
        .iter()
        .filter(|leaf| leaf.keys.iter().any(&is_code))
        .map(|leaf| leaf.value)
        .collect();
    if code.is_empty() {
        code = leaves
            .iter()
            .filter(|leaf| leaf.value.is_string() && !names_language(&key(leaf.key())))
            .map(|leaf| leaf.value)
            .collect();
        if code.len() != 1 {
            return Err(reject("no argument is known to be the code".to_owned()));
        }
    }
    code.into_iter().try_for_each(|value| match value {
        Value::String(code) => policy.check_with(code, network),
        Value::Null => Ok(()),
        _ => Err(reject("the code is not text".to_owned())),
    })
}

impl CodePolicy {
    /// Checks code against this policy.
    ///
    /// # Errors
    /// [`Rejection`], with the violated rules or with the reason why the code cannot be judged.
    pub fn check(&self, code: &str) -> Result<(), Rejection> {
        self.check_with(code, NetworkRules::new())
    }

    /// Checks code against this policy; `network` has the rules for the targets of commands in a script of a shell.
    pub(crate) fn check_with(
        &self,
        code: &str,
        network: NetworkRules<'_>,
    ) -> Result<(), Rejection> {
        if self.level == CodeSafetyLevel::Unrestricted {
            return Ok(());
        }
        let reject = |reason: String| Rejection::code(vec![reason], self.hints());
        let declared =
            self.max_bytes.filter(|_| self.is_strict()).and_then(|max| usize::try_from(max).ok());
        let max = declared.unwrap_or(MAX_CODE).min(MAX_CODE);
        if code.len() > max {
            return Err(reject(format!(
                "Code size: {} bytes, and at most {max} are allowed",
                code.len()
            )));
        }
        if let Some(c) = hidden_in(code) {
            return Err(reject(format!("Hidden character: U+{:04X}", u32::from(c))));
        }
        let code = with_plain_lines(code);
        let language = self.language.as_deref().unwrap_or_default();
        let mut found = Findings::default();
        match name_of(language).as_str() {
            #[cfg(feature = "python")]
            "python" => python::check(self, &code, &mut found).map_err(reject)?,
            #[cfg(feature = "javascript")]
            "javascript" => {
                js::check(self, &code, Dialect::JavaScript, &mut found).map_err(reject)?;
            }
            #[cfg(feature = "typescript")]
            "typescript" => {
                js::check(self, &code, Dialect::TypeScript, &mut found).map_err(reject)?;
            }
            #[cfg(feature = "typescript")]
            "tsx" => js::check(self, &code, Dialect::Tsx, &mut found).map_err(reject)?,
            // A shell script can always write, so the level `readonly` refuses it; other levels check it.
            "shell" if !self.is_readonly() => shell::script(&code, network).map_err(reject)?,
            _ => return Err(reject(unknown_language(language))),
        }
        let mut plain = None;
        for pattern in self
            .blocked_patterns
            .iter()
            .filter(|pattern| !value::is_path(pattern) && !pattern.trim().is_empty())
        {
            let plain = plain.get_or_insert_with(|| without_blanks(&code));
            if plain.contains(&without_blanks(pattern)) {
                found.pattern(pattern);
            }
        }
        let violations = found.into_vec();
        if violations.is_empty() { Ok(()) } else { Err(Rejection::code(violations, self.hints())) }
    }
}

/// Returns the first NUL or bidirectional character in code.
fn hidden_in(code: &str) -> Option<char> {
    let is_hidden =
        |c: &char| matches!(c, '\0' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    // Search for these two bytes first, which is faster: in UTF-8, each hidden character begins with one of them.
    let can_hide = code.bytes().any(|byte| matches!(byte, 0 | 0xe2));
    if can_hide { code.chars().find(is_hidden) } else { None }
}

/// Returns code without a byte order mark, and with `\n` as the only line end.
fn with_plain_lines(code: &str) -> Cow<'_, str> {
    let code = code.strip_prefix('\u{feff}').unwrap_or(code);
    // Code without these bytes has no other line ends: U+2028 and U+2029 begin with 0xE2 in UTF-8.
    if !code.bytes().any(|byte| matches!(byte, b'\r' | 0xc | 0xe2)) {
        return Cow::Borrowed(code);
    }
    let code = code.replace("\r\n", "\n").replace(['\r', '\u{c}', '\u{2028}', '\u{2029}'], "\n");
    Cow::Owned(code)
}

fn unknown_language(language: &str) -> String {
    match language {
        "" => "Unknown language: no argument such as `language` names it".to_owned(),
        _ => format!("Unknown language: '{language}'"),
    }
}

/// Returns the main name of a language that has several names.
fn name_of(language: &str) -> String {
    let lower = language.trim().to_ascii_lowercase();
    match lower.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.') {
        "py" | "python" | "cpython" | "pyodide" => "python".to_owned(),
        "js" | "javascript" | "node" | "nodejs" | "ecmascript" | "mjs" | "cjs" | "deno" | "bun" => {
            "javascript".to_owned()
        }
        "ts" | "typescript" => "typescript".to_owned(),
        "jsx" => "javascript".to_owned(),
        "sh" | "bash" | "shell" | "shellscript" | "zsh" => "shell".to_owned(),
        other => other.to_owned(),
    }
}

fn without_blanks(text: &str) -> String {
    text.split_whitespace().collect()
}
