// The lives of handles from export to close, of the rows that the ledger shows, in its order.
const drawLives = (() => {
  const most = 40;
  function draw(node) {
    const rows = [...document.querySelectorAll("#ledger tbody tr")].filter((row) => !row.hidden);
    const shown = rows.slice(0, most).map((row) => ({ id: row.id, isBad: row.classList.contains("error"), ...data.handles[Number(row.id.slice(1))] }));
    // As much of the time as the shown ones live.
    const until = ({ freed_ns: freed, gone_ns: gone }) => freed ?? gone;
    const isOpen = (life) => (until(life) === null && !life.alike) || life.opens.some(([, , to]) => to === null);
    const lastOf = (life) => d3.max([life.last_ns, until(life), ...life.opens.map(([, , to]) => to)]);
    const end = d3.max(shown, (life) => isOpen(life) ? data.lasted_ns : lastOf(life)) ?? data.lasted_ns;
    const begin = d3.min(shown, ({ from_ns: from, opens }) => from ?? opens[0]?.[1]) ?? 0;
    const room = Math.max(1, end - begin) * 0.02;
    const width = wideness(node), tall = 15;
    const lives = shown.filter(({ from_ns: from }) => from !== null);
    const opens = shown.flatMap((life) => life.opens.map(([opener, from, to, isClosed]) => ({
      life, x1: seconds(from), x2: seconds(to ?? end), isOpen: !isClosed,
      text: `${nameOf(opener)} had ${life.name} open from ${seconds(from).toFixed(6)}${to === null ? "" : ` to ${seconds(to).toFixed(6)}`}${isClosed ? "" : to === null ? ": still open" : ": never closed, until the process ended"}`,
    })));
    const failed = shown.flatMap((life) => life.failed.map(([opener, at]) => ({ life, x: seconds(at), text: `${nameOf(opener)} failed to open ${life.name} at ${seconds(at).toFixed(6)}` })));
    const freed = lives.filter(({ freed_ns: at }) => at !== null);
    const color = ({ life, isOpen }) => life.isBad ? "var(--bad)" : isOpen && life.state !== "closed" ? "var(--hang)" : "var(--call)";
    legend("lives", {
      life: lives.length, begun: lives.length, freed: freed.length, death: failed.length, failed: opens.filter(({ life }) => life.isBad).length,
      hang: opens.filter((one) => color(one) === "var(--hang)").length, call: opens.filter((one) => color(one) === "var(--call)").length,
    });
    put("lives", shown.length ? Plot.plot({
      width, height: shown.length * tall + 58, marginLeft: isNarrow() ? 110 : 170, marginRight: 14, marginTop: 36, marginBottom: 22,
      x: { domain: [seconds(Math.max(0, begin - room)), seconds(end + room)], axis: null }, y: { type: "band", domain: shown.map(({ id }) => id), axis: null, padding: 0.25 },
      marks: [
        Plot.axisX({ anchor: "top", ticks: isNarrow() ? 4 : 8, label: sinceBegin, tickFormat: inSeconds(seconds(end - begin)) }),
        Plot.gridX({ stroke: "var(--line)", strokeOpacity: 1, ticks: isNarrow() ? 4 : 8 }),
        Plot.ruleY(lives, { y: "id", x1: ({ from_ns: from }) => seconds(from), x2: (life) => seconds(until(life) ?? end), stroke: "var(--faint)", strokeWidth: 2 }),
        Plot.ruleY(lives.filter(({ alike }) => alike), { y: "id", x1: ({ from_ns: from }) => seconds(from), x2: ({ last_ns: at }) => seconds(at), stroke: "var(--call)", strokeWidth: 5, strokeOpacity: 0.3 }),
        Plot.barX(opens, { y: ({ life }) => life.id, x1: "x1", x2: "x2", fill: color, fillOpacity: 0.6, stroke: color, strokeWidth: 0.7 }),
        Plot.tickX(lives, { y: "id", x: ({ from_ns: from }) => seconds(from), stroke: "var(--text)", strokeWidth: 1.5 }),
        Plot.tickX(freed, { y: "id", x: ({ freed_ns: at }) => seconds(at), stroke: "var(--text)", strokeWidth: 1.5, strokeDasharray: "2 1" }),
        Plot.dot(failed, { y: ({ life }) => life.id, x: "x", symbol: "times", stroke: "var(--bad)", strokeWidth: 2, r: 4 }),
        Plot.text(shown, { frameAnchor: "left", y: "id", dx: -8, textAnchor: "end", text: ({ name, alike }) => short(name, isNarrow() ? 12 : 20) + (alike ? ` +${alike}` : ""), fill: ({ isBad }) => isBad ? "var(--bad)" : "var(--text)", href: ({ id }) => `#${id}`, fontFamily: "var(--mono)", fontSize: 10, title: ({ name, state }) => `${name}: ${state}` }),
        Plot.tip([...opens.map((one) => ({ x: (one.x1 + one.x2) / 2, y: one.life.id, text: one.text })), ...failed.map((one) => ({ x: one.x, y: one.life.id, text: one.text }))],
          Plot.pointer({ x: "x", y: "y", title: "text", maxRadius: 60, fill: "var(--panel)", stroke: "var(--faint)" })),
      ],
    }) : null);
    node.querySelectorAll("svg a").forEach((link) => link.setAttribute("tabindex", "-1"));
    element("lived").textContent = rows.length > shown.length ? `(the first ${shown.length} of ${rows.length.toLocaleString("en")} rows below; search and sort choose others)` : "";
  }
  if (element("lives")) picture("lives", draw);
  return () => { if (element("lives")) draw(element("lives")); };
})();
