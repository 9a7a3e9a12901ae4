// The timeline: a row for each process, or for those that are alike; shapes count calls, bars are the longest of them.
if (element("ranks")) {
  // Stretches in which nothing begins, happens, or ends: each is drawn as a short gap. `place` leads from a moment to where it
  // is drawn, `unplace` back.
  const gaps = (() => {
    const { bins, width_ns: width, rows } = data.timeline, least = Math.max(8, bins * 0.15), gap = seconds(data.lasted_ns) * 0.025;
    const busy = new Uint8Array(bins + 1);
    const note = (ns) => { busy[Math.min(bins, Math.floor(ns / width))] = 1; };
    rows.forEach(({ calls, longest }) => {
      calls.forEach(([first, ...counts]) => busy.fill(1, first, first + counts.length));
      longest.forEach(([took, at]) => busy.fill(1, Math.floor(at / width), Math.floor((at + took) / width) + 1));
    });
    data.processes.forEach(({ began_ns: began, until_ns: until }) => { note(began); note(until); });
    data.moments.forEach(({ kind, process, at_ns: at }) => {
      note(at);
      if (kind === "hang") note(Math.max(at, data.processes[process].until_ns));
    });
    data.unordered.forEach(({ uses }) => uses.forEach(([, at]) => note(at)));
    const found = [];
    for (let bin = 0, removed = 0; bin < bins; bin++) {
      const first = bin;
      while (bin < bins && !busy[bin]) bin++;
      if (bin - first < least) continue;
      const from = seconds(first * width), to = seconds(Math.min(bin * width, data.lasted_ns));
      if (to - from <= gap) continue;
      found.push({ from, to, at: from - removed, until: from - removed + gap });
      removed += to - from - gap;
    }
    return found;
  })();
  const last = (list, test) => { for (let i = list.length; i-- > 0;) if (test(list[i])) return list[i]; };
  const place = (moment) => {
    const gap = last(gaps, ({ from }) => moment > from);
    if (!gap) return moment;
    return moment < gap.to ? gap.at + (moment - gap.from) / (gap.to - gap.from) * (gap.until - gap.at) : gap.until + moment - gap.to;
  };
  const unplace = (x) => {
    const gap = last(gaps, ({ at }) => x > at);
    if (!gap) return x;
    return x < gap.until ? gap.from + (x - gap.at) / (gap.until - gap.at) * (gap.to - gap.from) : gap.to + x - gap.until;
  };
  const at = (ns) => place(seconds(ns));
  const end = at(data.lasted_ns);
  // Round moments outside of the gaps.
  function ticks(from, to, count) {
    const edges = [from, ...gaps.flatMap(({ at, until }) => [at, until]).filter((x) => x > from && x < to), to];
    return d3.range(0, edges.length - 1).flatMap((i) => {
      const [left, right] = [edges[i], edges[i + 1]];
      if (gaps.some((gap) => gap.at <= left && right <= gap.until)) return [];
      const wanted = Math.round(count * (right - left) / (to - from));
      const round = d3.ticks(unplace(left), unplace(right), Math.max(1, wanted)).map(place);
      return wanted > 0 ? round : round.slice(0, 1);
    });
  }

  const state = { from: 0, to: end, each: false, moment: -1 };
  const whole = () => { state.from = 0; state.to = end; };
  const worst = { died: 0, stuck: 1, hangs: 2, failed: 3, running: 4, ended: 4 };
  const mostRows = 500, mostArrows = 24;
  const isFolded = () => data.groups.length > 0 && !state.each;

  // The rows from the top: of those that are folded, what is wrong comes first.
  function rows() {
    const all = data.processes.map((process, i) => ({ name: process.name, state: process.state, members: [i], id: `p${i}` }));
    if (!isFolded()) return all;
    const grouped = new Set(data.groups.flatMap(([, members]) => members));
    const alone = all.filter((_, i) => !grouped.has(i)).sort((a, b) => worst[a.state] - worst[b.state]);
    const groups = data.groups.map(([name, members]) => (
      { name: `${short(name, 16)} (${members.length})`, state: "ended", members, id: "processes", title: `${members.length} processes that are alike: ${name}` }));
    return [...alone, ...groups];
  }

  // The outline of how many calls begin in each bin, as a mean over the processes of a row.
  function shapes(list) {
    const { bins, width_ns: width } = data.timeline;
    const means = list.map(({ members }) => {
      const sums = new Float64Array(bins);
      for (const member of members)
        for (const [first, ...counts] of data.timeline.rows[member].calls)
          counts.forEach((count, i) => { sums[first + i] += count / members.length; });
      return sums;
    });
    const most = Math.max(1e-9, ...means.map((sums) => sums.reduce((a, b) => Math.max(a, b), 0)));
    const points = [];
    means.forEach((sums, row) => {
      let last = 0;
      sums.forEach((count, bin) => {
        if (count !== last) {
          const x = at(bin * width);
          points.push({ row, x, height: Math.sqrt(last / most) }, { row, x, height: Math.sqrt(count / most) });
        }
        last = count;
      });
      if (last) points.push({ row, x: at(bins * width), height: Math.sqrt(last / most) }, { row, x: at(bins * width), height: 0 });
    });
    return points;
  }

  function draw(node) {
    const all = rows(), list = all.slice(0, mostRows);
    const rowOf = new Map(list.flatMap(({ members }, row) => members.map((member) => [member, row])));
    const howOf = ({ members }) => short(data.processes[members[0]].how, 30);
    // How a process ended abnormally stands in a column of its own.
    const ends = list.filter(({ state }) => ["died", "failed"].includes(state)).map(howOf);
    const width = wideness(node), left = isNarrow() ? 84 : 150, right = isNarrow() || !ends.length ? 24 : 24 + 7 * d3.max(ends, (how) => how.length);
    const hasShapes = data.timeline.calls > data.timeline.single;
    const tall = list.length <= 12 ? 30 : list.length <= 32 ? 20 : list.length <= 80 ? 13 : 9;
    const isIn = (from, to) => to >= state.from && from <= state.to;
    const shown = data.moments.map((moment, i) => ({ ...moment, i, x: at(moment.at_ns), row: rowOf.get(moment.process) }))
      .filter(({ row, x }) => row !== undefined && isIn(x, x));
    const alone = list.flatMap(({ members }, row) => members.length === 1 ? [[row, members[0]]] : []);
    const bars = alone.flatMap(([row, member]) => data.timeline.rows[member].longest.map(([took, begun, name, failed]) => (
      { row, failed, took, x1: at(begun), x2: at(begun + took), text: `${nameOf(member)}: ${data.timeline.functions[name]}${failed ? ", failed" : ""}\n${(took / 1e3).toLocaleString("en")} us at ${seconds(begun).toFixed(6)}` })))
      .filter(({ x1, x2 }) => isIn(x1, x2)).sort((a, b) => b.took - a.took).slice(0, 3000);
    const failed = [...new Map(list.flatMap(({ members }, row) => members.flatMap((member) =>
      data.timeline.rows[member].failed.flatMap(([first, ...counts]) => counts.map((_, i) => [`${row} ${first + i}`, { row, bin: first + i }]))))).values()];
    const hangs = data.moments.filter(({ kind }) => kind === "hang").map(({ process, at_ns, text }) => (
      { row: rowOf.get(process), x1: at(at_ns), x2: at(Math.max(at_ns, data.processes[process].until_ns)), text }));
    // Above the rows.
    const stalls = data.stalls.map(([from, to]) => ({ x1: Math.max(at(from), state.from), x2: Math.min(at(to), state.to), text: `no progress for ${duration(seconds(to - from))}` }))
      .filter(({ x1, x2 }) => x2 > x1);
    const deaths = shown.filter(({ kind }) => kind === "death");
    const others = shown.filter(({ kind }) => !["death", "hang"].includes(kind));
    const bad = { died: "var(--bad-soft)", stuck: "var(--bad-soft)", hangs: "var(--warn-soft)", failed: "var(--warn-soft)" };
    const clip = true;
    const label = (one) => ["died", "stuck"].includes(one.state) ? "var(--bad)" : one.state in bad ? "var(--warn)" : "var(--text)";
    const lives = list.map(({ members }, row) => ({
      row,
      x1: at(Math.min(...members.map((member) => data.processes[member].began_ns))),
      x2: at(Math.max(...members.map((member) => data.processes[member].until_ns))),
    }));
    // From where a handle was exported to where it was opened; and from there to where it was freed too early, or from where it was closed.
    const way = (life, kind, from, start, to, end) => (
      { kind, isFound: life.is_found, x1: at(start), y1: rowOf.get(from) + 0.67, x2: at(end), y2: rowOf.get(to) + 0.67, text: life.name });
    const ways = data.handles.flatMap((life) => life.opens.flatMap(([opener, from, to]) => {
      const { exporter, from_ns: begun, freed_ns: freed } = life;
      if (exporter === null || begun === null || opener === null) return [];
      const isLate = freed !== null && from < freed && (to === null || to > freed);
      return [way(life, "arrow", exporter, begun, opener, from), ...(freed === null || freed < from ? [] : [way(life, isLate ? "late" : "free", opener, isLate ? from : to, exporter, freed)])];
    })).filter(({ x1, x2, y1, y2 }) => y1 !== y2 && y1 + y2 > 0 && x2 >= state.from && x1 <= state.to);
    // Of many, those that a finding is about.
    const arrows = ways.length <= mostArrows ? ways : ways.filter(({ isFound }) => isFound).slice(0, mostArrows);
    const arrowColors = { arrow: "var(--accent)", free: "var(--soft)", late: "var(--bad)" };
    // Two uses, and the arrow that is missing between them; of one process, it is drawn above its row's middle.
    const unordered = data.unordered.map(({ uses: [[from, begun], [to, ended]], text, id }) => (
      { x1: at(begun), y1: rowOf.get(from) + 0.55, x2: at(ended), y2: rowOf.get(to) + (from === to ? 0.3 : 0.55), text, id }))
      .filter(({ x1, x2, y1, y2 }) => y1 + y2 > 0 && Math.max(x1, x2) >= state.from && Math.min(x1, x2) <= state.to).slice(0, mostArrows);
    const uses = unordered.flatMap(({ x1, y1, x2, y2, text, id }) => [{ x: x1, at: y1, text, id }, { x: x2, at: y2, text, id }]);
    const nothing = ({ from, to }) => `nothing for ${duration(to - from)}, from ${from.toFixed(6)} to ${to.toFixed(6)}`;
    const chosen = shown.filter(({ i }) => i === state.moment);
    const count = isNarrow() ? 4 : 8, every = ticks(state.from, state.to, count);
    // Behind a gap, two ticks can be too close for their labels.
    const apart = 58 * (state.to - state.from) / (width - left - right);
    const marked = every.reduce((kept, x) => kept.length && x - kept.at(-1) < apart ? kept : [...kept, x], []);
    const shownTime = inSeconds(state.to - state.from);
    const tickFormat = (x) => shownTime(unplace(x));
    const tips = [...shown.map((moment) => ({ ...moment, at: moment.row + 0.4 })),
      ...bars.map(({ row, x1, x2, text }) => ({ x: (Math.max(x1, state.from) + Math.min(x2, state.to)) / 2, at: row + 0.5, text })), ...uses];
    const svg = Plot.plot({
      width, height: list.length * tall + 66, marginLeft: left, marginRight: right, marginTop: 24, marginBottom: 38,
      x: { domain: [state.from, state.to], axis: null }, y: { domain: [list.length, 0], axis: null },
      marks: [
        Plot.axisX({ anchor: "top", ticks: marked, label: null, tickFormat }),
        Plot.axisX({ anchor: "bottom", ticks: marked, label: sinceBegin, tickFormat }),
        Plot.gridX({ stroke: "var(--line)", strokeOpacity: 1, ticks: marked }),
        Plot.rect(list.map((one, row) => ({ one, row })).filter(({ one }) => one.state in bad),
          { x1: state.from, x2: state.to, y1: "row", y2: ({ row }) => row + 1, fill: ({ one }) => bad[one.state] }),
        Plot.rect(stalls, { x1: "x1", x2: "x2", y1: -0.14, y2: -0.02, fill: "var(--bad)", title: "text" }),
        Plot.rect(gaps, { x1: "at", x2: "until", y1: 0, y2: list.length, fill: "var(--line)", title: nothing, clip }),
        // In a narrow gap, its duration stands upright.
        ...[true, false].map((isWide) => Plot.text(gaps.filter(({ at, until }) => isIn(at, until) && (until - at) / (state.to - state.from) * (width - left - right) > 46 === isWide), {
          x: ({ at, until }) => (at + until) / 2, y: list.length / 2, text: ({ from, to }) => duration(to - from), rotate: isWide ? 0 : -90, fill: "var(--soft)", fontSize: 9, clip,
        })),
        Plot.ruleY(lives, { y: ({ row }) => row + 0.92, x1: "x1", x2: "x2", stroke: "var(--faint)", clip }),
        Plot.areaY(hasShapes ? shapes(list) : [], { x: "x", y1: ({ row }) => row + 0.92, y2: ({ row, height }) => row + 0.92 - 0.78 * height, z: "row", fill: "var(--shape)", clip }),
        Plot.rect(bars, { x1: "x1", x2: "x2", y1: ({ row }) => row + 0.42, y2: ({ row }) => row + 0.92, fill: ({ failed }) => failed ? "var(--bad)" : "var(--call)", stroke: ({ failed }) => failed ? "var(--bad)" : "var(--call)", strokeWidth: 0.6, clip }),
        Plot.rect(failed, { x1: ({ bin }) => at(bin * data.timeline.width_ns), x2: ({ bin }) => at((bin + 1) * data.timeline.width_ns), y1: ({ row }) => row + 0.18, y2: ({ row }) => row + 0.92, fill: "var(--bad)", stroke: "var(--bad)", strokeWidth: 1, clip }),
        Plot.rect(hangs.filter(({ row }) => row !== undefined), { x1: "x1", x2: "x2", y1: ({ row }) => row + 0.3, y2: ({ row }) => row + 0.92, fill: "var(--hang)", fillOpacity: 0.75, stroke: "var(--hang)", clip }),
        Plot.arrow(arrows, { x1: "x1", y1: "y1", x2: "x2", y2: "y2", bend: 12, headLength: 8, stroke: ({ kind }) => arrowColors[kind], strokeWidth: ({ kind }) => kind === "late" ? 2 : 1, title: "text", clip }),
        Plot.link(unordered, { x1: "x1", y1: "y1", x2: "x2", y2: "y2", stroke: "var(--warn)", strokeWidth: 1.6, strokeDasharray: "5 4", markerEnd: "arrow", title: "text", ariaLabel: "nothing orders these", clip }),
        Plot.dot(uses, { x: "x", y: "at", r: 4, symbol: "square", fill: "var(--warn)", stroke: "var(--panel)", title: "text", href: ({ id }) => `#${id}`, clip }),
        Plot.text(unordered.slice(0, 4), { x: ({ x1, x2 }) => (x1 + x2) / 2, y: ({ y1, y2 }) => (y1 + y2) / 2, dy: -8, text: () => "nothing orders these", fontSize: 10, fill: "var(--warn)", stroke: "var(--panel)", strokeWidth: 3, clip }),
        Plot.ruleX(chosen, { x: "x", stroke: "var(--accent)", strokeWidth: 2 }),
        Plot.dot(others, { x: "x", y: ({ row }) => row + 0.28, r: Math.min(5, tall / 4 + 1), symbol: ({ kind }) => kind === "mark" ? "triangle2" : "diamond2", fill: ({ kind }) => `var(--${kind})`, stroke: "var(--panel)", strokeWidth: 0.8, href: ({ id }) => `#${id}` }),
        Plot.dot(deaths, { x: "x", y: ({ row }) => row + 0.5, r: Math.min(8, tall / 2.6), symbol: "times", stroke: "var(--bad)", strokeWidth: 3.2, href: ({ id }) => `#${id}` }),
        right > 24 ? Plot.text(list.map((one, row) => ({ one, row })).filter(({ one }) => ["died", "failed"].includes(one.state)), {
          frameAnchor: "right", y: ({ row }) => row + 0.5, dx: 8, textAnchor: "start", fontSize: Math.min(12, tall),
          text: ({ one }) => howOf(one), fill: ({ one }) => label(one), fontWeight: 600,
        }) : null,
        Plot.text(list.map((one, row) => ({ one, row })), {
          frameAnchor: "left", y: ({ row }) => row + 0.5, dx: -8, textAnchor: "end", fontSize: Math.min(12, tall),
          text: ({ one }) => isNarrow() ? short(one.name.replace("process ", "").replace(/, .*/, ""), 12) : short(one.name, 22), title: ({ one }) => one.title ?? one.name,
          fill: ({ one }) => label(one), href: ({ one }) => `#${one.id}`,
        }),
        Plot.tip(tips, Plot.pointer({ x: "x", y: "at", title: "text", maxRadius: 24, fill: "var(--panel)", stroke: "var(--faint)", lineWidth: isNarrow() ? 18 : 36 })),
      ],
    });
    svg.querySelectorAll("a").forEach((link) => link.setAttribute("tabindex", "-1"));
    legend("ranks", {
      call: bars.length, shape: Number(hasShapes), failed: failed.length + bars.filter(({ failed }) => failed).length, hang: hangs.length, death: deaths.length, stall: stalls.length, gap: gaps.length, unordered: unordered.length,
      ...Object.fromEntries(["error", "warning", "note", "mark"].map((kind) => [kind, others.filter((one) => one.kind === kind).length])),
      ...Object.fromEntries(Object.keys(arrowColors).map((kind) => [kind, arrows.filter((one) => one.kind === kind).length])),
      "dead-row": list.filter(({ state }) => ["died", "stuck"].includes(state)).length, "wrong-row": list.filter(({ state }) => ["hangs", "failed"].includes(state)).length,
    });
    brush(svg, width - right, left, list.length * tall + 66);
    put("ranks", svg);
    const folded = data.groups.reduce((sum, [, members]) => sum + members.length, 0);
    const cut = all.length - list.length;
    element("folded").textContent = (isFolded() ? `${folded.toLocaleString("en")} processes that are alike share ${data.groups.length === 1 ? "a row" : `${data.groups.length} rows`}, whose shape is their mean.` : "") + (cut ? ` ${cut.toLocaleString("en")} rows are not drawn.` : "");
  }

  // A stretch that is drawn over is looked at closer.
  function brush(svg, width, left, height) {
    const x = svg.scale("x");
    const over = d3.brushX().extent([[left, 20], [width, height - 36]]).on("end", ({ selection, sourceEvent }) => {
      if (!selection || !sourceEvent) return;
      const [from, to] = selection.map((place) => x.invert(place));
      if (to > from) look(from, to);
    });
    d3.select(svg).insert("g", ":first-child").attr("class", "brush").call(over);
  }

  function look(from, to) {
    const least = Math.min(1e-6, end);
    const length = Math.min(end, Math.max(least, to - from));
    const start = Math.max(0, Math.min(end - length, from));
    [state.from, state.to] = [start, start + length];
    draw(element("ranks"));
  }
  const zoom = (factor) => {
    const x = state.moment >= 0 ? at(data.moments[state.moment].at_ns) : (state.from + state.to) / 2;
    const middle = x >= state.from && x <= state.to ? x : (state.from + state.to) / 2;
    const half = (state.to - state.from) * factor / 2;
    look(middle - half, middle + half);
  };
  const move = (share) => { const by = (state.to - state.from) * share; look(state.from + by, state.to + by); };
  function step(by) {
    if (!data.moments.length) return;
    state.moment = state.moment < 0 ? (by > 0 ? 0 : data.moments.length - 1) : (state.moment + by + data.moments.length) % data.moments.length;
    const moment = data.moments[state.moment], x = at(moment.at_ns);
    const link = document.createElement("a");
    link.href = `#${moment.id}`;
    link.textContent = `${seconds(moment.at_ns).toFixed(6)}  ${moment.text}`;
    element("moment").replaceChildren(link);
    const half = (state.to - state.from) / 2;
    if (x < state.from || x > state.to) look(x - half, x + half); else draw(element("ranks"));
  }
  const keys = {
    ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2),
    0: () => { whole(); draw(element("ranks")); }, n: () => step(1), p: () => step(-1),
    Enter: () => { if (state.moment >= 0) location.hash = data.moments[state.moment].id; },
  };
  element("ranks").addEventListener("keydown", (event) => {
    const act = keys[event.key];
    if (act && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); act(); }
  });
  Object.entries({ "zoom-in": "+", "zoom-out": "-", fit: 0, previous: "p", next: "n" }).forEach(([id, key]) => { element(id).onclick = keys[key]; });
  const each = element("each");
  each.hidden = data.groups.length === 0;
  each.onclick = () => {
    state.each = !state.each;
    each.setAttribute("aria-pressed", state.each);
    draw(element("ranks"));
  };
  const count = data.moments.length;
  element("steps").hidden = count === 0;
  element("steps").append(`${count.toLocaleString("en")} notable ${count === 1 ? "moment" : "moments"}`);
  picture("ranks", draw);
}
