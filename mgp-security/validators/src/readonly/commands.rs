//! Decides by lists of programs and their subcommands whether commands in arguments only read.

use super::{
    name::{Intent, intent, is_write},
    queries::is_declared,
};
use crate::argument_values::key_words;
use crate::shell;
use crate::words::{Words, has};
use serde_json::Value;

/// A program whose subcommand shows whether a command only reads.
struct Program {
    name: &'static str,
    /// Options before the subcommand whose value is the next word.
    valued: &'static str,
    /// Options before the subcommand that take no value.
    flags: &'static str,
    /// The subcommands that only read; `a/b` is the subcommand `b` of the subcommand `a`. Any other subcommand counts
    /// as writing.
    reads: &'static str,
}

const fn program(name: &'static str, valued: &'static str, reads: &'static str) -> Program {
    Program { name, valued, flags: "", reads }
}

impl Program {
    const fn flags(self, flags: &'static str) -> Self {
        Self { flags, ..self }
    }
}

const SUBCOMMANDS: &[Program] = &[
    program(
        "git",
        "-C",
        "\
        status log diff show blame ls-files ls-tree ls-remote rev-parse rev-list describe grep \
        shortlog cat-file reflog name-rev merge-base for-each-ref show-ref whatchanged help version \
        check-ignore count-objects diff-tree diff-index diff-files cherry annotate show-branch \
        range-diff var stash/list stash/show worktree/list remote/show remote/get-url \
        submodule/status notes/list notes/show bisect/log",
    ),
    program(
        "kubectl",
        "-n --namespace --context --cluster",
        "\
        get describe logs top explain api-resources api-versions version cluster-info diff events \
        options auth/can-i auth/whoami rollout/status rollout/history config/view config/get-contexts \
        config/get-clusters config/current-context",
    ),
    program(
        "docker",
        "-c --context",
        "\
        ps images inspect logs stats top version info history port diff events search compose/ps \
        compose/logs compose/ls compose/images compose/top compose/version compose/config \
        compose/port container/ls container/inspect container/logs container/stats container/top \
        image/ls image/inspect image/history network/ls network/inspect volume/ls volume/inspect \
        context/ls context/show context/inspect system/df system/info system/events service/ls \
        service/ps service/logs service/inspect node/ls node/ps node/inspect stack/ls stack/ps \
        stack/services secret/ls secret/inspect config/ls config/inspect manifest/inspect plugin/ls \
        plugin/inspect buildx/ls",
    ),
    program(
        "podman",
        "",
        "\
        ps images inspect logs stats top version info history port diff search container/ls \
        container/inspect image/ls image/inspect network/ls volume/ls pod/ps pod/inspect pod/logs",
    ),
    program(
        "helm",
        "-n --namespace --kube-context",
        "\
        list ls status get history search show template version lint env repo/list dependency/list \
        plugin/list",
    ),
    program(
        "npm",
        "",
        "\
        ls list view info show outdated search root prefix explain why ping whoami audit query \
        config/get config/list config/ls dist-tag/ls owner/ls token/list pkg/get profile/get",
    ),
    program(
        "pip",
        "",
        "\
        list show freeze check search index debug inspect config/list config/get cache/list \
        cache/info",
    ),
    program("cargo", "", "tree metadata search info version locate-project pkgid read-manifest"),
    program(
        "systemctl",
        "",
        "\
        status is-active is-enabled is-failed list-units list-unit-files list-timers list-sockets \
        list-dependencies list-jobs show cat get-default show-environment is-system-running",
    )
    .flags("--user --system"),
    program(
        "terraform",
        "",
        "\
        plan validate show output version graph providers state/list state/show state/pull \
        workspace/list workspace/show metadata/functions",
    ),
    program(
        "gh",
        "-R --repo",
        "\
        status pr/list pr/view pr/diff pr/checks pr/status issue/list issue/view issue/status \
        run/list run/view repo/list repo/view release/list release/view workflow/list workflow/view \
        label/list search/code search/commits search/issues search/prs search/repos secret/list \
        variable/list gist/list gist/view cache/list ruleset/list ruleset/view project/list \
        project/view project/item-list project/field-list codespace/list org/list config/get \
        config/list alias/list ssh-key/list gpg-key/list extension/list extension/search auth/status",
    ),
    program("apt", "", "list show search policy depends rdepends"),
    program("brew", "", "list ls info search outdated deps config leaves uses desc services/list"),
    program(
        "gcloud",
        "--project --format --account --region --zone",
        "\
        info version builds/log functions/logs/read logging/read config/get-value config/list \
        storage/ls",
    ),
    program("az", "--subscription --output -o", "version"),
    // `describe-*` and `list-*` of all services also only read.
    program(
        "aws",
        "--profile --region --output",
        "\
        s3/ls sts/get-caller-identity logs/filter-log-events logs/get-log-events logs/tail \
        dynamodb/get-item dynamodb/query dynamodb/scan cloudwatch/get-metric-statistics \
        cloudwatch/get-metric-data cloudtrail/lookup-events ce/get-cost-and-usage \
        s3api/head-object s3api/head-bucket configure/list configure/get configure/list-profiles",
    ),
    program(
        "redis",
        "-h -p -n -u --user",
        "\
        get mget exists keys scan ttl pttl type strlen hget hmget hgetall hkeys hvals hlen hexists \
        hscan lrange llen lindex smembers scard sismember sscan srandmember sinter sunion sdiff zrange \
        zrevrange zrangebyscore zscore zcard zcount zrank zscan getrange getbit bitcount dbsize info \
        ping echo time memory object xrange xrevrange xlen xinfo pfcount geodist geopos geosearch \
        command lastsave randomkey dump expiretime pexpiretime xread xpending lpos lcs hstrlen substr \
        bitpos hrandfield zmscore zdiff zinter zunion zintercard sintercard smismember zlexcount \
        zrangebylex zrevrangebylex zrevrangebyscore zrevrank zrandmember sort_ro bitfield_ro geohash \
        georadius_ro georadiusbymember_ro role client/list client/info client/id client/getname \
        slowlog/get slowlog/len latency/latest latency/history pubsub/channels pubsub/numsub \
        pubsub/numpat cluster/info cluster/nodes cluster/slots cluster/shards cluster/keyslot \
        acl/whoami acl/list acl/users acl/cat acl/getuser config/get module/list script/exists \
        function/list function/stats json.get json.mget json.type json.strlen json.objkeys \
        json.objlen json.arrlen ft.search ft.info ft._list ft.explain ts.get ts.range ts.info",
    )
    .flags("--raw --json --csv"),
];
/// Services of `aws` whose commands `get-*` and `batch-get-*` all print their answer. Those of other services can write
/// it to a file, or create something.
static GETS: Words = Words::new(
    "\
    accessanalyzer acm athena backup budgets ce cloudformation cloudtrail cloudwatch codebuild \
    codecommit codepipeline configservice dynamodb ecr events glue guardduty iam inspector2 kms \
    lambda logs ram resourcegroupstaggingapi route53 s3api secretsmanager securityhub sesv2 sns sqs \
    ssm stepfunctions wafv2",
);
/// Groups of commands of `gcloud` and `az`. Their commands in [`SHOWS`] only read.
static GROUPS: Words = Words::new(
    "\
    account acr acr/repository ad/app ad/group ad/sp ad/user advisor/recommendation aks \
    aks/nodepool app/instances app/services app/versions appconfig apps artifacts/packages \
    artifacts/repositories auth billing/accounts boards/work-item builds cdn/profile \
    compute/addresses compute/disks compute/firewall-rules compute/forwarding-rules \
    compute/images compute/instance-groups compute/instance-templates compute/instances \
    compute/machine-types compute/networks compute/networks/subnets compute/project-info \
    compute/regions compute/routers compute/routes compute/snapshots compute/ssl-certificates \
    compute/zones consumption/usage container/clusters container/node-pools containerapp cosmosdb \
    dataflow/jobs dataproc/clusters deployment/group deployment/sub disk dns/managed-zones \
    dns/record-sets eventgrid/topic eventhubs/namespace filestore/instances firestore/databases \
    functionapp functions group iam/roles iam/service-accounts identity image iot/hub keyvault \
    keyvault/certificate keyvault/key keyvault/secret lock logging/logs logging/sinks \
    monitor/action-group monitor/activity-log monitor/alert monitor/diagnostic-settings \
    monitor/metrics monitoring/dashboards monitoring/policies mysql/server \
    network/application-gateway network/dns/zone network/lb network/nic network/nsg \
    network/nsg/rule network/public-ip network/vnet network/vnet/subnet organizations pipelines \
    pipelines/runs policy/assignment policy/definition postgres/server projects provider \
    pubsub/subscriptions pubsub/topics redis redis/instances repos repos/pr resource \
    role/assignment role/definition run/jobs run/revisions run/services scheduler/jobs secrets \
    secrets/versions servicebus/namespace servicebus/queue services snapshot source/repos \
    spanner/databases spanner/instances sql/backups sql/databases sql/db sql/instances sql/server \
    staticwebapp storage/account storage/blob storage/buckets storage/container storage/objects \
    storage/share tag tasks/queues vm vm/disk vm/extension vm/image vmss webapp \
    webapp/config/appsettings webapp/deployment/slot workflows",
);
static SHOWS: Words = Words::new(
    "\
    list show describe list-locations list-sizes list-skus list-usage list-ip-addresses \
    get-instance-view show-tags get-iam-policy",
);
/// Subcommands that write, although their parent subcommands only read.
const WRITES_BELOW: &str = "\
    reflog/expire reflog/delete reflog/drop reflog/write providers/lock providers/mirror audit/fix \
    memory/purge";
/// Words that may precede the name of a program in the name of a tool that runs the program's commands.
const RUNS: &str = "run execute call invoke";
/// Words that may follow the name of a program in the name of a tool that runs the program's commands.
const PLAIN: &str = "command commands cmd cli tool read readonly only";
/// Last words of keys that contain a command.
const COMMANDS: &str = "command cmd subcommand args argv commandline arguments";
/// Keys of arguments that determine how a server runs a command, e.g. in which folder. They are not data for the
/// command, but a server can add their values to it.
const BESIDE: &str = "\
    cwd workdir workingdir workingdirectory directory repo repopath namespace context profile region";
/// Keys of further arguments of a command that are texts for people.
const NOTES: &str = "description reason explanation";
/// Programs that only print.
static PROGRAMS: Words = Words::new(
    "\
    ls cat head tail grep rg wc pwd whoami id uname date df du ps stat file which type echo printf \
    uptime free tree cut nl od strings hostname env printenv jq diff cmp md5sum sha256sum basename \
    dirname realpath readlink lsblk lscpu nproc dig nslookup host ping",
);

/// Returns whether a subcommand of a program only reads, whatever its arguments are. This decides for tools that are
/// named after a program and its subcommand, e.g. `docker_ps`.
pub(super) fn only_reads(program: &str, sub: &str) -> bool {
    let is_other = matches!(sub, "command" | "object" | "memory" | "help");
    !is_other && named(program).is_some_and(|known| known.name == program && has(known.reads, sub))
}

/// Returns whether a call runs exactly one command of a program, and the command only reads. The name of the tool must
/// mean nothing more, e.g. `kubectl` and `run_git_command`.
pub(super) fn runs_program(tool: &str, definition: &Value, arguments: &Value) -> bool {
    let words = key_words(tool);
    let Some(at) = words.iter().position(|word| named(word).is_some()) else { return false };
    let is_named = words[..at].iter().all(|word| has(RUNS, word))
        && words[at + 1..].iter().all(|word| has(PLAIN, word));
    let Some(members) = arguments.as_object().filter(|_| is_named) else { return false };
    let mut commands = 0;
    for (key, value) in members {
        let names = key_words(key);
        let is_command = names.last().is_some_and(|last| has(COMMANDS, last));
        let reads = match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => continue,
            Value::String(text) if !is_command && is_harmless(&names.concat(), text) => continue,
            Value::String(text) => !text.trim().is_empty() && check_text(&words, text).is_ok(),
            Value::Array(items) => {
                let items: Option<Vec<String>> =
                    items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
                // Some servers join the items to one text, which a shell executes. So check the joined text, too.
                items.is_some_and(|items| {
                    !items.is_empty()
                        && check(&words, &items).is_ok()
                        && check_text(&words, &items.join(" ")).is_ok()
                })
            }
            Value::Object(_) => false,
        };
        if !is_command || !reads || !is_declared(definition, key) {
            return false;
        }
        commands += 1;
    }
    // A server could join several texts into another command, so only one text is allowed.
    commands == 1
}

/// Returns whether a text that comes with a command can add neither an option to it nor another command.
fn is_harmless(key: &str, text: &str) -> bool {
    let separates = |c: char| "`$;&|<>".contains(c) || c.is_control();
    has(NOTES, key)
        || has(BESIDE, key) && !text.trim_start().starts_with('-') && !text.contains(separates)
}

/// Checks a text that a tool would run as a command.
pub(super) fn check_text(tool: &[String], text: &str) -> Result<(), String> {
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    let Some(first) = words.first().map(|word| word.to_ascii_lowercase()) else { return Ok(()) };
    if let Some(program) = named(&first).or_else(|| of_tool(tool)) {
        // Some servers parse the text as a shell does; others split it at each blank. For Redis, each `(` is removed
        // first: there, it only means that a range does not include its limit.
        let read = if program.name == "redis" {
            shell::split(&text.replace('(', ""))?
        } else {
            shell::split(text)?
        };
        check(tool, &read)?;
    } else if PROGRAMS.has(&first) {
        prints(&words)?;
        return shell::command(text);
    }
    check(tool, &words)
}

/// Checks the words of a command that a tool would run.
pub(super) fn check(tool: &[String], words: &[String]) -> Result<(), String> {
    let Some(first) = words.first().map(|word| word.to_ascii_lowercase()) else { return Ok(()) };
    let (program, rest) = match (of_tool(tool), named(&first)) {
        (_, Some(program)) => (program, &words[1..]),
        (Some(program), None) => (program, words),
        (None, None) if PROGRAMS.has(first.as_str()) => {
            prints(words)?;
            // Some servers join the words to one text, which a shell executes, so check that text, too.
            shell::command(&words.join(" "))?;
            return shell::vector(&first, &words[1..]);
        }
        (None, None)
            if is_write(&first)
                || matches!(intent(&first), Intent::Write(_))
                || words.len() > 1 =>
        {
            return Err(format!("`{first}` is not known to only read"));
        }
        (None, None) => return Ok(()),
    };
    if !reads(program, rest) || rest.iter().any(|word| acts(program.name, word)) {
        let shown = rest.iter().find(|word| !word.starts_with('-')).map_or("", String::as_str);
        return Err(format!("`{} {shown}` is not known to only read", program.name));
    }
    // The rules of `sandbox` know further options with which a program executes or writes something, so apply these
    // rules, too.
    if program.name == "redis" { Ok(()) } else { shell::vector(program.name, rest) }
}

/// Refuses arguments with which a program of [`PROGRAMS`] writes a file or runs another program.
fn prints(words: &[String]) -> Result<(), String> {
    let Some((first, rest)) = words.split_first() else { return Ok(()) };
    let names_file = |word: &String| {
        let option = word.trim_start_matches(['"', '\'', '\\']);
        option.starts_with('-') && !option.starts_with("--") && option.contains('o')
    };
    match first.to_ascii_lowercase().as_str() {
        "env" if !rest.is_empty() => Err("`env` can run another program".to_owned()),
        "tree" if rest.iter().any(names_file) => Err("`tree -o` writes a file".to_owned()),
        _ => Ok(()),
    }
}

fn named(word: &str) -> Option<&'static Program> {
    SUBCOMMANDS
        .iter()
        .find(|known| known.name == word || word == "redis-cli" && known.name == "redis")
}

fn of_tool(tool: &[String]) -> Option<&'static Program> {
    tool.iter().find_map(|word| named(word))
}

/// Returns whether the subcommand after the name of a program only reads.
fn reads(program: &Program, words: &[String]) -> bool {
    if words.iter().all(|word| word.starts_with('-')) {
        return true;
    }
    let mut at = 0;
    while let Some(option) = words.get(at).filter(|word| word.starts_with('-')) {
        let name = option.split('=').next().unwrap_or(option);
        let is_valued = has(program.valued, name);
        // An option that is not known to take a value might still take the next word as its value, so such a command is
        // refused.
        if !is_valued && !has(program.flags, option) && !option.starts_with("--no-") {
            return false;
        }
        at += if is_valued && name.len() == option.len() { 2 } else { 1 };
    }
    let Some(sub) = words.get(at).map(|word| word.to_ascii_lowercase()) else { return false };
    let after = &words[at + 1..];
    let below = |word: &String| format!("{sub}/{}", word.to_ascii_lowercase());
    let is_group = after.first().is_some_and(|next| has(program.reads, &below(next)));
    let is_known = match program.name {
        "gcloud" | "az" => shows(program, &words[at..]),
        "aws" => after.first().is_some_and(|next| prints_answer(&sub, next)),
        "gh" => sub == "api" && requests(after),
        "git" => lists(&sub, after),
        _ => false,
    };
    // A long subcommand is not in the list, so do not copy it for each word.
    let writes = |word: &String| sub.len() < 16 && has(WRITES_BELOW, &below(word));
    (has(program.reads, &sub) || is_group || is_known) && !after.iter().any(writes)
}

/// Returns whether a command of a service of `aws` only prints the answer of the service.
fn prints_answer(service: &str, command: &str) -> bool {
    let begins = |starts: &[&str]| starts.iter().any(|start| command.starts_with(start));
    // Other commands with such names only print, but these write a picture or an object to a file, or take a task from
    // its queue.
    let is_other = matches!(
        command,
        "describe-input-device-thumbnail"
            | "get-object"
            | "get-object-torrent"
            | "get-activity-task"
    );
    !is_other
        && (begins(&["describe-", "list-"]) || GETS.has(service) && begins(&["get-", "batch-get-"]))
}

/// Returns whether a command of `gcloud` or `az` is listed for the program, or is one of [`SHOWS`] in a group of
/// [`GROUPS`], e.g. `compute instances list`.
fn shows(program: &Program, words: &[String]) -> bool {
    let mut path = String::new();
    for word in words.iter().take(4) {
        if GROUPS.has(&path) && SHOWS.has(word) {
            return true;
        }
        if !path.is_empty() {
            path.push('/');
        }
        path.push_str(word);
        if has(program.reads, &path) {
            return true;
        }
    }
    false
}

/// Returns whether `gh api` sends a request to GitHub that only reads: with the method `GET`, which is the default
/// unless the request has fields.
fn requests(after: &[String]) -> bool {
    const VALUED: &str = "-X --method -q --jq -t --template --cache -p --preview";
    const FIELDS: &str = "-f -F --field --raw-field";
    const FLAGS: &str = "--paginate --slurp -i --include --silent --verbose";
    let (mut is_get, mut has_fields, mut places) = (false, false, 0);
    let mut words = after.iter().map(String::as_str);
    while let Some(word) = words.next() {
        if !word.starts_with('-') {
            // A whole URL can be that of another server. A request for `graphql` always has a body.
            if word.contains("://") || word.starts_with("//") || word.contains("graphql") {
                return false;
            }
            places += 1;
            continue;
        }
        if has(FLAGS, word) {
            continue;
        }
        let (name, glued) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        let Some(value) = glued.or_else(|| words.next()) else { return false };
        match name {
            "-X" | "--method" if !value.eq_ignore_ascii_case("GET") => return false,
            "-X" | "--method" => is_get = true,
            _ if has(FIELDS, name) => has_fields = true,
            _ if has(VALUED, name) => {}
            _ => return false,
        }
    }
    places == 1 && (is_get || !has_fields)
}

/// Returns whether a subcommand of git only lists something with these arguments, although it could also write.
fn lists(sub: &str, after: &[String]) -> bool {
    // Git only lists if one of the options in `needed` is present. With an option in `with_names`, a name after it is a
    // pattern.
    if after.is_empty() && matches!(sub, "branch" | "tag" | "remote") {
        return true;
    }
    let (needed, other, with_names) = match sub {
        "branch" => (
            "\
            --list -a --all -r --remotes -v -vv --show-current --contains --no-contains --merged \
            --no-merged --points-at",
            "--sort --format --no-color --no-column",
            "--list --contains --no-contains --merged --no-merged --points-at",
        ),
        "tag" => (
            "--list -l -n --contains --no-contains --merged --no-merged --points-at",
            "--sort --format --no-column",
            "--list -l -n --contains --no-contains --merged --no-merged --points-at",
        ),
        "remote" => ("-v --verbose", "", ""),
        // `--lost-found`, which can be abbreviated, writes files.
        "fsck" => return !after.iter().any(|word| word.starts_with("--l")),
        "config" => (
            "--get --get-all --get-regexp --list -l",
            "--global --local --system --show-origin --show-scope --name-only",
            "--get --get-all --get-regexp",
        ),
        _ => return false,
    };
    let (options, names): (Vec<&str>, Vec<&str>) = after
        .iter()
        .map(|word| word.split('=').next().unwrap_or(word))
        .partition(|word| word.starts_with('-'));
    options.iter().all(|option| has(needed, option) || has(other, option))
        && options.iter().any(|option| has(needed, option))
        && (names.is_empty() || options.iter().any(|option| has(with_names, option)))
}

/// Returns whether a word is an option that makes a subcommand write a file, run a program, or send credentials to
/// another server, although the subcommand otherwise only reads.
fn acts(program: &str, word: &str) -> bool {
    let begins = |starts: &[&str]| starts.iter().any(|start| word.starts_with(start));
    match program {
        "git" => {
            matches!(word, "-o" | "-O" | "-c")
                || begins(&["--output", "--ext-diff", "--open-files"])
        }
        // The letter can follow others in a group, e.g. in `-qo`.
        "docker" | "podman" => {
            let name = word.split('=').next().unwrap_or(word);
            begins(&["--output"])
                || name.starts_with('-') && !name.starts_with("--") && name.contains('o')
        }
        "terraform" => word.starts_with('-') && word.contains("-out"),
        // The configuration file of kubectl can name a program that creates access tokens, so options that name this
        // file are refused.
        "kubectl" => {
            const ACTING: [&str; 7] = [
                "--kubeconfig",
                "--server=",
                "--output-",
                "--profile",
                "--cache-dir",
                "--log-",
                "-s",
            ];
            word == "--server" || begins(&ACTING)
        }
        "helm" => begins(&["--kubeconfig", "--kube-apiserver", "--output-", "--dependency-update"]),
        "redis" => begins(&["--rdb", "--functions-rdb", "--eval", "--pipe"]),
        "pip" => begins(&["--log", "--local-log"]),
        "npm" => begins(&["--git", "--cache", "--logs-dir"]),
        // The file of this option can have further options.
        "gcloud" => begins(&["--flags-file"]),
        // A setting can name the compiler that cargo runs, so options that change settings are refused.
        "cargo" => begins(&["--config", "-Z"]),
        _ => begins(&["--output-"]),
    }
}
