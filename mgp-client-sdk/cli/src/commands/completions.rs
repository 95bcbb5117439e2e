//! The command `mgp completions`: prints completion scripts for shells.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::exit::CliResult;
use crate::output::write_stdout;

/// `mgp completions`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  mkdir -p ~/.local/share/bash-completion/completions\n  mgp completions bash > ~/.local/share/bash-completion/completions/mgp"
)]
pub(crate) struct Completions {
    /// Shell
    shell: Shell,
}

pub(crate) fn run(completions: &Completions, command: &Command) -> CliResult {
    let mut script = Vec::new();
    // Leave out hidden commands, because `clap_complete` offers them too.
    let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    let mut command = Command::new("mgp")
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .args(command.get_arguments())
        .subcommands(shown);
    clap_complete::generate(completions.shell, &mut command, "mgp", &mut script);
    script.extend_from_slice(names_script(completions.shell).as_bytes());
    write_stdout(&String::from_utf8_lossy(&script))
}

/// Returns the part of a script that completes names of servers, tools and agents.
///
/// The script runs the `mgp` of the `PATH`. It does not run the program that was typed, because that could be any file
/// in the current folder.
fn names_script(shell: Shell) -> &'static str {
    match shell {
        Shell::Bash => {
            r#"
_mgp_names() {
    local name
    COMPREPLY=()
    while IFS= read -r name; do
        COMPREPLY+=("$name")
    done < <(command mgp __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    ((${#COMPREPLY[@]})) || _mgp "$@"
}
complete -F _mgp_names -o bashdefault -o default mgp
"#
        }
        Shell::Zsh => {
            r#"
_mgp_names() {
    local -a names
    names=(${(f)"$(command mgp __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( $#names )); then compadd -a names; else _mgp "$@"; fi
}
compdef _mgp_names mgp
"#
        }
        Shell::Fish => {
            r"
complete -c mgp -a '(command mgp __complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
"
        }
        _ => "",
    }
}
