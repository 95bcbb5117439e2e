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
  // a double click, and a click within 0.6 s after such buttons have changed or the window has come to the front.
  let settled = 0;
  const settle = () => { settled = performance.now() + 600; };
  window.addEventListener("focus", settle);
  content.addEventListener("click", (event) => {
    const isLate = event.detail > 1 || event.timeStamp < settled;
    if (isLate && event.target.closest("form[method=post] button")) event.preventDefault();
  }, true);
  // Returns the forms that change something, with what is around them, and their places.
  const forms = () => JSON.stringify([...content.querySelectorAll("form[method=post]")].map((form) =>
    [form.parentElement.innerHTML, form.getBoundingClientRect()]));
  const isInUse = () => {
    const at = document.activeElement;
    const writes = at && content.contains(at) && /^(INPUT|SELECT|TEXTAREA|BUTTON)$/.test(at.tagName);
    const chosen = content.querySelector("input:checked, details[open], [aria-invalid], [data-keep]");
    const initial = (select) => Math.max(0, [...select.options].findIndex((option) => option.defaultSelected));
    const written = [...content.querySelectorAll("input, select")].some((field) =>
      field.options ? field.selectedIndex !== initial(field) : field.value !== field.defaultValue);
    // A click on a link that is replaced before the button of the mouse is released has no effect.
    const aims = content.querySelector("button:hover, :active");
    return writes || written || chosen || aims || String(window.getSelection()).length > 0;
  };
  // Returns a function that restores in new content which part has the focus, and how far each part is scrolled. A part
  // scrolled to its end, e.g. a log, stays there. Without this, the keyboard would begin again at the top of the page.
  const remember = () => {
    const parts = () => [...content.querySelectorAll("a[href], summary, [tabindex]")];
    const nameOf = (part) =>
      part.id || part.getAttribute("aria-label") || part.getAttribute("href") || part.textContent;
    const named = (name) => parts().filter((part) => nameOf(part) === name);
    const isKept = (part) => part === document.activeElement || part.scrollTop > 0 || part.scrollLeft > 0;
    const kept = parts().filter(isKept).map((part) => {
      const { scrollTop: top, scrollLeft: left } = part, name = nameOf(part), all = named(name);
      const isAtEnd = top > 0 && part.scrollHeight - part.clientHeight - top < 2;
      // Of several parts with a name, count from the last one, because new records are added before the others.
      const number = all.indexOf(part) - all.length;
      return { name, number, top, left, isAtEnd, hasFocus: part === document.activeElement };
    });
    return () => {
      for (const { name, number, top, left, isAtEnd, hasFocus } of kept) {
        const part = named(name).at(number);
        if (!part) continue;
        if (hasFocus) part.focus({ preventScroll: true });
        part.scrollTo({ left, top: isAtEnd ? part.scrollHeight : top, behavior: "instant" });
      }
    };
  };
  // Returns the item with the same id, or the only link with the same address.
  const sameIn = (root, item) => {
    if (item.id) return root.querySelector(`#${CSS.escape(item.id)}`);
    const links = root.querySelectorAll(`a[href="${CSS.escape(item.getAttribute("href"))}"]`);
    return links.length === 1 ? links[0] : null;
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
          const restore = remember(), before = forms();
          // In a page that was scrolled, the first visible item that remains keeps its place.
          const topOf = (item) => item.getBoundingClientRect().top;
          const remains = (item) => topOf(item) >= 0 && sameIn(fresh, item) && sameIn(content, item);
          const kept = window.scrollY > 0 && [...content.querySelectorAll("[id], a[href]")].find(remains);
          const top = kept && topOf(kept);
          content.replaceChildren(...fresh.childNodes);
          if (kept) window.scrollBy(0, topOf(sameIn(content, kept)) - top);
          restore();
          // The buttons of a server do not change or move with each new line of its log.
          if (forms() !== before) settle();
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
