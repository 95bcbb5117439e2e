//! Tests of differences and of hot reload.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mgp_testkit::temp_dir;
use mgp_types::Payload;
use mgp_types::service::Principal;
use mgp_types::store::{self, MemoryStore, Store as _};
use proptest::prelude::*;
use tokio::time::timeout;

use super::*;
use crate::config::Config;
use crate::source::{Sources, Trust};

fn config(text: &str) -> Config {
    Config::parse("mgp.toml", text).unwrap().config
}

#[track_caller]
fn effect(old: &str, new: &str) -> ChangeEffect {
    let server = |rest| config(&format!("[[servers]]\nid = 'a'\n{rest}"));
    let change = ConfigChange::between(&server(old), &server(new));
    assert!(change.added.is_empty() && change.removed.is_empty());
    change.changed[0].effect
}

#[test]
fn only_values_of_the_start_and_the_handshake_need_a_restart() {
    let base = "command = 'a'\n";
    let with = |rest: &str| effect(base, &format!("{base}{rest}\n"));
    for rest in ["args = ['x']", "cwd = 'x'", "env = { A = 'b' }", "era = 'legacy'", "mgp = false"]
    {
        assert_eq!(with(rest), ChangeEffect::Restart, "{rest}");
    }
    assert_eq!(effect(base, "command = 'b'"), ChangeEffect::Restart);
    assert_eq!(effect(base, "url = 'https://a'"), ChangeEffect::Restart);
    for rest in [
        "extensions = ['audit']",
        "permissions_required = ['camera']",
        "isolation = 'per_agent'",
        "roots = true",
    ] {
        assert_eq!(with(&format!("[servers.mgp]\n{rest}")), ChangeEffect::Restart, "{rest}");
    }
    assert_eq!(with("[servers.limits]\nmax_message = 65536"), ChangeEffect::Restart);
    assert_eq!(with("[servers.limits]\nrunning = 2"), ChangeEffect::Govern);
    assert_eq!(with("tenants = ['acme']"), ChangeEffect::Govern);
    let rules = [
        "trust_level = 'sandboxed'",
        "default_policy = 'opt-out'",
        "permission_policy = 'deny_all'",
        "permissions = ['camera']",
        "restart_policy = 'never'",
        "max_restarts = 1",
        "validators = { t = 'sandbox' }",
        "local_hosts = ['localhost:3000']",
        "risk = { t = 'safe' }",
        "confirm = 'moderate'",
        "tags = ['x']",
    ];
    for rest in rules {
        assert_eq!(with(&format!("[servers.mgp]\n{rest}")), ChangeEffect::Govern, "{rest}");
    }
}

#[test]
fn order_is_no_difference_and_agents_come_and_go() {
    let (a, b) =
        ("[[servers]]\nid = 'a'\ncommand = 'a'\n", "[[servers]]\nid = 'b'\ncommand = 'b'\n");
    assert!(
        ConfigChange::between(&config(&format!("{a}{b}")), &config(&format!("{b}{a}"))).is_empty()
    );
    let change = ConfigChange::between(
        &config("[agents.x]\n[agents.y]\n"),
        &config("[agents.y]\nbudget = 1\n[agents.z]\n"),
    );
    let agents: Vec<_> =
        change.agents.iter().map(|(name, agent)| (name.as_str(), agent.is_some())).collect();
    assert_eq!(agents, [("x", false), ("y", true), ("z", true)]);
}

/// Writes a file with the server `a`, and returns a watcher that has loaded it.
async fn watched(file: &Path, store: Arc<MemoryStore>) -> ConfigWatcher {
    fs::write(file, "[[servers]]\nid = 'a'\ncommand = 'a'\n").unwrap();
    let trust = Trust::new(store);
    let sources = Sources::single(file);
    let loaded = sources.load(&trust).await.unwrap();
    ConfigWatcher::new(sources, trust, &loaded)
}

/// Waits for the next report of a reload; returns `None` if there is no report in time.
async fn next(watcher: &mut ConfigWatcher) -> Option<Reloaded> {
    timeout(Duration::from_secs(10), watcher.next()).await.ok()
}

#[tokio::test(start_paused = true)]
async fn files_are_watched_and_a_faulty_one_changes_nothing() {
    let folder = temp_dir();
    let file = folder.path().join("servers.toml");
    let write = |text: &str| fs::write(&file, text).unwrap();
    let store = Arc::new(MemoryStore::new());
    let mut watcher = watched(&file, store.clone()).await;
    assert!(next(&mut watcher).await.is_none(), "nothing changed");

    write("[[servers]]\nid = 'a'\ncommand = 'a'\n[[servers]]\nid = 'bb'\ncommand = 'b'\n");
    let Some(Reloaded::Changed(change, _)) = next(&mut watcher).await else { panic!("a change") };
    assert_eq!((change.added.len(), change.changed.len(), change.removed.len()), (1, 0, 0));

    write("[[servers\n");
    let Some(Reloaded::Kept(error)) = next(&mut watcher).await else { panic!("an error") };
    assert!(error.to_string().contains(".toml:1:"), "{error}");
    assert!(next(&mut watcher).await.is_none(), "an error is reported once");
    write("[[servers]]\nid = 'a'\ncommand = 'a'\n[[servers]]\nid = 'bb'\ncommand = 'b'\n");
    let Some(Reloaded::Changed(change, _)) = next(&mut watcher).await else { panic!("mended") };
    assert!(change.is_empty(), "it says what it said before");

    // This change of an unrelated entry of the store must not count as a change of the approvals.
    let kept = store::Change::new().put("other", "key", Payload::of(&1).unwrap());
    store.commit(kept).await.unwrap();
    assert!(next(&mut watcher).await.is_none(), "nothing was written");

    // A server whose new entry is broken keeps running with its previous entry.
    write("[[servers]]\nid = 'a'\ncommand = 3\n");
    let Some(Reloaded::Changed(change, loaded)) = next(&mut watcher).await else {
        panic!("a change")
    };
    assert_eq!(change.removed, ["bb".into()]);
    assert_eq!(loaded.broken, ["a"]);
    assert!(change.changed.is_empty());

    let away = file.with_extension("away");
    fs::rename(&file, &away).unwrap();
    assert!(matches!(next(&mut watcher).await, Some(Reloaded::Kept(_))));
    assert!(next(&mut watcher).await.is_none(), "an error is reported once");
    fs::rename(&away, &file).unwrap();
    let Some(Reloaded::Changed(change, _)) = next(&mut watcher).await else { panic!("it is back") };
    assert!(change.is_empty(), "and says what it said");
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_changed_and_changed_back_before_the_first_look_is_reported() {
    let folder = temp_dir();
    let file = folder.path().join("servers.toml");
    let write = |text: &str| fs::write(&file, text).unwrap();
    let mut watcher = watched(&file, Arc::new(MemoryStore::new())).await;
    // The watcher never loads this content, because the file is replaced below before the first poll.
    write("");
    let new = file.with_extension("new");
    fs::write(&new, "[[servers]]\nid = 'a'\ncommand = 'a'\n").unwrap();
    fs::rename(&new, &file).unwrap();
    let Some(Reloaded::Changed(change, loaded)) = next(&mut watcher).await else {
        panic!("written")
    };
    assert!(change.is_empty() && loaded.config.server("a").is_some());
    assert!(next(&mut watcher).await.is_none(), "it is reported once");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_switched_off_ends_even_if_its_entry_has_an_error() {
    let folder = temp_dir();
    let file = folder.path().join("servers.toml");
    let write = |text: &str| fs::write(&file, text).unwrap();
    let mut watcher = watched(&file, Arc::new(MemoryStore::new())).await;
    write("[[servers]]\nid = 'a'\ncommand = 3\nenabled = false\n");
    let Some(Reloaded::Changed(change, loaded)) = next(&mut watcher).await else {
        panic!("a change")
    };
    assert_eq!(change.removed, ["a".into()]);
    assert_eq!((&loaded.disabled[..], loaded.broken.len()), (&["a".to_owned()][..], 0));
    assert!(loaded.findings.iter().any(|finding| finding.server.as_deref() == Some("a")));
}

#[tokio::test(start_paused = true)]
async fn an_approval_is_applied_and_so_is_its_end() {
    let guard = temp_dir();
    let folder = guard.path();
    fs::write(folder.join("mgp.toml"), "[[servers]]\nid = 'a'\ncommand = 'a'\n").unwrap();
    let trust = Trust::new(Arc::new(MemoryStore::new()));
    let sources = Sources::new(folder, folder.join("home"));
    let loaded = sources.load(&trust).await.unwrap();
    let mut watcher = ConfigWatcher::new(sources.clone(), trust.clone(), &loaded);
    assert!(next(&mut watcher).await.is_none(), "not approved");

    let review = sources.review().unwrap().unwrap();
    let operator = Principal::local().operator();
    trust.approve(&review, &operator).await.unwrap();
    let Some(Reloaded::Changed(change, _)) = next(&mut watcher).await else { panic!("approved") };
    assert_eq!(change.added.len(), 1);

    // The file no longer has the approved content.
    fs::write(folder.join("mgp.toml"), "[[servers]]\nid = 'a'\ncommand = 'evil'\n").unwrap();
    let Some(Reloaded::Changed(change, loaded)) = next(&mut watcher).await else {
        panic!("changed")
    };
    assert_eq!((change.removed.len(), loaded.unapproved.is_some()), (1, true));
}

proptest! {
    #[test]
    fn nothing_differs_from_itself(ids in proptest::collection::vec("[a-d]{1,2}", 0..6), deny in any::<bool>()) {
        let mut text = String::from(if deny { "[kernel]\npermission_policy = 'deny_all'\n" } else { "" });
        for id in ids {
            text = format!("{text}[[servers]]\nid = '{id}'\ncommand = '{id}'\n");
        }
        let config = config(&text);
        prop_assert!(ConfigChange::between(&config, &config).is_empty());
        let all = ConfigChange::between(&Config::default(), &config);
        prop_assert_eq!(all.added, config.servers);
    }
}
