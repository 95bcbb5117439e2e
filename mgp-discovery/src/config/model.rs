//! What a configuration says, once it was read (MGP §15.2).
//!
//! Applies to: both.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use mgp_types::mcp::Era;
use mgp_types::mgp::{
    ApprovalPolicy, DefaultPolicy, Permission, RestartPolicy, RiskLevel, Transport, TrustLevel,
    Validator,
};
use mgp_types::service::ServerId;

use crate::source::Origin;

/// A configuration: what one file says, or several merged.
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
    pub servers: Vec<Server>,
    /// What holds for all.
    pub kernel: Kernel,
    /// What holds for single agents.
    pub agents: BTreeMap<String, Agent>,
    /// Tools that are made while agents run.
    pub tool_creation: ToolCreation,
}

impl Config {
    /// The server of an id.
    #[must_use]
    pub fn server(&self, id: &str) -> Option<&Server> {
        self.servers.iter().find(|server| server.id.as_str() == id)
    }
}

/// One `[[servers]]`; its texts are as they were written, `${…}` included.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Server {
    /// Its identity everywhere.
    pub id: ServerId,
    /// A program, or a place.
    pub reach: Reach,
    /// The era of MCP that is spoken with it; the newest it knows where there is none.
    pub era: Option<Era>,
    /// How it is governed; none where MGP is never offered, and governance is by defaults.
    pub mgp: Option<ServerMgp>,
    /// The file it is from, for messages, `cwd` and `${file:…}`.
    pub file: PathBuf,
    /// Whose file that is; what was only parsed counts as a project's.
    pub origin: Origin,
}

/// How a server is reached.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum Reach {
    /// A child process.
    Program {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its folder.
        cwd: Option<String>,
        /// Its environment, beside what it inherits.
        env: BTreeMap<String, String>,
    },
    /// Over HTTP.
    Url {
        /// Where.
        url: String,
        /// Headers of every request.
        headers: BTreeMap<String, String>,
        /// Streamable HTTP, or the older event stream.
        transport: Transport,
    },
    /// In this process: whoever runs it knows how; no file can say so.
    Within,
}

impl Server {
    /// A server of this process, governed like any other.
    #[must_use]
    pub fn within(id: impl Into<ServerId>, mgp: ServerMgp) -> Self {
        let (reach, file) = (Reach::Within, PathBuf::new());
        let origin = Origin::Given;
        Self { id: id.into(), reach, era: None, mgp: Some(mgp), file, origin }
    }
}

/// What stands in configurations may be secret, so only names are shown.
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, reach, era, mgp, file, origin } = self;
        f.debug_struct("Server")
            .field("id", id)
            .field("reach", reach)
            .field("era", era)
            .field("mgp", mgp)
            .field("file", file)
            .field("origin", origin)
            .finish()
    }
}

/// What stands in configurations may be secret, so only names are shown.
impl fmt::Debug for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program { command, args, cwd, env } => f
                .debug_struct("Program")
                .field("command", command)
                .field("args", &args.len())
                .field("cwd", cwd)
                .field("env", &env.keys().collect::<Vec<_>>())
                .finish(),
            Self::Url { headers, transport, .. } => f
                .debug_struct("Url")
                .field("headers", &headers.keys().collect::<Vec<_>>())
                .field("transport", transport)
                .finish_non_exhaustive(),
            Self::Within => f.write_str("Within"),
        }
    }
}

/// `[servers.mgp]`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerMgp {
    /// The extensions to offer; all where there are none.
    pub extensions: Vec<String>,
    /// The permissions it needs.
    pub permissions_required: Vec<Permission>,
    /// How far it is trusted.
    pub trust_level: TrustLevel,
    /// What holds for agents without an entry.
    pub default_policy: DefaultPolicy,
    /// How its permissions are decided; none where the kernel's policy holds.
    pub permission_policy: Option<ApprovalPolicy>,
    /// The permissions granted here.
    pub permissions: Vec<Permission>,
    /// When it is started again.
    pub restart: Restart,
    /// The validator of single tools.
    pub validators: BTreeMap<String, Validator>,
    /// The risk of single tools.
    pub risk: BTreeMap<String, RiskLevel>,
    /// From which risk on a call is confirmed.
    pub confirm: Confirm,
    /// Whether agents share an instance.
    pub isolation: Isolation,
    /// Words its tools can be found by.
    pub tags: Vec<String>,
}

impl Default for ServerMgp {
    fn default() -> Self {
        Self {
            extensions: Vec::new(),
            permissions_required: Vec::new(),
            trust_level: TrustLevel::Standard,
            default_policy: DefaultPolicy::OptIn,
            permission_policy: None,
            permissions: Vec::new(),
            restart: Restart::default(),
            validators: BTreeMap::new(),
            risk: BTreeMap::new(),
            confirm: Confirm::Dangerous,
            isolation: Isolation::Shared,
            tags: Vec::new(),
        }
    }
}

/// When a server is started again (§11.5).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restart {
    /// When.
    pub policy: RestartPolicy,
    /// How often within the window.
    pub max: u32,
    /// The window.
    pub window: Duration,
    /// The first wait.
    pub backoff_base: Duration,
    /// The longest wait.
    pub backoff_max: Duration,
}

impl Default for Restart {
    fn default() -> Self {
        Self {
            policy: RestartPolicy::OnFailure,
            max: 5,
            window: Duration::from_mins(5),
            backoff_base: Duration::from_secs(1),
            backoff_max: Duration::from_secs(30),
        }
    }
}

/// From which risk on a call is confirmed (§4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Confirm {
    /// Moderate calls are confirmed too.
    Moderate,
    /// Only dangerous ones are.
    Dangerous,
}

/// Whether agents share an instance of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Isolation {
    /// They do.
    Shared,
    /// Each has its own.
    PerAgent,
}

/// `[kernel]`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Kernel {
    /// How permissions are decided.
    pub permission_policy: ApprovalPolicy,
    /// What `auto_approve` still asks for.
    pub auto_approve_except: Vec<Permission>,
    /// Whether the tool to ask for tools is listed to all.
    pub tools_request: bool,
    /// What definitions may cost.
    pub tool_context_budget: Budget,
    /// The audit log.
    pub audit: Audit,
}

impl Default for Kernel {
    fn default() -> Self {
        Self {
            permission_policy: ApprovalPolicy::Interactive,
            auto_approve_except: vec![Permission::ShellExecute, Permission::CodeExecution],
            tools_request: false,
            tool_context_budget: Budget::default(),
            audit: Audit::default(),
        }
    }
}

/// `[kernel.tool_context_budget]`, in tokens (§16.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Budget {
    /// In all.
    pub max_tokens: u64,
    /// Kept for pinned tools.
    pub pinned_reserve: u64,
    /// Kept for found tools.
    pub discovery_reserve: u64,
    /// The most that cached tools may cost.
    pub cache_limit: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { max_tokens: 8000, pinned_reserve: 2000, discovery_reserve: 3000, cache_limit: 3000 }
    }
}

/// `[kernel.audit]`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Audit {
    /// The folder; none for `audit` in the state directory.
    pub dir: Option<String>,
    /// When the system brings the log to the disk.
    pub fsync: Fsync,
    /// How many files are kept; none for all.
    pub keep: Option<u32>,
    /// How much of the arguments is recorded.
    pub arguments: RecordedArguments,
}

impl Default for Audit {
    fn default() -> Self {
        Self {
            dir: None,
            fsync: Fsync::OnCheckpoint,
            keep: None,
            arguments: RecordedArguments::Redacted,
        }
    }
}

/// When the system brings the audit log to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fsync {
    /// Before anything is acknowledged.
    Always,
    /// With each checkpoint.
    OnCheckpoint,
    /// Whenever it likes.
    Never,
}

/// How much of the arguments of calls is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordedArguments {
    /// A digest and the size.
    Redacted,
    /// The names of the members as well.
    Names,
    /// All.
    Full,
}

/// `[agents.NAME]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Agent {
    /// The tools that are always in its list.
    pub pinned: Vec<String>,
    /// The access groups it is in.
    pub groups: Vec<String>,
    /// The tokens that definitions may cost it.
    pub budget: Option<u64>,
    /// Whether a person sits there.
    pub interactive: bool,
}

/// `[tool_creation]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolCreation {
    /// Whether agents may have tools made.
    pub enabled: bool,
}
