//! Tests of the issuers to which credentials are bound, and of the remedies for refused credentials.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mgp_discovery::{Config, ExpandedTarget, Expander};
use mgp_types::service::{Fetch, FetchError, FetchRequest, FetchResponse};
use serde_json::json;

use super::*;

const SERVER: &str = "https://server.example/mcp";
const ISSUERS: [&str; 2] = ["https://one.example", "https://two.example"];

/// A simulation of a server that names this issuer, and of the issuer.
struct Names(&'static str);

#[async_trait]
impl Fetch for Names {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchError> {
        let issuer = self.0;
        let answer = if request.url.contains("/oauth-protected-resource") {
            json!({ "resource": SERVER, "authorization_servers": [issuer] })
        } else if request.url.ends_with("/token") {
            json!({ "access_token": "s3cret", "token_type": "Bearer" })
        } else {
            json!({ "issuer": issuer, "token_endpoint": format!("{issuer}/token") })
        };
        Ok(FetchResponse::new(200, answer.to_string()))
    }
}

/// Returns the OAuth client with this id, as in a new process, for a server that names this issuer.
fn machine(logins: &Logins, id: &str, issuer: &'static str) -> OAuth {
    let credentials = ClientCredentials::secret(id, "s3cret");
    let oauth = OAuth::client_credentials(SERVER, Arc::new(Names(issuer)), credentials);
    logins.bind_issuer(&"a".into(), oauth)
}

#[tokio::test]
async fn credentials_stay_at_their_first_issuer_after_a_restart() {
    let state = mgp_testkit::temp_dir();
    let logins = Logins::in_folder(state.path());
    let [one, two] = ISSUERS;
    machine(&logins, "job", one).log_in().await.unwrap();
    let file = state.path().join(FOLDER).join("a~issuer.json");
    assert!(!std::fs::read_to_string(file).unwrap().contains("s3cret"));
    for _ in 0..2 {
        let error = machine(&logins, "job", two).log_in().await.unwrap_err();
        assert!(matches!(*error, AuthError::ForeignIssuer { .. }), "{error}");
    }
    machine(&logins, "job", one).log_in().await.unwrap();
    machine(&logins, "other", two).log_in().await.unwrap();
    machine(&logins, "job", two).issuer(two).log_in().await.unwrap();
    machine(&logins, "job", two).log_in().await.unwrap();
    assert!(machine(&logins, "job", one).log_in().await.is_err());
}

#[test]
fn a_client_stays_bound_to_its_issuer_while_there_is_a_login() {
    let state = mgp_testkit::temp_dir();
    let logins = Logins::in_folder(state.path());
    let folder = state.path().join(FOLDER);
    std::fs::create_dir(&folder).unwrap();
    let record = folder.join("a~issuer.json");
    let others = [record.clone(), folder.join("b.json"), folder.join("a.json.lock")];
    for file in &others {
        std::fs::write(file, "{}").unwrap();
    }
    for owner in [None, Some(Principal::local().agent("ann"))] {
        let login = logins.file(&"a".into(), owner.as_ref()).unwrap();
        std::fs::write(&login, "{}").unwrap();
        assert_eq!(logins.files(&"a".into()).unwrap(), std::slice::from_ref(&login));
        logins.unbind_issuer(&"a".into()).unwrap();
        assert!(record.exists());
        std::fs::remove_file(login).unwrap();
    }
    for _ in 0..2 {
        logins.unbind_issuer(&"a".into()).unwrap();
        assert!(!record.exists() && others[1].exists());
    }
}

#[tokio::test]
async fn missing_scopes_are_named_even_without_quotation_marks() {
    let state = mgp_testkit::temp_dir();
    let logins = Logins::in_folder(state.path()).with_proxy(Proxy::none());
    let server = server(SERVER, ISSUERS[0]);
    let earlier = machine(&logins, "job", ISSUERS[0]);
    earlier.log_in().await.unwrap();
    let file = FileTokens::at(logins.file(&server.id, None).unwrap());
    file.save(earlier.entry().unwrap()).await.unwrap();
    let login = logins.credentials(server, None).unwrap();
    let challenge = "Bearer error=insufficient_scope, scope=write".to_owned();
    let refusal = CredentialRefusal::new(403, vec![challenge], Some("Bearer s3cret".to_owned()));
    let error = login.handle_refusal(refusal).await.unwrap_err();
    let remedy = "run `mgp servers login a --scopes write`";
    assert!(error.message().contains(remedy), "{error}");
}

#[test]
fn a_fault_that_no_login_resolves_is_not_called_a_refusal_of_the_credentials() {
    let mut server = server(SERVER, ISSUERS[0]);
    server.auth.grant = AuthGrant::ClientCredentials;
    let login = ServerLogin {
        server,
        owner: None,
        file: None,
        logins: Logins::default(),
        oauth: OnceLock::new(),
        report: Arc::new(|_| ()),
    };
    let explained = |error: AuthError| {
        let error = RpcError::from(&error).because(Arc::new(error));
        login.explain(error).message().to_owned()
    };
    let issuer = || "https://theirs.example".to_owned();
    let asked = ISSUERS[0].to_owned();
    for (error, expected) in [
        (AuthError::NoMetadata { issuer: issuer() }, "has no metadata"),
        (AuthError::IssuerMismatch { asked, found: issuer() }, "names another issuer"),
        (
            AuthError::ResourceMismatch { resource: issuer(), server: SERVER.to_owned() },
            "is for another URL",
        ),
        (
            AuthError::Proof { error: issuer(), hint: "compare the clock" },
            "refuses the proofs of possession of its token (DPoP): compare the clock",
        ),
        (
            AuthError::Token {
                endpoint: issuer(),
                error: "invalid_dpop_proof".to_owned(),
                description: issuer(),
            },
            "check the clock of this machine",
        ),
        (
            AuthError::NoDpop { issuer: issuer(), why: "no algorithm fits" },
            "can be bound to a key (DPoP): no algorithm fits; check `dpop`",
        ),
        (AuthError::NoBrowser, "are refused; check its `auth`"),
        (
            TokenStoreError::Damaged { path: "/theirs".into(), why: "it is empty".into() }.into(),
            "remove its file, which the log names",
        ),
    ] {
        let text = explained(error);
        assert!(text.contains(expected) && !text.contains("theirs"), "{text}");
    }
}

#[test]
fn a_stored_login_that_cannot_be_used_is_replaced_unless_the_fault_may_pass() {
    let reports = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&reports);
    let login = ServerLogin {
        server: server(SERVER, ISSUERS[0]),
        owner: None,
        file: None,
        logins: Logins::default(),
        oauth: OnceLock::new(),
        report: Arc::new(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        }),
    };
    let path = || PathBuf::from("/theirs");
    let source = io::Error::from(io::ErrorKind::StorageFull);
    let full = PrivateFileError::Io { path: path(), verb: "written", source };
    let exposed = PrivateFileError::Exposed { path: path(), mode: 0o644 };
    let damaged = TokenStoreError::Damaged { path: path(), why: "it is empty".to_owned() };
    let remedy = "run `mgp servers logout a`, then `mgp servers login a`";
    for (stored, code, expected, reported) in [
        (TokenStoreError::File(full), ErrorCode::INTERNAL_ERROR, "the log has the reason", 0),
        (TokenStoreError::File(exposed), ErrorCode::AUTH_REQUIRED, remedy, 1),
        (damaged, ErrorCode::AUTH_REQUIRED, remedy, 2),
    ] {
        let error = AuthError::Store(stored);
        let error = login.explain(RpcError::from(&error).because(Arc::new(error)));
        let text = error.message();
        assert!(text.contains(expected) && !text.contains("theirs"), "{text}");
        assert_eq!((error.code(), reports.load(Ordering::Relaxed)), (code, reported), "{text}");
    }
}

fn server(url: &str, issuer: &str) -> LoginServer {
    let text =
        format!("servers = [{{ id = 'a', url = '{url}', auth = {{ issuer = '{issuer}' }} }}]");
    let config = Config::parse("mgp.toml", &text).unwrap().config;
    let expanded = Expander::new(|_| None).server(&config.servers[0]).unwrap();
    let ExpandedTarget::Url { url, auth, .. } = expanded.target else { panic!("no URL") };
    let url = url.as_str().to_owned();
    LoginServer { id: expanded.id, url, auth: *auth, only_public: false }
}

/// Checks whether a login at the server may connect to a URL, at which no program listens.
async fn check(server: &LoginServer, url: &str, expected: bool) {
    let fetch = server.fetch(&Proxy::none()).unwrap();
    let fetch = fetch.with_limits(Duration::from_secs(5), 1024);
    let error = fetch.fetch(FetchRequest::get(url)).await.unwrap_err();
    assert_eq!(matches!(error, FetchError::Failed { .. }), expected, "{url}: {error}");
}

#[tokio::test]
async fn only_the_configured_hosts_may_be_in_a_private_network() {
    // Neither address is public, and no program listens at port 1.
    let (private, local) = ("https://0.0.0.0:1", "https://127.0.0.1:1");
    let public = "https://server.example/mcp";
    check(&server(&format!("{private}/mcp"), public), private, true).await;
    check(&server(public, local), local, true).await;
    check(&server(public, "https://issuer.example"), private, false).await;
    check(&server(&format!("{private}/mcp"), public), "https://10.0.0.1", false).await;
    check(&server(&format!("{private}/mcp"), public), local, false).await;
    let registered = LoginServer { only_public: true, ..server(&format!("{private}/mcp"), public) };
    check(&registered, private, false).await;
}
