//! Tests of limits: the arguments that pass, and the error messages for arguments that are refused.

use proptest::prelude::*;

use super::*;

fn scope(json: &str) -> PermissionScope {
    serde_json::from_str(json).unwrap()
}

/// Checks that limits allow a call with these arguments.
#[track_caller]
fn passes(limits: &str, arguments: &str) {
    assert_eq!(check(&scope(limits), Some(arguments), None), Ok(()), "{limits} {arguments}");
}

/// Checks that limits refuse a call with these arguments, with certain words in the message.
#[track_caller]
fn fails(limits: &str, arguments: &str, words: &str) {
    let outside = check(&scope(limits), Some(arguments), None).expect_err(arguments);
    assert!(outside.contains(words), "{limits} {arguments}: {outside}");
}

/// Checks a call with one path as the argument `path`: the limits must refuse it with `words` in the message, or allow
/// it if `words` is `None`.
#[track_caller]
fn path(limits: &str, path: &str, words: Option<&str>) {
    let arguments = serde_json::json!({ "path": path }).to_string();
    match words {
        None => passes(limits, &arguments),
        Some(words) => fails(limits, &arguments, words),
    }
}

#[test]
fn paths_are_compared_part_by_part() {
    let only = r#"{"paths":["/srv/data/**","/tmp/a.txt"]}"#;
    for inside in [
        "/srv/data",
        "/srv/data/",
        "/srv/data/x",
        "/srv//data/./x",
        "/srv/data/a/../b",
        "//srv/data/x",
        "/srv/other/../data/x",
        "file:///srv/data/x",
        "FILE:/srv/data/x",
        "file://localhost/srv/data/x%20y",
        "/srv/data/%41",
        "/srv/data/100%",
        "/tmp/a.txt",
        "/srv/data/.hidden",
        "/srv/data/*.txt",
        "/srv/data/a\\b",
    ] {
        path(only, inside, None);
    }
    for (outside, words) in [
        ("/srv/database", "not allowed"),
        ("/srv/data2/x", "not allowed"),
        ("/SRV/DATA/x", "not allowed"),
        ("/", "not allowed"),
        ("/srv", "not allowed"),
        ("/srv/data/../x", "not allowed"),
        ("/srv/data/..", "not allowed"),
        ("/srv/data/%2e%2e/x", "not allowed"),
        ("/srv/data/%252e%252e/x", "not allowed"),
        ("/srv/data/%25252525252e", "too often"),
        ("/srv/data/..%2f..%2fetc", "not allowed"),
        ("/srv/data/%2E%2E%5c..\\etc", "dot"),
        ("/srv/data\\..\\..\\etc", "not allowed"),
        ("/a\\..\\srv/data/x", "not allowed"),
        ("/srv/data/%ff", "wrongly"),
        ("/srv/data/a\u{0}b", "control"),
        ("/srv/data/%00", "control"),
        ("/srv/data/a\n", "blank"),
        (" /srv/data/a", "blank"),
        ("", "empty"),
        ("/srv/data/x.", "dot"),
        ("/srv/data/.../x", "dot"),
        ("/srv/data/.. /x", "dot"),
        ("/srv/data/\u{ff0f}..\u{ff0f}x", "look like"),
        ("/srv/data/\u{2025}/x", "look like"),
        ("/srv/data/{a,../../etc}", "dot"),
        ("/srv/data/*/../../x", "climbs"),
        ("data/x", "not allowed"),
        ("./x", "not allowed"),
        ("../x", "leaves"),
        ("~/x", "not allowed"),
        ("~", "not allowed"),
        ("~root/x", "home"),
        ("$HOME/x", "variable"),
        ("C:\\srv\\data", "not allowed"),
        ("c:srv", "drive"),
        ("\\\\server\\share\\srv\\data", "not allowed"),
        ("\\\\?\\C:\\x", "device"),
        ("\\\\.\\pipe", "device"),
        ("\\\\server", "no share"),
        ("file://other/srv/data/x", "another host"),
        ("file:///srv/data/x?y", "file URL"),
        ("s3://srv/data", "address"),
        ("/tmp/a.txt.bak", "not allowed"),
    ] {
        path(only, outside, Some(words));
    }
    path(only, &format!("/srv/data/{}", "a/".repeat(3000)), Some("too long"));
}

#[test]
fn braces_and_wildcards_do_not_climb_out_of_what_is_open() {
    let only = r#"{"paths":["/work"]}"#;
    for outside in [
        "/work/{..,a}/etc/passwd",
        "/work/{a,b}",
        "/work/.*/x",
        "/work/.?/etc/passwd",
        "/work/.[.]/etc/passwd",
        "/work/[.][.]/etc/passwd",
        "/work/[.]*/x",
        "/work/..*/x",
        "/work/x..*",
        "/work/(..|a)/etc/passwd",
        "/work/@(a|..)/etc/passwd",
        "/work/%2e*/x",
        "/work/%7b..,a%7d/x",
        "/work\\{..,a}\\x",
    ] {
        path(only, outside, Some("climbs"));
    }
    for inside in [
        "/work/*",
        "/work/**/*.rs",
        "/work/.env*",
        "/work/a..b",
        "/work/[a-z].rs",
        "/work/a (1).txt",
    ] {
        path(only, inside, None);
    }
    // A pattern such as `.*`, which could expand to `..`, is refused in a path of a call, but allowed in an operator's
    // entry.
    path(r#"{"paths":["/work"],"deny_paths":["**/.*"]}"#, "/work/.ssh/x", Some("denied"));
    path(r#"{"paths":["/work/.*"]}"#, "/work/.git", None);
}

#[test]
fn entries_are_prefixes_or_patterns() {
    path(r#"{"paths":["/"]}"#, "/anything", None);
    path(r#"{"paths":["/srv/data"]}"#, "/srv/data/deep/down", None);
    path(r#"{"paths":["/srv/data/"]}"#, "/srv/data/x", None);
    path(r#"{"paths":["/srv/*/logs"]}"#, "/srv/a/logs", None);
    path(r#"{"paths":["/srv/*/logs"]}"#, "/srv/a/logs/x", Some("not allowed"));
    path(r#"{"paths":["/srv/*/logs"]}"#, "/srv/a/b/logs", Some("not allowed"));
    path(r#"{"paths":["/srv/**/*.txt"]}"#, "/srv/a/b/c.txt", None);
    path(r#"{"paths":["/srv/**/*.txt"]}"#, "/srv/c.txt", None);
    path(r#"{"paths":["/srv/**/*.txt"]}"#, "/srv/c.txt/d", Some("not allowed"));
    path(r#"{"paths":["/srv/a?c"]}"#, "/srv/abc", None);
    path(r#"{"paths":["~/docs"]}"#, "~/docs/x", None);
    path(r#"{"paths":["~/docs"]}"#, "~/docs/../../x", Some("leaves"));
    path(r#"{"paths":["data"]}"#, "data/x", None);
    path(r#"{"paths":["data"]}"#, "./data/x", None);
    path(r#"{"paths":["C:\\work"]}"#, "c:/work/x", None);
    path(r#"{"paths":["C:\\work"]}"#, "C:\\work\\..\\x", Some("not allowed"));
    path(r#"{"paths":["C:\\work"]}"#, "file:///C:/work/x", None);
    path(r#"{"paths":["C:\\work"]}"#, "C:\\work\\x::$DATA", Some("another"));
    path(r#"{"paths":["C:\\work"]}"#, "C:\\work\\PROGRA~1", Some("another"));
    path(r#"{"deny_paths":["key"]}"#, "key::$DATA", cfg!(windows).then_some("another"));
    path(r#"{"paths":["\\\\Nas\\Share\\a"]}"#, "\\\\nas\\share\\a\\b", None);
    path(r#"{"paths":[]}"#, "/srv", Some("not allowed"));
    path(r#"{"paths":["../up"]}"#, "/srv", Some("not allowed"));
}

#[test]
fn what_is_closed_stays_closed() {
    let limits =
        r#"{"paths":["/srv/**"],"deny_paths":["/srv/secret","/srv/*/key.pem",".git","**/.env"]}"#;
    path(limits, "/srv/open/x", None);
    for closed in [
        "/srv/secret",
        "/srv/secret/x",
        "/srv/SECRET/x",
        "/srv/open/../secret/x",
        "/srv/s%65cret",
        "/srv/open/key.pem",
        "/srv/open/.git/config",
        "/srv/open/.GIT",
        "/srv/a/.env",
        "/srv",
        "/",
    ] {
        path(limits, closed, Some("denied"));
    }
    path(limits, "/srv/secrets", None);
    path(limits, "/srv/s*", Some("several"));
    // Only some paths are denied, and all others are allowed.
    let all_but = r#"{"deny_paths":["/etc"]}"#;
    path(all_but, "/srv/x", None);
    path(all_but, "x", Some("may be denied"));
    path(all_but, "~/x", Some("may be denied"));
    path(all_but, "C:\\x", Some("may be denied"));
    path(r#"{"deny_paths":["../x"]}"#, "/srv", Some("cannot be read"));
    path(r#"{"deny_paths":["/srv/caf\u00e9"]}"#, "/srv/cafe\u{301}/x", Some("denied"));
    path(r#"{"deny_paths":["/srv/*\u03c3"]}"#, "/srv/a\u{3c2}/x", Some("denied"));
    path(r#"{"deny_paths":["/srv/\u1fb3"]}"#, "/srv/\u{3b1}\u{345}/x", Some("denied"));
    fails(all_but, "{}", "no argument names one");
}

#[test]
fn arguments_are_found_by_name_and_by_shape() {
    let only = r#"{"paths":["/srv"]}"#;
    for inside in [
        r#"{"path":"/srv/a","limit":5,"recursive":true,"cursor":null}"#,
        r#"{"filePath":"/srv/a","content":"/etc/passwd is a file"}"#,
        r#"{"path":"/srv/a","content":"file:///etc/passwd is a file"}"#,
        r#"{"paths":["/srv/a","/srv/b"]}"#,
        r#"{"edits":[{"oldText":"../x","newText":"/y"}],"file":"/srv/a"}"#,
        r#"{"files":[{"path":"/srv/a","encoding":"utf8"}]}"#,
        r#"{"uri":"file:///srv/a"}"#,
        r#"{"source":"https://example.com/a","path":"/srv/a","max_files":3}"#,
    ] {
        passes(only, inside);
    }
    for (outside, words) in [
        ("{}", "no argument names one"),
        (r#"{"name":"x"}"#, "no argument names one"),
        (r#"{"path":null}"#, "no argument names one"),
        (r#"{"path":0}"#, "should be a text"),
        (r#"{"path":"/srv/a","other":"/etc/passwd"}"#, "not allowed"),
        (r#"{"path":"/srv/a","other":"..\\..\\etc"}"#, "leaves"),
        (r#"{"path":"/srv/a","x":{"y":[{"z":["file:///etc/passwd"]}]}}"#, "not allowed"),
        (r#"{"path":"/srv/a","x":"%2fetc%2fpasswd"}"#, "variable"),
        (r#"{"path":"/srv/a","content":"file:///etc/passwd"}"#, "not allowed"),
        (r#"{"path":{"value":"secret.txt"},"root":"/srv/x"}"#, "not allowed"),
        (r#"{"files":{"/etc/passwd":"x"},"path":"/srv/a"}"#, "not allowed"),
        (r#"{"src":"secret.txt","dst":"/srv/a"}"#, "not allowed"),
        (r#"{"path":"/srv/a","path":"/etc/passwd"}"#, "twice"),
        (r#"{"path":"/srv/a","Path":"/etc/passwd"}"#, "not allowed"),
        (r#"{"p\u0061th":"/etc/passwd"}"#, "not allowed"),
        (r#"{"command":"cat /etc/passwd","cwd":"/srv"}"#, "not known"),
        (r#"{"code":"open('/etc/passwd')","path":"/srv/a"}"#, "not known"),
        ("[", "cannot be checked"),
    ] {
        fails(only, outside, words);
    }
    let deep = format!(r#"{{"path":"/srv/a","x":{}1{}}}"#, "[".repeat(40), "]".repeat(40));
    fails(only, &deep, "too deep");
    let many = format!(r#"{{"path":"/srv/a","x":[{}1]}}"#, "1,".repeat(3000));
    fails(only, &many, "too many");
    let named = format!(r#"{{"path":"/srv/a","{}":[1,1]}}"#, "x".repeat(5000));
    fails(only, &named, "too long");
    let long = format!(r#"{{"path":"/srv/a","content":"{}"}}"#, "x".repeat(300_000));
    fails(only, &long, "too long");
}

#[test]
fn a_path_or_host_under_another_name_is_not_overlooked() {
    let closed = r#"{"paths":["docs"],"deny_paths":["secrets"]}"#;
    for name in
        ["output", "input", "target", "location", "outFile", "dest2", "path_2", "Path10", "x"]
    {
        let arguments = serde_json::json!({ "path": "docs/a", name: "secrets/x" }).to_string();
        fails(closed, &arguments, "denied");
    }
    for name in
        ["output", "input", "target", "location", "out", "saveTo", "dest2", "path_2", "PATH2"]
    {
        let arguments = serde_json::json!({ "path": "docs/a", name: "secrets" }).to_string();
        fails(closed, &arguments, "denied");
    }
    fails(closed, r#"{"path":"docs/a","x":"secrets\\x"}"#, "denied");
    fails(closed, r#"{"path":"docs/a","files":{"secrets/x":""}}"#, "denied");
    let one = r#"{"hosts":["ok.example"]}"#;
    for name in ["target", "location", "destination", "host2", "url_1", "output", "remote"] {
        let arguments =
            serde_json::json!({ "url": "https://ok.example", name: "evil.com" }).to_string();
        fails(one, &arguments, "not allowed");
    }
    // Arguments pass if they clearly name a target of another kind, or no target.
    passes(one, r#"{"url":"https://ok.example/a","output":"/tmp/a"}"#);
    passes(r#"{"paths":["/srv"]}"#, r#"{"path":"/srv/a","target":"https://a.example/b"}"#);
    for inside in [
        r#"{"path":"docs/a","mime_type":"text/plain","query":"and/or","regex":"a/\\d+"}"#,
        r#"{"path":"docs/a","content":"secrets/x","text_2":"secrets/x"}"#,
        r#"{"path":"docs/a","target_language":"de","output_format":"pdf","input_size":3}"#,
        r#"{"path":"docs/a","sha256":"00ff","url":"ftp://a.example/secrets"}"#,
    ] {
        passes(closed, inside);
    }
}

/// `path.resolve` of Node and `os.path.abspath` of Python turn an address with enough `..` into `/etc/passwd`.
#[test]
fn an_address_that_climbs_does_not_pass_a_limit_of_paths() {
    let only = r#"{"paths":["/srv/notes"]}"#;
    for address in [
        "http://x/../../../../../../etc/passwd",
        "https://x/a/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "https://x/a/%252e%252e/%252e%252e/etc/passwd",
        "http://x/..\\..\\..\\etc\\passwd",
        "http://x/?q=/../../../etc/passwd",
    ] {
        for name in ["paths", "source", "target", "x", "url"] {
            let texts =
                serde_json::json!({ "path": "/srv/notes/a", name: ["/srv/notes/b", address] });
            assert!(
                check(&scope(only), Some(&texts.to_string()), None).is_err(),
                "{name} {address}"
            );
        }
    }
    // In an argument whose name allows only a path, an address is refused.
    fails(only, r#"{"paths":["/srv/notes/a","https://example.com/a"]}"#, "not a path");
    // An ordinary address in another argument is subject to the limits on hosts, and not to the limits on paths.
    passes(only, r#"{"path":"/srv/notes/a","url":"https://example.com/v1...v2?q=a%20b"}"#);
}

#[test]
fn a_long_path_does_not_cost_the_square_of_its_parts() {
    let closed = scope(r#"{"paths":["**"],"deny_paths":["**/a/**/b","a/*/c"]}"#);
    let time = |parts: usize| {
        let path = serde_json::json!({ "path": "a/".repeat(parts) }).to_string();
        let once = || {
            let start = tokio::time::Instant::now();
            assert_eq!(check(&closed, Some(&path), None), Ok(()));
            start.elapsed()
        };
        (0..5).map(|_| once()).min().unwrap()
    };
    // With thirty times the components, linear time is thirty times as long, quadratic time nine hundred times. On a
    // busy machine one measurement may be wrong, but it is never near the quadratic time.
    let mut measured = Vec::new();
    let is_linear = (0..20).any(|_| {
        let (short, long) = (time(60), time(1800));
        measured.push((short, long));
        long < short * 120
    });
    assert!(is_linear, "60 and 1800 parts: {measured:?}");
}

#[test]
fn hosts_have_one_spelling() {
    let only = r#"{"hosts":["Example.com","*.api.example","127.0.0.1","::1","one.example:8443"]}"#;
    let url = |url: &str| serde_json::json!({ "url": url }).to_string();
    for inside in [
        "https://example.com/x?y=http%3A%2F%2Fz",
        "HTTPS://EXAMPLE.COM.",
        "//example.com/x",
        "example.com",
        "example.com:443",
        "https://a.api.example",
        "https://a.b.api.example:1/",
        "http://[::1]:80/",
        "http://[::ffff:127.0.0.1]/",
        "127.0.0.1",
        "::1",
        "https://one.example:8443/",
        "wss://example.com#a",
    ] {
        passes(only, &url(inside));
    }
    for (outside, words) in [
        ("https://evil.com", "not allowed"),
        ("https://evilexample.com", "not allowed"),
        ("https://example.com.evil.com", "not allowed"),
        ("https://api.example", "not allowed"),
        ("https://xapi.example", "not allowed"),
        ("https://example.com@evil.com/", "user name"),
        ("https://example.com:80@evil.com/", "user name"),
        ("https://evil.com#@example.com", "not allowed"),
        ("https://evil.com\\@example.com", "blanks or backslashes"),
        ("https://evil.com/\texample.com", "blanks or backslashes"),
        ("https://ex\u{e4}mple.com", "ASCII"),
        ("https://example\u{3002}com", "ASCII"),
        ("https://example%2ecom", "not a host name"),
        ("https://2130706433/", "odd spelling"),
        ("https://0x7f000001/", "odd spelling"),
        ("https://127.1/", "odd spelling"),
        ("https://0177.0.0.1/", "odd spelling"),
        ("https://[::1%25eth0]/", "not an address"),
        ("https://[::2]/", "not allowed"),
        ("https://one.example/", "not allowed"),
        ("https://example.com:99999", "port"),
        ("https://example.com:+80", "port"),
        ("https://", "not a host name"),
        ("https://..example.com", "not a host name"),
        ("file:///etc/passwd", "not an address"),
        ("/x", "not a host name"),
        ("see https://example.com", "blanks"),
    ] {
        fails(only, &url(outside), words);
    }
    fails(only, r#"{"url":"https://example.com","next":"https://evil.com"}"#, "not allowed");
    fails(only, r#"{"url":"https://example.com","x":"10.0.0.1"}"#, "not allowed");
    // A server that ignores the case of letters takes `addreſſ` for `address`.
    fails(only, r#"{"url":"https://example.com","addreſſ":"intranet"}"#, "not allowed");
    fails(only, r#"{"q":"x"}"#, "no argument names one");
    fails(only, r#"{"url":"https://example.com","command":"curl evil.com"}"#, "not known");
    let all_but = r#"{"hosts":["*"],"deny_hosts":["169.254.169.254","*.internal"]}"#;
    passes(all_but, &url("https://example.com"));
    fails(all_but, &url("http://169.254.169.254/"), "denied");
    fails(all_but, &url("http://[::ffff:a9fe:a9fe]/"), "denied");
    fails(all_but, &url("http://a.internal."), "denied");
    fails(r#"{"deny_hosts":["10.0.0.0/8"]}"#, &url("http://example.com"), "cannot be read");
}

#[test]
fn ports_come_from_the_address_or_stand_apart() {
    let only = r#"{"ports":[443,22]}"#;
    passes(only, r#"{"url":"https://a.example"}"#);
    passes(only, r#"{"url":"http://a.example:443"}"#);
    passes(only, r#"{"host":"a.example","port":22}"#);
    passes(only, r#"{"host":"a.example","port":"22"}"#);
    fails(only, r#"{"url":"http://a.example"}"#, "port 80");
    fails(only, r#"{"host":"a.example"}"#, "without a port");
    fails(only, r#"{"url":"https://a.example:8443"}"#, "port 8443");
    fails(only, r#"{"host":"a.example:25","port":22}"#, "port 25");
    fails(only, r#"{"url":"http://10.0.0.5/","port":443}"#, "port 80");
    passes(only, r#"{"url":"https://a.example","port":443}"#);
    fails(only, r#"{"host":"a.example","port":25}"#, "port 25");
    fails(only, r#"{"host":"a.example","port":-1}"#, "port cannot be read");
    fails(only, r#"{"host":"a.example","port":"x"}"#, "port cannot be read");
    fails(only, r#"{"port":22}"#, "no argument names one");
    fails(r#"{"ports":[]}"#, r#"{"url":"https://a.example"}"#, "port 443");
}

#[test]
fn commands_are_single_programs() {
    let only = r#"{"commands":["git","ls","npm run","/opt/x"]}"#;
    for inside in [
        r#"{"command":"git status"}"#,
        r#"{"command":"'git' log --oneline"}"#,
        r#"{"command":"/usr/bin/git status"}"#,
        r#"{"command":["git","status","-s"]}"#,
        r#"{"cmd":"npm run build"}"#,
        r#"{"command":"/opt/x y"}"#,
        r#"{"commands":["git status","ls"],"description":"Lists; then (shows)."}"#,
        r#"{"command":"git","args":["status"]}"#,
    ] {
        passes(only, inside);
    }
    for (outside, words) in [
        (r#"{"command":"rm -rf /"}"#, "not allowed"),
        (r#"{"command":"/tmp/git status"}"#, "not allowed"),
        (r#"{"command":"x /usr/bin/git"}"#, "not allowed"),
        (r#"{"command":"npm install"}"#, "not allowed"),
        (r#"{"command":"gitk"}"#, "not allowed"),
        (r#"{"command":"git status; rm x"}"#, "shell"),
        (r#"{"command":"git status && rm x"}"#, "shell"),
        (r#"{"command":"git $(rm x)"}"#, "shell"),
        (r#"{"command":"git `rm x`"}"#, "shell"),
        (r#"{"command":"git status\nrm x"}"#, "shell"),
        (r#"{"command":"git > /etc/x"}"#, "shell"),
        (r#"{"command":"g\\it"}"#, "shell"),
        (r#"{"command":"git \"x"}"#, "quote"),
        (r#"{"command":"A=b git"}"#, "not a command"),
        (r#"{"command":"git\u00a0status"}"#, "blanks"),
        (r#"{"command":""}"#, "names none"),
        (r#"{"command":[]}"#, "names none"),
        (r#"{"command":["git",["x"]]}"#, "can be read"),
        (r#"{"command":"git","args":["status",";rm"]}"#, "shell"),
        (r#"{"commands":["git status","rm x"]}"#, "not allowed"),
        (r#"{"command":"git","program":"rm"}"#, "not allowed"),
        (r#"{"command":"git","env":{"GIT_SSH":"rm"}}"#, "environment"),
        (r#"{"command":"git","script":"rm"}"#, "code"),
        (r#"{"command":"sudo git status"}"#, "another user"),
        (r#"{"command":"git","args":["sudo"]}"#, "another user"),
        (r#"{"x":"git"}"#, "no argument names one"),
    ] {
        fails(only, outside, words);
    }
    let with_sudo = r#"{"commands":["ls"],"allow_sudo":true}"#;
    passes(with_sudo, r#"{"command":"sudo ls /"}"#);
    passes(with_sudo, r#"{"command":"ls"}"#);
    fails(with_sudo, r#"{"command":"sudo rm"}"#, "not allowed");
    fails(with_sudo, r#"{"command":"sudo -u x ls"}"#, "not a command");
    fails(with_sudo, r#"{"command":"/tmp/sudo ls"}"#, "plain");
    fails(with_sudo, r#"{"command":"su ls"}"#, "plain");
    let all_but = r#"{"deny_commands":["rm","git push"]}"#;
    passes(all_but, r#"{"command":"git status"}"#);
    for closed in [
        "rm x",
        "/bin/rm x",
        "env rm x",
        "RM.exe x",
        "'rm' x",
        "git push",
        "git -C /x push",
        "xargs 'rm -f'",
    ] {
        fails(all_but, &serde_json::json!({ "command": closed }).to_string(), "denied");
    }
    fails(all_but, r#"{"command":"git","args":["push"]}"#, "denied");
    fails(all_but, r#"{"command":["env","r''m","x"]}"#, "denied");
    fails(r#"{"allow_sudo":false}"#, r#"{"command":"sudo ls"}"#, "another user");
    fails(r#"{"allow_sudo":false}"#, r#"{"command":"\u017fudo ls"}"#, "another user");
    passes(r#"{"allow_sudo":false}"#, r#"{"command":"ls"}"#);
}

#[test]
fn languages_and_times_are_limits_too() {
    let two = r#"{"languages":["python","Ruby"]}"#;
    passes(two, r#"{"language":"Python","code":"1"}"#);
    fails(two, r#"{"language":"bash"}"#, "not allowed");
    fails(two, r#"{"language":"python","lang":"bash"}"#, "not allowed");
    fails(two, r#"{"language":7}"#, "should be a text");
    fails(two, r#"{"code":"1"}"#, "no argument names one");
    let briefly = r#"{"max_execution_time_ms":5000}"#;
    passes(briefly, r#"{"timeout_ms":5000}"#);
    passes(briefly, r#"{"timeoutSeconds":5}"#);
    passes(briefly, r#"{"max_execution_time_ms":1}"#);
    // A number without a unit counts as seconds.
    passes(briefly, r#"{"timeout":5}"#);
    fails(briefly, r#"{"timeout":5000}"#, "5000000 ms");
    fails(briefly, r#"{"timeout_ms":5000.5}"#, "5001 ms");
    fails(briefly, r#"{"timeout_ms":-1}"#, "not a time");
    fails(briefly, r#"{"timeout_ms":1e300}"#, "not a time");
    fails(briefly, r#"{"timeout":"5s"}"#, "not a time");
    fails(briefly, "{}", "no argument sets");
}

#[test]
fn limits_that_are_not_known_are_not_met() {
    fails(r#"{"max_rows":5}"#, r#"{"path":"/srv"}"#, "`max_rows`");
    passes("{}", "{}");
    assert_eq!(check(&scope("{}"), None, None), Ok(()));
    fails(r#"{"paths":["/srv"],"hosts":["a.example"]}"#, r#"{"path":"/srv/x"}"#, "hosts");
}

proptest! {
    #[test]
    fn no_spelling_of_a_path_leads_out(
        parts in proptest::collection::vec(
            prop_oneof![
                Just(".."), Just("."), Just(""), Just("%2e%2e"), Just("%252e%252e"), Just("..%2f"), Just("..\\"),
                Just("data"), Just("srv"), Just("x"), Just("etc"), Just("~"), Just("C:"), Just("%5c.."), Just("*"),
            ],
            0..12,
        ),
        separator in prop_oneof![Just("/"), Just("//"), Just("\\"), Just("%2f")],
        head in prop_oneof![Just("/srv/data/"), Just("/"), Just(""), Just("file:///srv/data/"), Just("\\\\srv\\data\\")],
    ) {
        let text = format!("{head}{}", parts.join(separator));
        let arguments = serde_json::json!({ "path": text }).to_string();
        if check(&scope(r#"{"paths":["/srv/data"]}"#), Some(&arguments), None).is_ok() {
            // Interpret the text as the least careful server would.
            let mut careless = text.replace("file://", "");
            for _ in 0..4 {
                careless = careless.replace("%25", "%").replace("%2e", ".").replace("%2f", "/").replace("%5c", "\\");
                let mut at: Vec<&str> = Vec::new();
                for part in careless.split(['/', '\\']) {
                    match part {
                        "" | "." => {}
                        ".." => drop(at.pop()),
                        part => at.push(part),
                    }
                }
                prop_assert!(at.starts_with(&["srv", "data"]), "{} leads to {:?}", text, at);
            }
        }
    }

    #[test]
    fn a_closed_path_never_opens_what_was_closed(extra in "[a-z/.*]{1,12}", text in "[a-z/.%2e\\\\]{1,20}") {
        let arguments = serde_json::json!({ "path": text }).to_string();
        let before = check(&scope(r#"{"paths":["/a","/b"]}"#), Some(&arguments), None);
        let narrower = serde_json::json!({ "paths": ["/a", "/b"], "deny_paths": [extra] }).to_string();
        let after = check(&scope(&narrower), Some(&arguments), None);
        prop_assert!(before.is_ok() || after.is_err(), "{narrower} opens {text}");
    }

    #[test]
    fn nothing_breaks_the_check(arguments in ".{0,200}", name in "[a-zA-Z_]{0,10}", value in ".{0,80}") {
        let all = scope(r#"{"paths":["/a"],"deny_paths":["b"],"hosts":["c"],"ports":[1],"commands":["d"],"languages":["e"],"max_execution_time_ms":1}"#);
        let _ = check(&all, Some(&arguments), None);
        for limits in [r#"{"paths":["/a"],"deny_paths":["b"]}"#, r#"{"hosts":["c"],"ports":[1]}"#, r#"{"commands":["d"]}"#] {
            let _ = check(&scope(limits), Some(&serde_json::json!({ name.clone(): value.clone() }).to_string()), None);
            for name in ["path", "url", "command"] {
                let _ = check(&scope(limits), Some(&serde_json::json!({ name: value.clone() }).to_string()), None);
            }
        }
    }
}

#[test]
fn similar_calls_add_no_other_kind_of_target() {
    let is_like = |approved: &str, call: &str| {
        super::is_like(&super::like(approved).unwrap(), Some(call), None).is_ok()
    };
    let page = r#"{"url":"https://api.example.com/x"}"#;
    assert!(is_like(page, r#"{"url":"https://api.example.com/y"}"#));
    let saved = r#"{"url":"https://api.example.com/x","output":"/home/u/.bashrc"}"#;
    assert!(!is_like(page, saved));
    let file = r#"{"path":"/srv/notes/a.txt"}"#;
    assert!(is_like(file, r#"{"path":"/srv/notes/b.txt"}"#));
    assert!(!is_like(file, r#"{"path":"/srv/notes/b.txt","webhook":"https://evil.example"}"#));
    assert!(!is_like(file, r#"{"path":"/srv/notes/b.txt","command":"rm x"}"#));
    assert!(is_like(r#"{"command":"rm"}"#, r#"{"command":"rm"}"#));
    assert!(!is_like(r#"{"command":"rm"}"#, r#"{"command":"rm","args":["-rf","/home/ann"]}"#));
}
