//! The validators of §4.5, which implement [`Validate`] with the rules of `mgp-validators`.

use mgp_types::mgp::{CodeSafety, CodeSafetyLevel, Validator};
use mgp_types::{Lenient, UniqueJson, mcp};
use mgp_validators::{CodePolicy, GuardedCall, ValidatorSet};
use serde_json::Value;

use super::risk_signals::{PlaceKind, target_of};
use super::validators::{CheckedCall, KernelUrls, Validate, Violation};
use super::words::words;

/// The validators `sandbox`, `readonly`, `network_restricted` and `code_safety` (MGP §4.5, §7).
///
/// ```
/// use mgp_security::{Governance, StandardValidators};
///
/// let governance = Governance::builder().standard_validators(&StandardValidators::new()).build();
/// # drop(governance);
/// ```
#[derive(Clone, Debug, Default)]
pub struct StandardValidators {
    set: ValidatorSet,
}

impl StandardValidators {
    /// The names of the standard validators.
    pub const NAMES: [Validator; 4] = [
        Validator::Sandbox,
        Validator::Readonly,
        Validator::NetworkRestricted,
        Validator::CodeSafety,
    ];

    /// Creates the validators.
    ///
    /// Hosts are judged by their names and addresses. Names are not resolved, because the server would resolve them
    /// again, and might get a different result.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Validate for StandardValidators {
    fn check(&self, checked: &CheckedCall<'_>) -> Result<(), Violation> {
        let unreadable = |_| Violation::new("its arguments cannot be read");
        let call = checked.call.tool().ok_or_else(|| Violation::new("it names no tool"))?;
        let UniqueJson(mut arguments) =
            serde_json::from_str(call.arguments.unwrap_or("{}")).map_err(unreadable)?;
        if let Some(KernelUrls(own)) = checked.call.cx().extensions.get() {
            let values = arguments.as_object_mut().into_iter().flat_map(|all| all.values_mut());
            for value in values.filter(|value| value.as_str().is_some_and(|url| is_one(own, url))) {
                value.take();
            }
        }
        // Convert the definition only for `readonly`, because that takes longer than most checks.
        let definition = match (checked.validator, checked.definition) {
            (Validator::Readonly, Some(tool)) => serde_json::to_value(tool).map_err(unreadable)?,
            _ => Value::Null,
        };
        let mut subject = GuardedCall::new(call.name, &arguments)
            .definition(&definition)
            .trust(checked.trust.clone())
            .local_hosts(checked.local_hosts);
        if *checked.validator == Validator::NetworkRestricted {
            let (urls, hosts) = places(checked.definition);
            subject = subject.targets(urls, hosts);
            if checked.limits_paths {
                subject = subject.allow_file_urls();
            }
        }
        if *checked.validator == Validator::CodeSafety {
            subject = subject.code(code_policy(call.name, checked.definition, &arguments));
        }
        // Other validators need the definition only for calls that would be blocked without it.
        let by_definition = |rejection| match checked.definition.map(serde_json::to_value) {
            Some(Ok(definition)) if uses_definition(checked.validator) => {
                self.set.check(checked.validator, &subject.clone().definition(&definition))
            }
            _ => Err(rejection),
        };
        self.set.check(checked.validator, &subject).or_else(by_definition).map_err(|rejection| {
            let reason = rejection.to_string();
            if rejection.is_of_local_host() {
                Violation::of_local_host(reason)
            } else if rejection.violations().is_empty() {
                Violation::new(reason)
            } else {
                Violation::of_code(reason, rejection.body())
            }
        })
    }
}

/// Returns whether a validator may accept a call because of the tool's definition, although the call's arguments alone
/// would be refused.
fn uses_definition(validator: &Validator) -> bool {
    matches!(validator, Validator::Sandbox | Validator::NetworkRestricted)
}

fn is_one(urls: &[String], url: &str) -> bool {
    urls.iter().any(|own| own == url)
}

/// Returns the names of the arguments that a definition declares as URLs, and the names of the arguments that it
/// declares as hosts.
fn places(definition: Option<&mcp::Tool>) -> (Vec<String>, Vec<String>) {
    let schema = definition.map(|tool| tool.input_schema.as_payload().as_str()).unwrap_or_default();
    // Search the text first: most schemas declare no URLs and hosts, and the search takes less time than parsing.
    let declares =
        ["\"format\"", "http", "url", "URL", "ostname"].iter().any(|mark| schema.contains(mark));
    let (mut urls, mut hosts) = (Vec::new(), Vec::new());
    let Some(schema) = declares.then(|| serde_json::from_str::<Value>(schema).ok()).flatten()
    else {
        return (urls, hosts);
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        match target_of(property) {
            Some(PlaceKind::Url) if property.get("format").is_some() => urls.push(name.clone()),
            Some(PlaceKind::Host) => hosts.push(name.clone()),
            _ => {}
        }
    }
    (urls, hosts)
}

/// The imports that are blocked in code of a tool without `security.code_safety`, and in scripts that agents register.
pub(super) const BLOCKED_IMPORTS: [&str; 8] = [
    "subprocess",
    "shutil",
    "socket",
    "ctypes",
    "child_process",
    "cluster",
    "vm",
    "worker_threads",
];

/// The patterns that are blocked in the same code and scripts as [`BLOCKED_IMPORTS`].
pub(super) const BLOCKED_PATTERNS: [&str; 4] = ["eval(", "exec(", "__import__(", "os.system"];

/// Returns the rules for code in the arguments of a tool: the rules that its server declares or, without a declaration,
/// [`default_rules`].
///
/// A declaration of `unrestricted` is ignored except for its language, because a server must not remove a check. Only
/// an operator can, by setting another validator.
fn code_policy(name: &str, definition: Option<&mcp::Tool>, arguments: &Value) -> CodePolicy {
    let security = definition.and_then(mcp::Tool::find_security);
    let declared = security.as_ref().and_then(Lenient::valid);
    let declared = declared.and_then(|security| security.code_safety.clone());
    let declared_language = declared.as_ref().and_then(|rules| rules.language.clone());
    let rules = declared.filter(|rules| rules.level != CodeSafetyLevel::Unrestricted);
    let policy = CodePolicy::new(&rules.unwrap_or_else(default_rules));
    let file = || language_of_file(definition, arguments);
    let found = || language(name).or_else(file).or_else(|| described_language(definition));
    match declared_language.or_else(|| found().map(str::to_owned)) {
        Some(language) => policy.language(&language),
        None => policy,
    }
}

/// Returns the rules for code whose server declares no rules: the level `standard`, [`BLOCKED_IMPORTS`] and
/// [`BLOCKED_PATTERNS`].
fn default_rules() -> CodeSafety {
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let mut rules = CodeSafety::new(CodeSafetyLevel::Standard);
    rules.blocked_imports = texts(&BLOCKED_IMPORTS).into();
    rules.blocked_patterns = texts(&BLOCKED_PATTERNS).into();
    rules
}

/// Returns the programming language that occurs in the name of a tool.
fn language(name: &str) -> Option<&'static str> {
    words(name).iter().find_map(|word| match word.as_str() {
        "python" | "py" | "ipython" | "jupyter" => Some("python"),
        "javascript" | "js" | "node" => Some("javascript"),
        "typescript" | "ts" => Some("typescript"),
        "bash" | "sh" | "shell" => Some("shell"),
        _ => None,
    })
}

/// Returns the language of the file for which the code is meant, if an argument contains the file's name.
///
/// Uses only arguments that the definition declares, and only values that are file names. Otherwise an agent could
/// choose, with any other text, the language for which its code is checked.
fn language_of_file(definition: Option<&mcp::Tool>, arguments: &Value) -> Option<&'static str> {
    let schema: Value = definition?.input_schema.get().ok()?;
    let declared = schema.get("properties")?.as_object()?;
    let names_file = |name: &String| {
        let is_file = |word: &String| matches!(word.as_str(), "file" | "filename" | "path");
        declared.contains_key(name) && words(name).iter().any(is_file)
    };
    let files = arguments.as_object()?.iter().filter(|(name, _)| names_file(name));
    files.filter_map(|(_, value)| value.as_str()).find_map(|file| match file.rsplit_once('.')?.1 {
        "py" => Some("python"),
        "js" | "mjs" | "cjs" => Some("javascript"),
        "ts" => Some("typescript"),
        "sh" => Some("shell"),
        _ => None,
    })
}

/// Languages that a description may name and whose code cannot be checked.
const OTHER_LANGUAGES: [&str; 28] = [
    "applescript",
    "bash",
    "clojure",
    "csharp",
    "dart",
    "elixir",
    "erlang",
    "golang",
    "groovy",
    "haskell",
    "java",
    "julia",
    "kotlin",
    "lua",
    "matlab",
    "nix",
    "octave",
    "perl",
    "php",
    "powershell",
    "r",
    "ruby",
    "rust",
    "scala",
    "sh",
    "shell",
    "swift",
    "zsh",
];

/// Returns the programming language that the descriptions of a tool and of its arguments name, if they name only one
/// and no argument chooses it.
fn described_language(definition: Option<&mcp::Tool>) -> Option<&'static str> {
    let tool = definition?;
    let schema: Value = tool.input_schema.get().ok()?;
    let properties = schema.get("properties").and_then(Value::as_object);
    let chooses = |name: &String| {
        words(name).iter().any(|word| {
            matches!(word.as_str(), "lang" | "language" | "runtime" | "interpreter" | "syntax")
        })
    };
    if properties.is_some_and(|properties| properties.keys().any(chooses)) {
        return None;
    }
    let described = properties
        .into_iter()
        .flatten()
        .filter_map(|(_, property)| property.get("description").and_then(Value::as_str));
    let texts = tool.description.as_deref().into_iter().chain(described);
    let text = texts.collect::<Vec<_>>().join(" ").to_ascii_lowercase();
    let mut named =
        text.split(|c: char| !c.is_ascii_alphanumeric()).filter_map(|word| match word {
            "python" | "python2" | "python3" | "ipython" => Some("python"),
            "javascript" | "js" | "nodejs" | "deno" | "bun" => Some("javascript"),
            "typescript" | "ts" => Some("typescript"),
            other => OTHER_LANGUAGES.contains(&other).then_some(other),
        });
    let first = named.next()?;
    // Return the language only if no other language is named: code of another language must not be judged as Python
    // because the description also mentions Python.
    let is_only = named.all(|other| other == first);
    ["python", "javascript", "typescript"].into_iter().find(|known| is_only && *known == first)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mgp_types::ErrorCode;
    use mgp_types::service::{Reply, ServerId, Stack, mock};
    use serde_json::json;
    use tower_layer::Layer;

    use super::*;
    use crate::{Assessment, ValidateLayer};

    #[tokio::test]
    async fn arguments_with_two_equal_members_are_blocked() {
        let known = |_: Option<&ServerId>, _: &str| {
            let mut assessment = Assessment::unknown();
            assessment.validators = vec![Validator::Sandbox];
            Arc::new(assessment)
        };
        let layer =
            ValidateLayer::new(known).validator(Validator::Sandbox, StandardValidators::new());
        let tools = Stack::from_fn(|_| async { Ok(Reply::empty()) });
        let mut client = mock::client(Stack::new(layer.layer(tools)));
        for (arguments, is_allowed) in [
            (r#"{"command":"ls"}"#, true),
            (r#"{"command":"rm -rf ~","command":"ls"}"#, false),
            (r#"{"\u0063ommand":"rm -rf ~","command":"ls"}"#, false),
            (r#"{"options":{"command":"rm -rf ~","command":"ls"}}"#, false),
        ] {
            let call = format!(r#"{{"name":"run","arguments":{arguments}}}"#);
            match client.request("tools/call", &call).await {
                Ok(_) => assert!(is_allowed, "{arguments}"),
                Err(error) => {
                    assert!(!is_allowed, "{arguments}: {error}");
                    assert_eq!(error.code(), ErrorCode::VALIDATION_BLOCKED);
                }
            }
        }
    }

    #[test]
    fn the_format_of_an_argument_makes_it_a_target_whatever_its_name() {
        let schema = r#"{"name":"t","inputSchema":{"properties":{"source":{"format":"uri"},"body":{"format":"ipv4"},"x":{"description":"URL of a page"},"y":{}}}}"#;
        let tool: mcp::Tool = serde_json::from_str(schema).unwrap();
        assert_eq!(places(Some(&tool)), (vec!["source".to_owned()], vec!["body".to_owned()]));
        let (urls, hosts) = places(Some(&tool));
        for (arguments, allowed) in [
            (json!({"source": "http://10.0.0.1/"}), false),
            (json!({"body": "127.0.0.1"}), false),
            (json!({"source": "https://example.com/", "body": "8.8.8.8"}), true),
        ] {
            let call = GuardedCall::new("t", &arguments).targets(urls.clone(), hosts.clone());
            let checked = ValidatorSet::new().check(&Validator::NetworkRestricted, &call);
            assert_eq!(checked.is_ok(), allowed, "{arguments}");
        }
    }

    #[test]
    fn a_declared_file_name_decides_the_language_and_no_other_text_does() {
        let schema =
            r#"{"name":"save","inputSchema":{"properties":{"code":{},"file_name":{},"note":{}}}}"#;
        let tool: mcp::Tool = serde_json::from_str(schema).unwrap();
        let of = |arguments: Value| language_of_file(Some(&tool), &arguments);
        assert_eq!(of(json!({"code": "x=5", "file_name": "a/q.py"})), Some("python"));
        assert_eq!(of(json!({"code": "x=5", "file_name": "q.rb"})), None);
        assert_eq!(of(json!({"code": "x=5", "note": "q.py"})), None);
        assert_eq!(of(json!({"code": "x=5", "file": "q.py"})), None, "it is not declared");
        assert_eq!(language_of_file(None, &json!({"file_name": "q.py"})), None);
    }

    #[test]
    fn descriptions_that_name_one_language_decide_it() {
        let of_schema = |description: &str, properties: Value| {
            let schema = json!({ "properties": properties });
            let tool = json!({"name": "t", "description": description, "inputSchema": schema});
            let tool: mcp::Tool = serde_json::from_value(tool).unwrap();
            described_language(Some(&tool))
        };
        let of = |description: &str, code: &str| {
            of_schema(description, json!({"code": {"description": code}}))
        };
        assert_eq!(of("Runs a snippet", "A JavaScript function"), Some("javascript"));
        assert_eq!(of("Runs Python code", "The Python code"), Some("python"));
        assert_eq!(of("Runs Python or JavaScript", "The code"), None);
        assert_eq!(of("Runs Ruby; for Python, use `run_python`", "The code"), None);
        assert_eq!(of("Runs a script in Node.js, not in Python", "The code"), None);
        assert_eq!(of("Runs Perl", "The code"), None);
        assert_eq!(of("Runs code", "The code"), None);
        assert_eq!(of_schema("Runs e.g. Python", json!({"code": {}, "language": {}})), None);
    }
}
