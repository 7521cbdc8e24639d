// The painter for browsers without a graphics card: the same picture as painter.js, pixel by pixel.
//
// Such browsers offer WebGL not at all, or imitate a card; the imitation is ten times slower than drawing convex tiles
// row by row. Tiles are filled where a pixel's center is inside, so neighbors leave no gap and never overlap.

import {CLASS_COLORS, foldLevel} from "./colors.js"

export class SoftwarePainter {
  constructor(canvas) {
    this.canvas = canvas
    this.pen = canvas.getContext("2d", {alpha: false})
    this.image = null
  }

  setMesh(mesh) {
    this.mesh = mesh
    this.counts = [mesh.triangles.length, mesh.lines.length]
  }

  setLevels(levels) { this.levels = levels }
  setColors(table) { this.colors = new Uint32Array(table.slice().buffer) }
  setDust(image) { this.dust = image && {...image, colors: new Uint32Array(image.pixels.buffer)} }

  // as the other painter's
  draw(view, mesh, how) {
    this.fitImage()
    const {pixels, width, height} = this, across = view.scale * width / view.width, up = view.scale * height / view.height
    pixels.fill(rgba(...how.ground.map(v => 255 * v)))
    if (this.dust) this.drawDust((x, y) => [width / 2 + (x - view.x + mesh.x) * across, height / 2 - (y - view.y + mesh.y) * up], how.fill && how.walls ? 0.8 : 1)
    const {position} = mesh, count = position.length / 2, left = width / 2 - (view.x - mesh.x) * across, top = height / 2 + (view.y - mesh.y) * up
    if (!(this.xs?.length >= count)) { this.xs = new Float64Array(count); this.ys = new Float64Array(count) }
    for (let i = 0; i < count; i++) { this.xs[i] = left + position[2 * i] * across; this.ys[i] = top - position[2 * i + 1] * up }
    if (how.fill) this.fillTiles(mesh, how.classes)
    if (how.walls) this.drawWalls(mesh, view, how)
    this.pen.putImageData(this.image, 0, 0)
  }

  fitImage() {
    const {width, height} = this.canvas
    if (this.image?.width === width && this.image.height === height) return
    this.image = this.pen.createImageData(width, height)
    this.pixels = new Uint32Array(this.image.data.buffer)
    Object.assign(this, {width, height, lefts: new Float64Array(height), rights: new Float64Array(height)})
  }

  // ---- tiles

  fillTiles(mesh, classes) {
    const {starts, tile} = mesh, {colors, levels} = this
    for (let i = 0; i + 1 < starts.length; i++) {
      const first = starts[i], end = starts[i + 1]
      if (!classes) this.fill(first, end, colors[place(levels[tile[first]])])
      else this.fillByClass(mesh, first, end, classes)
    }
  }

  fillByClass(mesh, first, end, classes) { // classes that win at every corner win inside, too: outputs are affine here
    const at = (c, k) => mesh[OUTPUTS[k >> 2]][4 * c + (k & 3)], color = k => this.colors[place((k + 0.5) / CLASS_COLORS)]
    const winner = c => best(k => at(c, k), classes), one = winner(first)
    let same = true
    for (let c = first + 1; c < end && same; c++) same = winner(c) === one
    if (same) return this.fill(first, end, color(one))
    const {xs, ys} = this
    let [b, d, cross] = [first, first, 0] // the corners that span the widest triangle with the first
    for (let i = first + 1; i < end; i++) for (let j = i + 1; j < end; j++) {
      const c = (xs[i] - xs[first]) * (ys[j] - ys[first]) - (xs[j] - xs[first]) * (ys[i] - ys[first])
      if (Math.abs(c) > Math.abs(cross)) [b, d, cross] = [i, j, c]
    }
    if (cross === 0) return
    const ux = xs[b] - xs[first], uy = ys[b] - ys[first], vx = xs[d] - xs[first], vy = ys[d] - ys[first]
    const maps = Array.from({length: classes}, (_, k) => { // output k = value + gx (x - x0) + gy (y - y0) on the screen
      const value = at(first, k), du = at(b, k) - value, dv = at(d, k) - value
      return [value, (du * vy - dv * uy) / cross, (dv * ux - du * vx) / cross]
    })
    this.fill(first, end, (x, y) => color(best(k => maps[k][0] + maps[k][1] * (x - xs[first]) + maps[k][2] * (y - ys[first]), classes)))
  }

  fill(first, end, color) { // a convex polygon; `color` is one for all, or a function of a pixel's center
    const {xs, ys, lefts, rights, pixels, width, height} = this
    let top = Infinity, bottom = -Infinity
    for (let c = first; c < end; c++) { if (ys[c] < top) top = ys[c]; if (ys[c] > bottom) bottom = ys[c] }
    const y0 = Math.max(0, Math.ceil(top - 0.5)), y1 = Math.min(height, Math.ceil(bottom - 0.5))
    if (y0 >= y1) return
    for (let y = y0; y < y1; y++) { lefts[y] = Infinity; rights[y] = -Infinity }
    for (let c = first, before = end - 1; c < end; before = c++) {
      const a = ys[c] < ys[before] ? c : before, b = a === c ? before : c // downwards: both tiles of a wall round alike
      const from = Math.max(y0, Math.ceil(ys[a] - 0.5)), to = Math.min(y1, Math.ceil(ys[b] - 0.5))
      if (from >= to) continue
      const slope = (xs[b] - xs[a]) / (ys[b] - ys[a])
      for (let y = from; y < to; y++) {
        const x = xs[a] + (y + 0.5 - ys[a]) * slope
        if (x < lefts[y]) lefts[y] = x
        if (x > rights[y]) rights[y] = x
      }
    }
    for (let y = y0; y < y1; y++) {
      const x0 = Math.max(0, Math.ceil(lefts[y] - 0.5)), x1 = Math.min(width, Math.ceil(rights[y] - 0.5)), row = y * width
      if (typeof color === "number") for (let i = row + x0; i < row + x1; i++) pixels[i] = color
      else for (let x = x0; x < x1; x++) pixels[row + x] = color(x + 0.5, y + 0.5)
    }
  }

  // ---- walls

  drawWalls({lines, depth, size}, view, {byDepth, layers, deepest, ink}) {
    const plain = rgba(...ink.map(v => 255 * v)), faintest = byDepth ? 0.5 : 0.2, {colors} = this
    const byLayer = byDepth ? Array.from({length: 256}, (_, d) => colors[place(foldLevel(Math.max(d, 1), deepest))]) : null
    for (let i = 0; i < lines.length; i += 2) {
      const a = lines[i], b = lines[i + 1]
      if (depth[b] > layers) continue
      const strength = Math.min(0.9, Math.max(faintest, (size[b] * view.scale - 2) / 12)) // walls of small tiles are faint, or nothing else is seen
      this.line(a, b, byDepth ? byLayer[depth[b]] : plain, 256 * strength)
    }
  }

  line(a, b, color, strength) { // smooth: each step shares its ink between two pixels
    const {xs, ys, pixels, width, height} = this, flat = Math.abs(xs[b] - xs[a]) >= Math.abs(ys[b] - ys[a])
    const along = flat ? xs : ys, beside = flat ? ys : xs, [p, q] = along[a] <= along[b] ? [a, b] : [b, a]
    const length = flat ? width : height, breadth = flat ? height : width, step = flat ? 1 : width, over = flat ? width : 1
    const from = Math.max(0, Math.round(along[p])), to = Math.min(length, Math.max(Math.round(along[q]), Math.round(along[p]) + 1))
    const slope = along[q] > along[p] ? (beside[q] - beside[p]) / (along[q] - along[p]) : 0
    const red = color & 0xff00ff, green = color & 0xff00
    for (let s = from; s < to; s++) {
      const place = Math.min(Math.max(s + 0.5, along[p]), along[q]), w = beside[p] + (place - along[p]) * slope - 0.5, near = Math.floor(w), share = w - near
      for (let k = 0; k < 2; k++) {
        if (near + k < 0 || near + k >= breadth) continue
        const ink = strength * (k ? share : 1 - share) | 0, i = s * step + (near + k) * over, under = pixels[i]
        pixels[i] = 0xff000000 | ((under & 0xff00ff) * (256 - ink) + red * ink >>> 8 & 0xff00ff) | ((under & 0xff00) * (256 - ink) + green * ink >>> 8 & 0xff00)
      }
    }
  }

  // ---- tiles too small to draw

  drawDust(toPixels, dim) {
    const {box, colors, width: across, height: up} = this.dust, {pixels, width, height} = this
    const [left, bottom] = toPixels(box[0], box[1]), [right, top] = toPixels(box[2], box[3])
    const x0 = Math.max(0, Math.ceil(left - 0.5)), x1 = Math.min(width, Math.ceil(right - 0.5)), columns = new Int32Array(width)
    for (let x = x0; x < x1; x++) columns[x] = Math.min(across - 1, Math.floor((x + 0.5 - left) / (right - left) * across))
    for (let y = Math.max(0, Math.ceil(top - 0.5)); y < Math.min(height, Math.ceil(bottom - 0.5)); y++) {
      const row = across * Math.min(up - 1, Math.floor((bottom - y - 0.5) / (bottom - top) * up))
      for (let x = x0; x < x1; x++) {
        const color = colors[row + columns[x]]
        if (color >>> 24 < 128) continue
        pixels[y * width + x] = dim === 1 ? color : rgba((color & 255) * dim, (color >>> 8 & 255) * dim, (color >>> 16 & 255) * dim)
      }
    }
  }
}

const OUTPUTS = ["outputs0", "outputs1", "outputs2"]
const place = level => Math.round(255 * Math.min(1, Math.max(0, level))) // on the table of colors
const rgba = (r, g, b) => (255 << 24 | b << 16 | g << 8 | r) >>> 0 // as the four bytes lie in memory

function best(value, classes) { // the class that wins; of one output, its sign
  let won = classes === 1 && value(0) > 0 ? 1 : 0, most = value(0)
  for (let k = 1; k < classes; k++) if (value(k) > most) { most = value(k); won = k }
  return won
}
