// Waiting, running and allocated over time, all policies in one picture.
function timeline(holder, height, key, runs, shown, text) {
  const from = Math.min(...runs.map((run) => run.window[0]));
  const to = Math.max(...runs.map((run) => run.window[1]));
  const isPart = key === "allocated" || key === "attainment";
  const scaled = (run, value) => (key === "allocated" ? (run.gpus ? value / run.gpus : 0) : value);
  const width = (run) => (run.window[1] - run.window[0]) / run.series[key].length;

  const points = (run) => [
    ...run.series[key].map((value, i) => [run.window[0] + i * width(run), scaled(run, value)]),
    [run.window[1], key === "attainment" ? run.series[key].at(-1) : 0],
  ];
  const read = ({ run }, at) => {
    const values = runs[run].series[key];
    const place = Math.floor((at - runs[run].window[0]) / width(runs[run]));
    if (place < 0 || place > values.length || (place === values.length && at > runs[run].window[1])) return null;
    const value = scaled(runs[run], values[Math.min(place, values.length - 1)]);
    return { order: value, text: text(value, runs[run]) };
  };
  return new LineChart(holder, height, () => {
    const lines = runs.flatMap((run, i) => (shown.has(i) ? [{ run: i, name: run.policy, points: points(run) }] : []));
    const most = Math.max(0, ...lines.flatMap((line) => line.points.map(([, y]) => y)));
    const top = isPart ? 1 : Math.max(1, most * 1.04);
    return {
      lines, read,
      x: { from, to, ticks: (pixels) => timeTicks(from, to, pixels / 58) },
      y: { to: top, ticks: numberTicks(top, 5, isPart ? percent : (value) => short(value)) },
      title: (at) => `at ${duration(at)}`,
      label: `${key} over time; at most ${isPart ? percent(most) : short(most)}. Arrow keys read values.`,
    };
  });
}
