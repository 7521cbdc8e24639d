// Colours: viridis for numbers, Paul Tol's muted scheme for classes. Both are safe for colour-blind readers.

const VIRIDIS = "44015448186a472d7b4240863b528b33638d2c728e26828e21918c1fa08828ae803fbc735ec96284d44baddc30d8e219fde725"
const CATEGORIES = ["#88ccee", "#cc6677", "#ddcc77", "#117733", "#332288", "#aa4499", "#44aa99", "#999933", "#882255",
  "#661100", "#6699cc", "#888888"]
export const CLASS_COLORS = CATEGORIES.length
export const FIRST_FOLD = 0.5 // of the table: darker colours are lost on the dark ground that folds are drawn on

const hexToRgb = hex => [0, 2, 4].map(i => parseInt(hex.slice(i, i + 2), 16))
const STOPS = Array.from({length: VIRIDIS.length / 6}, (_, i) => hexToRgb(VIRIDIS.slice(6 * i)))

export function levelOf(q, value) { // a value's place on the colour table, 0 to 1
  if (q.categories) return ((value % CATEGORIES.length) + 0.5) / CATEGORIES.length
  const f = q.log ? Math.log : v => v
  return q.high > q.low ? Math.min(1, (f(Math.max(value, q.low)) - f(q.low)) / (f(q.high) - f(q.low))) : 0.5
}

export function colorAt(q, level) { // [r, g, b], 0 to 255
  if (q?.categories) return hexToRgb(CATEGORIES[Math.min(CATEGORIES.length - 1, Math.floor(level * CATEGORIES.length))].slice(1))
  const at = Math.min(1, Math.max(0, level)) * (STOPS.length - 1), i = Math.min(Math.floor(at), STOPS.length - 2)
  return STOPS[i].map((v, k) => Math.round(v + (at - i) * (STOPS[i + 1][k] - v)))
}

export function foldLevel(depth, deepest) { return FIRST_FOLD + (1 - FIRST_FOLD) * (depth - 1) / Math.max(1, deepest - 1) }

export function colorOf(q, value) { return `rgb(${colorAt(q, levelOf(q, value)).join(",")})` }

export function gradient(from = 0) {
  const color = i => `rgb(${colorAt(null, from + (1 - from) * i / 16).join(",")})`
  return `linear-gradient(to right, ${Array.from({length: 17}, (_, i) => color(i)).join(",")})`
}

export function pointColor(labels, i) { return labels?.length ? CATEGORIES[labels[i] % CATEGORIES.length] : "#ffffff" } // of a marked point
export function rgbOf(hex) { return hexToRgb(hex.slice(1)).map(v => v / 255) }
