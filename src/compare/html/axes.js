// Labels the axes of the map of pairs with NICs, or with switches or groups where the names of NICs
// would overlap.
"use strict";

// Least distance of two labels in CSS pixels: the height of a line of their text.
const LABEL_PITCH = 14;

// Most characters of a label.
const LABEL_LENGTH = 24;

// Every how many NICs one is named, where neither switches nor groups divide them.
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000];

/** Returns a name, without its middle if it is long: names of hosts differ at both ends. */
function shortened(name) {
  if (name.length <= LABEL_LENGTH) return name;
  const kept = LABEL_LENGTH - 1;
  return `${name.slice(0, Math.floor(kept / 3))}…${name.slice(name.length - Math.ceil((2 * kept) / 3))}`;
}

/** Returns the runs of cells in `order` whose NICs have one `key`, with the name of the key. */
function spans(order, key) {
  const found = [];
  order.forEach((nic, at) => {
    const name = key(nic);
    const last = found[found.length - 1];
    if (last?.name === name) last.to = at + 1;
    else found.push({ name, from: at, to: at + 1 });
  });
  return found;
}

/**
 * Returns what the axes name if a cell takes `size` pixels: each NIC if there is room, else switches,
 * else groups, else every few NICs. Only an order `byLocation` has switches and groups.
 */
function labelling(map, order, byLocation, size) {
  const nics = (step, title) => ({
    title,
    isSpan: false,
    labels: order.map((nic, at) => ({ name: shortened(map.names[nic]), from: at, to: at + 1 }))
      .filter((_, at) => at % step === 0),
  });
  if (size >= LABEL_PITCH) return nics(1, "");
  const digits = (number, count) => String(number).padStart(count, "0");
  const group = (nic) => map.locations[nic] ? digits(map.locations[nic][0], 3) : "no location";
  const place = (nic) => map.locations[nic] ? `${group(nic)}.${digits(map.locations[nic][1], 2)}` : "no location";
  if (byLocation) {
    for (const [key, title] of [[place, " by switch (group.switch)"], [group, " by group"]]) {
      const labels = spans(order, key);
      const least = Math.min(...labels.map((of) => of.to - of.from)) * size;
      if (labels.length > 1 && least >= LABEL_PITCH) return { title, isSpan: true, labels };
    }
  }
  const step = STEPS.find((step) => step * size >= LABEL_PITCH) ?? order.length;
  return nics(step, `, 1 of ${step} named`);
}

/** The labels of both axes, around the picture. */
class Axes {
  constructor(map, picture) {
    this.map = map;
    this.picture = picture;
    const part = (name) => element("div", { class: name, "aria-hidden": "true" });
    this.titles = { x: part("x title"), y: part("y title") };
    this.labels = { x: part("x labels"), y: part("y labels") };
    const longest = Math.max(...map.names.map((name) => shortened(name).length), "no location".length);
    this.element = element(
      "div", { class: "axes", style: `--longest:${longest}ch;--nics:${map.names.length}` },
      this.titles.x, this.labels.x, this.titles.y, this.labels.y, picture,
    );
  }

  /** Draws the labels of the visible cells. */
  draw(order, byLocation, view) {
    const { title, isSpan, labels } = labelling(
      this.map, order, byLocation, this.picture.clientWidth / view.cells,
    );
    this.titles.x.textContent = `Targets${title}`;
    this.titles.y.textContent = `Initiators${title}`;
    const percent = (cells) => `${(100 * cells) / view.cells}%`;
    for (const [axis, first, start, extent] of [["x", view.x, "left", "width"], ["y", view.y, "top", "height"]]) {
      // A part at the edge of the picture has its label in the middle of what is visible of it.
      const visible = labels.map(({ name, from, to }) => ({
        name, from: Math.max(from, first), to: Math.min(to, first + view.cells), whole: to - from,
      }));
      const hasRoom = ({ from, to, whole }) => to - from >= Math.min(whole, view.cells) / 2;
      this.labels[axis].replaceChildren(...visible.filter(hasRoom).map(({ name, from, to }) =>
        element("span", {
          class: isSpan ? "part" : "nic",
          style: `${start}:${percent(from - first)};${extent}:${percent(to - from)}`,
        }, element("span", {}, name))));
    }
  }
}
