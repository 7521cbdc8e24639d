// What a tiling's picture shows: one number per tile, the decision boundary, tiles near points. As Python's measures.

const edges = ({offsets, corners}, t) => Array.from(corners.subarray(offsets[t], offsets[t + 1]))

export function quantitiesOf(tiling, classes, layerOf, wanted) {
  const areas = areasOf(tiling), count = tiling.offsets.length - 1
  const each = value => Float32Array.from({length: count}, (_, t) => value(t))
  const mean = (t, k) => { const ring = edges(tiling, t); return ring.reduce((sum, v) => sum + tiling.outputs[v * classes + k], 0) / ring.length }
  const winner = t => { const means = Array.from({length: classes}, (_, k) => mean(t, k)); return means.indexOf(Math.max(...means)) }
  const deepest = t => { let most = 0; for (let c = tiling.offsets[t]; c < tiling.offsets[t + 1]; c++) most = Math.max(most, layerOf(tiling.labels[c])); return most }
  const makers = {
    slope: () => ({label: "slope norm ‖A‖₂", log: true, values: each(t => slopeOf(tiling, classes, t))}),
    area: () => ({label: "area", log: true, values: Float32Array.from(areas)}),
    depth: () => ({label: "depth of deepest wall", values: each(deepest)}),
    class: () => ({label: "class", categories: Array.from({length: classes}, (_, k) => String(k)), values: Uint16Array.from({length: count}, (_, t) => winner(t))}),
    value: () => ({label: "output 0", values: each(t => mean(t, 0))}),
  }
  return Object.keys(makers).filter(name => wanted.includes(name)).map(name => {
    const made = {name, log: false, categories: null, ...makers[name]()}, [low, high] = limitsOf(made, areas)
    return {...made, low, high}
  })
}

function limitsOf({values, log}, areas) { // the extremes; on a logarithmic scale, values that 1% of the area is beyond, without what is rounding
  if (!log) return [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))]
  const most = values.reduce((a, b) => Math.max(a, b), 0), order = [...values.keys()].filter(t => values[t] > 1e-13 * most).sort((a, b) => values[a] - values[b])
  if (!order.length) return [1, 1]
  const whole = order.reduce((sum, t) => sum + areas[t], 0)
  const at = share => { let sum = 0; return values[order.find(t => (sum += areas[t]) >= share * whole) ?? order.at(-1)] }
  return [at(0.01), at(0.99)]
}

export function areasOf({vertices, offsets, corners}) {
  return Float64Array.from({length: offsets.length - 1}, (_, t) => {
    let twice = 0
    for (let c = offsets[t]; c < offsets[t + 1]; c++) {
      const a = 2 * corners[c], b = 2 * corners[c + 1 < offsets[t + 1] ? c + 1 : offsets[t]]
      twice += vertices[a] * vertices[b + 1] - vertices[b] * vertices[a + 1]
    }
    return twice / 2
  })
}

function slopeOf(tiling, classes, t) { // largest singular value of the tile's map, from the widest triangle at its first corner
  const {vertices, outputs} = tiling, [o, ...others] = edges(tiling, t), to = (v, k) => vertices[2 * v + k] - vertices[2 * o + k]
  let widest = 0, p = 0, q = 0
  for (let i = 0; i < others.length; i++) for (let j = i + 1; j < others.length; j++) {
    const cross = to(others[i], 0) * to(others[j], 1) - to(others[j], 0) * to(others[i], 1)
    if (Math.abs(cross) > Math.abs(widest)) { widest = cross; p = others[i]; q = others[j] }
  }
  let xx = 0, xy = 0, yy = 0
  for (let k = 0; k < classes && widest; k++) {
    const dp = outputs[p * classes + k] - outputs[o * classes + k], dq = outputs[q * classes + k] - outputs[o * classes + k]
    const x = (dp * to(q, 1) - dq * to(p, 1)) / widest, y = (dq * to(p, 0) - dp * to(q, 0)) / widest
    xx += x * x; xy += x * y; yy += y * y
  }
  return Math.sqrt((xx + yy + Math.hypot(xx - yy, 2 * xy)) / 2)
}

export function boundaryOf(tiling, classes) { // segments x, y, x, y on which two outputs tie and no other is larger
  const {vertices, outputs} = tiling, found = []
  for (let t = 0; t + 1 < tiling.offsets.length; t++) {
    const ring = edges(tiling, t).map(v => [vertices[2 * v], vertices[2 * v + 1], ...outputs.subarray(v * classes, (v + 1) * classes)])
    for (let i = 0; i < classes; i++) for (let j = i + 1; j < classes; j++) {
      const ahead = p => p[2 + i] - p[2 + j]
      let ends = ring.flatMap((p, c) => {
        const q = ring[(c + 1) % ring.length], a = ahead(p), b = ahead(q)
        return a === 0 ? [p] : a * b < 0 ? [p.map((v, k) => v + a / (a - b) * (q[k] - v))] : []
      })
      if (ends.length !== 2) continue
      for (let k = 0; k < classes && ends; k++) if (k !== i && k !== j) ends = clip(ends, p => p[2 + i] - p[2 + k])
      if (ends) found.push(...ends[0].slice(0, 2), ...ends[1].slice(0, 2))
    }
  }
  return Float64Array.from(found)
}

function clip([p, q], room) { // the part of a segment where `room` is not negative; null if there is none
  const a = room(p), b = room(q), cut = p.map((v, k) => v + a / (a - b) * (q[k] - v))
  if (a < 0 && b < 0) return null
  return a < 0 ? [cut, q] : b < 0 ? [p, cut] : [p, q]
}

export function tilesNear(tiling, points, radius) { // mean number of tiles that meet the open disc about a point; null of no points
  const {vertices, offsets, corners} = tiling, count = offsets.length - 1, box = new Float64Array(4 * count)
  for (let t = 0; t < count; t++) {
    const ring = edges(tiling, t), xs = ring.map(v => vertices[2 * v]), ys = ring.map(v => vertices[2 * v + 1])
    box.set([Math.min(...xs) - radius, Math.min(...ys) - radius, Math.max(...xs) + radius, Math.max(...ys) + radius], 4 * t)
  }
  let met = 0
  for (let i = 0; i < points.length; i += 2) {
    const x = points[i], y = points[i + 1]
    for (let t = 0; t < count; t++) {
      if (x <= box[4 * t] || y <= box[4 * t + 1] || x >= box[4 * t + 2] || y >= box[4 * t + 3]) continue
      let inside = true, near = false
      for (let c = offsets[t]; c < offsets[t + 1] && !near; c++) {
        const a = 2 * corners[c], b = 2 * corners[c + 1 < offsets[t + 1] ? c + 1 : offsets[t]]
        const dx = vertices[b] - vertices[a], dy = vertices[b + 1] - vertices[a + 1], px = x - vertices[a], py = y - vertices[a + 1]
        if (dx * py - dy * px < 0) inside = false
        const s = Math.min(1, Math.max(0, (px * dx + py * dy) / (dx * dx + dy * dy)))
        near = Math.hypot(px - s * dx, py - s * dy) < radius
      }
      if (inside || near) met++
    }
  }
  return points.length ? met / (points.length / 2) : null
}
