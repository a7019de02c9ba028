// The map on which units are placed: drawing, dragging and selecting.
const map = at("map"), mapPane = { clip: { width: 32, height: 32 }, canvas: map, pen: map.getContext("2d"), bodies: [] };
let dragged = null;  // the unit that is being moved: its number, and where it was taken

function bodyOf(unit, number) {
  const type = typeOf(unit), stats = ["health", "shield", "energy"].filter(stat => type[`max_${stat}`]);
  return {
    number, x: unit.x, y: unit.y, radius: type.radius, color: SIDE_COLORS[unit.team], label: type.letter, shape: type.shape, facing: null,
    bars: stats.map(stat => (unit[stat] ?? startOf(unit, stat)) / type[`max_${stat}`]), tints: stats.map(stat => STAT_COLORS[stat]),
  };
}

function drawMap() {
  const ratio = devicePixelRatio || 1, { pen } = mapPane;
  map.width = Math.max(1, Math.round(map.clientWidth * ratio));
  map.height = Math.max(1, Math.round(map.clientHeight * ratio));
  mapPane.bodies = lab.units.map(bodyOf);
  mapPane.camera = cameraAt({ ...mapPane, clip: { ...mapPane.clip, frames: [0] } }, 0, false);
  const { scale, left, bottom } = mapPane.camera;
  pen.setTransform(scale, 0, 0, -scale, -left * scale, map.height + bottom * scale);
  pen.lineCap = "round";
  ground(pen, mapPane.clip, scale);
  const chosen = mapPane.bodies[lab.selected];
  for (const body of [...mapPane.bodies].sort((one, other) => other.radius - one.radius)) {
    drawBody(pen, body, scale);
    if (overlapped(lab.units[body.number], body.number)) ring(pen, body, "#fb923c", scale, 1.15);
  }
  if (chosen) ring(pen, chosen, "#ffffff", scale, 1.45);
}

/** Return the point of the map under a pointer. */
function pointAt({ clientX, clientY }) {
  const place = map.getBoundingClientRect(), ratio = map.width / place.width, { scale, left, bottom } = mapPane.camera;
  return { x: left + ((clientX - place.left) * ratio) / scale, y: bottom + (map.height - (clientY - place.top) * ratio) / scale };
}

/** Return whether a pointer is over the map; the hint on the map does not count. */
function isOver({ clientX, clientY }) {
  const { left, right, top, bottom } = map.getBoundingClientRect();
  return clientX >= left && clientX <= right && clientY >= top && clientY <= bottom;
}

map.onpointerdown = event => {
  const ratio = map.width / map.clientWidth, body = bodyAt(mapPane, event.offsetX * ratio, event.offsetY * ratio);
  lab.selected = body ? body.number : -1;
  if (body) {
    const { x, y } = pointAt(event);
    dragged = { number: body.number, x: body.x - x, y: body.y - y, before: JSON.stringify(lab.units) };
    map.setPointerCapture(event.pointerId);
  }
  refresh();
};

map.onpointermove = event => {
  if (!dragged) {
    const ratio = map.width / map.clientWidth;
    map.style.cursor = bodyAt(mapPane, event.offsetX * ratio, event.offsetY * ratio) ? "grab" : "default";
    return;
  }
  const { x, y } = pointAt(event), unit = lab.units[dragged.number];
  Object.assign(unit, onMap(unit, x + dragged.x, y + dragged.y));
  map.style.cursor = "grabbing";
  refresh();
};

map.onpointerup = map.onpointercancel = () => {
  if (!dragged) return;
  const { number, before } = dragged, { x, y } = lab.units[number];
  dragged = null;
  lab.units = JSON.parse(before);
  edit(() => moveTo(number, x, y));
  refresh();
};

/** Move a unit to the free point nearest to this one. */
function moveTo(number, x, y) {
  const unit = lab.units[number], point = freePoint(unit, x, y, number);
  if (point) Object.assign(unit, point);
}

/** Let an element of the palette be dragged onto the map; a click without dragging calls `clicked`. */
function draggable(button, type, clicked) {
  button.onpointerdown = event => {
    if (event.button) return;
    const from = [event.clientX, event.clientY];
    let ghost = null;
    button.setPointerCapture(event.pointerId);
    button.onpointermove = ({ clientX, clientY }) => {
      if (!ghost && Math.hypot(clientX - from[0], clientY - from[1]) > 6) {
        ghost = icon(type, SIDE_COLORS[lab.team], 34);
        ghost.id = "ghost";
        document.body.append(ghost);
      }
      if (ghost) Object.assign(ghost.style, { left: `${clientX}px`, top: `${clientY}px` });
    };
    button.onpointerup = button.onpointercancel = ending => {
      button.onpointermove = button.onpointerup = button.onpointercancel = null;
      ghost?.remove();
      if (!ghost || ending.type !== "pointerup") return;
      button.dragEnded = true;
      const { x, y } = pointAt(ending);
      if (isOver(ending)) edit(() => addUnit(lab.team, type.name, x, y));
    };
  };
  button.onclick = () => {
    if (!button.dragEnded) clicked();
    button.dragEnded = false;
  };
}

/** Return the drawing of a unit type. */
function icon(type, color, size = 18) {
  const list = document.createElement("ul");
  fillLegend(list, [["", color, type.shape]]);
  const svg = list.querySelector("svg");
  svg.setAttribute("width", size);
  svg.setAttribute("height", size);
  return svg;
}

new ResizeObserver(() => drawMap()).observe(map);
