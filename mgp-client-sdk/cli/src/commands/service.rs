//! The command `mgp service`: runs the kernel as a service of the user, from login on.
//!
//! On Linux it is a unit of systemd, on macOS an agent of launchd.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::{Args, Subcommand};
use mgp_client_sdk::Client;
use mgp_discovery::Sources;
use mgp_types::create_own_folder;
use serde::Serialize;
use tokio::time::{sleep, timeout};

use super::kernel;
use crate::args::{ConfigArg, Global};
use crate::exit::{CliResult, Failure};
use crate::hosts::home;
use crate::output::{ActionReport, Output, Render, print};
use crate::replace_file::replace_file;
use crate::{control, http_access, socket, state, this_program};

/// The name of the systemd unit that runs the kernel.
const UNIT: &str = "mgp.service";
/// The name of the launchd agent that runs the kernel.
const AGENT: &str = "mgp.kernel";

/// The name of a service's log file in the state folder. Only a service that launchd runs and that serves over HTTP has
/// this file.
const LOG: &str = "service.log";

/// The seconds that a kernel without an HTTP address keeps running without a host: the highest value, i.e. for ever.
const LINGER: &str = "4294967295";

/// The options, and the environment variable, that a later install must repeat if the installed service has them.
const KEPT_OPTIONS: [&str; 4] = ["--http", "--config", "--state", CONFIG_HOME];

/// The variable with the folder of the user's own configuration.
const CONFIG_HOME: &str = "XDG_CONFIG_HOME";

/// The maximum time until a started service serves.
const START_TIMEOUT: Duration = Duration::from_secs(3);

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// `mgp service`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Service {
    /// Run the kernel from login on, and start it now
    #[command(
        after_help = "Without --http the kernel serves the hosts of this user only, over its local socket. A kernel that runs already is stopped first. The service gets the PATH of this shell, and finds the programs of servers on it. If the service is installed already, repeat its options.\n\nExample:\n  mgp service install\n  mgp service install --http 127.0.0.1:8900"
    )]
    Install(Install),
    /// Show whether the service is installed and running
    Status,
    /// Stop the service and remove it
    Uninstall,
}

/// `mgp service install`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Install {
    /// Also serve over HTTP at an address, e.g. 127.0.0.1:8900
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
    #[command(flatten)]
    config: ConfigArg,
}

/// The service of this user.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ServiceStatus {
    /// The file that describes the service.
    file: PathBuf,
    /// `true` if the file exists.
    is_installed: bool,
    /// `true` if the service is running.
    is_running: bool,
    /// The place of its log.
    #[serde(skip)]
    log: String,
}

impl Render for ServiceStatus {
    fn render(&self, out: &mut Output) {
        let file = self.file.display();
        out.hint(match (self.is_installed, self.is_running) {
            (false, _) => "not installed; run `mgp service install`".to_owned(),
            (true, true) => format!("running; described in {file}"),
            (true, false) => format!("installed in {file}, but not running; see {}", self.log),
        });
    }
}

/// The service manager of the operating system, which runs the services of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manager {
    Systemd,
    Launchd,
}

impl Manager {
    fn of_this_system() -> CliResult<Self> {
        match std::env::consts::OS {
            "linux" => Ok(Self::Systemd),
            "macos" => Ok(Self::Launchd),
            other => Err(Failure::failed(format!(
                "services are not supported on {other}; let {other} start `mgp serve --http ADDR` at login"
            ))),
        }
    }

    /// Returns the path of the file that describes the service.
    fn file(self) -> CliResult<PathBuf> {
        let home = home()?;
        let config = std::env::var_os("XDG_CONFIG_HOME").filter(|folder| !folder.is_empty());
        Ok(match self {
            Self::Systemd => config
                .map_or_else(|| home.join(".config"), PathBuf::from)
                .join("systemd/user")
                .join(UNIT),
            Self::Launchd => home.join("Library/LaunchAgents").join(format!("{AGENT}.plist")),
        })
    }

    fn describe(self, service: &Description) -> String {
        match self {
            Self::Systemd => service.unit(),
            Self::Launchd => service.agent(),
        }
    }

    /// Returns the commands that make the service start at each login. They leave the running kernel as it is.
    fn prepare(self) -> Vec<Vec<String>> {
        match self {
            Self::Systemd => vec![
                words("systemctl --user daemon-reload"),
                words(&format!("systemctl --user enable {UNIT}")),
            ],
            Self::Launchd => Vec::new(),
        }
    }

    /// Returns the command that starts the service now.
    fn start(self, file: &Path) -> Vec<String> {
        match self {
            Self::Systemd => words(&format!("systemctl --user restart {UNIT}")),
            Self::Launchd => {
                let mut load = words("launchctl load -w");
                load.push(file.to_string_lossy().into_owned());
                load
            }
        }
    }

    /// Returns the command that stops the service now and keeps it from starting at login.
    fn stop(self, file: &Path) -> Vec<String> {
        match self {
            Self::Systemd => words(&format!("systemctl --user disable --now {UNIT}")),
            Self::Launchd => {
                let mut unload = words("launchctl unload -w");
                unload.push(file.to_string_lossy().into_owned());
                unload
            }
        }
    }

    /// Returns the place of the service's log. A kernel that serves over HTTP logs to standard error.
    fn log(self, state_folder: &Path, is_http: bool) -> String {
        match self {
            _ if !is_http => "`mgp logs`".to_owned(),
            Self::Systemd => format!("`journalctl --user -u {UNIT}`"),
            Self::Launchd => format!("`{}`", state_folder.join(LOG).display()),
        }
    }

    fn is_running(self) -> bool {
        let command = match self {
            Self::Systemd => format!("systemctl --user --quiet is-active {UNIT}"),
            Self::Launchd => format!("launchctl list {AGENT}"),
        };
        run_command(&words(&command)).is_ok()
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// The values that are written into the file of a service.
struct Description {
    /// The program that the service starts, and its arguments.
    command: Vec<String>,
    /// The search path (`PATH`) of the service, for the programs of servers.
    path: String,
    /// The value of `XDG_CONFIG_HOME`, if the user's own configuration is in that folder.
    config_home: Option<String>,
    /// The file for the standard error of a service that serves over HTTP; `None` for any other service. Only launchd
    /// uses it, because systemd has a log of its own.
    log: Option<String>,
}

impl Description {
    fn new(global: &Global, install: &Install) -> CliResult<Self> {
        let absolute = |path: &Path| -> CliResult<String> {
            Ok(std::path::absolute(path)?.to_string_lossy().into_owned())
        };
        let mut command = vec![absolute(&this_program::path()?)?];
        let words = match &install.http {
            Some(address) => &["serve", "--http", address] as &[&str],
            None => &["__kernel", "--linger", LINGER, "--service"],
        };
        command.extend(words.iter().map(|word| (*word).to_owned()));
        // A service has another environment than this shell, so paths from this shell's environment become options.
        let named = global.state.clone().or_else(state::folder_from_environment);
        for (option, path) in [("--config", install.config.named_file()), ("--state", named)] {
            if let Some(path) = path {
                command.extend([option.to_owned(), absolute(&path)?]);
            }
        }
        let path = std::env::var("PATH").unwrap_or_default();
        let config_home = Sources::config_home().as_deref().map(absolute).transpose()?;
        let log = state::folder(global)?.join(LOG).to_string_lossy().into_owned();
        let log = install.http.as_ref().map(|_| log);
        let is_broken = |text: &String| text.contains(char::is_control);
        if command.iter().chain([&path]).chain(&config_home).chain(&log).any(is_broken) {
            return Err(Failure::failed("a path of the service has a control character"));
        }
        Ok(Self { command, path, config_home, log })
    }

    /// Returns the text of the unit file for systemd.
    fn unit(&self) -> String {
        let quoted = |text: &str| {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"");
            format!("\"{}\"", text.replace('%', "%%"))
        };
        let command: Vec<String> =
            self.command.iter().map(|word| quoted(&word.replace('$', "$$"))).collect();
        let home = self.config_home.as_ref();
        let home = home.map(|home| quoted(&format!("XDG_CONFIG_HOME={home}")));
        let home = home.map(|home| format!("Environment={home}\n")).unwrap_or_default();
        format!(
            "[Unit]\nDescription=mgp, one governed server in front of all tool servers\nStartLimitIntervalSec=0\n\n\
             [Service]\nExecStart={}\nEnvironment={}\n{home}Restart=on-failure\nRestartSec=5\n\
             KillMode=mixed\nTimeoutStopSec=60\n\n\
             [Install]\nWantedBy=default.target\n",
            command.join(" "),
            quoted(&format!("PATH={}", self.path)),
        )
    }

    /// Returns the text of the property list for launchd.
    fn agent(&self) -> String {
        let text = |text: &str| {
            let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            format!("<string>{text}</string>")
        };
        let command: Vec<String> = self.command.iter().map(|word| text(word)).collect();
        let command = command.join("\n    ");
        let log = self.log.as_ref().map(|log| text(log));
        let log = log.map(|log| format!("<key>StandardErrorPath</key>\n  {log}\n  "));
        let home = self.config_home.as_ref().map(|home| text(home));
        let home = home.map(|home| format!("  <key>XDG_CONFIG_HOME</key>\n    {home}\n  "));
        let home = home.unwrap_or_default();
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<plist version=\"1.0\">\n<dict>\n  \
             <key>Label</key>\n  {}\n  <key>ProgramArguments</key>\n  <array>\n    {command}\n  </array>\n  \
             <key>EnvironmentVariables</key>\n  <dict>\n    <key>PATH</key>\n    {}\n  {home}</dict>\n  \
             <key>RunAtLoad</key>\n  <true/>\n  <key>KeepAlive</key>\n  <dict>\n    <key>SuccessfulExit</key>\n    \
             <false/>\n  </dict>\n  <key>ThrottleInterval</key>\n  <integer>5</integer>\n  \
             {}<key>ExitTimeOut</key>\n  <integer>60</integer>\n</dict>\n</plist>\n",
            text(AGENT),
            text(&self.path),
            log.unwrap_or_default(),
        )
    }
}

pub(crate) async fn run(global: &Global, service: &Service) -> CliResult {
    let manager = Manager::of_this_system()?;
    let file = manager.file()?;
    match service {
        Service::Install(install) => self::install(global, install, manager, &file).await,
        Service::Status => {
            let is_installed = file.exists();
            let is_http = fs::read_to_string(&file).is_ok_and(|text| text.contains("--http"));
            print(
                global,
                &ServiceStatus {
                    is_running: is_installed && manager.is_running(),
                    is_installed,
                    log: manager.log(&state::folder(global)?, is_http),
                    file,
                },
            )
        }
        Service::Uninstall => uninstall(global, manager, &file).await,
    }
}

/// Fails if the installed service has one of [`KEPT_OPTIONS`], e.g. the address that hosts use, and its new description
/// lacks it.
fn check_kept_options(file: &Path, new: &str) -> CliResult {
    let Ok(installed) = fs::read_to_string(file) else { return Ok(()) };
    let has = |text: &str, option: &str| {
        [format!("\"{option}\""), format!("\"{option}="), format!(">{option}<")]
            .iter()
            .any(|written| text.contains(written))
    };
    let lost =
        KEPT_OPTIONS.into_iter().filter(|&option| has(&installed, option) && !has(new, option));
    let lost: Vec<&str> = lost.collect();
    if lost.is_empty() {
        return Ok(());
    }
    let repeated = match *lost {
        [CONFIG_HOME] => "set this variable as before; its value is in",
        _ => "repeat its options, which are in",
    };
    Err(Failure::usage(format!(
        "the installed service has {}; {repeated} `{}`, or run `mgp service uninstall` first",
        lost.join(", "),
        file.display()
    )))
}

async fn install(global: &Global, install: &Install, manager: Manager, file: &Path) -> CliResult {
    // Check the address now: otherwise the service manager would restart, without end, a kernel that cannot listen
    // there.
    if let Some(address) = &install.http {
        http_access::check_address(address)?;
    }
    let running = control::admit_and_connect(global).await?;
    let state_folder = state::create_folder(global)?;
    let text = manager.describe(&Description::new(global, install)?);
    check_kept_options(file, &text)?;
    let folder = file.parent().unwrap_or(file);
    let failed = |error| Failure::failed(format!("`{}`: {error}", file.display()));
    create_own_folder(folder).and_then(|()| replace_file(file, &text)).map_err(failed)?;
    // With this marker, hosts start no kernel in the state folder, because the service does.
    let marker = state::service_marker(&state_folder);
    let described = std::path::absolute(file)?.to_string_lossy().into_owned();
    replace_file(&marker, &described).map_err(|error| state::unusable(&marker, &error))?;
    if let Err(failure) = start(global, running, manager, file).await {
        let _ = fs::remove_file(&marker);
        return Err(failure);
    }
    let mut notes = vec![format!("described in {}", file.display())];
    let is_serving = serves(&socket::path_in(&state_folder)).await;
    if !is_serving {
        let log = manager.log(&state_folder, install.http.is_some());
        notes.push(format!("it does not serve yet; see {log}"));
    }
    let status = if is_serving { "running" } else { "started" };
    ActionReport::new("service", status).with_notes(notes).print(global)
}

/// Stops the running kernel, because only one kernel at a time can use the state folder, and starts the service.
async fn start(
    global: &Global,
    running: Option<Client>,
    manager: Manager,
    file: &Path,
) -> CliResult {
    let run = |command: Vec<String>| {
        run_command(&command).map_err(|why| {
            Failure::failed(format!(
                "`{}` is written, but the service does not run: `{}`: {why}; correct that and install it again, or remove it with `mgp service uninstall`",
                file.display(),
                command.join(" ")
            ))
        })
    };
    manager.prepare().into_iter().try_for_each(run)?;
    if let Some(client) = running {
        kernel::stop_over(global, &client, None).await?;
    }
    if manager == Manager::Launchd {
        // Unload the agent first, because launchd loads it again only after that. This fails if the agent is not
        // loaded.
        let _ = run_command(&manager.stop(file));
    }
    run(manager.start(file))
}

/// Returns whether a kernel accepts connections at a socket, within some seconds.
async fn serves(socket: &Path) -> bool {
    let accepted = async {
        while socket::connect_async(socket).await.is_err() {
            sleep(POLL_INTERVAL).await;
        }
    };
    timeout(START_TIMEOUT, accepted).await.is_ok()
}

async fn uninstall(global: &Global, manager: Manager, file: &Path) -> CliResult {
    control::admit_change(global).await?;
    if !file.exists() {
        return Err(Failure::failed("the service is not installed"));
    }
    // Remove the marker, so that hosts start a kernel again as soon as the service has ended.
    let _ = fs::remove_file(state::service_marker(&state::folder(global)?));
    // Remove the service even if it cannot be stopped, e.g. because it is not loaded.
    let stopped = run_command(&manager.stop(file));
    fs::remove_file(file)?;
    let notes = stopped.err().map(|why| format!("it could not be stopped: {why}"));
    ActionReport::new("service", "removed").with_notes(notes.into_iter().collect()).print(global)
}

/// Runs a command of the service manager; returns what it wrote to standard error if it fails.
fn run_command(words: &[String]) -> Result<(), String> {
    let output = Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(match text.trim() {
        "" => output.status.to_string(),
        text => mgp_types::clip(text, 300),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(program: &str) -> Description {
        let words = [program, "serve", "--http", "127.0.0.1:8900"];
        Description {
            command: words.map(str::to_owned).to_vec(),
            path: "/opt/a b:/usr/bin".into(),
            config_home: Some("/home/a/50%".into()),
            log: Some("/state/service.log".into()),
        }
    }

    #[test]
    fn a_unit_quotes_what_systemd_would_expand() {
        let unit = service(r#"/home/a b/50%/$x"\mgp"#).unit();
        assert!(
            unit.contains(r#"ExecStart="/home/a b/50%%/$$x\"\\mgp" "serve" "--http""#),
            "{unit}"
        );
        let environment = "Environment=\"PATH=/opt/a b:/usr/bin\"\n\
                           Environment=\"XDG_CONFIG_HOME=/home/a/50%%\"\nRestart=on-failure\n";
        assert!(unit.contains(environment), "{unit}");
        // systemd must send the first signal to the kernel only: the kernel lets running calls finish before it ends
        // its servers.
        assert!(unit.contains("\nKillMode=mixed\nTimeoutStopSec=60\n"), "{unit}");
    }

    #[test]
    fn an_install_keeps_the_options_of_the_installed_service() {
        let folder = mgp_testkit::temp_dir();
        let file = folder.path().join("service");
        let plain =
            Description { command: vec!["/mgp".into(), "__kernel".into()], ..service("/mgp") };
        for manager in [Manager::Systemd, Manager::Launchd] {
            let (served, bare) = (manager.describe(&service("/mgp")), manager.describe(&plain));
            fs::write(&file, &bare).unwrap();
            check_kept_options(&file, &served).unwrap();
            fs::write(&file, &served).unwrap();
            check_kept_options(&file, &served).unwrap();
            assert!(check_kept_options(&file, &bare).is_err(), "{manager:?}");
            let homeless = Description { config_home: None, ..service("/mgp") };
            let refused = check_kept_options(&file, &manager.describe(&homeless)).unwrap_err();
            let expected = "has XDG_CONFIG_HOME; set this variable as before";
            assert!(refused.to_string().contains(expected), "{manager:?}: {refused}");
        }
    }

    #[test]
    fn an_agent_escapes_markup() {
        let agent = service("/home/<b> & c/mgp").agent();
        assert!(agent.contains("<string>/home/&lt;b&gt; &amp; c/mgp</string>"), "{agent}");
        let home = "  <key>XDG_CONFIG_HOME</key>\n    <string>/home/a/50%</string>\n  </dict>";
        assert!(agent.contains(home), "{agent}");
        assert!(agent.contains("<key>Label</key>\n  <string>mgp.kernel</string>"), "{agent}");
        assert!(
            agent.contains("<key>StandardErrorPath</key>\n  <string>/state/service.log</string>"),
            "{agent}"
        );
        // launchd must wait for the end of the service as long as systemd does.
        assert!(
            agent.contains("<key>ExitTimeOut</key>\n  <integer>60</integer>\n</dict>"),
            "{agent}"
        );
    }
}
