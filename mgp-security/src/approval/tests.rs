//! Tests of approvers: their availability, the text they show, and the answers that approve.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use mgp_types::mgp::{Actor, GrantDecision, Permission, RiskLevel};
use mgp_types::service::{
    AcceptedRequests, BoxFuture, CallerAccess, CallerChannel, CallerRequest, Context, Peer,
    PeerInfo, Principal, Scope, ScopeKind,
};
use mgp_types::{Payload, RpcError, Sha256Hash};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::{
    Approver, ApproverChain, ConfiguredApprover, Decision, ElicitApprover, Question,
    QuestionSubject, TerminalApprover,
};

/// A caller that gives the same answer to every question, and stores the questions.
#[derive(Clone)]
struct Caller {
    answer: Value,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Caller {
    fn answering(answer: Value) -> Self {
        Self { answer, asked: Arc::default() }
    }

    fn cx(&self) -> Context {
        let mut cx =
            Context::new(Peer::none(), Scope::new(ScopeKind::Connection), Principal::local());
        let mut facts = PeerInfo::default();
        let mut asks = AcceptedRequests::default();
        asks.elicitation = true;
        facts.accepts = asks;
        cx.caller = Arc::new(facts);
        cx.caller_access = CallerAccess::Channel(Arc::new(self.clone()));
        cx
    }

    fn asked(&self) -> Vec<(String, Value)> {
        self.asked.lock().unwrap().clone()
    }
}

impl CallerChannel for Caller {
    fn ask(&self, key: &str, ask: CallerRequest) -> BoxFuture<'static, Result<Payload, RpcError>> {
        self.asked.lock().unwrap().push((key.to_owned(), ask.params().get().unwrap()));
        Box::pin(std::future::ready(Payload::of(&self.answer)))
    }
}

fn about(about: QuestionSubject) -> Question {
    Question::new(about, Some("files".into()), Principal::local(), Sha256Hash::digest(b"x"))
}

fn call(arguments: &str) -> Question {
    about(QuestionSubject::Call {
        tool: "rm".to_owned(),
        arguments: arguments.to_owned(),
        risk: RiskLevel::Dangerous,
        permissions: Vec::new(),
    })
}

fn permissions(names: &[&str]) -> Question {
    let permissions = names.iter().map(|name| Permission::from(*name)).collect();
    about(QuestionSubject::Permissions { permissions, tool: None })
}

/// Asks a question at a terminal, in a separate task.
fn ask(
    terminal: &TerminalApprover,
    cx: &Context,
    question: Question,
) -> JoinHandle<Result<Decision, RpcError>> {
    let (terminal, cx) = (terminal.clone(), cx.clone());
    tokio::spawn(async move { terminal.decide(&cx, question).await })
}

async fn elicit(question: Question, answer: Value) -> (Decision, String, Value) {
    let caller = Caller::answering(answer);
    let decision = ElicitApprover::everyone().decide(&caller.cx(), question).await.unwrap();
    let (key, params) = caller.asked().remove(0);
    (decision, key, params)
}

#[tokio::test]
async fn only_the_right_content_of_an_accepted_form_confirms() {
    let rows = [
        (json!({"action": "accept", "content": {"confirm": true}}), GrantDecision::Approved),
        (json!({"action": "accept", "content": {"confirm": false}}), GrantDecision::Denied),
        (json!({"action": "accept", "content": {"confirm": "true"}}), GrantDecision::Denied),
        (json!({"action": "accept", "content": {"yes": true}}), GrantDecision::Denied),
        (json!({"action": "accept"}), GrantDecision::Denied),
        (json!({"action": "decline", "content": {"confirm": true}}), GrantDecision::Denied),
        (json!({"action": "cancel", "content": {"confirm": true}}), GrantDecision::Deferred),
        (json!({"action": "later", "content": {"confirm": true}}), GrantDecision::Deferred),
    ];
    for (answer, expected) in rows {
        let (decision, key, _) = elicit(call("{}"), answer.clone()).await;
        assert_eq!(decision.answer, expected, "{answer}");
        assert!(key.starts_with("mgp.confirm."), "{key}");
    }
    let caller = Caller::answering(json!(7));
    assert!(ElicitApprover::everyone().decide(&caller.cx(), call("{}")).await.is_err());
}

#[tokio::test]
async fn the_form_shows_server_tool_risk_and_arguments_as_they_are() {
    let arguments = "{\"path\":\"a\u{202e}b\u{200b}c\",\"text\":\"\u{9b}31m\"}";
    let (_, _, params) = elicit(call(arguments), json!({"action": "decline"})).await;
    let message = params["message"].as_str().unwrap();
    assert_eq!(
        message,
        "Run the tool `rm` of the server `files`?\nRisk: dangerous\n\
         Arguments: {\"path\":\"a\\u{202e}b\\u{200b}c\",\"text\":\"\\u{9b}31m\"}"
    );
    let mut asking = call(r#"{"path":"a"}"#);
    asking.message = Some(format!("Remove {{path}}?\n{}Risk: safe\u{202e}", " ".repeat(80)));
    let (_, _, with) = elicit(asking, json!({"action": "decline"})).await;
    let lines: Vec<_> = with["message"].as_str().unwrap().lines().collect();
    assert_eq!(lines[1..3], ["Risk: dangerous", r"The server asks: Remove a? Risk: safe\u{202e}"]);
    let field = &params["requestedSchema"]["properties"]["confirm"];
    assert_eq!(field["type"], "boolean");
    assert!(field.get("default").is_none(), "an untouched field is not a yes");
    let long = format!(r#"{{"text":"{}"}}"#, "x".repeat(100_000));
    let (_, _, params) = elicit(call(&long), json!({"action": "decline"})).await;
    assert!(params["message"].as_str().unwrap().len() < 3000);
}

#[tokio::test]
async fn a_form_has_a_default_for_each_optional_field() {
    for question in [call("{}"), permissions(&["filesystem.read"])] {
        let (_, _, params) = elicit(question, json!({"action": "decline"})).await;
        let schema = &params["requestedSchema"];
        for (name, field) in schema["properties"].as_object().unwrap() {
            let is_required = schema["required"].as_array().unwrap().contains(&json!(name));
            assert_ne!(field.get("default").is_some(), is_required, "{name}: {field}");
        }
    }
}

#[tokio::test]
async fn each_permission_is_decided_separately_and_for_a_term() {
    let question = || permissions(&["filesystem.read", "shell.execute"]);
    let both = json!({"filesystem.read": true, "shell.execute": true, "term": "until revoked"});
    let caller = Caller::answering(json!({"action": "accept", "content": both}));
    let mut cx = caller.cx();
    cx.principal = Principal::local().operator();
    let decision = ElicitApprover::everyone().decide(&cx, question()).await.unwrap();
    let (key, params) = caller.asked().remove(0);
    assert_eq!((decision.answer, decision.expires_at), (GrantDecision::Approved, None));
    assert!(key.starts_with("mgp.permission."), "{key}");
    let message = params["message"].as_str().unwrap();
    assert_eq!(
        message,
        "Which permissions may the server `files` have?\n- filesystem.read (moderate)\n- shell.execute (dangerous)\n\
         Declining the form denies all of them for 1 hour."
    );
    let one = json!({"filesystem.read": true, "shell.execute": false, "term": "1 day"});
    let (decision, ..) = elicit(question(), json!({"action": "accept", "content": one})).await;
    assert_eq!(decision.answer, GrantDecision::Deferred, "an empty box is no lasting denial");
    let allowed: Vec<_> = decision.per_permission.keys().map(Permission::as_str).collect();
    assert_eq!(allowed, ["filesystem.read"]);
    let end = decision.expires_at.unwrap().to_system_time().unwrap();
    let left = end.duration_since(SystemTime::now()).unwrap();
    assert!(left > Duration::from_hours(23) && left <= Duration::from_hours(24));
    // If the person chooses no term, the shortest one applies.
    let silent = json!({"filesystem.read": true, "shell.execute": true, "term": "ever"});
    let (decision, ..) = elicit(question(), json!({"action": "accept", "content": silent})).await;
    let end = decision.expires_at.unwrap().to_system_time().unwrap();
    assert!(end <= SystemTime::now() + Duration::from_hours(1));
    let (decision, ..) = elicit(question(), json!({"action": "decline"})).await;
    assert_eq!(decision.answer, GrantDecision::Denied);
}

#[tokio::test]
async fn the_fields_of_permissions_have_names_that_typed_clients_keep() {
    let names = ["filesystem.read", "camera", "com.a_b.c", "com.a.b-c", "com.a.b.c.2", "com.a.b.c"];
    let fields = ["filesystem_read", "camera", "com_a_b_c", "com_a_b_c_2", "com_a_b_c_2_2"];
    let fields: Vec<_> = fields.iter().map(|field| format!("allow_{field}")).collect();
    let (_, _, params) = elicit(permissions(&names[..5]), json!({"action": "decline"})).await;
    let shown = params["requestedSchema"]["properties"].as_object().unwrap();
    for (field, permission) in fields.iter().zip(names) {
        let title = shown[field]["title"].as_str().unwrap();
        assert!(title.starts_with(permission), "{field}: {title}");
        let yes = json!({"action": "accept", "content": {field.as_str(): true}});
        let (decision, ..) = elicit(permissions(&names), yes).await;
        let allowed: Vec<_> = decision.per_permission.keys().map(Permission::as_str).collect();
        assert_eq!(allowed, [permission]);
    }
    assert_eq!(shown.len(), 7, "the term and the reason are the other fields");
    // The field names must differ even for a client that merges underscores or ignores the case of letters.
    let names = ["_._", "-.-", "-.2", "a.b", "A.B"];
    let (_, _, params) = elicit(permissions(&names), json!({"action": "decline"})).await;
    let shown = params["requestedSchema"]["properties"].as_object().unwrap();
    for field in ["allow", "allow_2", "allow_2_2", "allow_a_b", "allow_A_B_2"] {
        assert!(shown.contains_key(field), "{field}: {shown:?}");
    }
    // An answer with the field name of an earlier version counts, unless it also contains the current field name.
    for (content, allowed) in
        [(json!({"camera": true}), 1), (json!({"camera": true, "allow_camera": false}), 0)]
    {
        let answer = json!({"action": "accept", "content": content});
        let (decision, ..) = elicit(permissions(&["camera"]), answer).await;
        assert_eq!(decision.per_permission.len(), allowed, "{content}");
    }
}

#[tokio::test]
async fn no_user_decides_for_a_tenant_without_an_expiry() {
    let ends_soon = |decision: &Decision| {
        let end = decision.expires_at.as_ref().expect("it has an end").to_system_time().unwrap();
        end <= SystemTime::now() + Duration::from_hours(1)
    };
    let ever = json!({"filesystem.read": true, "term": "until revoked"});
    let (decision, _, params) =
        elicit(permissions(&["filesystem.read"]), json!({"action": "accept", "content": ever}))
            .await;
    assert_eq!(decision.answer, GrantDecision::Approved);
    assert!(ends_soon(&decision), "{decision:?}");
    let terms = &params["requestedSchema"]["properties"]["term"]["enum"];
    assert_eq!(*terms, json!(["1 hour", "1 day", "30 days"]));
    let (decision, ..) =
        elicit(permissions(&["filesystem.read"]), json!({"action": "decline"})).await;
    assert_eq!(decision.answer, GrantDecision::Denied);
    assert!(ends_soon(&decision), "{decision:?}");
}

#[tokio::test]
async fn permissions_beyond_the_form_are_undecided() {
    let names: Vec<_> = (0..40).map(|index| format!("com.example.p{index}")).collect();
    let mut names: Vec<_> = names.iter().map(String::as_str).collect();
    names.push("term");
    let content: Value = names.iter().map(|name| ((*name).to_owned(), json!(true))).collect();
    let (decision, _, params) =
        elicit(permissions(&names), json!({"action": "accept", "content": content})).await;
    assert_eq!(decision.answer, GrantDecision::Deferred);
    assert_eq!(decision.per_permission.len(), 32);
    let fields = params["requestedSchema"]["properties"].as_object().unwrap();
    assert_eq!(fields.len(), 34);
    assert_eq!(fields["term"]["type"], "string");
}

#[tokio::test]
async fn a_caller_that_is_not_interactive_is_not_asked() {
    let caller = Caller::answering(json!({"action": "accept", "content": {"confirm": true}}));
    let mut cx = caller.cx();
    assert!(ElicitApprover::default().decide(&cx, call("{}")).await.is_err());
    let people = ElicitApprover::new(|principal| principal.as_agent().is_none());
    assert!(people.decide(&cx, call("{}")).await.is_ok());
    cx.principal = Principal::local().agent("bot");
    assert!(people.decide(&cx, call("{}")).await.is_err());
    assert_eq!(caller.asked().len(), 1);
}

#[tokio::test]
async fn the_first_available_approver_decides() {
    let yes = json!({"action": "accept", "content": {"confirm": true}});
    let caller = Caller::answering(yes);
    let listed =
        || ConfiguredApprover::new().tool("files", "ls").permissions(["filesystem".into()]);
    let approver = ApproverChain::new(listed()).then(ElicitApprover::everyone());
    let decision = approver.decide(&caller.cx(), call("{}")).await.unwrap();
    assert_eq!((decision.by.as_str(), caller.asked().len()), ("local", 1));
    let read = permissions(&["filesystem.read"]);
    assert!(approver.grants(None, &Permission::FilesystemRead));
    assert!(!approver.grants(None, &Permission::ShellExecute));
    assert!(listed().decide(&caller.cx(), read).await.is_err(), "nothing of it is kept");
    let listed_call = ApproverChain::new(ConfiguredApprover::new().tool("files", "rm"))
        .then(ElicitApprover::everyone());
    let decision = listed_call.decide(&caller.cx(), call("{}")).await.unwrap();
    assert_eq!((decision.by.as_str(), caller.asked().len()), ("configuration", 1));
    assert_eq!(decision.actor(), Actor::new("kernel", "configuration"), "no user did it");
    let declines = Caller::answering(json!({"action": "decline"}));
    let approver = ApproverChain::new(ElicitApprover::everyone())
        .then(ConfiguredApprover::new().tool("files", "rm"));
    let decision = approver.decide(&declines.cx(), call("{}")).await.unwrap();
    assert_eq!(decision.answer, GrantDecision::Denied, "a no is a decision");
    assert!(ApproverChain::new(listed()).decide(&caller.cx(), call("{}")).await.is_err());
    let other = Question { server: Some("other".into()), ..call("{}") };
    let configured = ConfiguredApprover::new().tool("files", "rm");
    assert!(configured.decide(&caller.cx(), other).await.is_err());
    assert!(configured.decide(&caller.cx(), call("{}")).await.is_ok());
}

// === The terminal ===

#[derive(Clone, Default)]
struct Screen(Arc<Mutex<Vec<u8>>>);

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Screen {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }

    /// Waits for a number of questions; returns the code of the last one.
    async fn questions(&self, count: usize) -> String {
        self.shows("\r\nType yes ", count).await;
        let text = self.text();
        text.rsplit("Type yes ").next().unwrap()[..2].to_owned()
    }

    /// Waits until the screen has shown a text a given number of times.
    async fn shows(&self, words: &str, count: usize) {
        tokio::time::timeout(Duration::from_secs(10), async {
            while self.text().matches(words).count() < count {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await
        .unwrap_or_else(|_| panic!("{}", self.text()));
    }
}

fn terminal() -> (TerminalApprover, Screen, impl Write) {
    let (keyboard, keys) = std::io::pipe().unwrap();
    let screen = Screen::default();
    (TerminalApprover::over(keyboard, screen.clone()), screen, keys)
}

#[tokio::test]
async fn the_terminal_approves_with_yes_and_the_code_only_and_asks_one_thing_at_a_time() {
    let (terminal, screen, mut keys) = terminal();
    let cx = Caller::answering(json!(null)).cx();
    let mut count = 0;
    for (line, expected) in [
        ("yes CODE\n", GrantDecision::Approved),
        (" yes  CODE \r\n", GrantDecision::Approved),
        ("y CODE\n", GrantDecision::Denied),
        ("\n", GrantDecision::Denied),
        ("YES CODE\n", GrantDecision::Denied),
        ("yes CODE x\n", GrantDecision::Denied),
        ("no\n", GrantDecision::Denied),
        ("no CODE\n", GrantDecision::Denied),
    ] {
        let deciding = ask(&terminal, &cx, call("{\"a\":\"\u{1b}[2J\"}"));
        count += 1;
        let code = screen.questions(count).await;
        keys.write_all(line.replace("CODE", &code).as_bytes()).unwrap();
        assert_eq!(deciding.await.unwrap().unwrap().answer, expected, "{line:?}");
    }
    let first = ask(&terminal, &cx, call("{}"));
    let code = screen.questions(count + 1).await;
    let second = ask(&terminal.clone().by("grace"), &cx, call("{}"));
    let long = format!("yes {code}{}\n", " ".repeat(1000) + "x");
    keys.write_all(long.as_bytes()).unwrap();
    assert_eq!(first.await.unwrap().unwrap().answer, GrantDecision::Denied);
    let code = screen.questions(count + 2).await;
    keys.write_all(format!("yes {code}\n").as_bytes()).unwrap();
    let decision = second.await.unwrap().unwrap();
    assert_eq!((decision.answer, decision.by.as_str()), (GrantDecision::Approved, "grace"));
    assert!(!screen.text().contains('\u{1b}'), "a control character was shown");
    assert!(!screen.text().contains("withdrawn"), "{}", screen.text());
}

#[tokio::test]
async fn a_late_yes_approves_no_other_question() {
    let (terminal, screen, mut keys) = terminal();
    let mut cx = Caller::answering(json!(null)).cx();
    let first = tokio::select! {
        decided = terminal.decide(&cx, call("{}")) => panic!("{decided:?}"),
        first = screen.questions(1) => first,
    };
    screen.shows("withdrawn", 1).await;
    keys.write_all(format!("yes {first}\nyes\n").as_bytes()).unwrap();
    // Give the reader thread the time to read the lines that were typed before the next question.
    tokio::time::sleep(Duration::from_millis(100)).await;
    cx.principal = Principal::new("acme", "ada").agent("bot");
    let question = Question { principal: cx.principal.clone(), ..call("{}") };
    let deciding = ask(&terminal, &cx, question);
    let second = screen.questions(2).await;
    assert!(screen.text().contains("For: agent `bot` of `ada` in `acme`"), "{}", screen.text());
    assert_ne!(first, second);
    // These lines arrive while the second question is open, but are answers to the first one.
    keys.write_all(format!("yes {first}\nyes\nno {first}\n").as_bytes()).unwrap();
    screen.shows("That answers another question", 3).await;
    assert!(!deciding.is_finished());
    keys.write_all(b"no\n").unwrap();
    assert_eq!(deciding.await.unwrap().unwrap().answer, GrantDecision::Denied);
}

#[tokio::test]
async fn a_closed_terminal_is_unavailable() {
    struct Nothing;
    impl Read for Nothing {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Ok(0)
        }
    }
    let terminal = TerminalApprover::over(Nothing, Screen::default());
    let cx = Caller::answering(json!(null)).cx();
    assert!(terminal.decide(&cx, call("{}")).await.is_err());
}

#[test]
fn time_limits_of_a_chain_do_not_overflow() {
    #[derive(Clone)]
    struct Patient;
    #[async_trait::async_trait]
    impl Approver for Patient {
        async fn decide(&self, _: &Context, _: Question) -> Result<Decision, RpcError> {
            std::future::pending().await
        }

        fn timeout(&self) -> Duration {
            Duration::MAX
        }
    }
    assert_eq!(ApproverChain::new(Patient).then(Patient).timeout(), Duration::MAX);
}
