//! The clap definition of the command line: all commands of `mgp` and their options.

use clap::{Parser, Subcommand};

use crate::args::{Global, Serve, SharedKernel};
use crate::commands::{
    access, approvals, audit, callbacks, complete, completions, connect, contract, doctor, events,
    guard, import, index, init, kernel, keys, lock, logs, man, notify, openapi, operator,
    permissions, report, secrets, servers, service, setup, subscriptions, tenants, tools,
    transactions, trust, validate, why,
};
use crate::console::ConsoleArgs;

/// One governed MCP server in front of all your tool servers.
///
/// A kernel starts and supervises your MCP and MGP servers, decides and records every call, and offers any host one
/// short list of tools. Run `mgp setup`.
#[derive(Debug, Parser)]
#[command(
    name = "mgp",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "First steps:\n  mgp setup                   # put mgp between your hosts and their servers; asks first\n  mgp doctor                  # check that everything works\n  mgp console                 # approvals, servers and the record of calls, as a page\n  mgp undo                    # take back the last change of your hosts' files\n\nExit code: 0 success, 1 refused or failed, 2 invalid usage, 3 no kernel is running."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show in about a second, and on this machine only, what the kernel does
    Demo,
    /// Run a built-in example server over standard streams
    #[command(name = "__example", hide = true)]
    Example {
        /// Name of the example
        name: String,
    },
    /// Serve all servers to hosts, over standard streams or HTTP
    Serve(Serve),
    /// Start what a host starts; `mgp setup` runs it
    #[command(name = "__try-host", hide = true)]
    TryHost(setup::try_host::TryHost),
    /// Put mgp between all your hosts and their servers, in one step
    Setup(setup::Setup),
    /// Write a first configuration
    Init(init::Init),
    /// Copy the servers of other hosts into your configuration
    Import(import::Import),
    /// Make a host start mgp
    Connect(connect::Connect),
    /// Make a host start its own servers again
    Disconnect(connect::disconnect::Disconnect),
    /// Take back the last change of a host's file
    Undo(connect::undo::Undo),
    /// Approve the configuration of a project
    Trust(trust::Arguments),
    /// Check everything, and name the fix for each problem
    Doctor(doctor::Doctor),
    /// Show the running kernel and its clients
    Status,
    /// Apply the changed configuration now, with the proof that `operator.proof` asks for
    Reload,
    /// Stop the kernel after its running calls have finished
    Stop(kernel::Stop),
    /// Show the log of the kernel, or the standard error of a server
    #[command(alias = "log")]
    Logs(logs::Logs),
    /// Write what helps to find the cause of a fault into one file, without secrets
    Report(report::ReportArgs),
    /// Run the kernel as a service of this user, from login on
    #[command(subcommand)]
    Service(service::Service),
    /// Manage servers: list, add, remove, start, stop, show logs
    #[command(subcommand, alias = "server")]
    Servers(servers::Servers),
    /// Manage tools: list, search, call, pin, approve
    #[command(subcommand, alias = "tool")]
    Tools(tools::Tools),
    /// Show what would be decided about a call now, and by which rule
    Why(why::Why),
    /// Decide which agent may use which tool
    #[command(subcommand)]
    Access(access::Access),
    /// Decide what each server may do
    #[command(subcommand, alias = "permission")]
    Permissions(permissions::Permissions),
    /// Answer pending approvals: list, approve, deny, watch
    #[command(subcommand, alias = "approval")]
    Approvals(approvals::Approvals),
    /// Open the page for approvals, servers, the audit log, access and search
    Console(ConsoleArgs),
    /// Answer servers whose callers cannot be asked: list, answer, dismiss
    #[command(subcommand, alias = "callback")]
    Callbacks(callbacks::Callbacks),
    /// Settle transactions that could not be rolled back: list, show, retry, resolve
    #[command(subcommand, alias = "transaction")]
    Transactions(transactions::Transactions),
    /// Manage API keys for agents that connect over HTTP
    #[command(subcommand, alias = "key")]
    Keys(keys::Keys),
    /// Manage tenants, i.e. organisations whose agents connect over HTTP: list, remove
    #[command(subcommand, alias = "tenant")]
    Tenants(tenants::Tenants),
    /// Store values for `${keyring:NAME}` in the configuration
    #[command(subcommand, alias = "secret")]
    Secrets(secrets::Secrets),
    /// Set the passphrase that `operator.proof = "passphrase"` requires for changes
    #[command(subcommand)]
    Operator(operator::Operator),
    /// Read and verify the audit log
    #[command(subcommand)]
    Audit(audit::Audit),
    /// Show events of the kernel and its servers, and with --follow new ones as they occur
    #[command(alias = "event")]
    Events(events::Events),
    /// Show the webhooks and the events that they could not deliver
    #[command(alias = "webhook")]
    Webhooks,
    /// Show the subscriptions of clients to events, and end them: list, end
    #[command(alias = "subscription")]
    Subscriptions(subscriptions::Arguments),
    /// Test the messages that reach you when a decision waits
    #[command(subcommand)]
    Notify(notify::Notify),
    /// Show the tools that agents have in context
    #[command(alias = "session")]
    Sessions(kernel::Sessions),
    /// Export the index of tools
    #[command(subcommand)]
    Index(index::Index),
    /// Compare, check, document and export definitions of tools
    #[command(subcommand)]
    Contract(contract::Contract),
    /// Serve the operations of an OpenAPI document as tools, over standard streams
    #[command(name = "openapi")]
    OpenApi(openapi::OpenApi),
    /// Write down what each server starts and lists, for `mgp serve --locked`
    Lock(lock::Lock),
    /// Judge test cases of the validators and of tool definitions, one JSON line each
    Guard(guard::Guard),
    /// Judge a server or a client by the rules of MCP and MGP
    #[command(subcommand)]
    Validate(validate::Validate),
    /// Print a completion script for a shell
    #[command(alias = "completion")]
    Completions(completions::Completions),
    /// Write the man pages of all commands
    Man(man::Man),
    /// Print the version, like `--version`
    #[command(hide = true)]
    Version,
    /// Print the names that can follow on a command line, for the completion scripts
    #[command(name = "__complete", hide = true)]
    Complete(complete::Complete),
    /// Run the kernel that several hosts share; `mgp serve --stdio` starts it
    #[command(name = "__kernel", hide = true)]
    Kernel(SharedKernel),
}
