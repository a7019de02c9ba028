// Runs: playing what is chosen, and showing it alone or next to the run before.

/** Play what is chosen, from the same seed or from another one. */
async function play() {
  if (lab.busy || !at("seed-form").reportValidity()) return;
  if (!at("same-seed").checked) at("seed").value = Math.floor(Math.random() * 1e6);
  const seed = Number(at("seed").value), tab = lab.tab;
  const asked = tab === "battle" ? { units: structuredClone(lab.units), allies: at("allies").value, enemies: at("enemies").value, seed }
    : { player: at("player").value, task: at("task").value, seed };
  remember();
  lab.busy = at("run").disabled = true;
  tell(lab.runs[tab].length ? "Playing…" : "Playing; the first run compiles for some seconds…", "busy");
  const slow = setTimeout(() => tell("Compiling for this choice; the next runs take less than a second…", "busy"), 1500), since = performance.now();
  try {
    const run = { asked, ...(await ask(tab, asked)) };
    lab.runs[tab].unshift(run);
    lab.runs[tab].splice(8);
    tell(`${describeRun(run)} It took ${((performance.now() - since) / 1000).toFixed(1)} s.`);
    if (lab.tab === tab) showRuns(0, true);
    if (run.has_teams) inspectTeams(run);
  } catch (error) {
    tell(error.message, "error");
  } finally {
    clearTimeout(slow);
    lab.busy = at("run").disabled = false;
  }
}

/** Add what the teams saw and expected, which takes longer to compute than the battle. */
async function inspectTeams(run) {
  try {
    run.clip.details = (await ask("inspect", { number: run.number })).details;
    if (panes.some(pane => pane.clip === run.clip)) change({});
  } catch (error) {
    tell(error.message, "error");
  }
}

function describeRun({ summary, asked }) {
  if (!summary.ally) return `${asked.task}: ${summary.won ? "won" : "not won"} after ${summary.steps} steps, return ${summary.return}, seed ${asked.seed}.`;
  const sides = ["ally", "enemy"].map(team => `${SIDE_NAMES[team]} ${share(summary[team].left, summary[team].units)} units, ${percent(summary[team].health)} health`);
  return `${sentence(summary.winner).slice(0, -1)} after ${summary.steps} steps. Left: ${sides.join("; ")}. Seed ${asked.seed}.`;
}

/** Show the runs of this page, newest first, each alone or next to the one before. */
function showRuns(number, start = false) {
  const runs = lab.runs[lab.tab], pairs = runs.map((run, each) => (lab.compare && runs[each + 1] ? [run.clip, runs[each + 1].clip] : [run.clip]));
  setMode("watch");
  load({ ...content, labels: pairs.some(pair => pair.length > 1) ? ["this run", "run before"] : [], episodes: pairs });
  choose(number);
  if (start) setPlaying(true);
}

document.addEventListener("episode", ({ detail }) => {
  const runs = lab.runs[lab.tab];
  if (runs[detail]) fillResult(runs[detail], runs[detail + 1]);
});
