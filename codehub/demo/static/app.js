"use strict";

// Addresses are relative to the page, so it works below any prefix.
const at = (path) => new URL(path, document.baseURI);
const part = (id) => document.getElementById(id);
const say = (element, text, state = "") => {
  element.textContent = text;
  element.dataset.state = state;
};

// ---- Notes -------------------------------------------------------------------------------------

const notes = part("notes");
const saveButton = part("save");
const saved = part("saved");
const conflict = part("conflict");
let version = null;
let clean = "";
let timer = 0;
let busy = false;

async function loadNotes() {
  try {
    const response = await fetch(at("api/notes"), { cache: "no-store" });
    if (!response.ok) throw new Error((await response.text()).trim());
    clean = await response.text();
    version = response.headers.get("ETag");
    notes.value = clean;
    notes.disabled = false;
    conflict.hidden = true;
    say(saved, "Saved", "good");
  } catch (error) {
    say(saved, `Not loaded: ${error.message}`, "bad");
  }
}

async function saveNotes() {
  clearTimeout(timer);
  if (busy || notes.disabled || notes.value === clean) return;
  busy = true;
  const text = notes.value;
  say(saved, "Saving…");
  try {
    const headers = version ? { "If-Match": version } : {};
    const response = await fetch(at("api/notes"), { method: "PUT", body: text, headers });
    if (response.status === 412) {
      conflict.hidden = false;
      say(saved, "Not saved", "bad");
      return;
    }
    if (!response.ok) throw new Error((await response.text()).trim());
    version = response.headers.get("ETag");
    clean = text;
    if (notes.value === clean) say(saved, "Saved", "good");
    else timer = setTimeout(saveNotes, 800);
  } catch (error) {
    say(saved, `Not saved: ${error.message}`, "bad");
  } finally {
    busy = false;
    saveButton.disabled = notes.value === clean;
  }
}

notes.addEventListener("input", () => {
  saveButton.disabled = notes.value === clean;
  say(saved, "Not saved yet");
  clearTimeout(timer);
  if (conflict.hidden) timer = setTimeout(saveNotes, 800);
});
saveButton.addEventListener("click", saveNotes);
document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === "s") {
    event.preventDefault();
    saveNotes();
  }
});
part("theirs").addEventListener("click", loadNotes);
part("mine").addEventListener("click", () => {
  version = null;
  conflict.hidden = true;
  saveNotes();
});
addEventListener("beforeunload", (event) => {
  if (!notes.disabled && notes.value !== clean) event.preventDefault();
});

// ---- Terminal ----------------------------------------------------------------------------------

const screen_ = part("screen");
const line = part("line");
const link = part("link");
const history_ = [];
let place = 0;
let socket = null;
let pause = 500;

function print(text, kind = "") {
  const row = document.createElement("div");
  row.className = kind;
  row.textContent = text;
  screen_.append(row);
  while (screen_.childElementCount > 500) screen_.firstElementChild.remove();
  screen_.scrollTop = screen_.scrollHeight;
}

function connect() {
  const address = at("terminal");
  address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
  socket = new WebSocket(address);
  socket.addEventListener("open", () => {
    pause = 500;
    say(link, "Connected", "good");
  });
  socket.addEventListener("message", (event) => print(event.data));
  socket.addEventListener("close", () => {
    say(link, "Not connected", "bad");
    setTimeout(connect, pause);
    pause = Math.min(pause * 2, 15000);
  });
}

part("prompt").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = line.value;
  if (!text.trim() || socket.readyState !== WebSocket.OPEN) return;
  print(text, "typed");
  socket.send(text);
  history_.push(text);
  place = history_.length;
  line.value = "";
});
line.addEventListener("keydown", (event) => {
  const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (!step) return;
  event.preventDefault();
  place = Math.max(0, Math.min(history_.length, place + step));
  line.value = history_[place] ?? "";
});

// ---- Facts -------------------------------------------------------------------------------------

async function loadFacts() {
  const response = await fetch(at("api/info"));
  if (!response.ok) return;
  const info = await response.json();
  const since = new Date(info.startedAt);
  document.title = info.workspace;
  part("name").textContent = info.workspace;
  part("facts").textContent = `Awake since ${since.toLocaleTimeString()} · home ${info.home}`;
}

loadNotes();
loadFacts();
connect();
