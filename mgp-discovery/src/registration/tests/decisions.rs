//! Tests of review, approval and rejection.

use async_trait::async_trait;
use mgp_types::mgp::{CodeRejection, RejectionStatus};
use mgp_types::store::Change;
use mgp_types::{Payload, Sha256Hash};
use tokio::sync::Barrier;

use super::*;

#[tokio::test(start_paused = true)]
async fn the_state_of_an_earlier_server_must_be_removed_first() {
    let world = World::new();
    world.register(maker(), count("made")).await.unwrap();
    world.fake.stuck.store(1, Ordering::Relaxed);
    let refused = RpcError::from(world.approve().await.unwrap_err());
    assert!(refused.message().contains("is not removed yet"), "{refused}");
    assert_eq!(world.fake.log(), ["remove made"]);
    assert_eq!(world.waiting().await.len(), 1, "it may be approved again");
    world.approve().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_review_shows_everything_that_runs_and_no_secret() {
    let world = World::new();
    let params = json!({
        "id": "made", "command": "count", "args": ["a b", "\u{1b}[2J", "\u{202e}x"],
        "env": { "API_KEY": "hunter2", "MODE": "fast\n", "SESSION_TOKEN": "/tmp/e.cnf" }, "cwd": "bin", "justification": "to\ncount",
        "mgp": { "permissions_required": ["network.outbound"] },
    });
    world.register(maker(), params).await.unwrap();
    let waiting = world.waiting().await.remove(0);
    let program = world.folder.join("bin/count");
    assert_eq!(waiting.argv[0], program.to_str().unwrap());
    assert_eq!(waiting.argv[1..], ["a b", "\u{1b}[2J", "\u{202e}x"]);
    assert_eq!(waiting.env, ["API_KEY=…", "MODE=fast\n", "SESSION_TOKEN=/tmp/e.cnf"]);
    assert_eq!(waiting.cwd, world.folder.join("bin"));
    let sha256 = Sha256Hash::digest(&fs::read(&program).unwrap()).to_string();
    assert_eq!(waiting.files, [(program, sha256.clone())]);
    let shown = waiting.to_string();
    for words in [
        "asked for by local/local/maker",
        "\"a b\"",
        "is given   API_KEY=…\n",
        "is given   MODE=fast\\n",
        "to\\ncount",
    ] {
        assert!(shown.contains(words), "`{words}` is not in\n{shown}");
    }
    assert!(shown.contains(&format!("sha256 {sha256}")), "{shown}");
    assert!(shown.contains("needs      network.outbound"), "{shown}");
    assert!(shown.contains("is denied  shell.execute code_execution"), "{shown}");
    assert!(!shown.contains(['\u{1b}', '\u{202e}']), "control characters: {shown:?}");
    for text in [shown, format!("{waiting:?}"), format!("{:?}", world.audit.events())] {
        assert!(!text.contains("hunter2"), "{text}");
    }
    // The program must receive the value that the review hides. Debug output must hide the value, too.
    world.approve().await.unwrap();
    let launch = world.fake.running()[0].launch().await.unwrap();
    assert!(!format!("{launch:?}").contains("hunter2"));
    let ExpandedTarget::Program { env, cwd, .. } = launch.target else { panic!("a program") };
    assert_eq!((env["API_KEY"].as_str(), cwd), ("hunter2", world.folder.join("bin")));
}

#[tokio::test(start_paused = true)]
async fn only_the_reviewed_registration_is_approved_and_only_by_an_operator() {
    let world = World::new();
    world.register(maker(), count("made")).await.unwrap();
    let waiting = world.waiting().await.remove(0);
    let stored = Registrations::pending_in(&world.store).await.unwrap();
    assert_eq!(stored, std::slice::from_ref(&waiting), "other programs list it too");
    let (server, right) = (waiting.server, waiting.fingerprint);
    let approve = async |by: Principal, server: &ServerId, fingerprint: &Sha256Hash| {
        let reply = world.registrations.approve(&by, server, fingerprint, &[]).await;
        RpcError::from(reply.unwrap_err()).code().0
    };
    assert_eq!(approve(maker(), &server, &right).await, 1000);
    assert_eq!(approve(operator(), &server, &Sha256Hash::digest(b"other")).await, 4004);
    assert_eq!(approve(operator(), &"other".into(), &right).await, 4004);
    assert!(world.registrations.pending(&maker()).await.is_err());
    assert!(world.registrations.reject(&maker(), &server, &right).await.is_err());

    // The program was replaced while the operator reviewed it.
    program(&world.folder.join("bin/count"), "\u{7f}ELF with a worm");
    assert_eq!(approve(operator(), &server, &right).await, 4004);
    assert_ne!(world.waiting().await[0].fingerprint, right, "the new one waits");
    assert!(world.fake.log().is_empty());
    world.approve().await.unwrap();
    assert_eq!(world.fake.log(), ["remove made", "start made --all"]);
}

#[tokio::test(start_paused = true)]
async fn an_approval_is_bound_to_the_environment_although_its_values_are_hidden() {
    let world = World::new();
    let mut params = count("made");
    params["env"] = json!({ "KEY": "one" });
    world.register(maker(), params.clone()).await.unwrap();
    let one = world.waiting().await[0].fingerprint;
    world.deregister(maker(), "made").await.unwrap();
    params["env"] = json!({ "KEY": "two" });
    world.register(maker(), params).await.unwrap();
    assert_ne!(world.waiting().await[0].fingerprint, one);
}

/// Rejects the first waiting registration as an operator.
async fn reject(world: &World) {
    let waiting = world.waiting().await.remove(0);
    let (server, fingerprint) = (&waiting.server, &waiting.fingerprint);
    world.registrations.reject(&operator(), server, fingerprint).await.unwrap();
}

/// Registers a server, and returns the status in the reply.
async fn status(world: &World, by: Principal, params: Value) -> String {
    let reply = world.register(by, params).await.unwrap();
    reply["status"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_rejection_holds_although_its_registration_was_removed_or_replaced() {
    let mut world = World::new();
    status(&world, maker(), count("made")).await;
    reject(&world).await;
    world.deregister(maker(), "made").await.unwrap();
    assert_eq!(status(&world, maker(), count("made")).await, "rejected");
    let mut other = count("made");
    other["args"] = json!(["--few"]);
    assert_eq!(status(&world, maker(), other).await, "pending_approval");
    world.killed();
    world.registrations.open().await.unwrap();
    world.deregister(maker(), "made").await.unwrap();
    assert_eq!(status(&world, maker(), count("made")).await, "rejected");
    // The rejection must apply to this principal only, and end when an operator removes the registration.
    let two = Principal::local().agent("maker-two");
    assert_eq!(status(&world, two.clone(), count("made")).await, "pending_approval");
    reject(&world).await;
    world.deregister(operator(), "made").await.unwrap();
    assert_eq!(status(&world, two, count("made")).await, "pending_approval");
}

#[tokio::test(start_paused = true)]
async fn the_rejection_of_changed_files_holds_although_their_registration_was_removed() {
    let world = World::new();
    status(&world, maker(), count("made")).await;
    world.approve().await.unwrap();
    let server = world.fake.running().remove(0);
    program(&world.folder.join("bin/count"), "\u{7f}ELF with a worm");
    server.launch().await.unwrap_err();
    assert!(world.waiting().await[0].changed);
    reject(&world).await;
    refused(world.register(maker(), count("made")).await, 4101, "deregister that one first");
    assert_eq!(world.deregister(maker(), "made").await.unwrap()["status"], "deregistered");
    assert_eq!(status(&world, maker(), count("made")).await, "rejected");
    assert!(world.waiting().await.is_empty());

    // The rejection must apply only to a program with these files.
    program(&world.folder.join("bin/count"), "\u{7f}ELF");
    assert_eq!(status(&world, maker(), count("made")).await, "pending_approval");
    world.approve().await.unwrap();
    let server = world.fake.running().remove(0);
    program(&world.folder.join("bin/count"), "\u{7f}ELF with a worm");
    server.launch().await.unwrap_err();
    reject(&world).await;
    // The rejection must end if an operator removes the registration.
    world.deregister(operator(), "made").await.unwrap();
    assert_eq!(status(&world, maker(), count("made")).await, "pending_approval");
}

#[tokio::test(start_paused = true)]
async fn remembered_rejections_are_bounded_and_end() {
    let world = World::with(|config| config.max_each = 1, |builder| builder);
    world.register(maker(), count("made")).await.unwrap();
    reject(&world).await;
    world.deregister(maker(), "made").await.unwrap();
    let refusal = world.register(maker(), count("more")).await;
    refused(refusal, 3001, "1 of your registrations were rejected");

    let world = World::new();
    let ended = r#"{"by":{"tenant":"local","subject":"local"},"until":"2020-01-01T00:00:00Z"}"#;
    let ended = Payload::from_trusted(ended);
    let change = Change::new().put("registration_rejections", "ended", ended);
    world.store.commit(change).await.unwrap();
    world.register(maker(), count("made")).await.unwrap();
    assert!(world.store.load("registration_rejections").await.unwrap().records.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_undecided_registration_expires() {
    let world = World::with(|config| config.ttl = Duration::ZERO, |builder| builder);
    world.register(maker(), count("made")).await.unwrap();
    std::thread::sleep(Duration::from_millis(2));
    assert!(world.waiting().await.is_empty());
    assert_eq!(world.stored().await, 0);
    assert_eq!(world.new_events()[2], "server_registered BLOCKED by kernel");
}

/// A judge that accepts scripts that do not contain `evil`.
struct Kind;

#[async_trait]
impl CodeJudge for Kind {
    async fn judge(&self, script: JudgedScript) -> Result<CodeVerdict, RpcError> {
        let is_evil = script.text.contains("evil");
        assert_eq!(script.language, "python");
        let verdict = if is_evil {
            let mut body = CodeRejection::new(RejectionStatus::Rejected, "evil");
            body.violations = vec!["line 1: evil".to_owned()].into();
            CodeVerdict::Rejected(Box::new(body))
        } else {
            CodeVerdict::Accepted
        };
        Ok(verdict)
    }
}

#[tokio::test(start_paused = true)]
async fn a_sandboxed_script_is_refused_without_a_judge() {
    let world = World::new();
    let mut sandboxed = script("made");
    sandboxed["mgp"]["trust_level"] = json!("sandboxed");
    let source = json!({ "id": "made", "command": "python3.11", "source": "print(1)" });
    let module = json!({ "id": "made", "command": "python3.11", "args": ["-m", "made"] });
    for params in [sandboxed, source, module] {
        for by in [operator(), maker()] {
            let answer = world.register(by, params.clone()).await;
            let error = refused(answer, 4100, "this kernel cannot judge");
            assert!(error.message().contains("an operator to register it"), "a remedy: {error}");
        }
    }
    // A registration by an agent must be sandboxed, whatever its params contain.
    refused(world.register(maker(), script("made")).await, 4100, "this kernel cannot judge");
    assert_eq!(world.stored().await, 0);
    assert_eq!(world.register(operator(), script("made")).await.unwrap()["status"], "connected");
}

#[tokio::test(start_paused = true)]
async fn a_judge_decides_before_an_operator_is_asked_and_again_before_the_start() {
    let world = World::with(|_| {}, |builder| builder.judge(Arc::new(Kind)));
    assert_eq!(
        world.register(maker(), script("made")).await.unwrap()["status"],
        "pending_approval"
    );
    world.approve().await.unwrap();
    // A `json.py` in the folder of the script was not judged, so it must not be imported.
    assert_eq!(world.fake.log(), ["remove made", "start made -I made.py x"]);

    fs::write(world.folder.join("evil.py"), "evil()").unwrap();
    let evil = |args: Value| json!({ "id": "evil", "command": "python3.11", "args": args });
    let error = refused(world.register(maker(), evil(json!(["evil.py"]))).await, 1011, "evil");
    assert!(error.as_recovery().unwrap().details.as_ref().unwrap().get("violations").is_some());
    assert!(world.new_events().contains(&"CODE_REJECTED BLOCKED by maker".to_owned()));
    // These commands also run code that is not in the script, so the judge cannot check all of their code.
    for args in
        [json!(["-c", "evil()"]), json!(["-m", "evil", "made.py"]), json!(["-i", "made.py"])]
    {
        refused(world.register(maker(), evil(args)).await, 4100, "cannot be judged");
    }
    refused(world.register(maker(), evil(json!(["absent.py"]))).await, 4100, "begins at `cwd`");
    program(&world.folder.join("bin/bun"), "\u{7f}ELF");
    let bun = json!({ "id": "evil", "command": "bun", "args": ["made.py"] });
    refused(world.register(maker(), bun).await, 4100, "other than `bun`");
    // After the request, the script is replaced by evil code. The first approval notices the change, and the second
    // approval judges the new code.
    fs::write(world.folder.join("evil.py"), "good()").unwrap();
    world.register(maker(), evil(json!(["evil.py"]))).await.unwrap();
    fs::write(world.folder.join("evil.py"), "evil()").unwrap();
    assert_eq!(RpcError::from(world.approve().await.unwrap_err()).code().0, 4004);
    assert_eq!(RpcError::from(world.approve().await.unwrap_err()).code().0, 1011);
    assert!(world.fake.log().is_empty());
}

/// A judge that accepts every script. Each judgement except the first waits until another judgement is also waiting.
struct InPairs {
    count: AtomicU32,
    pair: Barrier,
}

#[async_trait]
impl CodeJudge for InPairs {
    async fn judge(&self, _: JudgedScript) -> Result<CodeVerdict, RpcError> {
        if self.count.fetch_add(1, Ordering::Relaxed) > 0 {
            self.pair.wait().await;
        }
        Ok(CodeVerdict::Accepted)
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_approvals_at_once_the_second_does_not_stop_the_server() {
    let judge = InPairs { count: AtomicU32::new(0), pair: Barrier::new(2) };
    let world = World::with(|_| {}, |builder| builder.judge(Arc::new(judge)));
    world.register(maker(), script("made")).await.unwrap();
    let (waiting, by) = (world.waiting().await.remove(0), operator());
    let approve = || world.registrations.approve(&by, &waiting.server, &waiting.fingerprint, &[]);
    let (one, two) = tokio::join!(approve(), approve());
    let (approved, refused) = if one.is_ok() { (one, two) } else { (two, one) };
    assert_eq!(serde_json::to_value(approved.unwrap()).unwrap()["status"], "connected");
    assert_eq!(RpcError::from(refused.unwrap_err()).code().0, 4004);
    assert_eq!(world.fake.log(), ["remove made", "start made -I made.py x"]);
    assert_eq!(world.fake.running().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_script_of_a_request_is_stored_in_a_private_folder() {
    let world = World::new();
    let params = json!({
        "id": "made", "command": "python3.11", "args": ["x"], "source": "print(1)",
        "mgp": { "trust_level": "standard" },
    });
    world.register(operator(), params).await.unwrap();
    let file = world.folder.join("scripts/made.py");
    assert_eq!(world.fake.log(), [format!("start made {} x", file.display())]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "print(1)");
    // The approved script must replace a changed file before the start.
    fs::write(&file, "evil()").unwrap();
    world.fake.running()[0].launch().await.unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "print(1)");
    world.deregister(operator(), "made").await.unwrap();
    assert!(!file.exists());

    let world = World::with(|config| config.scripts = None, |builder| builder);
    let params = json!({
        "id": "made", "command": "python3.11", "source": "1", "mgp": { "trust_level": "standard" },
    });
    refused(world.register(operator(), params).await, 4100, "name a file in `args`");
}
