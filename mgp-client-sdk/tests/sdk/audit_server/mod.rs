//! Tests of forwarding to an audit server in its own process: each event must arrive once, whatever is killed (MGP §6).

#![cfg(unix)]

mod questions;
mod world;

use std::time::Duration;

use mgp_client_sdk::EraChoice;
use mgp_security::Delivery;
use mgp_testkit::until;
use mgp_types::mgp::{Extension, ExtensionSet};
use tokio::time::sleep;

use world::{World, kill};

const ERAS: [EraChoice; 2] = [EraChoice::Legacy, EraChoice::Modern];

#[tokio::test]
async fn a_thousand_events_arrive_in_order() {
    for era in ERAS {
        for confirm in [Delivery::Sent, Delivery::Confirmed] {
            let world = World::new(confirm);
            let client = world.start(era).await;
            let mut forwarding = world.forward(&client);
            world.write(1000).await;
            forwarding.wait_for(1000).await;
            world.until_there(&client, 1000).await;
            assert_eq!(world.numbers(), (1..=1000).collect::<Vec<_>>(), "{era:?} {confirm:?}");
            client.close().await;
        }
    }
}

#[tokio::test]
async fn events_in_flight_when_the_server_is_killed_are_sent_again() {
    for era in ERAS {
        let world = World::new(Delivery::Confirmed);
        let client = world.start(era).await;
        let mut forwarding = world.forward(&client);
        let writer = tokio::spawn({
            let log = world.clone();
            async move {
                for _ in 0..20 {
                    log.write(50).await;
                    sleep(Duration::from_millis(5)).await;
                }
            }
        });
        forwarding.wait_for(300).await;
        kill(&client);
        writer.await.unwrap();
        sleep(Duration::from_millis(50)).await;
        let client = world.start(era).await;
        let mut forwarding = world.forward(&client);
        forwarding.wait_for(1000).await;
        let mut numbers = world.numbers();
        let came = numbers.len();
        numbers.sort_unstable();
        assert_eq!((came, numbers), (1000, (1..=1000).collect::<Vec<_>>()), "{era:?}");
        client.close().await;
    }
}

#[tokio::test]
async fn a_gap_is_closed_by_asking_the_client() {
    let world = World::new(Delivery::Sent);
    let client = world.start(EraChoice::Legacy).await;
    let mut forwarding = world.forward(&client);
    world.write(200).await;
    forwarding.wait_for(200).await;
    world.until_there(&client, 200).await;
    kill(&client);
    // The killed server never gets these events. They count as sent nevertheless, as if they had been in the pipe when
    // the server was killed.
    world.write(5).await;
    drop(forwarding);
    world.pretend_reached(205).await;
    let client = world.start(EraChoice::Legacy).await;
    let _forwarding = world.forward(&client);
    world.write(1).await;
    world.until_there(&client, 206).await;
    let mut numbers = world.numbers();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=206).collect::<Vec<_>>());
    let stats = world.stats(&client).await;
    assert_eq!((&stats["missing"], &stats["lost"]), (&0.into(), &0.into()));
    client.close().await;
}

#[tokio::test]
async fn events_missing_from_the_log_are_given_up_and_counted() {
    let world = World::small(Delivery::Sent, 10);
    world.write(25).await;
    let client = world.start(EraChoice::Legacy).await;
    let _forwarding = world.forward(&client);
    world.until_there(&client, 10).await;
    until("15 are lost", async || world.stats(&client).await["lost"] == 15).await;
    assert_eq!(world.stats(&client).await["missing"], 0);
    client.close().await;
}

#[tokio::test]
async fn a_client_that_did_not_negotiate_audit_sends_nothing() {
    let world = World::new(Delivery::Sent);
    let without = ExtensionSet::STANDARD.without(Extension::Audit);
    let client = world.builder(EraChoice::Legacy).mgp(without).spawn(world.command()).await;
    let client = client.unwrap();
    let _forwarding = world.forward(&client);
    world.write(3).await;
    sleep(Duration::from_millis(200)).await;
    assert_eq!(world.stats(&client).await["total"], 0);
    client.close().await;
}

#[tokio::test]
async fn a_full_file_refuses_further_events() {
    let world = World::new(Delivery::Confirmed);
    let command = world.command().args(["--most", "5"]);
    let client = world.builder(EraChoice::Auto).spawn(command).await.unwrap();
    let mut forwarding = world.forward(&client);
    world.write(8).await;
    forwarding.wait_for(5).await;
    let refused = async || world.stats(&client).await["refused"].as_u64();
    until("three are refused", async || refused().await >= Some(3)).await;
    assert_eq!(forwarding.delivered(), 5);
    assert_eq!(world.stats(&client).await["total"], 5);
    client.close().await;
    // The restarted server is not limited to 5 events, so the refused ones must be delivered now.
    let client = world.start(EraChoice::Auto).await;
    let mut forwarding = world.forward(&client);
    forwarding.wait_for(8).await;
    assert_eq!(world.numbers(), (1..=8).collect::<Vec<_>>());
    client.close().await;
}

#[tokio::test]
async fn an_unfinished_line_is_written_again() {
    let world = World::new(Delivery::Confirmed);
    let client = world.start(EraChoice::Auto).await;
    let mut forwarding = world.forward(&client);
    world.write(20).await;
    forwarding.wait_for(20).await;
    drop(forwarding);
    client.close().await;
    world.tear();
    world.pretend_reached(19).await;
    let client = world.start(EraChoice::Auto).await;
    let mut forwarding = world.forward(&client);
    forwarding.wait_for(20).await;
    assert_eq!(world.numbers(), (1..=20).collect::<Vec<_>>());
    client.close().await;
}

#[tokio::test]
async fn a_file_with_a_line_that_is_not_an_event_stays_unchanged() {
    let world = World::new(Delivery::Confirmed);
    let client = world.start(EraChoice::Auto).await;
    let mut forwarding = world.forward(&client);
    world.write(3).await;
    forwarding.wait_for(3).await;
    client.close().await;
    let events = world.content();
    let (first, rest) = events.split_once('\n').unwrap();
    for content in ["Milk\n", "Milk", r#"{"a":1}"#, &format!("{first}\n\n{rest}")] {
        world.replace_content(content);
        let started = world.builder(EraChoice::Auto).spawn(world.command()).await;
        assert!(started.is_err(), "{content}");
        assert_eq!(world.content(), content);
    }
}
