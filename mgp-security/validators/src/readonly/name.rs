//! Decides by the verbs in a tool's name whether the tool reads or writes.

use super::commands;
use crate::argument_values::key_words;
use crate::words::{Words, has};

/// The effect that a name indicates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Intent {
    Read,
    Write(String),
    Unknown,
}

static READ: Words = Words::new(
    "\
    get list read fetch find search show view lookup look count check validate summarize describe \
    query inspect peek preview tail head stat status browse compare diff explain analyze analyse \
    select filter is has exists verify test ping resolve scan detect discover enumerate retrieve \
    grep glob ls cat whoami info help print measure estimate calculate compute parse translate \
    lint watch monitor trace review audit suggest recommend rank extract dry simulate forecast \
    predict classify tokenize hash encode decode convert whois traceroute history metadata summary \
    tree examine display report outline match sample render scrape crawl geocode",
);
/// Verbs for writing and executing that are not used as nouns.
static WRITE: Words = Words::new(
    "\
    write append create delete remove rm del unlink erase wipe purge destroy drop truncate insert \
    upsert update modify edit rename move mv cp copy clone upload put send publish broadcast set \
    unset add install uninstall upgrade downgrade deploy enable disable start stop restart reboot \
    shutdown kill terminate suspend resume pause cancel abort submit approve reject accept decline \
    assign unassign grant revoke allow deny ban unban mute invite subscribe unsubscribe join leave \
    merge rebase revert rollback reset restore recover save store persist overwrite replace swap \
    clear flush empty chmod chown mkdir rmdir touch mount unmount format execute exec run eval \
    evaluate invoke spawn launch apply patch push pop enqueue dequeue queue mark unmark pin unpin \
    star unstar follow unfollow like unlike vote react reply post tweet forward pay charge refund \
    transfer withdraw deposit buy sell purchase order book reserve rent checkout commit sync \
    synchronize import ingest migrate seed build compile train lock unlock open close toggle \
    switch turn press click type drag scroll fill navigate record log register unregister \
    deregister login logout sign attach detach link bind unbind connect disconnect schedule \
    reschedule trigger fire emit dispatch notify alert email mail call dial message draft compose \
    archive unarchive backup snapshot rotate renew expire invalidate configure adjust change \
    mutate increment decrement increase decrease scale resize provision bootstrap init initialize \
    setup teardown fork tag untag unlabel comment annotate rate share unshare hide unhide flag \
    block unblock mint burn actuate arm disarm kick translate_file bulk prune evict drain cordon \
    taint promote demote escalate acknowledge ack dismiss snooze complete finish finalize retry \
    rerun replay encrypt compress unzip untar dump spend bid trade redeem claim donate amend fix \
    vacuum repair clean cleanup optimize reload refresh reindex checkin override inject \
    impersonate wake unstage stage squash bump dim calibrate play skip ring shell bash terminal \
    powershell python repl console sudo script sandbox activate deactivate allocate deallocate \
    authorize deauthorize backfill commission decommission confirm debit defragment defrag delegate \
    deliver deprecate discard disburse dispose duplicate eject elevate enforce enroll unenroll \
    ensure expel extend failover forget freeze halt hibernate hire initiate instantiate interrupt \
    label make mirror nominate nudge nullify obliterate offboard offload onboard paste populate \
    prepend procure propagate quarantine quit redo recycle relinquish relocate remediate repay \
    replicate retire revise scrub seal settle shred silence suppress throttle transition transmit \
    trash undo upvote downvote void waive yank",
);
/// Verbs for writing that are also common nouns. Such a word does not count as writing if it ends a name and follows a
/// verb for reading.
static NOUNS: Words = Words::new(
    "\
    update post book order comment record log like star tag label vote rate message email mail \
    text call draft archive backup snapshot import build release commit merge patch fork link lock \
    queue store share transfer deposit purchase refund charge trade bid claim schedule alert set \
    type change run script sandbox console terminal shell format clone copy status sync deploy \
    reply reset start stop block flag invite mount stake switch register scale python bash dump \
    mark seed pin call move drop review setup login checkout open close trigger bulk empty \
    complete python press rent reserve sign backfill commission debit delegate duplicate failover \
    freeze make mirror paste quarantine silence transition trash",
);
/// Words for objects that are often opened to be read. In a name, they follow `open`.
const OPENED: &[&str] = &[
    "file", "page", "url", "document", "image", "folder", "resource", "link", "node", "nodes",
    "entity", "entities", "graph", "note", "notes",
];
/// Words for texts and values. If a name ends with `format` and such a word, the text is mostly returned in another
/// form. Before other words, e.g. `disk` or `file`, `format` writes.
const FORMATTED: &str = "\
    json xml yaml html csv text string date time datetime timestamp duration number currency bytes";
const JOINS: &[&str] = &["and", "or", "then", "plus", "with", "to", "n"];

/// Returns the effect that the verbs of a name indicate. In each clause of the name, the first verb decides.
pub(super) fn intent(name: &str) -> Intent {
    let words = key_words(name);
    let pairs = words.windows(2).any(|pair| {
        matches!(
            (pair[0].as_str(), pair[1].as_str()),
            ("check" | "sign" | "log" | "clock", "in" | "out" | "off")
                | ("turn" | "switch", "on" | "off")
                | ("clean", _)
                | ("set" | "spin", "up")
                | ("power", "on" | "off" | "up" | "down")
                | ("shut" | "spin" | "tear", "down")
                | ("zero", "out")
                | ("take", "ownership")
                | ("roll", "back")
        )
    });
    if pairs || resolves(&words) {
        return Intent::Write(words.join(" "));
    }
    // If a name begins with a program, its last word is a subcommand, e.g. in `docker_compose_ps`. So the subcommand
    // decides.
    if let [program, between @ .., sub] = &words[..]
        && between.iter().all(|word| word == "compose")
        && commands::only_reads(program, sub)
    {
        return Intent::Read;
    }
    // These names only read: a snapshot of a page returns the page's text, and `console_messages` returns messages. In
    // other names, `snapshot` means that a copy is stored.
    if let [before @ .., page, last] = &words[..]
        && matches!(
            (page.as_str(), last.as_str()),
            ("browser" | "page" | "dom" | "accessibility" | "a11y" | "aria", "snapshot")
                | ("console", "messages" | "logs" | "errors" | "output")
        )
        && !before.iter().any(|word| is_write(word))
    {
        return Intent::Read;
    }
    // After the name of a program for version control, `log` is the subcommand that prints the history, so it only
    // reads.
    if let [program, sub] = &words[..]
        && matches!(program.as_str(), "git" | "hg" | "svn" | "jj")
        && sub == "log"
    {
        return Intent::Read;
    }
    let mut read = false;
    let clauses: Vec<&[String]> = words.split(|word| JOINS.contains(&word.as_str())).collect();
    for (at, clause) in clauses.iter().enumerate() {
        match of_clause(clause, at > 0) {
            Intent::Read => read = true,
            Intent::Write(word) => return Intent::Write(word),
            Intent::Unknown => {}
        }
    }
    if read { Intent::Read } else { Intent::Unknown }
}

/// Returns whether a name means that something reported is closed, e.g. `resolve_review_thread`. Other names with
/// `resolve` can mean reading, e.g. `resolve_dns`.
fn resolves(words: &[String]) -> bool {
    const MATTERS: &str = "incident issue ticket alert conflict comment thread discussion";
    let Some((thing, before)) = words.split_last() else { return false };
    has(MATTERS, thing.trim_end_matches('s'))
        && before.iter().rev().take(2).any(|word| word == "resolve")
}

/// Returns whether a name consists of a verb for reading and of things that are read. It must have no joining word such
/// as `and`. A verb for writing is allowed only if it is also a noun and is the only word after the first verb, e.g. in
/// `get_post`.
pub(super) fn only_reads(name: &str) -> bool {
    let words = key_words(name);
    let Some(verb) = words.iter().position(|word| READ.has(word)) else { return false };
    let things = &words[verb + 1..];
    let is_noun = |word: &String| things.len() == 1 && NOUNS.has(word);
    intent(name) == Intent::Read
        && !words.iter().any(|word| JOINS.contains(&word.as_str()))
        && !words[..verb].iter().any(|word| is_write(word))
        && things.iter().all(|word| !is_write(word) || is_noun(word))
}

/// Returns whether any word is a verb for writing.
pub(super) fn writes(text: &str) -> bool {
    key_words(text).iter().any(|word| is_write(word))
}

fn of_clause(clause: &[String], later: bool) -> Intent {
    // The verb `open` alone does not decide, because opening a file or page writes only in some modes. `format` does
    // not decide before the name of a text.
    let is_open = |at: usize| match (clause[at].as_str(), clause.get(at + 1).map(String::as_str)) {
        ("open", object) => object.is_none_or(|object| OPENED.contains(&object)),
        ("format", Some(object)) => at + 2 == clause.len() && has(FORMATTED, object),
        _ => false,
    };
    let known = |at: usize| READ.has(&clause[at]) || is_write(&clause[at]) && !is_open(at);
    let Some(first) = (0..clause.len()).find(|at| known(*at)) else { return Intent::Unknown };
    let word = &clause[first];
    if is_write(word) {
        // A verb can follow its object, e.g. `file.write`. A noun can precede a verb for reading, e.g. `comment_list`.
        let read_after = clause[first + 1..].iter().find(|word| READ.has(word));
        let noun = NOUNS.has(word)
            && word != "mark"
            && first + 2 == clause.len()
            && read_after.is_some_and(|after| {
                matches!(
                    after.as_str(),
                    "get"
                        | "list"
                        | "search"
                        | "read"
                        | "find"
                        | "fetch"
                        | "count"
                        | "status"
                        | "info"
                        | "history"
                        | "show"
                        | "lookup"
                )
            });
        return if noun && !later { Intent::Read } else { Intent::Write(word.clone()) };
    }
    // A verb for writing at the end of the clause counts as writing, unless it is also a noun or only proposed: then it
    // is the object of the first verb.
    let [between @ .., last] = &clause[first + 1..] else { return Intent::Read };
    let proposes = matches!(word.as_str(), "suggest" | "recommend" | "explain" | "estimate")
        && !between.iter().any(|word| is_write(word));
    if is_write(last) && !NOUNS.has(last) && !proposes {
        return Intent::Write(last.clone());
    }
    Intent::Read
}

/// Returns whether a word is a verb for writing or executing, possibly with a prefix such as `re`, `un` or `bulk`.
pub(super) fn is_write(word: &str) -> bool {
    let again = ["re", "un", "auto", "bulk", "batch", "mass", "multi"]
        .iter()
        .filter_map(|start| word.strip_prefix(start));
    WRITE.has(word)
        || again.into_iter().any(|verb| verb.len() > 2 && WRITE.has(verb))
            && !matches!(word, "recall" | "return" | "report" | "remark")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_verb_of_each_clause_decides() {
        for name in [
            "getUser",
            "github__list_issues",
            "repo.list",
            "get_delete_policy",
            "search_posts",
            "comment_list",
            "list_update_events",
            "git_log",
            "kubectl_logs",
            "docker_compose_ps",
            "browser_snapshot",
            "browser_console_messages",
            "suggest_fix",
            "get_label",
            "get_failover",
        ] {
            assert_eq!(intent(name), Intent::Read, "{name}");
        }
        for name in [
            "file.write",
            "DeleteItem",
            "get_or_create",
            "search_and_replace",
            "search_replace",
            "check_in",
            "HTTPPost",
            "list_then_purge",
            "log_event",
            "open_issue",
            "resolve_review_thread",
            "volume_snapshot",
            "clear_console_logs",
            "deactivate_account",
            "power_off_vm",
            "check_then_undo",
            "format_disk",
            "format_json_file",
            "suggest_reply_send",
        ] {
            assert!(matches!(intent(name), Intent::Write(_)), "{name}");
        }
        for name in ["frobnicate", "readiness", "listen", "open_nodes", "format_json"] {
            assert_eq!(intent(name), Intent::Unknown, "{name}");
        }
    }
}
