// The GPU's side of the 3-D view: batches of convex polygons, each in a tile, filled, outlined or translucent; points.

import {CLASS_LEVEL, FIRST_FOLD} from "./colors.js"
import {context, link, Textures} from "./gl.js"

export const MOST_CLASSES = 12 // outputs per corner that are handed to the GPU
const FILL = 0, LINES = 1, FOLDS = 2, GLASS = 3, POINTS = 4, FRAME = 5 // modes of the program

const SPACE_VERTEX = `#version 300 es
precision highp float; precision highp int;
layout(location=0) in vec3 position; layout(location=1) in uint tile; layout(location=2) in uint depth;
layout(location=3) in float size; layout(location=4) in vec4 outputs0; layout(location=5) in vec4 outputs1; layout(location=6) in vec4 outputs2;
uniform mat4 camera; uniform float pull, deepest, pixels, spot; uniform highp sampler2D values, centers; uniform int mode;
flat out float level; flat out float strength; out vec3 place; out vec3 home; out vec4 seen[3];
void main() {
  int width = textureSize(values, 0).x;
  ivec2 cell = ivec2(int(tile) % width, int(tile) / width);
  bool free = tile == 0xffffffffu; // of no tile
  home = position;
  place = position + (free ? vec3(0.) : pull * texelFetch(centers, cell, 0).xyz);
  gl_Position = camera * vec4(place, 1.);
  gl_PointSize = spot;
  level = mode == ${FOLDS} ? mix(${FIRST_FOLD}, 1., float(int(depth) - 1) / max(1., deepest - 1.)) : free ? 0. : texelFetch(values, cell, 0).r;
  strength = clamp((size * pixels / gl_Position.w - 2.) / 12., mode == ${FOLDS} ? .5 : .12, .9); // walls of small tiles are faint
  if (mode == ${FOLDS} && int(depth) == 0) strength = 0.15;
  seen[0] = outputs0; seen[1] = outputs1; seen[2] = outputs2;
}`

const SPACE_FRAGMENT = `#version 300 es
precision highp float; precision highp int;
flat in float level; flat in float strength; in vec3 place; in vec3 home; in vec4 seen[3];
uniform int mode, classes; uniform sampler2D colors; uniform vec4 plane, ink; uniform float shade; uniform vec3 eye;
out vec4 color;
${CLASS_LEVEL}
void main() {
  if (dot(plane.xyz, home) > plane.w) discard; // cut off
  if (mode == ${POINTS}) {
    float r = length(gl_PointCoord - .5);
    if (r > .5) discard;
    color = vec4(r > .36 ? vec3(0.) : seen[0].rgb, 1.);
    return;
  }
  if (mode == ${LINES} || mode == ${FRAME}) { color = vec4(ink.rgb, mode == ${LINES} ? ink.a * strength : ink.a); return; }
  vec3 normal = normalize(cross(dFdx(place), dFdy(place)));
  float light = mix(1., .62 + .38 * abs(dot(normal, normalize(vec3(.35, -.5, .8)))), shade);
  if (mode == ${GLASS}) { // glass is denser where it is seen from the side
    float edge = 1. - abs(dot(normal, normalize(eye - place)));
    color = vec4(ink.rgb * (.65 + .35 * light), clamp(ink.a * (1. + edge), 0., 1.));
    return;
  }
  float at = mode == ${FILL} && classes > 0 ? classLevel(seen, classes) : level;
  vec3 chosen = texture(colors, vec2(clamp(at, 0., 1.) * (255./256.) + .5/256., .5)).rgb;
  color = vec4(chosen * light, mode == ${FOLDS} ? strength : 1.);
}`
const SPACE_UNIFORMS = ["camera", "pull", "deepest", "pixels", "spot", "values", "centers", "mode", "classes", "colors", "plane", "ink", "shade", "eye"]
const ATTRIBUTES = [["position", 3], ["tile", 0], ["depth", 0], ["size", 1], ["outputs0", 4], ["outputs1", 4], ["outputs2", 4]]
const NO_PLANE = [0, 0, 0, 1]

// Polygons as the GPU takes them. polygons: {offsets, tiles (one each), position (3 per corner), depths (per corner), lines
// (whether the edge from a corner on is drawn; all by default)};
// outputAt(corner, k): an output there, for `classes` of them.
export function batchOf({offsets, tiles, position, depths, lines = null}, classes = 0, outputAt = null) {
  const room = offsets[offsets.length - 1], count = tiles.length
  const batch = {position: Float32Array.from(position), tile: new Uint32Array(room), depth: Uint8Array.from(depths), size: new Float32Array(room),
    triangles: new Uint32Array(3 * Math.max(0, room - 2 * count)), lines: new Uint32Array(2 * room), polygons: count, starts: offsets}
  const shades = Array.from({length: Math.ceil(classes / 4)}, (_, i) => batch[`outputs${i}`] = new Float32Array(4 * room))
  let triangle = 0, line = 0
  for (let f = 0; f < count; f++) {
    const first = offsets[f], stop = offsets[f + 1], size = Math.sqrt(polygonArea(position, first, stop))
    for (let i = first; i < stop; i++) {
      batch.tile[i] = tiles[f]
      batch.size[i] = size
      for (let k = 0; k < classes; k++) shades[k >> 2][4 * i + (k & 3)] = outputAt(i, k)
      if (!lines || lines[i]) { // its color is that of its last vertex: from the next corner to this one
        batch.lines[line++] = i + 1 < stop ? i + 1 : first
        batch.lines[line++] = i
      }
      if (i > first + 1) { batch.triangles[triangle++] = first; batch.triangles[triangle++] = i - 1; batch.triangles[triangle++] = i }
    }
  }
  batch.lines = batch.lines.subarray(0, line)
  return batch
}

function polygonArea(p, first, stop) {
  let x = 0, y = 0, z = 0
  for (let i = first + 1; i + 1 < stop; i++) {
    const [a, b, c] = [3 * first, 3 * i, 3 * i + 3]
    const u = [p[b] - p[a], p[b + 1] - p[a + 1], p[b + 2] - p[a + 2]], v = [p[c] - p[a], p[c + 1] - p[a + 1], p[c + 2] - p[a + 2]]
    x += u[1] * v[2] - u[2] * v[1]; y += u[2] * v[0] - u[0] * v[2]; z += u[0] * v[1] - u[1] * v[0]
  }
  return Math.hypot(x, y, z) / 2
}

export class SpacePainter {
  constructor(canvas) {
    const gl = this.gl = context(canvas, {depth: true})
    this.program = link(gl, SPACE_VERTEX, SPACE_FRAGMENT)
    gl.useProgram(this.program)
    this.at = Object.fromEntries(SPACE_UNIFORMS.map(name => [name, gl.getUniformLocation(this.program, name)]))
    const {values, centers, colors} = this.at
    this.textures = new Textures(gl, {values, centers, colors})
    for (const place of [1, 2]) gl.vertexAttribI4ui(place, 0, 0, 0, 0) // where a batch has no tiles or depths
    this.batches = {}
  }

  setLevels(levels) { this.textures.setNumbers("values", levels) }
  setCenters(centers) { this.textures.setNumbers("centers", centers, 4) } // four numbers per tile, the last unused
  setColors(table) { this.textures.setPixels("colors", table, 256, 1) }

  setBatch(name, batch) { // null takes it away
    const gl = this.gl, old = this.batches[name]
    if (old) { gl.deleteVertexArray(old.array); old.buffers.forEach(buffer => gl.deleteBuffer(buffer)) }
    delete this.batches[name]
    if (!batch || !batch.position.length) return
    const made = this.batches[name] = {array: gl.createVertexArray(), buffers: [], corners: batch.position.length / 3, polygons: batch.polygons ?? 0, first: batch.first}
    gl.bindVertexArray(made.array)
    const buffer = (target, content) => { const one = gl.createBuffer(); made.buffers.push(one); gl.bindBuffer(target, one); gl.bufferData(target, content, gl.STATIC_DRAW); return one }
    ATTRIBUTES.forEach(([key, size], place) => {
      if (!batch[key]) return
      buffer(gl.ARRAY_BUFFER, batch[key])
      if (size) gl.vertexAttribPointer(place, size, gl.FLOAT, false, 0, 0)
      else gl.vertexAttribIPointer(place, 1, key === "tile" ? gl.UNSIGNED_INT : gl.UNSIGNED_BYTE, 0, 0)
      gl.enableVertexAttribArray(place)
    })
    for (const key of ["triangles", "lines"]) if (batch[key]) made[key] = [buffer(gl.ELEMENT_ARRAY_BUFFER, batch[key]), batch[key].length]
  }

  // how: {camera, eye, pixels, pull, plane ({normal, offset} or null), classes, deepest, ground, spot, walls, folds (walls by
  // depth, tiles unfilled where they are seen from outside), solids: [names], section: name or null, glass: [[name, color]], points,
  // quick (draw what comes first of each solid, and glass in one go), lines: the most edges of a solid that are drawn}
  draw(how) {
    const gl = this.gl, {at} = this, plane = how.plane ? [...how.plane.normal, how.plane.offset] : NO_PLANE
    gl.viewport(0, 0, gl.drawingBufferWidth, gl.drawingBufferHeight)
    gl.clearColor(...how.ground, 1)
    gl.depthMask(true)
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT)
    gl.enable(gl.DEPTH_TEST)
    gl.depthFunc(gl.LEQUAL)
    gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA)
    this.textures.bindAll()
    gl.uniformMatrix4fv(at.camera, false, how.camera)
    gl.uniform3f(at.eye, ...how.eye)
    for (const name of ["pixels", "pull", "deepest", "spot"]) gl.uniform1f(at[name], how[name])
    const ink = (r, g, b, a) => gl.uniform4f(at.ink, r, g, b, a)
    const cut = on => gl.uniform4f(at.plane, ...(on ? plane : NO_PLANE))
    gl.enable(gl.POLYGON_OFFSET_FILL)
    gl.polygonOffset(1, 1) // lines lie on top of what they bound
    const opaque = [...how.solids.map(name => [name, true]), ...(how.section ? [[how.section, false]] : [])]
    for (const [name, cutOff] of opaque) {
      cut(cutOff)
      gl.uniform1i(at.classes, how.folds ? 0 : how.classes)
      gl.uniform1f(at.shade, cutOff ? 1 : 0)
      ink(...how.dark, 1)
      if (cutOff) gl.enable(gl.CULL_FACE) // cells are closed: their far sides are not seen
      gl.cullFace(gl.BACK)
      this.pass(name, how.folds ? FRAME : FILL, "triangles", how.quick)
      gl.disable(gl.CULL_FACE)
    }
    gl.disable(gl.POLYGON_OFFSET_FILL)
    gl.enable(gl.BLEND)
    gl.uniform1f(at.shade, 0)
    if (how.walls || how.folds) for (const [name, cutOff] of opaque) {
      if (this.batches[name]?.lines[1] > 2 * how.lines) continue
      cut(cutOff)
      ink(0, 0, 0, 1)
      this.pass(name, how.folds ? FOLDS : LINES, "lines")
    }
    cut(false)
    ink(...how.line, .6)
    this.pass("frame", FRAME, "lines")
    gl.disable(gl.BLEND)
    if (how.points) this.pass("points", POINTS, null)
    gl.enable(gl.BLEND)
    gl.depthMask(false)
    gl.uniform1f(at.shade, 1)
    for (const side of how.quick ? [null] : [gl.FRONT, gl.BACK]) { // what is farther first
      if (side) { gl.enable(gl.CULL_FACE); gl.cullFace(side) }
      for (const [name, color] of how.glass) { ink(...color); this.pass(name, GLASS, "triangles") }
    }
    gl.disable(gl.CULL_FACE)
    gl.disable(gl.BLEND)
    gl.depthMask(true)
  }

  pass(name, mode, kind, quick = false) { // quick: no more than the batch says comes first
    const gl = this.gl, batch = this.batches[name]
    if (!batch) return
    gl.uniform1i(this.at.mode, mode)
    gl.bindVertexArray(batch.array)
    if (!kind) return gl.drawArrays(gl.POINTS, 0, batch.corners)
    const [indices, count] = batch[kind]
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, indices)
    gl.drawElements(kind === "triangles" ? gl.TRIANGLES : gl.LINES, quick ? batch.first ?? count : count, gl.UNSIGNED_INT, 0)
  }
}
