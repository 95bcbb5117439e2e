// Keeps a page up to date: the server announces a change, and the page fetches its own content again.
"use strict";
(() => {
  // Enter in a field gives no answer: the first button of the form is disabled. Show that at the field.
  document.addEventListener("keydown", (event) => {
    const field = event.target, form = field.form;
    const guard = form && form.querySelector("button.hidden");
    if (event.key !== "Enter" || field.tagName !== "INPUT" || !guard) return;
    event.preventDefault();
    form.noValidate = true;
    field.setCustomValidity(guard.textContent);
    field.reportValidity();
  });
  document.addEventListener("input", (event) => event.target.setCustomValidity?.(""));
  // Shows the times, which the server writes in UTC, in the time zone of the browser.
  const zones = new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" });
  const zoneOf = (at) => zones.formatToParts(at).find((part) => part.type === "timeZoneName").value;
  const showLocal = (root) => {
    for (const time of root.querySelectorAll("time")) {
      const at = new Date(time.dateTime), offset = at.getTimezoneOffset();
      if (!offset) continue;
      const local = new Date(at - offset * 60000).toISOString().slice(0, 19).replace("T", " ");
      time.title = time.textContent;
      time.textContent = `${local} ${zoneOf(at)}`;
    }
  };
  showLocal(document);
  const main = document.getElementById("main");
  const content = document.getElementById("content");
  const lost = document.getElementById("lost");
  if (!main || !content || !lost || !window.EventSource) return;
  // A button that changes something ignores a click that was aimed at what was at its place before: the second click of
  // a double click, and a click within 0.6 s after the content has changed or the window has come to the front.
  let settled = 0;
  const settle = () => { settled = performance.now() + 600; };
  window.addEventListener("focus", settle);
  content.addEventListener("click", (event) => {
    const isLate = event.detail > 1 || event.timeStamp < settled;
    if (isLate && event.target.closest("form[method=post] button")) event.preventDefault();
  }, true);
  const isInUse = () => {
    const at = document.activeElement;
    const writes = at && content.contains(at) && /^(INPUT|SELECT|TEXTAREA|BUTTON)$/.test(at.tagName);
    const chosen = content.querySelector("input:checked, details[open], [aria-invalid], [data-keep]");
    const written = [...content.querySelectorAll("input")].some((input) => input.value !== input.defaultValue);
    const aims = content.querySelector("button:hover");
    return writes || written || chosen || aims || String(window.getSelection()).length > 0;
  };
  let late = false, asked = false;
  const refresh = async () => {
    if (isInUse() || document.hidden) {
      late = true;
      // The content stays, but the page connects again. The timer allows one attempt in a second.
      reconnect();
      return;
    }
    if (asked) { late = true; return; }
    asked = true; late = false;
    try {
      const signal = AbortSignal.timeout(10000);
      const answer = await fetch(location.href, { headers: { accept: "text/html" }, signal });
      // The session has ended. The page that the browser gets now offers a login.
      if (answer.status === 401) { location.reload(); return; }
      reconnect();
      // The page of a decided registration no longer exists; its buttons must not stay.
      if (answer.ok || answer.status === 404) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const fresh = page.getElementById("content");
        if (fresh) showLocal(fresh);
        if (fresh && fresh.innerHTML !== content.innerHTML && !isInUse()) {
          const id = document.activeElement && document.activeElement.id;
          // In a page that was scrolled, the first visible item that remains keeps its place.
          const topOf = (item) => item.getBoundingClientRect().top;
          const remains = (item) => topOf(item) >= 0 && fresh.querySelector(`#${CSS.escape(item.id)}`);
          const kept = window.scrollY > 0 && [...content.querySelectorAll("[id]")].find(remains);
          const top = kept && topOf(kept);
          content.replaceChildren(...fresh.childNodes);
          settle();
          if (kept) window.scrollBy(0, topOf(document.getElementById(kept.id)) - top);
          if (id) document.getElementById(id)?.focus({ preventScroll: true });
        }
      }
    } catch { late = true; } finally { asked = false; }
  };
  setInterval(() => { if (late) refresh(); }, 1000);
  // Only pages with such a part ask for events of the kernel.
  const showsEvents = content.querySelector("[data-live]") !== null;
  let source = null;
  const connect = () => {
    const own = new EventSource(main.dataset.events + (showsEvents ? "?changes=1" : ""));
    source = own;
    own.addEventListener("open", () => { lost.hidden = true; });
    own.addEventListener("error", () => {
      if (own !== source) return;
      lost.hidden = false;
      // After a refusal the browser does not connect again, so the page asks for the reason.
      if (own.readyState === EventSource.CLOSED) late = true;
    });
    own.addEventListener("waiting", (event) => {
      const mark = document.getElementById("waiting"), news = document.getElementById("news");
      const title = document.title.replace(/^\(\d+\) /, "");
      const count = event.data === "0" ? "" : event.data;
      // A screen reader announces the changed count, as the items appear without a message.
      if (news && mark && mark.textContent !== count) news.textContent = count && `${news.dataset.text} ${count}`;
      if (mark) mark.textContent = count;
      document.title = event.data === "0" ? title : `(${event.data}) ${title}`;
      refresh();
    });
    own.addEventListener("change", refresh);
  };
  // A hidden page has no source.
  const reconnect = () => { if (source && source.readyState === EventSource.CLOSED) connect(); };
  // A browser opens only a few connections to a host, so a hidden page gives up its own; the count in its title is old
  // until the page is shown again.
  document.addEventListener("visibilitychange", () => {
    if (source) source.close();
    source = null;
    if (document.hidden) return;
    connect();
    refresh();
  });
  if (!document.hidden) connect();
})();
