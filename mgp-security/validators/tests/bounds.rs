//! Deep, long and broken input: no panic, no stack overflow, no long wait, and never allowed by accident.

#![expect(
    clippy::disallowed_methods,
    clippy::format_collect,
    reason = "measures real time without a runtime, and builds texts once"
)]

use mgp_types::mgp::{CodeSafety, CodeSafetyLevel, Validator};
use mgp_validators::{CaseKind, Cases, CodePolicy, GuardedCall, ValidatorSet};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The bound of a judgement in an unoptimised build; the bound of a release is 50 ms.
const MAX_DURATION: Duration = Duration::from_secs(2);

const LANGUAGES: [&str; 4] = ["python", "javascript", "typescript", "bash"];

fn code(language: &str, code: &str) -> bool {
    let mut rules = CodeSafety::new(CodeSafetyLevel::Readonly);
    rules.language = Some(language.to_owned());
    if language == "bash" {
        rules.level = CodeSafetyLevel::Standard;
    }
    let start = Instant::now();
    let allowed = CodePolicy::new(&rules).check(code).is_ok();
    let took = start.elapsed();
    assert!(took < MAX_DURATION, "{language}: {took:?} for {code:.40}");
    allowed
}

fn all(arguments: &Value) {
    let set = ValidatorSet::new();
    for validator in [
        Validator::Sandbox,
        Validator::Readonly,
        Validator::NetworkRestricted,
        Validator::CodeSafety,
    ] {
        let start = Instant::now();
        let _ = set.check(&validator, &GuardedCall::new("get_x", arguments));
        assert!(start.elapsed() < MAX_DURATION, "{validator}");
    }
}

#[test]
fn nesting_ten_thousand_deep_ends_in_a_rejection() {
    for language in LANGUAGES {
        for (open, inner, close) in [
            ("(", "1", ")"),
            ("[", "1", "]"),
            ("{", "", "}"),
            ("$(", "id", ")"),
            ("f(", "1", ")"),
            ("not ", "x", ""),
            ("!", "x", ""),
            ("-", "1", ""),
            ("lambda: ", "1", ""),
            ("x => ", "1", ""),
            ("`${", "1", "}`"),
            ("f'{", "1", "}'"),
            ("a if b else ", "c", ""),
            ("a ? b : ", "c", ""),
            ("\"$(", "x", ")\""),
        ] {
            let text = format!("{}{inner}{}", open.repeat(10_000), close.repeat(10_000));
            // For a shell, words without an end are the arguments of a command.
            let allowed = code(language, &text);
            assert!(!allowed || language == "bash" && close.is_empty(), "{language}: {open}");
        }
        code(language, &"if x:\n ".repeat(10_000));
        for chain in ["x.a", "x[0]", "x()", "1+1", "x=x", "a,a", "a;a", "x?.a"] {
            let (start, part) = chain.split_at(1);
            code(language, &format!("{start}{}", part.repeat(10_000)));
        }
    }
    let mut deep = json!("ls");
    for _ in 0..100 {
        deep = json!({ "x": deep });
    }
    all(&json!({ "a": deep }));
    let (mut wide, mut list) = (json!({}), Vec::new());
    for at in 0..30_000 {
        wide[format!("k{at}")] = json!("x");
        list.push(json!("ls"));
    }
    all(&wide);
    all(&json!({ "argv": list }));
}

#[test]
fn garbage_of_64_kib_is_rejected_soon() {
    let mut random = 7u32;
    let garbage: String = std::iter::repeat_with(|| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(36 + u8::try_from((random >> 16) % 90).unwrap_or_default())
    })
    .take(64 * 1024)
    .collect();
    for language in LANGUAGES {
        assert!(!code(language, &garbage), "{language}");
    }
    for text in [
        &garbage,
        &"a ".repeat(32_000),
        &"'".repeat(65_536),
        &"\\".repeat(65_536),
        &"-".repeat(65_536),
        &"x=1 ".repeat(16_000),
        &"env ".repeat(16_000),
        &"/../".repeat(16_000),
    ] {
        all(&json!({ "command": text, "url": text, "sql": text, "query": text, "code": text }));
    }
}

#[test]
fn long_names_and_chains_of_aliases_stay_quick() {
    let aliases: String = (0..2_000).map(|at| format!("a{} = a{at}\n", at + 1)).collect();
    code("python", &format!("import os\na0 = os\n{aliases}"));
    let doubled: String = (0..60).map(|at| format!("s{} = s{at} + s{at}\n", at + 1)).collect();
    code("python", &format!("s0 = 'xxxxxxxxxxxxxxxx'\n{doubled}"));
    let choices: String = (0..200).map(|at| format!("x = 'a{at}' + x\n")).collect();
    code("python", &format!("x = ''\n{choices}"));
    code("javascript", &format!("let x = ''\n{}", choices.replace('\'', "`")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_text_causes_a_panic(text in "\\PC{0,200}", tool in "\\PC{0,20}", spliced in 0usize..4) {
        let pieces = ["$(", "f'{", "`${", "/*"];
        let text = format!("{text}{}{text}", pieces[spliced]);
        let arguments = json!({ "command": text, "url": text, "sql": text, "args": [text, text], "code": text, "mode": text });
        for language in LANGUAGES {
            code(language, &text);
        }
        all(&arguments);
        let _ = ValidatorSet::new().check(&Validator::Readonly, &GuardedCall::new(&tool, &arguments));
        for (_, kind) in CaseKind::ALL {
            let _ = Cases::new(kind).judge(&text);
        }
    }

    #[test]
    fn an_operator_outside_of_quotes_is_never_allowed(before in "[a-z ]{1,20}", operator in "[;&|<>`()\n]", after in "[a-z ]{0,20}") {
        let arguments = json!({ "command": format!("ls {before}{operator}{after}") });
        prop_assert!(ValidatorSet::new().check(&Validator::Sandbox, &GuardedCall::new("run", &arguments)).is_err());
    }
}
