// The panels next to the map: unit types, the selected unit, and what a run was like.

function fillPalette() {
  at("palette").replaceChildren(...[...lab.types.values()].map(type => {
    const button = element("button"), hits = type.max_health + type.max_shield;
    button.title = `${title(type.name)}: ${type.max_health} health${type.max_shield ? `, ${type.max_shield} shield` : ""}`;
    button.dataset.type = type.name;
    button.append(icon(type, SIDE_COLORS[lab.team]), title(type.name), element("small", type.letter));
    button.setAttribute("aria-label", `add a ${title(type.name)} (${hits} hit points)`);
    draggable(button, type, () => {
      const army = armyOf(lab.team), mean = axis => army.reduce((sum, unit) => sum + unit[axis], 0) / army.length;
      const [x, y] = army.length ? [mean("x"), mean("y")] : [lab.team === "ally" ? 10 : 22, 16];
      edit(() => addUnit(lab.team, type.name, x, y));
    });
    return button;
  }));
  for (const button of at("team").children) {
    button.setAttribute("aria-checked", button.dataset.team === lab.team);
    button.onclick = () => { lab.team = button.dataset.team; fillPalette(); };
  }
}

function field(label, ...parts) {
  const caption = element("label", label);
  caption.htmlFor = parts[0].id;
  return [caption, ...parts];
}

function numberInput(id, value, least, largest, step, changed) {
  const input = document.createElement("input");
  Object.assign(input, { type: "number", id, min: least, max: largest, step, value });
  input.onchange = () => {
    const asked = Number(input.value);
    if (input.value.trim() === "" || !Number.isFinite(asked)) return fillUnit();
    changed(Math.max(least, Math.min(largest, asked)));
  };
  return input;
}

/** Show the selected unit. */
function fillUnit() {
  const unit = lab.units[lab.selected], place = at("unit");
  if (!unit) {
    const words = lab.units.length ? "Click a unit on the map to change it." : "There are no units yet.";
    place.replaceChildren(element("h2", "Selected unit"), element("p", words, "note"));
    return;
  }
  const grid = element("div", "", "grid"), kind = document.createElement("select");
  kind.id = "unit-type";
  for (const type of lab.types.values()) kind.append(new Option(title(type.name), type.name));
  kind.value = unit.type;
  kind.onchange = () => edit(() => {
    const changed = { team: unit.team, type: kind.value, x: unit.x, y: unit.y };
    lab.units[lab.selected] = { ...changed, ...(freePoint(changed, unit.x, unit.y, lab.selected) ?? {}) };
  });
  grid.append(...field("Type", kind));
  for (const axis of ["x", "y"]) {
    const input = numberInput(`unit-${axis}`, unit[axis], 0, lab.limits.map, 0.25, value =>
      edit(() => moveTo(lab.selected, axis === "x" ? value : unit.x, axis === "y" ? value : unit.y)));
    input.className = "wide";
    grid.append(...field(axis === "x" ? "x, east" : "y, north", input));
  }
  for (const stat of ["health", "shield", "energy"]) if (most(unit, stat)) grid.append(...statRow(unit, stat));
  const row = element("div", "", "row");
  row.append(action("Duplicate", duplicate), action("Change sides", changeSides), action("Remove", removeUnit));
  place.replaceChildren(element("h2", `Selected unit: ${title(unit.type)} of the ${SIDE_NAMES[unit.team]}`), grid, row);
}

/** Return a slider and a number for health, shield or energy; at its start value the file does not need it. */
function statRow(unit, stat) {
  const limit = most(unit, stat), least = stat === "health" ? 1 : 0, now = unit[stat] ?? startOf(unit, stat), slider = document.createElement("input");
  const set = value => edit(() => {
    if (value === startOf(unit, stat)) delete unit[stat];
    else unit[stat] = value;
  });
  Object.assign(slider, { type: "range", id: `slide-${stat}`, min: least, max: limit, step: 1, value: now });
  slider.setAttribute("aria-label", stat);
  slider.oninput = () => { at(`unit-${stat}`).value = slider.value; };
  slider.onchange = () => set(Number(slider.value));
  return field(title(stat), slider, numberInput(`unit-${stat}`, now, least, limit, 1, set));
}

function action(words, act) {
  const button = element("button", words);
  button.onclick = act;
  return button;
}

const duplicate = () => { const unit = lab.units[lab.selected]; if (unit) edit(() => addUnit(unit.team, unit.type, unit.x, unit.y - 1, statsOf(unit))); };
const statsOf = ({ team, type, x, y, ...stats }) => stats;
const removeUnit = () => { if (lab.units[lab.selected]) edit(() => { lab.units.splice(lab.selected, 1); lab.selected = -1; }); };
const changeSides = () => {
  const unit = lab.units[lab.selected];
  if (unit) edit(() => { unit.team = unit.team === "ally" ? "enemy" : "ally"; });
};

/** Return how many units of each type a side has. */
function describeArmy(team) {
  const counts = new Map();
  for (const { type } of armyOf(team)) counts.set(type, (counts.get(type) ?? 0) + 1);
  const plural = type => (type === "colossus" ? "Colossi" : `${title(type)}s`);
  return [...counts].map(([type, count]) => `${count} ${count > 1 ? plural(type) : title(type)}`).join(", ") || "none";
}

const labelOf = key => lab.commanders.find(each => each.key === key)?.label ?? key;
const share = (left, whole) => `${left} of ${whole}`;

/** Return the rows of a run: what it was played with, and how it ended. */
function rowsOf(run) {
  const { asked, summary } = run;
  if (!summary.ally) return [["player", lab.players[asked.player]?.label ?? asked.player], ["task", asked.task], ["seed", String(asked.seed)], ["won", summary.won ? "yes" : "no"], ["steps", String(summary.steps)], ["return", String(summary.return)]];
  return [
    ["result", summary.winner], ["steps", String(summary.steps)],
    ...["ally", "enemy"].flatMap(team => [
      [`${SIDE_NAMES[team]} left`, share(summary[team].left, summary[team].units)], [`${SIDE_NAMES[team]}' health`, percent(summary[team].health)],
    ]),
    ["allies by", labelOf(asked.allies)], ["enemies by", labelOf(asked.enemies)], ["seed", String(asked.seed)],
  ];
}

/** Show a run next to the one before it. */
function fillResult(run, previous) {
  const rows = rowsOf(run), before = previous && new Map(rowsOf(previous)), parts = [element("h2", "Result")];
  const cells = rows.map(([name, value]) => [name, value, ...(before ? [before.get(name) ?? "–"] : [])]);
  const made = table(["", "this run", ...(before ? ["run before"] : [])], cells);
  parts.push(made);
  if (previous) {
    const same = JSON.stringify(run.asked.units) === JSON.stringify(previous.asked.units);
    if (run.summary.ally) parts.push(element("p", same ? "Same units as in the run before." : "The units were changed since the run before.", "note"));
    const label = element("label", "", "note"), check = document.createElement("input");
    Object.assign(check, { type: "checkbox", id: "compare", checked: lab.compare === true });
    check.onchange = () => { lab.compare = check.checked; showRuns(view.episode); };
    label.append(check, " show both runs side by side");
    parts.push(label);
  }
  parts.push(element("p", run.summary.ally ? "Keys: enter plays again, E goes back to the units." : "Keys: enter plays again.", "note"));
  if (terminalCommand(run.asked)) parts.push(element("p", "The same battle in a terminal, after saving the placement:", "note"), element("code", terminalCommand(run.asked)));
  at("result").replaceChildren(...parts);
}

/** Return the command that plays the same battle, where there is one. */
function terminalCommand({ allies, enemies, seed }) {
  if (!allies?.startsWith("script ") || enemies !== "script attack_move" || allies === "script random") return "";
  return `refil battle --placement placement.json --script ${allies.slice(7)} --seed ${seed} --episodes 1 --html battle.html`;
}
