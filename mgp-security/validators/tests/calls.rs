//! Tests with calls as a kernel makes them: forms of arguments, unknown validators, declared rules, and rejections.

use mgp_types::mgp::{CodeSafety, CodeSafetyLevel, TrustLevel, Validator};
use mgp_types::{LocalHost, UniqueJson};
use mgp_validators::{CodePolicy, GuardedCall, NetworkRules, Rejection, Resolver, ValidatorSet};
use serde_json::{Value, json};
use std::{net::IpAddr, sync::Arc};

fn sandbox(arguments: &Value) -> Result<(), Rejection> {
    ValidatorSet::new().check(&Validator::Sandbox, &GuardedCall::new("run_command", arguments))
}

#[test]
fn a_command_without_the_program_after_which_the_tool_is_named_is_judged_with_it() {
    let check = |tool, command: &str| {
        let arguments = json!({ "command": command });
        ValidatorSet::new().check(&Validator::Sandbox, &GuardedCall::new(tool, &arguments))
    };
    for (tool, command) in [
        ("run_kubectl", "delete ns prod"),
        ("kubectl", "exec web -- rm -rf /data"),
        ("docker", "run --privileged x"),
        ("git_command", "-c core.pager=id log -p"),
        ("curl", "http://169.254.169.254/"),
    ] {
        assert!(check(tool, command).is_err(), "{tool}: {command}");
    }
    for (tool, command) in [
        ("run_kubectl", "get pods -A"),
        ("run_kubectl", "kubectl get pods"),
        ("docker_exec", "ls -la /app"),
        ("git_command", "log --oneline"),
        ("git_command", "/usr/bin/git status"),
        ("aws_cli", "aws s3 ls"),
    ] {
        assert_eq!(check(tool, command), Ok(()), "{tool}: {command}");
    }
}

#[test]
fn a_tool_that_creates_something_needs_no_command_if_its_definition_declares_it_optional() {
    let check = |tool, definition: &Value, trust, arguments: Value| {
        let call = GuardedCall::new(tool, &arguments).definition(definition).trust(trust);
        ValidatorSet::new().check(&Validator::Sandbox, &call).is_ok()
    };
    let properties = json!({"command": {"type": "array"}, "name": {}, "image": {}});
    let optional = json!({"inputSchema": {"properties": properties}});
    let required = json!({"inputSchema": {"properties": properties, "required": ["command"]}});
    let none = json!({"inputSchema": {"properties": {"name": {}, "image": {}}}});
    let web = json!({"name": "web", "image": "nginx:1.25"});
    let unread = json!({"name": "web", "command": {"x": "sudo ls", "y": "id"}});
    for (tool, definition, trust, arguments, passes) in [
        ("kubectl_create", &optional, TrustLevel::Standard, web.clone(), true),
        ("run_container", &optional, TrustLevel::Standard, web.clone(), true),
        ("kubectl_create", &optional, TrustLevel::Sandboxed, web.clone(), false),
        ("kubectl_create", &required, TrustLevel::Standard, web.clone(), false),
        ("kubectl_create", &none, TrustLevel::Standard, web.clone(), false),
        ("container_exec", &optional, TrustLevel::Standard, web.clone(), false),
        ("run", &optional, TrustLevel::Standard, web, false),
        ("kubectl_create", &optional, TrustLevel::Standard, unread, false),
        (
            "kubectl_create",
            &optional,
            TrustLevel::Standard,
            json!({"command": ["sudo", "ls"]}),
            false,
        ),
    ] {
        let passed = check(tool, definition, trust, arguments.clone());
        assert_eq!(passed, passes, "{tool} {definition} {arguments}");
    }
}

#[test]
fn a_value_that_the_definition_lists_is_not_the_name_of_a_host() {
    let listed = json!({"enum": ["search", "localhost", "a.internal"]});
    let properties = json!({"endpoint": listed, "hosts": {"items": listed}, "url": {}});
    let definition = json!({"inputSchema": {"properties": properties}});
    let check = |trust, arguments: Value| {
        let call = GuardedCall::new("feedback", &arguments).definition(&definition).trust(trust);
        ValidatorSet::new().check(&Validator::NetworkRestricted, &call).is_ok()
    };
    assert!(check(TrustLevel::Standard, json!({"endpoint": "search"})));
    assert!(check(TrustLevel::Standard, json!({"hosts": ["search"]})));
    for arguments in [
        json!({"endpoint": "scrape"}),
        json!({"endpoint": "localhost"}),
        json!({"endpoint": "a.internal"}),
        json!({"url": "search"}),
        json!({"more": {"endpoint": "search"}}),
    ] {
        assert!(!check(TrustLevel::Standard, arguments.clone()), "{arguments}");
    }
    assert!(!check(TrustLevel::Sandboxed, json!({"endpoint": "search"})));
}

#[test]
fn the_placeholder_of_xargs_is_not_a_word_of_its_command() {
    let args = ["-i", "-t", "nice", "{}"];
    let arguments = json!({"command": "xargs", "args": args, "stdin": "sudo"});
    assert!(sandbox(&arguments).is_err());
    let arguments = json!({"command": "xargs --replace cp {} dest/", "stdin": "a.txt"});
    assert_eq!(sandbox(&arguments), Ok(()));
}

#[test]
fn what_cannot_be_judged_is_blocked() {
    for arguments in [
        json!({}),
        json!([]),
        json!("ls"),
        json!(null),
        json!({"command": 5}),
        json!({"command": null}),
        json!({"command": true}),
        json!({"command": []}),
        json!({"command": ""}),
        json!({"command": {"x": "ls"}}),
        json!({"argv": ["ls", ["x"]]}),
        json!({"a": "ls", "b": "ls"}),
        json!({"command": "x".repeat(70_000)}),
        json!({"command": "ls", "cwd": "a".repeat(2_000)}),
    ] {
        assert!(sandbox(&arguments).is_err(), "{arguments}");
    }
    let arguments = json!({"command": "ls"});
    let call = GuardedCall::new("run", &arguments);
    let unknown = Validator::from("sandbx");
    let rejection = ValidatorSet::new().check(&unknown, &call).expect_err("unknown");
    assert!(
        rejection.reason().contains("unknown validator `sandbx`; known: sandbox"),
        "{rejection}"
    );
    assert_eq!(ValidatorSet::new().check(&Validator::None, &call), Ok(()));
    for text in [r#"{"command":"ls","command":"rm -rf x"}"#, r#"{"a":[{"b":1,"b":2}]}"#] {
        assert!(serde_json::from_str::<UniqueJson>(text).is_err(), "{text}");
    }
}

fn rules(level: CodeSafetyLevel) -> CodeSafety {
    let mut rules = CodeSafety::new(level);
    rules.language = Some("python".to_owned());
    rules.max_code_size_bytes = Some(100);
    rules.blocked_imports = vec!["subprocess".to_owned(), "shutil".to_owned()].into();
    rules.blocked_patterns = vec!["eval(".to_owned()].into();
    rules.allowed_imports = vec!["json".to_owned()].into();
    rules
}

#[test]
fn a_rejection_of_code_names_the_rules() {
    let code = "from subprocess import run as r\nx = eval\nx('1')";
    let rejection =
        CodePolicy::new(&rules(CodeSafetyLevel::Standard)).check(code).expect_err("blocked");
    let body = serde_json::to_value(rejection.body()).expect("JSON");
    assert_eq!(
        body,
        json!({
            "status": "rejected",
            "reason": "Code validation failed",
            "violations": ["Blocked import: 'subprocess'", "Blocked pattern: 'eval('"],
            "hints": {
                "blocked_imports": ["subprocess", "shutil"],
                "allowed_imports": ["json"],
                "max_code_size_bytes": 100,
            }
        })
    );
    assert_eq!(rejection.validator(), &Validator::CodeSafety);
}

#[test]
fn the_refusal_of_code_with_a_syntax_error_names_its_place() {
    let refused = |language: &str, code: &str| {
        let mut rules = rules(CodeSafetyLevel::Standard);
        rules.language = Some(language.to_owned());
        let rejection = CodePolicy::new(&rules).check(code).expect_err("blocked");
        serde_json::to_string(&rejection.body()).expect("JSON")
    };
    let python = refused("python", "x = 1\ny = (2 +)\n");
    assert!(python.contains("cannot be parsed: line 2: "), "{python}");
    let javascript = refused("javascript", "let x = 1;\nlet y = ;\n");
    assert!(javascript.contains("cannot be parsed: "), "{javascript}");
}

#[test]
fn levels_add_rules() {
    let long = "x = 1\n".repeat(20);
    for (level, code, allowed) in [
        (CodeSafetyLevel::Unrestricted, "import subprocess", true),
        (CodeSafetyLevel::Standard, "import re", true),
        (CodeSafetyLevel::Standard, &long, true),
        (CodeSafetyLevel::Strict, "import re", false),
        (CodeSafetyLevel::Strict, "import json", true),
        (CodeSafetyLevel::Strict, &long, false),
        (CodeSafetyLevel::Strict, "open('a', 'w')", true),
        (CodeSafetyLevel::Readonly, "open('a', 'w')", false),
        (CodeSafetyLevel::Readonly, "open('a').read()", true),
        (CodeSafetyLevel::from("lax"), "open('a', 'w')", false),
    ] {
        let decided = CodePolicy::new(&rules(level.clone())).check(code);
        assert_eq!(decided.is_ok(), allowed, "{level}: {code}: {decided:?}");
    }
}

#[test]
fn code_is_found_by_its_argument_and_judged_in_its_language() {
    let check = |arguments: Value, policy: CodePolicy| {
        ValidatorSet::new()
            .check(&Validator::CodeSafety, &GuardedCall::new("run", &arguments).code(policy))
    };
    let mut any = rules(CodeSafetyLevel::Standard);
    any.language = None;
    let (python, any) = (CodePolicy::new(&rules(CodeSafetyLevel::Standard)), CodePolicy::new(&any));
    for (arguments, policy, allowed) in [
        (json!({"code": "x = 1", "name": "a; b"}), python.clone(), true),
        (json!({"code": "eval('1')"}), python.clone(), false),
        (json!({"cells": [{"source": "x = 1"}, {"source": "eval('1')"}]}), python.clone(), false),
        (json!({"whatever": "eval('1')"}), python.clone(), false),
        (json!({"a": "x", "b": "y"}), python.clone(), false),
        (json!({"code": 1}), python.clone(), false),
        (json!({"code": "x = (", "name": "a"}), python.clone(), false),
        (json!({"code": "puts 1", "language": "ruby"}), python, false),
        (json!({"code": "const x = 1", "language": "JavaScript"}), any.clone(), true),
        (
            json!({"code": "let x: number = 1; eval('1')", "language": "typescript"}),
            any.clone(),
            false,
        ),
        (json!({"code": "let x: number = 1 as any", "language": "ts"}), any.clone(), true),
        (
            json!({"code": "ls | grep a > out.txt\ngit status", "language": "bash"}),
            any.clone(),
            true,
        ),
        (json!({"code": "ls\nrm -rf x", "language": "bash"}), any.clone(), false),
        (json!({"code": "export BASH_ENV=x\nls", "language": "bash"}), any.clone(), false),
        (json!({"code": "export ${X}BASH_ENV=x\nls", "language": "bash"}), any.clone(), false),
        (json!({"code": "export {BASH_ENV,A}=x\nls", "language": "bash"}), any.clone(), false),
        (json!({"code": "printf -v PATH %s ./x\nls", "language": "bash"}), any.clone(), false),
        (json!({"code": "read -r PATH < a\nls", "language": "bash"}), any.clone(), false),
        (json!({"code": "read -r line < a\nls", "language": "bash"}), any.clone(), true),
        (json!({"code": "export A=$HOME/{a,b}\nls", "language": "bash"}), any.clone(), true),
        (json!({"code": "ls > /etc/x", "language": "bash"}), any.clone(), false),
        (json!({"code": "puts 1", "language": "ruby"}), any.clone(), false),
        (json!({"code": "x = 1", "languageId": "python"}), any.clone(), true),
        (json!({"code": "x = 1", "language": null, "languageId": "python"}), any.clone(), true),
        (json!({"code": "eval('1')", "languageId": "python"}), any.clone(), false),
        (json!({"snippet": "ls", "programming_language": "shellscript"}), any.clone(), true),
        (json!({"code": "1", "languageId": "python", "lang": "perl"}), any.clone(), false),
        (json!({"code": "1", "language": "perl", "languageId": "python"}), any.clone(), false),
        (json!({"code": "x = 1"}), any, false),
    ] {
        let decided = check(arguments.clone(), policy);
        assert_eq!(decided.is_ok(), allowed, "{arguments}: {decided:?}");
    }
    let definition =
        json!({"security": {"code_safety": {"level": "standard", "language": "python"}}});
    let arguments = json!({"code": "import os\nos.system('id')"});
    let call = GuardedCall::new("run", &arguments);
    let validators = ValidatorSet::new();
    assert!(
        validators.check(&Validator::CodeSafety, &call.clone().definition(&definition)).is_err()
    );
    assert!(validators.check(&Validator::CodeSafety, &call).is_err(), "no rules are declared");
}

#[test]
fn patterns_that_are_no_names_are_looked_for_without_blanks() {
    let mut with = rules(CodeSafetyLevel::Standard);
    with.blocked_patterns =
        vec!["while True:".to_owned(), ".system(".to_owned(), "Popen(".to_owned()].into();
    let policy = CodePolicy::new(&with);
    for code in ["while  True :\n    pass", "x.system('id')", "import mod\nmod.Popen('id')"] {
        assert!(policy.check(code).is_err(), "{code}");
    }
    assert_eq!(policy.check("while x:\n    system = 1"), Ok(()));
}

#[derive(Debug)]
struct Rebinding;

impl Resolver for Rebinding {
    fn resolve(&self, name: &str) -> Vec<IpAddr> {
        let public = !name.starts_with("private");
        vec![if public { "93.184.215.14" } else { "10.0.0.1" }.parse().expect("an address")]
    }
}

#[test]
fn names_are_resolved_and_checked_again_at_the_connection() {
    let rules = NetworkRules::new().resolver(&Rebinding);
    assert_eq!(rules.check_url("https://public.example/"), Ok(()));
    assert!(rules.check_url("https://private.example/").is_err());
    assert!(rules.check_connect("127.0.0.1".parse().expect("an address")).is_err());
    assert!(
        rules.check_redirects("https://a.example/", &["/b", "https://private.example/"]).is_err()
    );
    assert_eq!(rules.check_redirects("https://a.example/", &["/b", "//c.example/d"]), Ok(()));
    let many = vec!["https://b.example/"; 11];
    assert!(rules.check_redirects("https://a.example/", &many).is_err());
    let validators = ValidatorSet::new().resolver(Arc::new(Rebinding));
    let arguments = json!({"url": "https://private.example/"});
    assert!(
        validators
            .check(&Validator::NetworkRestricted, &GuardedCall::new("fetch", &arguments))
            .is_err()
    );
}

#[test]
fn files_whose_paths_are_limited_elsewhere_pass_as_urls() {
    let check = |url: &str, is_limited: bool| {
        let given = json!({"uri": url});
        let call = GuardedCall::new("convert_to_markdown", &given);
        let call = if is_limited { call.allow_file_urls() } else { call };
        ValidatorSet::new().check(&Validator::NetworkRestricted, &call).is_ok()
    };
    for url in [
        "file:///home/ann/a.pdf",
        "file:///home/ann/My%20report.pdf",
        "FILE://localhost/home/ann/a.pdf",
        "file:/home/ann/a.pdf",
        "file:///C:/Users/ann/a.pdf",
    ] {
        assert!(check(url, true), "{url}");
        assert!(!check(url, false), "{url}");
    }
    for url in [
        "file://evil.example/a.pdf",
        "file:////evil.example/a.pdf",
        "file:///%2fevil.example/a.pdf",
        "file:///home\\..\\a.pdf",
        "file:home/ann/a.pdf",
        "file:///home/ann/a.pdf?x",
        "file:///home/ann/a.pdf,http://10.0.0.1/",
        "file:///home/ann/a.pdf\nhttp://10.0.0.1/",
        "\u{1}file:///home/ann/a.pdf",
        " file:///home/ann/a.pdf",
        "file:///home/ann/a.pdf ",
        "file:///home/ann/My report.pdf",
        "http://10.0.0.1/",
    ] {
        assert!(!check(url, true), "{url}");
    }
}

#[test]
fn a_number_under_the_name_of_a_declared_host_is_an_address() {
    let arguments = json!({"machine": 2_130_706_433});
    let call = GuardedCall::new("ping", &arguments);
    let check =
        |call: GuardedCall<'_>| ValidatorSet::new().check(&Validator::NetworkRestricted, &call);
    assert_eq!(check(call.clone()), Ok(()));
    assert!(check(call.targets(Vec::new(), vec!["machine".to_owned()])).is_err());
}

#[test]
fn a_key_that_a_server_without_case_takes_for_another_is_judged_like_it() {
    let check = |validator: Validator, arguments: Value| {
        let policy = CodePolicy::new(&rules(CodeSafetyLevel::Standard));
        let call = GuardedCall::new("run", &arguments).code(policy);
        let call = call.targets(Vec::new(), vec!["machine".to_owned()]);
        ValidatorSet::new().check(&validator, &call)
    };
    for (validator, known, key, harmless, harmful) in [
        (Validator::CodeSafety, json!({"code": "x = 1"}), "\u{17f}cript", "x = 2", "eval('1')"),
        (Validator::Sandbox, json!({"command": "ls"}), "\u{17f}hell", "ls -l", "rm -rf /"),
        (Validator::NetworkRestricted, json!({}), "ho\u{17f}t", "b.example.com", "intranet"),
        (Validator::NetworkRestricted, json!({}), "Machine", "b.example.com", "intranet"),
    ] {
        let beside = |value: &str| {
            let mut arguments = known.clone();
            arguments[key] = value.into();
            check(validator.clone(), arguments)
        };
        assert_eq!(beside(harmless), Ok(()), "{key}");
        assert!(beside(harmful).is_err(), "{key}");
    }
}

#[test]
fn a_hint_of_a_sandboxed_server_admits_nothing() {
    let (arguments, definition) = (json!({}), json!({"annotations": {"readOnlyHint": true}}));
    let call = GuardedCall::new("ponder", &arguments).definition(&definition);
    let check = |call: GuardedCall<'_>| ValidatorSet::new().check(&Validator::Readonly, &call);
    assert!(check(call.clone()).is_err());
    assert_eq!(check(call.trust(TrustLevel::Standard)), Ok(()));
}

#[test]
fn a_rejection_is_of_a_local_host_only_if_the_call_would_pass_with_one() {
    for (url, expected) in [
        ("http://localhost:3000/", true),
        ("http://10.1.2.3/a?b=http://192.168.0.1/", true),
        ("https://wiki.corp/", true),
        ("http://[fd00::1]:8080/", true),
        ("http://169.254.169.254/", false),
        ("http://metadata.google.internal/", false),
        ("http://localhost:22/", false),
        ("http://me:pw@localhost:3000/", false),
        ("http://localhost:3000/ http://169.254.169.254/", false),
    ] {
        for (validator, arguments) in [
            (Validator::NetworkRestricted, json!({ "url": url })),
            (Validator::Sandbox, json!({ "command": format!("curl {url}") })),
        ] {
            let call = GuardedCall::new("run_command", &arguments);
            let rejection = ValidatorSet::new().check(&validator, &call).unwrap_err();
            assert_eq!(rejection.is_of_local_host(), expected, "{validator} {url}: {rejection}");
        }
    }
}

#[test]
fn a_local_host_passes_in_scripts_of_a_shell_and_a_public_name_cannot_lead_to_it() {
    let local: [LocalHost; 1] = ["localhost:3000".parse().unwrap()];
    let check = |code: &str| {
        let arguments = json!({ "code": code });
        let rules = CodePolicy::new(&CodeSafety::new(CodeSafetyLevel::Standard)).language("bash");
        let call = GuardedCall::new("run", &arguments).code(rules).local_hosts(&local);
        ValidatorSet::new().check(&Validator::CodeSafety, &call).is_ok()
    };
    assert!(check("npm test\ncurl -s http://localhost:3000/health | grep ok"));
    assert!(!check("curl http://localhost:3001/"));
    assert!(!check("PORT=22; curl http://localhost:$PORT/"));
    let rules = NetworkRules::new().local_hosts(&local);
    assert!(rules.check_connect("127.0.0.1".parse().unwrap()).is_err());
    assert!(rules.check_redirects("http://localhost:3000/", &["http://10.0.0.1/"]).is_err());
}
