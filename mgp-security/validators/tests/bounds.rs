//! Tests with deep, long and broken input: no panic, no stack overflow, no long wait, and nothing allowed by accident.

#![expect(
    clippy::format_collect,
    clippy::print_stdout,
    reason = "builds texts once, and prints figures"
)]

mod processor_time;

use mgp_types::mgp::{CodeSafety, CodeSafetyLevel, Validator};
use mgp_validators::{CaseKind, Cases, CodePolicy, GuardedCall, ValidatorSet};
use processor_time::ProcessorTime;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::time::Duration;

/// The time limit for one judgement; it is longer for an unoptimised build.
const MAX_DURATION: Duration =
    if cfg!(debug_assertions) { Duration::from_secs(15) } else { Duration::from_millis(50) };

/// The number of random bytes with which each parser is tested, unless `MGP_FUZZ_BYTES` is set.
const FUZZED_BYTES: usize = 100_000;

const LANGUAGES: [&str; 4] = ["python", "javascript", "typescript", "bash"];

fn code(language: &str, code: &str) -> bool {
    let mut rules = CodeSafety::new(CodeSafetyLevel::Readonly);
    rules.language = Some(language.to_owned());
    if language == "bash" {
        rules.level = CodeSafetyLevel::Standard;
    }
    let start = ProcessorTime::now();
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
        let start = ProcessorTime::now();
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
            // For a shell, an opening bracket without a closing one is only a long list of arguments.
            let allowed = code(language, &text);
            assert!(!allowed || language == "bash" && close.is_empty(), "{language}: {open}");
        }
        // Test each kind of unclosed nesting with 64 KiB, the maximum length of a shell command.
        for open in
            ["(", "[", "{", "f(", "-", "!", "x=>", "if x:\n ", "[x for x in ", "{a:", "<a>", "`${"]
        {
            code(language, &open.repeat(64 * 1024 / open.len()));
        }
        code(language, &"if x:\n ".repeat(10_000));
        for chain in ["x.a", "x[0]", "x()", "1+1", "x=x", "a,a", "a;a", "x?.a"] {
            let (start, part) = chain.split_at(1);
            code(language, &format!("{start}{}", part.repeat(10_000)));
        }
    }
    // Test code of 256 KiB, the maximum length of code, for which the parser needs the most memory.
    code("javascript", &"{a:".repeat(256 * 1024 / 3));
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
fn long_keys_above_many_values_end_in_a_rejection() {
    let mut arguments = json!({ "command": "ls" });
    arguments["k".repeat(100_000)] = json!(vec![0; 15_000]);
    all(&arguments);
    let call = GuardedCall::new("get_x", &arguments);
    for validator in [Validator::Sandbox, Validator::Readonly, Validator::NetworkRestricted] {
        let rejection = ValidatorSet::new().check(&validator, &call).expect_err("long keys");
        assert!(rejection.reason().contains("the keys above"), "{rejection}");
    }
}

#[test]
fn long_sql_ends_in_a_rejection() {
    let arguments = json!({ "sql": format!("SELECT {}", "(".repeat(256 * 1024)) });
    all(&arguments);
    let call = GuardedCall::new("get_x", &arguments);
    let rejection = ValidatorSet::new().check(&Validator::Readonly, &call).expect_err("long SQL");
    assert!(rejection.reason().contains("the SQL is longer than"), "{rejection}");
}

#[test]
fn many_commands_beside_many_arguments_end_in_a_rejection() {
    let mut arguments = json!({ "args": vec!["x"; 9_000] });
    for at in 0..9_000 {
        arguments[format!("x{at}_command")] = json!("ls");
    }
    let call = GuardedCall::new("run", &arguments);
    let rejection = ValidatorSet::new().check(&Validator::Sandbox, &call).expect_err("too many");
    assert!(rejection.reason().contains("too many commands"), "{rejection}");
}

#[test]
fn what_a_parser_may_read_again_stays_quick() {
    const MAX_LENGTH: usize = if cfg!(debug_assertions) { 1024 } else { 64 * 1024 };
    let long = "a(b + c, 'd');".repeat(MAX_LENGTH / 16);
    for language in ["javascript", "typescript", "tsx"] {
        for (open, inner, close) in [
            ("(a=", "1", ")"),
            ("([a=", "1", "])"),
            ("({[", "1", "]:1})"),
            ("a=(", "1", ")=>1"),
            ("async(a=", "1", ")"),
            ("<T>(a=", "1", ")"),
            ("<T,>(a=", "1", ")=>1"),
            ("f<", "1", ">(x)"),
            ("f<{[", "1", "]:a}>x"),
            ("a<(b=", "1", ")"),
            ("(a=b<(", "1", "))"),
            ("a<b<", "c", ""),
            ("a<<b<", "c", ""),
            ("a?(b):c=>", "1", ""),
            ("a?(b=", "1", "):c"),
            ("(a?(b):c=>", "1", ")"),
            ("let a:A<(b:", "c", ")=>d>;"),
            ("A extends infer B extends (", "c", ")?d:e"),
            ("<a>", "", "</a>"),
            ("<a b={", "1", "}/>"),
            ("`${", "1", "}`"),
            ("if(a)x,y;else ", "z", ""),
            ("if(a){}else ", "z", ""),
            ("a:", "x", ""),
            ("do ", "x", " while(y)"),
            ("(function(){a:b:c:x,", "1", "})"),
            ("!-~+ ", "1", ""),
            ("typeof\n", "1", ""),
            ("let x: keyof\n", "y", ""),
            ("x=\n", "y", ""),
            ("x.y", "", ""),
            ("x**", "1", ""),
            ("class A extends ", "B", "{}"),
            ("`a${x}` /b/ '", "1", "'"),
            ("}/'/+(", "1", ")/'/"),
            ("let a\n/'/+(", "1", ")/'/"),
            ("<T>('", "1", "')"),
            ("f(x=>{", "1", "})"),
        ] {
            for depth in [5, 10, 20, 50, 95, 190, 320, 480, 950, 2_000] {
                let (open, close) = (open.repeat(depth), close.repeat(depth));
                let nested = format!("{open}{inner}{close};\n");
                code(language, &nested.repeat(1 + MAX_LENGTH / nested.len()));
                code(language, &format!("{open}(function() {{ {long} }}){close}"));
            }
        }
    }
}

#[test]
fn many_long_commands_end_in_a_rejection() {
    let arguments = json!({ "commands": vec!["ls ".repeat(20_000); 9] });
    all(&arguments);
    let call = GuardedCall::new("run", &arguments);
    let rejection = ValidatorSet::new().check(&Validator::Sandbox, &call).expect_err("too long");
    assert!(rejection.reason().contains("the commands together"), "{rejection}");
}

#[test]
fn variables_do_not_make_a_script_long() {
    let (words, uses) = ("a ".repeat(10_000), "$A ".repeat(10_000));
    assert!(!code("bash", &format!("A='{words}'\nls {uses}")));
    assert!(!code("bash", &format!("A='{words}'\nls {}", "$A".repeat(10_000))));
    assert!(!code("bash", &"A+=x\n".repeat(8_000)));
    let values = lines(6, &|at| lines(7, &|value| format!("true && A{at}={value}\n")));
    assert!(!code("bash", &format!("{values}ls $A0 $A1 $A2 $A3 $A4 $A5")));
}

#[test]
fn a_script_that_often_changes_its_folder_is_rejected_soon() {
    assert!(!code("bash", &"cd a;".repeat(300)));
    let folders = "cd /;cd ~;cd /etc;cd /opt;cd /srv;";
    assert!(code("bash", &format!("{folders}{}", "ls;".repeat(100))));
    assert!(!code("bash", &format!("{folders}{}", "ls;".repeat(15_000))));
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
        &"ssh a.example ".repeat(4_500),
    ] {
        all(&json!({ "command": text, "url": text, "sql": text, "query": text, "code": text }));
    }
}

/// Returns `count` lines of code; `line` creates each line from its number.
fn lines(count: usize, line: &dyn Fn(usize) -> String) -> String {
    (0..count).map(|at| line(at) + "\n").collect()
}

#[test]
fn long_names_and_chains_of_aliases_stay_quick() {
    let aliases = lines(2_000, &|at| format!("a{} = a{at}", at + 1));
    code("python", &format!("import os\na0 = os\n{aliases}"));
    let doubled = lines(60, &|at| format!("s{} = s{at} + s{at}", at + 1));
    code("python", &format!("s0 = 'xxxxxxxxxxxxxxxx'\n{doubled}"));
    let choices = lines(200, &|at| format!("x = 'a{at}' + x"));
    code("python", &format!("x = ''\n{choices}"));
    code("javascript", &format!("let x = ''\n{}", choices.replace('\'', "`")));
}

#[test]
fn python_that_computes_long_or_many_values_is_judged_soon() {
    let text = format!("t = '{}'\n", "x".repeat(4_000));
    let texts = lines(13, &|at| format!("t = '{at}{}'", "x".repeat(4_000)));
    for code_text in [
        "s0 = 'x'\n".to_owned() + &lines(60, &|at| format!("s{} = f'{{s{at}}}{{s{at}}}'", at + 1)),
        text.clone() + &lines(60, &|at| format!("t = t.replace('x', t) # {at}")),
        text.clone() + &lines(60, &|at| format!("t = t.join([t, t, t, t]) # {at}")),
        texts.clone() + &lines(10_000, &|_| "a(t)".to_owned()),
        texts + &lines(10_000, &|at| format!("t{at} = t")),
        lines(9_000, &|at| format!("from a{at} import *")) + "x\ny\nz\n",
        "import a\n".to_owned()
            + &lines(9_000, &|at| format!("x = a.b{at}"))
            + &"x\n".repeat(9_000),
        format!("x = {}", (0..20_000).map(|at| format!("x{at} or ")).collect::<String>()) + "y",
        format!("x = 'a'{}", ".strip()".repeat(300)),
        lines(600, &|_| format!("x{}", ".a".repeat(390))),
        lines(300, &|_| format!("x{}", ".a(b)[c]".repeat(100))),
        lines(300, &|_| format!("x = {}1{}", "[".repeat(150), "][0]".repeat(150))),
        "def f(vars):\n".to_owned() + &" vars\n global x\n".repeat(9_000),
    ] {
        code("python", &code_text);
    }
}

#[test]
fn the_longest_python_is_judged_soon() {
    const LENGTHS: &[usize] =
        if cfg!(debug_assertions) { &[64 * 1024] } else { &[64 * 1024, 128 * 1024, 256 * 1024] };
    for part in [
        "a;",
        "a,",
        "a\n",
        "a()\n",
        "a=a=a=a\n",
        "a.a.a.a,",
        "a[a]\n",
        "1=1\n",
        "a if b\n",
        "a b ",
        "a) ",
        "; ",
        "import a\na.b\n",
        "match(a)\n",
        "getattr(a,'b')\n",
        "f'{a}',",
        "del 1\n",
        "def ",
        "(a,",
        "[1, 2],\n",
        "def f(a, b):\n    return json.dumps({'x': [i * 2 for i in range(a) if i % b]})\n",
    ] {
        // Very dense code has too many tokens to be judged at the maximum length.
        for bytes in LENGTHS {
            code("python", &part.repeat(bytes / part.len()));
            code("python", &format!("if 1:\n x = [\n{}", part.repeat(bytes / part.len() - 10)));
        }
    }
}

#[test]
fn javascript_that_computes_long_or_many_values_is_judged_soon() {
    let text = format!("t = '{}'\n", "x".repeat(4_000));
    let texts = lines(13, &|at| format!("t = '{at}{}'", "x".repeat(4_000)));
    let key = "k = c ? 'a' : c ? 'b' : c ? 'c' : 'd'\n".to_owned();
    let get = format!("y = {}x{}\n", "Reflect.get(".repeat(60), ", k)".repeat(60));
    for code_text in [
        key.clone() + &get,
        key.clone() + &get.repeat(200),
        key + "x" + &"[k]".repeat(80),
        text.clone() + &lines(60, &|at| format!("t = t.replace('x', t) // {at}")),
        text + &lines(5_000, &|at| format!("t = [t, t, t].join(t) // {at}")),
        texts.clone() + &"a(t)\n".repeat(10_000),
        texts + &lines(10_000, &|at| format!("t{at} = t")),
        format!("x = '{}'\n", "y".repeat(128_000)) + &"x.replace('a', 'b')\n".repeat(5_000),
        lines(9_000, &|at| format!("x = a.b{at}")) + &"x\n".repeat(9_000),
        lines(20, &|at| format!("x = a.b{at}")) + &format!("x{}\n", ".a".repeat(300)).repeat(300),
        format!("x = 'a'{}\n", ".trim()".repeat(300)).repeat(100),
        format!("x{}\n", ".a().b".repeat(150)).repeat(250),
        format!("x = {}1{}\n", "[".repeat(90), "][0]".repeat(90)).repeat(400),
        "let {a: {b: {c: {d: {e}}}}} = x\n".repeat(7_000),
        "root\n".repeat(12_000) + &"{ let root }\n".repeat(12_000),
        "{ let root\n root[k] }\n".repeat(7_000),
    ] {
        code("javascript", &code_text);
    }
}

#[test]
fn the_longest_javascript_is_judged_soon() {
    const MAX_LENGTH: usize = if cfg!(debug_assertions) { 64 * 1024 } else { 256 * 1024 };
    for part in [
        "a;",
        "a,",
        "a()\n",
        "a=a=a=a\n",
        "a.a.a.a,",
        "a[a]\n",
        "`${a}`;",
        "x=>x;",
        "({a,b,c});",
        "if(a)b;else c\n",
        "'a';",
        "<a b={c}>d{e}</a>;",
        "class A{b(){}static c=1}",
        "function a(b=c,{d},[e]){}",
        "import a from 'b'\n",
        "function f(a, b) { return JSON.stringify({ x: [...Array(a).keys()].map(i => i * b) }) }\n",
    ] {
        for language in ["javascript", "typescript", "tsx"] {
            code(language, &part.repeat(MAX_LENGTH / part.len()));
        }
    }
}

/// Texts from which the test creates random inputs for each parser.
const SEEDS: [(&str, &[&str]); 7] = [
    (
        "command",
        &[
            "git log --oneline -n 5 'a b'",
            "env A=b timeout 5 ls -la \"x y\"",
            "sed -n '1,20p' f",
            "awk -F, '{print $1}' x",
            "curl https://user@example.com:8080/x?y=z",
        ],
    ),
    ("script", &["ls a && cat b | sort > c\ncp x y\n", "for_x=1; echo \"$HOME\" 2>&1\n"]),
    (
        "python",
        &[
            "import os.path as p\nfrom re import *\nx = [i for i in f'{y!r}' if i]\n",
            "async def f(a, *b, c=1, **d):\n    return getattr(x, 'y')(lambda z: z)\n",
        ],
    ),
    (
        "javascript",
        &[
            "const {a, b: [c]} = await import(`x${1}`); for (const x of y) { x?.z ?? w }",
            "class A extends B { #x = 1; get y() { return /a[b]/g.test(this.#x) } }",
        ],
    ),
    (
        "typescript",
        &[
            "type A<T> = T extends string ? keyof B : never; let x!: A<'a'> = y as any;",
            "enum E { A = 1 } abstract class C<T> implements D { constructor(private x: T) {} }",
        ],
    ),
    (
        "url",
        &[
            "http://user:pw@[::ffff:127.0.0.1]:8080/a/../b?c=d#e",
            "https://0x7f.1/",
            "//example.com\\@x",
        ],
    ),
    (
        "sql",
        &[
            "select a, b from t where c = 'd' -- e\n",
            "with x as (delete from t returning *) select 1; /* y */",
            "query A { b(c: 1) { d } }",
        ],
    ),
];

#[test]
fn no_fuzzed_input_panics_or_takes_long() {
    let bytes = std::env::var("MGP_FUZZ_BYTES").ok().and_then(|bytes| bytes.parse().ok());
    let bytes = bytes.unwrap_or(FUZZED_BYTES);
    for (parser, seeds) in SEEDS {
        let (mut random, mut given, mut inputs, mut longest) = (7_u64, 0, 0_u32, Duration::ZERO);
        while given < bytes {
            let input = mutated(seeds, &mut random);
            given += input.len();
            inputs += 1;
            let start = ProcessorTime::now();
            judge(parser, &input);
            let took = start.elapsed();
            assert!(took < MAX_DURATION, "{parser}: {took:?} for {input:?}");
            longest = longest.max(took);
        }
        println!(
            "fuzzed: {parser}: {given} bytes in {inputs} inputs, the longest took {longest:?}"
        );
    }
}

fn judge(parser: &str, input: &str) {
    let (validator, name) = match parser {
        "command" => (Validator::Sandbox, "command"),
        "url" => (Validator::NetworkRestricted, "url"),
        "sql" => (Validator::Readonly, "query"),
        language => {
            let mut rules = CodeSafety::new(CodeSafetyLevel::Standard);
            rules.language = Some(if language == "script" { "bash" } else { language }.to_owned());
            let _ = CodePolicy::new(&rules).check(input);
            return;
        }
    };
    let arguments = json!({ name: input });
    let _ = ValidatorSet::new().check(&validator, &GuardedCall::new("query", &arguments));
}

/// Returns a random input made of parts of the seeds, which are cut, repeated and damaged.
fn mutated(seeds: &[&str], random: &mut u64) -> String {
    let mut below = |bound: usize| {
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        usize::try_from(*random % bound.max(1) as u64).unwrap_or_default()
    };
    let mut text = String::new();
    for _ in 0..=below(6) {
        let seed = seeds[below(seeds.len())];
        let (from, to) = (below(seed.len() + 1), below(seed.len() + 1));
        let part = seed.get(from.min(to)..from.max(to)).unwrap_or(seed);
        text.push_str(&part.repeat(if below(20) == 0 { 1 + below(40) } else { 1 }));
        for _ in 0..below(4) {
            let marks = "(){}[]<>'\"`$\\;|&#@:=,.!?*/- \n\t\u{0}\u{202e}é漢\u{1f600}";
            text.extend(marks.chars().nth(below(marks.chars().count())));
        }
    }
    text
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
        // A newline at the end only ends the command, so another command must follow it.
        prop_assume!(operator != "\n" || !after.is_empty());
        let arguments = json!({ "command": format!("ls {before}{operator}{after}") });
        prop_assert!(ValidatorSet::new().check(&Validator::Sandbox, &GuardedCall::new("run", &arguments)).is_err());
    }
}
