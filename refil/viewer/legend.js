// The legend: what the environment's colors and shapes mean, and then the marks that the page itself draws.
const MARKS = {
  facing: ["faces its target", [["circle", { r: 5, fill: "#94a3b8" }], ["path", { d: "M3 0H8", stroke: "#f8fafc", "stroke-width": 2 }]]],
  number: ["its number in the lists", [["circle", { cx: -2, cy: -2, r: 5, fill: "#94a3b8" }], ["text", { x: 2, y: 8, fill: "#f8fafc", "font-size": 9, "font-weight": 600 }, "9"]]],
  selected: ["selected unit", [["circle", { r: 7, fill: "none", stroke: "#ffffff", "stroke-width": 2 }]]],
  pointed: ["unit of the row under the pointer", [["circle", { r: 7, fill: "none", stroke: POINTED, "stroke-width": 2.5 }]]],
  gone: ["ring that grows and fades: died or left here", [["circle", { r: 6, fill: "none", stroke: "#94a3b8", "stroke-width": 1.5, opacity: 0.6 }]]],
  died: ["on the timeline: died or left then, in its side's color", [["path", { d: "M-4 -4L4 4M4 -4L-4 4", stroke: "#94a3b8", "stroke-width": 2.5 }]]],
  attention: ["attention of the selected agent; wider is stronger", [["path", { d: "M-8 0H8", stroke: "#5eead4", "stroke-width": 4 }]]],
  aim: ["from the selected agent to whom its action is aimed at", [["path", { d: "M-8 0H8", stroke: "#ffffff", "stroke-width": 2, "stroke-dasharray": "4 3" }]]],
  faint: ["faint: the selected agent does not see it", [["circle", { r: 6, fill: "#94a3b8", opacity: 0.35 }]]],
  groups: ["first and second group of the random partition", GROUPS.map((color, number) => ["circle", { cx: 8 * number - 4, r: 3.5, fill: "none", stroke: color, "stroke-width": 2 }])],
};

/** Return the marks that occur in clips. */
function marksOf(clips) {
  const some = test => clips.some(test), found = ["number", "selected", "pointed", "gone", "died"];
  if (some(clip => clip.frames.some(([, shown]) => shown.some(([, , , facing]) => finite(facing))))) found.unshift("facing");
  if (some(clip => clip.details?.heads)) found.push("attention");
  if (some(clip => clip.details?.aimed.some(row => row.some(action => action >= 0)))) found.push("aim");
  if (some(clip => clip.details)) found.push("faint");
  if (some(clip => clip.details?.views.length > 1)) found.push("groups");
  return found;
}

function drawing(shapes) {
  const made = name => document.createElementNS("http://www.w3.org/2000/svg", name), svg = made("svg");
  const fill = (place, values) => Object.entries(values).forEach(([name, value]) => place.setAttribute(name, value));
  fill(svg, { viewBox: "-8 -8 16 16", width: 16, height: 16 });
  for (const [name, values, words = ""] of shapes) {
    const mark = made(name);
    fill(mark, values);
    mark.textContent = words;
    svg.append(mark);
  }
  return svg;
}

/** Return the shape of an entry of the environment's legend; an entry without a shape is a bar. */
function entryShape(color, shape) {
  const corners = content.shapes[shape] ?? [];
  if (shape === null) return ["rect", { x: -8, y: -2.5, width: 16, height: 5, fill: color }];
  if (!corners.length) return ["circle", { r: 7, fill: color }];
  return ["polygon", { points: corners.map(([x, y]) => `${7 * x},${-7 * y}`).join(" "), fill: color }];
}

/** Fill a legend with the entries of an environment and with marks of the page. */
function fillLegend(place, entries, marks = []) {
  const item = (words, shapes, className = "") => {
    const made = element("li", "", className);
    made.append(drawing(shapes), words);
    return made;
  };
  const own = entries.map(([words, color, shape]) => item(words, [entryShape(color, shape)]));
  place.replaceChildren(...own, ...marks.map(name => item(...MARKS[name], "mark")));
}
