"use strict";
// The drawing of one timestep. A pane is a canvas that shows one clip.
let content = JSON.parse(document.getElementById("episodes").textContent);
const FADE = 10;  // frames in which a body that is gone leaves a ring
const GROUPS = ["#facc15", "#e879f9"];  // rings around the members of the two random groups
const POINTED = "#fbbf24";  // ring around the body whose row is under the pointer
const finite = (...values) => values.every(value => value !== null && value !== undefined);

/** Return the bodies of a frame as objects, each built once. */
function bodies(clip, frame) {
  clip.cache ??= new Map();
  if (!clip.cache.has(frame)) {
    clip.cache.set(frame, clip.frames[frame][1].map(([number, x, y, facing, bars, values, order]) => {
      const [name, radius, color, label, shape, entity, kind, ranges, tints, names, verb] = clip.bodies[number];
      return { name, radius, color, label, shape, entity, kind, ranges, tints, names, verb, x, y, facing, bars, values, order };
    }));
  }
  return clip.cache.get(frame);
}

/** Return the bodies at a time between two frames, moved part of the way where the clip allows it. */
function bodiesAt(clip, time) {
  const frame = Math.min(Math.floor(time), clip.frames.length - 1), part = time - frame, now = bodies(clip, frame);
  if (!clip.smooth || part <= 0 || frame + 1 >= clip.frames.length) return now;
  const next = new Map(bodies(clip, frame + 1).map(body => [body.name, body]));
  return now.map(body => {
    const after = next.get(body.name);
    if (!after || !finite(body.x, body.y, after.x, after.y)) return body;
    return { ...body, x: body.x + part * (after.x - body.x), y: body.y + part * (after.y - body.y) };
  });
}

function outline(pen, shape, x, y, radius) {
  const corners = content.shapes[shape] ?? [];
  pen.beginPath();
  if (corners.length === 0) pen.arc(x, y, radius, 0, 2 * Math.PI);
  corners.forEach(([dx, dy]) => pen.lineTo(x + radius * dx, y + radius * dy));
  pen.closePath();
}

function text(pen, words, x, y, size, color = "#f8fafc") {
  pen.save();
  pen.translate(x, y);
  pen.scale(1, -1);
  pen.font = `600 ${size}px system-ui, sans-serif`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.lineWidth = size / 5;
  pen.strokeStyle = "#0f172a";
  pen.strokeText(words, 0, 0);
  pen.fillStyle = color;
  pen.fillText(words, 0, 0);
  pen.restore();
}

function stroke(pen, x, y, toX, toY, width, color) {
  pen.strokeStyle = color;
  pen.lineWidth = width;
  pen.beginPath();
  pen.moveTo(x, y);
  pen.lineTo(toX, toY);
  pen.stroke();
}

/** Draw a pane: ground, areas, lines, what the selected agent sees, bodies. */
function drawPane(pane, time, view) {
  const { clip, pen, canvas } = pane, frame = Math.min(Math.floor(time), clip.frames.length - 1);
  const now = bodiesAt(clip, Math.min(time, clip.frames.length - 1)).filter(({ x, y, radius }) => finite(x, y, radius));
  pane.bodies = now;
  pane.camera = cameraAt(pane, time, view.follow);
  const { scale, left, bottom } = pane.camera;
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.clearRect(0, 0, canvas.width, canvas.height);
  pen.setTransform(scale, 0, 0, -scale, -left * scale, canvas.height + bottom * scale);
  pen.lineCap = "round";
  ground(pen, clip, scale);
  const [, , lines, areas] = clip.frames[frame];
  areas.forEach(number => area(pen, clip.areas[number]));
  const selected = now.find(body => body.name === view.selected), agent = agentOf(clip, selected, frame);
  const groups = view.groups ? clip.details?.groups[view.partition] : null;
  if (selected) around(pen, selected, scale);
  for (const line of lines) if (finite(...line)) stroke(pen, ...line);
  ghosts(pen, clip, frame);
  if (agent) attention(pen, now, selected, agent, view, scale);
  const seen = agent && new Set(agent[3].map(([entity]) => entity));
  for (const body of [...now].sort((one, other) => other.radius - one.radius)) {
    pen.globalAlpha = seen && finite(body.entity) && !seen.has(body.entity) ? 0.35 : 1;
    drawBody(pen, body, scale);
    pen.globalAlpha = 1;
    if (groups && finite(body.entity)) ring(pen, body, GROUPS[groups[body.entity] % 2], scale);
  }
  if (selected) ring(pen, selected, "#ffffff", scale, 1.45);
  if (view.numbered) now.forEach(body => number(pen, body, scale));
  const pointed = now.find(body => finite(body.entity) && body.entity === view.pointed);
  if (pointed) pointOut(pen, pointed, scale);
}

/** Draw the number at the end of a body's name next to it, unless its label has it. */
function number(pen, { name, label, x, y, radius }, scale) {
  const digits = name.match(/\d+$/)?.[0];
  if (digits && !label.endsWith(digits)) text(pen, digits, x + 0.95 * radius, y - 0.85 * radius, Math.max(0.45 * radius, 10 / scale), "#cbd5e1");
}

function pointOut(pen, body, scale) {
  ring(pen, body, POINTED, scale, 1.7);
  text(pen, body.name, body.x, body.y - 1.7 * body.radius - 10 / scale, 13 / scale, POINTED);
}

function ground(pen, clip, scale) {
  const step = clip.width / 16;
  for (let line = 1; line < 16; line++) {
    stroke(pen, line * step, 0, line * step, clip.height, 1 / scale, "#33415566");
    if (line * step < clip.height) stroke(pen, 0, line * step, clip.width, line * step, 1 / scale, "#33415566");
  }
  pen.strokeStyle = "#475569";
  pen.lineWidth = 2 / scale;
  pen.strokeRect(0, 0, clip.width, clip.height);
}

function area(pen, [corners, color, label, [x, y]]) {
  if (!corners.every(corner => finite(...corner))) return;
  pen.fillStyle = color;
  pen.beginPath();
  corners.forEach(corner => pen.lineTo(...corner));
  pen.closePath();
  pen.fill();
  if (label && finite(x, y)) text(pen, label, x, y, 0.8, "#cbd5e1");
}

function around(pen, body, scale) {
  body.ranges.forEach(([, radius], number) => {
    if (!finite(radius)) return;
    pen.strokeStyle = "#e2e8f0";
    pen.lineWidth = 1.5 / scale;
    pen.setLineDash([[], [6 / scale, 4 / scale], [2 / scale, 5 / scale]][number % 3]);
    pen.beginPath();
    pen.arc(body.x, body.y, radius, 0, 2 * Math.PI);
    pen.stroke();
    pen.setLineDash([]);
  });
}

/** Draw how strongly the selected agent attends to what it sees, and at whom its action is aimed. */
function attention(pen, now, selected, [, target, , seen], view, scale) {
  const byEntity = new Map(now.filter(body => finite(body.entity)).map(body => [body.entity, body]));
  for (const [entity, ...weights] of seen) {
    const body = byEntity.get(entity);
    if (!body || body === selected || weights.length === 0) continue;
    const weight = view.head < 0 ? weights.reduce((sum, each) => sum + each, 0) / weights.length : weights[view.head];
    pen.globalAlpha = Math.min(1, 0.15 + weight);
    stroke(pen, selected.x, selected.y, body.x, body.y, (1 + 10 * weight) / scale, "#5eead4");
    pen.globalAlpha = 1;
  }
  const aim = byEntity.get(target);
  if (!aim) return;
  pen.setLineDash([5 / scale, 5 / scale]);
  stroke(pen, selected.x, selected.y, aim.x, aim.y, 2 / scale, "#ffffff");
  pen.setLineDash([]);
}

function ring(pen, body, color, scale, factor = 1.2) {
  pen.strokeStyle = color;
  pen.lineWidth = 2.5 / scale;
  pen.beginPath();
  pen.arc(body.x, body.y, factor * body.radius, 0, 2 * Math.PI);
  pen.stroke();
}

function ghosts(pen, clip, frame) {
  const there = new Set(bodies(clip, frame).map(body => body.name)), fade = Math.max(1, Math.round(FADE * Math.min(1, clip.rate / 16)));
  for (let back = 1; back <= Math.min(fade, frame); back++) {
    for (const { name, x, y, radius, color } of bodies(clip, frame - back)) {
      if (there.has(name)) continue;
      there.add(name);
      if (!finite(x, y, radius)) continue;
      pen.strokeStyle = color;
      pen.globalAlpha = 1 - back / (fade + 1);
      pen.lineWidth = 0.1;
      pen.beginPath();
      pen.arc(x, y, radius * (1 + back / fade), 0, 2 * Math.PI);
      pen.stroke();
      pen.globalAlpha = 1;
    }
  }
}

function drawBody(pen, { x, y, radius, color, label, shape, facing, bars, tints }, scale) {
  outline(pen, shape, x, y, radius);
  pen.fillStyle = color;
  pen.fill();
  pen.strokeStyle = "#0f172a";
  pen.lineWidth = 1 / scale;
  pen.stroke();
  if (finite(facing)) {
    const [dx, dy] = [Math.cos(facing), Math.sin(facing)];
    stroke(pen, x + 0.7 * radius * dx, y + 0.7 * radius * dy, x + 1.25 * radius * dx, y + 1.25 * radius * dy, 0.08, "#f8fafc");
  }
  bars.forEach((share, number) => {
    const low = y + radius + 0.12 + 0.2 * number;
    pen.fillStyle = "#0f172acc";
    pen.fillRect(x - radius, low, 2 * radius, 0.14);
    pen.fillStyle = tints[number];
    pen.fillRect(x - radius, low, 2 * radius * (share ?? 0), 0.14);
  });
  if (label) text(pen, label, x, y, label.length > 1 ? 0.7 * radius : 0.95 * radius);
}
