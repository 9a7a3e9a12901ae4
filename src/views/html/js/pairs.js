// Devices and processes in pairs: two matrices, and where processes are.
{
  const words = { e: "enabled", y: "can access", n: "cannot access", o: "opened over IPC", "!": "failed" };
  const inWords = (letters) => [...letters].map((letter) => words[letter] ?? "").filter(Boolean).join(", ") || "asked";
  const colorOf = (letters) => letters.includes("!") ? "var(--bad)" : letters.includes("o") ? "var(--call)" : letters.includes("e") ? "var(--good)" : letters.includes("n") ? "var(--faint)" : "var(--shape)";
  const inkOf = (letters) => /[!oe]/.test(letters) ? "var(--on-color)" : "var(--text)";

  const fateColors = { died: "var(--bad)", stuck: "var(--bad)", hangs: "var(--hang)", failed: "var(--warn)" };

  function matrix(node, names, cells, options) {
    const room = Math.min(wideness(node), 34 * names.length + 190);
    const isMany = names.length > 18;
    const left = Math.min(146, 30 + 7 * d3.max(names, (name) => Math.min(18, name.length)));
    const every = Math.ceil(names.length / 18);
    const ticks = d3.range(0, names.length, every);
    const label = (i) => short(names[i], 17);
    return Plot.plot({
      width: room, height: Math.max(60, room - left - 62) + (isMany ? 76 : 106), marginLeft: left, marginTop: isMany ? 70 : 100, marginRight: 62, marginBottom: 6,
      x: { type: "band", domain: d3.range(names.length), axis: null }, y: { type: "band", domain: d3.range(names.length), axis: null },
      marks: [
        Plot.axisX({ anchor: "top", ticks, tickFormat: label, tickRotate: -45, tickSize: 0, label: options.to }),
        Plot.axisY({ ticks, tickFormat: label, tickSize: 0, label: options.from }),
        Plot.frame({ stroke: "var(--line)" }),
        Plot.cell(cells, { x: "to", y: "from", inset: isMany ? 0 : 0.5, fill: options.fill, fillOpacity: options.opacity, title: "text" }),
        isMany ? null : Plot.text(cells, { x: "to", y: "from", text: options.text, fill: options.ink, fontSize: 11, pointerEvents: "none" }),
        Plot.tip(cells, Plot.pointer({ x: "to", y: "from", title: "text", fill: "var(--panel)", stroke: "var(--faint)" })),
      ],
    });
  }

  // How often each class of a legend occurs.
  const colors = { enabled: "good", call: "call", shape: "shape", cannot: "faint", failed: "bad" };
  const count = (pairs) => Object.fromEntries(Object.entries(colors).map(([key, color]) => [key, pairs.filter(([, , letters]) => colorOf(letters) === `var(--${color})`).length]));

  picture("pairs", (node) => {
    legend("pairs", count(data.pairs));
    const cells = data.pairs.map(([from, to, letters]) => ({ from, to, letters, text: `${data.devices[from]} to ${data.devices[to]}: ${inWords(letters)}` }));
    put("pairs", matrix(node, data.devices, cells, { fill: ({ letters }) => colorOf(letters), text: "letters", ink: ({ letters }) => inkOf(letters), from: "accessed from", to: "memory on" }));
  });

  picture("openings", (node) => {
    const used = [...new Set(data.openings.flatMap(([from, to]) => [from, to]))].sort((a, b) => a - b).slice(0, 128);
    const place = new Map(used.map((process, i) => [process, i]));
    const most = Math.max(1, ...data.openings.map(([, , times]) => times));
    const cells = data.openings.filter(([from, to]) => place.has(from) && place.has(to)).map(([from, to, times, open, failed]) => ({
      from: place.get(from), to: place.get(to), times, open, failed,
      text: `${nameOf(to)} opened handles of ${nameOf(from)} ${times.toLocaleString("en")} times${open ? `, ${open.toLocaleString("en")} open` : ""}${failed ? `, ${failed.toLocaleString("en")} failed` : ""}`,
    }));
    node.closest("figure").hidden = cells.length === 0;
    legend("openings", { hang: d3.sum(cells, ({ open }) => open), failed: d3.sum(cells, ({ failed }) => failed), call: d3.sum(cells, ({ times, open }) => times - open) });
    if (cells.length) put("openings", matrix(node, used.map(nameOf), cells, {
      fill: ({ failed, open }) => failed ? "var(--bad)" : open ? "var(--hang)" : "var(--call)",
      opacity: ({ times, failed }) => failed ? 1 : 0.35 + 0.65 * Math.sqrt(times / most),
      text: ({ times, failed }) => failed ? `${times}!` : times, ink: "var(--on-color)", from: "exporter", to: "importer",
    }));
  });

  picture("links", (node) => {
    const stacks = new Map(data.devices.map((_, device) => [device, []]));
    data.places.forEach(([process, device]) => stacks.get(device).push(process));
    const isMany = data.devices.length > 10;
    const on = [...stacks].flatMap(([device, list]) => list.map((process, i) => ({ device, process, i })));
    const deepest = Math.max(1, ...[...stacks.values()].map((list) => list.length));
    const rank = { "!": 0, o: 1, e: 2 };
    const kind = (letters) => [..."!oe"].find((letter) => letters.includes(letter));
    const all = data.pairs.filter(([from, to, letters]) => from !== to && kind(letters)).sort((a, b) => rank[kind(a[2])] - rank[kind(b[2])]);
    node.closest("figure").hidden = all.length === 0;
    if (all.length === 0) return;
    const links = all.slice(0, 400).map(([from, to, letters]) => ({ from, to, letters, text: `${data.devices[from]} to ${data.devices[to]}: ${inWords(letters)}` }));
    const width = Math.min(wideness(node), 170 * data.devices.length + 60), step = 20, deep = Math.min(deepest, 12);
    // The longest arc is as high as there is room.
    const longest = (d3.max(links, ({ from, to }) => Math.abs(from - to)) ?? 0) * (width - 60) / data.devices.length;
    const arcs = Math.min(160, 0.3 * longest + 16);
    const bend = Math.min(62, 2 * Math.atan(2 * (arcs - 8) / (longest || 1)) * 180 / Math.PI);
    // Where names would overlap, without what tells devices of several hosts apart.
    const room = (width - 60) / data.devices.length;
    const named = (name) => isMany || 6.5 * name.length < room ? name : name.replace(/ \(.*/, "");
    const label = (process) => (nameOf(process).replace(/^(rank|process) /, ""));
    const cut = on.filter(({ i }) => i < deep);
    const fates = (...states) => cut.filter(({ process }) => states.includes(data.processes[process].state)).length;
    const drawn = count(links.map(({ letters }) => [0, 0, letters]));
    legend("links", { ...drawn, failed: drawn.failed + fates("died", "stuck"), hang: fates("hangs"), warn: fates("failed"), shape: fates("running", "ended") });
    const svg = Plot.plot({
      width, height: arcs + 26 + deep * step + (isMany ? 60 : 20), marginLeft: 30, marginRight: 30, marginTop: arcs, marginBottom: 6,
      x: { type: "point", domain: d3.range(data.devices.length), axis: null, padding: 0.5 }, y: { domain: [0, deep + (isMany ? 3.5 : 1)], range: [arcs, arcs + (deep + (isMany ? 3.5 : 1)) * step], axis: null },
      marks: [
        ...[1, 0.7].map((share, back) => Plot.arrow(links.filter(({ from, to }) => (from > to) === (back === 1)), {
          x1: "from", x2: "to", y1: 0, y2: 0, bend: -bend * share, sweep: "+x", headLength: 7, insetEnd: 5,
          stroke: ({ letters }) => colorOf(letters), strokeWidth: ({ letters }) => letters.includes("!") ? 2.4 : 1.4, strokeOpacity: links.length > 60 ? 0.45 : 0.9, title: "text",
        })),
        Plot.dot(data.devices.map((_, i) => i), { x: (i) => i, y: 0, r: 5, fill: "var(--text)" }),
        Plot.text(data.devices, { x: (_, i) => i, y: isMany ? 0.4 : 0.7, text: named, rotate: isMany ? -60 : 0, textAnchor: isMany ? "end" : "middle", fontSize: isMany || room < 40 ? 9 : 11, fill: "var(--text)" }),
        Plot.dot(cut, { x: "device", y: ({ i }) => i + (isMany ? 4 : 1.7), dx: -18, r: 5, fill: ({ process }) => fateColors[data.processes[process].state] ?? "var(--shape)", title: ({ process }) => `${nameOf(process)}: ${data.processes[process].how}` }),
        Plot.text(cut, { x: "device", y: ({ i }) => i + (isMany ? 4 : 1.7), dx: -9, textAnchor: "start", text: ({ process }) => short(label(process), 8), fontSize: 11, fill: "var(--text)", href: ({ process }) => `#p${process}` }),
      ],
    });
    svg.querySelectorAll("a").forEach((link) => link.setAttribute("tabindex", "-1"));
    const said = document.createElement("p");
    said.className = "hint";
    if (all.length > links.length) said.append(` ${all.length - links.length} more links are not drawn; the matrix has them.`);
    if (on.length > cut.length) said.append(` ${on.length - cut.length} more processes are not drawn.`);
    if (data.left_out) said.append(` ${data.left_out} more devices are not drawn.`);
    node.replaceChildren(svg, said);
  });
}
