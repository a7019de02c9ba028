// The situation that is being composed, and everything that can be done with it without drawing.
const lab = {
  types: new Map(), limits: { map: 32, units: 64 }, commanders: [], players: {}, reasons: {},
  units: [], selected: -1, team: "ally", past: [], future: [], runs: { battle: [], episode: [] }, tab: "battle", busy: false,
};
const SIDE_COLORS = { ally: "#3b82f6", enemy: "#ef4444" }, SIDE_NAMES = { ally: "allies", enemy: "enemies" };
const STAT_COLORS = { health: "#22c55e", shield: "#38bdf8", energy: "#c084fc" };
const FILE_LIMIT = 900_000;  // characters
const EXAMPLES = [
  ["3 Stalkers and 5 Zealots on each side", "3s5z", "3s5z"], ["A Colossus with 2 Stalkers and 3 Zealots on each side", "1c2s3z", "1c2s3z"],
  ["7 Marines, a Marauder and a Medivac against 6 Zealots", "7m1M1v", "6z"], ["2 Colossi against 24 Zerglings", "2c", "24zg"],
];

/** Ask the server; an answer that is an error is thrown as a sentence. */
async function ask(question, body = {}) {
  let response, answer;
  try {
    response = await fetch(`/api/${question}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    answer = await response.json();
  } catch {
    throw new Error("The lab does not answer. Is 'refil lab' still running?");
  }
  if (!response.ok) throw new Error(sentence(answer.error));
  return answer;
}

/** Return a message with a capital letter and a period. */
const sentence = words => `${words[0].toUpperCase()}${words.slice(1)}${/[.!?]$/.test(words) ? "" : "."}`;
const title = name => name.split("_").map(word => word[0].toUpperCase() + word.slice(1)).join(" ");
const typeOf = unit => lab.types.get(unit.type);
const most = (unit, stat) => typeOf(unit)[`max_${stat}`];
const startOf = (unit, stat) => (stat === "energy" ? typeOf(unit).start_energy : most(unit, stat));
const armyOf = team => lab.units.filter(unit => unit.team === team);
const near = value => Math.round(value * 100) / 100;

/** Return a point moved onto the map, for the body of a unit. */
function onMap(unit, x, y) {
  const radius = typeOf(unit).collision_radius, clip = value => near(Math.max(radius, Math.min(lab.limits.map - radius, value)));
  return { x: clip(x), y: clip(y) };
}

/** Return the unit that a unit would overlap, if there is one. */
function overlapped(unit, except) {
  const type = typeOf(unit);
  return lab.units.find((other, number) => {
    if (number === except || !(typeOf(other).collision_layers & type.collision_layers)) return false;
    return Math.hypot(other.x - unit.x, other.y - unit.y) < typeOf(other).collision_radius + type.collision_radius;
  });
}

/** Return the free point that is nearest to a point, or null. */
function freePoint(unit, x, y, except = -1) {
  for (let step = 0; step < 2500; step++) {
    const angle = 2.39996 * step, away = 0.12 * Math.sqrt(step);
    const point = onMap(unit, x + away * Math.cos(angle), y + away * Math.sin(angle));
    if (!overlapped({ ...unit, ...point }, except)) return point;
  }
  return null;
}

/** Change the situation so that the change can be undone. */
function edit(change) {
  const before = JSON.stringify(lab.units);
  change();
  if (JSON.stringify(lab.units) === before) return;
  lab.past.push(before);
  lab.past.splice(0, lab.past.length - 200);
  lab.future = [];
  edited();
}

function travel(from, to) {
  if (!from.length) return;
  to.push(JSON.stringify(lab.units));
  lab.units = JSON.parse(from.pop());
  lab.selected = Math.min(lab.selected, lab.units.length - 1);
  edited();
}

/** Add a unit at the free point nearest to this one and return whether there was room. */
function addUnit(team, type, x, y, more = {}) {
  const unit = { ...more, team, type };
  if (armyOf(team).length >= lab.limits.units) return tell(`There is room for ${lab.limits.units} ${SIDE_NAMES[team]}.`, "error");
  const point = freePoint(unit, x, y);
  if (!point) return tell("There is no free place here.", "error");
  lab.units.push({ team, type, ...point, ...more });
  lab.selected = lab.units.length - 1;
  return true;
}

/** Return the types of an army such as 3s5z, or throw what is wrong. */
function parseArmy(words) {
  const letters = new Map([...lab.types.values()].map(type => [type.letter, type])), found = [];
  const known = [...letters].map(([letter, type]) => `${letter} ${title(type.name)}`).join(", ");
  if (!/^([1-9]\d*[A-Za-z]+)+$/.test(words)) throw new Error(`'${words}' is not an army; write numbers and letters, as in 3s5z (${known}).`);
  for (const [, count, letter] of words.matchAll(/(\d+)([A-Za-z]+)/g)) {
    if (!letters.has(letter)) throw new Error(`No unit type has the letter ${letter}; there are ${known}.`);
    if (count > lab.limits.units) throw new Error(`${count} units are too many; there is room for ${lab.limits.units} on each side.`);
    for (let number = 0; number < count; number++) found.push(letters.get(letter));
  }
  if (found.length > lab.limits.units) throw new Error(`${found.length} units are too many; there is room for ${lab.limits.units} on each side.`);
  return found;
}

/** Replace the situation by two armies that face each other, units of short range in front. */
function lineUp(words) {
  const armies = { ally: parseArmy(words.ally), enemy: parseArmy(words.enemy) };
  edit(() => {
    lab.units = [];
    for (const [team, army] of Object.entries(armies)) {
      const rows = army.length > 24 ? 12 : 8, back = team === "ally" ? -1.7 : 1.7;
      let front = team === "ally" ? 11.5 : 20.5;
      for (const inRange of [type => type.range < 1, type => type.range >= 1]) {
        const types = army.filter(inRange);
        types.forEach((type, number) => {
          const column = Math.floor(number / rows), inColumn = Math.min(rows, types.length - column * rows);
          addUnit(team, type.name, front + back * column, 16 + 1.6 * ((inColumn - 1) / 2 - (number % rows)));
        });
        front += back * Math.ceil(types.length / rows);
      }
    }
    lab.selected = -1;
  });
}

/** Return the text of a placement file; numbers of undamaged units are left out. */
function fileText() {
  const lines = lab.units.map(unit => `    ${JSON.stringify(unit)}`);
  return `{\n  "units": [\n${lines.join(",\n")}\n  ]\n}\n`;
}
