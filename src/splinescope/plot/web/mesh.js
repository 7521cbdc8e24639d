// Geometry of tiles for drawing and looking up, all in float64 until positions are handed to the GPU.
//
// A tile of over a pixel or two becomes a polygon; smaller ones are "dust", drawn as the mean of their colors in the
// cells of a raster: what the exact picture looks like from that far. Nothing is left out at any zoom, unless there are
// millions of tiles: then `data.rest` is a raster with the number of a tile in each cell, whose color stands for those
// that the data does not have.

const FEW = 200_000 // tiles up to which as many as 12 outputs per corner are handed to the GPU
const DUST = 2 // pixels: side of a raster cell, and extent below which a tile goes into it
const TOUCHED = 1e-6 // weight of a tile in cells that it may reach beside that of its middle: seen where nothing else is

export function extent(points) {
  let x0 = Infinity, y0 = Infinity, x1 = -Infinity, y1 = -Infinity
  for (let i = 0; i < points.length; i += 2) {
    x0 = Math.min(x0, points[i]); x1 = Math.max(x1, points[i])
    y0 = Math.min(y0, points[i + 1]); y1 = Math.max(y1, points[i + 1])
  }
  return [x0, y0, x1, y1]
}

export function tileBounds({vertices, offsets, corners}) { // x0, y0, x1, y1 of each tile
  const count = offsets.length - 1, bounds = new Float64Array(4 * count)
  for (let t = 0; t < count; t++) {
    let x0 = Infinity, y0 = Infinity, x1 = -Infinity, y1 = -Infinity
    for (let c = offsets[t]; c < offsets[t + 1]; c++) {
      const x = vertices[2 * corners[c]], y = vertices[2 * corners[c] + 1]
      if (x < x0) x0 = x
      if (x > x1) x1 = x
      if (y < y0) y0 = y
      if (y > y1) y1 = y
    }
    bounds[4 * t] = x0; bounds[4 * t + 1] = y0; bounds[4 * t + 2] = x1; bounds[4 * t + 3] = y1
  }
  return bounds
}

export function areaOf({vertices, offsets, corners}, tile) {
  let twice = 0
  const first = offsets[tile], x0 = vertices[2 * corners[first]], y0 = vertices[2 * corners[first] + 1]
  for (let c = first + 1; c + 1 < offsets[tile + 1]; c++) {
    const a = 2 * corners[c], b = 2 * corners[c + 1]
    twice += (vertices[a] - x0) * (vertices[b + 1] - y0) - (vertices[b] - x0) * (vertices[a + 1] - y0)
  }
  return twice / 2
}

export function locate(data, bounds, x, y) { // the tile at a point, -1 outside; on a wall, one of its tiles
  const {vertices, offsets, corners} = data, count = offsets.length - 1
  const [x0, y0, x1, y1] = extent(data.domain), hair = 1e-12 * Math.max(x1 - x0, y1 - y0)
  let best = -hair, found = -1
  for (let t = 0, b = 0; t < count; t++, b += 4) {
    if (x < bounds[b] || x > bounds[b + 2] || y < bounds[b + 1] || y > bounds[b + 3]) continue
    let least = Infinity // signed distance to the nearest side
    for (let c = offsets[t], last = offsets[t + 1] - 1; c <= last && least > best; c++) {
      const p = 2 * corners[c], q = 2 * corners[c < last ? c + 1 : offsets[t]]
      const dx = vertices[q] - vertices[p], dy = vertices[q + 1] - vertices[p + 1]
      least = Math.min(least, (dx * (y - vertices[p + 1]) - dy * (x - vertices[p])) / Math.hypot(dx, dy))
    }
    if (least > best) { best = least; found = t }
  }
  return found
}

export function outputsAt(data, tile, x, y) { // all outputs at a point of a tile, by the tile's own affine map
  const {vertices, offsets, corners, values} = data
  if (!values?.length || tile < 0) return []
  const size = values.length / (vertices.length / 2), at = c => [vertices[2 * c], vertices[2 * c + 1]]
  const a = corners[offsets[tile]], [ax, ay] = at(a)
  let widest = 0, chosen = null
  for (let c = offsets[tile] + 1; c < offsets[tile + 1]; c++) for (let d = c + 1; d < offsets[tile + 1]; d++) {
    const [bx, by] = at(corners[c]), [ex, ey] = at(corners[d]), cross = (bx - ax) * (ey - ay) - (ex - ax) * (by - ay)
    if (Math.abs(cross) > widest) { widest = Math.abs(cross); chosen = [corners[c], corners[d], cross] }
  }
  if (!chosen) return []
  const [b, e, cross] = chosen, [bx, by] = at(b), [ex, ey] = at(e)
  const s = ((x - ax) * (ey - ay) - (ex - ax) * (y - ay)) / cross, u = ((bx - ax) * (y - ay) - (x - ax) * (by - ay)) / cross
  return Array.from({length: size}, (_, k) => (1 - s - u) * values[size * a + k] + s * values[size * b + k] + u * values[size * e + k])
}

export function shadedOutputs({values, vertices, offsets}) { // how many outputs decide the class at each pixel; 0: one a tile
  const count = values?.length ? values.length / (vertices.length / 2) : 0
  return count <= (offsets.length > FEW ? 4 : 12) ? count : 0
}

export function classPieces(data, tile) { // a tile cut where the class changes: [[class, [[x, y, outputs...], ...]], ...]; outputs must decide (`shadedOutputs`)
  const {vertices, offsets, corners, values} = data, size = shadedOutputs(data), pieces = []
  const whole = Array.from(corners.subarray(offsets[tile], offsets[tile + 1]), v => [vertices[2 * v], vertices[2 * v + 1], ...size === 1 ? [0, values[v]] : values.subarray(size * v, size * v + size)])
  const winners = new Set(whole.map(([,, ...outputs]) => outputs.indexOf(Math.max(...outputs))))
  if (winners.size === 1) return [[...winners, whole]] // what wins at every corner wins inside: outputs are affine
  for (let k = 0; k < Math.max(2, size); k++) {
    let part = whole
    for (let j = 0; j < Math.max(2, size); j++) if (j !== k) part = cutRing(part, p => p[2 + k] - p[2 + j])
    if (part.length > 2) pieces.push([k, part])
  }
  return pieces
}

function cutRing(points, room) { // the part where `room`, which is affine, is not negative
  return points.flatMap((p, i) => {
    const q = points[(i + 1) % points.length], a = room(p), b = room(q), s = a / (a - b)
    return [...(a >= 0 ? [p] : []), ...((a > 0 && b < 0) || (a < 0 && b > 0) ? [p.map((v, k) => v + s * (q[k] - v))] : [])]
  })
}

export function eachWall({vertices, offsets, corners, depths}, layers, draw) { // draw(ax, ay, bx, by, depth), once a wall
  for (let t = 0; t + 1 < offsets.length; t++) for (let c = offsets[t]; c < offsets[t + 1]; c++) {
    const a = corners[c], b = corners[c + 1 < offsets[t + 1] ? c + 1 : offsets[t]]
    if (depths[c] <= layers && (depths[c] === 0 || a < b)) draw(vertices[2 * a], vertices[2 * a + 1], vertices[2 * b], vertices[2 * b + 1], depths[c])
  }
}

// What the GPU draws of the box x +- half, y +- half at `scale` pixels per unit, positions relative to (x, y).
export function buildMesh(data, bounds, x, y, half, scale) {
  const classes = shadedOutputs(data)
  const {vertices, offsets, corners, depths} = data, count = offsets.length - 1, speck = DUST / scale
  const left = x - half, right = x + half, low = y - half, high = y + half
  const whole = new Uint32Array(count), cut = [], dust = new Uint32Array(count), starts = []
  let wholes = 0, dusts = 0, room = 0
  for (let t = 0, b = 0; t < count; t++, b += 4) {
    const x0 = bounds[b], y0 = bounds[b + 1], x1 = bounds[b + 2], y1 = bounds[b + 3]
    if (x0 > right || x1 < left || y0 > high || y1 < low) continue
    if (x1 - x0 < speck && y1 - y0 < speck) dust[dusts++] = t
    else if (x0 < left || x1 > right || y0 < low || y1 > high) cut.push([t, clipRing(ring(data, t, x, y), half)])
    else { whole[wholes++] = t; room += offsets[t + 1] - offsets[t] }
  }
  for (const [, points] of cut) room += points.length
  const mesh = {x, y, half, scale, dust: dust.subarray(0, dusts), position: new Float32Array(2 * room), tile: new Uint32Array(room),
    depth: new Uint8Array(room), size: new Float32Array(room), triangles: new Uint32Array(3 * room), lines: new Uint32Array(2 * room)}
  const outputs = Array.from({length: Math.ceil(classes / 4)}, (_, i) => mesh[`outputs${i}`] = new Float32Array(4 * room))
  let n = 0, triangles = 0, lines = 0
  const add = (t, length, size, at, mine = () => true) => {
    const first = n
    starts.push(first)
    for (let i = 0; i < length; i++, n++) {
      mesh.tile[n] = t
      mesh.size[n] = size
      const depth = at(i)
      mesh.depth[n] = depth
      if (depth !== 255 && mine(i)) { // the line has the color of its last vertex (flat shading): from the next corner to this one
        mesh.lines[lines++] = i + 1 < length ? n + 1 : first
        mesh.lines[lines++] = n
      }
      if (i > 1) { mesh.triangles[triangles++] = first; mesh.triangles[triangles++] = n - 1; mesh.triangles[triangles++] = n }
    }
  }
  for (let i = 0; i < wholes; i++) {
    const t = whole[i], first = offsets[t]
    add(t, offsets[t + 1] - first, Math.sqrt(areaOf(data, t)), j => {
      const v = corners[first + j]
      mesh.position[2 * n] = vertices[2 * v] - x
      mesh.position[2 * n + 1] = vertices[2 * v + 1] - y
      for (let k = 0; k < classes; k++) outputs[k >> 2][4 * n + (k & 3)] = data.values[classes * v + k]
      return depths[first + j]
    }, j => depths[first + j] === 0 || corners[first + j] < corners[j + 1 < offsets[t + 1] - first ? first + j + 1 : first]) // a wall once
  }
  for (const [t, points] of cut) {
    if (points.length < 3) continue
    add(t, points.length, Math.sqrt(areaOf(data, t)), j => {
      mesh.position[2 * n] = points[j][0]
      mesh.position[2 * n + 1] = points[j][1]
      if (classes) outputsAt(data, t, x + points[j][0], y + points[j][1]).forEach((value, k) => { outputs[k >> 2][4 * n + (k & 3)] = value })
      return points[j][2]
    })
  }
  mesh.starts = new Uint32Array([...starts, n]) // corners of polygon i: starts[i] to starts[i + 1]
  mesh.triangles = mesh.triangles.subarray(0, triangles)
  mesh.lines = mesh.lines.subarray(0, lines)
  return mesh
}

// The dust of a mesh as an RGBA image of the part `box` of its plane: area-weighted mean of the colors
// of tiles, at `place(tile)` of the table; alpha 0 where there is none.
export function dustImage(data, bounds, mesh, table, place) {
  const [x0, y0, x1, y1] = dustBox(data, mesh), cells = length => Math.max(1, Math.ceil(length * mesh.scale / DUST))
  const width = cells(x1 - x0), height = cells(y1 - y0), sums = new Float32Array(4 * width * height), pixels = new Uint8Array(4 * width * height)
  const across = width / (x1 - x0), up = height / (y1 - y0), within = (v, size) => Math.min(size - 1, Math.max(0, Math.floor(v)))
  const column = x => within((x - x0) * across, width), row = y => within((y - y0) * up, height)
  for (const t of mesh.dust) {
    const [left, low, right, high] = bounds.subarray(4 * t, 4 * t + 4), from = place(t), area = areaOf(data, t)
    const middle = row((low + high) / 2) * width + column((left + right) / 2)
    for (let r = row(low); r <= row(high); r++) for (let c = column(left); c <= column(right); c++) {
      const at = 4 * (r * width + c), weight = r * width + c === middle ? area : TOUCHED * area
      for (let k = 0; k < 3; k++) sums[at + k] += weight * table[from + k]
      sums[at + 3] += weight
    }
  }
  for (let i = 0; i < sums.length; i += 4) {
    const cell = i / 4, other = sums[i + 3] > 0 ? -1 : restAt(data.rest, x0 + (cell % width + 0.5) / across, y0 + (Math.floor(cell / width) + 0.5) / up)
    if (!(sums[i + 3] > 0) && other < 0) continue
    for (let k = 0; k < 3; k++) pixels[i + k] = other < 0 ? sums[i + k] / sums[i + 3] : table[place(other) + k]
    pixels[i + 3] = 255
  }
  return {width, height, pixels, box: [x0 - mesh.x, y0 - mesh.y, x1 - mesh.x, y1 - mesh.y]}
}

export function restAt(rest, x, y) { // the tile whose color stands for those that the data does not have; -1: none is missing
  if (!rest) return -1
  const [x0, y0, x1, y1] = rest.box, column = Math.floor((x - x0) / (x1 - x0) * rest.width), row = Math.floor((y - y0) / (y1 - y0) * rest.height)
  return column >= 0 && row >= 0 && column < rest.width && row < rest.height ? rest.tiles[row * rest.width + column] : -1
}

function dustBox({domain}, {x, y, half}) { // the mesh's box, as far as it lies in the domain
  const [x0, y0, x1, y1] = extent(domain), low = [Math.max(x0, x - half), Math.max(y0, y - half)]
  return [...low, Math.max(low[0] + 1e-300, Math.min(x1, x + half)), Math.max(low[1] + 1e-300, Math.min(y1, y + half))]
}

export function ring({vertices, offsets, corners, depths}, tile, x, y) { // corners of a tile relative to (x, y)
  const points = []
  for (let c = offsets[tile]; c < offsets[tile + 1]; c++) points.push([vertices[2 * corners[c]] - x, vertices[2 * corners[c] + 1] - y, depths[c]])
  return points
}

export function clipRing(points, half) { // Sutherland-Hodgman; an edge along the box gets depth 255: not drawn
  for (const [axis, sign] of [[0, 1], [0, -1], [1, 1], [1, -1]]) {
    const out = [], room = p => half - sign * p[axis]
    points.forEach((p, i) => {
      const q = points[(i + 1) % points.length], a = room(p), b = room(q)
      if (a >= 0) out.push(p)
      if ((a >= 0) !== (b >= 0)) {
        const s = a / (a - b)
        out.push([p[0] + s * (q[0] - p[0]), p[1] + s * (q[1] - p[1]), a >= 0 ? 255 : p[2]])
      }
    })
    points = out
  }
  return points
}

export function clipSegment([ax, ay, bx, by], x, y, half) { // Liang-Barsky
  let low = 0, high = 1
  const dx = bx - ax, dy = by - ay
  for (const [p, q] of [[-dx, ax - x + half], [dx, x + half - ax], [-dy, ay - y + half], [dy, y + half - ay]]) {
    if (p === 0) { if (q < 0) return null; continue }
    if (p < 0) low = Math.max(low, q / p)
    else high = Math.min(high, q / p)
  }
  return low > high ? null : [ax + low * dx, ay + low * dy, ax + high * dx, ay + high * dy]
}
