// The playground's server in a worker: takes the studio's messages and answers with its frames. Python's `playground.py` does the same.

import {unpack} from "../viewer/frame.js"
import {SHOWN, Trainer} from "./trainer.js"

const UNDER_WAY = 2 // frames that the page has not drawn yet: a slow page slows the training
const COUNT_EVERY = 150 // ms between points of the curve of tiles nearby, while training runs
const PIECE = 50 // steps between looks at what else was ordered

const state = {trainer: null, running: false, speed: 1, stale: false, ahead: 0, until: null, color: "class", selected: null, credit: UNDER_WAY, tag: null, counted: 0}
const here = name => new URL(name, import.meta.url)

const ORDERS = {
  ack: () => { state.credit = Math.min(UNDER_WAY, state.credit + 1) },
  make({recipe, tag, steps = 0, until = null, run = false}) {
    Object.assign(state, {tag, trainer: null, ahead: steps, until, running: false, selected: null})
    state.trainer = new Trainer(checked({...state.limits.defaults, ...recipe}))
    Object.assign(state, {running: run, stale: true})
  },
  speed: ({steps}) => { state.speed = steps },
  run: ({running}) => { state.running = running && state.trainer !== null; state.stale = true },
  color: ({color}) => { state.color = color; state.stale = true },
  step: () => change(trainer => trainer.train(1)),
  move: ({point, x, y}) => change(trainer => trainer.movePoint(point, x, y)),
  fold: ({layer, unit, x, y}) => change(trainer => trainer.moveFold(layer, unit, x, y)),
  weight: ({layer, unit, source, value}) => change(trainer => trainer.setWeight(layer, unit, source, value)),
  select: ({unit}) => { state.selected = unit; state.stale = true },
}

function checked(recipe) { // what a link says may be anything
  for (const [name, choices] of Object.entries(state.limits.choices)) if (!choices.includes(recipe[name])) throw new Error(`${name} must be one of ${choices.join(", ")}, got '${recipe[name]}'.`)
  for (const [name, [low, high]] of Object.entries(state.limits.ranges)) {
    const whole = Number.isInteger(state.limits.defaults[name]) && !["noise", "decay"].includes(name)
    if (!(recipe[name] >= low && recipe[name] <= high) || (whole && !Number.isInteger(recipe[name]))) throw new Error(`${name} must be a ${whole ? "whole " : ""}number from ${low} to ${high}, got '${recipe[name]}'.`)
  }
  return recipe
}

function change(act) { if (state.trainer) { act(state.trainer); state.stale = true } }

const VERBS = {
  limits: async () => { state.limits = await (await fetch(here("limits.json"))).json(); return {answer: state.limits} },
  scene: async ({name}) => { // recorded when these files were made
    const found = await fetch(here(`scene-${name}.bin`))
    if (!found.ok) throw new Error("this scene was not recorded with these files.")
    return unpack(await found.arrayBuffer())
  },
}

self.onmessage = async ({data: message}) => {
  if (message.do === "playground") return attempt(() => { ORDERS[message.order](message); wake() })
  try {
    self.postMessage({id: message.id, ...await VERBS[message.do](message)})
  } catch (error) { self.postMessage({id: message.id, error: error.message}) }
}

function attempt(act) { // what goes wrong is told, and training pauses
  try { act() } catch (error) {
    Object.assign(state, {running: false, stale: false, ahead: 0})
    self.postMessage({playground: "error", error: error.message})
  }
}

let waiting = false
function wake() { // a task of its own: orders that came meanwhile are carried out first
  if (waiting || !state.trainer || state.credit <= 0 || !(state.running || state.stale)) return
  waiting = true
  setTimeout(() => { waiting = false; attempt(show); wake() })
}

function show() {
  const {trainer, running, speed, until} = state, now = performance.now()
  if (!trainer || state.credit <= 0) return
  if (state.ahead) {
    const steps = Math.min(state.ahead, PIECE)
    trainer.train(steps)
    state.ahead -= steps
    return
  }
  if (running) {
    trainer.train(until !== null && until > trainer.steps ? Math.min(speed, until - trainer.steps) : speed)
    if (trainer.steps === until) state.running = false
  }
  const near = !state.running || now - state.counted > COUNT_EVERY
  if (near) state.counted = now
  const frame = trainer.frame(state.selected, state.running ? ["class", state.color] : SHOWN, near)
  state.stale = false
  state.credit--
  self.postMessage({...frame, tag: state.tag, running: state.running})
}
