// The selected body: its values, and for an agent of a team its action, Q-values, and what it sees and attends to.

/** Return the step of a team's details that a frame belongs to: frames may show parts of a step. */
const stepOf = (clip, frame, steps) => Math.min(Math.floor(frame / clip.details.every), steps.length - 1);

/** Return what an agent does in a frame: [action, target, Q-values, seen]; null for bodies that are not agents of a team. */
function agentOf(clip, body, frame) {
  if (!body || !clip.details || !finite(body.entity)) return null;
  const steps = clip.details.steps;
  return steps[stepOf(clip, frame, steps)]?.[body.entity] ?? null;
}

function element(tag, words = "", className = "") {
  const made = document.createElement(tag);
  made.textContent = words;
  if (className) made.className = className;
  return made;
}

function table(heads, rows, chosen = () => false, shade = () => null) {
  const made = element("table"), top = element("tr");
  heads.forEach(head => top.append(element("th", head)));
  if (heads.length) made.append(top);
  rows.forEach((row, number) => {
    const line = element("tr", "", chosen(number) ? "chosen" : "");
    row.forEach((cell, column) => {
      const made = element("td", cell);
      const weight = shade(number, column);
      if (weight !== null) made.style.background = `rgb(94 234 212 / ${Math.min(0.6, weight)})`;
      line.append(made);
    });
    made.append(line);
  });
  return made;
}

/** Return the name of an entity: that of its body if it is there. */
function nameOf(shown, entity) {
  const body = shown.find(each => each.entity === entity);
  return body ? `${body.name}${body.label && !body.name.endsWith(` ${body.label}`) ? ` (${body.label})` : ""}` : `entity ${entity}`;
}

/** Return the name of an action, and of the entity that it is aimed at in a frame; two teams aim at each entity in turn. */
function actionText(clip, shown, action, frame) {
  const { actions, aimed } = clip.details, name = actions[action] ?? "none";
  const entity = action < 0 ? -1 : aimed[stepOf(clip, frame, aimed)].indexOf(action);
  return entity < 0 ? name : `${name}: ${nameOf(shown, entity % clip.details.groups.length)}`;
}

/** Return what all agents do now, for when none is selected. */
function allActions(clip, shown, frame) {
  const rows = shown.map(body => [body.name, agentOf(clip, body, frame)]).filter(([, agent]) => agent);
  return rows.length ? [table(["agent", "action"], rows.map(([name, [action]]) => [name, actionText(clip, shown, action, frame)]))] : [];
}

const DASHES = ["───", "╌╌╌", "···"];  // of the circles around a selected body, in order

/** Fill the inspector; `view` is what the player knows: the selected body, the head, and whether groups are shown. */
function inspect(place, clip, frame, view, change) {
  const shown = bodies(clip, Math.min(frame, clip.frames.length - 1)), body = shown.find(each => each.name === view.selected);
  const parts = [element("h2", content.episodes[0].length > 1 ? `Selected, in ${content.labels[view.pane] ?? view.pane + 1}` : "Selected")];
  if (!view.selected) {
    parts.push(element("p", "Click a unit, or press U, to see its state, what it sees and why it acts."));
    parts.push(...allActions(clip, shown, frame));
  }
  else if (!body) parts.push(element("h3", view.selected), element("p", "is not there any more"));
  else parts.push(...describe(clip, shown, body, frame, view, change));
  place.replaceChildren(...parts);
}

function describe(clip, shown, body, frame, view, change) {
  const parts = [element("h3", body.name)];
  if (body.kind) parts.push(element("p", body.kind));
  const values = body.names.map((name, number) => [name, String(body.values[number] ?? "–")]);
  const ranges = body.ranges.map(([name, radius], number) => [`${name} ${DASHES[number % 3]}`, String(radius ?? "–")]);
  if (values.length + ranges.length) parts.push(table([], [...values, ...ranges]));
  const agent = agentOf(clip, body, frame);
  if (!agent) return parts;
  const [action, , choices, seen] = agent, { heads, views } = clip.details;
  parts.push(element("h3", "Action"), element("p", actionText(clip, shown, action, frame)));
  parts.push(element("h3", "Q-values of available actions"));
  const columns = view.groups ? views : views.slice(0, 1);
  const ordered = [...choices].sort((one, other) => (other[1] ?? 0) - (one[1] ?? 0));
  const rows = ordered.map(([choice, ...values]) => [actionText(clip, shown, choice, frame), ...columns.map((_, at) => values[at]?.toFixed(2) ?? "–")]);
  parts.push(table(["action", ...columns], rows, number => ordered[number][0] === action));
  if (views.length > 1) parts.push(groupsBox(view, change));
  parts.push(element("h3", heads ? "What it sees, and attention per head in %" : "What it sees"));
  if (heads) parts.push(headChoice(heads, view, change));
  const strong = [...seen].sort((one, other) => total(other) - total(one));
  const lines = strong.map(([entity, ...weights]) => [nameOf(shown, entity), ...weights.map(weight => String(Math.round(100 * weight)))]);
  const names = Array.from({ length: heads }, (_, head) => String(head + 1));
  parts.push(table(["", ...names], lines, () => false, (row, column) => (column ? strong[row][column] : null)));
  return parts;
}

const total = ([, ...weights]) => weights.reduce((sum, weight) => sum + weight, 0);

function groupsBox(view, change) {
  const label = element("label"), box = document.createElement("input");
  box.type = "checkbox";
  box.id = "groups";
  box.checked = view.groups;
  box.onchange = () => change({ groups: box.checked });
  label.append(box, " two random groups, as REFIL imagines them: values from the entities within the agent's group and across groups");
  return label;
}

function headChoice(heads, view, change) {
  const label = element("label", "lines on the map: "), choice = document.createElement("select");
  choice.id = "head";
  [["-1", "mean of heads"], ...Array.from({ length: heads }, (_, head) => [String(head), `head ${head + 1}`])].forEach(([value, words]) => {
    const option = element("option", words);
    option.value = value;
    choice.append(option);
  });
  choice.value = String(view.head);
  choice.onchange = () => change({ head: Number(choice.value) });
  label.append(choice);
  return label;
}

/** Fill the legend with shapes and colors. */
function fillLegend(place, entries) {
  place.replaceChildren(...entries.map(([words, color, shape]) => {
    const item = element("li"), corners = content.shapes[shape] ?? [];
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const mark = document.createElementNS(svg.namespaceURI, shape === null ? "rect" : corners.length ? "polygon" : "circle");
    const numbers = shape === null ? { x: -8, y: -2.5, width: 16, height: 5 } : { r: 7 };
    if (corners.length) numbers.points = corners.map(([x, y]) => `${7 * x},${-7 * y}`).join(" ");
    for (const [name, value] of Object.entries({ ...numbers, fill: color })) mark.setAttribute(name, value);
    for (const [name, value] of Object.entries({ viewBox: "-8 -8 16 16", width: 16, height: 16 })) svg.setAttribute(name, value);
    svg.append(mark);
    item.append(svg, words);
    return item;
  }));
}
