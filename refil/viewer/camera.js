// What a pane shows: the whole plane, or a window that follows the bodies.
const MARGIN = 0.05, SMALLEST = 0.35;  // as fractions of the plane's larger side
const AROUND = 1.5;  // seconds before and after over which the window is averaged

/** Return the smallest box around all bodies and areas of a frame, or the whole plane. */
function box(clip, frame) {
  clip.boxes ??= [];
  if (!clip.boxes[frame]) {
    const xs = [], ys = [];
    for (const { x, y, radius } of bodies(clip, frame)) {
      if (!finite(x, y, radius)) continue;
      xs.push(x - radius, x + radius);
      ys.push(y - radius, y + radius);
    }
    for (const number of clip.frames[frame][3]) {
      for (const [x, y] of clip.areas[number][0]) if (finite(x, y)) { xs.push(x); ys.push(y); }
    }
    clip.boxes[frame] = xs.length ? [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)] : [0, 0, clip.width, clip.height];
  }
  return clip.boxes[frame];
}

/** Return the box to show at a time: the average over frames nearby, which moves smoothly, and everything there now. */
function boxAround(clip, time) {
  const reach = Math.max(1, AROUND * clip.rate), total = [0, 0, 0, 0], end = clip.frames.length - 1;
  let sum = 0;
  for (let frame = Math.max(0, Math.ceil(time - reach)); frame <= Math.min(end, time + reach); frame++) {
    const weight = 1 - Math.abs(frame - time) / (reach + 1);
    box(clip, frame).forEach((edge, side) => { total[side] += weight * edge; });
    sum += weight;
  }
  const part = time - Math.floor(time), now = box(clip, Math.floor(time)), next = box(clip, Math.min(end, Math.ceil(time)));
  return total.map((edge, side) => (side < 2 ? Math.min : Math.max)(edge / sum, now[side] + part * (next[side] - now[side])));
}

/** Return the scale in pixels and the lower left corner of what a pane shows. */
function cameraAt({ clip, canvas }, time, follow) {
  const end = Math.min(time, clip.frames.length - 1), side = Math.max(clip.width, clip.height);
  const [left, bottom, right, top] = follow ? boxAround(clip, end) : [0, 0, clip.width, clip.height];
  const margin = follow ? 2 * MARGIN * side : 0.02 * side, least = follow ? SMALLEST * side : 0;
  const width = Math.max(right - left + margin, least), height = Math.max(top - bottom + margin, least);
  const scale = Math.min(canvas.width / width, canvas.height / height) || 1;
  return {
    scale,
    left: (left + right) / 2 - canvas.width / scale / 2,
    bottom: (bottom + top) / 2 - canvas.height / scale / 2,
  };
}

/** Return the body under a point of the screen, in pixels of the canvas. */
function bodyAt({ bodies: shown, camera, canvas }, left, top) {
  const x = camera.left + left / camera.scale, y = camera.bottom + (canvas.height - top) / camera.scale;
  const near = shown.map(body => [Math.hypot(body.x - x, body.y - y) - Math.max(body.radius, 12 / camera.scale), body]);
  return near.filter(([distance]) => distance < 0).sort(([one], [other]) => one - other)[0]?.[1] ?? null;
}
