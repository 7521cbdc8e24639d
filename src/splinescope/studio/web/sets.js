// The playground's data sets, drawn as Python's `make_set` draws them; and points from a CSV file.

import {Generator} from "./random.js"

const TURN = 2 * Math.PI

export function makeSet({data, count, noise, points, seed}) { // x [2 n] and classes [n]
  if (data === "own") {
    if (new Set(points.map(p => p[2])).size < 2) throw new Error("draw at least two points of different classes, or choose another set.")
    return {x: Float64Array.from(points.flatMap(p => p.slice(0, 2)), Math.fround), y: Uint8Array.from(points, p => p[2])}
  }
  const rng = new Generator(seed), {x, y} = MAKERS[data](count, rng), spread = rng.normal(2 * count), scale = data === "moons" ? 1.3 : 1
  return {x: Float64Array.from(x, (v, i) => Math.fround(scale * (v + noise * spread[i]))), y: Uint8Array.from(y)}
}

const alternate = (count, classes) => Array.from({length: count}, (_, i) => i % classes)
const polar = (radius, angle) => [radius * Math.cos(angle), radius * Math.sin(angle)]

const MAKERS = {
  moons(count, rng) {
    const y = Array.from({length: count}, (_, i) => i >= Math.floor(count / 2) ? 1 : 0), angle = rng.uniform(count)
    return {x: y.flatMap((label, i) => { const a = Math.PI * angle[i], upper = [Math.cos(a) - 0.5, Math.sin(a) - 0.25]; return label ? upper.map(v => -v) : upper }), y}
  },
  circles(count, rng) {
    const y = alternate(count, 2), turn = rng.uniform(count)
    return {x: y.flatMap((label, i) => polar(label ? 0.7 : 1.6, TURN * turn[i])), y}
  },
  star(count) {
    const half = Math.max(Math.floor(count / 2), 1)
    return {x: [...star(count - half, 1.8), ...star(half, 0.9)], y: Array.from({length: count}, (_, i) => i >= count - half ? 1 : 0)}
  },
  spirals(count, rng) {
    const y = alternate(count, 2), place = rng.uniform(count).map(Math.sqrt)
    return {x: y.flatMap((label, i) => polar(1.9 * place[i], 1.5 * TURN * place[i] + Math.PI * label)), y}
  },
  xor(count, rng) {
    const x = rng.uniform(2 * count).map(v => 3.4 * v - 1.7).map(v => v + 0.15 * Math.sign(v))
    return {x, y: Array.from({length: count}, (_, i) => x[2 * i] * x[2 * i + 1] > 0 ? 1 : 0)}
  },
  blobs(count, rng) {
    const y = alternate(count, 3), spread = rng.normal(2 * count)
    return {x: y.flatMap((label, i) => polar(1.1, TURN * label / 3 + Math.PI / 2).map((v, k) => v + 0.25 * spread[2 * i + k])), y}
  },
}

function star(count, radius, arms = 5, inner = 0.45) { // evenly along its outline
  const corner = i => polar(i % 2 ? radius * inner : radius, Math.PI / 2 + Math.PI * i / arms)
  return Array.from({length: count}, (_, i) => {
    const place = i * 2 * arms / count, side = Math.floor(place), a = corner(side), b = corner(side + 1)
    return a.map((v, k) => v + (place - side) * (b[k] - v))
  }).flat()
}

export function readCsv(text) { // rows x, y and a class, which may be text; fitted into the picture
  const lines = text.replace(/^\ufeff/, "").split(/\r?\n/).filter(line => line.trim()), [by] = [",", ";", "\t"].sort((a, b) => (lines[0] ?? "").split(b).length - (lines[0] ?? "").split(a).length)
  let rows = lines.map(line => line.split(by).map(part => part.trim().replace(/^"(.*)"$/, "$1")))
  const isNumber = part => part !== "" && Number.isFinite(Number(part))
  if (rows.length && !rows[0].some(isNumber)) rows = rows.slice(1)
  const wrong = rows.findIndex(row => ![2, 3].includes(row.length) || !row.slice(0, 2).every(isNumber))
  if (!rows.length || wrong >= 0) throw new Error(`the file must have two numbers a row, x and y, and a class; ${rows.length ? `got “${rows[wrong].join(by)}”` : "it has none"}.`)
  const names = [...new Set(rows.map(row => row[2] ?? ""))].sort((a, b) => isNumber(a) && isNumber(b) ? a - b : a < b ? -1 : 1)
  if (names.length > 10) throw new Error(`the third column must hold at most 10 classes, got ${names.length}.`)
  const [xs, ys] = [0, 1].map(k => rows.map(row => Number(row[k]))), ends = [xs, ys].map(list => [list.reduce((a, b) => Math.min(a, b)), list.reduce((a, b) => Math.max(a, b))])
  const scale = 3.2 / Math.max(...ends.map(([low, high]) => high - low), 1e-12)
  return rows.map(row => [...ends.map(([low, high], k) => (Number(row[k]) - (low + high) / 2) * scale), names.indexOf(row[2] ?? "")])
}
