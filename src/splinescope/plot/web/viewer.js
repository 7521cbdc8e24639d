// Draws a tiling in WebGL2: pan, zoom to float64 depth, hover and tap. No dependencies, no network.
//
//   const view = new TilingView(element, data);  view.setData(next)
//
// data: {title, notes, vertices Float64Array[2V], offsets Uint32Array[K+1], corners Uint32Array[M],
//        depths Uint8Array[M] (depth of the fold from a corner to the next, 0 on the domain's boundary),
//        domain, anchors (lists of x, y), labels (a class per anchor, or empty), boundary Float64Array[4s] (segments), values Float32Array[V*C] (outputs),
//        quantities [{name, label, log, low, high, categories, values[K]}],
//        numbers Uint32Array[K] (where tiles were left out, else null), rest (what stands for those, else null: see mesh.js)}
//
// The GPU only sees float32. Positions handed to it are relative to a nearby origin, subtracted in float64, and
// tiles are clipped to a box a few times the view; so the picture stays sharp however deep the zoom.

import {colorAt, colorTable, foldLevel, hatch, HATCHES, levelsOf, markOf, pointColor, themeColor} from "./colors.js"
import {buildMesh, classPieces, clipRing, clipSegment, dustImage, eachWall, extent, locate, outputsAt, ring, shadedOutputs, tileBounds} from "./mesh.js"
import {painterFor} from "./painter.js"
import {listenTo} from "./pointer.js"

const BOX = 1.5 // times the view: the part of the plane that the GPU is given
const MANY = 100_000 // tiles from which a view from further off is worth a new mesh, with more dust
const DEEPEST = 64 // a view so many times smaller than its box gets a new one: float32 would show
export const NO_TILE = -1

export class TilingView {
  constructor(element, data, painter = painterFor) {
    this.canvas = element.appendChild(document.createElement("canvas"))
    this.overlay = element.appendChild(document.createElement("canvas"))
    this.overlay.tabIndex = 0
    this.overlay.setAttribute("role", "img")
    this.painter = painter(this.canvas)
    this.show = {folds: true, boundary: true, anchors: true, fill: true}
    this.bold = 1 // times the width of lines and marks: for a screen that is far off
    this.patterns = false // hatch classes, told apart in gray then
    this.layers = 255 // walls of folds up to this depth are drawn
    this.hovered = NO_TILE
    this.drawings = [] // functions (pen, view) that draw on top
    this.onhover = () => {}
    this.onview = () => {}
    this.ontap = () => {}
    this.onkey = () => false // (name) -> whether it was for something else than the view
    this.grab = () => null // (px, py, event) -> {move(px, py), end()} for something else to drag than the view
    this.setData(data)
    this.takeTheme()
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.takeTheme())
    this.listen()
    new ResizeObserver(() => this.resize()).observe(element)
    this.resize()
    this.home()
  }

  setData(data) { // another tiling; the view and the colors chosen stay
    this.data = data
    if (!data.window) this.world = data.domain // a window of the same plane: the whole stays what it was
    this.count = data.offsets.length - 1
    this.bounds = tileBounds(data)
    this.deepest = this.ownDeepest = data.depths.reduce((a, b) => Math.max(a, b), 1)
    this.mesh = null
    this.overlay.setAttribute("aria-label", `${data.title}: ${this.count} tiles. Drag to pan, scroll to zoom, arrow keys, + and -, 0 for all.`)
    this.colorBy(this.colored ?? data.quantities[0]?.name ?? "folds")
    if (this.pointer) this.hover(...this.pointer)
  }

  // the view: center (float64) and pixels per unit

  homeAt() { // where all is seen
    const [x0, y0, x1, y1] = extent(this.world)
    return {x: (x0 + x1) / 2, y: (y0 + y1) / 2, scale: 0.94 * Math.min(this.width / (x1 - x0), this.height / (y1 - y0))}
  }

  home() {
    const {x, y, scale} = this.homeAt()
    this.lookAt(x, y, scale)
  }

  lookAt(x, y, scale) {
    const [x0, y0, x1, y1] = extent(this.world), size = Math.max(x1 - x0, y1 - y0)
    const far = Math.max(Math.abs(x0), Math.abs(x1), Math.abs(y0), Math.abs(y1), size)
    this.scale = Math.min(Math.max(scale, 0.1 * Math.min(this.width, this.height) / size), 1e15 / far)
    this.x = Math.min(Math.max(x, x0 - size), x1 + size)
    this.y = Math.min(Math.max(y, y0 - size), y1 + size)
    this.onview(this)
    this.changed()
  }

  zoom(factor, px = this.width / 2, py = this.height / 2) {
    const [x, y] = this.toSlice(px, py), scale = this.scale
    this.lookAt(this.x, this.y, scale * factor)
    const k = scale / this.scale
    this.lookAt(x + (this.x - x) * k, y + (this.y - y) * k, this.scale)
  }

  toScreen(x, y) { return [this.width / 2 + (x - this.x) * this.scale, this.height / 2 - (y - this.y) * this.scale] }
  toSlice(px, py) { return [this.x + (px - this.width / 2) / this.scale, this.y - (py - this.height / 2) / this.scale] }

  resize() {
    const ratio = window.devicePixelRatio || 1, box = this.canvas.parentElement.getBoundingClientRect()
    const before = Math.min(this.width, this.height)
    this.width = Math.max(1, box.width)
    this.height = Math.max(1, box.height)
    for (const canvas of [this.canvas, this.overlay]) {
      canvas.width = Math.round(this.width * ratio)
      canvas.height = Math.round(this.height * ratio)
    }
    this.ratio = ratio
    if (!this.scale) return
    this.scale *= Math.min(this.width, this.height) / before // what was seen stays seen
    this.changed()
  }

  changed() {
    if (this.frame) return
    this.frame = requestAnimationFrame(() => { this.frame = 0; this.draw() })
  }

  // colors

  takeTheme() { // the ground beside the tiles is that of the page
    this.ground = themeColor(this.overlay, "--ground", [1, 1, 1])
    this.changed()
  }

  colorBy(name, scale = {}) { // scale: low, high and log of another scale than the quantity's own
    this.colored = name
    const own = this.data.quantities.find(each => each.name === name), q = this.quantity = own ? {...own, ...scale} : null
    this.table = colorTable(q)
    this.levels = levelsOf(q, this.count)
    this.painter.setColors(this.table)
    this.painter.setLevels(this.levels)
    if (this.mesh) this.dust()
    this.changed()
  }

  get cutsClasses() { return this.quantity?.name === "class" && shadedOutputs(this.data) > 0 } // colors change inside tiles
  get hasBoundary() { return this.show.boundary && this.data.boundary.length > 0 }

  // drawing

  build() { // positions for the GPU, made anew only when the view leaves their box or shows much more or less
    const halfX = this.width / 2 / this.scale, halfY = this.height / 2 / this.scale, m = this.mesh
    const near = m && halfX * DEEPEST > m.half && (m.whole || (Math.abs(this.x - m.x) + halfX < m.half && Math.abs(this.y - m.y) + halfY < m.half))
    const detailed = m && (!(m.dust.length || this.data.rest) || this.scale < 2 * m.scale) && (this.count < MANY || this.scale > m.scale / 2)
    if (near && detailed) return
    const half = BOX * Math.max(halfX, halfY), [x0, y0, x1, y1] = extent(this.data.domain)
    const whole = this.x - half <= x0 && this.x + half >= x1 && this.y - half <= y0 && this.y + half >= y1
    this.mesh = {...buildMesh(this.data, this.bounds, this.x, this.y, half, this.scale * this.ratio), whole}
    this.mesh.scale = this.scale
    this.painter.setMesh(this.mesh)
    this.dust()
  }

  dust() { // tiles too small to draw, as the mean of their colors
    if (!this.mesh.dust.length && !this.data.rest) return this.painter.setDust(null)
    const {table, levels, data} = this, {offsets, depths} = data
    const place = t => { // of its color on the table
      if (this.quantity) return 4 * Math.min(255, Math.floor(levels[t] * 256))
      let deepest = 1
      for (let c = offsets[t]; c < offsets[t + 1]; c++) if (depths[c] > deepest) deepest = depths[c]
      return 4 * Math.round(255 * foldLevel(deepest, this.deepest))
    }
    this.painter.setDust(dustImage(data, this.bounds, {...this.mesh, scale: this.mesh.scale * this.ratio}, table, place))
  }

  draw() {
    this.build()
    const fill = this.quantity !== null && this.show.fill
    this.painter.draw(this, this.mesh, {
      fill, walls: (this.show.folds || !this.quantity) && this.bold === 1, byDepth: !fill, layers: this.layers, deepest: this.deepest,
      ground: fill ? this.ground : [0.06, 0.08, 0.11], ink: [0, 0, 0],
      classes: this.cutsClasses ? shadedOutputs(this.data) : 0,
    })
    this.drawOverlay()
  }

  drawOverlay() {
    const pen = this.overlay.getContext("2d", {willReadFrequently: true}), {boundary, anchors, labels} = this.data, reach = 2 * Math.max(this.width, this.height) / this.scale
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0)
    pen.clearRect(0, 0, this.width, this.height)
    if (this.patterns && this.cutsClasses) this.drawPatterns(pen)
    if (this.bold > 1 && (this.show.folds || !this.quantity)) this.drawBoldWalls(pen)
    if (this.show.boundary && boundary.length) {
      pen.beginPath()
      for (let i = 0; i < boundary.length; i += 4) {
        const ends = clipSegment(boundary.subarray(i, i + 4), this.x, this.y, reach)
        if (!ends) continue
        pen.moveTo(...this.toScreen(ends[0], ends[1]))
        pen.lineTo(...this.toScreen(ends[2], ends[3]))
      }
      pen.lineCap = "round"
      pen.strokeStyle = "#fff"; pen.lineWidth = 4 * this.bold; pen.stroke()
      pen.strokeStyle = "#d60000"; pen.lineWidth = 2 * this.bold; pen.stroke()
    }
    if (this.hovered >= 0 && this.hovered < this.count) {
      pen.beginPath()
      for (const [x, y] of clipRing(ring(this.data, this.hovered, this.x, this.y), reach)) pen.lineTo(...this.toScreen(this.x + x, this.y + y))
      pen.closePath()
      pen.strokeStyle = "#fff"; pen.lineWidth = 4; pen.stroke()
      pen.strokeStyle = "#000"; pen.lineWidth = 2; pen.stroke()
    }
    if (this.show.anchors) for (let i = 0; i < anchors.length; i += 2) this.dot(pen, anchors[i], anchors[i + 1], 5, pointColor(labels, i / 2), labels?.[i / 2])
    for (const drawing of this.drawings) drawing(pen, this)
  }

  drawBoldWalls(pen) { // the painters draw lines of one pixel
    const paths = new Map()
    eachWall(this.data, this.layers, (ax, ay, bx, by, depth) => {
      if (!paths.has(depth)) paths.set(depth, new Path2D())
      paths.get(depth).moveTo(...this.toScreen(ax, ay))
      paths.get(depth).lineTo(...this.toScreen(bx, by))
    })
    pen.lineCap = "round"
    pen.lineWidth = this.bold
    for (const [depth, path] of paths) { pen.strokeStyle = this.wallColor(depth); pen.stroke(path) }
  }

  wallColor(depth) { return this.quantity && this.show.fill ? "#000" : `rgb(${colorAt(null, foldLevel(Math.max(1, depth), this.deepest)).join(",")})` }

  drawPatterns(pen) {
    const paths = new Map()
    for (let t = 0; t < this.count; t++) for (const [k, points] of classPieces(this.data, t)) {
      if (!paths.has(k)) paths.set(k, new Path2D())
      points.forEach(([x, y], i) => paths.get(k)[i ? "lineTo" : "moveTo"](...this.toScreen(x, y)))
    }
    for (const [k, path] of paths) if (k % HATCHES.length) { pen.fillStyle = pen.createPattern(hatch(k % HATCHES.length, this.bold), "repeat"); pen.fill(path) }
  }

  dot(pen, x, y, size, color, label = 0) { // the mark of a class
    const [px, py] = this.toScreen(x, y), radius = size * this.bold
    if (px < -1e4 || py < -1e4 || px > this.width + 1e4 || py > this.height + 1e4) return
    pen.beginPath()
    for (const [dx, dy] of markOf(label)) pen.lineTo(px + radius * dx, py - radius * dy)
    pen.closePath()
    pen.strokeStyle = "#fff"; pen.lineWidth = 3; pen.stroke() // or a point is lost on a tile of its class
    pen.fillStyle = color; pen.fill()
    pen.strokeStyle = "#000"; pen.lineWidth = radius > 4 ? 2 : 1; pen.stroke()
  }

  // looking things up

  hover(px, py) {
    const inside = px >= 0 && py >= 0 && px < this.width && py < this.height, [x, y] = this.toSlice(px, py)
    this.pointer = inside ? [px, py] : null
    this.hovered = inside ? this.find(x, y) : NO_TILE
    this.onhover(this.hovered, x, y)
    this.changed()
  }

  find(x, y) { return locate(this.data, this.bounds, x, y) }

  outputs(tile, x, y) { return outputsAt(this.data, tile, x, y) }

  listen() {
    const step = 60, keys = {
      "+": () => this.zoom(1.5), "=": () => this.zoom(1.5), "-": () => this.zoom(1 / 1.5), "0": () => this.home(),
      ArrowLeft: () => this.lookAt(this.x - step / this.scale, this.y, this.scale),
      ArrowRight: () => this.lookAt(this.x + step / this.scale, this.y, this.scale),
      ArrowUp: () => this.lookAt(this.x, this.y + step / this.scale, this.scale),
      ArrowDown: () => this.lookAt(this.x, this.y - step / this.scale, this.scale),
    }
    listenTo(this.overlay, {
      hover: (px, py) => this.hover(px, py),
      leave: () => this.hover(-1, -1),
      tap: (px, py, event) => this.ontap(this.hovered, ...this.toSlice(px, py), event),
      drag: (dx, dy) => this.lookAt(this.x - dx / this.scale, this.y + dy / this.scale, this.scale),
      pinch: (factor, px, py) => this.zoom(factor, px, py),
      wheel: (factor, px, py) => this.zoom(factor, px, py),
      double: (px, py) => this.zoom(4, px, py),
      grab: (px, py, event) => this.grab(px, py, event),
      key: name => {
        if (this.onkey(name)) return true
        if (!keys[name]) return false
        keys[name]()
        this.hover(this.width / 2, this.height / 2) // what is in the middle is told, as it is under a pointer
        return true
      },
    })
  }
}
