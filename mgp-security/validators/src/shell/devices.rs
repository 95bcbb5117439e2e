//! The rules for clients that run commands on a device or in a virtual machine.

use super::argv::Args;

/// Options of the subcommands whose value is the next argument.
const OWN: &[&str] = &["-p", "--profile", "--workdir", "--shell", "-e"];

/// Returns the commands that the shell of a device or of a virtual machine executes.
pub(super) fn commands(name: &str, args: Args<'_>) -> Vec<String> {
    let Some(at) = shell(name, args) else { return Vec::new() };
    if matches!(name, "fly" | "flyctl") {
        return args.values(&["-C", "--command"]).map(str::to_owned).collect();
    }
    let rest = args.skip(at + 1).after_options(OWN);
    // The name of the virtual machine precedes the command.
    let rest = if name == "limactl" { rest.skip(1).after_options(OWN) } else { rest };
    vec![rest.texts().collect::<Vec<_>>().join(" ")]
}

/// Returns the position of the subcommand that starts a shell on a device or in a virtual machine. Each option before
/// the subcommand may have the next argument as its value.
fn shell(name: &str, args: Args<'_>) -> Option<usize> {
    let starts = |word: &str| match word {
        "shell" => matches!(name, "adb" | "limactl"),
        "exec-out" | "exec-in" => name == "adb",
        "ssh" => matches!(name, "colima" | "fly" | "flyctl"),
        "console" => matches!(name, "fly" | "flyctl"),
        _ => false,
    };
    let at = args.texts().position(starts)?;
    let options = args.texts().take(at).filter(|word| word.starts_with('-')).count();
    (at <= 2 * options).then_some(at)
}
