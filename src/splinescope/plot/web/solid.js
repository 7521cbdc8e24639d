// Geometry of the cells of a 3-D tiling, in float64: where a function that is affine on every cell takes a value (the
// section of a plane, a level set), which cell a ray meets first, a cell's affine map. Neither page nor GPU.
//
//   const solid = new Solid(data)
//
// data: {vertices Float64Array[3V], walls: {offsets Uint32Array[E+1], corners Uint32Array[M] (around the wall),
//        tiles Int32Array[2E] (-1: none), depths Uint8Array[E]}, values Float64Array[V*C] (outputs), count (of tiles), domain}
//
// All positions are in units of the picture: the domain's box fits into [-1, 1]^3; `toSlice` and `fromSlice` translate.
// A box whose sides differ in length by more than STRETCH times is drawn as a cube: its axes have nothing in common.

const STRETCH = 20

export class Solid {
  constructor(data) {
    this.data = data
    const {domain, vertices} = data, low = [0, 1, 2].map(k => least(domain, k)), high = [0, 1, 2].map(k => -least(domain, k, -1))
    const sides = high.map((v, k) => (v - low[k]) / 2), longest = Math.max(...sides)
    this.stretched = longest > STRETCH * Math.min(...sides)
    this.middle = high.map((v, k) => (v + low[k]) / 2)
    this.unit = this.stretched ? sides : [longest, longest, longest]
    this.low = low
    this.high = high
    this.points = new Float64Array(vertices.length)
    for (let i = 0; i < vertices.length; i++) this.points[i] = (vertices[i] - this.middle[i % 3]) / this.unit[i % 3]
    this.outputs = data.values?.length ? data.values.length / (vertices.length / 3) : 0
    this.measureWalls()
    this.measureTiles()
  }

  toSlice(p) { return p.map((v, k) => this.middle[k] + v * this.unit[k]) }
  fromSlice(t) { return [0, 1, 2].map(k => (t[k] - this.middle[k]) / this.unit[k]) }

  measureWalls() { // planes: unit normal away from the first tile, and height; areas
    const {offsets, corners} = this.data.walls, p = this.points, count = offsets.length - 1
    this.planes = new Float64Array(4 * count)
    this.areas = new Float64Array(count)
    for (let w = 0; w < count; w++) {
      const a = 3 * corners[offsets[w]], x0 = p[a], y0 = p[a + 1], z0 = p[a + 2]
      let x = 0, y = 0, z = 0
      for (let c = offsets[w] + 1; c + 1 < offsets[w + 1]; c++) {
        const b = 3 * corners[c], e = 3 * corners[c + 1]
        const ux = p[b] - x0, uy = p[b + 1] - y0, uz = p[b + 2] - z0, vx = p[e] - x0, vy = p[e + 1] - y0, vz = p[e + 2] - z0
        x += uy * vz - uz * vy; y += uz * vx - ux * vz; z += ux * vy - uy * vx
      }
      const length = Math.hypot(x, y, z) || 1
      this.areas[w] = length / 2
      x /= length; y /= length; z /= length
      this.planes.set([x, y, z, x * x0 + y * y0 + z * z0], 4 * w)
    }
  }

  measureTiles() { // walls of each tile (CSR), a point inside, the radius about it, the volume
    const {walls, count} = this.data, {offsets, corners, tiles} = walls, p = this.points
    const starts = this.starts = new Uint32Array(count + 1)
    for (const t of tiles) if (t >= 0) starts[t + 1]++
    for (let t = 0; t < count; t++) starts[t + 1] += starts[t]
    const next = starts.slice(0, count), own = this.own = new Uint32Array(starts[count])
    for (let i = 0; i < tiles.length; i++) if (tiles[i] >= 0) own[next[tiles[i]]++] = i >> 1
    this.centers = new Float64Array(3 * count)
    this.radii = new Float64Array(count)
    this.volumes = new Float64Array(count)
    for (let t = 0; t < count; t++) {
      const middle = [0, 0, 0]
      let seen = 0
      for (let i = starts[t]; i < starts[t + 1]; i++) for (let c = offsets[own[i]]; c < offsets[own[i] + 1]; c++, seen++)
        for (let k = 0; k < 3; k++) middle[k] += p[3 * corners[c] + k]
      for (let k = 0; k < 3; k++) this.centers[3 * t + k] = middle[k] /= seen || 1
      let far = 0, volume = 0
      for (let i = starts[t]; i < starts[t + 1]; i++) {
        const w = own[i]
        volume += this.areas[w] * Math.abs(this.planes[4 * w + 3] - dot(this.planes, 4 * w, middle)) / 3
        for (let c = offsets[w]; c < offsets[w + 1]; c++) {
          const a = 3 * corners[c], x = p[a] - middle[0], y = p[a + 1] - middle[1], z = p[a + 2] - middle[2]
          far = Math.max(far, x * x + y * y + z * z)
        }
      }
      this.radii[t] = Math.sqrt(far)
      this.volumes[t] = volume
    }
    this.flips = new Uint8Array(walls.depths.length)
    for (let w = 0; w < walls.depths.length; w++) { // corners of a wall may go around it either way, seen from its first tile
      const first = tiles[2 * w] >= 0 ? tiles[2 * w] : tiles[2 * w + 1], outward = tiles[2 * w] >= 0 ? 1 : -1
      const side = dot(this.planes, 4 * w, this.centers.subarray(3 * first, 3 * first + 3)) - this.planes[4 * w + 3]
      if (side * outward <= 0) continue
      this.flips[w] = 1
      for (let k = 0; k < 4; k++) this.planes[4 * w + k] *= -1
    }
  }

  heightsOver({normal, offset}) { // of every vertex over a plane
    const p = this.points, heights = new Float64Array(p.length / 3)
    for (let v = 0, i = 0; v < heights.length; v++, i += 3) heights[v] = p[i] * normal[0] + p[i + 1] * normal[1] + p[i + 2] * normal[2] - offset
    return heights
  }

  heightsOf(output, value) { // of every vertex's output over a value
    const heights = new Float64Array(this.points.length / 3)
    for (let v = 0; v < heights.length; v++) heights[v] = this.data.values[this.outputs * v + output] - value
    return heights
  }

  // Where heights [V], affine on every cell, are zero: one convex polygon per cell that has vertices on both sides.
  // Returns {offsets, tiles (of polygons), position Float64Array, ends Uint32Array[2n], share Float64Array[n] (corner n lies
  // at (1 - share) ends[2n] + share ends[2n + 1]), depths Uint8Array[n] (of the fold from a corner to the next)}.
  zeros(heights) {
    const {offsets, corners, tiles, depths} = this.data.walls, segments = new Map(), V = heights.length
    for (let w = 0, count = offsets.length - 1; w < count; w++) {
      const last = offsets[w + 1] - 1
      let before = heights[corners[last]] >= 0, crossed = null
      for (let c = offsets[w]; c <= last; c++) {
        const now = heights[corners[c]] >= 0
        if (now !== before) {
          const a = corners[c], b = corners[c > offsets[w] ? c - 1 : last], key = now ? a * V + b : b * V + a // the upper end first
          crossed ? crossed.push(key) : crossed = [key]
        }
        before = now
      }
      if (!crossed) continue
      for (const t of [tiles[2 * w], tiles[2 * w + 1]]) {
        if (t < 0) continue
        const list = segments.get(t)
        list ? list.push([crossed, depths[w]]) : segments.set(t, [[crossed, depths[w]]])
      }
    }
    const made = {offsets: [0], tiles: [], position: [], ends: [], share: [], depths: []}
    for (const [t, list] of segments) {
      const keys = [...new Set(list.flatMap(([crossed]) => crossed))]
      if (keys.length < 3) continue
      const found = keys.map(key => {
        const up = Math.floor(key / V), down = key - V * up, s = heights[up] / (heights[up] - heights[down])
        return {key, up, down, s, at: [0, 1, 2].map(k => (1 - s) * this.points[3 * up + k] + s * this.points[3 * down + k])}
      })
      const ring = around(found)
      ring.forEach((corner, i) => {
        const after = ring[(i + 1) % ring.length].key, wall = list.find(([crossed]) => crossed.includes(corner.key) && crossed.includes(after))
        made.position.push(...corner.at)
        made.ends.push(corner.up, corner.down)
        made.share.push(corner.s)
        made.depths.push(wall ? wall[1] : 0)
      })
      made.tiles.push(t)
      made.offsets.push(made.share.length)
    }
    return made
  }

  // The first cell on a ray: {tile, at} with `at` in the cell where it stands when not pulled apart; null if there is none.
  // how: {pull, plane (cells end there; or null), among (flags of tiles; or null for all)}
  meet(origin, direction, {pull = 0, plane = null, among = null} = {}) {
    const {centers, radii, starts, own, planes} = this, tiles = this.data.walls.tiles
    let nearest = Infinity, found = null
    for (let t = 0; t < radii.length; t++) {
      if (among && !among[t]) continue
      const x = origin[0] - (1 + pull) * centers[3 * t], y = origin[1] - (1 + pull) * centers[3 * t + 1], z = origin[2] - (1 + pull) * centers[3 * t + 2]
      const along = x * direction[0] + y * direction[1] + z * direction[2]
      if (x * x + y * y + z * z - along * along > radii[t] * radii[t] || -along - radii[t] > nearest) continue
      const from = [0, 1, 2].map(k => origin[k] - pull * centers[3 * t + k])
      let enter = 0, leave = Infinity
      const clip = (normal, height, sign) => { // keep sign * (normal . p) <= sign * height
        const rate = sign * (normal[0] * direction[0] + normal[1] * direction[1] + normal[2] * direction[2])
        const room = sign * (height - normal[0] * from[0] - normal[1] * from[1] - normal[2] * from[2])
        if (rate > 0) leave = Math.min(leave, room / rate)
        else if (rate < 0) enter = Math.max(enter, room / rate)
        else if (room < 0) leave = -1
      }
      for (let i = starts[t]; i < starts[t + 1] && enter <= leave; i++)
        clip(planes.subarray(4 * own[i], 4 * own[i] + 3), planes[4 * own[i] + 3], tiles[2 * own[i]] === t ? 1 : -1)
      if (plane) clip(plane.normal, plane.offset, 1)
      if (enter < leave && enter < nearest) { nearest = enter; found = {tile: t, at: from.map((v, k) => v + enter * direction[k])} }
    }
    return found
  }

  at(point) { // the cell of a point; -1 if none
    const {centers, radii, starts, own, planes} = this, tiles = this.data.walls.tiles
    let best = -1e-9, found = -1
    for (let t = 0; t < radii.length; t++) {
      const x = point[0] - centers[3 * t], y = point[1] - centers[3 * t + 1], z = point[2] - centers[3 * t + 2]
      if (x * x + y * y + z * z > radii[t] * radii[t] * (1 + 1e-9)) continue
      let room = Infinity
      for (let i = starts[t]; i < starts[t + 1] && room > best; i++) {
        const w = own[i], sign = tiles[2 * w] === t ? 1 : -1
        room = Math.min(room, sign * (planes[4 * w + 3] - dot(planes, 4 * w, point)))
      }
      if (room > best) { best = room; found = t }
    }
    return found
  }

  // The affine map of a cell in slice coordinates, from four of its corners that span much: [[a1, a2, a3, c], ...] per output.
  map(tile) {
    if (!this.outputs) return []
    const {offsets, corners} = this.data.walls, {vertices, values} = this.data, p = this.points, n = this.outputs
    const own = new Set()
    for (let i = this.starts[tile]; i < this.starts[tile + 1]; i++) for (let c = offsets[this.own[i]]; c < offsets[this.own[i] + 1]; c++) own.add(corners[c])
    const list = [...own], from = (v, a) => [0, 1, 2].map(k => p[3 * v + k] - p[3 * a + k])
    const most = score => list.reduce((best, v) => score(v) > score(best) ? v : best)
    const a = list[0], b = most(v => norm(from(v, a))), ab = from(b, a), c = most(v => norm(cross(ab, from(v, a))))
    const plane = cross(ab, from(c, a)), d = most(v => Math.abs(inner(plane, from(v, a))))
    const at = v => Array.from(vertices.subarray(3 * v, 3 * v + 3)), edge = v => at(v).map((x, k) => x - vertices[3 * a + k])
    const [u, v, w] = [edge(b), edge(c), edge(d)], vw = cross(v, w), wu = cross(w, u), uv = cross(u, v), volume = inner(u, vw)
    return Array.from({length: n}, (_, k) => {
      const [du, dv, dw] = [b, c, d].map(x => values[n * x + k] - values[n * a + k])
      const slope = [0, 1, 2].map(i => (du * vw[i] + dv * wu[i] + dw * uv[i]) / volume)
      return [...slope, values[n * a + k] - inner(slope, at(a))]
    })
  }

  depthsAround(wall, tile, backward) { // of the folds that a wall's edges lie on, as far as they are walls of the tile, else 0
    const {offsets, corners, depths} = this.data.walls, others = this.own.subarray(this.starts[tile], this.starts[tile + 1]).filter(w => w !== wall)
    const sets = Array.from(others, w => new Set(corners.subarray(offsets[w], offsets[w + 1]))), ring = corners.slice(offsets[wall], offsets[wall + 1])
    if (backward) ring.reverse()
    return Array.from(ring, (v, i) => {
      const next = ring[(i + 1) % ring.length], found = sets.findIndex(set => set.has(v) && set.has(next))
      return found < 0 ? 0 : depths[others[found]]
    })
  }

  outline(tile) { // rings of points: the walls of a cell
    const {offsets, corners} = this.data.walls
    return Array.from(this.own.subarray(this.starts[tile], this.starts[tile + 1]), w =>
      Array.from(corners.subarray(offsets[w], offsets[w + 1]), v => Array.from(this.points.subarray(3 * v, 3 * v + 3))))
  }
}

export function around(corners) { // corners {at} of a convex polygon in space, in order around it
  const middle = [0, 1, 2].map(k => corners.reduce((sum, c) => sum + c.at[k], 0) / corners.length)
  const arms = corners.map(c => c.at.map((v, k) => v - middle[k]))
  const first = arms.reduce((best, arm) => norm(arm) > norm(best) ? arm : best)
  const normal = arms.map(arm => cross(first, arm)).reduce((best, n) => norm(n) > norm(best) ? n : best)
  const second = cross(normal, first), scale = norm(normal) || 1
  const angle = arms.map(arm => Math.atan2(inner(arm, second) / scale, inner(arm, first)))
  return corners.map((_, i) => i).sort((i, j) => angle[i] - angle[j]).map(i => corners[i])
}

export const inner = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
export const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
export const norm = a => Math.hypot(a[0], a[1], a[2])
const dot = (planes, i, p) => planes[i] * p[0] + planes[i + 1] * p[1] + planes[i + 2] * p[2]
const least = (points, k, sign = 1) => { let v = Infinity; for (let i = k; i < points.length; i += 3) v = Math.min(v, sign * points[i]); return v }
