//! Tests of the rules of events, each over each transport and era.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::FutureExt as _;
use mgp_client_sdk::{Client, EraChoice, EventStream, TestClient};
use mgp_server_sdk::{EventDraft, EventHub, Server, Tool};
use mgp_testkit::{example, temp_dir};
use mgp_transport::duplex;
use mgp_types::mgp::{EventsReplayParams, Severity};
use serde_json::json;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

const ERAS: [EraChoice; 2] = [EraChoice::Legacy, EraChoice::Modern];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Duplex,
    Http,
}

const WAYS: [Way; 2] = [Way::Duplex, Way::Http];

fn server() -> Server {
    let server = Server::new("models", "1").channel("model.loaded", "A model was loaded");
    let hub = server.events();
    let burst = Tool::new("burst", "Publishes 1,000 events", move || {
        let hub = hub.clone();
        async move {
            for number in 0..1_000 {
                emit(&hub, "model.loaded", number).await;
            }
            "done"
        }
    });
    server.tool(burst)
}

/// Connects to a server; also returns the hub of its events.
async fn connect(way: Way, era: EraChoice) -> (Client, EventHub) {
    let server = server();
    let hub = server.events();
    let builder = Client::builder("test", "1").era(era);
    let client = match way {
        Way::Duplex => {
            let (here, there) = duplex();
            tokio::spawn(server.serve(there.reader, there.writer));
            builder.connect(here.reader, here.writer).await.unwrap()
        }
        Way::Http => {
            let address = listen(server).await;
            builder.connect_url(&format!("http://{address}/mcp")).await.unwrap()
        }
    };
    (client, hub)
}

async fn listen(server: Server) -> SocketAddr {
    let bound = server.http("127.0.0.1:0").no_auth().bind().await.unwrap();
    let address = bound.local_addr();
    tokio::spawn(bound.serve());
    address
}

/// Forwards connections to the current server. If the server changes, the connections are cut, as by its restart.
async fn forward(servers: watch::Receiver<SocketAddr>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut near, _) = listener.accept().await.unwrap();
            let mut servers = servers.clone();
            tokio::spawn(async move {
                let server = *servers.borrow_and_update();
                let mut far = TcpStream::connect(server).await.unwrap();
                tokio::select! {
                    _ = copy_bidirectional(&mut near, &mut far) => {}
                    _ = servers.changed() => {}
                }
            });
        }
    });
    address
}

async fn read(events: &mut EventStream, count: usize) -> Vec<(String, String)> {
    let mut read = Vec::new();
    while read.len() < count {
        let event = timeout(Duration::from_secs(20), events.next()).await;
        let event = event.unwrap_or_else(|_| panic!("only {read:?}")).expect("it goes on");
        read.push((event.channel, event.data.as_str().to_owned()));
    }
    read
}

async fn emit(hub: &EventHub, channel: &str, number: u64) {
    hub.emit(channel, Severity::Info, &number).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_arrive_in_order_over_every_transport_and_era() {
    for (way, era) in WAYS.into_iter().flat_map(|way| ERAS.map(|era| (way, era))) {
        let (client, hub) = connect(way, era).await;
        let mut events = client.events().subscribe(["model.*", "later.*"]).await.unwrap();
        assert_eq!(events.subscribed(), ["model.loaded"], "{way:?} {era:?}");
        assert_eq!(events.unsupported(), ["later.*"]);
        for number in 0..200 {
            emit(&hub, "model.loaded", number).await;
            emit(&hub, "other", number).await;
        }
        emit(&hub, "later.declared", 1).await;
        let read = read(&mut events, 201).await;
        let numbers: Vec<_> = read.iter().map(|(_, data)| data.parse::<u64>().unwrap()).collect();
        assert_eq!(numbers, (0..200).chain([1]).collect::<Vec<_>>(), "{way:?} {era:?}");
        assert_eq!((events.dropped(), read[200].0.as_str()), (0, "later.declared"));
        client.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_unsubscribe_nothing_arrives_and_a_dropped_stream_ends_its_subscription() {
    for (way, era) in WAYS.into_iter().flat_map(|way| ERAS.map(|era| (way, era))) {
        let (client, hub) = connect(way, era).await;
        let mut events = client.events().subscribe(["*"]).await.unwrap();
        emit(&hub, "a", 1).await;
        read(&mut events, 1).await;
        events.unsubscribe().await.unwrap();
        assert_eq!(hub.subscriptions(), 0, "{way:?} {era:?}");
        drop(client.events().subscribe(["*"]).await.unwrap());
        mgp_testkit::until("it is gone", async || hub.subscriptions() == 0).await;
        client.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_comes_late_gets_what_it_missed_from_the_server() {
    for era in ERAS {
        let (client, hub) = connect(Way::Duplex, era).await;
        let mut events = client.events().subscribe(["*"]).await.unwrap();
        // Publish more events than the client can buffer; the server keeps the events that do not fit.
        for number in 0..1_200 {
            emit(&hub, "a", number).await;
            // The server also keeps only a limited number of events, so wait until the connection has caught up.
            if number % 100 == 99 {
                mgp_testkit::sleep_in_parts(Duration::from_millis(50)).await;
            }
        }
        let read = read(&mut events, 1_200).await;
        assert_eq!(read.last().unwrap().1, "1199", "{era:?}");
        assert_eq!(events.dropped(), 0);
        client.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_is_continued_after_the_last_event_that_was_read() {
    let (client, hub) = connect(Way::Http, EraChoice::Modern).await;
    let mut events = client.events().subscribe(["*"]).await.unwrap();
    for number in 0..3 {
        emit(&hub, "a", number).await;
    }
    read(&mut events, 2).await;
    let cursor = events.leave();
    assert_eq!(cursor.after_seq, 2);
    emit(&hub, "a", 3).await;
    let mut events = client.events().resume(cursor).await.unwrap();
    let again = read(&mut events, 2).await;
    assert_eq!(again, [("a".to_owned(), "2".to_owned()), ("a".to_owned(), "3".to_owned())]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_continues_after_a_restart_of_its_server_at_a_url() {
    for era in ERAS {
        let (first, second) = (server(), server());
        let (before, after) = (first.events(), second.events());
        let (servers, current) = watch::channel(listen(first).await);
        let url = format!("http://{}/mcp", forward(current).await);
        let builder = Client::builder("test", "1").era(era);
        let builder = builder.http(|http| http.retry = Duration::from_millis(10));
        let client = builder.connect_url(&url).await.unwrap();
        let mut events = client.events().subscribe(["*"]).await.unwrap();
        emit(&before, "a", 1).await;
        read(&mut events, 1).await;
        servers.send(listen(second).await).unwrap();
        let subscribed = async || after.subscriptions() == 1;
        mgp_testkit::until("the client subscribes again", subscribed).await;
        emit(&after, "a", 2).await;
        assert_eq!(read(&mut events, 1).await, [("a".to_owned(), "2".to_owned())], "{era:?}");
        assert_eq!((events.cursor().after_seq, events.dropped()), (2, 0));
        client.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_that_its_server_lost_starts_again_for_its_channels() {
    for (way, era) in WAYS.into_iter().flat_map(|way| ERAS.map(|era| (way, era))) {
        let (client, hub) = connect(way, era).await;
        let mut events = client.events().subscribe(["*"]).await.unwrap();
        emit(&hub, "a", 1).await;
        read(&mut events, 1).await;
        let cursor = events.leave();
        client.close().await;
        let (client, hub) = connect(way, era).await;
        let refused = client.events().resume(cursor.clone()).await.unwrap_err();
        assert_eq!(refused.code().0, -32602);
        let resumed = client.events().resume(cursor.clone()).channels(["*"]);
        let mut events = resumed.await.unwrap();
        assert_eq!(events.cursor(), cursor);
        emit(&hub, "a", 2).await;
        let read = read(&mut events, 1).await;
        assert_eq!(read, [("a".to_owned(), "2".to_owned())], "{way:?} {era:?}");
        assert_eq!((events.cursor().after_seq, events.dropped()), (2, 0));
        client.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_ends_at_a_server_that_keeps_no_events() {
    let (url, folder) = (format!("http://{}/mcp", listen(server()).await), temp_dir());
    let mut subscriber =
        tokio::process::Command::new(example("mgp-client-sdk", "event_subscriber"));
    subscriber.arg(url).arg(folder.path().join("position")).arg("*").kill_on_drop(true);
    let output = timeout(Duration::from_mins(1), subscriber.output()).await.unwrap().unwrap();
    let failure = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && failure.contains("`durable`"), "{failure}");
}

#[tokio::test]
async fn severity_replay_and_refusals_reach_the_client() {
    let server = server();
    let hub = server.events();
    let client = TestClient::new(server).await;
    let events = client.events().subscribe(["*"]).min_severity(Severity::Warning);
    let mut events = events.await.unwrap();
    hub.publish(EventDraft::new("a")).unwrap();
    let data = json!({"severity": "error"});
    hub.publish(EventDraft::new("b").data(&data).unwrap()).unwrap();
    let event = events.next().await.unwrap();
    assert_eq!(
        (event.channel.as_str(), event.severity, event.seq),
        ("b", Severity::Error, Some(1))
    );

    let params = EventsReplayParams::new(events.cursor().subscription_id);
    let replayed = client.events().replay(&params).await.unwrap();
    assert_eq!(replayed.events.len(), 1);
    // In later revisions, a client requests the replay by calling a tool.
    let tool = client.call("mgp.events.replay").args(&params).await.unwrap();
    assert_eq!(
        tool.structured_content.unwrap().get::<serde_json::Value>().unwrap()["has_more"],
        false
    );

    let channels = client.events().channels().await.unwrap();
    assert_eq!(channels[2].description.as_deref(), Some("A model was loaded"));
    let refused = client.events().subscribe(["a*"]).await.unwrap_err();
    assert!(refused.message().contains("`model.*`"), "{refused}");
}

#[tokio::test]
async fn a_server_without_channels_does_not_offer_events() {
    let client = TestClient::new(Server::new("s", "1")).await;
    let error = client.events().subscribe(["*"]).await.unwrap_err();
    assert_eq!(error.code().0, -32601);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_does_not_overtake_the_events_of_its_call() {
    for era in ERAS {
        let (client, _) = connect(Way::Duplex, era).await;
        let mut events = client.events().subscribe(["*"]).await.unwrap();
        for round in 0..5 {
            client.call("burst").await.unwrap();
            for number in 0..1_000 {
                let event = events.next().now_or_never();
                let event = event.unwrap_or_else(|| panic!("{era:?} {round}: {number} are here"));
                assert_eq!(event.unwrap().data.as_str(), number.to_string());
            }
        }
        client.close().await;
    }
}

#[tokio::test]
async fn events_that_the_server_itself_missed_are_counted_once() {
    let server = server();
    let hub = server.events();
    let client = TestClient::new(server).await;
    let mut events = client.events().subscribe(["*"]).await.unwrap();
    hub.publish(EventDraft::new("a").dropped(3)).unwrap();
    hub.publish(EventDraft::new("b")).unwrap();
    let first = events.next().await.unwrap();
    assert_eq!((first.dropped, first.seq), (3, Some(1)));
    assert_eq!((events.next().await.unwrap().dropped, events.dropped()), (0, 3));
}
