//! Tests of entries of a registry: whether they name exact code, whether they are withdrawn, and the values they need.

use serde_json::{Value, json};

use crate::import::{Answers, Bundle, Entry, ImportOutcome, Plan, PublishedServer};

/// Returns the entry of a registry for a server with one package.
fn entry(package: &Value) -> PublishedServer {
    let server = json!({ "name": "com.acme/weather", "version": "1", "packages": [package] });
    PublishedServer::new(json!({ "server": server })).unwrap()
}

#[test]
fn only_a_name_in_the_registry_of_its_kind_is_exact() {
    let is_exact = |kind: &str, name: &str| {
        entry(&json!({ "registryType": kind, "identifier": name, "version": "1.0.0" })).is_exact()
    };
    for (kind, name) in [
        ("npm", "weather"),
        ("npm", "@acme/weather.v2"),
        ("npm", "Weather_2~x"),
        ("pypi", "mcp-server-git"),
        ("pypi", "mcp-server-git[fast,x.y]"),
    ] {
        assert!(is_exact(kind, name), "{kind} {name}");
    }
    for (kind, name) in [
        // `npm` interprets these names as repositories of GitHub, as a branch of a repository, or as files.
        ("npm", "evil/repo"),
        ("npm", "evil/repo#"),
        ("npm", "files@evil/repo#"),
        ("npm", "files@evil/repo"),
        ("npm", "@a/b/c"),
        ("npm", "@acme"),
        ("npm", "evil.tgz"),
        ("npm", "./evil"),
        ("npm", "--evil"),
        ("npm", "files#main"),
        ("pypi", "git+https://a.example/x"),
        ("pypi", "name @ https://a.example/x"),
        ("pypi", "name[a"),
        ("pypi", "../evil"),
    ] {
        assert!(!is_exact(kind, name), "{kind} {name}");
    }
}

#[test]
fn only_a_full_version_is_exact() {
    let is_exact = |kind: &str, version: &str| {
        entry(&json!({ "registryType": kind, "identifier": "weather", "version": version }))
            .is_exact()
    };
    for (kind, version) in [
        ("npm", "1.20.3"),
        ("npm", "1.0.0-beta.1"),
        ("npm", "1.0.0-a-b+build.2"),
        ("pypi", "1.0"),
        ("pypi", "1!2.0.3rc1"),
    ] {
        assert!(is_exact(kind, version), "{kind} {version}");
    }
    for (kind, version) in [
        ("npm", ""),
        ("npm", "latest"),
        ("npm", "1.0"),
        ("npm", "^1.0.0"),
        ("npm", "1.0.x"),
        // `npm` interprets these versions as tags, which can be moved, or as files.
        ("npm", "1.0.0.1"),
        ("npm", "1.0.0_x"),
        ("npm", "1.0.0!x"),
        ("npm", "1.0.0-"),
        ("npm", "1.0.0-a..b"),
        ("npm", "1.0.0.tgz"),
        ("npm", "1.0.0-x.tgz"),
        ("npm", "1.0.0-x.TAR-gz"),
        ("pypi", "1.*"),
        ("pypi", ">=1.0"),
        ("pypi", "latest"),
    ] {
        assert!(!is_exact(kind, version), "{kind} {version}");
    }
}

#[test]
fn a_container_image_is_exact_only_by_its_digest_and_without_arguments() {
    let digest = "0123456789abcdef".repeat(4);
    let image = |name: String, arguments: Value| {
        let package =
            json!({ "registryType": "oci", "identifier": name, "runtimeArguments": arguments });
        entry(&package).is_exact()
    };
    assert!(image(format!("ghcr.io:443/good/x@sha256:{digest}"), json!([])));
    for name in [
        "good/x:1.0.0".to_owned(),
        format!("good/x@sha256:{digest}0"),
        format!("good/x@sha256:{}", &digest[1..]),
        format!("good/x@sha256:{digest}/../evil"),
        format!("--x@sha256:{digest}"),
    ] {
        assert!(!image(name.clone(), json!([])), "{name}");
    }
    for argument in [
        json!({ "type": "positional", "value": "evil/x:latest" }),
        json!({ "type": "named", "name": "--entrypoint", "value": "sh" }),
        json!({ "type": "positional", "value": "--yes" }),
    ] {
        assert!(!image(format!("good/x@sha256:{digest}"), json!([argument])), "{argument}");
    }
}

#[test]
fn a_deleted_server_is_withdrawn_and_a_deprecated_one_is_not_deleted() {
    let found = |status: &str| {
        let server = json!({ "name": "com.acme/weather", "version": "1" });
        let official = json!({ "io.modelcontextprotocol.registry/official": { "status": status } });
        let server = PublishedServer::new(json!({ "server": server, "_meta": official })).unwrap();
        (server.is_withdrawn, server.is_deleted)
    };
    assert_eq!(found("active"), (false, false));
    assert_eq!(found("deprecated"), (true, false));
    assert_eq!(found("deleted"), (true, true));
}

#[test]
fn the_entry_names_the_argument_of_its_package() {
    for (kind, expected) in
        [("npm", "weather@1.0.0"), ("pypi", "weather==1.0.0"), ("oci", "weather:1.0.0")]
    {
        let server = entry(&json!({ "registryType": kind, "identifier": "weather",
            "version": "1.0.0", "packageArguments": [{ "type": "positional", "value": "a@2:3" }] }));
        let imported = &server.import(&Answers::new()).servers[0].entry;
        assert_eq!(imported.package.as_deref(), Some(expected));
        assert_eq!(imported.args.last().unwrap(), "a@2:3");
    }
}

#[test]
fn a_package_is_started_with_its_version_although_its_name_ends_with_the_same_characters() {
    for (kind, name, expected) in [
        ("npm", "@acme/weather-1.0.0", "@acme/weather-1.0.0@1.0.0"),
        ("npm", "@acme/weather@1.0.0", "@acme/weather@1.0.0"),
        ("npm", "weather@v1.0.0", "weather@v1.0.0"),
        ("pypi", "weather@1.0.0", "weather@1.0.0"),
        ("pypi", "weather==1.0.0", "weather==1.0.0"),
    ] {
        let server =
            entry(&json!({ "registryType": kind, "identifier": name, "version": "1.0.0" }));
        let package = server.import(&Answers::new()).servers[0].entry.package.clone();
        assert_eq!(package.as_deref(), Some(expected), "{kind} {name}");
    }
}

#[test]
fn a_package_whose_name_is_an_option_is_not_started() {
    for kind in ["npm", "pypi", "oci"] {
        let package = json!({"registryType": kind, "identifier": "--call=id", "version": "1.0.0"});
        let import = entry(&package).import(&Answers::new());
        assert!(import.servers.is_empty() && import.refused.len() == 1, "{kind}: {import:?}");
    }
}

/// Returns the imported entry of a bundle that has this `mcp_config` in its manifest.
fn start(config: &Value) -> Result<Entry, String> {
    let mut config = config.clone();
    config["command"] = json!("node");
    let manifest =
        json!({"name": "a", "version": "1", "server": {"type": "node", "mcp_config": config}});
    let mut import = Bundle::new(&manifest)?.import("/b".as_ref(), &Answers::new());
    Ok(import.servers.remove(0).entry)
}

#[test]
fn numbers_and_booleans_in_the_manifest_of_a_bundle_become_texts() {
    let entry = start(&json!({"args": ["--port", 8080, true], "env": {"PORT": 8080}})).unwrap();
    assert_eq!(entry.args, ["--port", "8080", "true"]);
    assert!(entry.env.into_iter().eq([("PORT".to_owned(), "8080".to_owned())]));
    assert!(start(&json!({"args": null, "env": null})).is_ok());
}

#[test]
fn a_bundle_that_would_start_without_some_arguments_is_refused() {
    for (config, member) in [
        (json!({"args": "--port 8080"}), "args"),
        (json!({"args": [["--port"]]}), "args"),
        (json!({"args": [null]}), "args"),
        (json!({"env": ["A=1"]}), "env"),
        (json!({"env": {"A": {"B": "1"}}}), "env"),
    ] {
        let why = start(&config).unwrap_err();
        assert!(why.contains(&format!("`server.mcp_config.{member}`")), "{config}: {why}");
    }
}

#[test]
fn a_small_manifest_of_a_bundle_does_not_become_a_huge_entry() {
    let import = |args: Vec<&str>, default: Value| {
        let config = json!({"command": "node", "args": args});
        let manifest = json!({"name": "a", "version": "1", "user_config": {"s": {"default": default}},
            "server": {"type": "node", "mcp_config": config}});
        Bundle::new(&manifest).unwrap().import("/b".as_ref(), &Answers::new())
    };
    let long = json!("x".repeat(60_000));
    assert_eq!(import(vec!["${user_config.s}"; 10], long.clone()).servers[0].entry.args.len(), 10);
    let texts = "${user_config.s}".repeat(10_000);
    for (args, default) in [
        (vec!["${user_config.s}"; 10_000], long),
        (vec!["${user_config.s}"; 10_000], json!(vec![""; 10_000])),
        (vec![texts.as_str()], json!(vec![""; 10_000])),
    ] {
        let import = import(args, default);
        assert!(import.servers.is_empty() && import.refused.len() == 1);
        assert!(import.refused[0].why.contains("too long"), "{}", import.refused[0].why);
    }
}

/// Returns an entry of a registry for a remote server with this URL and these variables.
fn remote(url: &str, variables: &Value) -> PublishedServer {
    let remote = json!({"type": "streamable-http", "url": url, "variables": variables});
    let server = json!({"name": "com.acme/weather", "version": "1", "remotes": [remote]});
    PublishedServer::new(json!({ "server": server })).unwrap()
}

/// Returns the URL of the imported entry of a remote server with this URL and these variables.
fn url(url: &str, variables: &Value) -> String {
    remote(url, variables).import(&Answers::new()).servers.remove(0).entry.url.unwrap()
}

#[test]
fn a_variable_that_is_used_twice_is_needed_once() {
    let server = remote("https://{t}.example/{t}", &json!({"t": {"isRequired": true}}));
    let needs = server.needs();
    assert!(needs.len() == 1 && needs[0].variable == "T" && needs[0].is_required, "{needs:?}");
    assert_eq!(server.import(&Answers::new()).servers[0].notes.len(), 1);
}

#[test]
fn a_small_document_does_not_become_a_huge_url() {
    let long = url(&"{a}".repeat(100_000), &json!({"a": {"default": "x".repeat(1000)}}));
    assert!(long.len() < 500_000, "{}", long.len());
    let mut described = json!({"value": ""});
    for _ in 0..50 {
        described = json!({"value": "{a}{a}", "variables": {"a": described}});
    }
    assert_eq!(url("{a}{a}", &json!({ "a": described })), "${A:-}${A:-}");
}

#[test]
fn an_entry_whose_package_cannot_be_started_is_not_exact() {
    let package = json!({"registryType": "mcpb", "identifier": format!("a@sha256:{:064}", 0)});
    let remote = json!({"type": "sse", "url": "https://a.example"});
    let server = json!({"name": "com.acme/a", "packages": [package], "remotes": [remote]});
    assert!(!PublishedServer::new(server).unwrap().is_exact());
}

#[test]
fn an_entry_that_is_longer_than_a_configuration_file_is_left_out() {
    let argument = json!({"type": "positional", "value": "x".repeat(60_000)});
    let package =
        json!({"registryType": "npm", "identifier": "a", "packageArguments": vec![argument; 20]});
    let import = entry(&package).import(&Answers::new());
    let plan = Plan::from_text("mgp.toml", "", &[import]).unwrap();
    let outcome = &plan.lines()[0].outcome;
    let is_left_out = matches!(outcome, ImportOutcome::Skipped(why) if why.contains("too long"));
    assert!(is_left_out, "{outcome:?}");
}
