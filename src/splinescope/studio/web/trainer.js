// A recipe's network in training, and what the page shows of it at a moment: Python's `Trainer`, in the browser.

import {boundaryOf, quantitiesOf, tilesNear} from "./measures.js"
import {apply, crossEntropy, Network, Optimizer} from "./net.js"
import {Generator} from "./random.js"
import {makeSet} from "./sets.js"
import {tessellate} from "./tiles.js"

export const REACH = 2.6 // half the side of the square
const NEAR = 0.15 // radius of the discs in which tiles are counted
const MOST_TILES = 60_000
export const SHOWN = ["class", "slope", "depth", "area", "value"]

const rowsOf = ({x, y}, rows) => ({x: Float64Array.from({length: 2 * rows.length}, (_, i) => x[2 * rows[i >> 1] + (i & 1)]), y: Uint8Array.from(rows, r => y[r])})

export class Trainer {
  constructor(recipe) {
    Object.assign(this, {recipe, steps: 0, data: makeSet(recipe), test: recipe.data === "own" ? null : makeSet({...recipe, seed: recipe.seed + 1_000_003})})
    this.classes = Math.max(...this.data.y) + 1
    this.batches = new Generator(recipe.seed)
    this.looks = new Generator(recipe.seed + 1) // looking must not change what training draws
    this.net = new Network(recipe, this.classes)
    if (recipe.init === "mean") {
      if (recipe.norm !== "none" || recipe.skip) throw new Error("the start 'mean' sets plain layers: choose no normalization and no skips for it.")
      this.net.center(this.data.x)
    }
    this.optimizer = new Optimizer(recipe, this.net.parameters())
    this.holdStatistics()
  }

  train(steps) {
    for (let i = 0; i < steps; i++) {
      const n = this.data.y.length, rows = this.batches.permutation(n).subarray(0, Math.min(n, this.recipe.batch)), {x, y} = rowsOf(this.data, rows)
      const {loss, grad} = crossEntropy(this.net.forward(x, true), y, this.classes)
      if (!Number.isFinite(loss)) throw new Error("training has diverged: the loss is not finite. Choose a smaller rate and start again.")
      this.net.backward(grad)
      this.optimizer.step()
      this.steps++
    }
  }

  holdStatistics() { // of norms, for the picture; loss and accuracy come of the same pass
    const outputs = this.net.forward(this.data.x, true), {loss, accuracy} = crossEntropy(outputs, this.data.y, this.classes), n = this.data.y.length
    this.dead = this.steps > 0 && outputs.every((v, i) => v === outputs[i % this.classes]) // a rate that was too large has killed it
    if (this.recipe.norm === "batch" && this.recipe.statistics === "batch") this.net.forward(rowsOf(this.data, this.looks.permutation(n).subarray(0, Math.max(2, this.recipe.batch))).x, true)
    return {loss, accuracy, test: this.test && crossEntropy(this.net.forward(this.test.x), this.test.y, this.classes).accuracy}
  }

  // by hand

  movePoint(index, x, y) { this.data.x.set([x, y].map(v => Math.min(REACH, Math.max(-REACH, v))), 2 * index) }

  moveFold(layer, unit, x, y) { // shift the unit's offset so that its fold passes through a point
    let h = Float64Array.of(x, y)
    this.net.layers.slice(0, layer + 1).forEach((each, i) => {
      const {weight, bias} = this.net.affine(each), z = Float64Array.from(bias, (b, j) => b + h.reduce((sum, v, k) => sum + v * weight[j * each.fanIn + k], 0))
      if (i === layer) (each.norm ?? each).bias[unit] -= z[unit]
      h = z.map((v, j) => (v > 0 ? v : this.net.low * v) + (each.skip ? h[j] : 0))
    })
  }

  setWeight(layer, unit, source, value) {
    const each = this.net.layers[layer], size = Math.min(100, Math.max(-100, value))
    if (source < 0) (each.norm ?? each).bias[unit] = size
    else each.weight[unit * each.fanIn + source] = size
  }

  unitWeights([layer, unit]) {
    const each = this.net.layers[layer]
    return {layer, unit, weights: Array.from(each.weight.subarray(unit * each.fanIn, (unit + 1) * each.fanIn)), offset: (each.norm ?? each).bias[unit]}
  }

  // what is seen

  diagram() { // of each unit and output its values over the square, 127 is zero and the largest is one end; all weights
    const {net} = this, n = SIDE * SIDE, sheets = []
    let h = GRID
    for (const layer of [...net.layers, net.head]) {
      const last = layer === net.head, z = apply(last ? layer : {...layer, ...net.affine(layer)}, h, n), y = last ? z : z.map(v => v > 0 ? v : net.low * v)
      for (let j = 0; j < layer.width; j++) {
        let most = 1e-12
        for (let i = j; i < y.length; i += layer.width) most = Math.max(most, Math.abs(y[i]))
        for (let i = j; i < y.length; i += layer.width) sheets.push(Math.round(127 + 127 * y[i] / most))
      }
      h = layer.skip ? y.map((v, i) => v + h[i]) : y
    }
    return {sheets: Uint8Array.from(sheets), wires: Float32Array.from([...net.layers, net.head].flatMap(layer => Array.from(layer.weight)))}
  }

  frame(selected = null, shown = SHOWN, near = true) {
    const measures = this.holdStatistics(), {classes, recipe} = this, {width, depth} = recipe
    const tiling = tessellate(this.net, REACH, MOST_TILES), layerOf = label => label < 0 ? 0 : Math.floor(label / width) + 1
    if (!tiling) throw new Error("The square has more tiles than the playground draws: choose a smaller network.")
    const boundary = boundaryOf(tiling, classes), count = tiling.offsets.length - 1, cuts = Array.from({length: depth * width}, (_, i) => i)
    if (near) Object.assign(measures, {"near data": tilesNear(tiling, this.data.x, NEAR), "near boundary": tilesNear(tiling, middles(boundary), NEAR)})
    return {
      title: "Playground", notes: [["tiles", count.toLocaleString("en")]], numbers: null, rest: null,
      vertices: tiling.vertices, offsets: tiling.offsets, corners: tiling.corners, depths: Uint8Array.from(tiling.labels, layerOf),
      domain: [-REACH, -REACH, REACH, -REACH, REACH, REACH, -REACH, REACH], anchors: [0, 0], labels: [], boundary, values: Float32Array.from(tiling.outputs),
      quantities: quantitiesOf(tiling, classes, layerOf, shown), corner_cuts: tiling.labels,
      cut_layers: Uint8Array.from(cuts, i => Math.floor(i / width)), cut_units: Uint16Array.from(cuts, i => i % width), cut_knots: new Float32Array(cuts.length),
      points: Float32Array.from(this.data.x), classes: this.data.y.slice(), held: false, dead: this.dead, within: null,
      ...(near ? this.diagram() : {}), selected: selected && this.unitWeights(selected), step: this.steps, measures: {...measures, tiles: count},
    }
  }
}

const SIDE = 16 // pixels of a unit's picture
const GRID = Float64Array.from({length: 2 * SIDE * SIDE}, (_, i) => REACH * (i & 1 ? 1 - (2 * Math.floor(i / 2 / SIDE) + 1) / SIDE : (2 * ((i >> 1) % SIDE) + 1) / SIDE - 1)) // rows from the top

function middles(boundary) { // of at most a hundred segments
  const count = boundary.length / 4, few = Math.min(100, count)
  return Array.from({length: few}, (_, i) => 4 * Math.floor(few > 1 ? i * (count - 1) / (few - 1) : 0)).flatMap(at => [(boundary[at] + boundary[at + 2]) / 2, (boundary[at + 1] + boundary[at + 3]) / 2])
}
