//! Tests that registrations survive the end of the kernel, and that only approved programs run.

use mgp_types::method::{DiscoveryList, KernelApprovalsApprove, KernelServersStop};
use mgp_types::mgp::{
    DiscoveryListParams, KernelApprovalDecisionParams, KernelServerParams, ServerState,
};

use mgp_testkit::until;

use crate::world::{World, text, waiting};

#[tokio::test]
async fn the_next_kernel_starts_a_registered_server_on_its_first_call() {
    let mut world = World::new("").await;
    let ada = world.registrar().await;
    world.add(&ada, "made").await;
    world.grant("ada", "made", "say").await;
    assert_eq!(text(&ada, "say").await.as_deref(), Ok("said"));
    assert_eq!(world.runs("made"), 1);
    drop(ada);

    world.restart().await;
    let made = world.server("made").unwrap();
    assert_eq!((made.status, made.tools, world.runs("made")), (ServerState::Registered, 2, 1));
    let ada = world.agent("ada").await;
    assert_eq!(text(&ada, "say").await.as_deref(), Ok("said"));
    assert_eq!(world.runs("made"), 2);
    world.end().await;
}

#[tokio::test]
async fn a_changed_program_needs_a_new_approval_before_it_runs() {
    let mut world = World::new("").await;
    let (ada, operator) = (world.registrar().await, world.operator().await);
    world.add(&ada, "made").await;
    world.grant("ada", "made", "say").await;
    assert_eq!(text(&ada, "say").await.as_deref(), Ok("said"));

    operator.request::<KernelServersStop>(&KernelServerParams::new("made")).await.unwrap();
    world.change_program();
    world.kernel.start_server(&"made".into()).await;
    assert!(text(&ada, "say").await.is_err());
    let waits = waiting(&operator).await;
    assert_eq!((waits.len(), waits[0].kind.as_str()), (1, "registration"));
    assert!(waits[0].question.contains("other files had been approved"), "{}", waits[0].question);
    assert!(waits[0].expires_at.is_none(), "it does not expire");
    assert_eq!(world.runs("made"), 1, "it does not run");

    // The next kernel must not start the changed program or list its tools.
    drop((ada, operator));
    world.restart().await;
    let (ada, operator) = (world.agent("ada").await, world.operator().await);
    assert!(world.server("made").is_none() && world.kernel.index().tools_of("made").is_empty());
    assert!(text(&ada, "say").await.is_err());
    let listed = operator.request::<DiscoveryList>(&DiscoveryListParams::new()).await.unwrap();
    assert_eq!(listed.servers[0].status, ServerState::Registered);
    assert_eq!(world.runs("made"), 1);

    // After an operator has approved the changed program, the server runs and keeps its earlier grants.
    let params = KernelApprovalDecisionParams::new(waiting(&operator).await[0].id.as_str());
    operator.request::<KernelApprovalsApprove>(&params).await.unwrap();
    world.knows("made").await;
    assert_eq!(text(&ada, "say").await.as_deref(), Ok("said"));
    assert_eq!(world.runs("made"), 2);
    world.end().await;
}

#[tokio::test]
async fn a_crashed_server_is_not_restarted_after_its_program_changed() {
    let world = World::new("").await;
    let (ada, operator) = (world.registrar().await, world.operator().await);
    world.add(&ada, "made").await;
    world.change_program();
    // If the server is killed, the kernel restarts it, unless its program has changed.
    let pid = world.server("made").unwrap().pid.unwrap();
    std::process::Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap();
    until("an operator is asked", async || waiting(&operator).await.len() == 1).await;
    until("the server is down", async || world.server("made").unwrap().pid.is_none()).await;
    assert_eq!(world.runs("made"), 1);
    // The kernel neither lists nor finds the tools of the server until an operator has approved the changed program.
    let tools = || world.kernel.index().tools_of("made").len();
    until("its tools are forgotten", async || tools() == 0).await;
    let params = KernelApprovalDecisionParams::new(waiting(&operator).await[0].id.as_str());
    operator.request::<KernelApprovalsApprove>(&params).await.unwrap();
    until("its tools are known again", async || tools() == 2).await;
    world.end().await;
}
