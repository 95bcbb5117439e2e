//! Tests of bundles (`.mcpb`).

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::place::Place;
use crate::kernel::Kernel;
use crate::program::program;
use crate::world::Home;

fn manifest(version: &str) -> Value {
    json!({
        "manifest_version": "0.3", "name": "desk-tools", "version": version, "description": "Echoes",
        "author": { "name": "Acme" },
        "server": { "type": "binary", "entry_point": "server/echo", "mcp_config": {
            "command": "${__dirname}/server/echo", "args": ["--tools", "${user_config.tools}"],
            "env": { "DESK_TOKEN": "${user_config.token}", "DESK_FOLDER": "${user_config.folder}" },
        } },
        "user_config": {
            "token": { "type": "string", "title": "Token", "sensitive": true, "required": true },
            "tools": { "type": "number", "default": 3 },
            "folder": { "type": "directory", "default": "${DOCUMENTS}" },
        },
    })
}

/// Writes an archive with these files, and marks them as executable.
fn archive(path: &Path, files: &[(&str, &[u8])]) -> PathBuf {
    let mut zip = ZipWriter::new(fs::File::create(path).unwrap());
    for (name, bytes) in files {
        zip.start_file(
            *name,
            SimpleFileOptions::default()
                .compression_method(zip::CompressionMethod::Stored)
                .unix_permissions(0o755),
        )
        .unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap();
    path.to_owned()
}

fn bundle(home: &Home, version: &str) -> String {
    let manifest = manifest(version).to_string();
    let echo = fs::read(program("echo")).unwrap();
    let files = [("manifest.json", manifest.as_bytes()), ("server/echo", &echo)];
    archive(&home.path(&format!("desk-{version}.mcpb")), &files).to_str().unwrap().to_owned()
}

#[test]
fn a_bundle_is_added_and_replaced() {
    let home = Home::new();
    let file = bundle(&home, "1.0.0");
    let shown = home.run(&["servers", "add", &file, "--dry-run"]);
    assert!(shown.err.contains("TOKEN (required, secret)"), "{shown:?}");
    assert!(!home.own().exists() && !home.path(".local/state/mgp/bundles").exists());
    home.succeed(&[
        "servers",
        "add",
        &file,
        "--id",
        "desk",
        "--yes",
        "--set",
        "TOKEN=geheim8",
        "--agent",
        "ada",
        "--new-agent",
    ]);
    let text = fs::read_to_string(home.own()).unwrap();
    assert!(text.contains("published = \"desk-tools@1.0.0\""), "{text}");
    assert!(text.contains("${keyring:desk.TOKEN}") && !text.contains("geheim8"), "{text}");
    assert!(text.contains("DESK_FOLDER = \"${HOME}/Documents\""), "{text}");
    let report = home.succeed(&["doctor", "desk"]);
    assert!(report.contains("4 tools"), "{report}");

    let other = bundle(&home, "1.1.0");
    let updated = home.succeed(&["servers", "update", "desk", "--bundle", &other, "--yes"]);
    let back = "  back: `mgp servers update desk --bundle FILE`, with the earlier file\n";
    assert!(updated.contains(back), "{updated}");
    home.fail(
        1,
        &["servers", "update", "desk"],
        "`desk` came from a bundle; give the new one with",
    );
    let text = fs::read_to_string(home.own()).unwrap();
    assert!(
        text.contains("desk-tools@1.1.0") && text.contains("bundles/desk/1.1.0/server/echo"),
        "{text}"
    );
    assert!(!text.contains("1.0.0/server"), "{text}");
    home.succeed(&["doctor", "desk"]);

    // `mgp servers rm` also removes the files of a bundle, unless another server runs in their folder.
    let add =
        ["servers", "add", &other, "--yes", "--no-grant", "--set", "TOKEN=x", "--id", "second"];
    home.succeed(&add);
    let folder = |id: &str| home.path(".local/state/mgp/bundles").join(id);
    let inside = folder("second").join("1.1.0");
    let inside = inside.to_str().unwrap();
    home.succeed(&["servers", "add", "user", "--no-grant", "--cwd", inside, "--", "sh"]);
    home.succeed(&["servers", "rm", "second"]);
    assert!(folder("second").exists(), "another server runs there");
    let removed = home.run(&["servers", "rm", "desk"]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    assert!(removed.err.contains("the files of its bundle in"), "{removed:?}");
    assert!(!folder("desk").exists() && folder("second").exists());
}

#[test]
fn a_bundle_that_a_registry_names_is_downloaded_checked_and_replaced() {
    let home = Home::new();
    let place = Place::with(Vec::new());
    let publish = |version: &str, url: &str, sha256: &str| {
        json!({ "server": { "name": "io.github.acme/desk", "description": "Echoes", "version": version, "packages": [
            { "registryType": "mcpb", "identifier": format!("{}/files/desk-win32-x64.mcpb", place.url), "fileSha256": sha256 },
            { "registryType": "mcpb", "identifier": url, "fileSha256": sha256 },
        ] } })
    };
    let served = |version: &str| {
        let content = fs::read(bundle(&home, version)).unwrap();
        let sha256 = mgp_types::Sha256Hash::digest(&content).to_string();
        let sha256 = sha256.trim_start_matches("sha256:").to_owned();
        (place.serve(&format!("desk-{version}.mcpb"), content), sha256)
    };
    let (url, sha256) = served("1.0.0");
    let add = ["servers", "add", "io.github.acme/desk", "--yes", "--no-grant", "--set", "TOKEN=x"];
    let with = |arguments: &[&str]| {
        let all: Vec<&str> = arguments.iter().copied().chain(["--registry", &place.url]).collect();
        home.run(&all)
    };
    for (url, sha256, why) in [
        (&*url, "0".repeat(64), "is not the one that the registry names"),
        (&*url, String::new(), "has no `fileSha256`"),
        (&*place.url.replace("127.0.0.1", "localhost"), sha256.clone(), "it is not https"),
        (&*format!("{}/files/inside", place.url), sha256.clone(), "it is not https"),
        (&*format!("{}/files/none", place.url), sha256.clone(), "404"),
        ("https://169.254.169.254/x.mcpb", sha256.clone(), "169.254.169.254"),
    ] {
        place.replace(vec![publish("1.0.0", url, &sha256)]);
        let refused = with(&add);
        assert!(refused.code == Some(1) && refused.err.contains(why), "{why}: {refused:?}");
        assert!(!home.own().exists(), "{why}");
    }
    let moved = url.replace("/files/", "/files/moved-");
    place.replace(vec![publish("1.0.0", &moved, &sha256.to_uppercase())]);
    let shown = with(&["servers", "add", "io.github.acme/desk", "--dry-run"]);
    assert!(shown.err.contains("TOKEN (required, secret)"), "{shown:?}");
    let bundles = home.path(".local/state/mgp/bundles");
    let files = || fs::read_dir(&bundles).unwrap().flatten().count();
    assert_eq!(files(), 0, "a dry run leaves nothing");
    let added = with(&add);
    assert_eq!(added.code, Some(0), "{added:?}");
    let text = fs::read_to_string(home.own()).unwrap();
    assert!(text.contains("published = \"io.github.acme/desk@1.0.0\""), "{text}");
    assert!(home.succeed(&["doctor", "desk"]).contains("4 tools"));

    let (url, sha256) = served("1.1.0");
    place.replace(vec![publish("1.0.0", &moved, ""), publish("1.1.0", &url, &sha256)]);
    let newer = with(&["servers", "update", "--yes"]);
    assert!(newer.out.starts_with("updated desk  1.0.0 → 1.1.0"), "{newer:?}");
    let text = fs::read_to_string(home.own()).unwrap();
    assert!(text.contains("bundles/desk/1.1.0/server/echo") && !text.contains("1.0.0/"), "{text}");
    assert!(text.contains("published = \"io.github.acme/desk@1.1.0\""), "{text}");
    assert_eq!(files(), 1, "the downloads are gone");
}

#[test]
fn a_bundle_that_leads_out_of_its_folder_is_refused() {
    let home = Home::new();
    let manifest = manifest("1").to_string();
    let path = home.path("evil.mcpb");
    let add = ["servers", "add", path.to_str().unwrap(), "--yes", "--no-grant"];
    for name in ["../../owned", "/tmp/owned", "a/../../owned", "C:\\owned", "a\\..\\..\\owned"] {
        archive(&path, &[("manifest.json", manifest.as_bytes()), (name, b"x")]);
        home.fail(1, &add, "leads out of its folder");
        assert!(!home.own().exists(), "{name}");
        let state = home.path(".local/state/mgp");
        let names = || fs::read_dir(state.join("bundles/desk-tools")).unwrap().flatten();
        assert_eq!(names().count(), 0, "{name}: {:?}", names().collect::<Vec<_>>());
    }
    let mut zip = ZipWriter::new(fs::File::create(&path).unwrap());
    zip.start_file("manifest.json", SimpleFileOptions::default()).unwrap();
    zip.write_all(manifest.as_bytes()).unwrap();
    zip.add_symlink("server", "/etc", SimpleFileOptions::default()).unwrap();
    zip.finish().unwrap();
    home.fail(1, &add, "`server` is a link");
    archive(&path, &[("manifest.json", manifest.as_bytes()), ("a", b"x"), ("a/b", b"y")]);
    home.fail(1, &add, "was not unpacked: `a/b`: ");
    archive(&path, &[("x", b"y")]);
    home.fail(1, &add, "has no `manifest.json`");
    fs::write(&path, "no archive").unwrap();
    home.fail(1, &add, "is not a bundle");
    archive(&path, &[("manifest.json", &vec![b'['; 2 << 20])]);
    home.fail(1, &add, "its manifest is too long");
    archive(&path, &[("manifest.json", b"{\"name\": \"x\"}")]);
    home.fail(1, &add, "its manifest has no `version`");
}

#[test]
fn the_files_of_a_bundle_whose_entry_was_deleted_by_hand_are_removed_with_the_server() {
    let home = Home::new();
    let file = bundle(&home, "1.0.0");
    let add = ["servers", "add", &file, "--id", "desk", "--yes", "--no-grant", "--set", "TOKEN=x"];
    home.succeed(&add);
    home.configure("");
    let removed = home.run(&["servers", "rm", "desk"]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    assert!(removed.err.contains("removed with it: the files of its bundle"), "{removed:?}");
    assert!(!home.path(".local/state/mgp/bundles/desk").exists());
    home.fail(1, &["servers", "rm", "desk"], "there is no server `desk`");
}

#[test]
fn the_files_of_a_bundle_stay_if_the_kernel_has_a_server_of_its_id_from_another_file() {
    let home = Home::new();
    let file = bundle(&home, "1.0.0");
    let add = ["servers", "add", &file, "--id", "desk", "--yes", "--no-grant", "--set", "TOKEN=x"];
    home.succeed(&add);
    home.configure("");
    let other = home.write("c.toml", "[[servers]]\nid = 'desk'\ncommand = 'no-such-program'\n");
    let kernel = Kernel::on(home, Some(&other));
    kernel.home.fail(1, &["servers", "rm", "desk"], "name that file with --config");
    assert!(kernel.home.path(".local/state/mgp/bundles/desk").exists());
}

#[test]
fn a_bundle_whose_users_cannot_be_listed_is_not_unpacked() {
    let home = Home::new();
    let file = bundle(&home, "1.0.0");
    // A folder in the place of the list cannot be written.
    let folder = home.path(".local/state/mgp/bundles/desk");
    let mut builder = fs::DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder.join(".users")).unwrap();
    let add = ["servers", "add", &file, "--id", "desk", "--yes", "--no-grant", "--set", "TOKEN=x"];
    home.fail(1, &add, "Is a directory");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    assert!(!home.own().exists());
}

#[test]
fn a_bundle_whose_name_cannot_be_an_id_needs_another_one() {
    let home = Home::new();
    let mut manifest = manifest("1");
    manifest["name"] = json!("погода");
    // Some editors write a byte order mark before the manifest.
    let text = format!("\u{feff}{manifest}");
    let path = archive(&home.path("weather.mcpb"), &[("manifest.json", text.as_bytes())]);
    let add = ["servers", "add", path.to_str().unwrap(), "--yes", "--no-grant", "--set", "TOKEN=x"];
    home.fail(2, &add, "choose one with --id");
    let with_id: Vec<&str> = add.iter().copied().chain(["--id", "weather"]).collect();
    home.succeed(&with_id);
}

#[test]
fn only_the_files_of_two_versions_of_a_bundle_are_kept() {
    let home = Home::new();
    let file = bundle(&home, "1.0.0");
    let add = ["servers", "add", &file, "--id", "desk", "--yes", "--no-grant", "--set", "TOKEN=x"];
    home.succeed(&add);
    let folder = home.path(".local/state/mgp/bundles/desk");
    for name in [".new0", ".newer"] {
        fs::create_dir(folder.join(name)).unwrap();
    }
    let left = fs::File::open(folder.join(".new0")).unwrap();
    left.set_modified(SystemTime::now() - Duration::from_hours(48)).unwrap();
    for version in ["1.1.0", "1.2.0"] {
        let other = bundle(&home, version);
        home.succeed(&["servers", "update", "desk", "--bundle", &other, "--yes"]);
    }
    let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    // The comment above the server still names 1.0.0, but no server runs this version, so its folder is gone.
    let text = fs::read_to_string(home.own()).unwrap();
    assert_eq!(names, [".newer", ".users", "1.1.0", "1.2.0"], "{text}");
    assert!(home.succeed(&["doctor", "desk"]).contains("4 tools"));
}

#[test]
fn the_files_of_a_bundle_stay_while_a_server_of_another_file_runs_them() {
    let home = Home::new();
    let (own, old) = (home.configure(""), bundle(&home, "1.0.0"));
    let other = home.write("project/servers.toml", "");
    let run = |config: &Path, arguments: &[&str]| {
        let config = ["--config", config.to_str().unwrap()];
        let ended = home.run(&[arguments, &config].concat());
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.err
    };
    let add = ["servers", "add", &old, "--id", "desk", "--yes", "--no-grant", "--set", "TOKEN=x"];
    for config in [&own, &other] {
        run(config, &add);
    }
    for version in ["1.1.0", "1.2.0"] {
        let new = bundle(&home, version);
        run(&own, &["servers", "update", "desk", "--bundle", &new, "--yes"]);
    }
    let folder = home.path(".local/state/mgp/bundles/desk");
    let has_old = || folder.join("1.0.0/server/echo").exists();
    assert!(has_old(), "the other file's server runs this version");
    let removed = run(&own, &["servers", "rm", "desk"]);
    assert!(has_old() && removed.contains("stay, because another server may use"), "{removed}");
    run(&other, &["servers", "rm", "desk"]);
    assert!(!folder.exists(), "no server is left");
}

/// Applies `change` to the manifest of this version of the bundle, writes its archive, and returns the path.
fn changed(home: &Home, version: &str, change: impl FnOnce(&mut Value)) -> String {
    let mut manifest = manifest(version);
    change(&mut manifest);
    let (path, text) = (home.path(&format!("changed-{version}.mcpb")), manifest.to_string());
    archive(&path, &[("manifest.json", text.as_bytes())]).to_str().unwrap().to_owned()
}

#[test]
fn an_update_of_a_bundle_applies_the_new_manifest_or_is_refused() {
    let home = Home::new();
    let file = bundle(&home, "1.0.0");
    let add = ["servers", "add", &file, "--id", "desk", "--yes", "--no-grant", "--set", "TOKEN=x"];
    home.succeed(&add);
    let update = |file: &str| home.run(&["servers", "update", "desk", "--bundle", file, "--yes"]);
    let own = || fs::read_to_string(home.own()).unwrap();
    let folder = home.path(".local/state/mgp/bundles/desk");
    let before = own();
    let moved = changed(&home, "1.1.0", |manifest| {
        manifest["server"]["mcp_config"]["command"] = "${__dirname}/dist/main".into();
    });
    let refused = update(&moved);
    assert!(refused.code == Some(1) && refused.out.starts_with("failed desk"), "{refused:?}");
    assert!(refused.out.contains("1.1.0/dist/main --tools 3` now; remove it"), "{refused:?}");
    assert_eq!(own(), before);
    assert!(folder.join("1.0.0/server/echo").exists() && !folder.join("1.1.0").exists());

    // The new version has another default, but the update does not change an argument that the user has set.
    let asks = changed(&home, "1.2.0", |manifest| {
        manifest["user_config"]["tools"]["default"] = 5.into();
        manifest["user_config"]["zone"] = json!({ "type": "string", "required": true });
        manifest["server"]["mcp_config"]["env"]["DESK_ZONE"] = "${user_config.zone}".into();
    });
    let updated = update(&asks);
    assert_eq!(updated.code, Some(0), "{updated:?}");
    assert!(updated.out.contains("needs the variable `ZONE`; set it"), "{updated:?}");
    let text = own();
    assert!(text.contains("DESK_ZONE = \"${ZONE}\"") && text.contains("\"3\""), "{text}");
    assert!(text.contains("bundles/desk/1.2.0/server/echo"), "{text}");
}

#[test]
fn the_name_of_a_bundle_with_a_scope_is_not_looked_up_in_a_registry() {
    let home = Home::new();
    let file = changed(&home, "1.0.0", |manifest| manifest["name"] = "@acme/desk".into());
    let add = ["servers", "add", &file, "--id", "desk", "--yes", "--no-grant", "--set", "TOKEN=x"];
    home.succeed(&add);
    let all = home.succeed(&["servers", "update"]);
    assert!(all.starts_with("no server came from the registry"), "{all}");
    home.fail(1, &["servers", "update", "desk"], "give the new one with --bundle FILE");
}
