//! Checks the running kernel and its servers.

use std::net::TcpListener;
use std::time::Duration;

use mgp_client_sdk::Client;
use mgp_discovery::{Config, KernelConfig, Sources, named_variables};
use mgp_lifecycle::RestartLimitExceeded;
use mgp_types::method::{KernelInfo, KernelServers, KernelTools, KernelWebhooks};
use mgp_types::mgp::{
    KernelClient, KernelInfoParams, KernelInfoResult, KernelServer, KernelServersParams,
    KernelTool, KernelToolsParams, KernelWebhook, KernelWebhooksParams, ServerState,
};
use tokio::time::{Instant, sleep};

use super::super::kernel::{failing_webhooks, unread_file};
use super::report::{Check, Level};
use crate::args::Global;
use crate::operator::file_of_kernel;
use crate::redaction::without_paths;
use crate::state_option::shell_path_or;
use crate::{control, lock, state};

/// The maximum time that the check waits while another process holds the lock of the state folder, e.g. a kernel that
/// starts or stops, or a short command.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

const LOCK_INTERVAL: Duration = Duration::from_millis(20);

/// The remedy if the kernel lacks environment variables that this shell has.
const VARIABLES_FIX: &str = "the kernel has the variables of the program that started it; a service has only PATH: store each with `mgp secrets set NAME` and write `${keyring:NAME}`; otherwise run `mgp stop`, then start the host, or `mgp serve`, from a shell that has them";

/// The remedy if the kernel does not find a program that this shell may find.
const PATH_FIX: &str = "the kernel searches the PATH of the program that started it, then the usual folders of this user, e.g. ~/.local/bin, unless others can change them: write the full path of the server's program as `command`, or install it";

/// The remedy in the kernel's report of a program that it does not find.
const NO_PROGRAM: &str = "install it, or correct `command` or `cwd`";

/// The servers, tools and webhooks of the running kernel; empty if no kernel runs.
#[derive(Debug, Default)]
pub(super) struct KernelState {
    /// `true` if it is certain that no kernel runs.
    pub(super) is_absent: bool,
    pub(super) servers: Vec<KernelServer>,
    pub(super) tools: Vec<KernelTool>,
    webhooks: Vec<KernelWebhook>,
    /// The state of the kernel's process; `None` if it cannot be read.
    info: Option<KernelInfoResult>,
}

impl KernelState {
    pub(super) fn server(&self, id: &str) -> Option<&KernelServer> {
        self.servers.iter().find(|server| server.id == id)
    }

    /// Returns a warning if the kernel lacks tools of a server, or if the server does not work in the kernel.
    pub(super) fn check_server(&self, id: &str) -> Option<Check> {
        let server = self.server(id)?;
        let Some(lacks) = &server.lacks else { return check_running(server) };
        // Split the text at its last semicolon; the kernel writes the remedy after it.
        let (what, mut fix) = lacks.rsplit_once("; ").unwrap_or((lacks, ""));
        let mut what = format!("in the kernel: {what}");
        if let Some(error) = &server.error {
            let (error, own) = with_fix(error);
            what = format!("{what}: {error}");
            fix = own.unwrap_or(fix);
        }
        let mut check = Check::new("server", Level::Warn, what);
        let fix = Some(fix.to_owned()).filter(|fix| !fix.is_empty());
        check.fix = fix.or_else(|| restart_fix(server)).or_else(|| start_fix(server));
        Some(check.for_server(id))
    }

    /// Compares the environment of this shell with the environment of the running kernel. Reports each variable in the
    /// configuration that only the shell or only the kernel has. Does not show the values.
    pub(super) fn check_variables(&self, config: &Config) -> Vec<Check> {
        let Some(info) = &self.info else { return Vec::new() };
        let (mut here, mut there) = (Vec::new(), Vec::new());
        for (name, is_here) in named_variables(config) {
            match (is_here, info.variables.get(&name)) {
                (true, Some(false)) => here.push(name),
                (false, Some(true)) => there.push(name),
                _ => {}
            }
        }
        let mut checks = Vec::new();
        if !here.is_empty() {
            let what = format!("your shell has {}, the running kernel does not", here.join(", "));
            checks.push(Check::new("environment", Level::Warn, what).with_fix(VARIABLES_FIX));
        }
        if !there.is_empty() {
            let what = format!(
                "the running kernel has {}, your shell does not, so a server can fail here only",
                there.join(", ")
            );
            checks.push(Check::new("environment", Level::Ok, what));
        }
        checks
    }

    /// Reports the configured `metrics` address if no kernel could listen there. The address is tried only if no kernel
    /// runs, because a running kernel uses it itself.
    pub(super) fn check_metrics(&self, config: &KernelConfig) -> Option<Check> {
        let address = config.metrics.as_ref().filter(|_| self.is_absent)?;
        let error = TcpListener::bind(address).err()?;
        let what =
            format!("`metrics` under `[kernel]` is `{address}`, which cannot be used: {error}");
        let fix = "stop the program that uses it, or set another address";
        Some(Check::new("kernel", Level::Fail, what).with_fix(fix))
    }

    /// Reports the file of a project in this folder that the running kernel does not read.
    pub(super) fn check_project(&self, sources: &Sources) -> Option<Check> {
        let file = sources.files().find(|file| file.ends_with("mgp.toml") && file.exists())?;
        let (what, fix) = unread_file(self.info.as_ref()?, file)?;
        Some(Check::new("config", Level::Warn, what).with_fix(fix))
    }

    /// Reports the kernel's findings that are not about a configuration file, e.g. an audit sink that accepts no
    /// events. Also reports each webhook and each place for notifications whose last delivery failed.
    pub(super) fn check_deliveries(&self) -> impl Iterator<Item = Check> {
        let found = self.info.iter().flat_map(|info| &info.findings);
        // Leave out the findings about a file, which the check of the configuration reports.
        let found = found.filter(|finding| finding.file.is_none());
        let found = found.map(|finding| Check::new("kernel", Level::Warn, &finding.message));
        let failing = failing_webhooks(self.webhooks.clone()).into_iter().map(|(target, why)| {
            // Show URLs without their paths, because the path of a webhook's URL can be a secret.
            let (target, why) = (without_paths(&target), without_paths(&why));
            let what = format!("`{target}` takes no events: {why}");
            Check::new("kernel", Level::Warn, what).with_fix("see `mgp webhooks`")
        });
        found.chain(failing)
    }

    /// Checks the kernel's servers that are not in this configuration: registered servers, and servers of another
    /// project.
    pub(super) fn check_others<'a>(&'a self, named: &[&str]) -> impl Iterator<Item = Check> + 'a {
        let ids = self.servers.iter().map(|server| server.id.as_str());
        let others: Vec<_> = ids.filter(|id| !named.contains(id)).collect();
        others.into_iter().filter_map(|id| self.check_server(id))
    }
}

/// Returns a warning if a server does not work in the kernel, although the kernel knows its tools. The server might
/// still work in this shell, because the shell has other variables than the kernel.
fn check_running(server: &KernelServer) -> Option<Check> {
    let error = server.error.as_ref().filter(|_| server.status != ServerState::Connected)?;
    let (error, own) = with_fix(error);
    let what = format!("in the running kernel it is {}: {error}", server.status.as_str());
    let id = &server.id;
    // Do not advise to check variables for a registered server, because the kernel expands none in its entry.
    let own = own.filter(|_| !is_registered(server)).map(str::to_owned);
    let fix = own.or_else(|| restart_fix(server)).unwrap_or_else(|| {
        if is_registered(server) {
            format!("`mgp approvals ls` shows whether it waits; `mgp servers rm {id}` removes it")
        } else {
            VARIABLES_FIX.to_owned()
        }
    });
    Some(Check::new("server", Level::Warn, what).with_fix(fix).for_server(id))
}

/// Returns the remedy for a server that failed so often that the kernel does not start it again by itself.
fn restart_fix(server: &KernelServer) -> Option<String> {
    let has_given_up =
        server.error.as_ref().is_some_and(|error| error.starts_with(RestartLimitExceeded::WORD));
    has_given_up.then(|| {
        let id = &server.id;
        if is_registered(server) {
            return format!(
                "`mgp servers restart {id}` starts it again; `mgp servers rm {id}` removes it"
            );
        }
        format!(
            "`mgp servers restart {id}` starts it again; if it fails as before: {VARIABLES_FIX}"
        )
    })
}

/// Returns the remedy for a server whose start failed in the kernel, e.g. because of a program that was missing then.
fn start_fix(server: &KernelServer) -> Option<String> {
    let has_failed = server.status == ServerState::Error;
    has_failed.then(|| format!("`mgp servers start {}` tries it again", server.id))
}

fn is_registered(server: &KernelServer) -> bool {
    server.source == "registered"
}

/// Splits the message of an error that occurs in the kernel but not in this shell. Returns the error. If the kernel's
/// environment variables are the cause, also returns a remedy, which replaces the remedy in the message.
fn with_fix(error: &str) -> (&str, Option<&'static str>) {
    match error.rsplit_once("; ") {
        Some((error, NO_PROGRAM)) => (error, Some(PATH_FIX)),
        _ => (error, error.contains("is not set").then_some(VARIABLES_FIX)),
    }
}

/// Checks, if no kernel runs, that no process prevents hosts from starting one.
async fn absent(global: &Global) -> Check {
    let folder = state::folder(global).unwrap_or_default();
    let end = Instant::now() + LOCK_TIMEOUT;
    while lock::is_held(&folder) {
        if Instant::now() >= end {
            let text = lock::unserved_text(&folder);
            let (what, fix) = text.rsplit_once("; ").unwrap_or((&*text, ""));
            return Check::new("kernel", Level::Fail, what).with_fix(fix);
        }
        sleep(LOCK_INTERVAL).await;
    }
    let what = if folder.join("mgp.sock").exists() {
        "no kernel is running; a killed one left its socket, which the next one replaces"
    } else {
        "no kernel is running; a host starts one when it needs it"
    };
    Check::new("kernel", Level::Ok, what)
}

/// Reports the configuration file of the running kernel if this command reads another one, because the other checks are
/// then not about the servers of the kernel.
pub(super) fn check_file(global: &Global, sources: &Sources) -> Option<Check> {
    let read = file_of_kernel(global, sources.files().last()?)?;
    let what = format!("the running kernel reads `{}`, and this check does not", read.display());
    let fix = format!("use `--config {}`", shell_path_or("FILE", &read));
    Some(Check::new("config", Level::Warn, what).with_fix(fix))
}

/// Reads the state of the running kernel; an empty state if no kernel runs.
pub(super) async fn check(global: &Global, checks: &mut Vec<Check>) -> KernelState {
    let client = match control::connect(global).await {
        Ok(client) => client,
        Err(failure) if failure.is_no_kernel() => {
            checks.push(absent(global).await);
            return KernelState { is_absent: true, ..KernelState::default() };
        }
        Err(failure) => {
            let text = failure.to_string();
            // Split the text at its last semicolon: the failure comes before it, and the remedy after it.
            let fallback = (&*text, "run `mgp doctor` in a terminal outside hosts");
            let (what, fix) = text.rsplit_once("; ").unwrap_or(fallback);
            checks.push(Check::new("kernel", Level::Fail, what).with_fix(fix));
            return KernelState::default();
        }
    };
    let (check, info) = info(&client).await;
    checks.push(check);
    let (servers, tools) = (KernelServersParams::new(), KernelToolsParams::new());
    let webhooks = KernelWebhooksParams::new();
    let (servers, tools, webhooks) = tokio::join!(
        client.request::<KernelServers>(&servers),
        client.request::<KernelTools>(&tools),
        client.request::<KernelWebhooks>(&webhooks)
    );
    // Ignore errors: a kernel of another version may lack these methods, and the check above has already reported the
    // version.
    let (servers, tools) = (servers.map(|result| result.servers), tools.map(|result| result.tools));
    KernelState {
        is_absent: false,
        servers: servers.unwrap_or_default(),
        tools: tools.unwrap_or_default(),
        webhooks: webhooks.map(|result| result.webhooks).unwrap_or_default(),
        info,
    }
}

/// Returns the check of the running kernel, and the state of its process.
async fn info(client: &Client) -> (Check, Option<KernelInfoResult>) {
    let info = match client.request::<KernelInfo>(&KernelInfoParams::new()).await {
        Ok(info) => info,
        Err(error) => {
            let what = format!("it is running, but its state cannot be read: {error}");
            return (Check::new("kernel", Level::Warn, what), None);
        }
    };
    let check = if info.version == env!("CARGO_PKG_VERSION") {
        // Leave out commands such as this one, which connect as an operator without a name.
        let is_named = |client: &&KernelClient| client.agent.is_some() || client.subject.is_some();
        let named = info.clients.iter().filter(is_named).count();
        let what = format!("running as process {}, {named} connected", info.pid);
        Check::new("kernel", Level::Ok, what)
    } else {
        let what = format!(
            "version {} is running, and this program is {}",
            info.version,
            env!("CARGO_PKG_VERSION")
        );
        Check::new("kernel", Level::Warn, what)
            .with_fix("run `mgp stop`; hosts start the new version (a service: run `mgp service install` again, with its options)")
    };
    (check, Some(info))
}

#[cfg(test)]
mod tests {
    use mgp_types::mgp::TrustLevel;

    use super::*;

    #[test]
    fn a_webhook_that_takes_no_events_is_reported_without_the_path_of_its_url() {
        let mut failed = KernelWebhook::new("https://hooks.example/in/s3cret", 0_u64, 1_u64);
        failed.last_error = Some("`https://hooks.example/in/s3cret` did not answer".to_owned());
        let works = KernelWebhook::new("kernel.notify.phone", 1_u64, 0_u64);
        let state = KernelState { webhooks: vec![works, failed], ..KernelState::default() };
        let checks: Vec<_> = state.check_deliveries().collect();
        let [check] = &*checks else { panic!("{checks:?}") };
        assert_eq!(check.fix.as_deref(), Some("see `mgp webhooks`"));
        let shown = format!("{check:?}");
        assert!(shown.contains("`https://hooks.example/…` takes no events: "), "{shown}");
        assert!(!shown.contains("s3cret"), "{shown}");
    }

    #[test]
    fn a_rejected_registration_is_not_blamed_on_variables() {
        let fix = |source: &str| {
            let trust = TrustLevel::Sandboxed;
            let mut server =
                KernelServer::new("made", ServerState::Registered, "nothing", trust, 0_u64, source);
            server.error = Some("its registration is rejected".to_owned());
            check_running(&server).unwrap().fix.unwrap()
        };
        assert!(fix("registered").contains("`mgp servers rm made`"));
        assert_eq!(fix("servers.toml"), VARIABLES_FIX);
    }

    #[test]
    fn a_server_that_failed_too_often_gets_the_command_that_starts_it_again() {
        let trust = TrustLevel::Standard;
        let mut server =
            KernelServer::new("c7", ServerState::Error, "python3", trust, 0_u64, "servers.toml");
        server.error = Some("restart_limit_exceeded: 5 restarts within 300 s; it ended".to_owned());
        let running = check_running(&server).unwrap();
        server.lacks = Some("it does not start".to_owned());
        let state = KernelState { servers: vec![server], ..KernelState::default() };
        for check in [running, state.check_server("c7").unwrap()] {
            let fix = check.fix.unwrap();
            assert!(fix.starts_with("`mgp servers restart c7` starts it again"), "{fix}");
        }
    }

    #[test]
    fn a_registered_server_that_failed_too_often_gets_the_command_that_starts_it_again() {
        let trust = TrustLevel::Sandboxed;
        let mut server =
            KernelServer::new("made", ServerState::Error, "python3", trust, 0_u64, "registered");
        server.error = Some("restart_limit_exceeded: 5 restarts within 300 s; it ended".to_owned());
        let fix = check_running(&server).unwrap().fix.unwrap();
        assert!(fix.starts_with("`mgp servers restart made` starts it again"), "{fix}");
        assert!(!fix.contains(VARIABLES_FIX), "{fix}");
    }

    #[test]
    fn a_server_whose_start_failed_gets_the_command_that_tries_it_again() {
        let trust = TrustLevel::Standard;
        let mut server =
            KernelServer::new("late", ServerState::Error, "late", trust, 0_u64, "servers.toml");
        server.lacks = Some("it does not start".to_owned());
        server.error = Some("it exited with code 1".to_owned());
        let state = KernelState { servers: vec![server], ..KernelState::default() };
        let fix = state.check_server("late").unwrap().fix.unwrap();
        assert_eq!(fix, "`mgp servers start late` tries it again");
    }

    #[test]
    fn a_program_that_only_the_shell_finds_gets_the_advice_to_write_its_path() {
        let error = "program \"uvx\" did not start: not found";
        assert_eq!(with_fix(&format!("{error}; {NO_PROGRAM}")), (error, Some(PATH_FIX)));
        let error = "the variable `A` is not set; run `mgp secrets set A`";
        assert_eq!(with_fix(error), (error, Some(VARIABLES_FIX)));
        assert_eq!(with_fix("it ended; see its log"), ("it ended; see its log", None));
    }
}
