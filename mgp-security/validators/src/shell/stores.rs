//! The rules for clients of databases, clusters and clouds: they must not destroy a whole store, e.g. a database, a
//! namespace or a repository.

use super::{
    argv::{Args, Refusal},
    paths::is_system,
};
use crate::words::{Words, has};

/// Options whose value is the next argument. They have this meaning in all clients that know them.
static VALUED: Words = Words::new(
    "\
    -n -l --namespace --context --kube-context --kubeconfig --selector --profile --region --output \
    --endpoint-url --project --subscription --resource-group",
);

/// The names of clients, and the phrases with which they destroy a whole store. The words of a phrase must follow each
/// other in the command. In a phrase, `a|b` is one of two words, `a*` any word that begins with `a`, and `@kind` one of
/// [`KINDS`]. With an empty phrase, every use of the client destroys something.
const DESTROYS: &[(&str, &[&str])] = &[
    ("dropdb dropuser pg_dropcluster pg_resetwal", &[""]),
    ("mysqladmin mariadb-admin", &["drop", "shutdown"]),
    ("valkey-cli keydb-cli iredis", &["flushall|flushdb|shutdown"]),
    ("rabbitmqctl", &["delete_vhost|delete_queue|purge_queue|delete_user|reset|force_reset"]),
    ("liquibase", &["drop-all|dropall"]),
    ("flyway", &["clean"]),
    ("influx", &["bucket|org delete", "delete"]),
    ("ceph", &["osd pool delete|rm", "fs rm"]),
    ("rbd", &["rm|remove"]),
    ("gluster", &["volume delete"]),
    ("turso", &["db|group destroy|delete"]),
    ("neonctl neon pscale", &["project|projects|branch|branches|database|databases delete"]),
    ("supabase", &["projects|branches delete"]),
    ("vault", &["secrets|auth disable", "namespace delete"]),
    ("docker podman nerdctl", &["volume rm|remove"]),
    ("kubectl oc", &["delete @kind"]),
    ("helm", &["uninstall|delete|del|un"]),
    ("kubeadm talosctl", &["reset"]),
    ("eksctl kops", &["delete cluster|clusters|cl|nodegroup|nodegroups|ng|instancegroup|ig"]),
    ("argocd", &["app|proj|cluster|appset delete|rm"]),
    ("flux linkerd istioctl", &["uninstall"]),
    ("velero", &["backup delete", "uninstall"]),
    ("qm pct", &["destroy"]),
    ("gh glab", &["repo|project delete"]),
    ("npm", &["unpublish"]),
    ("aws", &["* delete-*|terminate-*|purge-*|schedule-key-deletion"]),
    ("az", &["* delete|purge", "* * delete|purge", "* * * delete|purge"]),
    ("gcloud", &["* delete", "* * delete", "* * * delete", "* * * * delete"]),
    ("doctl", &["* delete|destroy|rm", "* * delete|destroy|rm"]),
    ("oci scw", &["* * delete|terminate"]),
    ("hcloud linode-cli civo", &["* delete|remove"]),
    ("heroku", &["apps:destroy|apps:delete|addons:destroy|pg:reset|destroy"]),
    ("fly flyctl", &["app|apps|volume|volumes|machine|machines|m destroy", "destroy"]),
    ("vercel vc", &["remove|rm", "project|projects rm|remove"]),
    ("netlify ntl", &["sites:delete"]),
    ("railway", &["down|delete", "volume|environment delete"]),
    ("firebase", &["firestore:delete|database:remove|projects:delete|functions:delete"]),
    (
        "wrangler",
        &["delete", "d1|queues|vectorize delete", "r2 bucket delete", "kv namespace delete"],
    ),
    ("pulumi", &["destroy|down", "stack rm"]),
    ("cdk cdktf", &["destroy"]),
    ("serverless sls", &["remove"]),
    ("sam", &["delete"]),
    ("copilot", &["app|env|svc delete"]),
    ("eb", &["terminate"]),
];

/// Kinds of objects of a cluster that contain other objects, or data.
static KINDS: Words = Words::new(
    "\
    ns namespace namespaces project projects no node nodes pv persistentvolume persistentvolumes pvc \
    persistentvolumeclaim persistentvolumeclaims crd crds customresourcedefinition \
    customresourcedefinitions",
);

/// Parts of stores, and settings. A client may delete a single part, as a command may delete a single file.
static PARTS: Words = Words::new(
    "\
    delete-object delete-item delete-message delete-message-batch delete-tags delete-tag \
    delete-object-tagging delete-bucket-tagging delete-attributes delete-parameter delete-alarms \
    delete-dashboards delete-rule delete-metric-filter delete-log-stream delete-scheduled-action blob \
    message messages entity file tag tags lock record-set record-sets rule rules config \
    configurations alias label labels image images",
);

/// Clients that execute SQL statements in their arguments.
static SQL_CLIENTS: Words = Words::new(
    "\
    cqlsh clickhouse-client clickhouse sqlcmd mycli pgcli usql cockroach snowsql bq trino presto \
    spark-sql hive beeline",
);

/// Refuses a command that destroys a whole store.
pub(super) fn check(name: &str, args: Args<'_>) -> Result<(), Refusal> {
    let drops_store = SQL_CLIENTS.has(name) && args.texts().any(drops);
    if (drops_store || destroys(name, args) || by_option(name, args)) && !only_shows(args) {
        return Err(format!("this form of `{name}` destroys a whole store"));
    }
    Ok(())
}

fn destroys(name: &str, args: Args<'_>) -> bool {
    let mut rows = DESTROYS.iter().filter(|(names, _)| has(names, name)).peekable();
    if rows.peek().is_none() {
        return false;
    }
    let words = words(args);
    rows.any(|(_, phrases)| phrases.iter().any(|phrase| begins_with(&words, phrase)))
}

/// Returns whether an option makes a command destroy a whole store.
fn by_option(name: &str, args: Args<'_>) -> bool {
    let begins = |phrase| begins_with(&words(args), phrase);
    match name {
        "docker" | "podman" | "nerdctl" => begins("compose down") && removes_volumes(args),
        "docker-compose" | "podman-compose" => begins("down") && removes_volumes(args),
        "etcdctl" => begins("del") && args.any(&["--prefix", "--from-key"]),
        "consul" => begins("kv delete") && args.any(&["-recurse", "--recurse"]),
        "nomad" => args.any(&["-purge", "--purge"]),
        "kafka-topics" | "kafka-topics.sh" => args.any(&["--delete"]),
        "bq" => {
            let options = ["-r", "-d", "--recursive", "--dataset", "-rf", "-fr"];
            begins("rm") && args.any(&options)
        }
        _ => false,
    }
}

fn removes_volumes(args: Args<'_>) -> bool {
    args.short("v", "fpt") || args.long("volumes", 3)
}

/// Returns the arguments that are neither options nor values of options, each with the number of options before it that
/// may have a separate value.
fn words(args: Args<'_>) -> Vec<(usize, &str)> {
    let (mut words, mut options, mut is_value) = (Vec::new(), 0, false);
    for text in args.texts() {
        if std::mem::take(&mut is_value) {
            continue;
        }
        if text.len() > 1 && text.starts_with('-') {
            is_value = VALUED.has(text);
            options += usize::from(!is_value && !text.contains('='));
        } else {
            words.push((options, text));
        }
    }
    words
}

/// Returns whether the words of a command begin with a phrase. An unknown option may have a word as its value. So
/// before each word of the phrase, one other word is allowed for each option, if an option precedes it. After an option
/// before the first word, that word can be a value, too, so other words can follow it at once.
fn begins_with(words: &[(usize, &str)], phrase: &str) -> bool {
    let (mut from, mut options) = (0, 0);
    phrase.split_ascii_whitespace().all(|wanted| {
        let found = (from..words.len()).find(|at| is(wanted, words[*at].1));
        let fits = |at: &usize| {
            at - from <= words[*at].0 - options
                && (options > 0 || words[from..*at].iter().all(|(before, _)| *before > 0))
        };
        let Some(at) = found.filter(fits) else { return false };
        (from, options) = (at + 1, words[at].0);
        !PARTS.has(words[at].1)
    })
}

fn is(wanted: &str, word: &str) -> bool {
    wanted.split('|').any(|one| match one.strip_suffix('*') {
        Some(start) => word.starts_with(start),
        None if one == "@kind" => holds_others(word),
        None => one == word,
    })
}

/// Returns whether an argument such as `ns`, `ns/prod` or `pods,namespaces` names a kind in [`KINDS`].
fn holds_others(word: &str) -> bool {
    word.to_ascii_lowercase()
        .split(',')
        .any(|kind| KINDS.has(kind.split(['/', '.']).next().unwrap_or_default()))
}

/// Returns whether an option makes a command only show what it would do. The option must not be the value of the
/// option before it.
fn only_shows(args: Args<'_>) -> bool {
    let before = [""].into_iter().chain(args.texts());
    let shows = |(before, text): (&str, &str)| {
        !before.starts_with('-')
            && matches!(
                text,
                "--help" | "--dry-run" | "--dryrun" | "--dry-run=client" | "--dry-run=server"
            )
    };
    // Refuse `--help=VALUE`: if `--help` occurs several times, its last value counts, e.g. in `--help --help=false`.
    let is_value = |text: &str| text.starts_with("--help=") || text.starts_with("-h=");
    args.texts().filter(|text| text.contains("-dry")).count() <= 1
        && !args.texts().any(is_value)
        && before.zip(args.texts()).take_while(|(_, text)| *text != "--").any(shows)
}

/// Returns the value of an option that is in the same argument, e.g. of `--command=X` and `-cX`, or an empty text.
pub(super) fn glued_value(text: &str) -> &str {
    match text.strip_prefix("--") {
        Some(long) => long.split_once('=').map_or("", |(_, value)| value),
        None if text.starts_with('-') => text.get(2..).unwrap_or_default(),
        None => "",
    }
}

/// Returns whether a text has a statement that drops a database, a schema or a keyspace. The text can be the value of
/// an option in the same argument, e.g. `--command=DROP DATABASE x`.
pub(super) fn drops(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let glued = glued_value(&lower);
    // Clients also have commands of their own, which end at the end of the line, so split the text at line ends, too.
    [lower.as_str(), glued]
        .into_iter()
        .any(|text| text.split(';').any(drops_first) || text.split([';', '\n']).any(drops_first))
}

/// Returns whether a text in lower case has a statement of `PostgreSQL` that writes rows to a file of the server.
pub(super) fn copies_to_file(text: &str) -> bool {
    text.split(';').any(|statement| {
        let is_mark = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        let words: Vec<&str> = statement.split(is_mark).filter(|word| !word.is_empty()).collect();
        // The name of an option can precede the statement in the same argument, and so can comments.
        let is_first = !["/*", "--"].iter().any(|mark| statement.contains(mark));
        let places = if is_first { 1 } else { words.len() };
        words.iter().take(places).any(|word| matches!(*word, "copy" | "ccopy"))
            && words.windows(2).any(|pair| pair[0] == "to" && pair[1] != "stdout")
    })
}

/// Returns whether a text in lower case has a statement of `DuckDB` that writes rows to a file of the system, or to a
/// file whose name is computed.
pub(super) fn copies_to_system(text: &str) -> bool {
    let Some(first) = after_words(text, "copy").chain(after_words(text, "export")).min() else {
        return false;
    };
    let mut targets = after_words(text, "to").chain(after_words(text, "database"));
    targets.any(|at| at > first && is_system_file(text[at..].trim_start()))
}

/// Returns the positions after each occurrence of a word in a text.
fn after_words(text: &str, word: &'static str) -> impl Iterator<Item = usize> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).filter_map(move |(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        (!before.ends_with(is_part) && !after.starts_with(is_part)).then_some(at + word.len())
    })
}

/// Returns whether a statement continues with a file of the system, or with an expression that computes the name.
fn is_system_file(rest: &str) -> bool {
    for quote in ['\'', '"'] {
        if let Some(rest) = rest.strip_prefix(quote) {
            return rest.split_once(quote).is_none_or(|(path, _)| is_system(path));
        }
    }
    let after = rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
    after.len() == rest.len() && !rest.is_empty() || after.starts_with(['\'', '"', '('])
}

fn drops_first(statement: &str) -> bool {
    let mut rest = statement.trim_start();
    while let Some(comment) = rest.strip_prefix("/*") {
        // Read on in a comment that begins with an exclamation mark, because MySQL executes its content.
        let executed = comment.strip_prefix('!').or_else(|| comment.strip_prefix("m!"));
        let after = match (executed, comment.split_once("*/")) {
            (Some(text), _) => text.trim_start_matches(|c: char| c.is_ascii_digit()),
            (None, Some((_, after))) => after,
            (None, None) => return false,
        };
        rest = after.trim_start();
    }
    let Some(rest) = rest.strip_prefix("drop") else { return false };
    if !rest.starts_with(|c: char| c.is_whitespace() || c == '/') {
        return false;
    }
    let is_mark = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    let mut words = rest.split(is_mark).filter(|word| !word.is_empty());
    matches!(words.next(), Some("database" | "schema" | "keyspace" | "tablespace" | "owned"))
}

#[cfg(test)]
mod tests {
    use super::drops;

    #[test]
    fn only_statements_that_drop_a_whole_database_count() {
        for text in [
            "DROP DATABASE shop",
            "select 1; drop  schema public cascade",
            "/* x */ DROP/**/DATABASE x",
            "/*!50000 DROP DATABASE x */",
            "DROP\nDATABASE x",
            "\\c a\nDROP DATABASE b",
            "--command=drop database x",
            "-cDROP DATABASE x",
        ] {
            assert!(drops(text), "{text}");
        }
        for text in ["DROP TABLE t", "SELECT 'drop database'", "--file=x.sql", "-", "dropped"] {
            assert!(!drops(text), "{text}");
        }
    }
}
