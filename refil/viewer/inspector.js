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

/** Turn what a place shows into other nodes; nodes of the same kind are kept, so that focus and pointer stay where they are. */
function patch(place, parts) {
  const old = [...place.childNodes];
  parts.forEach((part, number) => {
    const was = old[number];
    if (!was) place.append(part);
    else if (was.nodeName !== part.nodeName) was.replaceWith(part);
    else if (was.nodeType === Node.TEXT_NODE) { if (was.data !== part.data) was.data = part.data; }
    else {
      for (const { name } of [...was.attributes]) if (!part.hasAttribute(name)) was.removeAttribute(name);
      for (const { name, value } of part.attributes) if (was.getAttribute(name) !== value) was.setAttribute(name, value);
      patch(was, [...part.childNodes]);
    }
  });
  old.slice(parts.length).forEach(node => node.remove());
}

/** Return a table; `entity` has the entity that a row is about, which the map points out while the pointer is on the row. */
function table(heads, rows, { chosen = () => false, shade = () => null, entity = () => -1 } = {}) {
  const made = element("table"), top = element("tr");
  heads.forEach(head => top.append(element("th", head)));
  if (heads.length) made.append(top);
  rows.forEach((row, number) => {
    const line = element("tr", "", chosen(number) ? "chosen" : "");
    if (entity(number) >= 0) line.dataset.entity = entity(number);
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

/** Return the entity that an action is aimed at in a frame, or -1; two teams aim at each entity in turn. */
function targetOf(clip, action, frame) {
  const { aimed, groups } = clip.details, found = action < 0 ? -1 : aimed[stepOf(clip, frame, aimed)].indexOf(action);
  return found < 0 ? -1 : found % groups[0].length;
}

/** Return what a body does by an action: the name of the action, or the body's verb and the entity that it is aimed at. */
function actionText(clip, shown, body, action, frame) {
  const name = clip.details.actions[action] ?? "none", entity = targetOf(clip, action, frame);
  if (entity < 0) return name;
  const aim = shown.find(each => each.entity === entity);
  return body.verb && aim ? `${body.verb} ${aim.name}` : `${name}: ${nameOf(shown, entity)}`;
}

/** Return what all bodies do now, for when none is selected. */
function allActions(clip, shown, frame) {
  const rows = [];
  for (const body of shown) {
    const agent = agentOf(clip, body, frame);
    if (agent || body.order) rows.push([body, agent ? actionText(clip, shown, body, agent[0], frame) : body.order]);
  }
  const lines = rows.map(([body, words]) => [body.name, words]);
  return rows.length ? [table(["unit", "now"], lines, { entity: number => rows[number][0].entity ?? -1 })] : [];
}

const DASHES = ["───", "╌╌╌", "···"];  // of the circles around a selected body, in order

/** Fill the inspector; `view` is what the player knows: the selected body, the head, and whether groups are shown. */
function inspect(clip, frame, view) {
  const shown = bodies(clip, Math.min(frame, clip.frames.length - 1)), body = shown.find(each => each.name === view.selected);
  fillChoices(clip, view);
  at("chosen").textContent = content.episodes[0].length > 1 ? `Selected, in ${content.labels[view.pane] ?? view.pane + 1}` : "Selected";
  const parts = [];
  if (!view.selected) {
    parts.push(element("p", "Click a unit, or press U, to see its state, what it sees and why it acts."));
    parts.push(...allActions(clip, shown, frame));
  }
  else if (!body) parts.push(element("h3", view.selected), element("p", "is not there any more"));
  else parts.push(...describe(clip, shown, body, frame, view));
  patch(at("facts"), parts);
}

function describe(clip, shown, body, frame, view) {
  const parts = [element("h3", body.name)];
  if (body.kind) parts.push(element("p", body.kind));
  const values = body.names.map((name, number) => [name, String(body.values[number] ?? "–")]);
  const ranges = body.ranges.map(([name, radius], number) => [`${name} ${DASHES[number % 3]}`, String(radius ?? "–")]);
  if (values.length + ranges.length) parts.push(table([], [...values, ...ranges]));
  const agent = agentOf(clip, body, frame);
  if (!agent) return body.order ? [...parts, element("h3", "Order"), element("p", body.order)] : parts;
  const [action, , choices, seen] = agent, { heads, views } = clip.details;
  parts.push(element("h3", "Action"), element("p", actionText(clip, shown, body, action, frame)));
  parts.push(element("h3", "Q-values of available actions"));
  const columns = view.groups ? views : views.slice(0, 1), skip = 2 * view.partition;  // two views per partition
  const ordered = [...choices].sort((one, other) => (other[1] ?? 0) - (one[1] ?? 0));
  const value = (values, column) => values[column ? column + skip : 0]?.toFixed(2) ?? "–";
  const rows = ordered.map(([choice, ...values]) => [actionText(clip, shown, body, choice, frame), ...columns.map((_, column) => value(values, column))]);
  parts.push(table(["action", ...columns], rows, {
    chosen: number => ordered[number][0] === action,
    entity: number => targetOf(clip, ordered[number][0], frame),
  }));
  parts.push(element("h3", heads ? "What it sees, and attention per head in %" : "What it sees"));
  const strong = [...seen].sort((one, other) => total(other) - total(one));
  const lines = strong.map(([entity, ...weights]) => [nameOf(shown, entity), ...weights.map(weight => String(Math.round(100 * weight)))]);
  const names = Array.from({ length: heads }, (_, head) => String(head + 1));
  parts.push(table(["", ...names], lines, {
    shade: (row, column) => (column ? strong[row][column] : null),
    entity: number => strong[number][0],
  }));
  return parts;
}

const total = ([, ...weights]) => weights.reduce((sum, weight) => sum + weight, 0);

/** Show the controls that the details of a clip allow; they stay what and where they are while it plays. */
function fillChoices({ details }, view) {
  const heads = details?.heads ?? 0, partitions = (details?.views.length ?? 0) > 1 ? details.groups.length : 0;
  at("grouping").hidden = !partitions;
  at("heads").hidden = !heads;
  at("groups").checked = view.groups;
  at("partition").textContent = `Another partition (${view.partition + 1} of ${partitions})`;
  const choice = at("head");
  if (choice.options.length !== heads + 1) {
    const words = ["mean of heads", ...Array.from({ length: heads }, (_, head) => `head ${head + 1}`)];
    choice.replaceChildren(...words.map((each, number) => new Option(each, number - 1)));
  }
  choice.value = String(view.head);
}
