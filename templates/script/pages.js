// Follows a workspace while its page waits, and goes on to it as soon as it answers.
// Without this script the page asks again by itself every few seconds.
"use strict";
(() => {
  const main = document.querySelector("main[data-follow]");
  if (!main || !window.EventSource) return;
  const SILENCE = 25000, AGAIN = 3000, LEAST = 700;
  const to = main.dataset.to || location.href;
  const part = (name) => main.querySelector(`[data-part="${name}"]`);
  let events = null, watch = 0, done = false;

  const leave = () => {
    if (done) return;
    done = true;
    if (events) events.close();
    setTimeout(() => location.replace(to), Math.max(0, LEAST - performance.now()));
  };
  const later = () => setTimeout(leave, AGAIN + Math.random() * AGAIN);
  const heard = () => {
    clearTimeout(watch);
    watch = setTimeout(leave, SILENCE);
  };
  const write = (node, text) => {
    if (node && node.textContent !== text) node.textContent = text;
  };
  const show = (state) => {
    write(part("title"), state.title);
    write(part("message"), state.message);
    write(part("details"), state.details.join(" · "));
    document.title = state.title;
    const known = state.percent !== null;
    const bar = part("bar"), percent = part("percent");
    bar.hidden = percent.hidden = !known;
    if (known) {
      bar.value = state.percent;
      write(percent, `${state.percent}%`);
      // Read out in steps: every single percent would be a flood.
      write(part("heard"), `${state.title}: ${state.percent - state.percent % 10}%`);
    }
  };

  heard();
  events = new EventSource(main.dataset.follow);
  events.addEventListener("state", (event) => { heard(); show(JSON.parse(event.data)); });
  events.addEventListener("beat", heard);
  events.addEventListener("ready", leave);
  events.addEventListener("turn", leave);
  events.onerror = () => { if (events.readyState === EventSource.CLOSED) later(); };
})();
