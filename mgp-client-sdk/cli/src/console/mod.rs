//! The console: the web pages where operators answer approvals and see what the kernel does.
//!
//! `mgp console` serves it on loopback, with the rights of the operator who runs the command; `mgp serve --http …
//! --console` serves it to operators who log in. A request from a page reaches the kernel as a request of the page's
//! operator, and passes the same checks as any other.

mod access;
mod card;
mod configuration;
mod form;
mod gate;
mod grant;
mod history;
mod inbox;
mod keys;
mod layout;
mod live;
mod login;
mod operator;
mod page;
mod questions;
mod record;
mod refusal;
mod remedy;
mod search;
mod servers;
mod sessions;
mod steps;
mod story;
mod terminal;
mod texts;
mod times;
mod waiting;

use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::middleware;
use axum::response::sse::{KeepAlive, Sse};
use axum::response::{IntoResponse, Redirect, Response};
use axum::{Extension, Router};
use clap::Args;
use futures_util::StreamExt as _;
use mgp_discovery::{OperatorProof, Sources};
use mgp_security::auth::AuthLayer;
use mgp_transport::http::{ConnectionLimits, listen};
use mgp_types::method::KernelInfo;
use mgp_types::mgp::KernelInfoParams;
use mgp_types::{ErrorCode, PrivateFile};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;

use crate::args::{ConfigArg, Global};
use crate::control;
use crate::exit::{CliResult, Failure};
use crate::operator::configured_proof;
use crate::output::{Output, Render, print, print_note};
use crate::prompt;
use crate::served_kernel::ServedKernel;
use crate::state;

use form::{Form, segment};
use gate::Gate;
use layout::Notice;
use live::Live;
use login::Login;
use operator::{Kernel, Viewer};
use page::{Page, get, post};

/// The path of the pages that `mgp serve --http … --console` serves.
pub(crate) const SERVED_PATH: &str = "/console";

/// The maximum size of a posted form, which may contain many approvals with an id of a few bytes each.
const MAX_FORM_BYTES: usize = 64 << 10;

const MAX_LINK_BYTES: u64 = 4096;

/// The maximum number of pages to render at the same time.
const MAX_PAGES: usize = 4;

/// The time limit for the head of a request. A browser of this machine sends it at once.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// `mgp console`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "The link works once. The page ends with this command, or with the kernel.\n\nExample:\n  mgp console              # opens your browser\n  mgp console a9e645ed67   # opens the page of one approval\n  mgp console --print      # shows the link, e.g. to open it over an SSH tunnel"
)]
pub(crate) struct ConsoleArgs {
    /// Id of the approval to show first, as a message names it
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// Port of 127.0.0.1; 0 is any free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Print the link instead of opening a browser
    #[arg(long)]
    print: bool,
}

/// The link to the page.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ConsoleLink {
    /// The link, which works once.
    url: String,
}

impl Render for ConsoleLink {
    fn render(&self, out: &mut Output) {
        out.line(&self.url);
        out.line(
            "Open this link in a browser of this machine; it works once. Press Ctrl-C to end.",
        );
    }
}

/// A running console: the state that the handlers of all its pages share.
struct Console {
    global: Global,
    config: ConfigArg,
    kernel: Kernel,
    gate: Gate,
    login: Login,
    /// Limits how many pages are made at the same time, because all open pages load again after a change.
    pages: Semaphore,
}

/// The settings of a console that `mgp serve --http` serves: configuration, accepted credentials and addresses.
pub(crate) struct ServedConsole {
    pub(crate) global: Global,
    pub(crate) config: ConfigArg,
    pub(crate) auth: AuthLayer,
    pub(crate) hosts: Vec<String>,
    pub(crate) is_tls: bool,
}

type PageResult = Result<Response, PageError>;

/// The failure of a page: the HTTP status, and the reason for the person who requested the page.
struct PageError(StatusCode, String);

impl From<Failure> for PageError {
    fn from(failure: Failure) -> Self {
        Self(StatusCode::BAD_GATEWAY, failure.to_string())
    }
}

impl From<mgp_client_sdk::Error> for PageError {
    fn from(error: mgp_client_sdk::Error) -> Self {
        let status = if error.code() == ErrorCode::INVALID_PARAMS {
            StatusCode::BAD_REQUEST
        } else {
            StatusCode::BAD_GATEWAY
        };
        Self(status, error.to_string())
    }
}

pub(crate) async fn run(global: &Global, args: &ConsoleArgs) -> CliResult {
    // The page can change everything that an operator can change, so the proof for changes is required at the start.
    let client = control::connect_or_start_to_change(global).await?;
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let listener = TcpListener::bind(at).await.map_err(|error| {
        Failure::failed(format!("{at} cannot be used: {error}; choose another --port"))
    })?;
    let at = listener.local_addr()?;
    let (gate, login) = (Gate::local(at)?, Login::link(client.clone())?);
    let link = ConsoleLink { url: link(at, &gate, &login, args.id.as_deref()) };
    // If operators must give a proof, the link is not written to a file, because a program of this user could use it
    // without the proof.
    let needs_proof = configured_proof(&ConfigArg::default().sources()).await?
        != OperatorProof::None
        || prompt::has_passphrase();
    let is_printed = args.print || global.json || needs_proof;
    let opener = if is_printed { None } else { open_browser(global, &link.url)? };
    if opener.is_none() {
        print(global, &link)?;
    } else {
        print_note(
            global,
            "The console opens in your browser; if it does not, use `mgp console --print`. Press Ctrl-C to end.",
        );
    }
    let (shared, config) = (global.clone(), ConfigArg::default());
    let (kernel, pages) = (Kernel::Socket, pages());
    let console = Console { global: shared, config, kernel, gate, login, pages };
    let mut limits = ConnectionLimits::default();
    limits.head_timeout = HEAD_TIMEOUT;
    // The program that opens the browser may run as long as the browser, so serve the page meanwhile.
    tokio::select! {
        () = listen(listener, router(&Arc::new(console)), limits, pending()) => Ok(()),
        () = client.closed() => {
            Err(Failure::no_kernel("the kernel has ended, and the console with it"))
        }
        failed = print_unless_opened(global, &link, opener) => failed,
    }
}

/// Prints the link if the program that opens the browser fails. Completes only if printing fails.
async fn print_unless_opened(
    global: &Global,
    link: &ConsoleLink,
    opener: Option<Child>,
) -> CliResult {
    if let Some(mut opener) = opener
        && !opener.wait().await.is_ok_and(|status| status.success())
    {
        print(global, link)?;
    }
    pending().await
}

/// Returns the router of the console's pages, which a kernel of this process serves to operators who log in.
pub(crate) fn served(served: ServedKernel, console: ServedConsole) -> CliResult<Router> {
    let ServedConsole { global, config, auth, hosts, is_tls } = console;
    let configured = served.kernel.clone();
    let gate = Gate::served(SERVED_PATH, hosts, move || configured.console_url(), is_tls)?;
    let (kernel, login) = (Kernel::Own(served), Login::credential(auth));
    let pages = pages();
    Ok(router(&Arc::new(Console { global, config, kernel, gate, login, pages })))
}

/// Returns the link that opens the page once; with an `id`, the page shows this approval first.
fn link(at: SocketAddr, gate: &Gate, login: &Login, id: Option<&str>) -> String {
    let key = login.secret().unwrap_or_default();
    let next = id.map(|id| format!("&next=%2Fcall%2F{}", segment(&segment(id))));
    format!("http://{at}{}/login?key={key}{}", gate.base(), next.unwrap_or_default())
}

/// Opens the link in a browser, and returns the program that does this, if it was started.
///
/// Other users can read command lines, so the browser gets a file that only this user can read.
fn open_browser(global: &Global, url: &str) -> CliResult<Option<Child>> {
    let file = PrivateFile::new(state::create_folder(global)?.join("console.html"), MAX_LINK_BYTES);
    let text = format!(
        "<!doctype html><meta http-equiv=refresh content=\"0;url={}\"><title>mgp</title>",
        url.replace('&', "&amp;")
    );
    file.replace(&file.lock(LOCK_TIMEOUT)?, text.as_bytes())?;
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(opener);
    command.arg(file.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command.spawn().ok())
}

fn router(console: &Arc<Console>) -> Router {
    let pages = Router::new()
        .route("/", get(inbox::page))
        .route("/call/{id}", get(inbox::call))
        .route("/definition/{tool}", get(inbox::one_definition))
        .route("/decide", post(inbox::decide))
        .route("/definitions", post(inbox::decide_definitions))
        .route("/servers", get(servers::page))
        .route("/servers/{id}", get(servers::one).post(Page::new(servers::act)))
        .route("/record", get(record::page))
        .route("/record/export", get(record::export))
        .route("/story/{trace}", get(story::page))
        .route("/access", get(access::page))
        .route(grant::GRANT, get(grant::again).post(Page::new(grant::grant)))
        .route(grant::PERMIT, get(grant::again).post(Page::new(grant::permit)))
        .route("/access/revoke", post(access::revoke))
        .route("/access/key", post(keys::revoke))
        .route("/access/withdraw", post(access::withdraw))
        .route("/search", get(search::page))
        .route("/configuration", get(configuration::page).post(Page::new(configuration::reload)))
        .route("/events", get(events))
        .route("/logout", post(login::log_out))
        .route_layer(middleware::from_fn_with_state(Arc::clone(console), login::require_session));
    let all = pages
        .route("/login", get(login::page).post(Page::new(login::log_in)))
        .route("/style.css", get(layout::style))
        .route("/live.js", get(layout::script))
        .route("/icon.svg", get(layout::icon))
        .layer(DefaultBodyLimit::max(MAX_FORM_BYTES))
        .with_state(Arc::clone(console));
    let base = console.gate.base();
    Router::new()
        .nest(base, all)
        .route(&format!("{base}/"), axum::routing::get(Redirect::permanent(base)))
        .fallback(|| async { (StatusCode::NOT_FOUND, "the console has no such page\n") })
        .layer(middleware::from_fn_with_state(Arc::clone(console), gate::check_origin))
        .layer(middleware::from_fn(gate::set_headers))
}

impl Console {
    /// Returns the configuration files of the kernel. The working folder of this process may have another
    /// configuration.
    async fn sources(&self, viewer: &Viewer) -> Result<Sources, PageError> {
        if let Kernel::Own(_) = self.kernel {
            return Ok(self.config.sources());
        }
        let info = KernelInfoParams::new();
        let files = viewer.operator.client.request::<KernelInfo>(&info).await?.config;
        Ok(Sources::from_files(files.into_iter().map(PathBuf::from)))
    }

    /// Returns the answer to an action: a redirect to the page, with the result.
    fn done(&self, viewer: &Viewer, page: &str, notice: &Notice) -> Response {
        let separator = if page.contains('?') { '&' } else { '?' };
        let (page, query) = (layout::url(self, page), notice.to_query(viewer));
        Redirect::to(&format!("{page}{separator}{query}")).into_response()
    }

    /// Returns the answer to an action that may have failed: a redirect to the page, with the result or the reason.
    fn ended(&self, viewer: &Viewer, page: &str, done: String, result: CliResult) -> Response {
        let notice = match result {
            Ok(()) => Notice::Done(done),
            Err(failure) => Notice::Failed(failure.to_string()),
        };
        self.done(viewer, page, &notice)
    }
}

/// Returns the page that shows why a page failed.
fn failed(console: &Console, viewer: &Viewer, error: &PageError) -> Response {
    let PageError(status, reason) = error;
    let body = layout::failure(viewer, reason);
    (*status, layout::page(console, viewer, "", &Form::default(), &body)).into_response()
}

fn pages() -> Semaphore {
    Semaphore::new(MAX_PAGES)
}

/// Waits until fewer than `MAX_PAGES` pages are being made, then makes the page and returns it. If making it fails,
/// returns a page with the reason.
async fn shown<P: Future<Output = PageResult>>(
    console: &Console,
    viewer: &Viewer,
    page: P,
) -> Response {
    let _turn = console.pages.acquire().await;
    viewer.operator.live.count().await;
    // Box the page, because this future would otherwise contain it twice, and some pages are large.
    match Box::pin(page).await {
        Ok(response) => response,
        Err(error) => failed(console, viewer, &error),
    }
}

/// Streams changes to a page. A page that shows events of the kernel asks for `?changes=1`.
async fn events(Extension(viewer): Extension<Viewer>, query: Form) -> impl IntoResponse {
    let shows_events = query.get("changes").is_some();
    let changes = Live::stream(Arc::clone(&viewer.operator.live), shows_events);
    let changes = changes.take_until(viewer.session_ended());
    // Set this header, because reverse proxies would otherwise buffer the events.
    ([("x-accel-buffering", "no")], Sse::new(changes).keep_alive(KeepAlive::default()))
}

/// The state that each handler gets.
type Shared = State<Arc<Console>>;
