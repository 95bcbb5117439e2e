//! Tests of reviews, i.e. of permissions of servers that were not ready: their answers, and their effect on calls.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_a_review_gets_its_answer() {
    for answer in [GrantDecision::Approved, GrantDecision::Denied] {
        let (world, disk) = (World::open().await, ServerId::from("disk"));
        let camera = [Permission::Camera];
        world.inbox.keep_review(&ann(), &disk).await.unwrap();
        world.inbox.ask_for_review(&disk, "local", &camera).await.unwrap();
        let review = world.inbox.list(&ann()).await.unwrap()[0].id.clone();
        let deciding = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let decided = if answer == GrantDecision::Approved {
                world.inbox.approve(&ann(), &review, None).await
            } else {
                world.inbox.deny(&ann(), &review, None).await
            };
            decided.unwrap();
        };
        let question = asking_for(&camera);
        let (decision, ()) = tokio::join!(world.ask(&question), deciding);
        // The permission itself is not stored yet, so a call that is only decided again would be refused.
        assert_eq!((decision.answer, decision.by.as_str()), (answer, "ann"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_review_cannot_be_answered_before_its_server_is_ready() {
    let world = World::open().await;
    world.inbox.keep_review(&ann(), &"disk".into()).await.unwrap();
    let review = world.inbox.list(&ann()).await.unwrap()[0].id.clone();
    let refused = world.inbox.approve(&ann(), &review, None).await.unwrap_err();
    assert!(refused.message().ends_with("until its server is ready"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn reviews_leave_the_operator_who_wants_them_room_for_calls() {
    let world = World::open().await;
    // The limit for each caller is two open requests, but reviews do not count towards this limit.
    for server in ["disk", "mail"].map(ServerId::from) {
        world.inbox.keep_review(&ann(), &server).await.unwrap();
        world.inbox.ask_for_review(&server, "local", &[Permission::Camera]).await.unwrap();
    }
    assert_eq!(world.ask(&wipe(&ann(), "all")).await.answer, GrantDecision::Deferred);
}
