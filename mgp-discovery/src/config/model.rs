//! The parsed configuration (MGP §15.2).

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use mgp_types::LocalHost;
use mgp_types::mcp::Era;
use mgp_types::mgp::{
    ApprovalPolicy, DefaultPolicy, ExtensionSet, Permission, PermissionScope, RiskLevel, Transport,
    TrustLevel, Validator,
};
use mgp_types::service::{Principal, ServerId};

use super::audit::AuditLogConfig;
use super::auth::{AuthConfig, LoginScope};
use super::bounds::{CallLimits, ResultLimits, ResultsConfig, ServerLimits, Surface};
use super::confine::ConfineConfig;
use super::http::HttpAccessConfig;
use super::notify::NotifyConfig;
use super::references::ReferencesConfig;
use super::retry::{RestartConfig, RetryCallsConfig};
use super::search::SearchConfig;
use super::telemetry::TelemetryConfig;
use super::timeouts::{CallTimeouts, START_TIMEOUT, default_start_timeout};
use super::webhook::WebhookConfig;
use crate::source::Origin;

const OFFICIAL_REGISTRY: &str = "https://registry.modelcontextprotocol.io";

/// Files of a project, by path, each with its SHA-256.
pub(crate) type LocalFiles = BTreeMap<PathBuf, String>;

/// A configuration: the content of one file, or of several merged.
///
/// ```
/// use mgp_discovery::Config;
///
/// let text = r#"
/// [[servers]]
/// id = "files"
/// command = "mcp-files"
///
/// [servers.mgp]
/// confirm = "moderate"
/// "#;
/// let parsed = Config::parse("mgp.toml", text).unwrap();
/// assert_eq!(parsed.config.servers[0].id.as_str(), "files");
/// assert!(parsed.findings.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// The servers, in the order of the file.
    pub servers: Vec<ServerConfig>,
    /// The table `[kernel]`: the settings of the kernel itself, and the settings that apply to all servers.
    pub kernel: KernelConfig,
    /// The limits of each agent's calls.
    pub limits: CallLimits,
    /// The settings of single agents.
    pub agents: BTreeMap<String, AgentConfig>,
    /// The settings of tools that are created while agents run.
    pub tool_creation: ToolCreationConfig,
}

impl KernelConfig {
    /// Returns the time limits for a call of a server's tool: the maximum time without progress, and the maximum time
    /// in total.
    ///
    /// The maximum time in total is never shorter than the maximum time without progress. If a server sets only
    /// `max_timeout`, the kernel's time without progress is cut to it.
    #[must_use]
    pub fn call_timeouts(&self, server: &CallTimeouts, tool: &str) -> (Duration, Duration) {
        let own = server.tools.get(tool).copied().or(server.timeout);
        let timeout = own.unwrap_or(self.timeout.min(server.max_timeout.unwrap_or(Duration::MAX)));
        (timeout, server.max_timeout.unwrap_or(self.max_timeout).max(timeout))
    }
}

impl Config {
    /// Returns the server with an id.
    #[must_use]
    pub fn server(&self, id: &str) -> Option<&ServerConfig> {
        self.servers.iter().find(|server| server.id.as_str() == id)
    }

    /// Returns the settings of the agent that makes calls as this principal; only agents of the local tenant have
    /// settings.
    #[must_use]
    pub fn agent(&self, principal: &Principal) -> Option<&AgentConfig> {
        let agent = self.agents.get(principal.as_agent()?.as_str())?;
        (principal.tenant() == Principal::local().tenant()).then_some(agent)
    }
}

/// One `[[servers]]` entry; its texts still contain `${…}`.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct ServerConfig {
    /// The server's id, which identifies it everywhere.
    pub id: ServerId,
    /// The way to reach the server: a program to start, a URL, or this process.
    pub target: TargetConfig,
    /// The MCP era to use with the server; `None` means the newest era that the server supports.
    pub era: Option<Era>,
    /// `false` if the server is switched off; [`Sources::load`](crate::Sources::load) then leaves it out.
    pub enabled: bool,
    /// The time limits of the server's start and of its tool calls.
    pub timeouts: CallTimeouts,
    /// The interval of health checks; `None` for none.
    pub health_interval: Option<Duration>,
    /// The limits of calls to the server.
    pub limits: ServerLimits,
    /// The limits on how much of the server's results reaches a model.
    pub results: ResultLimits,
    /// Names of environment variables that the program inherits, in addition to `kernel.pass_env`; a final `*` is a
    /// wildcard.
    pub pass_env: Vec<String>,
    /// The rights of the confined program; `None` if it is not confined.
    pub confine: Option<ConfineConfig>,
    /// The only tenants whose callers may see and use the server; `None` for all tenants.
    pub tenants: Option<Vec<String>>,
    /// The file that contains the server's manifest.
    pub manifest: Option<PathBuf>,
    /// The name and version of the published server from which this entry was added.
    pub published: Option<String>,
    /// If set, the arguments of each call are checked against the tool's schema.
    pub check_arguments: bool,
    /// The governance settings; with `None`, MGP is never offered to the server, and the default settings govern it.
    pub mgp: Option<GovernanceConfig>,
    /// The file that declares the server; messages name it, and `cwd` and `${file:…}` are relative to its folder.
    pub file: PathBuf,
    /// If set, the server may only be at a public address: it was registered at run time, and its registry named its
    /// URL.
    pub only_public: bool,
    /// The owner of `file`; a configuration that was parsed without a file counts as a project's.
    pub origin: Origin,
    /// The files with code that the project's servers run, with their SHA-256 when the operator approved them; `None`
    /// if the server needs no approval.
    pub(crate) approved_files: Option<LocalFiles>,
}

/// The way to reach a server: a program to start, a URL, or this process.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum TargetConfig {
    /// A child process.
    Program {
        /// The program that is started as the server.
        command: String,
        /// The arguments of the program.
        args: Vec<String>,
        /// The working directory of the program.
        cwd: Option<String>,
        /// Environment variables that the program gets in addition to the variables that it inherits.
        env: BTreeMap<String, String>,
    },
    /// A server reached over HTTP.
    Url {
        /// The URL of the server.
        url: String,
        /// The headers that are sent to the server with every request.
        headers: BTreeMap<String, String>,
        /// The transport: streamable HTTP, or the older event stream.
        transport: Transport,
        /// The settings for logging in at the server.
        auth: Box<AuthConfig>,
    },
    /// A server in this process, which the embedding program provides; no file can declare it.
    InProcess,
}

impl ServerConfig {
    /// Returns whether each agent has its own instance, either because `isolation` requires it, or because each agent
    /// has its own login.
    #[must_use]
    pub fn is_per_agent(&self) -> bool {
        let is_isolated = self.mgp.as_ref().is_some_and(|mgp| mgp.isolation == Isolation::PerAgent);
        let own_login = |auth: &AuthConfig| auth.login == LoginScope::Agent;
        is_isolated || matches!(&self.target, TargetConfig::Url { auth, .. } if own_login(auth))
    }

    /// Returns the maximum time from the start of the server until it must have answered the handshake.
    ///
    /// The default is 30 s. For a program that may download the server first, such as `npx`, it is 3 minutes, also if a
    /// shell starts that program. If `npx` were killed during an installation, it would leave a folder that no later
    /// start repairs.
    #[must_use]
    pub fn start_timeout(&self) -> Duration {
        self.timeouts.start.unwrap_or_else(|| match &self.target {
            TargetConfig::Program { command, args, .. } => default_start_timeout(command, args),
            TargetConfig::Url { .. } | TargetConfig::InProcess => START_TIMEOUT,
        })
    }

    /// Creates the entry of a server that runs inside this process and is governed like any other.
    #[must_use]
    pub fn in_process(id: impl Into<ServerId>, mgp: GovernanceConfig) -> Self {
        Self::new(id.into(), TargetConfig::InProcess, mgp, Origin::Named)
    }

    /// Creates an entry in which all other keys have their defaults.
    pub(crate) fn new(
        id: ServerId,
        target: TargetConfig,
        mgp: GovernanceConfig,
        origin: Origin,
    ) -> Self {
        Self {
            id,
            target,
            era: None,
            enabled: true,
            timeouts: CallTimeouts::default(),
            health_interval: None,
            limits: ServerLimits::default(),
            results: ResultLimits::default(),
            pass_env: Vec::new(),
            confine: None,
            tenants: None,
            manifest: None,
            published: None,
            check_arguments: true,
            mgp: Some(mgp),
            file: PathBuf::new(),
            only_public: false,
            origin,
            approved_files: None,
        }
    }
}

// Omits texts that may be secret, such as the values of headers and environment variables.
mgp_types::opaque_debug!(ServerConfig {
    id,
    target,
    era,
    enabled,
    timeouts,
    health_interval,
    limits,
    results,
    pass_env,
    confine,
    tenants,
    check_arguments,
    mgp,
    file,
    only_public,
    origin,
    approved_files
});

/// Shows the names of headers and variables but no values, and omits arguments and URLs, because these may be secret.
impl fmt::Debug for TargetConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program { command, args, cwd, env } => f
                .debug_struct("Program")
                .field("command", command)
                .field("args", &args.len())
                .field("cwd", cwd)
                .field("env", &env.keys().collect::<Vec<_>>())
                .finish(),
            Self::Url { headers, transport, auth, .. } => f
                .debug_struct("Url")
                .field("headers", &headers.keys().collect::<Vec<_>>())
                .field("transport", transport)
                .field("auth", auth)
                .finish_non_exhaustive(),
            Self::InProcess => f.write_str("InProcess"),
        }
    }
}

/// The table `[servers.mgp]`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct GovernanceConfig {
    /// The MGP extensions to offer to the server; empty for all.
    pub extensions: Vec<String>,
    /// The permissions that the server needs.
    pub permissions_required: Vec<Permission>,
    /// The trust level of the server.
    pub trust_level: TrustLevel,
    /// The access policy for agents without an access entry.
    pub default_policy: DefaultPolicy,
    /// The policy for approving permissions of this server; `None` for the kernel's policy.
    pub permission_policy: Option<ApprovalPolicy>,
    /// The permissions that the configuration grants to the server.
    pub permissions: Vec<Permission>,
    /// The limits of [`Self::permissions`], e.g. the permitted paths and hosts.
    pub permission_limits: PermissionScope,
    /// The maximum time that a new connection waits for a decision about the server's permissions (§3.4).
    pub permission_timeout: Duration,
    /// The action if the server lacks a permission that it needs (§3.4).
    pub on_ungranted: OnUngranted,
    /// The restart policy of the server.
    pub restart: RestartConfig,
    /// The retry policy of failed calls; `None` if failed calls are not retried.
    pub retry: Option<RetryCallsConfig>,
    /// The validators of individual tools, by tool name.
    pub validators: BTreeMap<String, Validator>,
    /// The hosts outside of the public internet that calls of the server may reach.
    pub local_hosts: Vec<LocalHost>,
    /// The risk levels of individual tools, by tool name.
    pub risk: BTreeMap<String, RiskLevel>,
    /// The lowest risk level at which a call needs a confirmation.
    pub confirm: ConfirmLevel,
    /// Determines whether agents share an instance of the server.
    pub isolation: Isolation,
    /// If set, a server that agents share may request the MCP roots of a connected agent, if exactly one of the
    /// connected agents has roots.
    pub roots: bool,
    /// If set, calls carry `_meta.traceparent` even to a server that does not speak MGP.
    pub traceparent: bool,
    /// Additional words that help searches find the server's tools.
    pub tags: Vec<String>,
}

impl Default for GovernanceConfig {
    fn default() -> Self {
        Self {
            extensions: Vec::new(),
            permissions_required: Vec::new(),
            trust_level: TrustLevel::Standard,
            default_policy: DefaultPolicy::OptIn,
            permission_policy: None,
            permissions: Vec::new(),
            permission_limits: PermissionScope::default(),
            permission_timeout: Duration::from_millis(100),
            on_ungranted: OnUngranted::Proceed,
            restart: RestartConfig::default(),
            retry: None,
            validators: BTreeMap::new(),
            local_hosts: Vec::new(),
            risk: BTreeMap::new(),
            confirm: ConfirmLevel::Dangerous,
            isolation: Isolation::Shared,
            roots: false,
            traceparent: false,
            tags: Vec::new(),
        }
    }
}

/// The lowest risk level at which a call needs a confirmation (§4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfirmLevel {
    /// Moderate and dangerous calls are confirmed.
    Moderate,
    /// Only dangerous calls are confirmed.
    Dangerous,
}

/// The action if a server lacks a permission that it needs (§3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnUngranted {
    /// The connection proceeds; calls that need the permission are refused.
    Proceed,
    /// The connection is closed.
    Close,
}

/// The agents that share an instance of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Isolation {
    /// All agents share one instance.
    Shared,
    /// Each agent has its own instance.
    PerAgent,
}

/// The proxy for connections to servers at a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProxyConfig {
    /// The proxy that the environment variables name.
    #[default]
    Env,
    /// No proxy.
    None,
    /// The proxy at this URL.
    At(String),
}

/// The table `[kernel]`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct KernelConfig {
    /// The maximum time that a tool call may take without progress.
    pub timeout: Duration,
    /// The maximum time that a tool call may take in total.
    pub max_timeout: Duration,
    /// The maximum time to wait until a person answers a form.
    pub form_timeout: Duration,
    /// The maximum time that a call waits for a decision in the inbox of approvals.
    pub approval_timeout: Duration,
    /// Names of environment variables that all programs inherit; a final `*` is a wildcard.
    pub pass_env: Vec<String>,
    /// The proxy for connections to servers at a URL, and for other requests to other machines, e.g. by webhooks.
    pub proxy: ProxyConfig,
    /// Hosts, domains and networks that are reached without the proxy.
    pub no_proxy: Vec<String>,
    /// The policy for approving requested permissions.
    pub permission_policy: ApprovalPolicy,
    /// The permissions that need an operator even if the policy is `auto_approve`.
    pub auto_approve_except: Vec<Permission>,
    /// The proposals (extensions beyond MGP) that callers are allowed to negotiate with the kernel.
    pub extensions: ExtensionSet,
    /// If set, the tool `mgp_tools_request` is listed to all callers, except with [`Surface::Direct`].
    pub tools_request: bool,
    /// The tools that are listed to agents.
    pub surface: Surface,
    /// [`Surface::Auto`] lists all tools if their definitions together have at most this number of tokens.
    pub direct_tokens: u64,
    /// If set, agents see names of tools in the form that the APIs of all model providers accept.
    pub portable_names: bool,
    /// The limits on how much of a result reaches a model, and the time for which the omitted part can be fetched.
    pub results: ResultsConfig,
    /// The settings for data that moves from server to server by reference. Changes take effect at the next start of
    /// the kernel.
    pub references: ReferencesConfig,
    /// The budget of tokens for tool definitions.
    pub tool_context_budget: ToolBudgetConfig,
    /// The address of the kernel's metrics; `None` if it does not serve them.
    pub metrics: Option<String>,
    /// The settings of the audit log.
    pub audit: AuditLogConfig,
    /// The URLs that receive events, by name.
    pub webhooks: BTreeMap<String, WebhookConfig>,
    /// The channels that notify a person when decisions wait, by name.
    pub notify: BTreeMap<String, NotifyConfig>,
    /// The address of the console, for links in notifications; a console that `mgp serve --http` serves also accepts it
    /// as host and origin. `None` for the address at which the kernel itself serves the console.
    pub console_url: Option<String>,
    /// TLS, access tokens and connections of `mgp serve --http`. Changes take effect at the next start of the kernel.
    pub http: HttpAccessConfig,
    /// The proof that operators at the local socket must give before they change anything.
    pub operator_proof: OperatorProof,
    /// The file that lists servers which the kernel recommends if no connected server has a suitable tool.
    pub registry: Option<PathBuf>,
    /// The URL of the registry that commands query: the official one, or a mirror.
    pub registry_url: String,
    /// The programs and variables that agents may use when they register servers.
    pub registration: RegistrationAllowList,
    /// The settings of the tool search: its history and its encoder.
    pub search: SearchConfig,
    /// The settings of the export of traces and metrics.
    pub telemetry: TelemetryConfig,
}

/// `[kernel.registration]`: the programs and variables that agents may use when they register servers, in addition to
/// the built-in programs and variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegistrationAllowList {
    /// Names of programs on `PATH`, or whole paths.
    pub programs: Vec<String>,
    /// Names of variables; a `*` at the beginning or the end is a wildcard.
    pub env: Vec<String>,
}

impl RegistrationAllowList {
    /// Creates an allow list with these programs and variables.
    pub fn new(
        programs: impl IntoIterator<Item = impl Into<String>>,
        env: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            programs: programs.into_iter().map(Into::into).collect(),
            env: env.into_iter().map(Into::into).collect(),
        }
    }
}

/// The proof that an operator must give at the local socket (`kernel.operator.proof`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperatorProof {
    /// No proof, but the process must be neither a server nor a host of the kernel.
    #[default]
    None,
    /// The command must run in the foreground of a terminal.
    Terminal,
    /// The operator must enter the passphrase.
    Passphrase,
}

impl Default for KernelConfig {
    fn default() -> Self {
        Self {
            timeout: Duration::from_mins(1),
            max_timeout: Duration::from_mins(10),
            proxy: ProxyConfig::Env,
            no_proxy: Vec::new(),
            form_timeout: Duration::from_mins(10),
            approval_timeout: Duration::from_secs(50),
            pass_env: Vec::new(),
            permission_policy: ApprovalPolicy::Interactive,
            auto_approve_except: vec![Permission::ShellExecute, Permission::CodeExecution],
            extensions: ExtensionSet::PROPOSALS,
            tools_request: false,
            surface: Surface::Auto,
            direct_tokens: 2000,
            portable_names: false,
            results: ResultsConfig::default(),
            references: ReferencesConfig::default(),
            tool_context_budget: ToolBudgetConfig::default(),
            metrics: None,
            audit: AuditLogConfig::default(),
            webhooks: BTreeMap::new(),
            notify: BTreeMap::new(),
            console_url: None,
            http: HttpAccessConfig::default(),
            operator_proof: OperatorProof::None,
            registry: None,
            registry_url: OFFICIAL_REGISTRY.to_owned(),
            registration: RegistrationAllowList::default(),
            search: SearchConfig::default(),
            telemetry: TelemetryConfig::default(),
        }
    }
}

/// `[kernel.tool_context_budget]`, in tokens (§16.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolBudgetConfig {
    /// The total budget of tokens.
    pub max_tokens: u64,
    /// The tokens reserved for pinned tools.
    pub pinned_reserve: u64,
    /// The tokens reserved for tools found by a search.
    pub discovery_reserve: u64,
    /// The maximum number of tokens for cached tools.
    pub cache_limit: u64,
}

impl Default for ToolBudgetConfig {
    fn default() -> Self {
        Self { max_tokens: 8000, pinned_reserve: 2000, discovery_reserve: 3000, cache_limit: 3000 }
    }
}

/// The table `[agents.NAME]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentConfig {
    /// The tools that are always in the agent's list.
    pub pinned: Vec<String>,
    /// The access groups to which the agent belongs.
    pub groups: Vec<String>,
    /// The maximum number of tokens of the tool definitions in the agent's list; `None` for the kernel's `max_tokens`.
    pub budget: Option<u64>,
    /// The tools that are listed to the agent; `None` uses the kernel's setting.
    pub surface: Option<Surface>,
    /// If `true`, the agent sees names of tools in the form that the APIs of all model providers accept; `None` uses
    /// the kernel's setting.
    pub portable_names: Option<bool>,
    /// The limits of the agent's calls; each replaces the corresponding limit for all agents.
    pub limits: CallLimits,
    /// The limits on how much of a result reaches the agent.
    pub results: ResultLimits,
    /// The scopes that the agent is allowed to obtain; `None` if its calls need no scopes.
    pub scopes: Option<Vec<String>>,
    /// If set, a person uses the agent and can confirm calls.
    pub interactive: bool,
}

/// The table `[tool_creation]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolCreationConfig {
    /// If set, agents may request the creation of tools.
    pub enabled: bool,
}
