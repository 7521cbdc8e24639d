// Exact tiles of a network on the square, in float64: every unit of every layer cuts the polygons that it folds.
//
// A network is continuous, so what a layer gets at a vertex is one row of numbers, whichever tile one comes from; on
// an edge it is affine. So only vertices carry numbers: a cut's new vertex mixes those of the edge's two ends, and both
// tiles of the edge get the same vertex.

import {apply} from "./net.js"

const ZERO = 1e-12 // a pre-activation is zero below so much of the sum of its terms' sizes, at its largest: where folds meet, all is rounding

class Rows { // rows of numbers that grow
  constructor(width, values = new Float64Array(0)) { Object.assign(this, {width, values, count: values.length / width}) }

  mix(a, b, s) { // the row between two others, appended
    const {width} = this, at = this.count++
    if (this.values.length < (at + 1) * width) {
      const more = new Float64Array(2 * (at + 64) * width)
      more.set(this.values)
      this.values = more
    }
    for (let i = 0; i < width; i++) this.values[at * width + i] = this.values[a * width + i] + s * (this.values[b * width + i] - this.values[a * width + i])
  }

  used() { return this.values.subarray(0, this.count * this.width) }
}

export function tessellate(net, reach, most = Infinity) { // of the square [-reach, reach]^2; null beyond `most` tiles
  const places = new Rows(2, Float64Array.from([-reach, -reach, reach, -reach, reach, reach, -reach, reach]))
  let tiles = [{corners: [0, 1, 2, 3], labels: [-1, -1, -1, -1]}], inputs = new Rows(2, places.used().slice()), first = 0
  for (const layer of net.layers) {
    const {values, zeros} = preActivations(net, layer, inputs), z = new Rows(layer.width, values)
    for (let unit = 0; unit < layer.width; unit++) {
      tiles = cutAll(tiles, unit, first + unit, z, zeros, [places, inputs, z])
      if (tiles.length > most) return null
    }
    first += layer.width
    const out = z.used().map((v, i) => (v > 0 ? v : net.low * v) + (layer.skip ? inputs.values[i] : 0))
    inputs = new Rows(layer.width, out)
  }
  const offsets = new Uint32Array(tiles.length + 1)
  tiles.forEach((tile, t) => { offsets[t + 1] = offsets[t] + tile.corners.length })
  return {
    vertices: places.used().slice(), offsets, corners: Uint32Array.from(tiles.flatMap(tile => tile.corners)),
    labels: Int32Array.from(tiles.flatMap(tile => tile.labels)), // of the wall from a corner to the next: the unit over all layers, -1 on the square's edge
    outputs: apply(net.head, inputs.used(), inputs.count),
  }
}

function preActivations(net, layer, inputs) { // of all vertices; and below which size each unit's are zero
  const {weight, bias} = net.affine(layer), {width, fanIn} = layer, values = new Float64Array(inputs.count * width), zeros = new Float64Array(width)
  for (let v = 0; v < inputs.count; v++) for (let j = 0; j < width; j++) {
    let sum = bias[j], size = Math.abs(bias[j])
    for (let i = 0; i < fanIn; i++) {
      const term = weight[j * fanIn + i] * inputs.values[v * fanIn + i]
      sum += term
      size += Math.abs(term)
    }
    values[v * width + j] = sum
    zeros[j] = Math.max(zeros[j], ZERO * size)
  }
  return {values: values.map((v, i) => Math.abs(v) <= zeros[i % width] ? 0 : v), zeros}
}

function cutAll(tiles, unit, label, z, zeros, rows) {
  const made = new Map(), out = [] // made: edge -> its new vertex
  const at = v => z.values[v * z.width + unit]
  const vertexOn = (a, b) => {
    const [low, high] = a < b ? [a, b] : [b, a], key = low * 2 ** 26 + high
    if (made.has(key)) return made.get(key)
    const s = at(low) / (at(low) - at(high)), v = z.count
    for (const each of rows) each.mix(low, high, s)
    for (let j = 0; j < z.width; j++) if (j === unit || Math.abs(z.values[v * z.width + j]) <= zeros[j]) z.values[v * z.width + j] = 0
    made.set(key, v)
    return v
  }
  for (const tile of tiles) {
    let above = false, below = false
    for (const v of tile.corners) { const level = at(v); if (level > 0) above = true; else if (level < 0) below = true }
    if (above && below) out.push(half(tile, label, at, vertexOn, -1), half(tile, label, at, vertexOn, 1))
    else out.push(tile)
  }
  return out
}

function half({corners, labels}, label, at, vertexOn, side) { // the part of a convex polygon on one side of a fold
  const part = {corners: [], labels: []}, add = (corner, wall) => { part.corners.push(corner); part.labels.push(wall) }
  for (let i = 0; i < corners.length; i++) {
    const a = corners[i], b = corners[i + 1 < corners.length ? i + 1 : 0], here = side * at(a), next = side * at(b)
    if (here >= 0) add(a, here === 0 && next < 0 ? label : labels[i]) // from the fold outwards: the fold comes next
    if (here > 0 && next < 0) add(vertexOn(a, b), label)
    if (here < 0 && next > 0) add(vertexOn(a, b), labels[i])
  }
  return part
}
