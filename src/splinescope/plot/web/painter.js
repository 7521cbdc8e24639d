// The GPU's side of the viewer: one program that fills tiles, draws walls, and spreads an image of dust.

import {CLASS_LEVEL, FIRST_FOLD} from "./colors.js"
import {context, drawnBySoftware, link, Textures} from "./gl.js"
import {SoftwarePainter} from "./software.js"

const VERTEX = `#version 300 es
precision highp float; precision highp int;
layout(location=0) in vec2 position; layout(location=1) in uint tile; layout(location=2) in uint depth;
layout(location=3) in float size; layout(location=4) in vec4 outputs0; layout(location=5) in vec4 outputs1; layout(location=6) in vec4 outputs2;
uniform vec2 shift, scale; uniform vec4 box; uniform highp sampler2D values; uniform float deepest, pixels, faintest; uniform int mode, layers;
flat out float level; flat out float strength; out vec2 place; out vec4 seen[3];
void main() {
  if (mode == 3) { // two triangles over the image of dust
    place = vec2(gl_VertexID & 1, gl_VertexID >> 1);
    gl_Position = vec4((mix(box.xy, box.zw, place) - shift) * scale, 0., 1.);
    level = 0.; strength = 1.; seen[0] = seen[1] = seen[2] = vec4(0.);
    return;
  }
  place = vec2(0.);
  seen[0] = outputs0; seen[1] = outputs1; seen[2] = outputs2;
  gl_Position = vec4((position - shift) * scale, 0., 1.);
  if (mode != 0 && int(depth) > layers) gl_Position = vec4(2., 2., 2., 1.); // a deeper fold than asked for: off the picture
  int width = textureSize(values, 0).x;
  level = mode == 2 ? mix(${FIRST_FOLD}, 1., float(int(depth) - 1) / max(1., deepest - 1.))
                    : texelFetch(values, ivec2(int(tile) % width, int(tile) / width), 0).r;
  strength = clamp((size * pixels - 2.) / 12., faintest, .9); // walls of small tiles are faint, or nothing else is seen
}`
const FRAGMENT = `#version 300 es
precision highp float; precision highp int;
flat in float level; flat in float strength; in vec2 place; in vec4 seen[3];
uniform int mode, classes; uniform sampler2D colors, dust; uniform float dim; uniform vec3 ink;
out vec4 color;
${CLASS_LEVEL}
void main() { // modes: 0 fill, 1 plain walls, 2 walls by depth, 3 dust
  if (mode == 3) {
    vec4 mean = texture(dust, place);
    if (mean.a < .5) discard;
    color = vec4(mean.rgb * dim, 1.);
  }
  else if (mode == 1) color = vec4(ink, strength);
  else {
    float at = mode == 0 && classes > 0 ? classLevel(seen, classes) : level;
    color = vec4(texture(colors, vec2(clamp(at, 0., 1.) * (255./256.) + .5/256., .5)).rgb, mode == 2 ? strength : 1.);
  }
}`
const UNIFORMS = ["shift", "scale", "values", "deepest", "pixels", "faintest", "mode", "layers", "colors", "dust", "dim", "ink", "box", "classes"]

export class Painter {
  constructor(canvas) {
    const gl = this.gl = context(canvas)
    this.program = link(gl, VERTEX, FRAGMENT)
    gl.useProgram(this.program)
    this.at = Object.fromEntries(UNIFORMS.map(name => [name, gl.getUniformLocation(this.program, name)]))
    const {values, colors, dust} = this.at
    this.textures = new Textures(gl, {values, colors, dust})
    this.array = gl.createVertexArray()
    gl.bindVertexArray(this.array)
    this.buffers = ["position", "tile", "depth", "size", "outputs0", "outputs1", "outputs2"].map((name, i) => {
      const buffer = gl.createBuffer()
      gl.bindBuffer(gl.ARRAY_BUFFER, buffer)
      if (name === "position") gl.vertexAttribPointer(i, 2, gl.FLOAT, false, 0, 0)
      else if (name.startsWith("outputs")) gl.vertexAttribPointer(i, 4, gl.FLOAT, false, 0, 0)
      else if (name === "size") gl.vertexAttribPointer(i, 1, gl.FLOAT, false, 0, 0)
      else gl.vertexAttribIPointer(i, 1, name === "tile" ? gl.UNSIGNED_INT : gl.UNSIGNED_BYTE, 0, 0)
      if (!name.startsWith("outputs")) gl.enableVertexAttribArray(i)
      return {name, buffer, place: i}
    })
    this.triangles = gl.createBuffer()
    this.lines = gl.createBuffer()
  }

  setMesh(mesh) {
    const gl = this.gl
    gl.bindVertexArray(this.array)
    const upload = (target, buffer, content) => { gl.bindBuffer(target, buffer); gl.bufferData(target, content, gl.DYNAMIC_DRAW) }
    for (const {name, buffer, place} of this.buffers) {
      if (mesh[name]) { upload(gl.ARRAY_BUFFER, buffer, mesh[name]); gl.enableVertexAttribArray(place) } else gl.disableVertexAttribArray(place)
    }
    upload(gl.ELEMENT_ARRAY_BUFFER, this.triangles, mesh.triangles)
    upload(gl.ELEMENT_ARRAY_BUFFER, this.lines, mesh.lines)
    this.counts = [mesh.triangles.length, mesh.lines.length]
  }

  setLevels(levels) { this.textures.setNumbers("values", levels) } // one number per tile, on the color table

  setColors(table) { this.textures.setPixels("colors", table, 256, 1) }

  setDust(image) {
    this.dustBox = image?.box
    if (image) this.textures.setPixels("dust", image.pixels, image.width, image.height)
  }

  // view: {x, y, scale, width, height}; how: {fill, walls, byDepth, layers, deepest, ground, ink, classes (how many outputs decide; 0: one class a tile)}
  draw(view, mesh, how) {
    const gl = this.gl, {at} = this
    gl.viewport(0, 0, gl.drawingBufferWidth, gl.drawingBufferHeight)
    gl.clearColor(...how.ground, 1)
    gl.clear(gl.COLOR_BUFFER_BIT)
    gl.bindVertexArray(this.array)
    this.textures.bindAll()
    gl.uniform2f(at.shift, view.x - mesh.x, view.y - mesh.y)
    gl.uniform2f(at.scale, 2 * view.scale / view.width, 2 * view.scale / view.height)
    gl.uniform1f(at.deepest, how.deepest)
    gl.uniform1i(at.layers, how.layers)
    gl.uniform1i(at.classes, how.classes)
    gl.uniform3f(at.ink, ...how.ink)
    if (this.dustBox) {
      gl.uniform4f(at.box, ...this.dustBox)
      gl.uniform1f(at.dim, how.fill && how.walls ? 0.8 : 1)
      gl.uniform1i(at.mode, 3)
      gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4)
    }
    gl.uniform1f(at.pixels, view.scale)
    if (how.fill) this.pass(0, gl.TRIANGLES, this.triangles, this.counts[0])
    if (!how.walls) return
    gl.uniform1f(at.faintest, how.byDepth ? 0.5 : 0.2)
    gl.enable(gl.BLEND)
    gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA)
    this.pass(how.byDepth ? 2 : 1, gl.LINES, this.lines, this.counts[1])
    gl.disable(gl.BLEND)
  }

  pass(mode, kind, indices, count) {
    this.gl.uniform1i(this.at.mode, mode)
    this.gl.bindBuffer(this.gl.ELEMENT_ARRAY_BUFFER, indices)
    this.gl.drawElements(kind, count, this.gl.UNSIGNED_INT, 0)
  }
}

export function painterFor(canvas) { return drawnBySoftware() ? new SoftwarePainter(canvas) : new Painter(canvas) }
