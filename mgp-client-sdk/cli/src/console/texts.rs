//! The texts of the pages, in each language; a new language is one more column.

use axum::http::{HeaderMap, header};

macro_rules! texts {
    ($($name:ident: $english:literal, $german:literal;)*) => {
        #[derive(Debug)]
        pub(super) struct Texts {
            $(pub(super) $name: &'static str,)*
        }

        static ENGLISH: Texts = Texts { $($name: $english,)* };

        static GERMAN: Texts = Texts { $($name: $german,)* };
    };
}

/// Returns the texts in the first of the browser's preferred languages that has a translation.
pub(super) fn of(headers: &HeaderMap) -> &'static Texts {
    let wanted = headers.get(header::ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
    let languages = wanted
        .unwrap_or_default()
        .split(',')
        .map(|one| one.split(['-', ';']).next().unwrap_or_default().trim().to_ascii_lowercase());
    let known = [&ENGLISH, &GERMAN];
    let found = languages
        .into_iter()
        .find_map(|language| known.into_iter().find(|texts| texts.language == language));
    found.unwrap_or(&ENGLISH)
}

texts! {
    language: "en", "de";
    inbox: "Inbox", "Eingang";
    servers: "Servers", "Server";
    record: "Record", "Protokoll";
    access: "Access", "Zugriff";
    search: "Search", "Suche";
    configuration: "Configuration", "Konfiguration";
    pages: "Pages", "Seiten";
    skip: "Skip to the content", "Zum Inhalt springen";
    log_in: "Open the console", "Konsole öffnen";
    log_out: "Log out", "Abmelden";
    login_text: "This link works once. Open the console with it?", "Dieser Link gilt einmal. Die Konsole damit öffnen?";
    login_needed: "You are not logged in, or the link was used before; run `mgp console` for a new link", "Sie sind nicht angemeldet, oder der Link wurde schon benutzt; `mgp console` gibt einen neuen aus";
    login_key_text: "Log in with the API key of an operator (`mgp keys add NAME --admin`), or with an access token.", "Melden Sie sich mit dem API-Schlüssel eines Betreibers an (`mgp keys add NAME --admin`), oder mit einem Zugriffstoken.";
    login_key: "Key or token", "Schlüssel oder Token";
    login_invalid: "This key is not valid, or the link was used before.", "Dieser Schlüssel gilt nicht, oder der Link wurde schon benutzt.";
    login_no_operator: "This key is not that of an operator of this kernel.", "Dieser Schlüssel ist nicht der eines Betreibers dieses Kernels.";
    login_too_many: "Too many logins were wrong. Try again in a few seconds.", "Zu viele falsche Anmeldungen. Versuchen Sie es in einigen Sekunden noch einmal.";
    login_failed: "The login could not be checked. Try again.", "Die Anmeldung ließ sich nicht prüfen. Versuchen Sie es noch einmal.";
    go_on: "Continue", "Weiter";
    logged_out_here: "You are logged out.", "Sie sind abgemeldet.";
    logged_out: "You are logged out; run `mgp console` for a new link", "Sie sind abgemeldet; `mgp console` gibt einen neuen Link aus";
    failed: "It did not work:", "Es ging nicht:";
    lost: "This page has no connection to the kernel and may be old. It tries to connect again.", "Diese Seite hat keine Verbindung zum Kernel und ist vielleicht alt. Sie versucht, sich wieder zu verbinden.";
    waits_for_you: "Waiting for you:", "Auf Sie warten:";
    nothing_waits: "Nothing waits for you.", "Nichts wartet auf Sie.";
    nothing_waits_hint: "Calls, servers and changed definitions that need you appear here by themselves.", "Aufrufe, Server und geänderte Beschreibungen, die auf Sie warten, erscheinen hier von selbst.";
    nothing_chosen: "choose at least one entry", "wählen Sie mindestens einen Eintrag";
    server_question: "A question of the server", "Eine Frage des Servers";
    possible_answers: "Possible answers", "Mögliche Antworten";
    stuck_transaction: "A transaction that could not be undone:", "Eine Transaktion, die sich nicht zurücknehmen ließ:";
    in_terminal: "Answer in a terminal:", "In einem Terminal beantworten:";
    whole_definition: "The whole definition", "Die ganze Beschreibung";
    changed_definitions: "Definitions that need a decision", "Beschreibungen, die eine Entscheidung brauchen";
    decided: "Decided within the last hour", "In der letzten Stunde entschieden";
    whole_call: "The whole call: all arguments, the rules, what the tool did before", "Der ganze Aufruf: alle Argumente, die Regeln, frühere Aufrufe";
    whole_request: "The whole request", "Die ganze Anfrage";
    registration: "A new server", "Ein neuer Server";
    permissions: "Permissions", "Rechte";
    risk: "Risk", "Risiko";
    undeclared: "By its name it only reads, but its server does not declare that, so each call waits.", "Dem Namen nach liest es nur, aber sein Server erklärt das nicht, darum wartet jeder Aufruf.";
    since: "Since", "Seit";
    until: "Until", "Bis";
    reason: "Reason", "Begründung";
    reason_or_none: "Reason; may be empty", "Begründung; darf leer sein";
    approve: "Approve once", "Einmal erlauben";
    approve_all: "Approve", "Erlauben";
    approve_permissions: "Grant to the server", "Dem Server erteilen";
    registration_holds: "An approved server runs until it is removed, e.g. by its agent or with `mgp servers rm`. No agent may use its tools before you grant access.", "Ein erlaubter Server läuft, bis er entfernt wird, z. B. von seinem Agenten oder mit `mgp servers rm`. Kein Agent darf seine Werkzeuge nutzen, ehe Sie Zugriff erlauben.";
    permissions_hold: "A grant or a denial is for all tools of the server, until it is revoked under Access.", "Erteilung und Ablehnung gelten für alle Werkzeuge des Servers, bis sie unter Zugriff zurückgenommen werden.";
    approve_hour: "For an hour", "Eine Stunde lang";
    approve_like: "Always for arguments like these", "Immer bei solchen Argumenten";
    once_means: "“Approve once” means:", "„Einmal erlauben“ heißt:";
    once_holds: "this call runs once, with exactly these arguments; if its caller no longer waits, when it makes the call again within an hour.", "dieser Aufruf läuft einmal, mit genau diesen Argumenten; wartet der Aufrufer nicht mehr, dann sobald er ihn innerhalb einer Stunde wiederholt.";
    deny_means: "“Deny” means:", "„Ablehnen“ heißt:";
    deny_holds: "this call is refused, and for an hour the same call again; its caller reads the reason.", "dieser Aufruf wird abgelehnt, eine Stunde lang auch derselbe noch einmal; der Aufrufer liest die Begründung.";
    take_back: "To take the denial back:", "Um die Ablehnung zurückzunehmen:";
    take_back_rejection: "To take the rejection back:", "Um dies zurückzunehmen:";
    hour_means: "“For an hour” means:", "„Eine Stunde lang“ heißt:";
    hour_holds: "`{agent}` may call `{tool}` with any arguments until the hour has passed, and no person is asked.", "`{agent}` darf `{tool}` eine Stunde lang mit beliebigen Argumenten aufrufen, ohne Frage an einen Menschen.";
    like_means: "“Always for arguments like these” means:", "„Immer bei solchen Argumenten“ heißt:";
    like_holds: "`{agent}` may call `{tool}` until this decision is revoked under Access, with", "`{agent}` darf `{tool}` aufrufen, bis diese Entscheidung unter Zugriff zurückgenommen wird, mit";
    never_means: "“Never for this agent” means:", "„Nie für diesen Agenten“ heißt:";
    never_holds: "every call of `{tool}` by `{agent}` is refused, those that wait too, until this decision is revoked under Access.", "jeder Aufruf von `{tool}` durch `{agent}` wird abgelehnt, auch die wartenden, bis diese Entscheidung unter Zugriff zurückgenommen wird.";
    no_access: "`{agent}` has no access to `{tool}`: no entry gives it, and the server refuses by default.", "`{agent}` hat keinen Zugriff auf `{tool}`: kein Eintrag erlaubt ihn, und als Vorgabe lehnt der Server ab.";
    access_denied: "An access entry denies `{agent}` the tool `{tool}`.", "Ein Eintrag verbietet `{agent}` das Werkzeug `{tool}`.";
    press_button: "Nothing was changed. Press a button to answer.", "Nichts wurde geändert. Drücken Sie einen Knopf, um zu antworten.";
    own_words: "How the server describes its tool:", "Der Server sagt über sein Werkzeug:";
    refused_now: "This call would be refused now, even with your approval:", "Dieser Aufruf würde jetzt abgelehnt, auch wenn Sie ihn erlauben:";
    tool_missing: "the kernel has no such tool now; its server may have changed it, or may not run.", "der Kernel hat dieses Werkzeug jetzt nicht; sein Server hat es vielleicht geändert oder läuft nicht.";
    refused_mark: "would be refused now", "würde jetzt abgelehnt";
    but_refused: "but the kernel refuses the call:", "aber der Kernel lehnt den Aufruf ab:";
    deny: "Deny", "Ablehnen";
    deny_always: "Never for this agent", "Nie für diesen Agenten";
    allowed_once: "allowed once", "einmal erlaubt";
    granted: "granted to all tools of the server until revoked", "allen Werkzeugen des Servers erteilt, bis zur Rücknahme";
    allowed_hour: "allowed for an hour", "für eine Stunde erlaubt";
    allowed_like: "allowed, and later calls with arguments like these", "erlaubt, auch spätere mit solchen Argumenten";
    denied: "denied", "abgelehnt";
    denied_permissions: "denied to all tools of the server until revoked", "allen Werkzeugen des Servers verweigert, bis zur Rücknahme";
    denied_always: "denied, and every later call", "abgelehnt, auch alle späteren";
    decided_by: "Decided by", "Entschieden von";
    several: "Answer several at once", "Mehrere zugleich beantworten";
    subject: "What", "Was";
    state: "State", "Zustand";
    by: "By", "Von";
    approve_definition: "Approve this definition", "Diese Beschreibung erlauben";
    reject: "Reject", "Ablehnen";
    definition_approved: "approved", "erlaubt";
    definition_rejected: "rejected", "abgelehnt";
    no_definition: "its definition needs no decision (any more)", "die Beschreibung braucht keine Entscheidung (mehr)";
    no_approval: "no such approval waits, or it was decided more than an hour ago", "es wartet keine solche Frage, oder sie wurde vor mehr als einer Stunde entschieden";
    no_longer_waits: "This request no longer waits: it was answered, or its time has passed.", "Diese Anfrage wartet nicht mehr: sie wurde beantwortet, oder ihre Zeit ist um.";
    arguments: "All arguments", "Alle Argumente";
    sent_script: "Sent with the request", "Mit der Anfrage gesendet";
    earlier_records: "Earlier records", "Frühere Einträge";
    bytes: "bytes of JSON", "Bytes JSON";
    none: "None.", "Nichts.";
    question: "The question", "Die Frage";
    rules: "Rules that were considered", "Geprüfte Regeln";
    rule: "Rule", "Regel";
    stage: "Rules of", "Bereich";
    result: "Result", "Ergebnis";
    earlier_calls: "What the tool did before", "Was das Werkzeug bisher tat";
    agent: "Agent", "Agent";
    server: "Server", "Server";
    tool: "Tool", "Werkzeug";
    tools: "Tools", "Werkzeuge";
    all_tools: "all tools", "alle Werkzeuge";
    event: "Event", "Ereignis";
    trace: "Trace", "Spur";
    all: "All", "Alle";
    since_example: "Since, e.g. 1h or 7d", "Seit, z. B. 1h oder 7d";
    show: "Show", "Zeigen";
    export: "Export as JSON lines", "Als JSON-Zeilen ausgeben";
    verify: "Verify the chain", "Kette prüfen";
    records_unchanged: "records, unchanged", "Einträge, unverändert";
    records_lost: "records lost before, according to the events records_lost:", "vorher verlorene Einträge laut den Ereignissen records_lost:";
    changes_lost: "changes that the state lost before, according to the events changes_lost:", "Änderungen, die der Zustand vorher verlor, laut den Ereignissen changes_lost:";
    older: "Older records", "Ältere Einträge";
    time: "Time", "Zeit";
    who: "Who", "Wer";
    role: "As", "Als";
    story: "The story of one call", "Der Weg eines Aufrufs";
    story_link: "Show the story of this call", "Den Weg dieses Aufrufs zeigen";
    steps: "Steps", "Schritte";
    records: "Records of this call", "Einträge zu diesem Aufruf";
    story_cut: "The search for records of this call ended before it had found one. Open the call from one of its lines in the record.", "Die Suche nach Einträgen zu diesem Aufruf endete, ehe sie einen fand. Öffnen Sie den Aufruf über eine seiner Zeilen im Protokoll.";
    more_records: "More records of this call:", "Weitere Einträge zu diesem Aufruf:";
    step_called: "Called", "Aufgerufen";
    step_asked: "A person was asked", "Ein Mensch wurde gefragt";
    step_answered: "Answered", "Beantwortet";
    step_permission: "Permission granted", "Recht erteilt";
    step_started: "Started", "Begonnen";
    step_ended: "Ended", "Beendet";
    step_not_run: "Did not run", "Lief nicht";
    step_waits: "Now", "Jetzt";
    operators_for: "The operators, about", "Die Betreiber, zu";
    by_word: "by", "von";
    via_page: "on the page", "auf der Seite";
    via_terminal: "in a terminal", "im Terminal";
    via_host: "in the host", "im Host";
    until_word: "until", "bis";
    after_word: "after", "nach";
    later_calls: "Later calls are allowed too,", "Auch spätere Aufrufe sind erlaubt,";
    not_in_time: "no person answered in time", "niemand antwortete rechtzeitig";
    no_answer: "No person has answered, and the question has ended.", "Niemand hat geantwortet, und die Frage ist vorbei.";
    ran_as_answered: "after the answer", "nach der Antwort";
    gave_up: "its caller gave up while it waited", "der Aufrufer gab auf, während er wartete";
    arguments_title: "Arguments", "Argumente";
    names: "Names", "Namen";
    arguments_not_kept: "The record does not keep the arguments;", "Das Protokoll bewahrt die Argumente nicht auf;";
    arguments_key: "in your configuration keeps those of later calls, secrets included.", "in der Konfiguration bewahrt die späterer Aufrufe auf, auch Geheimnisse.";
    arguments_in_inbox: "The question with all arguments", "Die Frage mit allen Argumenten";
    grant_hour: "Grant this for an hour", "Für eine Stunde erlauben";
    grant_permission_hour: "Grant this permission for an hour", "Dieses Recht für eine Stunde erteilen";
    show_rule: "Show the rule", "Die Regel zeigen";
    show_limits: "Show the limits", "Die Grenzen zeigen";
    show_definition: "Show the definition", "Die Beschreibung zeigen";
    show_validators: "Show the configuration, which sets its validator", "Die Konfiguration zeigen, die die Prüfung festlegt";
    show_question: "Show the question and its answer", "Die Frage und ihre Antwort zeigen";
    show_server: "Show the server", "Den Server zeigen";
    show_keys: "Show the keys", "Die Schlüssel zeigen";
    answer_it: "It waits for an answer: answer it", "Die Frage wartet auf eine Antwort: beantworten";
    tokens: "Tokens", "Tokens";
    restarts: "Restarts", "Neustarts";
    trust: "Trust", "Vertrauen";
    note: "Note", "Hinweis";
    clients: "Connected clients", "Verbundene Programme";
    operator: "Operator", "Betreiber";
    over: "Over", "Über";
    process: "process", "Prozess";
    definition: "Definition", "Beschreibung";
    log: "Log", "Ausgabe";
    command: "Command", "Befehl";
    source: "Source", "Quelle";
    start: "Start", "Starten";
    restart: "Restart", "Neu starten";
    drain: "Drain", "Auslaufen lassen";
    stop: "Stop", "Anhalten";
    no_servers: "There are no servers. `mgp servers add` adds one, and `mgp setup` copies those of your hosts.", "Es gibt keine Server. `mgp servers add` fügt einen hinzu, und `mgp setup` übernimmt die Ihrer Hosts.";
    no_server: "there is no such server", "es gibt keinen solchen Server";
    what_if: "What would happen to a call?", "Was geschähe mit einem Aufruf?";
    tool_example: "Tool, e.g. files.read_file", "Werkzeug, z. B. files.read_file";
    arguments_json: "Arguments as JSON", "Argumente als JSON";
    not_an_object: "the arguments are not a JSON object, e.g. {\"path\": \"/tmp\"}", "die Argumente sind kein JSON-Objekt, z. B. {\"path\": \"/tmp\"}";
    ask: "Ask", "Fragen";
    grant_or_deny: "Grant or deny access", "Zugriff erlauben oder ablehnen";
    tool_or_all: "Tool; empty for all", "Werkzeug; leer für alle";
    expires_example: "Expires, e.g. 1h; empty for never", "Endet, z. B. 1h; leer für nie";
    grant_hint: "An agent with access can see and call a tool; a call that is dangerous or needs a permission still waits for you.", "Mit Zugriff sieht ein Agent ein Werkzeug und kann es aufrufen; ein gefährlicher Aufruf oder einer, der ein Recht braucht, wartet trotzdem auf Sie.";
    grant_permission: "Grant or deny a permission of a server", "Ein Recht eines Servers erteilen oder ablehnen";
    permission_example: "Permission, e.g. network.outbound", "Recht, z. B. network.outbound";
    permission_hint: "A permission is for all calls of the server; without one, a call that needs it waits for you.", "Ein Recht gilt für alle Aufrufe des Servers; ohne es wartet ein Aufruf, der es braucht, auf Sie.";
    form_expired: "This form is from an earlier session, so nothing was changed. Check it and send it again.", "Dieses Formular war aus einer früheren Sitzung, daher wurde nichts geändert. Prüfen Sie es und senden Sie es noch einmal.";
    page_expired: "This page is from an earlier session, so nothing was changed. Go back, load the page again, and repeat what you did.", "Diese Seite ist aus einer früheren Sitzung, daher wurde nichts geändert. Gehen Sie zurück, laden Sie die Seite neu, und wiederholen Sie die Eingabe.";
    no_write: "your key does not permit changes (`admin.write`)", "Ihr Schlüssel erlaubt keine Änderungen (`admin.write`)";
    choose_answer: "choose whether to grant or to deny", "wählen Sie, ob erlaubt oder abgelehnt wird";
    needed: "this is needed", "das wird gebraucht";
    no_end: "no end", "ohne Ende";
    limits: "Limits of calls", "Grenzen der Aufrufe";
    no_limits: "There are no limits on concurrent calls or calls per minute.", "Es gibt keine Grenzen für gleichzeitige Aufrufe oder Aufrufe je Minute.";
    limit: "Limit", "Grenze";
    per_minute: "calls in a minute", "Aufrufe je Minute";
    at_once: "calls at once", "Aufrufe zugleich";
    argument_bytes: "bytes of arguments", "Bytes an Argumenten";
    every_agent: "every agent", "jeder Agent";
    grant: "Grant", "Erlauben";
    matrix: "Who may use what", "Wer darf was";
    by_default: "by default", "als Vorgabe";
    entry_of: "entry of", "Eintrag von";
    revoke: "Revoke", "Zurücknehmen";
    revoked: "revoked", "zurückgenommen";
    allow_word: "allow", "erlaubt";
    deny_word: "deny", "abgelehnt";
    left_over: "These servers do not exist; a later server with the same name would have this access:", "Diese Server gibt es nicht; ein späterer dieses Namens hätte diesen Zugriff:";
    decisions: "Decisions that hold for later calls", "Entscheidungen, die weiter gelten";
    keys: "Keys of agents and operators", "Schlüssel der Agenten und Betreiber";
    no_keys: "There are no keys; `mgp keys add AGENT` creates one.", "Es gibt keine Schlüssel; `mgp keys add AGENT` erzeugt einen.";
    more_keys: "and {count} more; see `mgp keys ls`", "und {count} weitere; siehe `mgp keys ls`";
    more_limits: "and {count} more; see the configuration", "und {count} weitere; siehe die Konfiguration";
    kind: "Kind", "Art";
    quotas: "Quotas and their use", "Kontingente und Verbrauch";
    no_quotas: "There are no quotas; `[limits]` in your configuration sets them.", "Es gibt keine Kontingente; `[limits]` in der Konfiguration setzt sie.";
    quota: "Quota", "Kontingent";
    spent: "Spent", "Verbraucht";
    share: "Share", "Anteil";
    calls: "calls", "Aufrufe";
    units: "units", "Einheiten";
    this_hour: "this hour", "in dieser Stunde";
    today: "today", "heute";
    saved_by_day: "Tokens saved on each day (UTC), for", "Gesparte Tokens je Tag (UTC), für";
    list: "list", "Liste";
    lists: "lists", "Listen";
    unknown_agent: "No agent with the name `{agent}` is known, and it has access to no server.", "Ein Agent namens `{agent}` ist nicht bekannt, und er hat auf keinen Server Zugriff.";
    no_server_for: "`{agent}` has access to no server.", "`{agent}` hat auf keinen Server Zugriff.";
    new_agent: "This is a new agent", "Das ist ein neuer Agent";
    tick_new_agent: "If it is a new one, tick “This is a new agent”.", "Ist er neu, kreuzen Sie „Das ist ein neuer Agent“ an.";
    fill_grant: "Fill in the form that grants this", "Das Formular ausfüllen, das dies erlaubt";
    unmet: "Searched for without success by", "Erfolglos gesucht von";
    no_unmet: "Nothing is recorded. Searches are recorded only while your configuration has `learning = true` under `[kernel.search]`.", "Nichts ist vermerkt. Suchen werden nur vermerkt, solange die Konfiguration unter `[kernel.search]` `learning = true` hat.";
    query: "Query", "Suche";
    found_nothing: "Found nothing", "Nichts gefunden";
    not_called: "Found tools, called none", "Werkzeuge gefunden, keines genutzt";
    saved_by_agent: "Context saved, by agent", "Gesparter Kontext, nach Agent";
    permission: "Permission", "Recht";
    wish: "What should the tool do?", "Was soll das Werkzeug tun?";
    score: "Score", "Wert";
    left_out: "The context budget of this agent leaves out {count} found tools.", "Das Kontextbudget dieses Agenten lässt {count} gefundene Werkzeuge weg.";
    nothing_found: "No tool that this agent may use fits.", "Kein Werkzeug, das dieser Agent nutzen darf, passt.";
    context: "Tokens of the tool list of", "Tokens der Werkzeugliste von";
    listed: "Listed at the start", "Zu Beginn gezeigt";
    saved: "saved by search", "durch die Suche gespart";
    sessions: "Tools in context", "Werkzeuge im Kontext";
    pinned: "Pinned", "Angeheftet";
    cached: "Found", "Gefunden";
    reload: "Apply the files now", "Dateien jetzt anwenden";
    nothing_changed: "nothing has changed", "nichts hat sich geändert";
    has_errors: "the files have errors, which are listed here", "die Dateien haben Fehler, die hier stehen";
    no_findings: "The configuration has no faults.", "Die Konfiguration hat keine Fehler.";
    masked: "Comments are left out, and values that can be secrets are shown as “…”.", "Kommentare fehlen, und Werte, die geheim sein können, stehen hier als „…“.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_known_language_of_the_browser_is_used() {
        for (wanted, language) in [
            ("", "en"),
            ("de-AT,de;q=0.9", "de"),
            ("fr,de;q=0.5", "de"),
            ("en-US,de", "en"),
            ("xx", "en"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_LANGUAGE, wanted.parse().unwrap());
            assert_eq!(of(&headers).language, language, "{wanted}");
        }
    }
}
