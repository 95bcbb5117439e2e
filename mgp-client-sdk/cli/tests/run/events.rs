//! Tests of events with the real program: `mgp events`, durable subscriptions across kills of the kernel, and webhooks.

use std::collections::HashSet;
use std::io::Write as _;
use std::net::TcpListener;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use mgp_client_sdk::{Client, EraChoice, EventCursor, ServerEvent};
use mgp_testkit::http_response;
use mgp_transport::ChildCommand;
use mgp_types::method::{KernelSubscriptionsEnd, Request as _};
use mgp_types::mgp::EventParams;
use mgp_types::{RawObject, Sha256Hash, to_hex};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::host::host_args;
use crate::program::program;
use crate::serving::Serving;
use crate::world::{World, kill};

/// The number of times that the durability test kills the kernel.
const KILLS: usize = 5;

fn world(more: &str) -> World {
    let world = World::empty();
    configure(&world, more);
    world
}

/// Writes the configuration of a world: its server, and further lines.
fn configure(world: &World, more: &str) {
    let script = format!("exec {}", program("workbench"));
    world.config(&(world.server("bench", &script) + "risk = { publish = \"safe\" }\n" + more));
}

/// Returns the configuration of a webhook to this machine.
fn webhook(name: &str, url: &str, channels: &str) -> String {
    format!(
        "[kernel.webhooks.{name}]\nurl = \"{url}\"\nchannels = [\"{channels}\"]\nallow_loopback = true\n"
    )
}

async fn connect(serving: &Serving) -> Client {
    Client::builder("test", "1").connect_url(&serving.url()).await.unwrap()
}

/// Starts a kernel, and connects a client to it.
async fn serve(world: &World) -> (Serving, Client) {
    let serving = Serving::start(world, &["--no-auth"]);
    let client = connect(&serving).await;
    (serving, client)
}

/// Publishes events with a tool of the server; returns `false` if the call failed because the kernel was killed.
async fn publish(client: &Client, channel: &str, data: Value, count: u32) -> bool {
    let arguments = json!({"channel": channel, "data": data, "count": count});
    client.call("bench.publish").args(arguments).await.is_ok_and(|result| {
        assert_ne!(result.is_error, Some(true), "{result:?}");
        true
    })
}

fn mgp(world: &World, args: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_mgp"))
        .args(args)
        .arg("--json")
        .arg("--state")
        .arg(world.state())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the number of the call that published an event, and the number of the event within this call.
fn key(event: &ServerEvent) -> (u64, u64) {
    let data: Value = event.data.get().unwrap();
    (data["call"].as_u64().unwrap(), data["number"].as_u64().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_event_is_lost_or_sent_twice_when_the_kernel_is_killed() {
    const EVENTS: u32 = 5;
    let world = world("");
    let (mut cursor, mut received) = (None::<EventCursor>, Vec::new());
    let (mut acknowledged, mut calls) = (HashSet::new(), 0);
    for round in 0..=KILLS {
        let (serving, client) = serve(&world).await;
        let events = match cursor.take() {
            None => client.events().subscribe(["bench.*"]).durable().await,
            Some(cursor) => client.events().resume(cursor).await,
        };
        let mut events = events.unwrap();
        assert!(!events.is_truncated());
        let publisher = connect(&serving).await;
        // Once this call is answered, the server has started, so each kill meets running calls.
        assert!(publish(&publisher, "other.n", json!({}), 1).await);
        let killer = async {
            // Kill the kernel at a different moment in each round.
            tokio::time::sleep(Duration::from_millis(40 * round as u64 + 60)).await;
            if round < KILLS {
                kill("-KILL", serving.kernel.id());
            }
        };
        let publishing = async {
            for _ in 0..200 {
                calls += 1;
                if !publish(&publisher, "bench.n", json!({"call": calls}), EVENTS).await {
                    return;
                }
                acknowledged.extend((1..=u64::from(EVENTS)).map(|number| (calls, number)));
                if round == KILLS && acknowledged.len() > 20 {
                    return;
                }
            }
        };
        tokio::join!(killer, publishing);
        // Read the events that the client received before the end of the kernel; it receives further events after the
        // next start.
        loop {
            let lacks = round == KILLS && acknowledged.iter().any(|one| !received.contains(one));
            let wait = if lacks { Duration::from_secs(20) } else { Duration::from_millis(300) };
            let Ok(Some(event)) = timeout(wait, events.next()).await else { break };
            received.push(key(&event));
        }
        cursor = Some(events.leave());
    }
    let unique: HashSet<_> = received.iter().copied().collect();
    assert_eq!(unique.len(), received.len(), "an event was delivered twice");
    let lost: Vec<_> = acknowledged.difference(&unique).collect();
    let (sent, arrived) = (acknowledged.len(), received.len());
    println!("{sent} events acknowledged, {arrived} received over {KILLS} kills");
    assert!(lost.is_empty(), "lost {lost:?}");
    assert!(acknowledged.len() > 20);
    // The previous kernel was killed while it had a subscription; the next kernel must still have it.
    let (_serving, client) = serve(&world).await;
    let events = client.events().resume(cursor.unwrap()).await.unwrap();
    events.unsubscribe().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_events_of_a_burst_survive_a_kill_right_behind_the_answer() {
    const BURST: u32 = 1_500;
    let world = world("");
    let mut cursor = None::<EventCursor>;
    for call in 1..=3 {
        let (serving, client) = serve(&world).await;
        let events = match cursor.take() {
            None => client.events().subscribe(["bench.*"]).durable().await,
            Some(cursor) => client.events().resume(cursor).await,
        };
        cursor = Some(events.unwrap().leave());
        drop(client);
        let publisher = connect(&serving).await;
        let publishing = publisher.call("bench.publish");
        let arguments = json!({"channel": "bench.n", "data": {"call": call}, "count": BURST});
        let result = publishing.args(arguments).timeout(Duration::from_mins(1)).await.unwrap();
        assert_ne!(result.is_error, Some(true), "{result:?}");
        kill("-KILL", serving.kernel.id());
        drop(serving);

        let (_serving, client) = serve(&world).await;
        let mut events = client.events().resume(cursor.take().unwrap()).await.unwrap();
        for number in 1..=u64::from(BURST) {
            let event = timeout(Duration::from_secs(20), events.next()).await;
            let event = event.unwrap_or_else(|_| panic!("call {call}: {number} is lost")).unwrap();
            assert_eq!(key(&event), (call, number));
        }
        cursor = Some(events.leave());
    }
}

/// Starts `mgp serve --stdio` below a host process, and returns the client that uses it.
async fn shim(world: &World, era: EraChoice) -> Client {
    let command = ChildCommand::new("/bin/sh")
        .args(host_args(env!("CARGO_BIN_EXE_mgp")))
        .args(["serve", "--stdio", "--linger", "30", "--agent", "ada"])
        .args(["--config".into(), world.config_file()])
        .args(["--state".into(), world.state()]);
    Client::builder("test", "1").era(era).spawn(command).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_whose_kernel_was_killed_gets_events_from_the_next_one() {
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let world = world("");
        let client = shim(&world, era).await;
        let mut passing = client.events().subscribe(["bench.*"]).await.unwrap();
        let mut durable = client.events().subscribe(["bench.*"]).durable().await.unwrap();
        for call in 1..=3 {
            // A call fails if the kernel is killed meanwhile; the test then repeats it.
            while !publish(&client, "bench.n", json!({"call": call}), 2).await {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            for events in [&mut passing, &mut durable] {
                for number in 1..=2 {
                    let event = timeout(Duration::from_secs(20), events.next()).await;
                    let event = event.unwrap_or_else(|_| panic!("{era:?} {call}.{number}"));
                    assert_eq!(key(&event.unwrap()), (call, number), "{era:?}");
                }
                assert_eq!(events.dropped(), 0, "{era:?} {call}");
            }
            if call < 3 {
                let before = world.kernel().unwrap();
                kill("-KILL", before);
                mgp_testkit::until("the next kernel serves", async || {
                    // `mgp serve --stdio` starts the next kernel when its host sends a message.
                    let _ = client.ping().await;
                    world.kernel().is_some_and(|now| now != before)
                })
                .await;
            }
        }
        client.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_ends_after_its_lifetime_with_a_last_event() {
    let world = world("");
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let client = shim(&world, era).await;
        let events = client.events().subscribe(["bench.*"]).lifetime(Duration::from_secs(1));
        let mut events = events.await.unwrap();
        let last = timeout(Duration::from_secs(20), events.next()).await.unwrap().unwrap();
        assert_eq!(last.channel, EventParams::TERMINATED, "{era:?}");
        assert!(events.next().await.is_none(), "{era:?}");
        assert!(client.events().resume(events.cursor()).await.is_err(), "{era:?}");
        client.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_ends_a_durable_subscription_also_for_later_kernels() {
    let world = world("");
    let (serving, client) = serve(&world).await;
    let mut events = client.events().subscribe(["bench.*"]).durable().await.unwrap();
    let listed = mgp(&world, &["subscriptions"]);
    let one = &listed[0];
    assert!(one["durable"] == true && one["connected"] == true, "{listed}");
    assert_eq!((&one["channels"], listed.get(1)), (&json!(["bench.*"]), None), "{listed}");
    let id = one["id"].as_str().unwrap();

    let ended = mgp(&world, &["subscriptions", "end", id]);
    assert_eq!((&ended["subject"], &ended["status"]), (&json!(id), &json!("ended")));
    let last = timeout(Duration::from_secs(20), events.next()).await.unwrap().unwrap();
    assert_eq!(last.channel, EventParams::TERMINATED);
    assert!(events.next().await.is_none());
    assert_eq!(mgp(&world, &["subscriptions", "ls"]), json!([]));
    let recorded = mgp(&world, &["audit", "query"]).to_string();
    assert!(recorded.contains(KernelSubscriptionsEnd::METHOD), "{recorded}");

    kill("-KILL", serving.kernel.id());
    drop(serving);
    let serving = Serving::start(&world, &["--no-auth"]);
    assert_eq!(mgp(&world, &["subscriptions"]), json!([]));
    assert!(connect(&serving).await.events().resume(events.cursor()).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_gets_only_events_whose_data_have_the_members_of_its_filter() {
    let world = world("");
    let (_serving, client) = serve(&world).await;
    let members = RawObject::of(&json!({"repository": "app"})).unwrap();
    let events = client.events().subscribe(["bench.*"]).only_with(members);
    let mut events = events.await.unwrap();
    for repository in ["other", "app"] {
        assert!(publish(&client, "bench.pushed", json!({"repository": repository}), 1).await);
    }
    let event = timeout(Duration::from_secs(20), events.next()).await.unwrap().unwrap();
    let data = event.data.get::<Value>().unwrap();
    assert_eq!(data["repository"], "app", "{data}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_see_recent_events_and_filter_them() {
    let world = world("");
    let (_serving, client) = serve(&world).await;
    for number in 0..3 {
        assert!(publish(&client, "bench.n", json!({"call": number}), 1).await);
    }
    let shown = mgp(&world, &["events", "bench.*", "-n", "2"]);
    let calls: Vec<_> = shown.as_array().unwrap().iter().map(|one| &one["data"]["call"]).collect();
    assert_eq!(calls, [&json!(1), &json!(2)], "{shown}");
    assert_eq!((&shown[0]["server_id"], &shown[0]["severity"]), (&json!("bench"), &json!("info")));
    assert_eq!(mgp(&world, &["events", "bench.*", "--severity", "error"]), json!([]));
    assert_eq!(mgp(&world, &["events", "tool.completed"]).as_array().unwrap().len(), 3);
    assert_eq!(mgp(&world, &["events", "bench.*", "--since", "1h"]).as_array().unwrap().len(), 3);
    assert_eq!(mgp(&world, &["events", "bench.*", "-n", "0"]), json!([]));
    assert_eq!(mgp(&world, &["webhooks"]), json!([]));
}

/// A request that a webhook sent.
pub(crate) use mgp_testkit::HttpRequest as Posted;

/// Starts an HTTP server that receives the requests of a webhook, and answers each of them with the status that
/// `status` returns. Returns its URL, and a channel with the requests.
pub(crate) fn receiver(
    status: impl Fn(usize, &Posted) -> u16 + Send + 'static,
) -> (String, Receiver<Posted>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (sender, posted) = channel();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().map_while(Result::ok).enumerate() {
            // A killed kernel may leave an incomplete request.
            let Some(one) = Posted::read(&stream) else { continue };
            let answer = http_response(status(number, &one), "", "");
            let _ = (&stream).write_all(answer.as_bytes());
            if sender.send(one).is_err() {
                return;
            }
        }
    });
    (url, posted)
}

/// Returns the signature that a webhook must send.
pub(crate) fn signature(secret: &str, timestamp: &str, body: &str) -> String {
    let pad = |byte: u8| -> Vec<u8> {
        let mut block = secret.as_bytes().to_vec();
        block.resize(64, 0);
        block.iter().map(|key| key ^ byte).collect()
    };
    let message = format!("{timestamp}.{body}");
    let inner = Sha256Hash::digest(&[&pad(0x36)[..], message.as_bytes()].concat());
    let outer = Sha256Hash::digest(&[&pad(0x5c)[..], inner.as_bytes()].concat());
    format!("sha256={}", to_hex(outer.as_bytes()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_gets_signed_events_in_order_also_after_failures_and_kills() {
    // The receiver answers the first request with a failure, and refuses the events of one channel.
    let (url, posted) = receiver(|number, event| match number {
        0 => 503,
        _ if event.value()["channel"] == "bench.bad" => 400,
        _ => 204,
    });
    let world = world(&format!(
        "[kernel.webhooks.test]\nurl = \"{url}\"\nchannels = [\"bench.*\"]\nsecret = \"s3cret\"\nallow_loopback = true\n"
    ));
    let next = || posted.recv_timeout(Duration::from_secs(20)).unwrap();
    {
        let (_serving, client) = serve(&world).await;
        assert!(publish(&client, "bench.n", json!({"call": 1}), 2).await);
        let (first, again, second) = (next(), next(), next());
        let id = first.header("mgp-event-id");
        assert!(id.starts_with("test-1-"), "{id}");
        assert_eq!((&first.body, id), (&again.body, again.header("mgp-event-id")));
        assert_eq!(
            (first.value()["data"]["number"].clone(), second.value()["data"]["number"].clone()),
            (json!(1), json!(2))
        );
        for one in [&first, &second] {
            let expected = signature("s3cret", one.header("mgp-timestamp"), &one.body);
            assert_eq!(one.header("mgp-signature"), expected);
        }
        assert!(publish(&client, "bench.bad", json!({"call": 2}), 1).await);
        assert_eq!(next().value()["channel"], "bench.bad");
        mgp_testkit::until_blocking("the failure is listed", || {
            mgp(&world, &["webhooks"])[0]["failures"][0]["event"]["channel"] == "bench.bad"
        });
        let listed = mgp(&world, &["webhooks"]);
        assert_eq!((&listed[0]["delivered"], &listed[0]["waiting"]), (&json!(2), &json!(0)));
        assert_eq!(listed[0]["failures"][0]["error"], "the receiver answered 400");
    }
    // The kernel was killed. The next kernel must not send the event again, and must still report the failure.
    let (_serving, client) = serve(&world).await;
    assert!(publish(&client, "bench.n", json!({"call": 3}), 1).await);
    assert_eq!(next().value()["data"]["call"], 3);
    assert_eq!(mgp(&world, &["webhooks"])[0]["failures"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_are_added_changed_and_removed_while_the_kernel_runs() {
    let (url, posted) = receiver(|_, _| 204);
    let (other_url, other_posted) = receiver(|_, _| 400);
    let world = world("");
    let listed = |expected: &[&str]| {
        // mgp does not show the path of a webhook's URL, because it is often a secret.
        let shown = |url: &&str| format!("{} (one)", url.replace("/hook", "/…"));
        let expected: Vec<_> = expected.iter().map(shown).collect();
        mgp_testkit::until_blocking("the webhooks are listed", || {
            let listed = mgp(&world, &["webhooks"]);
            let urls = listed.as_array().unwrap().iter().map(|one| one["url"].as_str().unwrap());
            urls.collect::<Vec<_>>() == expected
        });
        // Wait, because the kernel creates the subscription of a new webhook in the background.
        std::thread::sleep(Duration::from_secs(1));
    };
    let (_serving, client) = serve(&world).await;
    let mut ids = HashSet::new();
    let mut check = |posted: &Receiver<Posted>, call: u64| {
        let event = posted.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!(event.value()["data"]["call"], call);
        let id = event.header("mgp-event-id").to_owned();
        assert!(ids.insert(id.clone()), "{id} is the id of an earlier event, too");
    };
    configure(&world, &webhook("one", &url, "bench.*"));
    listed(&[&url]);
    assert!(publish(&client, "bench.n", json!({"call": 1}), 1).await);
    check(&posted, 1);

    configure(&world, &webhook("one", &other_url, "bench.*"));
    listed(&[&other_url]);
    assert!(publish(&client, "bench.n", json!({"call": 2}), 1).await);
    check(&other_posted, 2);
    let failures = || {
        let listed = mgp(&world, &["webhooks"]);
        listed[0]["failures"].as_array().map_or(0, Vec::len)
    };
    mgp_testkit::until_blocking("the event is given up", || failures() == 1);

    configure(&world, &webhook("one", &url, "bench.n"));
    listed(&[&url]);
    assert!(publish(&client, "bench.n", json!({"call": 3}), 1).await);
    check(&posted, 3);

    configure(&world, "");
    listed(&[]);
    assert!(publish(&client, "bench.n", json!({"call": 4}), 1).await);
    assert!(posted.try_recv().is_err() && other_posted.try_recv().is_err());

    configure(&world, &webhook("one", &url, "bench.n"));
    listed(&[&url]);
    assert!(publish(&client, "bench.n", json!({"call": 5}), 1).await);
    check(&posted, 5);
    assert_eq!(failures(), 0, "a removed webhook leaves no event behind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_was_removed_while_no_kernel_ran_loses_its_waiting_events() {
    // The receiver never accepts the event of the first call, so this event waits.
    let (url, posted) =
        receiver(|_, event| if event.value()["data"]["call"] == 1 { 503 } else { 204 });
    let hook = webhook("test", &url, "bench.*");
    let world = world(&hook);
    let next = || posted.recv_timeout(Duration::from_secs(20)).unwrap();
    {
        let (_serving, client) = serve(&world).await;
        assert!(publish(&client, "bench.n", json!({"call": 1}), 1).await);
        assert_eq!(next().value()["data"]["call"], 1);
    }
    configure(&world, "");
    {
        let _serving = Serving::start(&world, &["--no-auth"]);
        assert_eq!(mgp(&world, &["webhooks"]), json!([]));
    }
    while posted.try_recv().is_ok() {}
    configure(&world, &hook);
    let (_serving, client) = serve(&world).await;
    assert!(publish(&client, "bench.n", json!({"call": 2}), 1).await);
    assert_eq!(next().value()["data"]["call"], 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_to_this_machine_is_refused_unless_the_operator_allows_it() {
    let (url, posted) = receiver(|_, _| 204);
    let world =
        world(&format!("[kernel.webhooks.test]\nurl = \"{url}\"\nchannels = [\"bench.*\"]\n"));
    let (_serving, client) = serve(&world).await;
    assert!(publish(&client, "bench.n", json!({"call": 1}), 1).await);
    mgp_testkit::until_blocking("it is refused", || {
        let error = mgp(&world, &["webhooks"])[0]["last_error"].clone();
        error.as_str().is_some_and(|error| {
            error.contains("/…` must not be fetched")
                && error.contains("`allow_loopback`")
                && error.contains("`allow_private`")
        })
    });
    let failing = mgp(&world, &["status"])["failing_webhooks"].as_object().unwrap().clone();
    let origin = url.rsplit_once('/').unwrap().0;
    assert!(failing.contains_key(&format!("{origin}/… (test)")), "{failing:?}");
    assert!(posted.try_recv().is_err());

    // The permission applies to the waiting event too.
    configure(
        &world,
        &format!(
            "[kernel.webhooks.test]\nurl = \"{url}\"\nchannels = [\"bench.*\"]\nallow_private = true\n"
        ),
    );
    let sent = posted.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!(sent.value()["data"]["call"], 1);
}
