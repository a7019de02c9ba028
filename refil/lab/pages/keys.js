// Keys of the lab; while a run is shown, the others are those of the replay page.

function nudge(x, y, fine) {
  const unit = lab.units[lab.selected], step = fine ? 0.05 : 0.5;
  if (unit) edit(() => moveTo(lab.selected, unit.x + x * step, unit.y + y * step));
}

const EDIT_KEYS = {
  ArrowRight: event => nudge(1, 0, event.shiftKey), ArrowLeft: event => nudge(-1, 0, event.shiftKey),
  ArrowUp: event => nudge(0, 1, event.shiftKey), ArrowDown: event => nudge(0, -1, event.shiftKey),
  Delete: removeUnit, Backspace: removeUnit, d: duplicate, x: changeSides,
  Escape: () => { lab.selected = -1; refresh(); },
  e: () => { if (lab.runs[lab.tab].length) showRuns(0); },
  Enter: play,
};

document.addEventListener("keydown", event => {
  const { target, key } = event, typing = target.matches("input:not([type=range]), select"), composing = document.body.dataset.mode !== "watch";
  const name = key.length === 1 ? key.toLowerCase() : key, control = event.ctrlKey || event.metaKey;
  if (control && name === "s" && lab.tab === "battle") { event.preventDefault(); if (lab.units.length) save(); return; }
  if (typing) { event.stopImmediatePropagation(); return; }
  if (!composing) {
    if (control || (name !== "e" && name !== "Enter") || (name === "Enter" && target.matches("button"))) return;
    event.preventDefault();
    if (name === "Enter") play();
    else if (lab.tab === "battle") setMode("compose");
    return;
  }
  event.stopImmediatePropagation();
  if (lab.tab !== "battle") { if (name === "Enter" && !target.matches("button")) play(); return; }
  if (control && name === "z") { event.preventDefault(); (event.shiftKey ? redo : undo)(); return; }
  if (name === "Tab" && target === map && lab.units.length) {
    const next = lab.selected + (event.shiftKey ? -1 : 1);
    if (next < 0 || next >= lab.units.length) return;  // leave the map
    event.preventDefault();
    lab.selected = next;
    refresh();
    return;
  }
  const act = EDIT_KEYS[name];
  if (!act || control || event.altKey || target.type === "range" || (name === "Enter" && target.matches("button"))) return;
  event.preventDefault();
  act(event);
}, true);
