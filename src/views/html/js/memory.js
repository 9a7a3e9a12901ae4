// Memory of each device over time: an area for each process and state, stacked, with the device's size and the calls that failed.
{
  const units = [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10], ["B", 1]];
  const unitOf = (bytes) => units.find(([, size]) => bytes >= size) ?? units[3];
  const inBytes = (bytes) => {
    const [unit, size] = unitOf(bytes);
    return `${Number((bytes / size).toFixed(bytes < 100 * size && size > 1 ? 1 : 0)).toLocaleString("en")} ${unit}`;
  };
  // So many processes of a device have colors of their own; smaller ones share one.
  const most = 6;
  const shade = ({ color }) => color < most ? `var(--own${color})` : "var(--shape)";
  const whose = ({ process, others }) => others ? `${others} other processes` : process === null ? "unknown process" : nameOf(process);
  const called = (series) => `${whose(series)}${series.state && `, ${series.state}`}`;

  // The bytes at each time, of which the page has the changes.
  const expand = (changes, count) => {
    let next = 0, last = 0;
    return d3.range(count).map((i) => next < changes.length && changes[next][0] === i ? (last = changes[next++][1]) : last);
  };

  // The areas of a device from the ground up: first all that is in use, the largest process first.
  function areas(device) {
    const series = device.series.map(([process, state, changes]) => [process, state, expand(changes, device.times_ns.length)]);
    const sums = d3.rollup(series, (all) => d3.sum(all, ([, , bytes]) => d3.max(bytes)), ([process]) => process);
    const order = [...sums].sort((a, b) => b[1] - a[1]).map(([process]) => process);
    const own = order.slice(0, order.length > most + 1 ? most : order.length);
    const all = new Map();
    series.forEach(([process, state, bytes]) => {
      const isOwn = own.includes(process), color = isOwn ? own.indexOf(process) : most, key = `${color} ${state}`;
      const one = all.get(key) ?? { process, state, color, others: isOwn ? 0 : order.length - own.length, bytes: bytes.map(() => 0) };
      one.bytes = one.bytes.map((sum, i) => sum + bytes[i]);
      all.set(key, one);
    });
    return [...all.values()].sort((a, b) => (a.state !== "") - (b.state !== "") || a.color - b.color);
  }

  data.memory.forEach((device, number) => {
    const id = `memory${number}`, all = areas(device), times = device.times_ns.map(seconds);
    const sums = times.map((_, i) => d3.sum(all, ({ bytes }) => bytes[i]));
    const end = seconds(data.lasted_ns), failures = device.failures.map(([at, text, id]) => ({ at: seconds(at), text, id }));
    const ceiling = Math.max(device.total ?? 0, ...sums, 1), [unit, size] = unitOf(ceiling);
    // Each area lasts from one moment to the next.
    const below = times.map(() => 0);
    const steps = all.map((series) => {
      const points = times.map((x, i) => ({ series, x, until: times[i + 1] ?? end, low: below[i], high: below[i] += series.bytes[i] }));
      return { series, points, line: [...points, { ...points.at(-1), x: end }] };
    });
    const upon = (x) => Math.max(0, d3.bisectRight(times, x) - 1);
    const said = (i) => all.filter(({ bytes }) => bytes[i] > 0).sort((a, b) => b.bytes[i] - a.bytes[i]);
    const title = (at, i) => `${inSeconds(end)(at)}: ${inBytes(sums[i])}${device.total ? ` of ${inBytes(device.total)}` : ""}`;
    // What the line below says is chosen by keys: at first the first failure, or the most memory.
    const moments = [...new Set([...times, ...failures.map(({ at }) => at)])].sort((a, b) => a - b);
    let chosen = moments.indexOf(failures.length ? failures[0].at : times[d3.maxIndex(sums)]);

    // The name of an area is where there is most room for it.
    function label({ series, points }, x, tall) {
      let best = { score: 0 };
      points.forEach((first, i) => {
        let { low, high } = first;
        for (let j = i; j < points.length; j++) {
          [low, high] = [Math.max(low, points[j].low), Math.min(high, points[j].high)];
          if (tall(high - low) < 14) break;
          const room = x(points[j].until) - x(first.x), score = Math.min(room, 220) * Math.min(tall(high - low), 40);
          if (score > best.score) best = { score, room, x: (first.x + points[j].until) / 2, y: (low + high) / 2 };
        }
      });
      const fits = Math.floor((best.room - 8) / 6.4), text = [called(series), short(whose(series), Math.max(8, fits))].find(({ length }) => length <= fits);
      return text ? [{ ...best, text }] : [];
    }

    function draw(node) {
      const width = wideness(node), height = node.closest(".whole") ? 250 : 170, left = 46, right = 14, top = 36, bottom = 34;
      const x = d3.scaleLinear([0, end], [left, width - right]), tall = (bytes) => bytes / (ceiling * 1.1) * (height - top - bottom);
      const ticks = d3.ticks(0, ceiling / size, height / 50).map((tick) => tick * size);
      // Names of failures that would overlap are left out; the line of each is there.
      let taken = 0;
      const names = failures.flatMap((failure) => {
        const at = x(failure.at), isLate = at > width / 2, text = short(failure.text, Math.floor((isLate ? at : width - at) / 6.8));
        const [from, to] = isLate ? [at - 6.8 * text.length, at] : [at, at + 6.8 * text.length];
        if (from < taken) return [];
        taken = to;
        return [{ ...failure, text, isLate }];
      });
      const name = (late, textAnchor, dx) => Plot.text(names.filter(({ isLate }) => isLate === late), { x: "at", frameAnchor: "top", dy: -9, dx, textAnchor, text: "text", fill: "var(--bad)", fontWeight: 600, href: ({ id }) => id && `#${id}` });
      const area = { x: "x", y1: "low", y2: "high", curve: "step-after" };
      const svg = Plot.plot({
        width, height, marginLeft: left, marginRight: right, marginTop: top, marginBottom: bottom, x: { domain: [0, end] }, y: { domain: [0, ceiling * 1.1] },
        marks: [
          Plot.axisY(ticks, { tickFormat: (bytes) => (bytes / size).toLocaleString("en"), label: unit, tickSize: 3 }),
          Plot.gridY(ticks, { stroke: "var(--line)", strokeOpacity: 1 }),
          Plot.axisX({ ticks: isNarrow() ? 4 : 8, label: sinceBegin, tickFormat: inSeconds(end) }),
          ...steps.map(({ series, line }) => Plot.areaY(line, { ...area, fill: shade(series), fillOpacity: series.state ? 0.3 : 0.85, stroke: "var(--panel)", strokeWidth: 0.6 })),
          ...steps.filter(({ series }) => series.state).map(({ series, line }) => Plot.areaY(line, { ...area, fill: `url(#${id}-hatch${series.color})` })),
          device.total ? Plot.ruleY([device.total], { stroke: "var(--text)", strokeDasharray: "5 3" }) : null,
          device.total ? Plot.text([device.total], { y: (total) => total, frameAnchor: "left", dx: 4, dy: -7, text: () => `the device has ${inBytes(device.total)}`, fill: "var(--soft)" }) : null,
          Plot.text(steps.flatMap((step) => label(step, x, tall)), { x: "x", y: "y", text: "text", fill: "var(--text)", stroke: "var(--panel)", strokeWidth: 3.5, strokeOpacity: 0.85, fontSize: 11 }),
          Plot.ruleX([moments[chosen]], { stroke: "var(--accent)", strokeDasharray: "2 2" }),
          Plot.ruleX(failures, { x: "at", stroke: "var(--bad)", strokeWidth: 1.6 }),
          name(false, "start", -2), name(true, "end", 2),
          Plot.tip(times, Plot.pointerX({ x: (at) => at, y: (_, i) => sums[i], title: (_, i) => [title(times[i], i), ...said(i).map((one) => `${inBytes(one.bytes[i])} ${short(called(one), 40)}`)].join("\n"), maxRadius: Infinity, fill: "var(--panel)", stroke: "var(--faint)" })),
        ],
      });
      const hatches = d3.select(svg).append("defs").selectAll().data(d3.range(most + 1)).join("pattern");
      hatches.attr("id", (color) => `${id}-hatch${color}`).attr("width", 6).attr("height", 6).attr("patternUnits", "userSpaceOnUse").attr("patternTransform", "rotate(45)")
        .append("rect").attr("width", 2.5).attr("height", 6).attr("style", (color) => `fill: ${shade({ color })}`);
      svg.querySelectorAll("a").forEach((link) => link.setAttribute("tabindex", "-1"));
      put(id, svg);
      const i = upon(moments[chosen]);
      const keys = said(i).map((one) => {
        const key = document.createElement("span");
        key.className = one.state ? "own hatched" : "own";
        key.style.setProperty("--own", shade(one));
        key.append(`${called(one)}: ${inBytes(one.bytes[i])}`);
        return key;
      });
      element(`${id}-at`).replaceChildren(`${title(moments[chosen], i)} `, ...keys);
    }
    element(id).addEventListener("keydown", ({ key }) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[key];
      if (!by) return;
      chosen = Math.max(0, Math.min(moments.length - 1, chosen + by));
      draw(element(id));
    });
    picture(id, draw);
  });
}
