// Keeps the dashboard true while it is looked at: times tick, what changes is shown, buttons act
// without leaving the page. Every page works without it. Nothing that comes over the wire is ever
// taken for markup, but for the hub's own fragments, which it has escaped.
"use strict";
(() => {
  const body = document.body;
  const part = (name, root = document) => root.querySelector(`[data-part="${name}"]`);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const make = (tag, text = "", kind = "") => {
    const node = document.createElement(tag);
    node.textContent = text;
    if (kind) node.className = kind;
    return node;
  };
  const write = (node, text) => {
    if (node && node.textContent !== text) node.textContent = text;
  };

  // Times, in the words of render/dashboard_words.py, by the hub's clock.
  const ahead = Date.parse(body.dataset.now) - Date.now();
  const pair = (n, unit, word, rest, smaller) => {
    const less = Math.floor(n % unit / rest);
    return `${Math.floor(n / unit)} ${word}${less ? ` ${less} ${smaller}` : ""}`;
  };
  const lasting = (seconds) => {
    const n = Math.max(0, Math.floor(seconds));
    if (n < 60) return `${n} s`;
    if (n < 3600) return `${Math.floor(n / 60)} min`;
    return n < 86400 ? pair(n, 3600, "h", 60, "min") : pair(n, 86400, "d", 3600, "h");
  };
  const WORDS = {
    since: (n) => (n < 10 ? "just now" : `${lasting(n)} ago`),
    span: lasting,
    until: (n) => (n < 0 ? `in ${lasting(-n)}` : "any moment now"),
    left: (n) => lasting(-n),
  };
  const tick = () => {
    const now = Date.now() + ahead;
    for (const node of all("time[data-tick]")) {
      write(node, WORDS[node.dataset.tick]((now - Date.parse(node.dateTime)) / 1000));
    }
  };
  setInterval(() => { if (!document.hidden) tick(); }, 1000);

  // Messages, told once and read out.
  const toast = (text, hint = "", bad = false) => {
    const node = make("div", "", `toast${bad ? " bad" : ""}`), words = make("div");
    words.append(make("p", text));
    if (hint) words.append(make("p", hint));
    const close = make("button", "Close", "quiet");
    close.type = "button";
    close.onclick = () => node.remove();
    node.append(words, close);
    part("toasts").append(node);
    setTimeout(() => node.remove(), bad ? 20000 : 6000);
  };
  const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

  // Parts of pages, asked for anew. Focus and what was opened stay.
  const get = async (url) => {
    const answer = await fetch(url, { headers: { Accept: "text/html" }, redirect: "manual" });
    if (answer.status === 404) return null;
    if (!answer.ok) throw answer.status;
    return new DOMParser().parseFromString(await answer.text(), "text/html");
  };
  const keyOf = (node) => node.dataset.key || node.getAttribute("href");
  const exchange = (old, fresh) => {
    const held = old.contains(document.activeElement) && keyOf(document.activeElement);
    const open = all("details[open] > [data-key]", old).map((node) => node.dataset.key);
    const scrolled = all("[data-keep]", old).map((node) => node.scrollTop);
    const node = document.importNode(fresh, true);
    old.replaceWith(node);
    const find = (key) => all("[data-key], a", node).find((each) => keyOf(each) === key);
    for (const key of open) if (find(key)) find(key).parentElement.open = true;
    all("[data-keep]", node).forEach((each, at) => { each.scrollTop = scrolled[at] || 0; });
    if (held) (find(held) || node.querySelector("a, button"))?.focus({ preventScroll: true });
    tick();
    return node;
  };
  // One question at a time for each thing; what is asked for meanwhile is asked once more after it.
  // So is what got no answer. Where that gets none either, the page is old, and must not seem live.
  const asked = new Map(), LATER = 1500;
  const once = (key, work, wait = 0, tried = false) => {
    if (asked.has(key)) { asked.set(key, true); return; }
    asked.set(key, false);
    setTimeout(async () => {
      const done = await work().then(() => true, () => false), more = asked.get(key);
      asked.delete(key);
      if (!done && tried) afresh();
      else if (!done) once(key, work, LATER, true);
      else if (more) once(key, work, wait);
    }, wait);
  };
  // Times are kept true by their ticking: that they moved on is no reason to touch anything.
  const still = (node) => node.outerHTML.replace(/(<time[^>]*>)[^<]*/g, "$1");
  let rested = 0;
  const renew = async () => {
    const began = Date.now();
    const fresh = await get((body.dataset.parts || location.pathname) + location.search);
    if (!fresh) { location.assign("/"); return; }
    for (const old of all("[data-swap]")) {
      const node = fresh.querySelector(`[data-swap="${old.dataset.swap}"]`);
      if (node && still(node) !== still(old)) exchange(old, node);
    }
    rested = Date.now() + 10 * (Date.now() - began);
  };
  const swap = () => once("parts", () => renew().then(() => seen(200), (status) => {
    seen(status);
    if (streams) throw status;
  }), 200);

  // The list
  const list = part("list"), seek = part("seek");
  const rows = () => all("tr[data-row]");
  const rowOf = (id) => document.querySelector(`tr[data-id="${CSS.escape(id)}"]`);
  const narrow = () => {
    if (!list || !seek) return;
    const wanted = seek.q.value.trim().toLowerCase();
    let left = 0;
    for (const row of rows()) {
      row.hidden = !row.dataset.text.includes(wanted);
      left += !row.hidden;
    }
    part("nothing").hidden = left > 0;
  };
  const freshen = (name, id) => once(`row ${name}`, async () => {
    const fresh = await get(`/workspaces/${encodeURIComponent(name)}/card`);
    const node = fresh && fresh.querySelector("tr[data-row]"), row = rowOf(id);
    if (!node) row?.remove();
    else if (row) exchange(row, node).classList.add("changed");
    else {
      const after = rows().find((each) => each.dataset.row > name);
      const added = document.importNode(node, true);
      added.classList.add("changed");
      if (after) after.before(added); else list.tBodies[0].append(added);
    }
    narrow();
    swap();
  });
  const stale = (node, { version, lastAccessAt }) => node.dataset.version !== version
    || node.dataset.seen !== String(Date.parse(lastAccessAt) || 0);
  // The stream of a list brings what belongs in it, and nothing else.
  const update = (shape) => {
    const row = rowOf(shape.id);
    if (!list) { location.reload(); return; }
    if (!row || stale(row, shape)) { freshen(shape.name, shape.id); return; }
    const bar = part("bar", row), progress = shape.progress;
    if (!bar || !progress) return;
    if (progress.part === null) bar.removeAttribute("value");
    else bar.value = Math.floor(progress.part * 100);
    write(part("progress", row), progress.words);
  };

  // What happens elsewhere. One stream while somebody looks: browsers have few connections to give.
  const mine = part("one")?.dataset.id;
  let events = null, tries = 0, known = null, over = false;
  const live = (text, kind) => {
    const node = part("live");
    node.hidden = !text;
    node.className = `live ${kind}`;
    write(node, text);
  };
  // A page without a stream is as live as its last look.
  const every = 1000 * (body.dataset.look || 0), streams = body.dataset.events && window.EventSource;
  const seen = (status) => {
    if (!every || streams) return;
    if (status === 401) clearInterval(looking);
    live({ 200: "Live", 401: "Logged out" }[status] || "Reconnecting…", status === 200 ? "" : "lost");
  };
  const concern = (shape) => {
    if (known) known.add(shape.id);
    if (!mine) update(shape);
    else if (shape.id === mine && (shape.progress || stale(part("one"), shape))) swap();
  };
  const removed = (id) => {
    if (id === mine) { location.assign("/"); return; }
    rowOf(id)?.remove();
    narrow();
    swap();
  };
  const HEARD = {
    snapshot: ({ items, first, last }) => {
      if (first !== false) known = new Set();
      items.forEach(concern);
      if (last === false || !known) return;
      // What was here and is in no part of it went while nobody listened.
      const shown = mine ? [mine] : rows().map((row) => row.dataset.id);
      shown.filter((id) => !known.has(id)).forEach(removed);
      known = null;
    },
    workspace_updated: concern,
    workspace_deleted: ({ id }) => removed(id),
    workspace_expiring: ({ name, nextMove }) => {
      if (nextMove) toast(`${name} ${nextMove.to === "ARCHIVED" ? "is archived" : "falls asleep"} soon`,
        "Work in it, or say “Still working” on its page, to keep it.");
    },
    // Whoever may come again is told so.
    bye: ({ reason }) => {
      over = !reason.endsWith("connect again");
      if (!over) return;
      events.close();
      clearInterval(looking);
      live("Logged out", "lost");
    },
  };
  const again = async () => {
    events = null;
    const was = tries > 0 || !part("live").hidden;
    if (was) live("Reconnecting…", "lost");
    const answer = await fetch("/api/v1/me").catch(() => null);
    if (answer && answer.status === 401) { live("Logged out", "lost"); return; }
    tries += 1;
    setTimeout(() => { if (!events && !document.hidden) follow(); },
      Math.min(30000, 1000 * 2 ** tries) * (0.75 + Math.random() / 2));
  };
  const follow = () => {
    if (!streams || events || over) return;
    events = new EventSource(body.dataset.events);
    events.onopen = () => { tries = 0; live("Live", ""); };
    events.onerror = () => {
      if (events.readyState === EventSource.CLOSED) again();
      else live("Reconnecting…", "lost");
    };
    for (const kind of Object.keys(HEARD)) {
      events.addEventListener(kind, (event) => HEARD[kind](JSON.parse(event.data)));
    }
  };
  // A new stream begins with how everything is: what is old here is asked for again.
  const afresh = () => {
    if (!events || over) return;
    events.close();
    again();
  };
  document.addEventListener("visibilitychange", () => {
    if (over) return;
    if (document.hidden) { events?.close(); events = null; return; }
    tick();
    follow();
    if (every) swap();
  });
  addEventListener("pagehide", () => events?.close());
  // What no event tells of, such as logins or a load that failed. A slow hub is asked less often.
  const look = () => { if (!document.hidden && Date.now() > rested) swap(); };
  const looking = every && setInterval(look, every);

  // Buttons: their forms, sent without leaving the page.
  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!form.dataset.deed) return;
    event.preventDefault();
    const button = form.querySelector("button"), row = form.closest("tr[data-row]");
    form.elements.next.value = location.pathname + location.search;
    button.disabled = true;
    // Its property `action` is the field of that name.
    const answer = await fetch(form.getAttribute("action"), {
      method: "POST",
      headers: { Accept: "application/json" },
      body: new URLSearchParams(new FormData(form)),
    }).catch(() => null);
    button.disabled = false;
    if (!answer) { toast("The hub gives no answer.", "Try again in a moment.", true); return; }
    if (answer.status === 401) { location.reload(); return; }
    const said = await answer.json().catch(() => ({ detail: "That did not work." }));
    if (said.limit) { // the page for it has the buttons that make room
      if (!form.isConnected) body.append(form);
      form.submit();
      return;
    }
    // What the rules refuse is a sentence already: it may begin with a name.
    if (said.detail) toast(answer.ok ? said.detail : capital(said.detail), capital(said.hint || ""), true);
    else form.closest("details")?.removeAttribute("open");
    if (row) freshen(row.dataset.row, row.dataset.id); else swap();
  });

  // An address with a message in it is not to be kept or sent on.
  const here = new URL(location.href);
  const drop = (...fields) => fields.forEach((each) => here.searchParams.delete(each));
  if (here.searchParams.has("did")) {
    drop("did", "to");
    history.replaceState(null, "", here);
  }
  const type = (text) => {
    seek.q.value = text;
    seek.q.dispatchEvent(new Event("input"));
  };
  if (seek) {
    const box = seek.q, sought = box.defaultValue.toLowerCase(), paged = seek.hasAttribute("data-paged");
    let later;
    box.addEventListener("input", () => {
      narrow();
      clearTimeout(later);
      const text = box.value.trim(), wanted = text.toLowerCase();
      // What is here was narrowed by more than that, or is a page of it: the hub has the rest.
      if (wanted !== sought && (paged || !wanted.includes(sought))) later = setTimeout(() => {
        drop("q", "after");
        if (text) here.searchParams.set("q", text);
        location.assign(here);
      }, text && 600);
    });
    seek.owner?.addEventListener("change", () => seek.requestSubmit());
    // Whoever types goes on in the list that comes.
    addEventListener("pagehide", () => {
      if (document.activeElement === box) sessionStorage.typed = box.value;
    });
    if (sessionStorage.typed !== undefined) {
      box.focus();
      type(sessionStorage.typed);
      box.setSelectionRange(999, 999);
    }
  }
  addEventListener("pageshow", () => delete sessionStorage.typed);
  document.addEventListener("click", (event) => {
    for (const open of all("details.confirm[open]")) if (!open.contains(event.target)) open.open = false;
    const copied = event.target.closest("[data-copy]");
    if (copied) navigator.clipboard?.writeText(part("secret").textContent).then(() => write(copied, "Copied"));
  });

  // Keys
  const help = part("help");
  part("keys").hidden = false;
  part("keys").onclick = () => help.showModal();
  const step = (by) => {
    const names = all("tr[data-row]:not([hidden]) .name");
    const at = names.indexOf(document.activeElement?.closest("tr")?.querySelector(".name"));
    const next = names[at < 0 ? (by > 0 ? 0 : names.length - 1) : Math.min(Math.max(at + by, 0), names.length - 1)];
    next?.focus();
    next?.closest("tr").scrollIntoView({ block: "nearest" });
  };
  const KEYS = {
    "/": () => { seek?.q.focus(); seek?.q.select(); },
    j: () => step(1), ArrowDown: () => step(1), k: () => step(-1), ArrowUp: () => step(-1),
    o: () => {
      const url = (document.activeElement?.closest("tr") || part("one"))?.dataset.url;
      if (url) location.assign(url);
    },
    g: () => location.assign("/"),
    "?": () => help.showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const field = event.target.closest("input, select, textarea");
    if (event.key === "Escape") {
      for (const open of all("details.confirm[open]")) {
        open.open = false;
        open.querySelector("summary").focus();
      }
      if (field && field === seek?.q) { type(""); field.blur(); }
      return;
    }
    const arrow = event.key.startsWith("Arrow");
    if (help.open || (field && !(arrow && field === seek?.q))) return;
    if (arrow && (!list || event.target.closest("select, pre"))) return;
    const act = Object.hasOwn(KEYS, event.key) && KEYS[event.key];
    if (act) { event.preventDefault(); act(); }
  });

  // Logs
  const log = part("log");
  if (log?.dataset.follow) {
    // Colours and the like are for terminals; what has only begun waits for its end.
    const CODES = /\x1b(\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\^_])|\r(?=\n)/g;
    const MOST = 400000, state = part("log-state"), pause = part("pause"), wrap = part("wrap");
    let stopped = false, waiting = "";
    const show = () => {
      if (stopped || !waiting) return;
      const low = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
      const begun = waiting.search(/\x1b[^a-zA-Z]{0,60}$/);
      const ready = begun < 0 ? waiting : waiting.slice(0, begun);
      log.append(ready.replace(CODES, ""));
      waiting = waiting.slice(ready.length);
      while (log.textContent.length > MOST && log.childNodes.length > 1) log.firstChild.remove();
      if (low) log.scrollTop = log.scrollHeight;
    };
    log.scrollTop = log.scrollHeight;
    for (const node of [pause, wrap]) node.hidden = false;
    pause.onclick = () => {
      stopped = !stopped;
      pause.setAttribute("aria-pressed", stopped);
      write(pause, stopped ? "Go on" : "Pause");
      show();
    };
    wrap.onclick = () => wrap.setAttribute("aria-pressed", log.classList.toggle("wrapped"));
    const read = async () => {
      const answer = await fetch(log.dataset.follow, { headers: { Accept: "text/plain" } });
      if (!answer.ok || !answer.body) { write(state, "not followed: load the page again for more"); return; }
      write(state, "following");
      log.textContent = "";
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
        waiting = (waiting + piece.value).slice(-MOST);
        show();
      }
      write(state, "it has ended");
    };
    read().catch(() => write(state, "the connection was lost: load the page again"));
  }

  tick();
  follow();
  seen(200);
})();
