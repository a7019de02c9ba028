// The lab itself: who commands, modes, opening and saving, and what the controls do.


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
