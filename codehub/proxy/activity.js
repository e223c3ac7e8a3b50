// Tells the hub that this page is open, and that its person typed, clicked, scrolled or pasted.
// What they typed is none of its business: it counts that there was input, and nothing else.
(function () {
  "use strict";
  var me = document.currentScript;
  var name = me && me.getAttribute("data-codehub");
  if (!name || !navigator.sendBeacon) return;
  var address = "/_codehub/alive?w=" + encodeURIComponent(name) +
    "&p=" + me.getAttribute("data-page");
  var quiet = 1000 * (me.getAttribute("data-every") || 20), told = -Infinity, waiting = null;

  function alive() { navigator.sendBeacon(address); }

  function tellInput() {
    waiting = null;
    told = performance.now();
    navigator.sendBeacon(address + "&input=1");
  }

  function input(event) {
    if (!event.isTrusted || document.visibilityState !== "visible" || waiting) return;
    // Not the time of day: a clock that is set back would have it wait for hours.
    var left = told + quiet - performance.now();
    if (left <= 0) tellInput();
    else waiting = setTimeout(tellInput, left);
  }

  // A page that is left says at once what it was about to say.
  addEventListener("pagehide", function () {
    if (waiting) { clearTimeout(waiting); tellInput(); }
  });
  ["keydown", "beforeinput", "pointerdown", "pointermove", "wheel", "touchstart", "paste"].forEach(
    function (kind) { addEventListener(kind, input, { capture: true, passive: true }); });
  alive();
  setInterval(alive, 60000);
})();
