// The playground's network in plain JavaScript: linear maps, batch norm, ReLU and its like, skips; gradients; optimizers.
// All in float64; weights are drawn as PyTorch draws them.

import {Generator} from "./random.js"

const EPS = 1e-5 // of batch norm
export const BENDS = {relu: 0, leaky: Math.fround(0.01), abs: -1} // slope below zero; it is 1 above

export class Network {
  constructor({depth, width, activation, norm, init, skip, seed}, classes) {
    const rng = new Generator(seed)
    this.low = BENDS[activation]
    this.layers = Array.from({length: depth}, (_, i) => ({...linear(rng, i ? width : 2, width), skip: skip && i > 0, norm: norm === "batch" ? batchNorm(width) : null}))
    this.head = linear(rng, width, classes)
    if (init === "default") return
    for (const layer of this.layers) {
      if (init === "he") layer.weight.set(rng.normal(layer.weight.length).map(v => Math.fround(v * Math.sqrt(2 / layer.fanIn))))
      layer.bias.fill(0)
    }
  }

  center(x) { // the start "mean": each layer's pre-activations have mean 0 over the data
    const n = x.length / 2
    let h = x
    for (const layer of this.layers) {
      const z = apply(layer, h, n)
      for (let j = 0; j < layer.width; j++) layer.bias[j] -= meanOf(z, n, layer.width, j)
      h = apply(layer, h, n).map(v => v > 0 ? v : this.low * v)
    }
  }

  parameters() { // of each: the numbers, and their gradient
    return [...this.layers.flatMap(layer => [layer, ...(layer.norm ? [layer.norm] : [])]), this.head].flatMap(part => [[part.weight, part.gradWeight], [part.bias, part.gradBias]])
  }

  // Outputs [n * classes] for points [2 n]. In training batch norm takes the batch's own statistics and keeps them, as
  // PyTorch does with a momentum of 1, and what `backward` needs is kept.
  forward(x, training = false) {
    const n = x.length / 2
    let h = x
    for (const layer of this.layers) {
      const z = apply(layer, h, n)
      if (layer.norm) normalize(layer.norm, z, n, training)
      const y = new Float64Array(z.length)
      for (let i = 0; i < y.length; i++) y[i] = (z[i] > 0 ? z[i] : this.low * z[i]) + (layer.skip ? h[i] : 0)
      if (training) Object.assign(layer, {input: h, z})
      h = y
    }
    if (training) this.head.input = h
    return apply(this.head, h, n)
  }

  backward(grad) { // of the outputs of the last `forward` in training: fills the parameters' gradients
    const n = grad.length / this.head.width
    let down = back(this.head, grad, n)
    for (const layer of this.layers.toReversed()) {
      const up = down.map((g, i) => layer.z[i] > 0 ? g : this.low && layer.z[i] ? this.low * g : 0)
      if (layer.norm) backNorm(layer.norm, up, n)
      const through = back(layer, up, n)
      down = layer.skip ? through.map((g, i) => g + down[i]) : through
    }
  }

  affine(layer) { // a layer's map before its bend as one matrix and offset, with the statistics that are held
    const {weight, bias, norm, width, fanIn} = layer
    if (!norm) return {weight, bias}
    const scale = Float64Array.from(norm.weight, (g, j) => g / Math.sqrt(norm.variance[j] + EPS))
    return {weight: weight.map((w, i) => w * scale[Math.floor(i / fanIn)]), bias: bias.map((b, j) => (b - norm.mean[j]) * scale[j] + norm.bias[j])}
  }
}

const zeros = count => new Float64Array(count)

function linear(rng, fanIn, width) {
  const bound = 1 / Math.sqrt(fanIn)
  const weight = rng.uniform(width * fanIn, -bound, bound), bias = rng.uniform(width, -bound, bound)
  return {fanIn, width, weight, bias, gradWeight: zeros(weight.length), gradBias: zeros(width)}
}

function batchNorm(width) {
  return {weight: zeros(width).fill(1), bias: zeros(width), gradWeight: zeros(width), gradBias: zeros(width), mean: zeros(width), variance: zeros(width).fill(1)}
}

export function apply({fanIn, width, weight, bias}, x, n) {
  const out = zeros(n * width)
  for (let r = 0; r < n; r++) for (let j = 0; j < width; j++) {
    let sum = bias[j]
    for (let i = 0; i < fanIn; i++) sum += weight[j * fanIn + i] * x[r * fanIn + i]
    out[r * width + j] = sum
  }
  return out
}

function back({fanIn, width, weight, gradWeight, gradBias, input}, up, n) { // to the inputs
  const down = zeros(n * fanIn)
  gradWeight.fill(0)
  gradBias.fill(0)
  for (let r = 0; r < n; r++) for (let j = 0; j < width; j++) {
    const g = up[r * width + j]
    if (!g) continue
    gradBias[j] += g
    for (let i = 0; i < fanIn; i++) {
      gradWeight[j * fanIn + i] += g * input[r * fanIn + i]
      down[r * fanIn + i] += g * weight[j * fanIn + i]
    }
  }
  return down
}

function meanOf(z, n, width, j) {
  let sum = 0
  for (let r = 0; r < n; r++) sum += z[r * width + j]
  return sum / n
}

function normalize(norm, z, n, training) { // in place
  const width = norm.mean.length
  if (training) Object.assign(norm, {unit: zeros(z.length), scale: zeros(width)})
  for (let j = 0; j < width; j++) {
    let mean = norm.mean[j], variance = norm.variance[j]
    if (training) {
      mean = meanOf(z, n, width, j)
      variance = 0
      for (let r = 0; r < n; r++) variance += (z[r * width + j] - mean) ** 2 / n
      norm.mean[j] = mean
      norm.variance[j] = variance * n / (n - 1) // what is held is without bias
    }
    const scale = 1 / Math.sqrt(variance + EPS)
    if (training) norm.scale[j] = scale
    for (let r = 0, i = j; r < n; r++, i += width) {
      const unit = (z[i] - mean) * scale
      if (training) norm.unit[i] = unit
      z[i] = unit * norm.weight[j] + norm.bias[j]
    }
  }
}

function backNorm(norm, up, n) { // in place: through the batch's own mean and variance
  const width = norm.mean.length
  for (let j = 0; j < width; j++) {
    let sum = 0, along = 0
    for (let r = 0, i = j; r < n; r++, i += width) { sum += up[i]; along += up[i] * norm.unit[i] }
    norm.gradBias[j] = sum
    norm.gradWeight[j] = along
    for (let r = 0, i = j; r < n; r++, i += width) up[i] = norm.weight[j] * norm.scale[j] * (up[i] - sum / n - norm.unit[i] * along / n)
  }
}

export function crossEntropy(outputs, y, classes) { // mean loss, share that is right, and the gradient of the mean loss
  const n = y.length, grad = zeros(outputs.length)
  let loss = 0, right = 0
  for (let r = 0; r < n; r++) {
    const row = outputs.subarray(r * classes, (r + 1) * classes), most = Math.max(...row)
    let sum = 0
    for (const v of row) sum += Math.exp(v - most)
    loss += (most + Math.log(sum) - row[y[r]]) / n
    if (row.indexOf(most) === y[r]) right++
    for (let k = 0; k < classes; k++) grad[r * classes + k] = (Math.exp(row[k] - most) / sum - (k === y[r] ? 1 : 0)) / n
  }
  return {loss, accuracy: right / n, grad}
}

export class Optimizer { // SGD, with momentum or without, Adam and AdamW, as PyTorch has them
  constructor({optimizer, rate, decay}, parameters) {
    Object.assign(this, {kind: optimizer, rate, decay, parameters, steps: 0})
    this.first = parameters.map(([values]) => zeros(values.length))
    this.second = parameters.map(([values]) => zeros(values.length))
  }

  step() {
    const {kind, rate, decay} = this, t = ++this.steps
    this.parameters.forEach(([values, grad], p) => {
      const first = this.first[p], second = this.second[p]
      for (let i = 0; i < values.length; i++) {
        if (kind === "adamw") values[i] *= 1 - rate * decay
        const g = grad[i] + (kind === "adamw" ? 0 : decay * values[i])
        if (kind === "sgd") values[i] -= rate * g
        else if (kind === "momentum") { first[i] = t === 1 ? g : 0.9 * first[i] + g; values[i] -= rate * first[i] }
        else {
          first[i] += 0.1 * (g - first[i])
          second[i] = 0.999 * second[i] + 0.001 * g * g
          values[i] -= rate / (1 - 0.9 ** t) * first[i] / (Math.sqrt(second[i]) / Math.sqrt(1 - 0.999 ** t) + 1e-8)
        }
      }
    })
  }
}
