// The player: which episode, which frame, and what is selected. Everything shown follows from this state.
const at = name => document.getElementById(name);
const view = {
  episode: 0, time: 0, playing: false, selected: null, follow: true, numbered: true, groups: false, partition: 0, head: -1, pane: 0,
  pointed: -1,
};
const SPEEDS = [...at("speed").options].map(option => option.value);
let panes = [], since = 0, from = 0, drawnFrame = -1;

const clips = () => content.episodes[view.episode];
const last = () => Math.max(...clips().map(clip => clip.frames.length)) - 1;
const frameNow = () => Math.floor(view.time + 1e-9);

function choose(number) {
  view.episode = (number + content.episodes.length) % content.episodes.length;
  panes = clips().map((clip, which) => makePane(clip, which));
  at("stage").replaceChildren(...panes.map(pane => pane.place));
  at("scrub").max = last();
  [...at("list").children].forEach((button, each) => button.setAttribute("aria-current", each === view.episode));
  const button = at("list").children[view.episode];  // scrollIntoView would also scroll the page
  at("list").scrollTop = button.offsetTop - at("list").offsetTop - (at("list").clientHeight - button.clientHeight) / 2;
  fillLegend(at("legend"), clips()[0].legend, marksOf(clips()));
  at("note").style.minWidth = `${Math.max(...Array.from({ length: last() + 1 }, (_, frame) => noteAt(frame).length))}ch`;
  resize();
  go(0);
  document.dispatchEvent(new CustomEvent("episode", { detail: view.episode }));
}

function makePane(clip, which) {
  const label = content.labels[which];
  const place = element("div", "", "pane"), canvas = document.createElement("canvas");
  place.append(canvas, element("p", label ? `${label} · ${clip.title}` : clip.title));
  const pane = { clip, place, canvas, pen: canvas.getContext("2d"), bodies: [] };
  canvas.onclick = event => {
    const ratio = canvas.width / canvas.clientWidth;
    change({ selected: bodyAt(pane, event.offsetX * ratio, event.offsetY * ratio)?.name ?? null, pane: which });
  };
  return pane;
}

function resize() {
  const ratio = devicePixelRatio || 1;
  for (const canvas of [...panes.map(pane => pane.canvas), at("timeline")]) {
    canvas.width = Math.max(1, Math.round(canvas.clientWidth * ratio));
    canvas.height = Math.max(1, Math.round(canvas.clientHeight * ratio));
  }
}

function go(number) {
  view.time = Math.max(0, Math.min(number, last()));
  restart();
  draw();
}

function restart() {
  since = performance.now();
  from = view.time;
}

function setPlaying(wanted) {
  if (wanted && frameNow() >= last()) go(0);
  view.playing = wanted;
  at("play").textContent = wanted ? "Pause" : "Play";
  restart();
  if (wanted) requestAnimationFrame(advance);
  else draw();
}

function advance(now) {
  if (!view.playing) return;
  // A picture may have begun before the click that it follows.
  const passed = Math.max(0, now - since) / 1000;
  view.time = Math.min(from + passed * clips()[0].rate * at("speed").value, last());
  draw();
  if (view.time >= last()) setPlaying(false);
  else requestAnimationFrame(advance);
}

const noteAt = frame => clips().map(clip => clip.frames[Math.min(frame, clip.frames.length - 1)][0]).join(" · ");

function draw() {
  const frame = frameNow();
  view.pointed = Number(at("facts").querySelector("tr[data-entity]:hover")?.dataset.entity ?? -1);
  panes.forEach(pane => drawPane(pane, view.time, view));
  drawTimeline(at("timeline"), clips(), view.time, last());
  if (frame !== drawnFrame || !view.playing) drawTexts(frame);
  const names = bodies(clips()[0], Math.min(frame, clips()[0].frames.length - 1)).map(body => body.name);
  window.shown = { ...view, frame, names };
}

function drawTexts(frame) {
  drawnFrame = frame;
  at("scrub").value = frame;
  at("note").textContent = noteAt(frame);
  drawNumbers(at("numbers"), clips(), frame);
  inspect(clips()[view.pane], frame, view);
}

function change(values) {
  Object.assign(view, values);
  for (const [name, on] of [["follow", view.follow], ["numbered", view.numbered]]) at(name).setAttribute("aria-pressed", on);
  drawnFrame = -1;
  draw();
}

const select = name => change({ selected: name });

function selectNext() {
  const names = window.shown.names;
  select(names.length ? names[(names.indexOf(view.selected) + 1) % names.length] : null);
}

/** Show the next of the random partitions. */
function nextPartition() {
  const { details } = clips()[view.pane];
  if (details) change({ groups: true, partition: (view.partition + 1) % details.groups.length });
}

function setSpeed(step) {
  const place = Math.max(0, Math.min(SPEEDS.indexOf(at("speed").value) + step, SPEEDS.length - 1));
  at("speed").value = SPEEDS[place];
  restart();
}

/** Save what is shown as a PNG; panes next to each other become one picture. */
function savePicture() {
  const picture = document.createElement("canvas"), pen = picture.getContext("2d");
  picture.width = panes.reduce((sum, pane) => sum + pane.canvas.width, 0);
  picture.height = panes[0].canvas.height;
  pen.fillStyle = "#1e293b";
  pen.fillRect(0, 0, picture.width, picture.height);
  panes.reduce((left, pane) => { pen.drawImage(pane.canvas, left, 0); return left + pane.canvas.width; }, 0);
  const link = document.createElement("a");
  link.download = `episode_${view.episode + 1}_frame_${frameNow()}.png`;
  link.href = picture.toDataURL("image/png");
  link.click();
}

const KEYS = {
  " ": () => setPlaying(!view.playing),
  ArrowRight: event => go(frameNow() + (event.shiftKey ? 10 : 1)),
  ArrowLeft: event => go(Math.ceil(view.time) - (event.shiftKey ? 10 : 1)),
  Home: () => go(0),
  End: () => go(last()),
  "[": () => setSpeed(-1),
  "]": () => setSpeed(1),
  n: () => choose(view.episode + 1),
  p: () => choose(view.episode - 1),
  u: selectNext,
  Escape: () => select(null),
  g: () => change({ groups: !view.groups }),
  r: nextPartition,
  l: () => change({ numbered: !view.numbered }),
  f: () => change({ follow: !view.follow }),
  s: savePicture,
};

/** Show other episodes than before, the first one from its start. */
function load(fresh) {
  content = fresh;
  Object.assign(view, { playing: false, pane: 0 });
  at("play").textContent = "Play";
  at("list").replaceChildren(...content.episodes.map((each, number) => {
    const button = element("button", each.map(clip => clip.title).join(" | "));
    button.onclick = () => choose(number);
    return button;
  }));
  choose(0);
}

document.onkeydown = event => {
  const action = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!action || !panes.length || event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
  event.preventDefault();
  action(event);
};
at("play").onclick = () => setPlaying(!view.playing);
at("back").onclick = () => go(Math.ceil(view.time) - 1);
at("forward").onclick = () => go(frameNow() + 1);
at("scrub").oninput = () => go(Number(at("scrub").value));
at("speed").onchange = () => { restart(); at("speed").blur(); };  // keys work again
at("groups").onchange = () => { change({ groups: at("groups").checked }); at("groups").blur(); };
at("head").onchange = () => { change({ head: Number(at("head").value) }); at("head").blur(); };
at("partition").onclick = nextPartition;
at("numbered").onclick = KEYS.l;
at("facts").onpointerover = at("facts").onpointerleave = () => { if (panes.length) draw(); };
at("facts").onclick = event => {
  const row = event.target.closest("tr[data-entity]"), { clip } = panes[view.pane];
  const body = row && bodies(clip, Math.min(frameNow(), clip.frames.length - 1)).find(each => each.entity === Number(row.dataset.entity));
  if (body) select(body.name);
};
at("follow").onclick = () => change({ follow: !view.follow });
at("save").onclick = savePicture;
at("timeline").onpointerdown = at("timeline").onpointermove = event => {
  if (event.buttons) go(Math.round(((event.offsetX - 4) / (at("timeline").clientWidth - 8)) * last()));
};
new ResizeObserver(() => { if (panes.length) { resize(); draw(); } }).observe(at("stage"));
if (content.episodes.length) {
  load(content);
  if (location.hash !== "#paused") setPlaying(true);
}
