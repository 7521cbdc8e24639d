// A camera that turns about a point: a turntable with the third axis up, in perspective.

import {cross, inner, norm} from "./solid.js"

const FIELD = 0.28 // half of the picture's smaller side, at distance 1
const STEEPEST = 1.55
const HOME = {turn: -0.96, tilt: 0.42, distance: 7, target: [0, 0, 0]}

export class Camera {
  constructor() { this.home() }

  home() { Object.assign(this, structuredClone(HOME)) }

  resize(width, height) { this.width = width; this.height = height }

  turnBy(right, up) {
    this.turn -= right
    this.tilt = Math.min(STEEPEST, Math.max(-STEEPEST, this.tilt + up))
  }

  zoom(factor) { this.distance = Math.min(60, Math.max(0.02, this.distance / factor)) }

  pan(dx, dy) { // pixels
    const {right, up} = this.frame(), step = this.distance / this.focus()
    this.target = this.target.map((v, k) => Math.min(3, Math.max(-3, v - step * (dx * right[k] - dy * up[k]))))
  }

  focus() { return Math.min(this.width, this.height) / 2 / FIELD } // pixels per unit at distance 1

  frame() { // right, up and back as unit vectors, and where the eye is
    const back = [Math.cos(this.tilt) * Math.cos(this.turn), Math.cos(this.tilt) * Math.sin(this.turn), Math.sin(this.tilt)]
    const right = [-Math.sin(this.turn), Math.cos(this.turn), 0], up = cross(back, right)
    return {right, up, back, eye: this.target.map((v, k) => v + this.distance * back[k])}
  }

  matrix() { // column by column, for the GPU
    const {right, up, back, eye} = this.frame(), sx = 2 * this.focus() / this.width, sy = 2 * this.focus() / this.height
    const near = this.distance / 200, far = this.distance + 40, a = (far + near) / (near - far), b = 2 * far * near / (near - far)
    const columns = [0, 1, 2].map(k => [sx * right[k], sy * up[k], a * back[k], -back[k]])
    return new Float32Array([...columns.flat(), -sx * inner(right, eye), -sy * inner(up, eye), -a * inner(back, eye) + b, inner(back, eye)])
  }

  toScreen(p) { // pixels, and how far away; null behind the eye
    const {right, up, back, eye} = this.frame(), arm = p.map((v, k) => v - eye[k]), depth = -inner(back, arm)
    if (depth <= 1e-9) return null
    const scale = this.focus() / depth
    return [this.width / 2 + scale * inner(right, arm), this.height / 2 - scale * inner(up, arm), depth]
  }

  ray(px, py) { // from the eye through a pixel: origin and unit direction
    const {right, up, back, eye} = this.frame(), x = (px - this.width / 2) / this.focus(), y = (this.height / 2 - py) / this.focus()
    const way = right.map((v, k) => x * v + y * up[k] - back[k]), length = norm(way)
    return {origin: eye, direction: way.map(v => v / length)}
  }
}
