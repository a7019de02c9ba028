// The timeline: levels such as both sides' health, rewards, the return, and where bodies disappear.
const RETURN = "#e2e8f0", REWARD = "#facc15", COST = "#fb7185";  // a negative reward is a cost

/** Return the returns until each frame, and the frames at which bodies disappear, with their colors. */
function history_(clip) {
  if (clip.history) return clip.history;
  const returns = [0], gone = [];
  clip.rewards.forEach(reward => returns.push(returns.at(-1) + (reward ?? 0)));
  for (let frame = 1; frame < clip.frames.length; frame++) {
    const there = new Set(bodies(clip, frame).map(body => body.name));
    for (const body of bodies(clip, frame - 1)) if (!there.has(body.name)) gone.push([frame, body.color, body.name]);
  }
  clip.history = { returns, gone };
  return clip.history;
}

/** Draw the timeline of all clips of an episode; the second one has dashed lines. */
function drawTimeline(canvas, clips, frame, last) {
  const pen = canvas.getContext("2d"), { width, height } = canvas, x = at => (last ? at / last : 0) * (width - 8) + 4;
  const ratio = devicePixelRatio || 1, low = height - 4, high = 14 * ratio;
  pen.clearRect(0, 0, width, height);
  clips.forEach((clip, number) => {
    const { returns, gone } = history_(clip), most = Math.max(...returns), least = Math.min(...returns);
    const rewards = clip.rewards.map(reward => reward ?? 0), peak = Math.max(...rewards.map(Math.abs), 1e-9);
    const line = (values, color, wide) => {
      pen.strokeStyle = color;
      pen.lineWidth = wide * ratio;
      pen.setLineDash(number ? [5 * ratio, 4 * ratio] : []);
      pen.beginPath();
      values.forEach((value, at) => pen.lineTo(x(at), low - Math.max(0, Math.min(1, value)) * (low - high)));
      pen.stroke();
      pen.setLineDash([]);
    };
    pen.globalAlpha = number ? 0.3 : 0.7;
    const bar = Math.max(1, ((width - 8) / Math.max(1, last)) * 0.5);
    rewards.forEach((reward, at) => {
      pen.fillStyle = reward < 0 ? COST : REWARD;
      pen.fillRect(x(at + 0.5) - bar / 2, low, bar, ((-Math.abs(reward) / peak) * (low - high)) / 2);
    });
    pen.globalAlpha = 1;
    clip.levels.forEach(([, color], which) => line(clip.frames.map(each => each[4][which] ?? 0), color, 2));
    if (clip.rewards.length) line(returns.map(value => (value - least) / (most - least || 1)), RETURN, 1);
    pen.font = `${11 * ratio}px system-ui, sans-serif`;
    pen.textAlign = "center";
    for (const [at, color] of gone) {
      pen.fillStyle = color;
      pen.fillText("✕", x(at), (10 + (number ? 10 : 0)) * ratio);
    }
  });
  pen.fillStyle = "#f8fafc";
  pen.fillRect(x(Math.min(frame, last)) - ratio, 0, 2 * ratio, height);
}

/** Show the numbers of the current frame in the colors of their lines. */
function drawNumbers(place, clips, frame) {
  const parts = [];
  clips.forEach((clip, number) => {
    const at = Math.min(frame, clip.frames.length - 1), { returns } = history_(clip), side = clips.length > 1 ? ` ${number + 1}` : "";
    clip.levels.forEach(([name, color], which) => parts.push([`${name}${side} ${percent(clip.frames[at][4][which])}`, color]));
    if (!clip.rewards.length) return;
    parts.push([`reward${side} ${(clip.rewards[at - 1] ?? 0).toFixed(2)}`, REWARD]);
    parts.push([`return${side} ${(returns[at] ?? 0).toFixed(2)}`, RETURN]);
  });
  patch(place, parts.map(([words, color]) => {
    const span = element("span", `■ ${words}`);
    span.style.color = lighter(color);
    span.style.minWidth = `${words.replace(/[-\d.%]+$/, "").length + 8}ch`;  // whatever the number, nothing moves
    return span;
  }));
}

const percent = share => `${Math.round(100 * (share ?? 0))}%`;
const lighter = color => `color-mix(in srgb, ${color} 75%, white)`;
