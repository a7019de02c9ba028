// The lab itself: who commands, playing, opening and saving, modes and keys.

/** Show a sentence under the controls; returns false, so that it can end what failed. */
function tell(words = "", kind = "") {
  at("message").textContent = words;
  at("message").className = kind;
  return false;
}

/** Show everything that depends on the situation. */
function refresh() {
  drawMap();
  fillUnit();
  at("hint").hidden = lab.units.length > 0;
  at("undo").disabled = !lab.past.length;
  at("redo").disabled = !lab.future.length;
  at("clear").disabled = at("store").disabled = !lab.units.length;
  at("counts").textContent = lab.units.length ? `Allies: ${describeArmy("ally")} · Enemies: ${describeArmy("enemy")}` : "";
}

let checking = 0;

/** React to an edit: draw, remember, and ask which teams can command these armies. */
function edited() {
  tell();
  refresh();
  remember();
  clearTimeout(checking);
  checking = setTimeout(checkTeams, 150);
}

async function checkTeams() {
  try {
    lab.reasons = armyOf("ally").length && armyOf("enemy").length ? (await ask("check", { units: lab.units })).reasons : {};
  } catch (error) {
    tell(error.message, "error");
    lab.reasons = {};
  }
  fillCommanders();
}

function remember() {
  const kept = { units: lab.units, allies: at("allies").value, enemies: at("enemies").value, seed: at("seed").value };
  try { sessionStorage.setItem("refil lab", JSON.stringify(kept)); } catch { /* a page without storage forgets */ }
}

const KINDS = { script: "Engine and scripts", run: "Your team", team: "Trained teams" };

/** Fill the two lists of commanders; teams that do not fit say so. */
function fillCommanders() {
  for (const [name, team] of [["allies", "ally"], ["enemies", "enemy"]]) {
    const chosen = at(name).value, groups = new Map();
    for (const { key, kind, label, about } of lab.commanders) {
      const reason = lab.reasons[key]?.[team], option = new Option(reason ? `${label} (does not fit)` : label, key);
      option.title = reason ?? about;
      if (!groups.has(kind)) groups.set(kind, Object.assign(document.createElement("optgroup"), { label: KINDS[kind] }));
      groups.get(kind).append(option);
    }
    at(name).replaceChildren(...groups.values());
    if (chosen) at(name).value = chosen;
  }
  warn();
}

/** Say why a chosen team does not fit the armies. */
function warn() {
  const reason = lab.reasons[at("allies").value]?.ally ?? lab.reasons[at("enemies").value]?.enemy;
  if (reason) tell(sentence(reason), "warning");
  else if (at("message").className === "warning") tell();
}

function setMode(mode) {
  document.body.dataset.mode = mode;
  const watching = mode === "watch", battles = lab.tab === "battle";
  if (!watching && panes.length) setPlaying(false);
  at("edit").hidden = !(watching && battles);
  at("watch").hidden = watching || !lab.runs[lab.tab].length;
  at("battle-form").hidden = !battles;
  at("episode-form").hidden = battles;
  for (const tab of ["battle", "episode"]) at(`tab-${tab}`).setAttribute("aria-selected", tab === lab.tab);
  if (!watching) drawMap();
  else if (panes.length) { resize(); draw(); }
}

function setTab(tab) {
  lab.tab = tab;
  view.selected = null;
  tell();
  if (tab === "battle") setMode("compose");
  else if (lab.runs.episode.length) showRuns(0);
  else setMode("blank");
}

/** Play what is chosen, from the same seed or from another one. */
async function play() {
  if (lab.busy || !at("seed-form").reportValidity()) return;
  if (!at("same-seed").checked) at("seed").value = Math.floor(Math.random() * 1e6);
  const seed = Number(at("seed").value), tab = lab.tab;
  const asked = tab === "battle" ? { units: structuredClone(lab.units), allies: at("allies").value, enemies: at("enemies").value, seed }
    : { player: at("player").value, task: at("task").value, seed };
  remember();
  lab.busy = at("run").disabled = true;
  tell(lab.runs[tab].length ? "Playing…" : "Playing; the first run compiles for some seconds…", "busy");
  const slow = setTimeout(() => tell("Compiling for this choice; the next runs take less than a second…", "busy"), 1500), since = performance.now();
  try {
    const run = { asked, ...(await ask(tab, asked)) };
    lab.runs[tab].unshift(run);
    lab.runs[tab].splice(8);
    tell(`${describeRun(run)} It took ${((performance.now() - since) / 1000).toFixed(1)} s.`);
    if (lab.tab === tab) showRuns(0, true);
    if (run.has_teams) inspectTeams(run);
  } catch (error) {
    tell(error.message, "error");
  } finally {
    clearTimeout(slow);
    lab.busy = at("run").disabled = false;
  }
}

/** Add what the teams saw and expected, which takes longer to compute than the battle. */
async function inspectTeams(run) {
  try {
    run.clip.details = (await ask("inspect", { number: run.number })).details;
    if (panes.some(pane => pane.clip === run.clip)) change({});
  } catch (error) {
    tell(error.message, "error");
  }
}

function describeRun({ summary, asked }) {
  if (!summary.ally) return `${asked.task}: ${summary.won ? "won" : "not won"} after ${summary.steps} steps, return ${summary.return}, seed ${asked.seed}.`;
  const sides = ["ally", "enemy"].map(team => `${SIDE_NAMES[team]} ${share(summary[team].left, summary[team].units)} units, ${percent(summary[team].health)} health`);
  return `${sentence(summary.winner).slice(0, -1)} after ${summary.steps} steps. Left: ${sides.join("; ")}. Seed ${asked.seed}.`;
}

/** Show the runs of this page, newest first, each alone or next to the one before. */
function showRuns(number, start = false) {
  const runs = lab.runs[lab.tab], pairs = runs.map((run, each) => (lab.compare && runs[each + 1] ? [run.clip, runs[each + 1].clip] : [run.clip]));
  setMode("watch");
  load({ ...content, labels: pairs.some(pair => pair.length > 1) ? ["this run", "run before"] : [], episodes: pairs });
  choose(number);
  if (start) setPlaying(true);
}

document.addEventListener("episode", ({ detail }) => {
  const runs = lab.runs[lab.tab];
  if (runs[detail]) fillResult(runs[detail], runs[detail + 1]);
});

function save() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([fileText()], { type: "application/json" }));
  link.download = "placement.json";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  tell("Saved as placement.json in the browser's folder of downloads.");
}

async function openFile(file) {
  try {
    if (file.size > FILE_LIMIT) throw new Error(`${file.name} is too large for a placement: ${(file.size / 1e6).toFixed(1)} MB.`);
    const { units, has_actions: hasActions } = await ask("open", { name: file.name, text: await file.text() });
    edit(() => { lab.units = units; lab.selected = -1; });
    setMode("compose");
    tell(hasActions ? `Opened ${file.name}. Its list of actions is not used here: the commander of the allies acts instead.` : `Opened ${file.name}.`, hasActions ? "warning" : "");
  } catch (error) {
    tell(error.message, "error");
  }
}

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

const undo = () => travel(lab.past, lab.future), redo = () => travel(lab.future, lab.past);
at("undo").onclick = undo;
at("redo").onclick = redo;
at("clear").onclick = () => edit(() => { lab.units = []; lab.selected = -1; });
at("open").onclick = () => at("file").click();
at("store").onclick = save;
at("file").onchange = () => { if (at("file").files[0]) openFile(at("file").files[0]); at("file").value = ""; };
at("edit").onclick = () => setMode("compose");
at("watch").onclick = () => showRuns(0);
at("tab-battle").onclick = () => setTab("battle");
at("tab-episode").onclick = () => setTab("episode");
at("player").onchange = fillTasks;
at("allies").onchange = at("enemies").onchange = () => { warn(); remember(); };
for (const name of ["battle-form", "episode-form", "seed-form"]) at(name).onsubmit = event => { event.preventDefault(); play(); };
at("armies").onsubmit = event => {
  event.preventDefault();
  try { lineUp({ ally: at("army-ally").value.trim(), enemy: at("army-enemy").value.trim() }); } catch (error) { tell(error.message, "error"); }
};
at("field").ondragover = event => event.preventDefault();
at("field").ondrop = event => { event.preventDefault(); if (event.dataTransfer.files[0]) openFile(event.dataTransfer.files[0]); };

function fillTasks() {
  at("task").replaceChildren(...lab.players[at("player").value].tasks.map(name => new Option(name, name)));
}

/** Fill the page with what the server offers, and with what the page has shown before. */
async function begin() {
  document.title = "refil lab";
  at("runs").querySelector("h2").textContent = "Runs";
  const setup = await ask("setup");
  Object.assign(lab, { commanders: setup.commanders, players: setup.players, limits: setup.limits });
  lab.types = new Map(setup.types.map(type => [type.name, type]));
  for (const [words, ally, enemy] of EXAMPLES) at("examples").append(action(words, () => lineUp({ ally, enemy })));
  fillPalette();
  fillCommanders();
  at("allies").value = "script nearest";
  at("player").replaceChildren(...Object.entries(setup.players).map(([key, { label }]) => new Option(label, key)));
  let kept = null;
  try { kept = JSON.parse(sessionStorage.getItem("refil lab")); } catch { /* nothing was kept */ }
  if (setup.opened in setup.players) at("player").value = setup.opened;
  else if (setup.opened) at("allies").value = setup.opened;
  if (kept) {
    lab.units = kept.units.filter(unit => lab.types.has(unit.type));
    for (const name of ["allies", "enemies", "seed"]) if (kept[name]) at(name).value = kept[name];
  }
  fillTasks();
  refresh();
  if (lab.units.length) checkTeams();
  setTab(setup.opened in setup.players ? "episode" : "battle");
}

document.body.dataset.mode = "compose";
begin().catch(error => tell(error.message, "error"));
