// Tables: sorted by their heads, searched from the top of the page, walked with the arrow keys.
{
  const isCount = /^\d[\d,]*$/;
  const number = (cell) => Number(cell.dataset.v ?? (isCount.test(cell.textContent) ? cell.textContent.replaceAll(",", "") : NaN));
  function sort(table, head) {
    const column = [...head.parentElement.children].indexOf(head);
    const down = head.getAttribute("aria-sort") === "ascending";
    table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = table.tBodies[0], sign = down ? -1 : 1;
    const compare = (a, b) => {
      const [x, y] = [a, b].map((row) => row.cells[column]);
      const [m, n] = [number(x), number(y)];
      if (Number.isNaN(m) !== Number.isNaN(n)) return Number.isNaN(m) ? 1 : -1;
      return sign * (Number.isNaN(m) ? x.textContent.localeCompare(y.textContent, "en", { numeric: true }) : m - n);
    };
    body.append(...[...body.rows].sort(compare));
    if (table.id === "ledger") drawLives();
  }
  document.querySelectorAll("th button").forEach((button) => {
    button.onclick = () => sort(button.closest("table"), button.closest("th"));
  });

  // What does not have what is searched for is hidden.
  const things = [...document.querySelectorAll("tbody tr, article")];
  const texts = new Map();
  const plain = (text) => text.toLowerCase().replace(/\s+/g, " ");
  // Cells are kept apart.
  const allOf = (thing) => thing.cells ? [...thing.cells].map((cell) => cell.textContent).join(" | ") : thing.textContent;
  const textOf = (thing) => texts.get(thing) ?? texts.set(thing, plain(allOf(thing))).get(thing);
  const search = element("search"), which = element("which");
  function filter() {
    const [word, more] = [search, which].map((input) => plain(input?.value ?? "").trim());
    let count = 0;
    for (const thing of things) {
      const isOfLedger = thing.id[0] === "h" && thing.closest("#ledger");
      const isShown = textOf(thing).includes(word) && (!isOfLedger || textOf(thing).includes(more));
      if (thing.hidden === isShown) thing.hidden = !isShown;
      count += isShown;
    }
    element("found").textContent = word ? `${count.toLocaleString("en")} found` : "";
    drawLives();
  }
  let later = 0;
  for (const input of [search, which]) {
    if (input) input.oninput = () => { clearTimeout(later); later = setTimeout(filter, 80); };
  }

  addEventListener("keydown", (event) => {
    const isTyping = event.target.matches?.("input");
    if (event.key === "/" && !isTyping) {
      event.preventDefault();
      search.focus();
      search.select();
    } else if (event.key === "Escape" && isTyping) {
      event.target.value = "";
      filter();
      event.target.blur();
    }
    const row = event.target.closest?.("tbody tr");
    const next = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    if (row && next) {
      let other = row[next];
      while (other?.hidden) other = other[next];
      if (other) { event.preventDefault(); walk(other); }
    }
    const details = event.key === "Enter" && event.target === row && row.querySelector("details");
    if (details) details.open = !details.open;
  });
  // One row of a table can be reached by Tab; the arrow keys go on from there.
  function walk(row) {
    row.closest("tbody").querySelectorAll("tr[tabindex='0']").forEach((other) => { other.tabIndex = -1; });
    row.tabIndex = 0;
    row.focus();
  }
  document.querySelectorAll("tbody").forEach((body) => { if (body.rows[0]) body.rows[0].tabIndex = 0; });

  // A table that goes on to the right fades there.
  const fade = ({ target }) => target.classList.toggle("cut", target.scrollLeft + target.clientWidth < target.scrollWidth - 1);
  const widths = new ResizeObserver((all) => all.forEach(fade));
  document.querySelectorAll(".wide").forEach((wide) => { wide.onscroll = fade; widths.observe(wide); });

  // What a link leads to is shown, whatever hides it.
  function arrive() {
    const target = location.hash.length > 1 && element(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    target.hidden = false;
    for (let outer = target.closest("details"); outer; outer = outer.parentElement.closest("details")) outer.open = true;
    if (target.matches("tr")) walk(target); else if (target.tabIndex === -1 || target.hasAttribute("tabindex")) target.focus({ preventScroll: true });
    target.scrollIntoView({ block: target.matches("section") ? "start" : "center" });
  }
  addEventListener("hashchange", arrive);

  // The first picture with the page, the others behind it, so that they keep nobody waiting.
  const waiting = [...pictures];
  function next() {
    const one = waiting.shift();
    if (one) drawOne(one);
    if (waiting.length) return setTimeout(next);
    pictures.forEach(({ id }) => element(id) && watched.observe(element(id)));
    page.dataset.drawn = Math.round(performance.now());
  }
  next();
  arrive();
  page.dataset.opened = Math.round(performance.now());
}
