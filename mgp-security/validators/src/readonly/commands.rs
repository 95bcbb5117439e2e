//! Decides whether commands in arguments only read, by lists of programs and their subcommands.

use super::name::is_write;
use crate::shell;
use crate::words::{Words, has};

/// The subcommands that only read, by program. A program that is called with any other subcommand counts as writing.
const SUBCOMMANDS: &[(&str, &str)] = &[
    (
        "git",
        "\
        status log diff show blame ls-files ls-tree ls-remote rev-parse rev-list describe grep \
        shortlog cat-file reflog name-rev merge-base for-each-ref show-ref whatchanged help version \
        check-ignore count-objects diff-tree cherry annotate show-branch",
    ),
    (
        "kubectl",
        "\
        get describe logs top explain api-resources api-versions version cluster-info diff events auth",
    ),
    ("docker", "ps images inspect logs stats top version info history port diff events search"),
    ("podman", "ps images inspect logs stats top version info history port diff search"),
    ("helm", "list ls status get history search show template version lint"),
    ("npm", "ls list view info show outdated search root prefix explain why ping whoami"),
    ("pip", "list show freeze check search index"),
    ("cargo", "tree metadata search version locate-project pkgid"),
    ("systemctl", "status is-active is-enabled is-failed list-units list-unit-files show cat"),
    ("terraform", "plan validate show output version graph providers"),
    ("gh", "status"),
    (
        "redis",
        "\
        get mget exists keys scan ttl pttl type strlen hget hmget hgetall hkeys hvals hlen hexists \
        hscan lrange llen lindex smembers scard sismember sscan srandmember sinter sunion sdiff zrange \
        zrevrange zrangebyscore zscore zcard zcount zrank zscan getrange getbit bitcount dbsize info \
        ping echo time memory object xrange xrevrange xlen xinfo pfcount geodist geopos geosearch \
        command lastsave randomkey dump",
    ),
];
/// Programs that only print.
static PROGRAMS: Words = Words::new(
    "\
    ls cat head tail grep rg wc pwd whoami id uname date df du ps stat file which type echo printf \
    uptime free tree cut nl od strings hostname env printenv jq diff cmp md5sum sha256sum basename \
    dirname realpath readlink lsblk lscpu nproc dig nslookup host ping",
);

/// Returns whether a program with this subcommand only reads, whatever the arguments are that tools named after the
/// subcommand have.
pub(super) fn only_reads(program: &str, sub: &str) -> bool {
    let is_other = matches!(sub, "command" | "object" | "memory" | "auth" | "help");
    !is_other && SUBCOMMANDS.iter().any(|(known, subs)| *known == program && has(subs, sub))
}

/// Checks the words of a command that a tool would run.
pub(super) fn check(tool: &[String], words: &[String]) -> Result<(), String> {
    let Some(first) = words.first().map(|word| word.to_ascii_lowercase()) else { return Ok(()) };
    let program = |name: &str| {
        SUBCOMMANDS
            .iter()
            .find(|(known, _)| *known == name || name == "redis-cli" && *known == "redis")
    };
    let own = tool.iter().find_map(|word| program(word));
    let (reads, rest) = match (own, program(&first)) {
        (_, Some(reads)) => (reads, &words[1..]),
        (Some(reads), None) => (reads, words),
        (None, None) if PROGRAMS.has(first.as_str()) => {
            return shell::command(&words.join(" "));
        }
        (None, None) if is_write(&first) || words.len() > 1 => {
            return Err(format!("`{first}` is not known to only read"));
        }
        (None, None) => return Ok(()),
    };
    let sub = rest.iter().find(|word| !word.starts_with('-')).map(|word| word.to_ascii_lowercase());
    // These options write a file or run a program.
    let acts = rest.iter().any(|word| {
        word.starts_with("--output")
            || word == "-o" && reads.0 == "git"
            || word.starts_with("--ext-diff")
            || word == "-O"
            || word.starts_with("--open-files")
            || word == "-c"
    });
    match sub {
        Some(sub) if reads.1.split_ascii_whitespace().any(|read| read == sub) && !acts => Ok(()),
        None if !acts => Ok(()),
        sub => Err(format!("`{} {}` is not known to only read", reads.0, sub.unwrap_or_default())),
    }
}
