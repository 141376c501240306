// Draws the map of all pairs of NICs: each `figure.map` has its data as JSON, as `matrix.rs` makes it.
// `axes.js` labels its axes.
"use strict";

// Viridis: from dark to bright evenly for all eyes, in print as well.
const VIRIDIS = [
  [68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141],
  [39, 173, 129], [92, 200, 99], [170, 220, 50], [253, 231, 37],
];
const FAILED_COLOR = [230, 0, 120, 255];
const UNTESTED_COLOR = [160, 160, 160, 255];
const UNPLANNED_COLOR = [0, 0, 0, 0];

// Opacity of a cell that shows the figure of the other direction, where some pairs have both.
const MIRROR_OPACITY = 110;

// Cells below the first figure, as in `matrix.rs`.
const UNTESTED = 0;
const FAILED = 1;
const SMALLEST = 2;

// Least width of a canvas in its own pixels, and least number of cells that a zoom shows.
const LEAST_WIDTH = 900;
const LEAST_CELLS = 4;

/** Returns the color at a share from 0 (good) to 1 (bad). */
function color(share) {
  const at = Math.min(Math.max(share, 0), 1) * (VIRIDIS.length - 1);
  const low = Math.min(Math.floor(at), VIRIDIS.length - 2);
  const mix = (channel) =>
    VIRIDIS[low][channel] + (VIRIDIS[low + 1][channel] - VIRIDIS[low][channel]) * (at - low);
  return [mix(0), mix(1), mix(2), 255];
}

/** Returns a figure with its unit. */
function text(map, figure) {
  const units = map.of_bandwidth
    ? [[1e9, "GB/s"], [1e6, "MB/s"], [1e3, "kB/s"], [1, "B/s"]]
    : [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];
  const [factor, unit] = units.find(([factor]) => figure >= factor) ?? units[units.length - 1];
  return `${(figure / factor).toPrecision(3)} ${unit}`;
}

/** Returns the figure of a cell. */
function figureOf(map, cell) {
  const [low, high] = map.range;
  return low * (high / low) ** ((cell - SMALLEST) / (65535 - SMALLEST));
}

/** Returns the name of the class of a pair, as `Roster::class` has it. */
function classOf(map, initiator, target) {
  const [one, other] = [map.locations[initiator], map.locations[target]];
  if (initiator === target) return "loopback";
  if (map.nodes[initiator] === map.nodes[target]) return "same node";
  if (!one || !other) return "no location";
  if (one[0] !== other[0]) return "other group";
  return one[1] === other[1] ? "same switch" : "same group";
}

/** Returns the cells, which are little-endian numbers of 16 bits in base64. */
function decoded(base64) {
  const bytes = atob(base64);
  const cells = new Uint16Array(bytes.length / 2);
  for (let at = 0; at < cells.length; at++) {
    cells[at] = bytes.charCodeAt(2 * at) | (bytes.charCodeAt(2 * at + 1) << 8);
  }
  return cells;
}

/** Returns the color of pairs without a measurement, and what they are. */
function missing(map) {
  return map.is_complete
    ? [UNPLANNED_COLOR, "not planned"]
    : [UNTESTED_COLOR, "not planned or not measured"];
}

/** Returns the color of each possible cell, as the canvas stores it, with this opacity of figures. */
function palette(map, opacity) {
  const colors = new Uint32Array(65536);
  const bytes = new Uint8ClampedArray(colors.buffer);
  const [low, high] = map.colors.map(Math.log);
  for (let cell = 0; cell < colors.length; cell++) {
    const share = (Math.log(figureOf(map, cell)) - low) / (high - low);
    bytes.set(color(map.of_bandwidth ? 1 - share : share), 4 * cell);
    bytes[4 * cell + 3] = opacity;
  }
  bytes.set(missing(map)[0], 4 * UNTESTED);
  bytes.set(FAILED_COLOR, 4 * FAILED);
  return colors;
}

/** Returns an element with these attributes and children. */
function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** Returns the scale of colors with its figures, and the colors beside it. */
function legend(map) {
  const [good, bad] = map.of_bandwidth ? [map.colors[1], map.colors[0]] : map.colors;
  const stops = VIRIDIS.map((rgb) => `rgb(${rgb})`).join(",");
  const beyond = map.of_bandwidth ? ["≥ ", "≤ "] : ["≤ ", "≥ "];
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((share) => {
    const figure = text(map, good * (bad / good) ** share);
    return element("span", {}, `${share === 0 ? beyond[0] : share === 1 ? beyond[1] : ""}${figure}`);
  });
  const scale = element(
    "span", { class: "scale" },
    element("span", { class: "colors", style: `background:linear-gradient(90deg,${stops})` }),
    element("span", { class: "ticks" }, ...ticks),
  );
  const key = (rgba, what) => element(
    "span", {},
    element("span", { class: "key", style: `background:rgba(${rgba[0]},${rgba[1]},${rgba[2]},${rgba[3] / 255})` }),
    what,
  );
  const what = map.of_bandwidth ? "Bandwidth" : "Median latency";
  return element(
    "p", { class: "legend" },
    `${what}: good `, scale, " bad", key(FAILED_COLOR, "failed"), key(...missing(map)),
  );
}

/** Draws the map of a figure, and lets its reader sort it, zoom, and point at pairs. */
function show(figure) {
  const started = performance.now();
  const map = JSON.parse(figure.querySelector("script").textContent);
  const cells = decoded(map.cells);
  const colors = palette(map, 255);
  const paler = map.is_one_way ? colors : palette(map, MIRROR_OPACITY);
  const count = map.names.length;
  const image = element("canvas", { width: count, height: count });
  const width = count * Math.ceil(LEAST_WIDTH / count);
  const canvas = element("canvas", {
    width, height: width, tabindex: 0, role: "img",
    "aria-label": `${figure.dataset.summary} Arrow keys move from pair to pair, + and - zoom.`,
  });
  const context = canvas.getContext("2d");
  const axes = new Axes(map, canvas);
  const tip = element("div", { class: "tip", role: "status", hidden: "" });
  const choice = element(
    "select", {},
    element("option", { value: "by_location" }, "location"),
    element("option", { value: "by_badness" }, "badness, the worst first"),
  );
  const button = (sign, name, action) => {
    const made = element("button", { type: "button", "aria-label": name, title: name }, sign);
    made.addEventListener("click", action);
    return made;
  };
  // First cell and number of cells that are visible, and the cell under the cursor.
  let view = { x: 0, y: 0, cells: count };
  let cursor = null;
  let order = map.by_location;

  /** Makes the image of all cells in the present order. Returns how many pairs it has. */
  function arrange() {
    const pixels = new ImageData(count, count);
    const target = new Uint32Array(pixels.data.buffer);
    let pairs = 0;
    for (let row = 0, at = 0; row < count; row++) {
      for (let column = 0; column < count; column++, at++) {
        const cell = cells[order[row] * count + order[column]];
        if (cell !== UNTESTED) pairs++;
        if (cell !== UNTESTED) target[at] = colors[cell];
        else if (row !== column) target[at] = paler[cells[order[column] * count + order[row]]];
      }
    }
    image.getContext("2d").putImageData(pixels, 0, 0);
    return pairs;
  }

  /** Draws the visible cells with their labels, and lines between switches and groups where they are in order. */
  function draw() {
    context.imageSmoothingEnabled = false;
    context.clearRect(0, 0, width, width);
    context.drawImage(image, view.x, view.y, view.cells, view.cells, 0, 0, width, width);
    axes.draw(order, order === map.by_location, view);
    const size = width / view.cells;
    if (order === map.by_location) {
      for (let at = 1; at < count; at++) {
        const [before, after] = [map.locations[order[at - 1]], map.locations[order[at]]];
        const isGroup = before?.[0] !== after?.[0];
        if (!isGroup && (before?.[1] === after?.[1] || size < 4)) continue;
        context.fillStyle = isGroup ? "rgba(255,255,255,.6)" : "rgba(255,255,255,.25)";
        context.fillRect((at - view.x) * size - 0.5, 0, 1, width);
        context.fillRect(0, (at - view.y) * size - 0.5, width, 1);
      }
    }
    if (cursor) {
      context.strokeStyle = "#fff";
      context.lineWidth = 2;
      context.strokeRect((cursor.x - view.x) * size - 1, (cursor.y - view.y) * size - 1, size + 2, size + 2);
    }
  }

  /** Shows what is known of the pair under the cursor. */
  function point(x, y) {
    cursor = { x: Math.min(Math.max(x, 0), count - 1), y: Math.min(Math.max(y, 0), count - 1) };
    let [initiator, target] = [order[cursor.y], order[cursor.x]];
    if (cells[initiator * count + target] === UNTESTED && cells[target * count + initiator] !== UNTESTED) {
      [initiator, target] = [target, initiator];
    }
    const cell = cells[initiator * count + target];
    const name = classOf(map, initiator, target);
    const facts = map.classes.find((of) => of.name === name);
    const lines = [`${map.names[initiator]} to ${map.names[target]}`];
    if (cell === UNTESTED) lines.push(missing(map)[1]);
    else if (cell === FAILED) lines.push("failed");
    else {
      const value = figureOf(map, cell);
      lines.push(text(map, value));
      if (facts) lines.push(`${(value / facts.median).toFixed(2)} of the median of its class, ${name}`);
      if (facts?.limit) lines.push(`limit ${text(map, facts.limit)}`);
    }
    tip.textContent = lines.join("\n");
    tip.hidden = false;
    const scale = canvas.clientWidth / view.cells;
    const left = canvas.offsetLeft + (cursor.x - view.x + 1) * scale + 8;
    const most = canvas.offsetLeft + canvas.clientWidth - tip.offsetWidth;
    tip.style.left = `${Math.max(Math.min(left, most), 0)}px`;
    tip.style.top = `${canvas.offsetTop + (cursor.y - view.y + 1) * scale + 8}px`;
    draw();
  }

  /** Shows this number of cells around a place. */
  function zoom(cellsShown, x, y) {
    const shown = Math.min(Math.max(cellsShown, Math.min(LEAST_CELLS, count)), count);
    const first = (at, before) =>
      Math.min(Math.max(at - ((at - before) * shown) / view.cells, 0), count - shown);
    view = { x: first(x, view.x), y: first(y, view.y), cells: shown };
    draw();
  }

  /** Zooms around the cursor, else around the middle, or around the worst NICs. */
  function zoomBy(factor) {
    const anchor = order === map.by_badness ? 0 : view.cells / 2;
    zoom(view.cells * factor, cursor?.x ?? view.x + anchor, cursor?.y ?? view.y + anchor);
  }

  /** Returns the cell at a place of the pointer. */
  function place(event) {
    const scale = view.cells / canvas.clientWidth;
    return [view.x + event.offsetX * scale, view.y + event.offsetY * scale];
  }

  function leave() {
    cursor = null;
    tip.hidden = true;
    draw();
  }

  canvas.addEventListener("pointermove", (event) => {
    if (event.buttons && view.cells < count) {
      const scale = view.cells / canvas.clientWidth;
      const first = (at) => Math.min(Math.max(at, 0), count - view.cells);
      view.x = first(view.x - event.movementX * scale);
      view.y = first(view.y - event.movementY * scale);
    }
    point(...place(event).map(Math.floor));
  });
  canvas.addEventListener("pointerleave", leave);
  canvas.addEventListener("blur", leave);
  canvas.addEventListener("dblclick", (event) => zoom(view.cells / 2, ...place(event)));
  // The page scrolls unless the reader has chosen the map.
  canvas.addEventListener("wheel", (event) => {
    if (document.activeElement !== canvas) return;
    event.preventDefault();
    zoom(view.cells * (event.deltaY > 0 ? 1.25 : 0.8), ...place(event));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const step = steps[event.key];
    if (step) {
      const from = cursor ?? { x: Math.floor(view.x) - step[0], y: Math.floor(view.y) - step[1] };
      const [x, y] = [from.x + step[0], from.y + step[1]];
      const follow = (first, at) =>
        Math.min(Math.max(first, at + 1 - view.cells, 0), Math.max(at, 0), count - view.cells);
      view.x = follow(view.x, x);
      view.y = follow(view.y, y);
      point(x, y);
    } else if (event.key === "+") zoomBy(0.5);
    else if (event.key === "-") zoomBy(2);
    else if (event.key === "0") zoom(count, 0, 0);
    else if (event.key === "Escape") leave();
    else return;
    event.preventDefault();
  });
  choice.addEventListener("change", () => {
    order = map[choice.value];
    arrange();
    leave();
  });
  const controls = element(
    "div", { class: "controls" },
    element("label", {}, "Sort by ", choice),
    button("+", "Zoom in", () => zoomBy(0.5)),
    button("−", "Zoom out", () => zoomBy(2)),
    button("Whole map", "Show the whole map", () => zoom(count, 0, 0)),
  );
  const alternative = figure.querySelector("details");
  alternative.before(controls, legend(map), axes.element, tip);
  const pairs = arrange();
  new ResizeObserver(draw).observe(canvas);
  draw();
  // For tests: what was drawn, and the time that it took.
  figure.dataset.pairs = pairs;
  figure.dataset.milliseconds = Math.round(performance.now() - started);
}

document.querySelectorAll("figure.map").forEach(show);
