// Colors: viridis for numbers, Paul Tol's muted scheme for classes. Both are safe for color-blind readers; points have a
// mark per class, too, which is told apart in gray.

const VIRIDIS = "44015448186a472d7b4240863b528b33638d2c728e26828e21918c1fa08828ae803fbc735ec96284d44baddc30d8e219fde725"
const CATEGORIES = ["#88ccee", "#cc6677", "#ddcc77", "#117733", "#332288", "#aa4499", "#44aa99", "#999933", "#882255",
  "#661100", "#6699cc", "#888888"]
export const CLASS_COLORS = CATEGORIES.length
export const FIRST_FOLD = 0.5 // of the table: darker colors are lost on the dark ground that folds are drawn on

const hexToRgb = hex => [0, 2, 4].map(i => parseInt(hex.slice(i, i + 2), 16))
const STOPS = Array.from({length: VIRIDIS.length / 6}, (_, i) => hexToRgb(VIRIDIS.slice(6 * i)))

export function levelOf(q, value) { // a value's place on the color table, 0 to 1
  if (q.categories) return ((value % CATEGORIES.length) + 0.5) / CATEGORIES.length
  const f = q.log ? Math.log : v => v
  return q.high > q.low ? Math.min(1, (f(Math.max(value, q.low)) - f(q.low)) / (f(q.high) - f(q.low))) : 0.5
}

export function colorAt(q, level) { // [r, g, b], 0 to 255
  if (q?.categories) return hexToRgb(CATEGORIES[Math.min(CATEGORIES.length - 1, Math.floor(level * CATEGORIES.length))].slice(1))
  const at = Math.min(1, Math.max(0, level)) * (STOPS.length - 1), i = Math.min(Math.floor(at), STOPS.length - 2)
  return STOPS[i].map((v, k) => Math.round(v + (at - i) * (STOPS[i + 1][k] - v)))
}

export function colorTable(q) { // 256 colors from one end of the scale to the other, as the painters take them
  const table = new Uint8Array(256 * 4)
  for (let i = 0; i < 256; i++) table.set([...colorAt(q, i / 255), 255], 4 * i)
  return table
}

export function levelsOf(q, count) { // of each tile; all 0 without a quantity
  return q ? Float32Array.from({length: count}, (_, i) => levelOf(q, q.values[i])) : new Float32Array(count)
}

// GLSL: the level of the class that is ahead. Outputs are affine on a tile, so their mixture of the corners' is exact: so is the class.
export const CLASS_LEVEL = `float classLevel(vec4 seen[3], int classes) {
  int best = classes == 1 && seen[0].x > 0. ? 1 : 0;
  float most = seen[0].x;
  for (int i = 1; i < classes; i++) {
    float here = i < 4 ? seen[0][i] : i < 8 ? seen[1][i - 4] : seen[2][i - 8];
    if (here > most) { most = here; best = i; }
  }
  return (float(best) + .5) / ${CLASS_COLORS}.;
}`

export function themeColor(element, name, otherwise) { // a color of the page, told by its style as #rrggbb: [r, g, b], 0 to 1
  const text = getComputedStyle(element).getPropertyValue(name).trim()
  return /^#[0-9a-f]{6}$/.test(text) ? rgbOf(text) : otherwise
}

export function foldLevel(depth, deepest) { return FIRST_FOLD + (1 - FIRST_FOLD) * (depth - 1) / Math.max(1, deepest - 1) }

export function colorOf(q, value) { return `rgb(${colorAt(q, levelOf(q, value)).join(",")})` }

export function gradient(from = 0) {
  const color = i => `rgb(${colorAt(null, from + (1 - from) * i / 16).join(",")})`
  return `linear-gradient(to right, ${Array.from({length: 17}, (_, i) => color(i)).join(",")})`
}

export function pointColor(labels, i) { return labels?.length ? CATEGORIES[labels[i] % CATEGORIES.length] : "#ffffff" } // of a marked point
const MARKS = [[24, 0, 1], [4, 0.125, 1.2], [3, 0.25, 1.4], [4, 0, 1.3], [3, -0.25, 1.4], [5, 0.25, 1.2], [6, 0, 1.1], [8, 0.0625, 1.1]] // corners, first one in turns, size
export function markOf(label) { // the outline of a class's mark, [[x, y], ...] about the origin, upwards: circle, square, triangle, ...
  const [count, turn, size] = MARKS[label % MARKS.length]
  return Array.from({length: count}, (_, i) => { const angle = 2 * Math.PI * (turn + i / count); return [size * Math.cos(angle), size * Math.sin(angle)] })
}

export const HATCHES = [[], [[0, 8, 8, 0]], [[0, 0, 8, 8]], [[0, 4, 8, 4]], [[4, 0, 4, 8]], [[0, 8, 8, 0], [0, 0, 8, 8]]] // lines in a square of 8
export function hatch(label, size = 1) { // a class's hatching, as a canvas to repeat
  const canvas = Object.assign(document.createElement("canvas"), {width: 8 * size, height: 8 * size}), pen = canvas.getContext("2d")
  pen.scale(size, size)
  pen.strokeStyle = "#0007"
  for (const [ax, ay, bx, by] of HATCHES[label % HATCHES.length]) { pen.moveTo(ax, ay); pen.lineTo(bx, by) }
  pen.stroke()
  return canvas
}

export function rgbOf(hex) { return hexToRgb(hex.slice(1)).map(v => v / 255) }

export function sharedScale(frames, name) { // one scale of a quantity for several tilings; {} where it is classes that are colored
  const all = frames.map(data => data.quantities.find(q => q.name === name)).filter(q => q && !q.categories)
  return all.length ? {low: Math.min(...all.map(q => q.low)), high: Math.max(...all.map(q => q.high)), log: all.every(q => q.log)} : {}
}
